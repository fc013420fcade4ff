//! Folders of radio maps in RadioMapSeer's layout: buildings, antennas, gain maps, a split.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpara::Result;
use serde::de::DeserializeOwned;

use super::error::RadioError;
use super::gray::Gray;
use super::scene::RadioScene;
use crate::split::Split;

/// One radio map: a scene and its normalised gain.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioMap {
    /// `MAP_TRANSMITTER`, e.g. `12_0`.
    pub id: String,
    /// Buildings and transmitter.
    pub scene: RadioScene,
    /// One value a node, `2 gray / 255 - 1`; -1 at invalid cells.
    pub field: Vec<f32>,
}

/// A folder of radio maps, 1 m per pixel, read at half the resolution of its files.
///
/// Layout: `png/buildings_complete/M.png`, `antenna/M.json` (`[[x, y], ...]`, x = column), `gain/RayLaunch/M_T.png`,
/// `split.json` (`train`, `val`, `test`: lists of `"M_T"`).
#[derive(Debug, Clone)]
pub struct RadioDataset {
    root: PathBuf,
    splits: BTreeMap<String, Vec<String>>,
}

/// Side of a pixel of the files, in metres.
const METERS_PER_PIXEL: f64 = 1.0;

impl RadioDataset {
    /// Opens a folder; the maps themselves are read by [`load`](Self::load).
    ///
    /// # Errors
    /// `Io` if `split.json` cannot be read, `InvalidInput` if it lacks one of the three lists.
    pub fn open(root: &Path) -> Result<Self> {
        let path = root.join("split.json");
        let splits: BTreeMap<String, Vec<String>> = read_json(&path)?;
        for split in [Split::Train, Split::Validation, Split::Test] {
            if !splits.contains_key(split.key()) {
                let reason = format!("the list `{}` is missing", split.key());
                return Err(RadioError::Json { path, reason }.into());
            }
        }
        Ok(Self { root: root.into(), splits })
    }

    /// The ids `M_T` of one part, in the order of `split.json`.
    pub fn split(&self, split: Split) -> &[String] {
        &self.splits[split.key()]
    }

    /// Reads one map by its id.
    ///
    /// # Errors
    /// `InvalidInput` for an id that is not `M_T`, a transmitter the map lacks, a mask value other than 0 and 255;
    /// `ShapeMismatch` if gain and buildings differ in size; `Io` if a file cannot be read.
    pub fn load(&self, id: &str) -> Result<RadioMap> {
        let parts = id.split_once('_').filter(|(map, _)| is_number(map));
        let (map, transmitter) = parts
            .and_then(|(map, transmitter)| Some((map, transmitter.parse::<usize>().ok()?)))
            .ok_or_else(|| RadioError::Id { id: id.into() })?;

        let antennas: Vec<(usize, usize)> = read_json(&self.root.join(format!("antenna/{map}.json")))?;
        let &(col, row) = antennas.get(transmitter).ok_or_else(|| RadioError::NoTransmitter {
            map: map.into(),
            transmitter,
            count: antennas.len(),
        })?;
        let buildings_path = self.root.join(format!("png/buildings_complete/{map}.png"));
        let buildings = Gray::read(&buildings_path)?;
        let grid = buildings.grid;
        let built = buildings.into_buildings(&buildings_path)?;
        let gain = Gray::read(&self.root.join(format!("gain/RayLaunch/{id}.png")))?;
        let scene = RadioScene::from_halved_mask(grid, built, (row, col), METERS_PER_PIXEL)?;
        let field = scene.field_from_gray(gain.grid, &gain.values)?;
        Ok(RadioMap { id: id.into(), scene, field })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = std::fs::read(path).map_err(|source| RadioError::Read { path: path.into(), source })?;
    let value = serde_json::from_slice(&bytes)
        .map_err(|error| RadioError::Json { path: path.into(), reason: error.to_string() })?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;
    use image::GrayImage;

    use super::*;

    /// A data set of one map, 4 x 6 pixels, one building, two antennas.
    fn dataset_folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["png/buildings_complete", "antenna", "gain/RayLaunch"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        let mut buildings = GrayImage::new(6, 4);
        buildings.put_pixel(5, 0, image::Luma([255]));
        buildings.save(path("png/buildings_complete/7.png")).unwrap();
        let gain = GrayImage::from_fn(6, 4, |x, _| image::Luma([x as u8 * 10]));
        gain.save(path("gain/RayLaunch/7_1.png")).unwrap();
        std::fs::write(path("antenna/7.json"), "[[0, 0], [4, 3]]").unwrap();
        std::fs::write(path("split.json"), r#"{"train": [], "val": [], "test": ["7_1"]}"#).unwrap();
        folder
    }

    #[test]
    fn map_is_read_with_x_as_column_and_halved() {
        let folder = dataset_folder();
        let dataset = RadioDataset::open(folder.path()).unwrap();
        assert_eq!(dataset.split(Split::Test), ["7_1"]);
        assert!(dataset.split(Split::Train).is_empty());
        let map = dataset.load("7_1").unwrap();
        assert_eq!(map.scene.transmitter(), (1.25, 1.75));
        assert_eq!(map.scene.valid().as_slice(), [true, true, false, true, true, true]);
        let expected = [5.0, 25.0, 0.0, 5.0, 25.0, 45.0].map(|gray: f64| (2.0 * gray / 255.0 - 1.0) as f32);
        assert_eq!(map.field, expected);
    }

    #[test]
    fn bad_ids_and_files_are_told_apart_by_kind() {
        let folder = dataset_folder();
        let dataset = RadioDataset::open(folder.path()).unwrap();
        let kind = |id: &str| dataset.load(id).unwrap_err().kind();
        for id in ["7", "7_x", "_1", "../7_1", "7_2"] {
            assert_eq!(kind(id), ErrorKind::InvalidInput, "{id}");
        }
        assert_eq!(kind("8_0"), ErrorKind::Io);
        assert_eq!(kind("7_0"), ErrorKind::Io, "gain map is missing");

        let path = folder.path().join("gain/RayLaunch/7_1.png");
        GrayImage::new(4, 4).save(&path).unwrap();
        assert_eq!(kind("7_1"), ErrorKind::ShapeMismatch);
        std::fs::write(&path, b"not a picture").unwrap();
        assert_eq!(kind("7_1"), ErrorKind::InvalidInput);
        image::ImageBuffer::<image::Luma<u16>, _>::new(6, 4).save(&path).unwrap();
        assert_eq!(kind("7_1"), ErrorKind::InvalidInput, "16-bit gain map");
        let path = folder.path().join("png/buildings_complete/7.png");
        GrayImage::from_fn(6, 4, |x, _| image::Luma([x as u8])).save(path).unwrap();
        assert!(dataset.load("7_1").unwrap_err().to_string().contains("value 1 at row 0, col 1"));
    }

    #[test]
    fn split_without_a_list_or_missing_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RadioDataset::open(folder.path()).unwrap_err().kind(), ErrorKind::Io);
        std::fs::write(folder.path().join("split.json"), r#"{"train": [], "test": []}"#).unwrap();
        let error = RadioDataset::open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("`val`"), "{error}");
    }
}
