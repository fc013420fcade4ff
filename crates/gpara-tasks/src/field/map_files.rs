//! Maps of results as files for other programs.

use std::fmt::Write;
use std::path::Path;

use gpara::{Grid, Result};
use npyz::WriterBuilder;

use super::error::FieldError;
use super::whole::write_whole;

/// Writes a map as CSV: one line a row, missing (NaN) cells empty, every number read back to the same bits.
///
/// # Errors
/// `ShapeMismatch` if `values` has another length than the grid; `Io` if the file cannot be written.
pub fn write_csv_grid(path: &Path, grid: Grid, values: &[f64]) -> Result<()> {
    if values.len() != grid.num_nodes() {
        return Err(FieldError::Length { grid, found: values.len() }.into());
    }
    let mut text = String::new();
    for row in values.chunks(grid.cols()) {
        for (col, value) in row.iter().enumerate() {
            let separator = if col == 0 { "" } else { "," };
            // One cell that is missing in a column of one is no empty line, which readers skip.
            let written =
                if value.is_nan() { write!(text, "{separator}nan") } else { write!(text, "{separator}{value}") };
            written.expect("writing to a String succeeds");
        }
        text.push('\n');
    }
    write_whole(path, text.as_bytes())
}

/// Writes maps as one float32 array `[maps, rows, cols]`.
///
/// # Errors
/// `ShapeMismatch` if a map has another length than the grid; `Io` if the file cannot be written.
pub fn write_npy_stack(path: &Path, grid: Grid, maps: &[Vec<f64>]) -> Result<()> {
    if let Some(map) = maps.iter().find(|map| map.len() != grid.num_nodes()) {
        return Err(FieldError::Length { grid, found: map.len() }.into());
    }
    let mut bytes = Vec::new();
    let mut encode = || -> std::io::Result<()> {
        let shape = [maps.len() as u64, grid.rows() as u64, grid.cols() as u64];
        let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(&mut bytes).begin_nd()?;
        writer.extend(maps.iter().flatten().map(|&value| value as f32))?;
        writer.finish()
    };
    encode().map_err(|source| FieldError::Write { path: path.into(), source })?;
    write_whole(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;

    #[test]
    fn csv_grid_reads_back_to_the_same_bits_with_missing_cells() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.csv");
        let (grid, values) = (Grid::new(2, 3).unwrap(), [0.1, f64::NAN, -1e-300, f64::NAN, f64::NAN, f64::NAN]);
        write_csv_grid(&path, grid, &values).unwrap();
        let back = Field::read(&path, None).unwrap();
        assert_eq!(back.grid(), grid);
        assert!(
            back.values().iter().zip(values).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
        );
    }

    #[test]
    fn stack_has_three_dimensions_and_its_values_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.npy");
        let grid = Grid::new(2, 3).unwrap();
        write_npy_stack(&path, grid, &[vec![1.0; 6], (0..6).map(f64::from).collect()]).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = npyz::NpyFile::new(&bytes[..]).unwrap();
        assert_eq!(file.shape(), [2, 2, 3]);
        let values = file.into_vec::<f32>().unwrap();
        assert_eq!(values[6..], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(write_npy_stack(&path, grid, &[vec![0.0; 5]]).is_err());
    }
}
