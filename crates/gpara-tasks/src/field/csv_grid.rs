//! A CSV grid: one line a row, numbers only; an empty cell or `nan` is missing.

use std::path::Path;

use gpara::Result;

use super::delimited::Records;
use super::error::FieldError;
use super::limits::{announced_grid, check_num_values};
use super::raster::Field;

/// Decodes a grid; `path` only names the file in errors.
pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Field> {
    let records = Records::new(bytes);
    let delimiter = records.delimiter();
    check_num_values(path, bytes, delimiter.byte())?;
    let mut values = Vec::new();
    let (mut rows, mut cols) = (0, 0);
    for record in records {
        let (line, record) = record.map_err(|error| FieldError::content(path, error))?;
        if rows == 0 {
            cols = record.len();
        }
        if record.len() != cols {
            return Err(FieldError::Ragged { path: path.into(), line, found: record.len(), expected: cols }.into());
        }
        for text in &record {
            let value = if text.is_empty() { Some(f64::NAN) } else { delimiter.number(text) };
            values.push(value.ok_or_else(|| FieldError::NotNumber { path: path.into(), line, text: text.into() })?);
        }
        rows += 1;
    }
    if rows == 0 {
        return Err(FieldError::content(path, "the file holds no values").into());
    }
    Field::new(announced_grid(path, rows, cols as u64)?, values)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn variants_of_one_grid_read_the_same() {
        let variants: [&[u8]; 4] = [
            b"1,2.5,3\n4,5,6\n",
            b"\xef\xbb\xbf1,2.5,3\r\n4,5,6\r\n",
            b"1;2,5;3\n4;5;6",
            b"1; 2.5; 3\r\n\r\n4; 5; 6\r\n",
        ];
        for bytes in variants {
            let field = decode(bytes, Path::new("a.csv")).unwrap();
            assert_eq!((field.grid().rows(), field.grid().cols()), (2, 3));
            assert_eq!(field.values(), [1.0, 2.5, 3.0, 4.0, 5.0, 6.0]);
        }
    }

    #[test]
    fn missing_cells_are_nan() {
        let field = decode(b"1,,nan\n", Path::new("a.csv")).unwrap();
        let missing: Vec<bool> = field.values().iter().map(|value| value.is_nan()).collect();
        assert_eq!(missing, [false, true, true]);
    }

    #[test]
    fn ragged_line_and_text_are_refused_with_their_line() {
        let error = decode(b"1,2\n3,4\n5\n", Path::new("a.csv")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
        assert!(error.to_string().contains("line 3"), "{error}");
        let error = decode(b"1,2\n3,high\n", Path::new("a.csv")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("line 2") && error.to_string().contains("`high`"), "{error}");
        assert_eq!(decode(b"", Path::new("a.csv")).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
