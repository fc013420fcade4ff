//! A grid's place in the world.

use gpara::{Grid, Result};

use super::affine::Affine;
use super::crs::{Crs, Projection};
use super::error::GeoError;

/// Affine transform and coordinate reference system of a grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Georeference {
    affine: Affine,
    crs: Option<Crs>,
}

impl Georeference {
    /// World coordinates in cells: x = col + 0.5 and y = row + 0.5 at a cell's centre, y down, no place on Earth.
    pub const CELLS: Self = Self { affine: Affine::CELLS, crs: None };

    /// From a transform and a system, if it is known.
    pub fn new(affine: Affine, crs: Option<Crs>) -> Self {
        Self { affine, crs }
    }

    /// Square cells with north at the top; `left` and `top` are the outer edges of the first cell.
    ///
    /// # Errors
    /// `InvalidInput` if a number is not finite or the size of a cell is not positive.
    pub fn north_up(left: f64, top: f64, cell_size: f64, crs: Option<Crs>) -> Result<Self> {
        if !(cell_size > 0.0 && cell_size.is_finite()) {
            return Err(GeoError::CellSize { size: cell_size }.into());
        }
        Ok(Self { affine: Affine::new([left, cell_size, 0.0, top, 0.0, -cell_size])?, crs })
    }

    /// The transform from (col, row) to (x, y).
    pub fn affine(self) -> Affine {
        self.affine
    }

    /// The coordinate reference system, if it is known.
    pub fn crs(self) -> Option<Crs> {
        self.crs
    }

    /// The same transform in a declared system.
    pub fn with_crs(self, crs: Crs) -> Self {
        Self { affine: self.affine, crs: Some(crs) }
    }

    /// World coordinates (x, y) of a cell's centre.
    pub fn centre(self, row: usize, col: usize) -> (f64, f64) {
        self.affine.world(row as f64 + 0.5, col as f64 + 0.5)
    }

    /// Row and column of the cell that contains world coordinates. Cells are half-open: a cell holds its edges towards
    /// row 0 and column 0, not the opposite ones.
    ///
    /// # Errors
    /// `InvalidInput` with the coordinates if they are outside the grid or not finite.
    ///
    /// # Example
    /// ```
    /// use gpara::Grid;
    /// use gpara_tasks::geo::{Crs, Georeference};
    ///
    /// let place = Georeference::north_up(500_000.0, 4_000_000.0, 10.0, Some(Crs::Epsg(32_632)))?;
    /// let grid = Grid::new(20, 30)?;
    /// assert_eq!(place.cell(grid, 500_010.0, 3_999_995.0)?, (0, 1));
    /// assert!(place.cell(grid, 500_300.0, 3_999_995.0).is_err());
    /// # Ok::<(), gpara::Error>(())
    /// ```
    pub fn cell(self, grid: Grid, x: f64, y: f64) -> Result<(usize, usize)> {
        let (row, col) = self.affine.row_col(x, y);
        let inside = |value: f64, limit: usize| value >= 0.0 && value < limit as f64;
        if !inside(row, grid.rows()) || !inside(col, grid.cols()) {
            return Err(GeoError::Outside { x, y, row, col, grid }.into());
        }
        // The casts round down.
        Ok((row as usize, col as usize))
    }

    /// The projection from latitude and longitude into this system.
    ///
    /// # Errors
    /// `InvalidInput` if no system is declared, or it cannot be used.
    pub fn projection(self) -> Result<Projection> {
        self.crs.ok_or(GeoError::NoCrs)?.projection()
    }
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    fn references() -> [Georeference; 4] {
        [
            Georeference::CELLS,
            Georeference::north_up(431_000.5, 5_412_000.25, 7.3, Some(Crs::Epsg(32_632))).unwrap(),
            Georeference::new(Affine::new([10.0, 0.1, 0.0, -3.0, 0.0, 0.3]).unwrap(), None),
            Georeference::new(Affine::new([10.0, 3.0, 1.0, -3.0, 0.5, -2.0]).unwrap(), None),
        ]
    }

    #[test]
    fn users_15_index_to_cell_to_world_and_back_on_every_cell_of_a_long_grid() {
        let grid = Grid::new(37, 53).unwrap();
        for place in references() {
            for node in 0..grid.num_nodes() {
                let (row, col) = grid.row_col(node);
                let (x, y) = place.centre(row, col);
                let found = place.cell(grid, x, y).unwrap();
                assert_eq!(grid.node(found.0, found.1), node, "{place:?}");
            }
        }
    }

    #[test]
    fn users_16_cells_are_half_open_and_a_point_outside_is_an_error_with_its_coordinate() {
        let grid = Grid::new(3, 4).unwrap();
        let place = Georeference::north_up(100.0, 50.0, 0.1, None).unwrap();
        assert_eq!(place.cell(grid, 100.0, 50.0).unwrap(), (0, 0));
        assert_eq!(Georeference::CELLS.cell(grid, 3.999, 2.0).unwrap(), (2, 3));
        for (x, y) in [(4.0, 0.5), (0.5, 3.0), (-1e-9, 0.5), (f64::NAN, 0.5), (0.5, f64::INFINITY)] {
            let error = Georeference::CELLS.cell(grid, x, y).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&format!("x {x}, y {y}")), "{error}");
        }
    }

    #[test]
    fn degrees_need_a_declared_system() {
        let error = Georeference::CELLS.projection().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.hint().unwrap().contains("EPSG"), "{error}");
        assert!(Georeference::north_up(0.0, 0.0, 0.0, None).is_err());
    }
}
