//! Solvers of A_S m = f: fixed-depth Jacobi as in the paper, conjugate gradients, and an exact factorisation.

mod exact;
mod jacobi;
mod pcg;

pub(crate) use exact::{Arenas, ExactSolver};
pub(crate) use jacobi::jacobi;
pub(crate) use pcg::{StoppingNorm, pcg};

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
}

/// What a solver did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SolveInfo {
    /// Iterations made; 0 for a direct method.
    pub iterations: usize,
    /// Residual norm at the end over the norm it is compared with (stated by each solver).
    pub rel_residual: f64,
    /// Why it ended.
    pub stop: Stop,
}
