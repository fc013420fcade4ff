//! Several maps of one grid in one file.

use std::path::Path;

use gpara::{Grid, Result};
use npyz::WriterBuilder;

use super::error::FieldError;
use super::limits::read_file;
use super::raster::{Ending, Field};
use super::whole::write_whole;
use super::{geotiff, npy};

/// Reads several maps of one grid: `.npy` of `[maps, rows, cols]`, or a `.tif` of one map a page. A file of one map gives one.
///
/// # Errors
/// `Io` if the file cannot be read; `InvalidInput` if it is of another format, damaged, too large, or holds no map;
/// `ShapeMismatch` if its maps differ in size.
pub fn read_maps(path: &Path) -> Result<Vec<Field>> {
    let bytes = read_file(path)?;
    let maps = match Ending::of(path)? {
        Ending::Npy => npy::decode_stack(&bytes, path)?,
        Ending::Tiff => geotiff::decode_pages(&bytes, path)?,
        _ => return Err(FieldError::content(path, "several maps are read from .npy or .tif").into()),
    };
    let first = maps[0].grid();
    match maps.iter().position(|map| map.grid() != first) {
        Some(at) => {
            let reason = format!("map {at} is {} cells, map 0 is {first}", maps[at].grid());
            Err(FieldError::content(path, reason).into())
        }
        None => Ok(maps),
    }
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

    #[test]
    fn maps_are_read_back_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("maps.npy");
        let grid = Grid::new(2, 3).unwrap();
        let maps = [vec![1.0; 6], (0..6).map(f64::from).collect(), vec![-2.5; 6]];
        write_npy_stack(&path, grid, &maps).unwrap();
        let read = read_maps(&path).unwrap();
        assert_eq!(read.iter().map(|map| map.values().to_vec()).collect::<Vec<_>>(), maps);
        // Cut short, of no map, and in a format of one map.
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
        assert_eq!(read_maps(&path).unwrap_err().kind(), gpara::ErrorKind::InvalidInput);
        write_npy_stack(&path, grid, &[]).unwrap();
        assert!(read_maps(&path).unwrap_err().to_string().contains("no map"));
        let csv = folder.path().join("maps.csv");
        std::fs::write(&csv, "1,2\n").unwrap();
        assert!(read_maps(&csv).unwrap_err().to_string().contains(".npy or .tif"));
    }

    #[test]
    fn pages_of_a_tiff_are_maps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("maps.tif");
        let mut bytes = std::io::Cursor::new(Vec::new());
        let mut encoder = tiff::encoder::TiffEncoder::new(&mut bytes).unwrap();
        for page in 0..3u8 {
            let values = [f32::from(page), 1.0, 2.0, 3.0, 4.0, 5.5];
            encoder.write_image::<tiff::encoder::colortype::Gray32Float>(3, 2, &values).unwrap();
        }
        std::fs::write(&path, bytes.into_inner()).unwrap();
        let maps = read_maps(&path).unwrap();
        assert_eq!(maps.len(), 3);
        assert_eq!(maps[2].values(), [2.0, 1.0, 2.0, 3.0, 4.0, 5.5]);
        assert_eq!((maps[0].grid().rows(), maps[0].grid().cols()), (2, 3));
    }
}
