//! Encoding: float32, deflate, NaN for missing cells.

use std::io::Cursor;
use std::path::Path;

use gpara::Result;
use tiff::TiffError;
use tiff::encoder::{Compression, DeflateLevel, TiffEncoder, colortype};
use tiff::tags::Tag;

use super::keys::directory;
use crate::field::Field;
use crate::field::error::FieldError;
use crate::geo::Georeference;

/// The bytes of a file; `path` only names it in errors.
///
/// # Errors
/// `InvalidInput` if the coordinate system cannot be told in a GeoTIFF.
pub(crate) fn encode(path: &Path, field: &Field, georeference: Option<Georeference>) -> Result<Vec<u8>> {
    let unwritable = |reason: String| FieldError::Unwritable { path: path.into(), format: "GeoTIFF", reason };
    let keys = match georeference.and_then(Georeference::crs) {
        None => None,
        Some(crs) => {
            let geographic = crs.projection()?.is_geographic();
            let found = directory(crs, geographic);
            Some(found.ok_or_else(|| unwritable(format!("the code of {crs} is above 65535")))?)
        }
    };
    let mut file = Cursor::new(Vec::new());
    let mut write = || -> Result<(), TiffError> {
        let encoder = TiffEncoder::new(&mut file)?;
        let mut encoder = encoder.with_compression(Compression::Deflate(DeflateLevel::Balanced));
        let (cols, rows) = (field.grid().cols() as u32, field.grid().rows() as u32);
        let mut image = encoder.new_image::<colortype::Gray32Float>(cols, rows)?;
        let tags = image.encoder();
        tags.write_tag(Tag::GdalNodata, "nan")?;
        if let Some(georeference) = georeference {
            let [x_origin, x_per_col, x_per_row, y_origin, y_per_col, y_per_row] = georeference.affine().coefficients();
            if georeference.affine().is_axis_aligned() && x_per_col > 0.0 && y_per_row < 0.0 {
                tags.write_tag(Tag::ModelPixelScaleTag, &[x_per_col, -y_per_row, 0.0][..])?;
                tags.write_tag(Tag::ModelTiepointTag, &[0.0, 0.0, 0.0, x_origin, y_origin, 0.0][..])?;
            } else {
                let x_row = [x_per_col, x_per_row, 0.0, x_origin];
                let y_row = [y_per_col, y_per_row, 0.0, y_origin];
                let matrix = [x_row, y_row, [0.0; 4], [0.0, 0.0, 0.0, 1.0]].concat();
                tags.write_tag(Tag::ModelTransformationTag, &matrix[..])?;
            }
        }
        if let Some((directory, text)) = &keys {
            tags.write_tag(Tag::GeoKeyDirectoryTag, &directory[..])?;
            if !text.is_empty() {
                tags.write_tag(Tag::GeoAsciiParamsTag, text.as_str())?;
            }
        }
        let values: Vec<f32> = field.values().iter().map(|&value| value as f32).collect();
        image.write_data(&values)
    };
    write().map_err(|error| unwritable(error.to_string()))?;
    Ok(file.into_inner())
}
