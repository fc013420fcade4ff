//! Folders of depth maps: colour pictures, depth in millimetres, a split.

use std::path::{Path, PathBuf};

use gpara::{Result, ValidMask};
use serde::Deserialize;

use super::error::DepthError;
use super::pictures::{Millimeters, Picture};
use super::scene::DepthScene;
use crate::split::Split;

/// One depth map: a picture and its normalised depth.
#[derive(Debug, Clone, PartialEq)]
pub struct DepthMap {
    /// Frame number of four digits, or `room_K`.
    pub id: String,
    /// The picture.
    pub scene: DepthScene,
    /// Cells that have a depth.
    pub valid: ValidMask,
    /// One value a node, `2 metres / 10 - 1`; -1 at invalid cells.
    pub field: Vec<f32>,
}

impl DepthMap {
    pub(super) fn new(id: String, picture: Picture, depth: Millimeters) -> Result<Self> {
        let scene = DepthScene::new(picture.grid, picture.rgb)?;
        let (valid, field) = scene.field_from_millimeters(depth.grid, &depth.values)?;
        Ok(Self { id, scene, valid, field })
    }
}

/// A folder of depth maps.
///
/// Layout: `rgb/KKKK.jpg`, `depth/KKKK.png` (16-bit gray, millimetres, 0 = none), `split.json` (`train`, `test`: lists of
/// frame numbers). The validation part is carved out of `train`, because frames that follow each other show the same
/// room: `train` falls into maximal runs of consecutive numbers, and whole runs are taken, the shortest first and of
/// equals the lower number first, as long as they hold at most a tenth of `train` together.
#[derive(Debug, Clone)]
pub struct DepthDataset {
    root: PathBuf,
    train: Vec<String>,
    validation: Vec<String>,
    test: Vec<String>,
}

/// `split.json`; other keys tell how it was made.
#[derive(Deserialize)]
struct SplitFile {
    train: Vec<u32>,
    test: Vec<u32>,
}

impl DepthDataset {
    /// Opens a folder; the maps themselves are read by [`load`](Self::load).
    ///
    /// # Errors
    /// `Io` if `split.json` cannot be read, `InvalidInput` if it lacks a list or a frame is in both.
    pub fn open(root: &Path) -> Result<Self> {
        let path = root.join("split.json");
        let text = std::fs::read_to_string(&path).map_err(|source| DepthError::Read { path: path.clone(), source })?;
        let split: SplitFile = serde_json::from_str(&text)
            .map_err(|error| DepthError::Json { path: path.clone(), reason: error.to_string() })?;
        if let Some(frame) = split.train.iter().find(|frame| split.test.contains(frame)) {
            return Err(DepthError::Json { path, reason: format!("frame {frame} is in `train` and `test`") }.into());
        }
        let (train, validation) = carve_validation(split.train);
        let ids = |frames: Vec<u32>| frames.into_iter().map(|frame| format!("{frame:04}")).collect();
        Ok(Self { root: root.into(), train: ids(train), validation: ids(validation), test: ids(split.test) })
    }

    /// The ids `KKKK` of one part.
    pub fn split(&self, split: Split) -> &[String] {
        match split {
            Split::Train => &self.train,
            Split::Validation => &self.validation,
            Split::Test => &self.test,
        }
    }

    /// Reads one map by its id.
    ///
    /// # Errors
    /// `InvalidInput` for an id that is not four digits or a file that is no picture; `ShapeMismatch` if picture and
    /// depth differ in size; `Io` if a file cannot be read.
    pub fn load(&self, id: &str) -> Result<DepthMap> {
        if id.len() != 4 || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(DepthError::Id { id: id.into() }.into());
        }
        let picture = Picture::read(&self.root.join(format!("rgb/{id}.jpg")))?;
        let depth = Millimeters::read(&self.root.join(format!("depth/{id}.png")))?;
        DepthMap::new(id.into(), picture, depth)
    }
}

/// Training and validation frames, each ascending.
fn carve_validation(mut frames: Vec<u32>) -> (Vec<u32>, Vec<u32>) {
    frames.sort_unstable();
    let mut runs: Vec<&[u32]> = frames.chunk_by(|left, right| left + 1 == *right).collect();
    runs.sort_by_key(|run| (run.len(), run[0]));
    let mut validation = Vec::new();
    for run in runs {
        if 10 * (validation.len() + run.len()) > frames.len() {
            break;
        }
        validation.extend_from_slice(run);
    }
    validation.sort_unstable();
    let train = frames.iter().copied().filter(|frame| validation.binary_search(frame).is_err()).collect();
    (train, validation)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;
    use image::{ImageBuffer, Luma, Rgb};

    use super::*;

    #[test]
    fn validation_is_whole_runs_the_shortest_first_up_to_a_tenth() {
        // Runs 1..=20, 22..=24, 30, 40..=55, 60: 41 frames, at most 4 to validate: 30 and 60; 22..=24 would make 5.
        let frames: Vec<u32> = (1..=20).chain(22..=24).chain([30]).chain(40..=55).chain([60]).collect();
        let (train, validation) = carve_validation(frames.clone());
        assert_eq!(validation, [30, 60]);
        assert_eq!(train, frames.into_iter().filter(|frame| ![30, 60].contains(frame)).collect::<Vec<u32>>());
        assert_eq!(carve_validation((1..50).collect()).1, [] as [u32; 0]);
    }

    /// A data set of one picture of 2 x 3 cells.
    fn dataset(folder: &Path) -> DepthDataset {
        std::fs::create_dir_all(folder.join("rgb")).unwrap();
        std::fs::create_dir_all(folder.join("depth")).unwrap();
        let split = r#"{"train": [3, 4], "test": [7], "test_groups": [[7]]}"#;
        std::fs::write(folder.join("split.json"), split).unwrap();
        ImageBuffer::<Rgb<u8>, _>::from_pixel(3, 2, Rgb([200, 100, 50])).save(folder.join("rgb/0007.jpg")).unwrap();
        let depth = ImageBuffer::<Luma<u16>, _>::from_fn(3, 2, |x, y| Luma([(1000 * (3 * y + x)) as u16]));
        depth.save(folder.join("depth/0007.png")).unwrap();
        DepthDataset::open(folder).unwrap()
    }

    #[test]
    fn map_is_read_with_rows_from_the_top_and_zero_as_no_depth() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = dataset(folder.path());
        assert_eq!(dataset.split(Split::Train), ["0003", "0004"]);
        assert_eq!(dataset.split(Split::Test), ["0007"]);
        let map = dataset.load("0007").unwrap();
        assert_eq!((map.scene.grid().rows(), map.scene.grid().cols()), (2, 3));
        assert_eq!(map.valid.as_slice(), [false, true, true, true, true, true]);
        let expected = [-1.0, -0.8, -0.6, -0.4, -0.2, 0.0];
        assert!(map.field.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6));
        // JPEG keeps a flat colour within a few levels.
        assert!(map.scene.rgb()[5].iter().zip([200, 100, 50]).all(|(&found, expected)| found.abs_diff(expected) < 4));
    }

    #[test]
    fn bad_folders_ids_and_files_are_refused_by_kind() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(DepthDataset::open(folder.path()).unwrap_err().kind(), ErrorKind::Io);
        let dataset = dataset(folder.path());
        let kind = |id: &str| dataset.load(id).unwrap_err().kind();
        assert_eq!(
            (kind("7"), kind("../7"), kind("0003")),
            (ErrorKind::InvalidInput, ErrorKind::InvalidInput, ErrorKind::Io)
        );
        image::GrayImage::new(3, 2).save(folder.path().join("depth/0007.png")).unwrap();
        assert_eq!(kind("0007"), ErrorKind::InvalidInput, "8-bit depth");
        ImageBuffer::<Luma<u16>, _>::new(2, 2).save(folder.path().join("depth/0007.png")).unwrap();
        assert_eq!(kind("0007"), ErrorKind::ShapeMismatch);
        std::fs::write(folder.path().join("rgb/0007.jpg"), b"no picture").unwrap();
        assert_eq!(kind("0007"), ErrorKind::InvalidInput);
        std::fs::write(folder.path().join("split.json"), r#"{"train": [7], "test": [7]}"#).unwrap();
        let error = DepthDataset::open(folder.path()).unwrap_err();
        assert!(error.to_string().contains("frame 7"), "{error}");
    }

    #[test]
    fn shared_pack_splits_into_1234_115_and_100_frames_without_neighbours_across() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/depth");
        let Some(root) = [root, "/work/shared/data/depth".into()].into_iter().find(|root| root.exists()) else {
            eprintln!("skipped: the depth pack is not on this machine");
            return;
        };
        let dataset = DepthDataset::open(&root).unwrap();
        let sizes = [Split::Train, Split::Validation, Split::Test].map(|split| dataset.split(split).len());
        assert_eq!(sizes, [1234, 115, 100]);
        let number = |id: &String| id.parse::<i32>().unwrap();
        let train: Vec<i32> = dataset.split(Split::Train).iter().map(number).collect();
        for frame in dataset.split(Split::Validation).iter().map(number) {
            assert!(!train.contains(&(frame - 1)) && !train.contains(&(frame + 1)), "frame {frame}");
        }
    }
}
