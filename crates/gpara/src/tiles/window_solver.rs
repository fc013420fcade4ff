//! The exact solver of one window, kept by a thread and refilled window after window.

use thiserror::Error as ThisError;

use crate::engine::{Reach, StencilMatrix};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::graph::Conductances;
use crate::grid::ValidMask;
use crate::precision::{PosteriorPrecision, ResidualPrecision};
use crate::solve::Factor;

/// A factorised window.
#[derive(Debug, Default)]
pub(super) struct WindowSolver(Option<(PosteriorPrecision, Factor)>);

impl WindowSolver {
    /// Estimated bytes of the work on a window of that size: about .8 log2(side) - 2.1 kB a cell, from the sizes of all fronts.
    pub(super) fn bytes(rows: usize, cols: usize) -> u64 {
        let cells = rows as f64 * cols as f64;
        (cells * 1e3 * (0.8 * 0.5 * cells.log2() - 2.1).max(1.0)) as u64
    }

    /// Factorises the window's matrix.
    ///
    /// # Errors
    /// `NotPositiveDefinite` if a pivot is not positive; `Unsupported` for couplings beyond the eight neighbours.
    pub(super) fn factor(&mut self, matrix: &StencilMatrix) -> Result<()> {
        if matrix.reach() != Reach::One {
            return Err(WindowError::Reach.into());
        }
        let edges = std::array::from_fn(|k| matrix.coupling[k].iter().map(|entry| 0.0 - entry).collect());
        let conductances = Conductances::from_edges(edges, &ValidMask::all(matrix.grid()))?;
        let couplings = ResidualPrecision::new(conductances, 1.0, 1.0)?;
        let precision = PosteriorPrecision::with_diagonal(couplings, matrix.diagonal.clone());
        let factor = Factor::new(&precision)?;
        self.0 = Some((precision, factor));
        Ok(())
    }

    /// The window's matrix^-1 rhs.
    pub(super) fn solve(&self, rhs: &[f64]) -> Vec<f64> {
        let (precision, factor) = self.0.as_ref().expect("a window is factorised before it is solved");
        factor.solve(precision.prior().dissection(), rhs)
    }

    /// Diagonals of Sigma and Sigma W Sigma of the window.
    pub(super) fn variances_and_numerators(&self, weights: &[f64], variances: &mut [f64], numerators: &mut [f64]) {
        let (precision, factor) = self.0.as_ref().expect("a window is factorised before it is solved");
        let (d, n) = factor.variances_and_numerators(precision.prior().dissection(), weights);
        variances.copy_from_slice(&d);
        numerators.copy_from_slice(&n);
    }
}

#[derive(Debug, ThisError)]
enum WindowError {
    #[error("tiles of a second-order precision are not supported")]
    Reach,
}

impl ErrorDetail for WindowError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Unsupported
    }
}
