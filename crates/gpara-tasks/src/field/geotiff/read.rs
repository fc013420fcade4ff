//! Decoding.

use std::io::Cursor;
use std::path::Path;

use gpara::Result;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

use super::keys::Keys;
use crate::field::Field;
use crate::field::error::FieldError;
use crate::field::limits::{MAX_CELLS, announced_grid, check_expansion};
use crate::geo::{Affine, Georeference};

/// GDAL's metadata, an XML text.
const GDAL_METADATA: Tag = Tag::Unknown(42112);

/// Decodes the first image of a file; cells of the declared missing value become NaN.
pub(in crate::field) fn decode(bytes: &[u8], path: &Path) -> Result<(Field, Option<Georeference>)> {
    page(&mut open(bytes, path)?, bytes, path)
}

/// Decodes every image of a file, up to as many cells as a field may have.
pub(in crate::field) fn decode_pages(bytes: &[u8], path: &Path) -> Result<Vec<Field>> {
    let mut decoder = open(bytes, path)?;
    let (mut pages, mut cells) = (Vec::new(), 0);
    loop {
        let (field, _) = page(&mut decoder, bytes, path)?;
        cells += field.grid().num_nodes();
        pages.push(field);
        if !decoder.more_images() {
            return Ok(pages);
        }
        if cells > MAX_CELLS {
            return Err(FieldError::content(path, format!("its images hold more than {MAX_CELLS} cells")).into());
        }
        let broken = |error: TiffError| FieldError::content(path, format!("not a readable TIFF ({error})"));
        decoder.next_image().map_err(broken)?;
    }
}

fn open<'a>(bytes: &'a [u8], path: &Path) -> Result<Decoder<Cursor<&'a [u8]>>> {
    let broken = |error: TiffError| FieldError::content(path, format!("not a readable TIFF ({error})"));
    let mut limits = Limits::default();
    limits.decoding_buffer_size = MAX_CELLS * size_of::<f64>();
    // A strip or tile of its own is no larger than the picture, up to the padding of tiles.
    limits.intermediate_buffer_size = bytes.len().saturating_mul(64).clamp(1 << 20, MAX_CELLS * size_of::<f64>());
    Ok(Decoder::new(Cursor::new(bytes)).map_err(broken)?.with_limits(limits))
}

/// Decodes the image at which the decoder stands.
fn page(decoder: &mut Decoder<Cursor<&[u8]>>, bytes: &[u8], path: &Path) -> Result<(Field, Option<Georeference>)> {
    let broken = |error: TiffError| FieldError::content(path, format!("not a readable TIFF ({error})"));
    let (cols, rows) = decoder.dimensions().map_err(broken)?;
    let grid = announced_grid(path, rows.into(), cols.into())?;
    let bits = match decoder.colortype().map_err(broken)? {
        ColorType::Gray(bits) => bits,
        ColorType::Multiband { num_samples: 1, bit_depth } => bit_depth,
        other => {
            let reason = format!("it holds {other:?}, one band of numbers is needed");
            return Err(FieldError::content(path, reason).into());
        }
    };
    check_expansion(path, grid.num_nodes() as u64 * u64::from(bits).div_ceil(8), bytes.len())?;
    let metadata = text(decoder, GDAL_METADATA);
    if metadata.contains("role=\"scale\"") || metadata.contains("role=\"offset\"") {
        let reason = "its metadata scale the stored values; unscale them first (gdal_translate -unscale -ot Float32)";
        return Err(FieldError::content(path, reason).into());
    }
    let georeference = georeference(decoder)?;
    let missing = text(decoder, Tag::GdalNodata);
    let missing: Option<f64> = match missing.trim_matches(['\0', ' ', '\n']) {
        "" => None,
        text => Some(text.parse().map_err(|_| {
            FieldError::content(path, format!("its missing value (GDAL_NODATA) `{text}` is not a number"))
        })?),
    };
    let (values, is_f32) = numbers(decoder.read_image().map_err(broken)?);
    let is_missing = |value: f64| {
        // The text of a float32 may carry more or fewer digits than the value.
        missing.is_some_and(|missing| value == missing || (is_f32 && value as f32 == missing as f32))
    };
    let values = values.into_iter().map(|value| if is_missing(value) { f64::NAN } else { value }).collect();
    Ok((Field::new(grid, values)?, georeference))
}

/// The values, and whether they are stored as float32.
fn numbers(result: DecodingResult) -> (Vec<f64>, bool) {
    fn widened<T>(values: Vec<T>, to_f64: impl Fn(T) -> f64) -> (Vec<f64>, bool) {
        (values.into_iter().map(to_f64).collect(), false)
    }
    match result {
        DecodingResult::F32(values) => (widened(values, f64::from).0, true),
        DecodingResult::F64(values) => (values, false),
        DecodingResult::F16(values) => widened(values, f64::from),
        DecodingResult::U8(values) => widened(values, f64::from),
        DecodingResult::U16(values) => widened(values, f64::from),
        DecodingResult::U32(values) => widened(values, f64::from),
        DecodingResult::I8(values) => widened(values, f64::from),
        DecodingResult::I16(values) => widened(values, f64::from),
        DecodingResult::I32(values) => widened(values, f64::from),
        // Beyond 2^53 a value is rounded.
        DecodingResult::U64(values) => widened(values, |value| value as f64),
        DecodingResult::I64(values) => widened(values, |value| value as f64),
    }
}

/// The text of a tag, empty if it is missing or no text.
fn text(decoder: &mut Decoder<Cursor<&[u8]>>, tag: Tag) -> String {
    if !fits(decoder, tag) {
        return String::new();
    }
    let value = decoder.find_tag(tag).ok().flatten();
    value.and_then(|value| value.into_string().ok()).unwrap_or_default()
}

/// Whether the announced values of a tag can be in the file at all: the decoder reserves memory for them first.
fn fits(decoder: &mut Decoder<Cursor<&[u8]>>, tag: Tag) -> bool {
    let length = decoder.inner().get_ref().len() as u64;
    decoder.image_ifd().find_entry(tag).is_none_or(|entry| entry.count() <= length)
}

fn numbers_of(decoder: &mut Decoder<Cursor<&[u8]>>, tag: Tag) -> Option<Vec<f64>> {
    if !fits(decoder, tag) {
        return None;
    }
    decoder.find_tag(tag).ok().flatten()?.into_f64_vec().ok()
}

/// The transform and system of the file; none without a transform.
fn georeference(decoder: &mut Decoder<Cursor<&[u8]>>) -> Result<Option<Georeference>> {
    let directory = if fits(decoder, Tag::GeoKeyDirectoryTag) {
        decoder.find_tag(Tag::GeoKeyDirectoryTag).ok().flatten()
    } else {
        None
    };
    let directory = directory.and_then(|value| value.into_u16_vec().ok()).unwrap_or_default();
    let keys = Keys::parse(&directory, &text(decoder, Tag::GeoAsciiParamsTag));
    let Some(mut coefficients) = transform(decoder) else { return Ok(None) };
    if keys.points_at_centres {
        let [_, x_per_col, x_per_row, _, y_per_col, y_per_row] = coefficients;
        coefficients[0] -= 0.5 * (x_per_col + x_per_row);
        coefficients[3] -= 0.5 * (y_per_col + y_per_row);
    }
    Ok(Some(Georeference::new(Affine::new(coefficients)?, keys.crs)))
}

/// The coefficients from the 4 x 4 matrix, or from pixel size and one tie point.
fn transform(decoder: &mut Decoder<Cursor<&[u8]>>) -> Option<[f64; 6]> {
    if let Some([x_per_col, x_per_row, _, x_origin, y_per_col, y_per_row, _, y_origin, ..]) =
        numbers_of(decoder, Tag::ModelTransformationTag).as_deref()
    {
        return Some([*x_origin, *x_per_col, *x_per_row, *y_origin, *y_per_col, *y_per_row]);
    }
    let scale = numbers_of(decoder, Tag::ModelPixelScaleTag)?;
    let tie_point = numbers_of(decoder, Tag::ModelTiepointTag)?;
    let ([width, height, ..], [col, row, _, x, y, ..]) = (scale.as_slice(), tie_point.as_slice()) else { return None };
    Some([x - col * width, *width, 0.0, y + row * height, 0.0, -height])
}
