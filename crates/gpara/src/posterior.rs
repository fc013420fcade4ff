//! The graph posterior of the residual given the measurements: mean correction and covariance responses
//! (Proposition 1, Eqs. 9-13, B.25-B.26).

use std::sync::OnceLock;

use rayon::prelude::*;
use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::Grid;
use crate::observations::Observations;
use crate::precision::{PosteriorPrecision, ResidualPrecision};
use crate::risk::RiskWeights;
use crate::solve::{Diagonal, Factor, MeanSolver, Multigrid, SolveInfo, Stop, Stopping, StoppingNorm};
use crate::solve::{chebyshev, jacobi, measure, pcg};
use crate::value_range::ValueRange;

/// N(m_S, Sigma_S) with Sigma_S = A_S^-1 for one graph and one set of measurements.
///
/// The covariance is never stored. The exact factorisation is made on first use and kept, so that further right-hand
/// sides, covariance columns and utilities reuse it.
#[derive(Debug)]
pub struct Posterior {
    precision: PosteriorPrecision,
    observations: Observations,
    factor: OnceLock<Factor>,
    multigrid: OnceLock<MultigridPrecision>,
}

/// The grids of the multigrid preconditioner: in single precision, which is half the memory and as good a
/// preconditioner, unless the entries leave its range.
#[derive(Debug)]
enum MultigridPrecision {
    Single(Multigrid<f32>),
    Double(Multigrid<f64>),
}

/// Above this diagonal entry (a noise_std below about 1e-12) products could leave the range of f32.
const LARGEST_SINGLE_DIAGONAL: f64 = 1e24;

impl Posterior {
    /// The posterior of a residual with precision `prior` after `observations`.
    ///
    /// # Errors
    /// `ShapeMismatch` if the two belong to different grids.
    pub fn new(prior: &ResidualPrecision, observations: &Observations) -> Result<Self> {
        let precision = PosteriorPrecision::new(prior, observations)?;
        Ok(Self { precision, observations: observations.clone(), factor: OnceLock::new(), multigrid: OnceLock::new() })
    }

    /// A_S.
    pub fn precision(&self) -> &PosteriorPrecision {
        &self.precision
    }

    /// The measurements S, y, R.
    pub fn observations(&self) -> &Observations {
        &self.observations
    }

    /// The grid of the nodes.
    pub fn grid(&self) -> Grid {
        self.observations.grid()
    }

    /// y - H prediction, one value a measurement in the order of [`Observations::iter`].
    ///
    /// # Errors
    /// `ShapeMismatch` if `prediction` is not one value a node, `NonFinite` if it is not finite at a measured node.
    pub fn innovation(&self, prediction: &[f64]) -> Result<Vec<f64>> {
        self.check_length("prediction", prediction.len())?;
        let innovation = self.observations.iter().map(|entry| {
            let value = prediction[entry.node];
            if value.is_finite() {
                Ok(entry.value - value)
            } else {
                Err(PosteriorError::NonFinitePrediction { node: entry.node, value }.into())
            }
        });
        innovation.collect()
    }

    /// The correction m_S of a prediction by the given solver (Eq. 10; Eq. B.26 for Jacobi), and what the solver did.
    ///
    /// An iteration that stalls is replaced by the direct solve and says so ([`Stop::DirectAfterStall`]).
    /// `rel_residual` compares `f - A_S m` in the norm weighted by 1/D_A with the same for m = D_A^-1 f, i.e. with what is
    /// left to do once the measured cells are set.
    ///
    /// # Shapes
    /// * `prediction` - `num_nodes` values, only measured nodes are read
    /// * returns `num_nodes` values, in the field's units
    ///
    /// # Errors
    /// As [`innovation`](Self::innovation); `InvalidInput` for a solver without iterations or with a tolerance that is
    /// not positive; `NotPositiveDefinite` if the exact factorisation breaks down.
    pub fn mean_correction(&self, prediction: &[f64], solver: MeanSolver) -> Result<(Vec<f64>, SolveInfo)> {
        check_solver(solver)?;
        let diagonal = self.precision.precision_diagonal();
        let (mut rhs, mut start) = (vec![0.0; diagonal.len()], vec![0.0; diagonal.len()]);
        for (entry, innovation) in self.observations.iter().zip(self.innovation(prediction)?) {
            rhs[entry.node] = innovation * entry.noise_std.powi(-2);
            start[entry.node] = rhs[entry.node] / diagonal[entry.node];
        }
        let matrix = self.precision.stencil();
        let (mean, iterations, stop) = match solver {
            MeanSolver::Jacobi { iterations } => (jacobi(matrix, &rhs, iterations), iterations, Stop::FixedDepth),
            MeanSolver::Chebyshev { iterations } => {
                (chebyshev(matrix, &rhs, iterations)?, iterations, Stop::FixedDepth)
            }
            MeanSolver::Pcg { max_iterations, rel_tolerance }
            | MeanSolver::Multigrid { max_iterations, rel_tolerance } => {
                let mut mean = start.clone();
                let stopping = Stopping { max_iterations, rel_tolerance, norm: StoppingNorm::DiagonalInverse };
                let info = if matches!(solver, MeanSolver::Pcg { .. }) {
                    pcg(matrix, &mut Diagonal(diagonal), &rhs, &mut mean, stopping)
                } else {
                    match self.multigrid() {
                        MultigridPrecision::Single(grids) => pcg(matrix, &mut grids.cycle(), &rhs, &mut mean, stopping),
                        MultigridPrecision::Double(grids) => pcg(matrix, &mut grids.cycle(), &rhs, &mut mean, stopping),
                    }
                };
                if info.stop != Stop::Stalled {
                    return Ok((mean, info));
                }
                (self.exact_solve(&rhs)?, info.iterations, Stop::DirectAfterStall)
            }
            MeanSolver::Exact => (self.exact_solve(&rhs)?, 0, Stop::Direct),
        };
        let rel_residual = match self.residual_norm(&rhs, &start) {
            0.0 => 0.0,
            reference => self.residual_norm(&rhs, &mean) / reference,
        };
        Ok((mean, SolveInfo { iterations, rel_residual, stop }))
    }

    /// [`mean_correction`](Self::mean_correction) of every row of `predictions`, in parallel, same bits as one by one.
    ///
    /// # Shapes
    /// * `predictions` - `[batch, num_nodes]`, and so is the result
    ///
    /// # Errors
    /// As for one; `ShapeMismatch` if the length is not a multiple of the number of nodes.
    pub fn mean_corrections(&self, predictions: &[f64], solver: MeanSolver) -> Result<(Vec<f64>, Vec<SolveInfo>)> {
        let num_nodes = self.grid().num_nodes();
        if !predictions.len().is_multiple_of(num_nodes) {
            let (name, found) = ("predictions", predictions.len());
            return Err(PosteriorError::Length { name, found, grid: self.grid() }.into());
        }
        // Made here once, not raced for by the rows.
        match solver {
            MeanSolver::Exact => drop(self.factor()?),
            MeanSolver::Multigrid { .. } => drop(self.multigrid()),
            _ => {}
        }
        let rows: Vec<_> =
            predictions.par_chunks(num_nodes).map(|row| self.mean_correction(row, solver)).collect::<Result<_>>()?;
        let infos = rows.iter().map(|(_, info)| *info).collect();
        Ok((rows.into_iter().flat_map(|(mean, _)| mean).collect(), infos))
    }

    /// Sigma_S e_node, `num_nodes` values: how strongly a measurement there moves every node (before scaling).
    ///
    /// # Errors
    /// `InvalidInput` if the node is outside the grid; `NotPositiveDefinite` if the factorisation breaks down.
    pub fn covariance_column(&self, node: usize) -> Result<Vec<f64>> {
        if node >= self.grid().num_nodes() {
            return Err(PosteriorError::Node { node, grid: self.grid() }.into());
        }
        let mut unit = vec![0.0; self.grid().num_nodes()];
        unit[node] = 1.0;
        self.solve(&unit)
    }

    /// u_i = Sigma_S e_i / (noise_std^2 + Sigma_ii), the change of the mean for an innovation of 1 (Eq. B.13).
    ///
    /// # Errors
    /// As [`covariance_column`](Self::covariance_column).
    pub fn response(&self, node: usize, noise_std: f64) -> Result<Vec<f64>> {
        let mut column = self.covariance_column(node)?;
        let scale = (noise_std * noise_std + column[node]).recip();
        column.iter_mut().for_each(|value| *value *= scale);
        Ok(column)
    }

    /// Sigma_S rhs by the exact factorisation.
    ///
    /// # Errors
    /// `ShapeMismatch` if `rhs` is not one value a node; `NotPositiveDefinite` if the factorisation breaks down.
    pub fn solve(&self, rhs: &[f64]) -> Result<Vec<f64>> {
        self.check_length("right-hand side", rhs.len())?;
        self.exact_solve(rhs)
    }

    /// diag(Sigma_S), the exact posterior variance of every node.
    ///
    /// # Errors
    /// `NotPositiveDefinite` if the factorisation breaks down.
    pub fn variances(&self) -> Result<Vec<f64>> {
        Ok(self.factor()?.variances(self.precision.prior().dissection()))
    }

    /// diag(Sigma_S) and diag(Sigma_S W Sigma_S), exactly, in one pass.
    ///
    /// # Errors
    /// `ShapeMismatch` if the weights belong to another grid; `NotPositiveDefinite` if the factorisation breaks down.
    pub fn variances_and_numerators(&self, weights: &RiskWeights) -> Result<(Vec<f64>, Vec<f64>)> {
        self.check_length("risk weights", weights.as_slice().len())?;
        Ok(self.factor()?.variances_and_numerators(self.precision.prior().dissection(), weights.as_slice()))
    }

    fn exact_solve(&self, rhs: &[f64]) -> Result<Vec<f64>> {
        Ok(self.factor()?.solve(self.precision.prior().dissection(), rhs))
    }

    fn factor(&self) -> Result<&Factor> {
        if let Some(factor) = self.factor.get() {
            return Ok(factor);
        }
        let factor = Factor::new(&self.precision)?;
        Ok(self.factor.get_or_init(|| factor))
    }

    fn multigrid(&self) -> &MultigridPrecision {
        self.multigrid.get_or_init(|| {
            let matrix = self.precision.stencil();
            if matrix.diagonal.iter().all(|&entry| entry < LARGEST_SINGLE_DIAGONAL) {
                MultigridPrecision::Single(Multigrid::new(matrix))
            } else {
                MultigridPrecision::Double(Multigrid::new(matrix))
            }
        })
    }

    /// sqrt(r' D_A^-1 r) of r = rhs - A_S x.
    fn residual_norm(&self, rhs: &[f64], x: &[f64]) -> f64 {
        let matrix = self.precision.stencil();
        let mut residual = vec![0.0; rhs.len()];
        matrix.residual(x, rhs, &mut residual);
        measure(matrix, &residual, StoppingNorm::DiagonalInverse)
    }

    fn check_length(&self, name: &'static str, found: usize) -> Result<()> {
        if found == self.grid().num_nodes() {
            return Ok(());
        }
        Err(PosteriorError::Length { name, found, grid: self.grid() }.into())
    }
}

/// How a clean estimate is refined by the posterior (Eq. 13).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    /// Solver of the mean.
    pub solver: MeanSolver,
    /// rho_g, the factor on the correction; 1 is the posterior mean.
    pub strength: f64,
    /// The normalised range that refined values are clipped to, if any.
    pub range: Option<ValueRange>,
}

impl Correction {
    /// `clip(x + strength * m_S(x))` for every row of `estimates` (Eq. 13).
    ///
    /// # Shapes
    /// * `estimates` - `[batch, num_nodes]` clean estimates; so is the result, with one [`SolveInfo`] a row
    ///
    /// # Errors
    /// As [`Posterior::mean_corrections`]; `InvalidInput` unless the strength is finite and positive.
    pub fn refine(&self, posterior: &Posterior, estimates: &[f64]) -> Result<(Vec<f64>, Vec<SolveInfo>)> {
        let Self { solver, strength, range } = *self;
        if !(strength.is_finite() && strength > 0.0) {
            return Err(PosteriorError::Strength { strength }.into());
        }
        let (mut refined, infos) = posterior.mean_corrections(estimates, solver)?;
        let pairs = refined.iter_mut().zip(estimates);
        pairs.for_each(|(value, estimate)| *value = estimate + strength * *value);
        if let Some(range) = range {
            range.project(&mut refined);
        }
        Ok((refined, infos))
    }
}

fn check_solver(solver: MeanSolver) -> Result<()> {
    let allowed = match solver {
        MeanSolver::Jacobi { iterations } | MeanSolver::Chebyshev { iterations } => iterations > 0,
        MeanSolver::Pcg { max_iterations, rel_tolerance } | MeanSolver::Multigrid { max_iterations, rel_tolerance } => {
            max_iterations > 0 && rel_tolerance > 0.0
        }
        MeanSolver::Exact => true,
    };
    if allowed { Ok(()) } else { Err(PosteriorError::Solver { solver }.into()) }
}

#[derive(Debug, ThisError)]
enum PosteriorError {
    #[error("{name} has {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Length { name: &'static str, found: usize, grid: Grid },
    #[error("node {node} is outside the {grid} grid of {} cells", grid.num_nodes())]
    Node { node: usize, grid: Grid },
    #[error("prediction {value} at measured node {node} is not a finite number")]
    NonFinitePrediction { node: usize, value: f64 },
    #[error("mean solver {solver:?} needs at least one iteration and a tolerance > 0")]
    Solver { solver: MeanSolver },
    #[error("correction strength {strength} must be a finite number > 0")]
    Strength { strength: f64 },
}

impl ErrorDetail for PosteriorError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinitePrediction { .. } => ErrorKind::NonFinite,
            Self::Node { .. } | Self::Solver { .. } | Self::Strength { .. } => ErrorKind::InvalidInput,
        }
    }
}
