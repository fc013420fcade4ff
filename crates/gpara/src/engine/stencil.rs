//! A symmetric matrix on a grid that couples each cell with those at most `radius` rows and columns away.

use crate::graph::EDGE_OFFSETS;
use crate::grid::Grid;
use crate::solve::Stencil;

/// The forward half of the neighbours at most two rows and columns away; the other half follows by symmetry.
const OFFSETS_RADIUS_2: [(isize, isize); 12] =
    [(0, 1), (0, 2), (1, -2), (1, -1), (1, 0), (1, 1), (1, 2), (2, -2), (2, -1), (2, 0), (2, 1), (2, 2)];

/// How far the couplings of a matrix reach; it decides how wide a separator must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reach {
    /// The eight neighbours of a cell: a first-order precision.
    One,
    /// The 24 cells at most two rows and columns away: a second-order precision.
    Two,
}

impl Reach {
    /// The largest row or column distance of two coupled cells.
    pub(crate) fn cells(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// The forward offsets (rows, columns), in the order of [`StencilMatrix::coupling`]; for reach 1 those of the edges.
    pub(crate) fn offsets(self) -> &'static [(isize, isize)] {
        match self {
            Self::One => &EDGE_OFFSETS,
            Self::Two => &OFFSETS_RADIUS_2,
        }
    }
}

/// A symmetric matrix by its diagonal and one map a forward offset.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StencilMatrix {
    grid: Grid,
    reach: Reach,
    /// Entry (i, i), `num_nodes` values.
    pub(crate) diagonal: Vec<f64>,
    /// `coupling[k][i]` is entry (i, i + offset k); 0 where the offset leaves the grid.
    pub(crate) coupling: Vec<Vec<f64>>,
}

impl StencilMatrix {
    /// All entries 0.
    pub(crate) fn zeros(grid: Grid, reach: Reach) -> Self {
        let zeros = || vec![0.0; grid.num_nodes()];
        Self { grid, reach, diagonal: zeros(), coupling: reach.offsets().iter().map(|_| zeros()).collect() }
    }

    /// The grid of the nodes.
    pub(crate) fn grid(&self) -> Grid {
        self.grid
    }

    /// How far the couplings reach.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// The matrix as an operator.
    pub(crate) fn view(&self) -> Stencil<'_, f64> {
        Stencil { grid: self.grid, reach: self.reach, diagonal: &self.diagonal, coupling: &self.coupling }
    }
}
