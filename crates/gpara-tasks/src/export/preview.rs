//! Small gray pictures of maps, for people.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use gpara::Result;
use image::{GrayAlphaImage, ImageFormat, LumaA};

use super::error::ExportError;
use super::map::MapOutput;
use crate::field::write_whole;

/// The name of the preview of a map: `map_vis.png` for `map.tif`.
pub fn preview_path(map: &Path) -> PathBuf {
    let mut name = map.file_stem().unwrap_or_default().to_owned();
    name.push("_vis.png");
    map.with_file_name(name)
}

/// Writes an 8-bit preview beside a map: dark is low, bright is high, missing cells are transparent. Returns its path.
///
/// # Errors
/// `Io` if the file cannot be written.
pub fn write_preview(map: &Path, output: &MapOutput<'_>) -> Result<PathBuf> {
    let path = preview_path(map);
    let grid = output.valid.grid();
    let shown = || output.valid.nodes().filter_map(|node| output.values.get(node)).filter(|value| value.is_finite());
    let low = shown().copied().fold(f64::INFINITY, f64::min);
    let high = shown().copied().fold(f64::NEG_INFINITY, f64::max);
    let span = if high > low { high - low } else { 1.0 };
    let picture = GrayAlphaImage::from_fn(grid.cols() as u32, grid.rows() as u32, |col, row| {
        let node = grid.node(row as usize, col as usize);
        match output.values.get(node) {
            // The cast saturates; the quotient lies in 0..=1 up to rounding.
            Some(value) if output.valid.is_valid(node) && value.is_finite() => {
                LumaA([(255.0 * (value - low) / span).round() as u8, 255])
            }
            _ => LumaA([0, 0]),
        }
    });
    let mut bytes = Cursor::new(Vec::new());
    let failed = |error: image::ImageError| ExportError::Encoding { path: path.clone(), reason: error.to_string() };
    picture.write_to(&mut bytes, ImageFormat::Png).map_err(failed)?;
    write_whole(&path, bytes.get_ref())?;
    Ok(path)
}
