//! What an importer gives: a field, where it is valid, and what is known beside it.

use std::path::{Path, PathBuf};

use gpara::{Result, ValidMask};
use serde_json::json;

use super::error::ImportError;
use crate::field::{Field, encode_mask, encode_npy, write_together};
use crate::units::Unit;

/// One scene of a data set in the terms of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedScene {
    /// Its name in the data set.
    pub name: String,
    /// The cells that belong to the field.
    pub valid: ValidMask,
    /// The field itself, in `unit`; what it holds at cells that are not valid means nothing.
    pub field: Field,
    /// The unit of the field.
    pub unit: Unit,
    /// Context channels by name, on the same grid.
    pub channels: Vec<(&'static str, Field)>,
    /// Row and column of the transmitter, in a radio scene.
    pub transmitter: Option<(usize, usize)>,
    /// Side of a cell in metres, where it is known.
    pub metres_per_cell: Option<f64>,
    /// What a person should know about the scene.
    pub warnings: Vec<String>,
}

impl ImportedScene {
    /// Writes `field.npy`, `valid.png` (255 = valid), `channel_NAME.npy` and `scene.json` into a folder, which is made if it
    /// is not there. All files appear or none. Returns the path of `scene.json`.
    ///
    /// # Errors
    /// `Io` if the folder cannot be made or written to.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder).map_err(|source| ImportError::Create { path: folder.into(), source })?;
        let array = |name: String, field: &Field| -> Result<(PathBuf, Vec<u8>)> {
            let path = folder.join(name);
            let bytes = encode_npy(&path, field.grid(), field.values())?;
            Ok((path, bytes))
        };
        let mut files = vec![array("field.npy".into(), &self.field)?];
        let mask = folder.join("valid.png");
        files.push((mask.clone(), encode_mask(&mask, &self.valid)?));
        for (name, channel) in &self.channels {
            files.push(array(format!("channel_{name}.npy"), channel)?);
        }
        let summary = folder.join("scene.json");
        let text = json!({
            "name": self.name,
            "rows": self.valid.grid().rows(),
            "cols": self.valid.grid().cols(),
            "num_valid": self.valid.num_valid(),
            "unit": self.unit.name(),
            "transmitter": self.transmitter.map(|(row, col)| json!({ "row": row, "col": col })),
            "metres_per_cell": self.metres_per_cell,
            "channels": self.channels.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            "warnings": self.warnings,
        });
        files.push((summary.clone(), format!("{text:#}\n").into_bytes()));
        write_together(&files)?;
        Ok(summary)
    }
}
