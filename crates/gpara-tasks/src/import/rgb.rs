//! Colour pictures as three channels.

use std::io::Cursor;
use std::path::Path;

use gpara::Result;
use image::{ImageError, ImageReader, Limits};

use super::error::ImportError;
use crate::depth::DepthScene;
use crate::field::{Field, announced_grid, check_expansion, read_file};

/// Memory a decoder may take beside the picture.
const MAX_DECODER_BYTES: u64 = 1 << 30;

/// Reads a JPEG or PNG as the channels `red`, `green`, `blue`, from 0 to 1.
pub(super) fn read_rgb(path: &Path) -> Result<Vec<(&'static str, Field)>> {
    decode_rgb(&read_file(path)?, path)
}

/// Reads a JPEG or PNG as luminance (Rec. 601) from 0 to 1.
///
/// # Errors
/// `Io` if the file cannot be read; `InvalidInput` if it is no readable picture or too large.
pub fn read_luminance(path: &Path) -> Result<Field> {
    let channels = read_rgb(path)?;
    let [red, green, blue] = [0, 1, 2].map(|at| channels[at].1.values());
    let mixed = red.iter().zip(green).zip(blue).map(|((red, green), blue)| 0.299 * red + 0.587 * green + 0.114 * blue);
    // Rounding may leave the sum of the weights just above 1.
    Field::new(channels[0].1.grid(), mixed.map(|value| value.clamp(0.0, 1.0)).collect())
}

/// Reads a JPEG or PNG as the picture of a depth scene, a pixel a cell.
///
/// # Errors
/// `Io` if the file cannot be read; `InvalidInput` if it is no readable picture or too large.
pub fn read_depth_scene(path: &Path) -> Result<DepthScene> {
    let channels = read_rgb(path)?;
    let [red, green, blue] = [0, 1, 2].map(|at| channels[at].1.values());
    // Each value is a byte over 255.
    let byte = |value: f64| (255.0 * value).round() as u8;
    let pixels =
        red.iter().zip(green).zip(blue).map(|((red, green), blue)| [red, green, blue].map(|&value| byte(value)));
    DepthScene::new(channels[0].1.grid(), pixels.collect())
}

/// Decodes the bytes of a JPEG or PNG; `path` only names the file in errors.
pub(super) fn decode_rgb(bytes: &[u8], path: &Path) -> Result<Vec<(&'static str, Field)>> {
    let broken = |reason: String| ImportError::Content { path: path.into(), reason };
    let unreadable = |error: ImageError| broken(format!("not a readable picture ({error})"));
    let open = || ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| broken(error.to_string()));
    let (width, height) = open()?.into_dimensions().map_err(unreadable)?;
    let grid = announced_grid(path, height.into(), width.into())?;
    check_expansion(path, grid.num_nodes() as u64, bytes.len())?;
    let mut reader = open()?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let picture = reader.decode().map_err(unreadable)?.into_rgb8();
    let channel = |index: usize| -> Result<Field> {
        Field::new(grid, picture.pixels().map(|pixel| f64::from(pixel.0[index]) / 255.0).collect())
    };
    Ok(vec![("red", channel(0)?), ("green", channel(1)?), ("blue", channel(2)?)])
}
