//! NumPy's `.npy`: two-dimensional arrays of numbers.

use std::path::Path;

use gpara::{Grid, Result};
use npyz::WriterBuilder;

use super::error::FieldError;
use super::limits::announced_grid;
use super::raster::Field;
use super::whole::write_whole;

/// Decodes an array of float, integer or boolean values; `path` only names the file in errors.
///
/// The header is parsed here, since `npyz` reserves memory for any length that a header announces.
pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Field> {
    let header = Header::parse(bytes).ok_or_else(|| FieldError::content(path, "not a readable NPY header"))?;
    let [rows, cols] = header.shape[..] else {
        let reason = format!("the array has {} dimensions, 2 are needed", header.shape.len());
        return Err(FieldError::content(path, reason).into());
    };
    decode_grid(&header, path, rows, cols)
}

/// Decodes maps `[maps, rows, cols]`, or one map `[rows, cols]`.
pub(super) fn decode_stack(bytes: &[u8], path: &Path) -> Result<Vec<Field>> {
    let header = Header::parse(bytes).ok_or_else(|| FieldError::content(path, "not a readable NPY header"))?;
    let [maps, rows, cols] = header.shape[..] else { return decode(bytes, path).map(|map| vec![map]) };
    if header.is_fortran {
        return Err(FieldError::content(path, "maps in Fortran order are not read, save them in C order").into());
    }
    if maps == 0 {
        return Err(FieldError::content(path, "it holds no map").into());
    }
    // One tall grid, cut into its maps.
    let tall = decode_grid(&header, path, maps.saturating_mul(rows), cols)?;
    let grid = announced_grid(path, rows, cols)?;
    tall.values().chunks(grid.num_nodes()).map(|map| Field::new(grid, map.to_vec())).collect()
}

fn decode_grid(header: &Header<'_>, path: &Path, rows: u64, cols: u64) -> Result<Field> {
    let grid = announced_grid(path, rows, cols)?;
    let item = Item::parse(header.descr).ok_or_else(|| {
        let descr = header.descr;
        let reason = format!("values are of type {descr}, allowed are float32, float64, integers, bool");
        FieldError::content(path, reason)
    })?;
    let (size, found) = (item.size, header.data.len());
    if grid.num_nodes() * size != found {
        let reason = format!("{found} bytes of data follow the header, {grid} values of {size} bytes are announced");
        return Err(FieldError::content(path, reason).into());
    }
    let values = item.numbers(header.data);
    Field::new(grid, if header.is_fortran { transposed(grid, &values) } else { values })
}

/// What stands before the data: a Python dictionary with three keys.
struct Header<'a> {
    descr: &'a str,
    is_fortran: bool,
    shape: Vec<u64>,
    data: &'a [u8],
}

impl<'a> Header<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(b"\x93NUMPY")?;
        let (length, start): (usize, usize) = match rest.first()? {
            1 => (u16::from_le_bytes(rest.get(2..4)?.try_into().ok()?).into(), 4),
            2 | 3 => (u32::from_le_bytes(rest.get(2..6)?.try_into().ok()?) as usize, 6),
            _ => return None,
        };
        let text = std::str::from_utf8(rest.get(start..start.checked_add(length)?)?).ok()?;
        let value = |key: &str| {
            let at = [format!("'{key}'"), format!("\"{key}\"")]
                .into_iter()
                .find_map(|quoted| text.find(&quoted).map(|at| at + quoted.len()))?;
            text[at..].trim_start().strip_prefix(':').map(str::trim_start)
        };
        let descr = value("descr")?;
        let quoted = descr.strip_prefix('\'').and_then(|text| text.split('\'').next());
        // A list of fields has no name that could be read; its text stands for it in the error.
        let descr = quoted.or_else(|| descr.strip_prefix('"').and_then(|text| text.split('"').next())).unwrap_or(descr);
        let is_fortran = match value("fortran_order")? {
            text if text.starts_with("True") => true,
            text if text.starts_with("False") => false,
            _ => return None,
        };
        let shape = value("shape")?.strip_prefix('(')?.split(')').next()?;
        let shape = shape.split(',').map(str::trim).filter(|side| !side.is_empty());
        let shape = shape.map(|side| side.parse().ok()).collect::<Option<Vec<u64>>>()?;
        Some(Self { descr, is_fortran, shape, data: &rest[start + length..] })
    }
}

/// Type of one value.
struct Item {
    kind: u8,
    size: usize,
    is_big_endian: bool,
}

impl Item {
    fn parse(descr: &str) -> Option<Self> {
        let [order @ (b'<' | b'>' | b'|' | b'='), kind, size @ b'1'..=b'8'] = *descr.as_bytes() else { return None };
        let size = usize::from(size - b'0');
        let is_known = matches!((kind, size), (b'f', 4 | 8) | (b'i' | b'u', 1 | 2 | 4 | 8) | (b'b', 1));
        is_known.then_some(Self { kind, size, is_big_endian: order == b'>' })
    }

    fn numbers(&self, data: &[u8]) -> Vec<f64> {
        match (self.kind, self.size) {
            (b'f', 4) => self.each(data, |bytes| f64::from(f32::from_le_bytes(bytes))),
            (b'f', _) => self.each(data, f64::from_le_bytes),
            (b'i', 1) => self.each(data, |bytes| f64::from(i8::from_le_bytes(bytes))),
            (b'i', 2) => self.each(data, |bytes| f64::from(i16::from_le_bytes(bytes))),
            (b'i', 4) => self.each(data, |bytes| f64::from(i32::from_le_bytes(bytes))),
            // NumPy's default integer; beyond 2^53 a value is rounded.
            (b'i', _) => self.each(data, |bytes| i64::from_le_bytes(bytes) as f64),
            (b'u', 1) => self.each(data, |[byte]| f64::from(byte)),
            (b'u', 2) => self.each(data, |bytes| f64::from(u16::from_le_bytes(bytes))),
            (b'u', 4) => self.each(data, |bytes| f64::from(u32::from_le_bytes(bytes))),
            (b'u', _) => self.each(data, |bytes| u64::from_le_bytes(bytes) as f64),
            _ => self.each(data, |[byte]| f64::from(u8::from(byte != 0))),
        }
    }

    fn each<const N: usize>(&self, data: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        let of_chunk = |chunk: &[u8]| {
            let mut bytes: [u8; N] = chunk.try_into().expect("chunks have N bytes");
            if self.is_big_endian {
                bytes.reverse();
            }
            number(bytes)
        };
        data.chunks_exact(N).map(of_chunk).collect()
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
