//! ESRI ASCII grid (`.asc`): six header lines, then the values row by row.

use std::fmt::Write;
use std::path::Path;

use gpara::Result;

use super::error::FieldError;
use super::limits::announced_grid;
use super::raster::Field;
use crate::geo::{Affine, Georeference};

/// The header as far as it was read.
#[derive(Default)]
struct Header {
    cols: Option<f64>,
    rows: Option<f64>,
    left: Option<(f64, Anchor)>,
    bottom: Option<(f64, Anchor)>,
    width: Option<f64>,
    height: Option<f64>,
    nodata: Option<f64>,
}

/// What the header's coordinates mean.
#[derive(Clone, Copy)]
enum Anchor {
    /// The outer corner of the first cell of the last row.
    Corner,
    /// That cell's centre.
    Centre,
}

/// Decodes a grid; cells of the declared `NODATA_value` become NaN.
pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<(Field, Georeference)> {
    let text = std::str::from_utf8(bytes).map_err(|_| FieldError::content(path, "not a text"))?;
    let mut header = Header::default();
    let mut lines = (1..).zip(text.trim_start_matches('\u{feff}').lines()).peekable();
    while let Some(&(line, content)) = lines.peek() {
        let mut words = content.split_whitespace();
        match (words.next(), words.next()) {
            (Some(key), Some(value)) if key.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_number(key) => {
                let number = value.parse().ok().filter(|number: &f64| number.is_finite() || is_nodata(key));
                let number =
                    number.ok_or_else(|| FieldError::NotNumber { path: path.into(), line, text: value.into() })?;
                header.set(key, number).map_err(|reason| FieldError::content(path, reason))?;
            }
            (None, _) => {}
            _ => break,
        }
        lines.next();
    }
    let (rows, cols) = (header.count(header.rows, "nrows", path)?, header.count(header.cols, "ncols", path)?);
    let grid = announced_grid(path, rows, cols)?;
    let mut values = Vec::with_capacity(grid.num_nodes().min(bytes.len()));
    for (line, content) in lines {
        for word in content.split_whitespace() {
            let value: f64 =
                word.parse().map_err(|_| FieldError::NotNumber { path: path.into(), line, text: word.into() })?;
            values.push(if header.nodata == Some(value) { f64::NAN } else { value });
        }
    }
    if values.len() != grid.num_nodes() {
        let reason = format!("{} values follow the header, {grid} are announced", values.len());
        return Err(FieldError::content(path, reason).into());
    }
    Ok((Field::new(grid, values)?, header.georeference(grid.rows(), path)?))
}

fn is_number(word: &str) -> bool {
    word.parse::<f64>().is_ok()
}

fn is_nodata(key: &str) -> bool {
    key.eq_ignore_ascii_case("nodata_value")
}

impl Header {
    fn set(&mut self, key: &str, number: f64) -> Result<(), String> {
        match key.to_ascii_lowercase().as_str() {
            "ncols" => self.cols = Some(number),
            "nrows" => self.rows = Some(number),
            "xllcorner" => self.left = Some((number, Anchor::Corner)),
            "yllcorner" => self.bottom = Some((number, Anchor::Corner)),
            "xllcenter" => self.left = Some((number, Anchor::Centre)),
            "yllcenter" => self.bottom = Some((number, Anchor::Centre)),
            "cellsize" => (self.width, self.height) = (Some(number), Some(number)),
            "dx" => self.width = Some(number),
            "dy" => self.height = Some(number),
            "nodata_value" => self.nodata = Some(number),
            _ => {
                let known = "ncols, nrows, xllcorner, yllcorner, xllcenter, yllcenter, cellsize, dx, dy, NODATA_value";
                return Err(format!("header line `{key}` is not known; known are {known}"));
            }
        }
        Ok(())
    }

    fn count(&self, number: Option<f64>, key: &str, path: &Path) -> Result<u64> {
        let number = number.ok_or_else(|| FieldError::content(path, format!("header line `{key}` is missing")))?;
        if number < 1.0 || number.fract() != 0.0 {
            return Err(
                FieldError::content(path, format!("{key} is {number}, it must be a whole number from 1")).into()
            );
        }
        // The cast saturates; `announced_grid` refuses what is too large.
        Ok(number as u64)
    }

    fn georeference(&self, rows: usize, path: &Path) -> Result<Georeference> {
        let (Some((left, x_anchor)), Some((bottom, y_anchor)), Some(width), Some(height)) =
            (self.left, self.bottom, self.width, self.height)
        else {
            let reason = "the header must hold cellsize and the lower left corner (xllcorner, yllcorner)";
            return Err(FieldError::content(path, reason).into());
        };
        let shift = |anchor: Anchor, size: f64| if matches!(anchor, Anchor::Centre) { 0.5 * size } else { 0.0 };
        let left = left - shift(x_anchor, width);
        let top = bottom - shift(y_anchor, height) + rows as f64 * height;
        Ok(Georeference::new(Affine::new([left, width, 0.0, top, 0.0, -height])?, None))
    }
}

/// The text of a grid; NaN becomes the `NODATA_value`, a number that no cell has.
///
/// # Errors
/// `InvalidInput` if the cells are not squares with north at the top; `path` only names the file.
pub(crate) fn encode(path: &Path, field: &Field, georeference: Georeference) -> Result<String> {
    let grid = field.grid();
    let [left, width, _, top, _, negative_height] = georeference.affine().coefficients();
    // A grid without a place in the world has y down; its cells stand as they are, with the lower edge at y = 0.
    let (top, height) =
        if georeference == Georeference::CELLS { (grid.rows() as f64, 1.0) } else { (top, -negative_height) };
    if !georeference.affine().is_axis_aligned() || width != height {
        let reason = "its cells must be squares with north at the top".into();
        return Err(FieldError::Unwritable { path: path.into(), format: "ESRI ASCII grid", reason }.into());
    }
    let mut nodata = -9999.0;
    while field.values().contains(&nodata) {
        nodata = 10.0 * nodata - 9.0;
    }
    let mut text = format!(
        "ncols {}\nnrows {}\nxllcorner {left}\nyllcorner {}\ncellsize {width}\nNODATA_value {nodata}\n",
        grid.cols(),
        grid.rows(),
        top - grid.rows() as f64 * height
    );
    for row in field.values().chunks(grid.cols()) {
        for (col, &value) in row.iter().enumerate() {
            let value = if value.is_nan() { nodata } else { value };
            let separator = if col == 0 { "" } else { " " };
            write!(text, "{separator}{value}").expect("writing to a String succeeds");
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use gpara::{ErrorKind, Grid};

    use super::*;
    use crate::geo::Crs;

    #[test]
    fn corner_and_centre_headers_give_the_same_place() {
        let body = "NODATA_value -1\n1 2 -1\n4 5.5 6\n";
        let corner = format!("ncols 3\nnrows 2\nxllcorner 100\nyllcorner 40\ncellsize 10\n{body}");
        let centre = format!("NCOLS 3\r\nNROWS 2\r\nXLLCENTER 105\r\nYLLCENTER 45\r\nDX 10\r\nDY 10\r\n{body}");
        for text in [corner, centre] {
            let (field, place) = decode(text.as_bytes(), Path::new("a.asc")).unwrap();
            assert_eq!(place, Georeference::north_up(100.0, 60.0, 10.0, None).unwrap());
            assert_eq!(field.values()[..2], [1.0, 2.0]);
            assert!(field.values()[2].is_nan());
            assert_eq!(field.values()[3..], [4.0, 5.5, 6.0]);
        }
    }

    #[test]
    fn written_grid_reads_back_to_the_same_bits() {
        let path = Path::new("a.asc");
        let values = vec![0.1, -9999.0, f64::NAN, 1.0 / 3.0, 1e-300, 7.0];
        let field = Field::new(Grid::new(3, 2).unwrap(), values.clone()).unwrap();
        let place = Georeference::north_up(-5.25, 1000.5, 0.25, None).unwrap();
        let text = encode(path, &field, place).unwrap();
        let (read, read_place) = decode(text.as_bytes(), path).unwrap();
        assert_eq!(read_place, place);
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(read.values()), bits(&values));
        let rotated = Georeference::new(Affine::new([0.0, 1.0, 1.0, 0.0, 0.0, -1.0]).unwrap(), Some(Crs::Epsg(4326)));
        assert_eq!(encode(path, &field, rotated).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn damaged_grids_are_refused() {
        let header = "ncols 2\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 1\n";
        let cases = [
            String::new(),
            "1 2\n3 4\n".into(),
            format!("{header}1 2\n3\n"),
            format!("{header}1 2\n3 x\n"),
            format!("{header}depth 3\n1 2\n3 4\n"),
            "ncols 1e9\nnrows 1e9\nxllcorner 0\nyllcorner 0\ncellsize 1\n1\n".into(),
            "ncols 2.5\nnrows 1\nxllcorner 0\nyllcorner 0\ncellsize 1\n1 2\n".into(),
            "ncols 1\nnrows 1\ncellsize 1\n1\n".into(),
            "ncols 1\nnrows 1\nxllcorner 0\nyllcorner 0\ncellsize 0\n1\n".into(),
        ];
        for text in cases {
            let error = decode(text.as_bytes(), Path::new("a.asc")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        }
    }
}
