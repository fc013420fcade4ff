//! Colour pictures (JPEG, PNG) and 16-bit depth maps (PNG) as they stand in files.

use std::path::Path;

use gpara::{Grid, Result};

use super::error::DepthError;
use crate::field::GrayPng;

/// A colour picture, row-major.
pub(super) struct Picture {
    pub(super) grid: Grid,
    pub(super) rgb: Vec<[u8; 3]>,
}

impl Picture {
    pub(super) fn read(path: &Path) -> Result<Self> {
        Self::decode(&read(path)?, path)
    }

    /// Decodes JPEG or PNG; `path` only names the file in errors.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let image = image::load_from_memory(bytes)
            .map_err(|error| DepthError::Picture { path: path.into(), reason: error.to_string() })?
            .into_rgb8();
        let grid = Grid::new(image.height() as usize, image.width() as usize)?;
        Ok(Self { grid, rgb: image.pixels().map(|pixel| pixel.0).collect() })
    }
}

/// A depth map in millimetres, row-major; 0 = no depth.
pub(super) struct Millimeters {
    pub(super) grid: Grid,
    pub(super) values: Vec<u16>,
}

impl Millimeters {
    pub(super) fn read(path: &Path) -> Result<Self> {
        Self::decode(&read(path)?, path)
    }

    /// Decodes a 16-bit gray PNG; `path` only names the file in errors.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let png = GrayPng::decode(bytes, path)?;
        if png.white != u16::MAX {
            return Err(DepthError::NotGray16 { path: path.into() }.into());
        }
        Ok(Self { grid: png.grid, values: png.gray })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|source| DepthError::Read { path: path.into(), source }.into())
}
