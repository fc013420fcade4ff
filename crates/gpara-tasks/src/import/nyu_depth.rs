//! Folders in the layout of the NYU Depth V2 pack: `rgb/NAME.jpg` (or `.png`) and `depth/NAME.png` of 16 bits.

use std::path::{Path, PathBuf};

use gpara::Result;

use super::error::ImportError;
use super::radio_map_seer::names_in;
use super::rgb::read_rgb;
use super::scene::ImportedScene;
use crate::field::{Field, PngScale};
use crate::units::{Unit, depth_warning, valid_depths};

/// A folder of pictures with depths.
#[derive(Debug, Clone)]
pub struct NyuDepth {
    root: PathBuf,
    scale: PngScale,
}

impl NyuDepth {
    /// Opens a folder whose depth files have `steps_per_metre` gray steps a metre, 1000 for millimetres.
    ///
    /// # Errors
    /// `InvalidInput` if the number is 0 or not finite.
    pub fn open(root: &Path, steps_per_metre: f64) -> Result<Self> {
        Ok(Self { root: root.into(), scale: PngScale::per_unit(steps_per_metre)? })
    }

    /// The names of all depth files, sorted.
    ///
    /// # Errors
    /// `Io` if the folder `depth` cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let files = names_in(&self.root.join("depth"), |path| path.is_file())?;
        Ok(files.iter().filter_map(|name| name.strip_suffix(".png")).map(String::from).collect())
    }

    /// Reads one scene: depth in metres, valid where it is above 0, and the channels `red`, `green`, `blue` from 0 to 1.
    ///
    /// A median depth outside of 0.1 to 20 m gives a warning that names `flag`, what sets the scale.
    ///
    /// # Errors
    /// `Io` if a file is missing; `InvalidInput` if one is damaged or no depth is valid; `ShapeMismatch` if the two differ in
    /// size.
    pub fn scene(&self, name: &str, flag: &str) -> Result<ImportedScene> {
        let field = Field::read(&self.root.join(format!("depth/{name}.png")), Some(self.scale))?;
        let picture = ["jpg", "jpeg", "png"].map(|ending| self.root.join(format!("rgb/{name}.{ending}")));
        let picture = picture.iter().find(|path| path.exists()).unwrap_or(&picture[0]);
        let channels = read_rgb(picture)?;
        let found = channels[0].1.grid();
        if found != field.grid() {
            return Err(ImportError::Size { what: "picture", found, other: "depth", expected: field.grid() }.into());
        }
        let valid = valid_depths(&field)?;
        let warnings = depth_warning(&field, &valid, flag).into_iter().collect();
        Ok(ImportedScene {
            name: name.into(),
            valid,
            field,
            unit: Unit::Metre,
            channels,
            transmitter: None,
            metres_per_cell: None,
            warnings,
        })
    }
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;
    use image::{ImageBuffer, Luma, Rgb, RgbImage};

    use super::*;

    fn data_set() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in ["rgb", "depth"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        let depth = ImageBuffer::<Luma<u16>, _>::from_vec(2, 2, vec![1500, 0, 2001, 65535]).unwrap();
        depth.save(root.path().join("depth/0001.png")).unwrap();
        RgbImage::from_pixel(2, 2, Rgb([255, 0, 51])).save(root.path().join("rgb/0001.png")).unwrap();
        root
    }

    #[test]
    fn scene_has_metres_valid_depths_and_three_channels() {
        let root = data_set();
        let data = NyuDepth::open(root.path(), 1000.0).unwrap();
        assert_eq!(data.names().unwrap(), ["0001"]);
        let scene = data.scene("0001", "--depth-scale").unwrap();
        assert_eq!(scene.field.values(), [1.5, 0.0, 2.001, 65.535]);
        assert_eq!(scene.valid.nodes().collect::<Vec<_>>(), [0, 2, 3]);
        let means: Vec<f64> = scene.channels.iter().map(|(_, channel)| channel.values()[3]).collect();
        assert_eq!(means, [1.0, 0.0, 0.2]);
        assert!(scene.warnings.is_empty());
        let wrong = NyuDepth::open(root.path(), 5.0).unwrap().scene("0001", "--depth-scale").unwrap();
        assert!(wrong.warnings[0].contains("--depth-scale"), "{}", wrong.warnings[0]);
        let out = root.path().join("out");
        scene.write(&out).unwrap();
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 6);
    }

    #[test]
    fn missing_picture_other_size_and_empty_depth_are_refused() {
        let root = data_set();
        let data = NyuDepth::open(root.path(), 1000.0).unwrap();
        RgbImage::new(3, 2).save(root.path().join("rgb/0001.png")).unwrap();
        assert_eq!(data.scene("0001", "").unwrap_err().kind(), ErrorKind::ShapeMismatch);
        std::fs::remove_file(root.path().join("rgb/0001.png")).unwrap();
        assert_eq!(data.scene("0001", "").unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(data.scene("0002", "").unwrap_err().kind(), ErrorKind::Io);
        assert!(NyuDepth::open(root.path(), 0.0).is_err());
    }
}
