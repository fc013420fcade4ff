//! One window: the cells it sees, the core it answers for, and its part of the matrix.

use std::ops::Range;

use super::window_solver::{Plans, WindowSolver};
use crate::engine::StencilMatrix;
use crate::error::Result;
use crate::grid::Grid;
use crate::solve::Stencil;

/// A rectangle of a larger grid with a core inside; all ranges are of the larger grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Window {
    rows: Range<usize>,
    cols: Range<usize>,
    core_rows: Range<usize>,
    core_cols: Range<usize>,
}

impl Window {
    /// Windows whose cores divide the grid, in row order. With a halo no longer than the core at most sixteen shapes: in each
    /// direction first, inner, last but one and last.
    pub(super) fn tiles(grid: Grid, core: usize, halo: usize) -> Vec<Self> {
        let starts = |length: usize| (0..length).step_by(core);
        let tile = |core_rows: usize, core_cols: usize| {
            let core_rows = core_rows..core_rows.saturating_add(core).min(grid.rows());
            let core_cols = core_cols..core_cols.saturating_add(core).min(grid.cols());
            Self::with_margin(grid, core_rows, core_cols, halo)
        };
        starts(grid.rows()).flat_map(|row| starts(grid.cols()).map(move |col| tile(row, col))).collect()
    }

    /// The cells within `radius` rows and columns of a node, which is the core.
    pub(super) fn around(grid: Grid, node: usize, radius: usize) -> Self {
        let (row, col) = grid.row_col(node);
        Self::with_margin(grid, row..row + 1, col..col + 1, radius)
    }

    fn with_margin(grid: Grid, core_rows: Range<usize>, core_cols: Range<usize>, margin: usize) -> Self {
        let grow = |core: &Range<usize>, length: usize| {
            core.start.saturating_sub(margin)..core.end.saturating_add(margin).min(length)
        };
        Self { rows: grow(&core_rows, grid.rows()), cols: grow(&core_cols, grid.cols()), core_rows, core_cols }
    }

    /// The grid of the window's own cells.
    pub(super) fn grid(&self) -> Grid {
        Grid::new(self.rows.len(), self.cols.len()).expect("a window is a part of an allowed grid")
    }

    /// Whether the window is the whole grid, so that nothing is cut.
    pub(super) fn covers(&self, grid: Grid) -> bool {
        self.grid() == grid
    }

    /// The first node of the core in the larger grid.
    pub(super) fn first_core_node(&self, grid: Grid) -> usize {
        grid.node(self.core_rows.start, self.core_cols.start)
    }

    /// The corner nodes of the core: where a cut is nearest.
    pub(super) fn core_corners(&self, grid: Grid) -> Vec<usize> {
        let (rows, cols) = (&self.core_rows, &self.core_cols);
        let corner = |row: usize, col: usize| grid.node(row, col);
        let mut corners = vec![
            corner(rows.start, cols.start),
            corner(rows.start, cols.end - 1),
            corner(rows.end - 1, cols.start),
            corner(rows.end - 1, cols.end - 1),
        ];
        corners.dedup();
        corners
    }

    /// The row and column distance, whichever is larger, of a window node from a node of the larger grid.
    pub(super) fn distance(&self, grid: Grid, own: usize, node: usize) -> usize {
        let (row, col) = grid.row_col(node);
        let (own_row, own_col) = self.grid().row_col(own);
        (self.rows.start + own_row).abs_diff(row).max((self.cols.start + own_col).abs_diff(col))
    }

    /// The window's index of a node of the larger grid.
    pub(super) fn own_node(&self, grid: Grid, node: usize) -> usize {
        let (row, col) = grid.row_col(node);
        self.grid().node(row - self.rows.start, col - self.cols.start)
    }

    /// The window's part of a field.
    pub(super) fn copy_field(&self, grid: Grid, field: &[f64], out: &mut Vec<f64>) {
        out.clear();
        for row in self.rows.clone() {
            out.extend_from_slice(&field[grid.node(row, self.cols.start)..][..self.cols.len()]);
        }
    }

    /// Writes the core of a window's field into the whole.
    pub(super) fn copy_core(&self, grid: Grid, own: &[f64], field: &mut [f64]) {
        for row in self.core_rows.clone() {
            let start = self.own_node(grid, grid.node(row, self.core_cols.start));
            let target = grid.node(row, self.core_cols.start);
            let width = self.core_cols.len();
            field[target..target + width].copy_from_slice(&own[start..start + width]);
        }
    }

    /// The rows and columns of the matrix that belong to the window; couplings across its rim are dropped, the diagonal stays.
    pub(super) fn matrix(&self, whole: Stencil<'_, f64>) -> StencilMatrix {
        let mut part = StencilMatrix::zeros(self.grid(), whole.reach);
        self.copy_field(whole.grid, whole.diagonal, &mut part.diagonal);
        for ((map, out), &(down, right)) in whole.coupling.iter().zip(&mut part.coupling).zip(whole.reach.offsets()) {
            self.copy_field(whole.grid, map, out);
            let (height, width) = (self.rows.len(), self.cols.len());
            let last_row = height.saturating_sub(down.unsigned_abs());
            let (left_cut, right_cut) = if right < 0 { (right.unsigned_abs(), 0) } else { (0, right.unsigned_abs()) };
            for (row, values) in out.chunks_exact_mut(width).enumerate() {
                if row >= last_row {
                    values.fill(0.0);
                    continue;
                }
                values[..left_cut.min(width)].fill(0.0);
                values[width.saturating_sub(right_cut)..].fill(0.0);
            }
        }
        part
    }

    /// Sigma e_node of the window's matrix, for a node of the larger grid.
    pub(super) fn column(&self, whole: Stencil<'_, f64>, solver: &mut WindowSolver, node: usize) -> Result<Vec<f64>> {
        solver.factor(&Plans::default(), &self.matrix(whole))?;
        Ok(self.column_of_factored(whole.grid, solver, node))
    }

    /// [`column`](Self::column) of a window that `solver` has factorised.
    pub(super) fn column_of_factored(&self, grid: Grid, solver: &WindowSolver, node: usize) -> Vec<f64> {
        let mut unit = vec![0.0; self.grid().num_nodes()];
        unit[self.own_node(grid, node)] = 1.0;
        solver.solve(&unit)
    }

    /// `-A x` at the cells outside of the window for a window's field x: all that is left of `A x = f` if the window's own
    /// system is solved. Pairs of node and value.
    pub(super) fn cut_residual(&self, whole: Stencil<'_, f64>, field: &[f64]) -> Vec<(usize, f64)> {
        let grown = Self::with_margin(whole.grid, self.rows.clone(), self.cols.clone(), whole.reach.cells());
        let mut extended = vec![0.0; grown.grid().num_nodes()];
        for (own, &value) in field.iter().enumerate() {
            extended[grown.own_node(whole.grid, self.node_of(whole.grid, own))] = value;
        }
        let matrix = grown.matrix(whole);
        let mut applied = vec![0.0; extended.len()];
        matrix.view().apply(&extended, &mut applied);
        let outside = applied.iter().enumerate().filter_map(|(own, value)| {
            let (row, col) = whole.grid.row_col(grown.node_of(whole.grid, own));
            let inside = self.rows.contains(&row) && self.cols.contains(&col);
            (!inside).then(|| (whole.grid.node(row, col), -value))
        });
        outside.collect()
    }

    fn node_of(&self, grid: Grid, own: usize) -> usize {
        let (row, col) = self.grid().row_col(own);
        grid.node(self.rows.start + row, self.cols.start + col)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Reach;
    use crate::solve::random_matrix;

    #[test]
    fn cores_divide_the_grid_and_windows_have_few_shapes() {
        for (rows, cols, core, halo) in
            [(1, 1, 5, 2), (37, 53, 10, 4), (10, 100, 16, 0), (64, 64, 64, 8), (9, 9, 100, 3)]
        {
            let grid = Grid::new(rows, cols).unwrap();
            let windows = Window::tiles(grid, core, halo);
            let mut count = vec![0; grid.num_nodes()];
            let mut shapes = Vec::new();
            for window in &windows {
                for row in window.core_rows.clone() {
                    window.core_cols.clone().for_each(|col| count[grid.node(row, col)] += 1);
                }
                let margin = |core: &Range<usize>, all: &Range<usize>, length: usize| {
                    assert_eq!(all.start, core.start.saturating_sub(halo));
                    assert_eq!(all.end, (core.end + halo).min(length));
                };
                margin(&window.core_rows, &window.rows, rows);
                margin(&window.core_cols, &window.cols, cols);
                shapes.push(window.grid());
            }
            assert!(count.iter().all(|&count| count == 1), "{grid} core {core}");
            shapes.sort_by_key(|shape| (shape.rows(), shape.cols()));
            shapes.dedup();
            assert!(shapes.len() <= 16, "{grid} core {core}: {} shapes", shapes.len());
        }
    }

    #[test]
    fn window_matrix_is_the_submatrix_and_the_cut_residual_is_what_it_misses() {
        let grid = Grid::new(9, 11).unwrap();
        for reach in [Reach::One, Reach::Two] {
            let whole = random_matrix(grid.rows(), grid.cols(), reach);
            let window = Window::with_margin(grid, 3..5, 2..6, 2);
            let own = window.grid();
            let field: Vec<f64> = (0..own.num_nodes()).map(|node| (node % 5) as f64 - 1.5).collect();
            let mut extended = vec![0.0; grid.num_nodes()];
            field.iter().enumerate().for_each(|(at, value)| extended[window.node_of(grid, at)] = *value);
            let mut expected = vec![0.0; grid.num_nodes()];
            whole.view().apply(&extended, &mut expected);
            let mut applied = vec![0.0; own.num_nodes()];
            window.matrix(whole.view()).view().apply(&field, &mut applied);
            for (at, value) in applied.iter().enumerate() {
                assert!((value - expected[window.node_of(grid, at)]).abs() < 1e-12, "{reach:?}");
                expected[window.node_of(grid, at)] = 0.0;
            }
            for (node, value) in window.cut_residual(whole.view(), &field) {
                assert!((value + expected[node]).abs() < 1e-12, "{reach:?}");
                expected[node] = 0.0;
            }
            assert!(expected.iter().all(|&value| value == 0.0), "{reach:?}: a residual outside was missed");
        }
    }
}
