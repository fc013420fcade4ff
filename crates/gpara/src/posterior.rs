//! The graph posterior of the residual given the measurements: mean correction and covariance responses
//! (Proposition 1, Eqs. 9-13, B.25-B.26), with exact measurements and drift (G.2-G.6).

mod correction;
mod residual;

use std::sync::OnceLock;

use rayon::prelude::*;
use thiserror::Error as ThisError;

pub use correction::Correction;
pub(crate) use residual::ResidualFit;

use crate::drift::{Drift, FittedDrift};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::Grid;
use crate::observations::Observations;
use crate::precision::{PosteriorPrecision, PrecisionOrder, ResidualPrecision};
use crate::risk::RiskWeights;
use crate::solve::{
    Arithmetic, Choice, ExactSolver, MEASURED_TOLERANCE, MeanSolver, Multigrid, SINGLE_TOLERANCE, SolveInfo,
    in_range_of_single,
};

/// N(m_S, Sigma_S) with Sigma_S = A_S^-1 for one graph and one set of measurements.
///
/// A node measured exactly has variance 0, its innovation as mean, and no covariance with any other node (G.2).
/// With a [`Drift`] the field is `prediction + F b + residual`, and mean, variances, covariance columns, responses,
/// utilities and samples are those of the field with b integrated out (G.4-G.6).
///
/// The covariance is never stored. The exact factorisation is made on first use and kept, so that further right-hand
/// sides, covariance columns and utilities reuse it.
#[derive(Debug)]
pub struct Posterior {
    precision: PosteriorPrecision,
    observations: Observations,
    factor: OnceLock<ExactSolver>,
    multigrid: OnceLock<MultigridPrecision>,
    drift: Option<FittedDrift>,
}

/// The grids of the multigrid preconditioner: in single precision, which is half the memory and as good a
/// preconditioner, unless the entries leave its range.
#[derive(Debug)]
enum MultigridPrecision {
    Single(Multigrid<f32>),
    Double(Multigrid<f64>),
}

/// Right-hand sides that one pass over the factor serves.
const ROWS_AT_ONCE: usize = 4;

impl Posterior {
    /// The posterior of a residual with precision `prior` after `observations`.
    ///
    /// # Errors
    /// `ShapeMismatch` if the two belong to different grids.
    pub fn new(prior: &ResidualPrecision, observations: &Observations) -> Result<Self> {
        let precision = PosteriorPrecision::new(prior, observations)?;
        let (observations, factor, multigrid) = (observations.clone(), OnceLock::new(), OnceLock::new());
        Ok(Self { precision, observations, factor, multigrid, drift: None })
    }

    /// The posterior of a field `prediction + F b + residual` with unknown coefficients b.
    ///
    /// # Errors
    /// As [`new`](Self::new); `ShapeMismatch` if the drift belongs to another grid; `InvalidInput` if the measurements
    /// do not determine the coefficients that have no prior; `NotPositiveDefinite` if the factorisation breaks down.
    pub fn with_drift(prior: &ResidualPrecision, observations: &Observations, drift: &Drift) -> Result<Self> {
        let mut posterior = Self::new(prior, observations)?;
        posterior.drift = Some(FittedDrift::new(&posterior, drift)?);
        Ok(posterior)
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
    /// An iteration that stalls is replaced by the direct solve and says so ([`Stop::DirectAfterStall`](crate::Stop::DirectAfterStall)).
    /// `rel_residual` compares `f - A_S m` in the norm weighted by 1/D_A with the same for m = D_A^-1 f, i.e. with what is
    /// left to do once the measured cells are set; [`MeanSolver::Exact`] in 32 bits is refined in 64 where that is not below
    /// 1e-5. With drift, m_S = F b + residual: b is always fitted exactly, the
    /// residual given b by the solver (G.4).
    ///
    /// # Shapes
    /// * `prediction` - `num_nodes` values, only measured nodes are read
    /// * returns `num_nodes` values, in the field's units
    ///
    /// # Errors
    /// As [`innovation`](Self::innovation); `InvalidInput` for a solver without iterations or with a tolerance that is
    /// not positive; `Unsupported` for Jacobi sweeps of a second-order precision, which need not converge;
    /// `NotPositiveDefinite` if the exact factorisation breaks down.
    pub fn mean_correction(&self, prediction: &[f64], solver: MeanSolver) -> Result<(Vec<f64>, SolveInfo)> {
        self.check_solver(solver)?;
        let (innovation, shift) = self.innovation_beside_drift(prediction)?;
        let (mut mean, info) = self.residual_mean(&innovation, solver)?;
        mean.iter_mut().zip(&shift).for_each(|(mean, shift)| *mean += shift);
        Ok((mean, info))
    }

    /// The innovation that is left to the residual, and the field F b of the fitted drift (empty without one).
    fn innovation_beside_drift(&self, prediction: &[f64]) -> Result<(Vec<f64>, Vec<f64>)> {
        let mut innovation = self.innovation(prediction)?;
        let Some(drift) = &self.drift else { return Ok((innovation, Vec::new())) };
        let shift = drift.field(&drift.coefficients(&innovation));
        self.observations.iter().zip(&mut innovation).for_each(|(entry, value)| *value -= shift[entry.node]);
        Ok((innovation, shift))
    }

    /// Exact [`mean_corrections`](Self::mean_corrections): groups of rows share one pass over the factor.
    fn exact_corrections(&self, predictions: &[f64]) -> Result<(Vec<f64>, Vec<SolveInfo>)> {
        let num_nodes = self.grid().num_nodes();
        self.factor()?;
        let group = |rows: &[f64]| -> Result<(Vec<f64>, Vec<SolveInfo>)> {
            let parts: Vec<_> =
                rows.chunks(num_nodes).map(|row| self.innovation_beside_drift(row)).collect::<Result<_>>()?;
            let (mut means, infos) = self.residual_means(parts.iter().map(|(innovation, _)| &innovation[..]))?;
            for (mean, (_, shift)) in means.chunks_mut(num_nodes).zip(&parts) {
                mean.iter_mut().zip(shift).for_each(|(mean, shift)| *mean += shift);
            }
            Ok((means, infos))
        };
        let groups: Vec<_> = predictions.par_chunks(ROWS_AT_ONCE * num_nodes).map(group).collect::<Result<_>>()?;
        let (means, infos): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
        Ok((means.concat(), infos.concat()))
    }

    /// Mean and covariance of the drift's coefficients b given the measurements; `None` without drift (G.4).
    ///
    /// # Shapes
    /// * returns p values and p x p values, row-major
    ///
    /// # Errors
    /// As [`innovation`](Self::innovation).
    pub fn drift_coefficients(&self, prediction: &[f64]) -> Result<Option<(Vec<f64>, Vec<f64>)>> {
        let innovation = self.innovation(prediction)?;
        Ok(self.drift.as_ref().map(|drift| (drift.coefficients(&innovation), drift.coefficient_covariance())))
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
        if solver == MeanSolver::Exact {
            return self.exact_corrections(predictions);
        }
        if matches!(solver, MeanSolver::Multigrid { .. }) {
            // Made here once, not raced for by the rows.
            self.multigrid();
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
        self.check_node(node)?;
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
        let innovation_variance = noise_std * noise_std + column[node];
        // An exact value repeated at a node known exactly changes nothing; its column is 0.
        if innovation_variance > 0.0 {
            column.iter_mut().for_each(|value| *value /= innovation_variance);
        }
        Ok(column)
    }

    /// Sigma_S rhs by the exact factorisation.
    ///
    /// # Errors
    /// `ShapeMismatch` if `rhs` is not one value a node; `NotPositiveDefinite` if the factorisation breaks down.
    pub fn solve(&self, rhs: &[f64]) -> Result<Vec<f64>> {
        self.check_length("right-hand side", rhs.len())?;
        self.solve_rows(rhs)
    }

    /// diag(Sigma_S), the exact posterior variance of every node.
    ///
    /// # Errors
    /// `NotPositiveDefinite` if the factorisation breaks down.
    pub fn variances(&self) -> Result<Vec<f64>> {
        let mut variance = self.factor()?.variances();
        self.exact_nodes().for_each(|node| variance[node] = 0.0);
        if let Some(drift) = &self.drift {
            drift.add_variances(&mut variance);
        }
        Ok(variance)
    }

    /// diag(Sigma_S) and diag(Sigma_S W Sigma_S), exactly, in one pass; with drift p solves more (G.6).
    ///
    /// # Errors
    /// `ShapeMismatch` if the weights belong to another grid; `NotPositiveDefinite` if the factorisation breaks down.
    pub fn variances_and_numerators(&self, weights: &RiskWeights) -> Result<(Vec<f64>, Vec<f64>)> {
        self.check_length("risk weights", weights.as_slice().len())?;
        let (mut variance, mut numerator) = self.factor()?.variances_and_numerators(weights.as_slice());
        self.complete_moments(weights.as_slice(), &mut variance, &mut numerator)?;
        Ok((variance, numerator))
    }

    /// Turns the moments of A_S^-1 into those of the field: 0 at nodes measured exactly, and the part of the drift.
    pub(crate) fn complete_moments(&self, weights: &[f64], variance: &mut [f64], numerator: &mut [f64]) -> Result<()> {
        for node in self.exact_nodes() {
            (variance[node], numerator[node]) = (0.0, 0.0);
        }
        if let Some(drift) = &self.drift {
            drift.add_variances(variance);
            drift.add_numerators(self, weights, numerator)?;
        }
        Ok(())
    }

    /// log det A_S; with drift that of the residual alone, and nodes measured exactly left out.
    ///
    /// # Errors
    /// `NotPositiveDefinite` if the factorisation breaks down.
    pub fn log_det(&self) -> Result<f64> {
        self.factor()?.log_det()
    }

    /// The arithmetic of exact solves and moments: 32 bits where a bound, or else a measurement after the factorisation, says
    /// that they are exact enough, on grids where they save time; otherwise 64.
    pub fn arithmetic(&self) -> Arithmetic {
        match self.factor.get() {
            Some(factor) => factor.arithmetic(),
            None => match Choice::for_posterior(&self.precision) {
                Choice::Known(arithmetic) => arithmetic,
                Choice::Measured => self.factor().map_or(Arithmetic::Double, ExactSolver::arithmetic),
            },
        }
    }

    /// The same posterior with a chosen arithmetic of exact solves and moments.
    ///
    /// # Errors
    /// `InvalidInput` for 32 bits where neither a bound on their error is below 1e-4 nor the measured error of the factorised
    /// inverse below 4e-6: a residual precision that is small against the couplings; `NotPositiveDefinite` if the factorisation
    /// breaks down.
    ///
    /// # Example
    /// ```
    /// use gpara::{Arithmetic, Conductances, Grid, Observations, Posterior, ResidualPrecision, ValidMask};
    ///
    /// let grid = Grid::new(8, 8)?;
    /// let graph = Conductances::from_logits(&[0.0; 256], &ValidMask::all(grid))?;
    /// let posterior = |tau| {
    ///     let precision = ResidualPrecision::new(graph.clone(), tau, 1.0)?;
    ///     Posterior::new(&precision, &Observations::none(grid))?.in_arithmetic(Arithmetic::Single)
    /// };
    /// assert_eq!(posterior(0.1)?.arithmetic(), Arithmetic::Single);
    /// assert!(posterior(1e-6).is_err());
    /// # Ok::<(), gpara::Error>(())
    /// ```
    pub fn in_arithmetic(mut self, arithmetic: Arithmetic) -> Result<Self> {
        let bound = self.precision.single_error();
        let measured = arithmetic == Arithmetic::Single && (bound.is_nan() || bound >= SINGLE_TOLERANCE);
        let factor = self.precision.factor(if measured { Choice::Measured } else { Choice::Known(arithmetic) })?;
        if factor.arithmetic() != arithmetic {
            return Err(PosteriorError::Single { error: factor.single_error() }.into());
        }
        self.factor = OnceLock::from(factor);
        Ok(self)
    }

    pub(crate) fn factor(&self) -> Result<&ExactSolver> {
        if let Some(factor) = self.factor.get() {
            return Ok(factor);
        }
        let factor = self.precision.factor(Choice::for_posterior(&self.precision))?;
        Ok(self.factor.get_or_init(|| factor))
    }

    fn multigrid(&self) -> &MultigridPrecision {
        self.multigrid.get_or_init(|| {
            let matrix = self.precision.stencil();
            if in_range_of_single(matrix.diagonal) {
                MultigridPrecision::Single(Multigrid::new(matrix))
            } else {
                MultigridPrecision::Double(Multigrid::new(matrix))
            }
        })
    }

    fn check_solver(&self, solver: MeanSolver) -> Result<()> {
        let allowed = match solver {
            MeanSolver::Jacobi { .. } if self.precision.prior().order() != PrecisionOrder::First => {
                return Err(PosteriorError::JacobiOrder.into());
            }
            MeanSolver::Jacobi { iterations } | MeanSolver::Chebyshev { iterations } => iterations > 0,
            MeanSolver::Pcg { max_iterations, rel_tolerance }
            | MeanSolver::Multigrid { max_iterations, rel_tolerance } => max_iterations > 0 && rel_tolerance > 0.0,
            MeanSolver::Exact => true,
        };
        if allowed { Ok(()) } else { Err(PosteriorError::Solver { solver }.into()) }
    }

    pub(crate) fn check_node(&self, node: usize) -> Result<()> {
        if node < self.grid().num_nodes() {
            return Ok(());
        }
        Err(PosteriorError::Node { node, grid: self.grid() }.into())
    }

    fn check_length(&self, name: &'static str, found: usize) -> Result<()> {
        if found == self.grid().num_nodes() {
            return Ok(());
        }
        Err(PosteriorError::Length { name, found, grid: self.grid() }.into())
    }
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
    #[error("Jacobi sweeps need a first-order precision, this one is of second order")]
    JacobiOrder,
    #[error("32-bit moments are wrong by up to {error:.1e} of their size, at most {MEASURED_TOLERANCE:.0e} is allowed")]
    Single { error: f64 },
}

impl ErrorDetail for PosteriorError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinitePrediction { .. } => ErrorKind::NonFinite,
            Self::JacobiOrder => ErrorKind::Unsupported,
            Self::Node { .. } | Self::Solver { .. } | Self::Single { .. } => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::JacobiOrder => Some("take the mean by conjugate gradients or exactly".into()),
            Self::Single { .. } => Some("use 64 bits, or a larger residual precision".into()),
            _ => None,
        }
    }
}
