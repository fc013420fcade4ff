//! Hand-drawn masks for the tests of this module, and the eight symmetries of the square.

use gpara::Grid;

/// A mask drawn with `#` for buildings.
pub(super) fn mask(rows: &[&str]) -> (Grid, Vec<bool>) {
    let grid = Grid::new(rows.len(), rows[0].len()).unwrap();
    assert!(rows.iter().all(|row| row.len() == grid.cols()), "rows differ in length: {rows:?}");
    (grid, rows.iter().flat_map(|row| row.bytes().map(|byte| byte == b'#')).collect())
}

/// One of the eight symmetries: transpose first, then flip rows, then flip columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symmetry {
    transpose: bool,
    flip_rows: bool,
    flip_cols: bool,
}

impl Symmetry {
    /// All eight.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let both = [false, true];
        both.into_iter().flat_map(move |transpose| {
            both.into_iter().flat_map(move |flip_rows| {
                both.into_iter().map(move |flip_cols| Self { transpose, flip_rows, flip_cols })
            })
        })
    }

    /// The grid after the symmetry.
    pub(super) fn grid(self, grid: Grid) -> Grid {
        if self.transpose { Grid::new(grid.cols(), grid.rows()).unwrap() } else { grid }
    }

    /// Where a cell goes.
    pub(super) fn cell(self, grid: Grid, (row, col): (usize, usize)) -> (usize, usize) {
        let target = self.grid(grid);
        let (row, col) = if self.transpose { (col, row) } else { (row, col) };
        let row = if self.flip_rows { target.rows() - 1 - row } else { row };
        let col = if self.flip_cols { target.cols() - 1 - col } else { col };
        (row, col)
    }

    /// The values moved along with their cells.
    pub(super) fn map<T: Copy>(self, grid: Grid, values: &[T]) -> Vec<T> {
        let target = self.grid(grid);
        let mut moved = values.to_vec();
        for (node, &value) in values.iter().enumerate() {
            let (row, col) = self.cell(grid, grid.row_col(node));
            moved[target.node(row, col)] = value;
        }
        moved
    }
}
