//! The affine map from (col, row) of a grid to world coordinates.

use gpara::Result;

use super::error::GeoError;

/// `x = x_origin + x_per_col col + x_per_row row`, `y = y_origin + y_per_col col + y_per_row row`.
///
/// `col` and `row` are continuous: (0, 0) is the outer corner of the first cell, (0.5, 0.5) its centre.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine {
    coefficients: [f64; 6],
}

impl Affine {
    /// Column is x and row is y, in cells.
    pub const CELLS: Self = Self { coefficients: [0.0, 1.0, 0.0, 0.0, 0.0, 1.0] };

    /// From `[x_origin, x_per_col, x_per_row, y_origin, y_per_col, y_per_row]`, the order of GDAL's geotransform.
    ///
    /// # Errors
    /// `InvalidInput` if a coefficient is not finite or the transform has no inverse.
    pub fn new(coefficients: [f64; 6]) -> Result<Self> {
        let determinant = determinant(&coefficients);
        if coefficients.iter().any(|value| !value.is_finite()) || !determinant.is_normal() {
            return Err(GeoError::Singular { coefficients }.into());
        }
        Ok(Self { coefficients })
    }

    /// `[x_origin, x_per_col, x_per_row, y_origin, y_per_col, y_per_row]`.
    pub fn coefficients(self) -> [f64; 6] {
        self.coefficients
    }

    /// Whether rows and columns run along the axes.
    pub fn is_axis_aligned(self) -> bool {
        self.coefficients[2] == 0.0 && self.coefficients[4] == 0.0
    }

    /// World coordinates (x, y) of a place in the grid.
    pub fn world(self, row: f64, col: f64) -> (f64, f64) {
        let [x_origin, x_per_col, x_per_row, y_origin, y_per_col, y_per_row] = self.coefficients;
        (x_origin + x_per_col * col + x_per_row * row, y_origin + y_per_col * col + y_per_row * row)
    }

    /// Place in the grid, (row, col), of world coordinates.
    pub fn row_col(self, x: f64, y: f64) -> (f64, f64) {
        let [x_origin, x_per_col, x_per_row, y_origin, y_per_col, y_per_row] = self.coefficients;
        let (x, y) = (x - x_origin, y - y_origin);
        if self.is_axis_aligned() {
            // One division rounds once: the edges of cells of a representable size stay exact.
            return (y / y_per_row, x / x_per_col);
        }
        let determinant = determinant(&self.coefficients);
        ((x_per_col * y - y_per_col * x) / determinant, (y_per_row * x - x_per_row * y) / determinant)
    }
}

fn determinant(coefficients: &[f64; 6]) -> f64 {
    let [_, x_per_col, x_per_row, _, y_per_col, y_per_row] = *coefficients;
    x_per_col * y_per_row - x_per_row * y_per_col
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn rotated_transform_and_its_inverse_agree() {
        let affine = Affine::new([500_000.0, 3.0, 1.0, 4_000_000.0, 0.5, -2.0]).unwrap();
        assert_eq!(affine.world(2.0, 4.0), (500_014.0, 3_999_998.0));
        let (row, col) = affine.row_col(500_014.0, 3_999_998.0);
        assert!((row - 2.0).abs() < 1e-12 && (col - 4.0).abs() < 1e-12, "{row} {col}");
    }

    #[test]
    fn transforms_without_inverse_are_refused() {
        for bad in [[0.0, 1.0, 2.0, 0.0, 2.0, 4.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [f64::NAN, 1.0, 0.0, 0.0, 0.0, 1.0]]
        {
            assert_eq!(Affine::new(bad).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad:?}");
        }
    }
}
