//! Exact Gaussian log-likelihoods and their gradients with respect to the graph and its scales (G.7-G.11).

mod gradient;
mod marginal;

use std::f64::consts::PI;

use thiserror::Error as ThisError;

pub use gradient::PrecisionGradient;
pub use marginal::{MarginalGradient, log_marginal_likelihood, marginal_likelihood_gradient};

use crate::engine::StencilMatrix;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::{Grid, ValidMask};
use crate::observations::Observations;
use crate::posterior::Posterior;
use crate::precision::{PosteriorPrecision, ResidualPrecision};
use crate::solve::{Arithmetic, Choice, ExactSolver};

/// log(2 pi).
fn log_two_pi() -> f64 {
    (2.0 * PI).ln()
}

/// Factorises Q_g itself.
fn prior_solver(precision: &ResidualPrecision) -> Result<ExactSolver> {
    PosteriorPrecision::new(precision, &Observations::none(precision.grid()))?.factor(Choice::Known(Arithmetic::Double))
}

impl ResidualPrecision {
    /// log det Q_g, cells outside the mask included.
    ///
    /// # Errors
    /// `NotPositiveDefinite` if the factorisation breaks down.
    pub fn log_det(&self) -> Result<f64> {
        prior_solver(self)?.log_det()
    }

    /// log det Q_g and its gradient (G.7).
    ///
    /// # Errors
    /// `NotPositiveDefinite` if the factorisation breaks down.
    pub fn log_det_gradient(&self) -> Result<(f64, PrecisionGradient)> {
        let solver = prior_solver(self)?;
        Ok((solver.log_det()?, PrecisionGradient::new(self, &solver.selected_inverse()?)))
    }
}

impl Posterior {
    /// log det A_S of [`Posterior::log_det`] and its gradient by the parameters of the prior precision (G.7).
    ///
    /// # Errors
    /// `NotPositiveDefinite` if the factorisation breaks down.
    pub fn log_det_gradient(&self) -> Result<(f64, PrecisionGradient)> {
        Ok((self.log_det()?, PrecisionGradient::new(self.precision().prior(), &residual_covariance(self)?)))
    }
}

/// Sigma_S without drift, on the stencil.
fn residual_covariance(posterior: &Posterior) -> Result<StencilMatrix> {
    let mut covariance = posterior.factor()?.selected_inverse()?;
    // The eliminated nodes have covariance 0; their 1 belongs to the stand-in on the diagonal.
    posterior.exact_nodes().for_each(|node| covariance.diagonal[node] = 0.0);
    Ok(covariance)
}

/// The log-density of whole residuals, N(0, Q_g^-1) over the valid cells, summed over the residuals (G.8).
///
/// # Shapes
/// * `residuals` - `[batch, num_nodes]`; values at cells outside the mask are not read
///
/// # Errors
/// `ShapeMismatch` if the mask or the residuals do not fit the grid, `NonFinite` if a valid value is not finite,
/// `NotPositiveDefinite` if the factorisation breaks down.
pub fn residual_log_likelihood(precision: &ResidualPrecision, valid: &ValidMask, residuals: &[f64]) -> Result<f64> {
    let solver = prior_solver(precision)?;
    let residuals = valid_residuals(precision, valid, residuals)?;
    log_density(precision, valid, &solver, &residuals)
}

/// [`residual_log_likelihood`] and its gradient; 0 for edges outside the mask (G.8).
///
/// # Errors
/// As [`residual_log_likelihood`].
///
/// # Example
/// The scale lambda of largest likelihood, without any search: the gradient is 0 there.
/// ```
/// use gpara::{Conductances, Grid, ResidualPrecision, ValidMask, residual_likelihood_gradient};
///
/// let valid = ValidMask::all(Grid::new(2, 2)?);
/// let graph = Conductances::from_logits(&[0.0; 16], &valid)?;
/// let residual = [0.3, -0.1, 0.4, 0.2];
/// // Q = lambda K K: the likelihood is largest at lambda = M / |K residual|^2.
/// let unit = ResidualPrecision::second_order(graph.clone(), 0.0, 1.0, 0.5)?;
/// let misfit: f64 = unit.apply(&residual).iter().zip(&residual).map(|(q, r)| q * r).sum();
/// let best = ResidualPrecision::second_order(graph, 0.0, 4.0 / misfit, 0.5)?;
/// let (_, gradient) = residual_likelihood_gradient(&best, &valid, &residual)?;
/// assert!(gradient.graph_coupling.abs() < 1e-9);
/// # Ok::<(), gpara::Error>(())
/// ```
pub fn residual_likelihood_gradient(
    precision: &ResidualPrecision,
    valid: &ValidMask,
    residuals: &[f64],
) -> Result<(f64, PrecisionGradient)> {
    let solver = prior_solver(precision)?;
    let residuals = valid_residuals(precision, valid, residuals)?;
    let value = log_density(precision, valid, &solver, &residuals)?;
    // d/dQ of (N log det Q - sum_n r_n' Q r_n) / 2.
    let mut sensitivity = solver.selected_inverse()?;
    scale(&mut sensitivity, residuals.len() as f64);
    residuals.iter().for_each(|residual| add_outer_product(&mut sensitivity, -1.0, residual));
    scale(&mut sensitivity, 0.5);
    let outside = valid.as_slice().iter().enumerate().filter(|(_, valid)| !**valid).map(|(node, _)| node);
    outside.for_each(|node| sensitivity.diagonal[node] = 0.0);
    let mut gradient = PrecisionGradient::new(precision, &sensitivity);
    gradient.mask_edges(valid);
    Ok((value, gradient))
}

fn log_density(
    precision: &ResidualPrecision,
    valid: &ValidMask,
    solver: &ExactSolver,
    residuals: &[Vec<f64>],
) -> Result<f64> {
    // A cell outside the mask is independent of all others and leaves the density by its own factor.
    let num_outside = precision.grid().num_nodes() - valid.num_valid();
    let log_det = solver.log_det()? - num_outside as f64 * precision.of_lone_cell().ln();
    let of_one = 0.5 * (log_det - valid.num_valid() as f64 * log_two_pi());
    let misfit = |residual: &Vec<f64>| precision.apply(residual).iter().zip(residual).map(|(q, r)| q * r).sum::<f64>();
    Ok(residuals.len() as f64 * of_one - 0.5 * residuals.iter().map(misfit).sum::<f64>())
}

/// The residuals one by one, 0 outside the mask.
fn valid_residuals(precision: &ResidualPrecision, valid: &ValidMask, residuals: &[f64]) -> Result<Vec<Vec<f64>>> {
    let grid = precision.grid();
    if valid.grid() != grid {
        return Err(LikelihoodError::Mask { mask: valid.grid(), grid }.into());
    }
    if residuals.is_empty() || !residuals.len().is_multiple_of(grid.num_nodes()) {
        return Err(LikelihoodError::Length { found: residuals.len(), grid }.into());
    }
    let mut rows: Vec<Vec<f64>> = residuals.chunks_exact(grid.num_nodes()).map(<[f64]>::to_vec).collect();
    for row in &mut rows {
        for (node, value) in row.iter_mut().enumerate() {
            if !valid.is_valid(node) {
                *value = 0.0;
            } else if !value.is_finite() {
                return Err(LikelihoodError::NonFinite { node, value: *value }.into());
            }
        }
    }
    Ok(rows)
}

/// Adds `factor * x x'` on the stencil.
fn add_outer_product(matrix: &mut StencilMatrix, factor: f64, x: &[f64]) {
    let grid = matrix.grid();
    matrix.diagonal.iter_mut().zip(x).for_each(|(entry, x)| *entry += factor * x * x);
    for (&offset, map) in matrix.reach().offsets().iter().zip(&mut matrix.coupling) {
        for (node, entry) in map.iter_mut().enumerate() {
            if let Some(other) = grid.neighbor(node, offset) {
                *entry += factor * x[node] * x[other];
            }
        }
    }
}

fn scale(matrix: &mut StencilMatrix, factor: f64) {
    matrix.diagonal.iter_mut().chain(matrix.coupling.iter_mut().flatten()).for_each(|entry| *entry *= factor);
}

#[derive(Debug, ThisError)]
enum LikelihoodError {
    #[error("a mask of {mask} cells does not fit the {grid} graph")]
    Mask { mask: Grid, grid: Grid },
    #[error("residuals have {found} values, one or more fields of {} cells are needed", grid.num_nodes())]
    Length { found: usize, grid: Grid },
    #[error("residual {value} at node {node} is not a finite number")]
    NonFinite { node: usize, value: f64 },
}

impl ErrorDetail for LikelihoodError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Mask { .. } | Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
        }
    }
}
