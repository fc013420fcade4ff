//! Folders in RadioMapSeer's layout, at their full resolution: `png/buildings_complete/M.png`, `antenna/M.json`,
//! `gain/SIMULATION/M_T.png`.

use std::path::{Path, PathBuf};

use gpara::Result;

use super::error::ImportError;
use super::scene::ImportedScene;
use crate::field::{Field, GrayPng, MaskFile, read_file};
use crate::radio::gain_db_from_gray;
use crate::units::Unit;

/// Side of a pixel.
const METRES_PER_CELL: f64 = 1.0;

/// A folder of radio maps.
#[derive(Debug, Clone)]
pub struct RadioMapSeer {
    root: PathBuf,
    gains: PathBuf,
}

impl RadioMapSeer {
    /// Opens a folder; `simulation` names the folder in `gain/` (`DPM`, `IRT4`, ...), and need not if there is one only.
    ///
    /// # Errors
    /// `Io` if `gain/` cannot be read; `InvalidInput` if the simulation must be named, or is not there.
    pub fn open(root: &Path, simulation: Option<&str>) -> Result<Self> {
        let folder = root.join("gain");
        let entries = names_in(&folder, |path| path.is_dir())?;
        let name = match (simulation, entries.as_slice()) {
            (Some(name), found) if found.iter().any(|entry| entry == name) => name,
            (None, [only]) => only,
            _ => return Err(ImportError::Simulation { path: folder, found: entries }.into()),
        };
        Ok(Self { root: root.into(), gains: folder.join(name) })
    }

    /// The ids `M_T` of all gain maps, in the order of their numbers.
    ///
    /// # Errors
    /// `Io` if the folder of gains cannot be read.
    pub fn ids(&self) -> Result<Vec<String>> {
        let mut ids: Vec<(usize, usize)> = names_in(&self.gains, |path| path.is_file())?
            .iter()
            .filter_map(|name| numbers(name.strip_suffix(".png")?))
            .collect();
        ids.sort_unstable();
        Ok(ids.into_iter().map(|(map, transmitter)| format!("{map}_{transmitter}")).collect())
    }

    /// Reads one map: gains in dB where there is no building, the channel `buildings`, the transmitter.
    ///
    /// # Errors
    /// `InvalidInput` for an id that is not there, or a file that is not as the layout has it; `ShapeMismatch` if gains and
    /// buildings differ in size; `Io` if a file cannot be read.
    pub fn scene(&self, id: &str) -> Result<ImportedScene> {
        let no_scene = |allowed: String| ImportError::NoScene { id: id.into(), path: self.gains.clone(), allowed };
        let (map, transmitter) = numbers(id).ok_or_else(|| no_scene("ids are MAP_TRANSMITTER".into()))?;

        let antennas = self.root.join(format!("antenna/{map}.json"));
        let places: Vec<(usize, usize)> = serde_json::from_slice(&read_file(&antennas)?)
            .map_err(|error| ImportError::Content { path: antennas, reason: error.to_string() })?;
        let &(col, row) = places.get(transmitter).ok_or_else(|| {
            no_scene(format!("map {map} has the transmitters 0 to {}", places.len().saturating_sub(1)))
        })?;

        let buildings = MaskFile::read(&self.root.join(format!("png/buildings_complete/{map}.png")))?;
        let grid = buildings.grid();
        let gain_path = self.gains.join(format!("{map}_{transmitter}.png"));
        let gain = GrayPng::decode(&read_file(&gain_path)?, &gain_path)?;
        if gain.grid != grid {
            let (what, other) = ("gain map", "building mask");
            return Err(ImportError::Size { what, found: gain.grid, other, expected: grid }.into());
        }
        if row >= grid.rows() || col >= grid.cols() {
            return Err(ImportError::Transmitter { row, col, grid }.into());
        }
        let inside = buildings.marked().iter().map(|&building| f64::from(u8::from(building))).collect();
        let valid = buildings.into_valid(false)?;
        // 16-bit files hold the same range in finer steps.
        let steps = f64::from(gain.white) / 255.0;
        let at_floor = valid.nodes().filter(|&node| gain.gray[node] == 0).count();
        let warnings = match at_floor {
            0 => Vec::new(),
            _ => vec![format!(
                "{at_floor} of {} valid cells are at the gain floor: their gain is this or less",
                valid.num_valid()
            )],
        };
        let gains = gain.gray.iter().map(|&gray| gain_db_from_gray(f64::from(gray) / steps)).collect();
        Ok(ImportedScene {
            name: format!("{map}_{transmitter}"),
            field: Field::new(grid, gains)?,
            unit: Unit::Decibel,
            channels: vec![("buildings", Field::new(grid, inside)?)],
            transmitter: Some((row, col)),
            metres_per_cell: Some(METRES_PER_CELL),
            valid,
            warnings,
        })
    }
}

/// `M` and `T` of `M_T`.
fn numbers(id: &str) -> Option<(usize, usize)> {
    let (map, transmitter) = id.split_once('_')?;
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    Some((number(map)?, number(transmitter)?))
}

/// The names in a folder that are of a kind, sorted.
pub(super) fn names_in(folder: &Path, is_kind: impl Fn(&Path) -> bool) -> Result<Vec<String>> {
    let failed = |source| ImportError::Read { path: folder.into(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if is_kind(&entry.path()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;
    use image::GrayImage;

    use super::*;

    /// Map 7 of 2 x 3 pixels with two transmitters.
    fn data_set() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for folder in ["png/buildings_complete", "antenna", "gain/DPM"] {
            std::fs::create_dir_all(path(folder)).unwrap();
        }
        let save = |name: &str, pixels: Vec<u8>| GrayImage::from_vec(3, 2, pixels).unwrap().save(path(name)).unwrap();
        save("png/buildings_complete/7.png", vec![255, 0, 0, 0, 0, 255]);
        save("gain/DPM/7_0.png", vec![0, 255, 51, 0, 102, 0]);
        save("gain/DPM/7_1.png", vec![0, 255, 51, 10, 102, 0]);
        std::fs::write(path("antenna/7.json"), "[[2, 0], [1, 1]]").unwrap();
        root
    }

    #[test]
    fn scene_has_gains_in_db_buildings_and_transmitter() {
        let root = data_set();
        let data = RadioMapSeer::open(root.path(), None).unwrap();
        assert_eq!(data.ids().unwrap(), ["7_0", "7_1"]);
        let scene = data.scene("7_0").unwrap();
        assert_eq!(scene.valid.nodes().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(scene.transmitter, Some((0, 2)));
        let expected = [-47.84, -147.0 + 99.16 / 5.0, -147.0, -147.0 + 99.16 * 0.4];
        for (node, expected) in scene.valid.nodes().zip(expected) {
            assert!((scene.field.values()[node] - expected).abs() < 1e-9, "{node}");
        }
        assert_eq!(scene.channels[0].1.values(), [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        assert!(scene.warnings[0].contains("1 of 4 valid cells"), "{}", scene.warnings[0]);
        assert!(data.scene("7_1").unwrap().warnings.is_empty());
    }

    #[test]
    fn written_scene_reads_back() {
        let root = data_set();
        let scene = RadioMapSeer::open(root.path(), Some("DPM")).unwrap().scene("7_1").unwrap();
        let out = root.path().join("out/scene");
        let summary = std::fs::read_to_string(scene.write(&out).unwrap()).unwrap();
        assert!(summary.contains("\"unit\": \"dB\"") && summary.contains("\"row\": 1"), "{summary}");
        let field = Field::read(&out.join("field.npy"), None).unwrap();
        assert_eq!(field.values()[1], f64::from(-47.84_f32));
        let valid = MaskFile::read(&out.join("valid.png")).unwrap().into_valid(true).unwrap();
        assert_eq!(valid, scene.valid);
        assert!(out.join("channel_buildings.npy").exists());
    }

    #[test]
    fn what_is_not_there_is_named() {
        let root = data_set();
        let data = RadioMapSeer::open(root.path(), None).unwrap();
        for id in ["7_2", "7", "x_0", "7_-1"] {
            let error = data.scene(id).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{id}");
            assert!(error.to_string().contains(id), "{error}");
        }
        assert_eq!(data.scene("8_0").unwrap_err().kind(), ErrorKind::Io);
        assert!(RadioMapSeer::open(root.path(), Some("IRT4")).unwrap_err().to_string().contains("DPM"));
        std::fs::create_dir(root.path().join("gain/IRT4")).unwrap();
        assert_eq!(RadioMapSeer::open(root.path(), None).unwrap_err().kind(), ErrorKind::InvalidInput);
        std::fs::write(root.path().join("antenna/7.json"), "[[3, 0]]").unwrap();
        assert_eq!(data.scene("7_0").unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
