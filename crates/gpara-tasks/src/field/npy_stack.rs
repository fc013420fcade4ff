//! Several maps of one grid in one file.

use std::path::Path;

use gpara::{Grid, Result};
use npyz::WriterBuilder;

use super::error::FieldError;
use super::whole::write_whole;

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
