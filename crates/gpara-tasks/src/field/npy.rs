//! NumPy's `.npy`: two-dimensional arrays of numbers.

use std::path::Path;

use gpara::{Grid, Result};
use npyz::{DType, NpyFile, Order, TypeChar, WriterBuilder};

use super::error::FieldError;
use super::limits::announced_grid;
use super::raster::Field;
use super::whole::write_whole;

/// Decodes an array of float, integer or boolean values; `path` only names the file in errors.
pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Field> {
    let mut rest = bytes;
    let file =
        NpyFile::new(&mut rest).map_err(|error| FieldError::content(path, format!("not a readable NPY ({error})")))?;
    let (shape, order, dtype) = (file.shape().to_vec(), file.order(), file.dtype());
    let [rows, cols] = shape[..] else {
        let reason = format!("the array has {} dimensions, 2 are needed", shape.len());
        return Err(FieldError::content(path, reason).into());
    };
    let grid = announced_grid(path, rows, cols)?;
    drop(file);
    // Checked before reading: a damaged header must not make us reserve memory for data that are not there.
    let item_size = dtype.num_bytes().unwrap_or(0);
    if grid.num_nodes().checked_mul(item_size) != Some(rest.len()) {
        let reason =
            format!("{} bytes of data follow the header, {grid} values of {item_size} bytes are announced", rest.len());
        return Err(FieldError::content(path, reason).into());
    }
    let values = read_values(bytes, &dtype).map_err(|reason| FieldError::content(path, reason))?;
    Field::new(grid, if order == Order::C { values } else { transposed(grid, &values) })
}

fn read_values(bytes: &[u8], dtype: &DType) -> Result<Vec<f64>, String> {
    fn read<T: npyz::Deserialize>(bytes: &[u8], to_f64: impl Fn(T) -> f64) -> Result<Vec<f64>, String> {
        let file = NpyFile::new(bytes).map_err(|error| error.to_string())?;
        let values = file.into_vec::<T>().map_err(|error| error.to_string())?;
        Ok(values.into_iter().map(to_f64).collect())
    }
    let DType::Plain(plain) = dtype else { return Err("structured arrays are not fields".into()) };
    match (plain.type_char(), plain.size_field()) {
        (TypeChar::Float, 4) => read(bytes, |value: f32| f64::from(value)),
        (TypeChar::Float, 8) => read(bytes, |value: f64| value),
        (TypeChar::Bool, _) => read(bytes, |value: bool| f64::from(u8::from(value))),
        (TypeChar::Uint, 1) => read(bytes, |value: u8| f64::from(value)),
        (TypeChar::Uint, 2) => read(bytes, |value: u16| f64::from(value)),
        (TypeChar::Int, 1) => read(bytes, |value: i8| f64::from(value)),
        (TypeChar::Int, 2) => read(bytes, |value: i16| f64::from(value)),
        (TypeChar::Int, 4) => read(bytes, |value: i32| f64::from(value)),
        (TypeChar::Uint, 4) => read(bytes, |value: u32| f64::from(value)),
        // NumPy's default integer; beyond 2^53 a value is rounded.
        (TypeChar::Int, 8) => read(bytes, |value: i64| value as f64),
        (TypeChar::Uint, 8) => read(bytes, |value: u64| value as f64),
        _ => Err(format!("values are of type {}, allowed are float32, float64, integers, bool", dtype.descr())),
    }
}

/// Row-major values from column-major ones.
fn transposed(grid: Grid, values: &[f64]) -> Vec<f64> {
    let at = |node: usize| {
        let (row, col) = grid.row_col(node);
        values[col * grid.rows() + row]
    };
    (0..grid.num_nodes()).map(at).collect()
}

/// Writes values as a float32 array of the grid's shape.
///
/// # Errors
/// `ShapeMismatch` if `values` has another length than the grid; `Io` if the file cannot be written.
pub fn write_npy(path: &Path, grid: Grid, values: &[f64]) -> Result<()> {
    write_whole(path, &encode(path, grid, values)?)
}

/// The bytes of a float32 array; `path` only names the file in errors.
pub(crate) fn encode(path: &Path, grid: Grid, values: &[f64]) -> Result<Vec<u8>> {
    if values.len() != grid.num_nodes() {
        return Err(FieldError::Length { grid, found: values.len() }.into());
    }
    let mut bytes = Vec::new();
    let mut write = || -> std::io::Result<()> {
        let shape = [grid.rows() as u64, grid.cols() as u64];
        let mut writer =
            npyz::WriteOptions::<f32>::new().default_dtype().shape(&shape).writer(&mut bytes).begin_nd()?;
        writer.extend(values.iter().map(|&value| value as f32))?;
        writer.finish()
    };
    write().map_err(|error| FieldError::content(path, error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    /// The bytes of a version 1 file, by hand.
    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn types_orders_and_byte_orders_give_the_same_field() {
        let expected = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let column_major = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
        let f32s: Vec<u8> = expected.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
        let f64s: Vec<u8> = expected.iter().flat_map(|&value: &f64| value.to_be_bytes()).collect();
        let fortran: Vec<u8> = column_major.iter().flat_map(|&value: &f64| value.to_le_bytes()).collect();
        let u8s: Vec<u8> = vec![1, 2, 3, 4, 5, 6];
        let cases = [
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", f32s),
            ("{'descr': '>f8', 'fortran_order': False, 'shape': (2, 3), }\n", f64s),
            ("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }\n", fortran),
            ("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n", u8s),
        ];
        for (header, data) in cases {
            let field = decode(&npy(header, &data), Path::new("a.npy")).unwrap();
            assert_eq!((field.grid().rows(), field.grid().cols()), (2, 3), "{header}");
            assert_eq!(field.values(), expected, "{header}");
        }
    }

    #[test]
    fn damaged_and_foreign_arrays_are_refused() {
        let cases = [
            ("truncated data", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", &[0; 20])),
            ("three dimensions", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 3), }\n", &[0; 6])),
            ("huge shape", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (60000, 60000), }\n", &[0; 8])),
            ("text", npy("{'descr': '<U2', 'fortran_order': False, 'shape': (1, 1), }\n", &[0; 8])),
            ("complex", npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1, 1), }\n", &[0; 8])),
            ("not npy", b"PK\x03\x04 something".to_vec()),
            ("empty", Vec::new()),
        ];
        for (name, bytes) in cases {
            assert_eq!(decode(&bytes, Path::new("a.npy")).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
        }
    }
}
