//! Masks: which cells a file marks, and what a mark means.

use std::path::Path;

use gpara::{Grid, Result, ValidMask};

use super::error::FieldError;
use super::raster::Field;

/// One mark a cell, from a file of 0 and 1, 0 and 255, or booleans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskFile {
    grid: Grid,
    marked: Vec<bool>,
}

/// What a mark means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskUse {
    /// A marked cell belongs to the field.
    Valid,
    /// A marked cell does not belong to the field, e.g. a building.
    Invalid,
    /// A marked cell is measured.
    Measured,
}

impl MaskFile {
    /// Reads a mask from any file that holds a field, e.g. `.png`, `.npy`, `.tif` or `.csv`.
    ///
    /// # Errors
    /// `InvalidInput` with the first value that is neither 0 nor the mark (1 or 255, the same in the whole file), and the
    /// errors of [`Field::read`].
    pub fn read(path: &Path) -> Result<Self> {
        let field = Field::read_raw(path)?;
        let mark = field.values().iter().copied().find(|&value| value == 1.0 || value == 255.0).unwrap_or(1.0);
        match field.values().iter().position(|&value| value != 0.0 && value != mark) {
            None => {
                Ok(Self { grid: field.grid(), marked: field.values().iter().map(|&value| value == mark).collect() })
            }
            Some(node) => {
                let (row, col) = field.grid().row_col(node);
                Err(FieldError::MaskValue { path: path.into(), value: field.values()[node], row, col }.into())
            }
        }
    }

    /// The grid of the mask.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// One flag a node, true = marked.
    pub fn marked(&self) -> &[bool] {
        &self.marked
    }

    /// Number of marked cells.
    pub fn num_marked(&self) -> usize {
        self.marked.iter().filter(|&&marked| marked).count()
    }

    /// Checks that no marked cell is outside a valid mask, for masks of measured cells.
    ///
    /// # Errors
    /// `ShapeMismatch` if the grids differ; `InvalidInput` with the first marked cell outside.
    pub fn check_inside(&self, valid: &ValidMask) -> Result<()> {
        if valid.grid() != self.grid {
            return Err(FieldError::MaskSize { field: self.grid, mask: valid.grid() }.into());
        }
        match (0..self.marked.len()).find(|&node| self.marked[node] && !valid.is_valid(node)) {
            None => Ok(()),
            Some(node) => {
                let (row, col) = self.grid.row_col(node);
                Err(FieldError::MeasuredOutside { row, col }.into())
            }
        }
    }

    /// The valid cells if a mark means `valid_if_marked`.
    ///
    /// # Errors
    /// `InvalidInput` if no cell would be valid.
    pub fn into_valid(self, valid_if_marked: bool) -> Result<ValidMask> {
        ValidMask::new(self.grid, self.marked.into_iter().map(|marked| marked == valid_if_marked).collect())
    }

    /// A warning if the mask looks inverted for its use: all cells invalid, or more than half of them measured.
    ///
    /// `flag` is what the user may set to turn the mask around, e.g. `--invert-mask`.
    pub fn warning(&self, use_as: MaskUse, flag: &str) -> Option<String> {
        let (marked, cells) = (self.num_marked(), self.marked.len());
        let complaint = match use_as {
            MaskUse::Valid if marked == 0 => format!("mask marks none of {cells} cells as valid"),
            MaskUse::Invalid if marked == cells => format!("mask marks all {cells} cells as invalid"),
            MaskUse::Measured if 2 * marked > cells => format!("mask marks {marked} of {cells} cells as measured"),
            MaskUse::Valid | MaskUse::Invalid | MaskUse::Measured => return None,
        };
        Some(format!("{complaint}; if it is inverted, set {flag}"))
    }
}

/// The bytes of an 8-bit PNG, 255 = valid; `path` only names the file in errors.
pub(crate) fn encode_mask(path: &Path, valid: &ValidMask) -> Result<Vec<u8>> {
    let pixels: Vec<u8> = valid.as_slice().iter().map(|&valid| if valid { 255 } else { 0 }).collect();
    let (mut file, grid) = (Vec::new(), valid.grid());
    let mut encode = || -> Result<(), png::EncodingError> {
        let mut encoder = png::Encoder::new(&mut file, grid.cols() as u32, grid.rows() as u32);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()
    };
    encode().map_err(|error| FieldError::content(path, error))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    fn read(text: &str) -> Result<MaskFile> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mask.csv");
        std::fs::write(&path, text).unwrap();
        MaskFile::read(&path)
    }

    #[test]
    fn users_05_zero_one_and_zero_255_give_the_same_mask() {
        let mask = read("0,1,0\n1,1,0\n").unwrap();
        assert_eq!(mask, read("0,255,0\n255,255,0\n").unwrap());
        assert_eq!(mask.marked(), [false, true, false, true, true, false]);
        assert_eq!(mask.clone().into_valid(true).unwrap().num_valid(), 3);
        assert!(!mask.into_valid(false).unwrap().is_valid(1));
    }

    #[test]
    fn users_05_boolean_arrays_are_masks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mask.npy");
        let header = "{'descr': '|b1', 'fortran_order': False, 'shape': (1, 3), }\n";
        let bytes = [b"\x93NUMPY\x01\x00".as_slice(), &[header.len() as u8, 0], header.as_bytes(), &[1, 0, 1]].concat();
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(MaskFile::read(&path).unwrap().marked(), [true, false, true]);
    }

    #[test]
    fn users_05_written_mask_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mask.png");
        let valid = ValidMask::new(Grid::new(2, 3).unwrap(), vec![true, false, true, true, false, false]).unwrap();
        std::fs::write(&path, encode_mask(&path, &valid).unwrap()).unwrap();
        assert_eq!(MaskFile::read(&path).unwrap().into_valid(true).unwrap(), valid);
    }

    #[test]
    fn png_mask_reads_without_a_scale() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mask.png");
        image::GrayImage::from_vec(2, 1, vec![0, 255]).unwrap().save(&path).unwrap();
        assert_eq!(MaskFile::read(&path).unwrap().marked(), [false, true]);
    }

    #[test]
    fn users_05_other_values_are_refused_and_named() {
        for (text, value) in
            [("0,1\n2,0\n", "2"), ("0,1\n255,0\n", "255"), ("0,0\n0.5,0\n", "0.5"), ("0,1\n,0\n", "NaN")]
        {
            let error = read(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
            let message = error.to_string();
            assert!(message.contains(&format!("holds {value} at row 1, col 0")), "{message}");
        }
    }

    #[test]
    fn users_05_inverted_looking_mask_gets_a_warning_that_names_the_flag() {
        let mostly = read("1,1,0\n").unwrap();
        assert!(mostly.warning(MaskUse::Measured, "--invert-mask").unwrap().contains("--invert-mask"));
        assert_eq!(mostly.warning(MaskUse::Valid, "--invert-mask"), None);
        assert_eq!(mostly.warning(MaskUse::Invalid, "--invert-mask"), None);
        let none = read("0,0\n").unwrap();
        assert!(none.warning(MaskUse::Valid, "--invert-mask").is_some());
        assert_eq!(none.into_valid(true).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(read("1,1\n").unwrap().warning(MaskUse::Invalid, "--invert-mask").is_some());
        assert_eq!(read("1,0\n").unwrap().warning(MaskUse::Measured, "--invert-mask"), None);
    }
}
