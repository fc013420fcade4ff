//! A field read from a file, before anyone decides which of its cells count.

use std::path::Path;

use gpara::{Grid, Result, ValidMask};

use super::error::FieldError;
use super::limits::read_file;
use super::png_file::{GrayPng, GrayScale, PngScale};
use super::world_file::read_world_file;
use super::{ascii_grid, csv_grid, geotiff, npy, npz};
use crate::geo::Georeference;

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

    /// Reads the values of any file that [`Raster::read`] reads.
    ///
    /// A PNG is read with `scale`, or else with the one [`write_png16`](super::write_png16) recorded in it. The other
    /// formats hold values and ignore `scale`.
    ///
    /// # Errors
    /// As [`Raster::read`].
    pub fn read(path: &Path, scale: Option<PngScale>) -> Result<Self> {
        let options = RasterOptions { scale: scale.map(GrayScale::Steps), ..RasterOptions::default() };
        Ok(Raster::read(path, &options)?.field)
    }

    /// Reads the numbers of a file as they stand: gray values of a PNG without any scale.
    pub(super) fn read_raw(path: &Path) -> Result<Self> {
        let bytes = read_bytes(path)?;
        if Ending::of(path)? == Ending::Png {
            let png = GrayPng::decode(&bytes, path)?;
            return Self::new(png.grid, png.gray.into_iter().map(f64::from).collect());
        }
        Ok(Raster::decode(&bytes, path, &RasterOptions::default())?.field)
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
        self.check_finite_at(valid.grid(), valid.nodes())
    }

    /// Checks that the field is on `grid` and finite at the nodes.
    pub(crate) fn check_finite_at(&self, grid: Grid, mut nodes: impl Iterator<Item = usize>) -> Result<()> {
        if grid != self.grid {
            return Err(FieldError::MaskSize { field: self.grid, mask: grid }.into());
        }
        match nodes.find(|&node| !self.values[node].is_finite()) {
            None => Ok(()),
            Some(node) => {
                let (row, col) = self.grid.row_col(node);
                Err(FieldError::NonFinite { value: self.values[node], row, col }.into())
            }
        }
    }
}

/// What the user says about a file of values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RasterOptions {
    /// What gray values of a PNG stand for.
    pub scale: Option<GrayScale>,
    /// A value that stands for a missing one, beside the one that the file declares; -9999 or 0, for example.
    pub missing: Option<f64>,
    /// Name of the array in an `.npz`; not needed if there is one only.
    pub array: Option<String>,
}

/// A field as a file holds it, and what the file says about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Raster {
    /// The values; NaN stands for a missing one.
    pub field: Field,
    /// Its place in the world, from the file itself or a world file beside it.
    pub georeference: Option<Georeference>,
    /// The scale that turned gray values into values, if the file is a PNG.
    pub scale: Option<PngScale>,
}

impl Raster {
    /// Reads `.png` (gray, 8 or 16 bits), `.npy` and `.npz` (2-D, float, integer or boolean), `.csv` (numbers without
    /// header), `.tif` and `.tiff` (one band) or `.asc` (ESRI ASCII grid).
    ///
    /// # Errors
    /// `Io` if the file cannot be read; `InvalidInput` if it is of another format, damaged, larger than
    /// [`MAX_CELLS`](super::MAX_CELLS), a preview (`*_vis.png`), or a PNG without any scale; `ShapeMismatch` if the lines
    /// of a CSV differ in length. NaN and infinite values are read, not refused: [`Field::check_finite`] does that once
    /// the mask is known.
    pub fn read(path: &Path, options: &RasterOptions) -> Result<Self> {
        let mut raster = Self::decode(&read_bytes(path)?, path, options)?;
        if raster.georeference.is_none() {
            raster.georeference = read_world_file(path)?;
        }
        Ok(raster)
    }

    /// Decodes the bytes of a file; the end of `path` tells the format.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn decode(bytes: &[u8], path: &Path, options: &RasterOptions) -> Result<Self> {
        let (mut field, georeference, scale) = match Ending::of(path)? {
            Ending::Png => {
                let png = GrayPng::decode(bytes, path)?;
                let given = options.scale.map(|scale| scale.resolve(png.white)).transpose()?;
                let scale = given.or(png.recorded).ok_or_else(|| FieldError::NoScale { path: path.into() })?;
                let values = png.gray.iter().map(|&gray| scale.value(gray)).collect();
                (Field::new(png.grid, values)?, None, Some(scale))
            }
            Ending::Npy => (npy::decode(bytes, path)?, None, None),
            Ending::Npz => (npz::decode(bytes, path, options.array.as_deref())?, None, None),
            Ending::Csv => (csv_grid::decode(bytes, path)?, None, None),
            Ending::Tiff => {
                let (field, georeference) = geotiff::decode(bytes, path)?;
                (field, georeference, None)
            }
            Ending::AsciiGrid => {
                let (field, georeference) = ascii_grid::decode(bytes, path)?;
                (field, Some(georeference), None)
            }
        };
        if let Some(missing) = options.missing {
            field.values.iter_mut().filter(|value| **value == missing).for_each(|value| *value = f64::NAN);
        }
        Ok(Self { field, georeference, scale })
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    Ending::of(path)?;
    if is_preview(path) {
        return Err(FieldError::Preview { path: path.into() }.into());
    }
    read_file(path)
}

/// Whether a name is that of a picture for people, `*_vis.png`.
pub(crate) fn is_preview(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().to_ascii_lowercase().ends_with("_vis.png"))
}

/// What the end of a file's name says about its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Png,
    Npy,
    Npz,
    Csv,
    Tiff,
    AsciiGrid,
}

impl Ending {
    /// As [`of`](Self::of), for formats that are written.
    pub(crate) fn of_written(path: &Path) -> Result<Self> {
        match Self::of(path)? {
            Self::Npz => Err(FieldError::Ending { path: path.into() }.into()),
            ending => Ok(ending),
        }
    }

    pub(crate) fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("png") => Ok(Self::Png),
            Some("npy") => Ok(Self::Npy),
            Some("npz") => Ok(Self::Npz),
            Some("tif" | "tiff") => Ok(Self::Tiff),
            Some("asc") => Ok(Self::AsciiGrid),
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
