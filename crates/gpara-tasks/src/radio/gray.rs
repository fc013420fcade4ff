//! 8-bit gray PNG files: building masks and gain maps of the radio data.

use std::path::Path;

use gpara::{Grid, Result};

use super::error::RadioError;
use crate::field::GrayPng;

/// A gray picture, one byte a cell, row 0 at the top.
pub(super) struct Gray {
    pub(super) grid: Grid,
    pub(super) values: Vec<u8>,
}

impl Gray {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|source| RadioError::Read { path: path.into(), source })?;
        Self::decode(&bytes, path)
    }

    /// Decodes the bytes of a PNG; `path` only names it in errors.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let png = GrayPng::decode(bytes, path)?;
        if png.white != u16::from(u8::MAX) {
            return Err(RadioError::NotGray8 { path: path.into() }.into());
        }
        let values = png.gray.into_iter().map(|gray| u8::try_from(gray).expect("8-bit gray is below 256")).collect();
        Ok(Self { grid: png.grid, values })
    }

    /// One flag a cell, true = building.
    pub(super) fn into_buildings(self, path: &Path) -> Result<Vec<bool>> {
        if let Some(node) = self.values.iter().position(|&value| value != 0 && value != 255) {
            let (row, col) = self.grid.row_col(node);
            return Err(RadioError::MaskValue { path: path.into(), value: self.values[node], row, col }.into());
        }
        Ok(self.values.into_iter().map(|value| value == 255).collect())
    }
}
