//! The couplings of a symmetric stencil matrix, apart from its diagonal: posteriors of one graph share them.

use std::sync::OnceLock;

use crate::engine::{Reach, StencilMatrix};
use crate::grid::Grid;
use crate::solve::Stencil;

/// C of A = D - C, with D the diagonal: for a first-order precision C = lambda C_g.
#[derive(Debug, Clone)]
pub(crate) struct Coupling {
    grid: Grid,
    reach: Reach,
    /// The entries of A, i.e. minus those of C, one map an offset as in [`StencilMatrix::coupling`].
    entries: Vec<Vec<f64>>,
    /// sum_j |C_ij| of every node, once asked for.
    sums: OnceLock<Vec<f64>>,
}

impl Coupling {
    /// The couplings of a matrix.
    pub(crate) fn new(matrix: &StencilMatrix) -> Self {
        Self { grid: matrix.grid(), reach: matrix.reach(), entries: matrix.coupling.clone(), sums: OnceLock::new() }
    }

    /// The matrix with this coupling and the given diagonal, as an operator.
    pub(crate) fn stencil<'a>(&'a self, diagonal: &'a [f64]) -> Stencil<'a, f64> {
        Stencil { grid: self.grid, reach: self.reach, diagonal, coupling: &self.entries }
    }

    /// The coupling in which some nodes stand alone.
    pub(crate) fn without(&self, nodes: impl Iterator<Item = usize>) -> Self {
        let mut cut = Self { sums: OnceLock::new(), ..self.clone() };
        for node in nodes {
            for (&offset, map) in self.reach.offsets().iter().zip(&mut cut.entries) {
                map[node] = 0.0;
                // The edge that ends here is stored at its other end.
                if let Some(other) = self.grid.neighbor(node, (-offset.0, -offset.1)) {
                    map[other] = 0.0;
                }
            }
        }
        cut
    }

    /// `diagonal * x - C x`.
    ///
    /// # Panics
    /// If `x` has another length than the grid.
    #[track_caller]
    pub(crate) fn apply(&self, diagonal: &[f64], x: &[f64]) -> Vec<f64> {
        assert_eq!(x.len(), self.grid.num_nodes(), "a field needs one value a node");
        let mut out = vec![0.0; x.len()];
        self.stencil(diagonal).apply(x, &mut out);
        out
    }

    /// sum_j |C_ij| of every node.
    pub(crate) fn absolute_row_sums(&self) -> &[f64] {
        self.sums.get_or_init(|| self.stencil(&[]).coupling_sums())
    }
}
