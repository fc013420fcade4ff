//! A field read from a file, before anyone decides which of its cells count.

use std::path::Path;

use gpara::{Grid, Result, ValidMask};

use super::error::FieldError;
use super::png_file::{GrayPng, PngScale};
use super::{csv_grid, npy};

/// Values on a grid in the unit of their file; NaN stands for a missing value.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    grid: Grid,
    values: Vec<f64>,
}

impl Field {
    /// A field of `num_nodes` values.
    ///
    /// # Errors
    /// `ShapeMismatch` if the grid has another number of cells.
    pub fn new(grid: Grid, values: Vec<f64>) -> Result<Self> {
        if values.len() != grid.num_nodes() {
            return Err(FieldError::Length { grid, found: values.len() }.into());
        }
        Ok(Self { grid, values })
    }

    /// Reads `.png` (gray, 8 or 16 bits), `.npy` (2-D, float, integer or boolean) or `.csv` (numbers without header).
    ///
    /// A PNG is read with `scale`, or else with the one [`write_png16`](super::write_png16) recorded in it. The other
    /// formats hold values and ignore `scale`.
    ///
    /// # Errors
    /// `Io` if the file cannot be read; `InvalidInput` if it is of another format, damaged, or a PNG without any scale;
    /// `ShapeMismatch` if the lines of a CSV differ in length. NaN and infinite values are read, not refused:
    /// [`check_finite`](Self::check_finite) does that once the mask is known.
    pub fn read(path: &Path, scale: Option<PngScale>) -> Result<Self> {
        let bytes = read_bytes(path)?;
        if Ending::of(path)? == Ending::Png {
            let png = GrayPng::decode(&bytes, path)?;
            let scale = scale.or(png.recorded).ok_or_else(|| FieldError::NoScale { path: path.into() })?;
            let values = png.gray.iter().map(|&gray| scale.value(gray)).collect();
            return Self::new(png.grid, values);
        }
        Self::decode_raw(&bytes, path)
    }

    /// Reads the numbers of a file as they stand: gray values of a PNG without any scale.
    pub(super) fn read_raw(path: &Path) -> Result<Self> {
        Self::decode_raw(&read_bytes(path)?, path)
    }

    fn decode_raw(bytes: &[u8], path: &Path) -> Result<Self> {
        match Ending::of(path)? {
            Ending::Png => {
                let png = GrayPng::decode(bytes, path)?;
                Self::new(png.grid, png.gray.into_iter().map(f64::from).collect())
            }
            Ending::Npy => npy::decode(bytes, path),
            Ending::Csv => csv_grid::decode(bytes, path),
        }
    }

    /// The grid of the field.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// One value a node.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The values without the grid.
    pub fn into_values(self) -> Vec<f64> {
        self.values
    }

    /// Checks that the field fits the mask and is finite wherever the mask is valid.
    ///
    /// # Errors
    /// `ShapeMismatch` if the grids differ; `NonFinite` with the first valid cell that is NaN or infinite.
    pub fn check_finite(&self, valid: &ValidMask) -> Result<()> {
        if valid.grid() != self.grid {
            return Err(FieldError::MaskSize { field: self.grid, mask: valid.grid() }.into());
        }
        match valid.nodes().find(|&node| !self.values[node].is_finite()) {
            None => Ok(()),
            Some(node) => {
                let (row, col) = self.grid.row_col(node);
                Err(FieldError::NonFinite { value: self.values[node], row, col }.into())
            }
        }
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    Ending::of(path)?;
    std::fs::read(path).map_err(|source| FieldError::Read { path: path.into(), source }.into())
}

/// What the end of a file's name says about its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Png,
    Npy,
    Csv,
}

impl Ending {
    fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("png") => Ok(Self::Png),
            Some("npy") => Ok(Self::Npy),
            Some("csv") => Ok(Self::Csv),
            _ => Err(FieldError::Ending { path: path.into() }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;
    use crate::field::{write_npy, write_png16};

    #[test]
    fn same_values_come_from_png16_npy_and_csv() {
        let folder = tempfile::tempdir().unwrap();
        let grid = Grid::new(2, 3).unwrap();
        // Multiples of 1/4 in a range of 65535/4 are exact in all three formats.
        let values = vec![0.0, 0.25, 100.5, 16383.75, 7.0, 1.0];
        let valid = ValidMask::all(grid);
        let path = |name: &str| folder.path().join(name);
        write_png16(&path("a.png"), &valid, &values, 0.0, 16383.75).unwrap();
        write_npy(&path("a.npy"), grid, &values).unwrap();
        std::fs::write(path("a.csv"), "0,0.25,100.5\n16383.75,7,1\n").unwrap();
        for name in ["a.png", "a.npy", "a.csv"] {
            let field = Field::read(&path(name), None).unwrap();
            assert_eq!((field.grid(), field.values()), (grid, values.as_slice()), "{name}");
        }
    }

    #[test]
    fn first_bad_valid_cell_is_named_and_invalid_cells_may_be_missing() {
        let grid = Grid::new(2, 2).unwrap();
        let field = Field::new(grid, vec![f64::NAN, 1.0, f64::INFINITY, f64::NAN]).unwrap();
        let error = field.check_finite(&ValidMask::new(grid, vec![false, true, true, true]).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NonFinite);
        assert!(error.to_string().contains("row 1, col 0"), "{error}");
        field.check_finite(&ValidMask::new(grid, vec![false, true, false, false]).unwrap()).unwrap();
        let error = field.check_finite(&ValidMask::all(Grid::new(1, 4).unwrap())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
    }

    #[test]
    fn missing_file_and_unknown_ending_are_told_apart() {
        let error = Field::read(Path::new("/nowhere/a.npy"), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let error = Field::read(Path::new("/nowhere/a.bmp"), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
