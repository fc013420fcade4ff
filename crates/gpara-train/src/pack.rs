//! A smaller copy of a depth data set, to be carried to a machine with a GPU.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use gpara::Result;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use rayon::prelude::*;

use crate::error::TrainError;

/// How much a packed copy may lose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PackSettings {
    /// JPEG quality of the pictures, 1 to 100.
    pub quality: u8,
    /// Depths are rounded to multiples of this many millimetres.
    pub step_millimeters: u16,
}

/// What a packed copy holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackReport {
    /// Number of maps.
    pub num_maps: usize,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Copies `rgb/*.jpg`, `depth/*.png` and `split.json`, pictures at a lower quality and depths in coarser steps. The copy is
/// read like the data set.
///
/// # Errors
/// `Io` if a file cannot be read or written; `Incompatible` for one that is no picture; `InvalidInput` for settings out of
/// range.
pub fn pack_depth(from: &Path, to: &Path, settings: PackSettings) -> Result<PackReport> {
    let PackSettings { quality, step_millimeters } = settings;
    if quality == 0 || quality > 100 {
        return Err(TrainError::Setting { key: "--quality", value: quality.to_string(), allowed: "1 to 100" }.into());
    }
    if step_millimeters == 0 {
        return Err(TrainError::Setting { key: "--step-mm", value: "0".into(), allowed: "at least 1" }.into());
    }
    for folder in ["rgb", "depth"] {
        let path = to.join(folder);
        fs::create_dir_all(&path).map_err(|source| TrainError::Io { action: "create", path, source })?;
    }
    let split = to.join("split.json");
    fs::copy(from.join("split.json"), &split).map_err(|source| TrainError::Io {
        action: "copy",
        path: from.join("split.json"),
        source,
    })?;
    let depths = files(&from.join("depth"))?;
    let sizes = depths
        .par_iter()
        .map(|depth| {
            let name = depth.file_stem().unwrap_or_default();
            let picture = from.join("rgb").join(name).with_extension("jpg");
            let rgb = pack_picture(&picture, &to.join("rgb").join(name).with_extension("jpg"), quality)?;
            Ok(rgb + pack_depths(depth, &to.join("depth").join(name).with_extension("png"), step_millimeters)?)
        })
        .collect::<Result<Vec<u64>>>()?;
    Ok(PackReport { num_maps: depths.len(), bytes: sizes.iter().sum::<u64>() + size(&split)? })
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| TrainError::Io { action: "list", path: folder.into(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "png"));
    files.sort();
    Ok(files)
}

fn pack_picture(from: &Path, to: &Path, quality: u8) -> Result<u64> {
    let picture = image::open(from).map_err(|error| broken(from, &error))?.into_rgb8();
    let encoder = JpegEncoder::new_with_quality(writer(to)?, quality);
    encoder
        .write_image(&picture, picture.width(), picture.height(), ExtendedColorType::Rgb8)
        .map_err(|error| broken(to, &error))?;
    size(to)
}

fn pack_depths(from: &Path, to: &Path, step: u16) -> Result<u64> {
    let depth = image::open(from).map_err(|error| broken(from, &error))?.into_luma16();
    let step = u32::from(step);
    let rounded = |&depth: &u16| {
        let multiple = (u32::from(depth) + step / 2) / step * step;
        // A small depth must not become 0, which stands for none.
        if depth == 0 { 0 } else { multiple.clamp(step, u32::from(u16::MAX) / step * step) as u16 }
    };
    // `image` takes 16-bit samples in the machine's byte order.
    let bytes: Vec<u8> = depth.as_raw().iter().flat_map(|depth| rounded(depth).to_ne_bytes()).collect();
    let encoder = PngEncoder::new_with_quality(writer(to)?, CompressionType::Best, FilterType::Adaptive);
    encoder
        .write_image(&bytes, depth.width(), depth.height(), ExtendedColorType::L16)
        .map_err(|error| broken(to, &error))?;
    size(to)
}

fn writer(path: &Path) -> Result<BufWriter<fs::File>> {
    let file = fs::File::create(path);
    Ok(BufWriter::new(file.map_err(|source| TrainError::Io { action: "write", path: path.into(), source })?))
}

fn size(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path);
    Ok(metadata.map_err(|source| TrainError::Io { action: "read", path: path.into(), source })?.len())
}

fn broken(path: &Path, error: &image::ImageError) -> gpara::Error {
    TrainError::File { path: path.into(), reason: error.to_string() }.into()
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;
    use gpara_tasks::depth::{DepthDataset, meters_from_normalized};
    use image::{ImageBuffer, Luma, Rgb};

    use super::*;

    #[test]
    fn packed_copy_reads_like_the_original_within_the_stated_loss() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in ["rgb", "depth"] {
            fs::create_dir_all(from.path().join(folder)).unwrap();
        }
        fs::write(from.path().join("split.json"), r#"{"train": [1], "test": [2]}"#).unwrap();
        for id in ["0001", "0002"] {
            let rgb = ImageBuffer::<Rgb<u8>, _>::from_fn(24, 16, |x, y| Rgb([(8 * x) as u8, (10 * y) as u8, 90]));
            rgb.save(from.path().join(format!("rgb/{id}.jpg"))).unwrap();
            let depth = ImageBuffer::<Luma<u16>, _>::from_fn(24, 16, |x, y| Luma([(7 * x * y + 3 * x) as u16]));
            depth.save(from.path().join(format!("depth/{id}.png"))).unwrap();
        }
        let settings = PackSettings { quality: 85, step_millimeters: 10 };
        let report = pack_depth(from.path(), to.path(), settings).unwrap();
        assert_eq!(report.num_maps, 2);
        let maps = [from.path(), to.path()].map(|root| DepthDataset::open(root).unwrap().load("0002").unwrap());
        let [original, packed] = &maps;
        assert_eq!(packed.valid, original.valid);
        for (node, (found, expected)) in packed.field.iter().zip(&original.field).enumerate() {
            let [found, expected] = [*found, *expected].map(|value| meters_from_normalized(f64::from(value)) * 1000.0);
            // Depths below half a step are rounded up to a step.
            assert!(
                (found - expected).abs() <= 5.001 || (expected < 5.0 && found < 10.001),
                "{node}: {found} {expected}"
            );
        }
        let bytes: u64 = ["rgb/0001.jpg", "rgb/0002.jpg", "depth/0001.png", "depth/0002.png", "split.json"]
            .map(|name| fs::metadata(to.path().join(name)).unwrap().len())
            .iter()
            .sum();
        assert_eq!(report.bytes, bytes);
    }

    #[test]
    fn bad_settings_and_missing_folders_are_refused_by_kind() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |quality, step_millimeters| {
            let settings = PackSettings { quality, step_millimeters };
            pack_depth(folder.path(), &folder.path().join("to"), settings).unwrap_err().kind()
        };
        assert_eq!((kind(0, 10), kind(85, 0)), (ErrorKind::InvalidInput, ErrorKind::InvalidInput));
        assert_eq!(kind(85, 10), ErrorKind::Io);
    }
}
