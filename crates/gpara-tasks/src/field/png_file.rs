//! Gray PNG files with an explicit scale, which files of ours carry inside.

use std::io::Cursor;
use std::path::Path;

use gpara::{Grid, Result, ValidMask};
use png::{BitDepth, ColorType, Decoder, Encoder, Limits};

use super::error::FieldError;
use super::limits::{announced_grid, check_expansion};
use super::whole::write_whole;

/// Keyword of the text chunk that records the scale: `OFFSET STEP`.
const SCALE_KEYWORD: &str = "gpara scale";

/// Memory for the text chunks of a file and the like; the picture itself is checked by its announced size.
const MAX_TEXT_BYTES: usize = 1 << 26;

/// Value of a gray: `offset + step * gray`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PngScale {
    offset: f64,
    step: f64,
    // A step of 1/1000 is held as a division: gray 1001 becomes the same bits as the text 1.001.
    steps_per_unit: f64,
}

/// How the user says what gray values stand for, before the depth of the file is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GrayScale {
    /// A scale that does not depend on the file.
    Steps(PngScale),
    /// `floor` at gray 0, `floor + range` at white: 255 in a file of 8 bits, 65535 in one of 16.
    Range {
        /// Value of gray 0.
        floor: f64,
        /// Value of white minus that of gray 0.
        range: f64,
    },
}

impl GrayScale {
    /// The scale in a file whose white is 255 or 65535.
    pub(super) fn resolve(self, white: u16) -> Result<PngScale> {
        match self {
            Self::Steps(scale) => Ok(scale),
            Self::Range { floor, range } => PngScale::new(floor, range / f64::from(white)),
        }
    }
}

impl PngScale {
    /// A scale from the value of gray 0 and the value of one gray step.
    ///
    /// # Errors
    /// `InvalidInput` if one of them is not finite or the step is 0.
    pub fn new(offset: f64, step: f64) -> Result<Self> {
        if !offset.is_finite() || !step.is_finite() || step == 0.0 {
            return Err(FieldError::Scale { offset, step }.into());
        }
        Ok(Self { offset, step, steps_per_unit: 1.0 })
    }

    /// A scale from the number of gray steps that make one unit, e.g. 1000 for depth in millimetres.
    ///
    /// # Errors
    /// `InvalidInput` if the number is 0 or not finite.
    pub fn per_unit(steps: f64) -> Result<Self> {
        Self::new(0.0, 1.0 / steps)?;
        Ok(Self { offset: 0.0, step: 1.0, steps_per_unit: steps })
    }

    /// The value of gray 0.
    pub fn offset(self) -> f64 {
        self.offset
    }

    /// The value of one gray step.
    pub fn step(self) -> f64 {
        self.step / self.steps_per_unit
    }

    /// The value of a gray.
    pub fn value(self, gray: u16) -> f64 {
        self.offset + self.step * f64::from(gray) / self.steps_per_unit
    }
}

/// The gray values of a PNG as they stand, and the scale if the file records one.
pub(crate) struct GrayPng {
    pub(crate) grid: Grid,
    pub(crate) gray: Vec<u16>,
    /// 255 or 65535.
    pub(crate) white: u16,
    pub(super) recorded: Option<PngScale>,
}

impl GrayPng {
    /// Decodes 8- or 16-bit gray; `path` only names the file in errors.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let broken = |error: png::DecodingError| FieldError::content(path, format!("not a readable PNG ({error})"));
        let limits = Limits { bytes: MAX_TEXT_BYTES };
        let mut reader = Decoder::new_with_limits(Cursor::new(bytes), limits).read_info().map_err(broken)?;
        let (color, depth) = (reader.info().color_type, reader.info().bit_depth);
        if color != ColorType::Grayscale || !matches!(depth, BitDepth::Eight | BitDepth::Sixteen) {
            let reason = format!("it holds {color:?} with {depth:?} bits, only gray with 8 or 16 bits is allowed");
            return Err(FieldError::content(path, reason).into());
        }
        let grid = announced_grid(path, reader.info().height.into(), reader.info().width.into())?;
        let size = reader.output_buffer_size().ok_or_else(|| FieldError::content(path, "the picture is too large"))?;
        check_expansion(path, size as u64, bytes.len())?;
        let mut buffer = vec![0; size];
        reader.next_frame(&mut buffer).map_err(broken)?;
        // Text chunks may follow the picture.
        reader.finish().map_err(broken)?;
        let gray = match depth {
            BitDepth::Eight => buffer.into_iter().map(u16::from).collect(),
            _ => buffer.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect(),
        };
        let chunks = &reader.info().uncompressed_latin1_text;
        let recorded = match chunks.iter().find(|chunk| chunk.keyword == SCALE_KEYWORD) {
            None => None,
            Some(chunk) => Some(parse_scale(&chunk.text).ok_or_else(|| {
                FieldError::content(path, format!("recorded scale `{}` is not OFFSET STEP", chunk.text))
            })?),
        };
        let white = if depth == BitDepth::Eight { u16::from(u8::MAX) } else { u16::MAX };
        Ok(Self { grid, gray, white, recorded })
    }
}

fn parse_scale(text: &str) -> Option<PngScale> {
    let (offset, step) = text.split_once(' ')?;
    PngScale::new(offset.parse().ok()?, step.parse().ok()?).ok()
}

/// Writes values as 16-bit gray and records the scale in the file; returns the scale.
///
/// Gray 0 stands for `low`, 65535 for `high`; reading back is within half a step, `(high - low) / 131070`. Invalid
/// cells are written as gray 0, so a mask must travel with the file.
///
/// # Errors
/// `ShapeMismatch` if `values` do not fit the mask; `InvalidInput` for a range that is not finite and ascending, or a valid
/// value outside of it (nothing is clamped); `Io` if the file cannot be written.
pub fn write_png16(path: &Path, valid: &ValidMask, values: &[f64], low: f64, high: f64) -> Result<PngScale> {
    let (bytes, scale) = encode_png16(path, valid, values, low, high)?;
    write_whole(path, &bytes)?;
    Ok(scale)
}

/// The bytes of [`write_png16`]; `path` only names the file in errors.
pub(crate) fn encode_png16(
    path: &Path,
    valid: &ValidMask,
    values: &[f64],
    low: f64,
    high: f64,
) -> Result<(Vec<u8>, PngScale)> {
    let grid = valid.grid();
    if values.len() != grid.num_nodes() {
        return Err(FieldError::Length { grid, found: values.len() }.into());
    }
    if !low.is_finite() || !high.is_finite() || low > high {
        return Err(FieldError::Range { low, high }.into());
    }
    // A constant field needs any step; one keeps it exact.
    let step = if low == high { 1.0 } else { (high - low) / f64::from(u16::MAX) };
    let scale = PngScale::new(low, step)?;
    let mut bytes = Vec::with_capacity(2 * values.len());
    for (node, &value) in values.iter().enumerate() {
        let gray = if !valid.is_valid(node) {
            0
        } else if value >= low && value <= high {
            // The quotient lies in 0..=65535 up to rounding, and the cast saturates.
            ((value - low) / step).round() as u16
        } else {
            let (row, col) = grid.row_col(node);
            return Err(FieldError::OutsideRange { value, row, col, low, high }.into());
        };
        bytes.extend(gray.to_be_bytes());
    }
    let encoded = encode_gray16(grid, &bytes, scale).map_err(|error| FieldError::content(path, error))?;
    Ok((encoded, scale))
}

fn encode_gray16(grid: Grid, bytes: &[u8], scale: PngScale) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, grid.cols() as u32, grid.rows() as u32);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::Sixteen);
    // The shortest text that reads back to the same bits.
    encoder.add_text_chunk(SCALE_KEYWORD.into(), format!("{:?} {:?}", scale.offset(), scale.step()))?;
    let mut writer = encoder.write_header()?;
    writer.write_image_data(bytes)?;
    writer.finish()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;
    use crate::field::{Field, Raster, RasterOptions};

    #[test]
    fn users_10_reading_back_a_16_bit_png_is_within_half_a_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gain.png");
        let grid = Grid::new(13, 7).unwrap();
        let values: Vec<f64> = (0..91).map(|node| -147.0 + 99.16 * f64::from(node * node) / 8281.0).collect();
        let mut flags = vec![true; 91];
        flags[5] = false;
        let valid = ValidMask::new(grid, flags).unwrap();
        let scale = write_png16(&path, &valid, &values, -147.0, -47.84).unwrap();
        let read = Field::read(&path, None).unwrap();
        for node in valid.nodes() {
            let difference = (read.values()[node] - values[node]).abs();
            assert!(difference <= 0.5 * scale.step() * (1.0 + 1e-9), "node {node}: {difference}");
        }
        assert_eq!(read.values()[5], -147.0);
        // An explicit scale wins over the recorded one.
        let doubled = PngScale::new(2.0 * scale.offset(), 2.0 * scale.step()).unwrap();
        let read_doubled = Field::read(&path, Some(doubled)).unwrap();
        assert_eq!(read_doubled.values()[90], 2.0 * read.values()[90]);
    }

    #[test]
    fn value_outside_the_range_is_refused_and_no_file_appears() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let valid = ValidMask::all(Grid::new(1, 2).unwrap());
        for bad in [1.5, -0.1, f64::NAN, f64::INFINITY] {
            assert!(write_png16(&path, &valid, &[0.5, bad], 0.0, 1.0).is_err(), "{bad}");
            assert!(!path.exists(), "{bad}");
        }
        assert_eq!(write_png16(&path, &valid, &[0.5], 0.0, 1.0).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    }

    #[test]
    fn png_without_scale_needs_one_and_8_bits_read_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("depth.png");
        image::GrayImage::from_vec(2, 1, vec![10, 250]).unwrap().save(&path).unwrap();
        assert_eq!(Field::read(&path, None).unwrap_err().kind(), ErrorKind::InvalidInput);
        let field = Field::read(&path, Some(PngScale::per_unit(100.0).unwrap())).unwrap();
        assert_eq!(field.values(), [0.1, 2.5]);
        assert!(PngScale::per_unit(0.0).is_err());
    }

    #[test]
    fn users_08_scale_by_floor_and_range_reaches_white_in_both_depths() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gain.png");
        let options =
            RasterOptions { scale: Some(GrayScale::Range { floor: -147.0, range: 99.16 }), ..RasterOptions::default() };
        image::GrayImage::from_vec(2, 1, vec![0, 255]).unwrap().save(&path).unwrap();
        let eight = Raster::read(&path, &options).unwrap();
        image::ImageBuffer::<image::Luma<u16>, _>::from_vec(2, 1, vec![0, 65535]).unwrap().save(&path).unwrap();
        let sixteen = Raster::read(&path, &options).unwrap();
        for raster in [&eight, &sixteen] {
            let [low, high] = raster.field.values() else { panic!("two cells") };
            assert!((low + 147.0).abs() < 1e-12 && (high + 47.84).abs() < 1e-9, "{low} {high}");
        }
        // The scale that was used is told, so that it can be recorded.
        assert_eq!(eight.scale.unwrap().step(), 99.16 / 255.0);
        assert_eq!(sixteen.scale.unwrap().step(), 99.16 / 65535.0);
    }

    #[test]
    fn colour_and_truncated_pngs_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rgb.png");
        image::RgbImage::new(4, 4).save(&path).unwrap();
        let scale = Some(PngScale::new(0.0, 1.0).unwrap());
        assert_eq!(Field::read(&path, scale).unwrap_err().kind(), ErrorKind::InvalidInput);
        image::GrayImage::new(64, 64).save(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for length in [0, 20, bytes.len() / 2] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert_eq!(Field::read(&path, scale).unwrap_err().kind(), ErrorKind::InvalidInput, "{length} bytes");
        }
    }
}
