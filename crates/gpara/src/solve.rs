//! Solvers of A_S m = f: fixed-depth Jacobi as in the paper, Chebyshev, conjugate gradients with the diagonal or a
//! multigrid cycle as preconditioner, and an exact factorisation.

mod arenas;
mod arithmetic;
mod blocks;
mod chebyshev;
mod exact;
mod jacobi;
mod multigrid;
mod pcg;
mod stencil;

pub(crate) use crate::engine::Real;
pub(crate) use arenas::Arenas;
pub use arithmetic::Arithmetic;
pub(crate) use arithmetic::{Choice, MEASURED_TOLERANCE, SINGLE_TOLERANCE, in_range_of_single, single_error};
pub(crate) use blocks::vectorized;
pub(crate) use chebyshev::chebyshev;
pub(crate) use exact::{ExactSolver, SharedMatrix};
pub(crate) use jacobi::jacobi;
pub(crate) use multigrid::Multigrid;
pub(crate) use pcg::{Diagonal, Stopping, StoppingNorm, measure, pcg};
pub(crate) use stencil::Stencil;
#[cfg(test)]
pub(crate) use stencil::tests::random_matrix;

/// How the posterior mean is computed. Fixed-depth Jacobi is a different, more local operator than the exact mean, so the
/// choice belongs to a graph model: it is used as it was trained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MeanSolver {
    /// That many sweeps of Eq. B.26 from zero; the paper uses 24.
    Jacobi {
        /// Number of sweeps.
        iterations: usize,
    },
    /// Conjugate gradients with the diagonal preconditioner.
    Pcg {
        /// Cap on the iterations.
        max_iterations: usize,
        /// Stop when the residual has shrunk by this factor against the residual after the measured cells alone are
        /// set; the norm is weighted by 1/D_A. Not relative to f: f holds 1/noise_std^2, so that test passes at once.
        rel_tolerance: f64,
    },
    /// That many Chebyshev steps from zero with the diagonal preconditioner on the Gershgorin interval: like Jacobi a
    /// linear map of fixed depth, closer to the exact mean. Refused for a precision that is not diagonally dominant.
    Chebyshev {
        /// Number of steps.
        iterations: usize,
    },
    /// Conjugate gradients preconditioned by a multigrid cycle, for large grids and small residual precisions.
    Multigrid {
        /// Cap on the iterations.
        max_iterations: usize,
        /// As for [`MeanSolver::Pcg`].
        rel_tolerance: f64,
    },
    /// Direct solve with a factorisation that is made once a posterior.
    Exact,
}

/// Why a solver ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The residual met the tolerance.
    Converged,
    /// The cap on iterations came first; the result is an approximation.
    IterationCap,
    /// All sweeps of a fixed-depth method were made; there is no tolerance to meet.
    FixedDepth,
    /// A direct method.
    Direct,
    /// Rounding is all that is left above the tolerance, or the matrix is not positive definite; the result is an
    /// approximation.
    Stalled,
    /// The iteration stalled and the result is that of the direct method instead.
    DirectAfterStall,
}

/// What a solver did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SolveInfo {
    /// Iterations made; 0 for a direct method.
    pub iterations: usize,
    /// True residual norm at the end over the norm it is compared with (stated by each solver).
    pub rel_residual: f64,
    /// Why it ended.
    pub stop: Stop,
}
