//! One map, or several that belong together, as files that hold every value.

use std::path::{Path, PathBuf};

use gpara::{Result, ValidMask};
use serde_json::json;

use super::error::ExportError;
use crate::field::{
    Ending, Field, PngScale, ascii_grid, encode_npy, encode_png16, geotiff, is_preview, world_file, write_together,
};
use crate::geo::Georeference;
use crate::units::Unit;

/// A map and what its files say about it.
#[derive(Debug, Clone, Copy)]
pub struct MapOutput<'a> {
    /// Which cells hold values; the others are missing in the file.
    pub valid: &'a ValidMask,
    /// One value a node.
    pub values: &'a [f64],
    /// The unit of the values.
    pub unit: Unit,
    /// The grid's place in the world, if it has one.
    pub georeference: Option<Georeference>,
}

impl MapOutput<'_> {
    /// Writes the map in the format of the file's ending. Nothing is written if anything fails.
    ///
    /// | ending | content | missing cells |
    /// |---|---|---|
    /// | `.tif`, `.tiff` | GeoTIFF, float32, transform and EPSG code | NaN, declared |
    /// | `.npy` | float32 | NaN |
    /// | `.png` | 16-bit gray, values within half a step; scale in the file and in `NAME.png.json`; a world file if there is a place | gray 0, which no value has |
    /// | `.csv` | a grid of numbers | empty |
    /// | `.asc` | ESRI ASCII grid | `NODATA_value` |
    ///
    /// # Errors
    /// `ShapeMismatch` if there is not one value a cell; `NonFinite` for a valid cell that is not; `InvalidInput` for another
    /// ending, the name of a preview, or a place that the format cannot tell; `Io` if a file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_maps(&[(path, *self)])
    }

    /// The files of the map, the map itself last.
    fn files(&self, path: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        if is_preview(path) {
            return Err(ExportError::PreviewName { path: path.into() }.into());
        }
        let field = self.with_missing_cells()?;
        let bytes = match Ending::of_written(path)? {
            Ending::Tiff => geotiff::encode(path, &field, self.georeference)?,
            Ending::Npy => encode_npy(path, field.grid(), field.values())?,
            Ending::Csv => csv(&field).into_bytes(),
            Ending::AsciiGrid => {
                let georeference = self.georeference.unwrap_or(Georeference::CELLS);
                ascii_grid::encode(path, &field, georeference)?.into_bytes()
            }
            Ending::Png | Ending::Npz => return self.png(path),
        };
        Ok(vec![(path.into(), bytes)])
    }

    /// The field with NaN outside of the mask.
    fn with_missing_cells(&self) -> Result<Field> {
        let mut values = self.values.to_vec();
        let given = Field::new(self.valid.grid(), self.values.to_vec())?;
        given.check_finite(self.valid)?;
        values.iter_mut().enumerate().filter(|(node, _)| !self.valid.is_valid(*node)).for_each(|(_, v)| *v = f64::NAN);
        Field::new(self.valid.grid(), values)
    }

    fn png(&self, path: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for node in self.valid.nodes() {
            (low, high) = (low.min(self.values[node]), high.max(self.values[node]));
        }
        // Gray 0 is kept for missing cells, so that the lowest value is gray 1. A constant map needs any step.
        let step = if low == high { 1.0 } else { (high - low) / f64::from(u16::MAX - 1) };
        let top = if low == high { low + 65_534.0 } else { high };
        let (bytes, scale) = encode_png16(path, self.valid, self.values, low - step, top)?;
        let mut files = vec![(sidecar(path), self.scale_text(scale).into_bytes())];
        if let Some(georeference) = self.georeference {
            let (name, text) = world_file::encode(path, georeference);
            files.push((name, text.into_bytes()));
        }
        files.push((path.into(), bytes));
        Ok(files)
    }

    fn scale_text(&self, scale: PngScale) -> String {
        let crs = self.georeference.and_then(Georeference::crs).map(|crs| crs.to_string());
        let text = json!({
            "value": "offset + step * gray",
            "offset": scale.offset(),
            "step": scale.step(),
            "unit": self.unit.name(),
            "missing_gray": 0,
            "crs": crs,
        });
        format!("{text:#}\n")
    }
}

/// `NAME.png.json`, beside the PNG.
fn sidecar(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

fn csv(field: &Field) -> String {
    let number = |value: &f64| if value.is_nan() { String::new() } else { value.to_string() };
    let line = |row: &[f64]| {
        let text = row.iter().map(number).collect::<Vec<_>>().join(",");
        // A lone missing cell would be an empty line, which readers skip.
        if text.is_empty() { "nan".to_string() } else { text }
    };
    field.values().chunks(field.grid().cols()).map(|row| line(row) + "\n").collect()
}

/// Writes several maps, such as mean and standard deviation, all of them or none: every file is complete on disk before
/// the first one gets its name.
///
/// # Errors
/// As [`MapOutput::write`]; `InvalidInput` also if two maps have one name.
pub fn write_maps(maps: &[(&Path, MapOutput<'_>)]) -> Result<()> {
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for (path, map) in maps {
        for (name, bytes) in map.files(path)? {
            if files.iter().any(|(other, _)| *other == name) {
                return Err(ExportError::Twice { path: name }.into());
            }
            files.push((name, bytes));
        }
    }
    write_together(&files)
}

#[cfg(test)]
mod tests {
    use gpara::{ErrorKind, Grid};

    use super::*;
    use crate::field::{Raster, RasterOptions};
    use crate::geo::Crs;

    fn map() -> (ValidMask, Vec<f64>) {
        let grid = Grid::new(11, 17).unwrap();
        let values = (0..grid.num_nodes()).map(|node| f64::from((node as f32).cos() * 40.0 - 90.0)).collect();
        let flags = (0..grid.num_nodes()).map(|node| node % 5 != 2).collect();
        (ValidMask::new(grid, flags).unwrap(), values)
    }

    fn place() -> Georeference {
        Georeference::north_up(431_000.0, 5_412_000.0, 2.5, Some(Crs::Epsg(32_632))).unwrap()
    }

    #[test]
    fn users_10_maps_are_written_without_loss_and_png_within_half_a_step() {
        let folder = tempfile::tempdir().unwrap();
        let (valid, values) = map();
        let output =
            MapOutput { valid: &valid, values: &values, unit: Unit::DecibelMilliwatt, georeference: Some(place()) };
        for name in ["a.tif", "a.npy", "a.csv", "a.asc", "a.png"] {
            let path = folder.path().join(name);
            output.write(&path).unwrap();
            let raster = Raster::read(&path, &RasterOptions::default()).unwrap();
            assert_eq!(raster.field.grid(), valid.grid(), "{name}");
            let tolerance = raster.scale.map_or(0.0, |scale| 0.5 * scale.step() * (1.0 + 1e-9));
            for node in valid.nodes() {
                let difference = (raster.field.values()[node] - values[node]).abs();
                assert!(difference <= tolerance, "{name}, node {node}: {difference}");
            }
            if name == "a.png" {
                // The missing cells are the only ones of gray 0.
                let scale = raster.scale.unwrap();
                let missing = RasterOptions { missing: Some(scale.offset()), ..RasterOptions::default() };
                let field = Raster::read(&path, &missing).unwrap().field;
                assert!((0..values.len()).all(|node| field.values()[node].is_nan() != valid.is_valid(node)));
                let sidecar = std::fs::read_to_string(folder.path().join("a.png.json")).unwrap();
                let sidecar: serde_json::Value = serde_json::from_str(&sidecar).unwrap();
                assert_eq!((sidecar["unit"].as_str(), sidecar["crs"].as_str()), (Some("dBm"), Some("EPSG:32632")));
                assert_eq!(sidecar["offset"].as_f64(), Some(scale.offset()));
                assert_eq!(raster.georeference.unwrap().affine(), place().affine());
            } else {
                assert!(
                    (0..values.len()).all(|node| raster.field.values()[node].is_nan() != valid.is_valid(node)),
                    "{name}"
                );
            }
            if name == "a.tif" {
                assert_eq!(raster.georeference, Some(place()));
            }
        }
    }

    #[test]
    fn users_10_all_files_of_a_call_appear_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let (valid, values) = map();
        let good = MapOutput { valid: &valid, values: &values, unit: Unit::None, georeference: None };
        let mut spoiled = values.clone();
        spoiled[0] = f64::NAN;
        let bad = MapOutput { values: &spoiled, ..good };
        let (mean, std) = (folder.path().join("mean.png"), folder.path().join("std.tif"));
        let missing = folder.path().join("missing/std.tif");
        let cases = [
            (vec![(mean.as_path(), good), (std.as_path(), bad)], ErrorKind::NonFinite),
            (vec![(mean.as_path(), good), (missing.as_path(), good)], ErrorKind::Io),
            (vec![(mean.as_path(), good), (mean.as_path(), good)], ErrorKind::InvalidInput),
        ];
        for (maps, kind) in cases {
            assert_eq!(write_maps(&maps).unwrap_err().kind(), kind);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{kind:?}");
        }
        write_maps(&[(&mean, good), (&std, good)]).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn users_10_previews_are_named_vis_and_never_taken_for_values() {
        let folder = tempfile::tempdir().unwrap();
        let (valid, values) = map();
        let output = MapOutput { valid: &valid, values: &values, unit: Unit::None, georeference: None };
        let preview = folder.path().join("a_vis.png");
        assert_eq!(output.write(&preview).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(crate::export::write_preview(&folder.path().join("a.tif"), &output).unwrap(), preview);
        let error = Raster::read(&preview, &RasterOptions::default()).unwrap_err();
        assert!(error.to_string().contains("preview"), "{error}");
        assert_eq!(output.write(&folder.path().join("a.jpg")).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(output.write(&folder.path().join("a.npz")).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn constant_maps_and_single_columns_survive() {
        let folder = tempfile::tempdir().unwrap();
        let valid = ValidMask::new(Grid::new(3, 1).unwrap(), vec![true, false, true]).unwrap();
        let output = MapOutput { valid: &valid, values: &[2.5, 9.0, 2.5], unit: Unit::Metre, georeference: None };
        for name in ["a.csv", "a.png", "a.tif", "a.asc"] {
            let path = folder.path().join(name);
            output.write(&path).unwrap();
            let field = Raster::read(&path, &RasterOptions::default()).unwrap().field;
            assert_eq!((field.values()[0], field.values()[2]), (2.5, 2.5), "{name}");
        }
    }
}
