//! Exact covariance moments of large grids by overlapping windows: time and memory grow with the number of cells.
//!
//! The covariance falls off within a few dozen cells, so the moments of a cell hardly depend on what is far away. The grid is
//! divided into cores; each is solved exactly within a window that reaches `halo` cells further. At the rim of a window the
//! cells outside are held at 0 (Dirichlet: the diagonal keeps the couplings that are cut), so variances are never
//! overestimated and grow towards the exact ones with the halo.

mod halo;
mod window;
mod window_solver;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error as ThisError;

pub use halo::{HaloChoice, HaloSearch};
use window::Window;
use window_solver::{Plans, WindowSolver};

use crate::error::{Error, ErrorDetail, ErrorKind, Result};
use crate::grid::Grid;
use crate::memory::check_memory;
use crate::posterior::Posterior;
use crate::precision::PosteriorPrecision;
use crate::risk::RiskWeights;
use crate::solve::{Arithmetic, SolveInfo, Stencil, Stop};

/// Windows whose columns are checked by [`Tiling::cut_residual`].
const CHECKED_WINDOWS: usize = 5;

/// How a grid is cut into windows.
///
/// # Example
/// ```
/// use gpara::{Conductances, Grid, Observations, Posterior, ResidualPrecision, RiskWeights, Tiling, ValidMask};
///
/// let grid = Grid::new(40, 60)?;
/// let graph = Conductances::from_logits(&vec![0.0; 4 * grid.num_nodes()], &ValidMask::all(grid))?;
/// let posterior = Posterior::new(&ResidualPrecision::new(graph, 0.5, 0.5)?, &Observations::none(grid))?;
/// let weights = RiskWeights::from_values(vec![1.0; grid.num_nodes()])?;
/// let (variances, _) = Tiling::new(16, 12)?.variances_and_numerators(&posterior, &weights)?;
/// assert!((variances[0] / posterior.variances()?[0] - 1.0).abs() < 1e-3);
/// # Ok::<(), gpara::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tiling {
    core: usize,
    halo: usize,
}

impl Tiling {
    /// Core 128, halo 24: relative error of the numerators below 1 % at the correlation length of the paper's tasks.
    pub const DEFAULT: Self = Self { core: 128, halo: 24 };

    /// Windows that answer for `core` x `core` cells and see `halo` more on each side.
    ///
    /// # Errors
    /// `InvalidInput` if the core is 0.
    pub fn new(core: usize, halo: usize) -> Result<Self> {
        if core == 0 { Err(TilingError::Core { halo }.into()) } else { Ok(Self { core, halo }) }
    }

    /// Side of the cells that a window answers for.
    pub fn core(self) -> usize {
        self.core
    }

    /// Cells beyond them on each side.
    pub fn halo(self) -> usize {
        self.halo
    }

    /// Estimated bytes that one thread works in: those of the largest window.
    pub fn worker_bytes(self, precision: &PosteriorPrecision) -> u64 {
        let matrix = precision.stencil();
        let side = |length: usize| length.min(self.core.saturating_add(self.halo.saturating_mul(2)));
        let window = (side(matrix.grid.rows()), side(matrix.grid.cols()));
        Arithmetic::for_error(precision.single_error()).bytes(window, matrix.reach)
    }

    /// diag(Sigma_S) and diag(Sigma_S W Sigma_S), each cell from the window of its core; same bits for any number of threads.
    ///
    /// # Errors
    /// `ShapeMismatch` if the weights belong to another grid; `OutOfMemory` if the windows of all threads do not fit;
    /// `NotPositiveDefinite` if a factorisation breaks down.
    pub fn variances_and_numerators(
        self,
        posterior: &Posterior,
        weights: &RiskWeights,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let (grid, weights) = (posterior.grid(), weights.as_slice());
        if weights.len() != grid.num_nodes() {
            return Err(TilingError::Weights { found: weights.len(), grid }.into());
        }
        let mut windows = Window::tiles(grid, self.core, self.halo);
        // Windows of one shape follow each other, so that a thread keeps its arena.
        windows.sort_by_key(|window| (window.grid().rows(), window.grid().cols()));
        let num_workers = rayon::current_num_threads().min(windows.len());
        let fields = 2 * (size_of::<f64>() * grid.num_nodes()) as u64;
        let needed = fields + num_workers as u64 * self.worker_bytes(posterior.precision());
        check_memory("tiles", needed, "use a smaller core or fewer threads")?;

        let matrix = posterior.precision().stencil();
        let arithmetic = Arithmetic::for_error(posterior.precision().single_error());
        let plans = Plans::of(windows.iter().map(Window::grid), matrix.reach);
        let moments = Mutex::new(Moments::zeros(grid.num_nodes()));
        let next = AtomicUsize::new(0);
        rayon::scope(|scope| {
            for _ in 0..num_workers {
                scope.spawn(|_| {
                    let mut worker = Worker::new(arithmetic);
                    while let Some(window) = windows.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = worker.solve(matrix, &plans, window, weights);
                        // A panic of another worker is not hidden by this: the scope passes it on.
                        let mut moments = moments.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        moments.record(grid, window, &worker, outcome);
                    }
                });
            }
        });
        let mut moments = moments.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, error)) = moments.failure {
            return Err(error);
        }
        posterior.complete_moments(weights, &mut moments.variances, &mut moments.numerators)?;
        Ok((moments.variances, moments.numerators))
    }

    /// What the cut leaves of `A x = e_i` for the columns that the windows give, at corners of cores.
    ///
    /// `rel_residual` is the largest true residual over that of x = 0, both in the norm weighted by 1/D_A.
    ///
    /// # Errors
    /// `NotPositiveDefinite` if a factorisation breaks down.
    pub fn cut_residual(self, posterior: &Posterior) -> Result<SolveInfo> {
        let (grid, matrix) = (posterior.grid(), posterior.precision().stencil());
        let windows = Window::tiles(grid, self.core, self.halo);
        let plans = Plans::of(windows.iter().map(Window::grid), matrix.reach);
        let mut solver = WindowSolver::new(Arithmetic::for_error(posterior.precision().single_error()));
        let mut rel_residual = 0.0f64;
        for window in windows.iter().step_by(windows.len().div_ceil(CHECKED_WINDOWS)) {
            solver.factor(&plans, &window.matrix(matrix))?;
            for node in window.core_corners(grid) {
                let column = window.column_of_factored(grid, &solver, node);
                let residual = window.cut_residual(matrix, &column);
                let terms = residual.iter().map(|&(at, r)| r * r / matrix.diagonal[at]);
                rel_residual = rel_residual.max((terms.sum::<f64>() * matrix.diagonal[node]).sqrt());
            }
        }
        Ok(SolveInfo { iterations: 0, rel_residual, stop: Stop::Direct })
    }
}

impl Default for Tiling {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The moments of all cells as the windows come in, in any order.
struct Moments {
    variances: Vec<f64>,
    numerators: Vec<f64>,
    /// The failure of the first window in row order, so that the reported one does not depend on the threads.
    failure: Option<(usize, Error)>,
}

impl Moments {
    fn zeros(num_nodes: usize) -> Self {
        Self { variances: vec![0.0; num_nodes], numerators: vec![0.0; num_nodes], failure: None }
    }

    fn record(&mut self, grid: Grid, window: &Window, worker: &Worker, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                window.copy_core(grid, &worker.variances, &mut self.variances);
                window.copy_core(grid, &worker.numerators, &mut self.numerators);
            }
            Err(error) => {
                let first = window.first_core_node(grid);
                if self.failure.as_ref().is_none_or(|(earliest, _)| first < *earliest) {
                    self.failure = Some((first, error));
                }
            }
        }
    }
}

/// What one thread reuses from window to window.
struct Worker {
    solver: WindowSolver,
    weights: Vec<f64>,
    variances: Vec<f64>,
    numerators: Vec<f64>,
}

impl Worker {
    fn new(arithmetic: Arithmetic) -> Self {
        let solver = WindowSolver::new(arithmetic);
        Self { solver, weights: Vec::new(), variances: Vec::new(), numerators: Vec::new() }
    }

    fn solve(&mut self, matrix: Stencil<'_, f64>, plans: &Plans, window: &Window, weights: &[f64]) -> Result<()> {
        let Self { solver, weights: own, variances, numerators } = self;
        window.copy_field(matrix.grid, weights, own);
        variances.resize(own.len(), 0.0);
        numerators.resize(own.len(), 0.0);
        solver.factor(plans, &window.matrix(matrix))?;
        solver.variances_and_numerators(own, variances, numerators);
        Ok(())
    }
}

#[derive(Debug, ThisError)]
enum TilingError {
    #[error("tiles of core 0 and halo {halo}: the core must be at least 1")]
    Core { halo: usize },
    #[error("risk weights have {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Weights { found: usize, grid: Grid },
}

impl ErrorDetail for TilingError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Core { .. } => ErrorKind::InvalidInput,
            Self::Weights { .. } => ErrorKind::ShapeMismatch,
        }
    }
}
