//! The likelihood of the measurements alone, the field integrated out (G.9-G.11).

use super::{PrecisionGradient, add_outer_product, log_two_pi, prior_solver, residual_covariance, scale};
use crate::error::Result;
use crate::observations::Observation;
use crate::posterior::{Posterior, ResidualFit};
use crate::solve::ExactSolver;

/// Derivatives of a marginal log-likelihood.
#[derive(Debug, Clone, PartialEq)]
pub struct MarginalGradient {
    /// By the parameters of the prior precision. Derivatives by conductances of edges that are not allowed are not 0.
    pub precision: PrecisionGradient,
    /// By the noise variance of each measurement, in the order of [`Observations::iter`](crate::Observations::iter); at an
    /// exact measurement the one-sided derivative at 0. With one noise for all, their sum.
    pub noise_variance: Vec<f64>,
}

/// log p(y) of the measurements y ~ N(H prediction, K), K = H Q^-1 H' + R, any of them exact (G.9).
///
/// With drift the coefficients are integrated out (G.11): those with a prior as they are, flat ones by the restricted
/// likelihood, i.e. up to a constant that depends on neither graph, noise nor values.
///
/// # Shapes
/// * `prediction` - `num_nodes` values, only measured nodes are read
///
/// # Errors
/// As [`Posterior::innovation`]; `NotPositiveDefinite` if a factorisation breaks down.
///
/// # Example
/// One noisy value of one cell: a normal density of variance 1/tau + noise^2.
/// ```
/// use gpara::{
///     Conductances, Grid, Observation, Observations, Posterior, ResidualPrecision, ValidMask, log_marginal_likelihood,
/// };
///
/// let valid = ValidMask::all(Grid::new(1, 1)?);
/// let prior = ResidualPrecision::new(Conductances::from_logits(&[0.0; 4], &valid)?, 0.5, 1.0)?;
/// let mut observations = Observations::none(valid.grid());
/// observations.add(&valid, &[Observation { node: 0, value: 1.0, noise_std: 1.0 }])?;
/// let found = log_marginal_likelihood(&Posterior::new(&prior, &observations)?, &[0.0])?;
/// let variance: f64 = 2.0 + 1.0;
/// let expected = -0.5 * (1.0 / variance + (2.0 * std::f64::consts::PI * variance).ln());
/// assert!((found - expected).abs() < 1e-14);
/// # Ok::<(), gpara::Error>(())
/// ```
pub fn log_marginal_likelihood(posterior: &Posterior, prediction: &[f64]) -> Result<f64> {
    let prior = prior_solver(posterior.precision().prior())?;
    log_density(posterior, &prior, &posterior.residual_fit(prediction)?)
}

/// [`log_marginal_likelihood`] and its gradient (G.10-G.11).
///
/// # Errors
/// As [`log_marginal_likelihood`].
pub fn marginal_likelihood_gradient(posterior: &Posterior, prediction: &[f64]) -> Result<(f64, MarginalGradient)> {
    let prior = prior_solver(posterior.precision().prior())?;
    let fit = posterior.residual_fit(prediction)?;
    let value = log_density(posterior, &prior, &fit)?;

    // d log p = -<Cov(residual | y) - Q^-1 + m m', dQ> / 2.
    let mut sensitivity = residual_covariance(posterior)?;
    let unmeasured = prior.selected_inverse()?;
    let pairs = sensitivity.diagonal.iter_mut().chain(sensitivity.coupling.iter_mut().flatten());
    let minus = unmeasured.diagonal.iter().chain(unmeasured.coupling.iter().flatten());
    pairs.zip(minus).for_each(|(entry, unmeasured)| *entry -= unmeasured);
    add_outer_product(&mut sensitivity, 1.0, &fit.mean);
    if let Some(drift) = posterior.drift() {
        drift.residual_spread().iter().for_each(|column| add_outer_product(&mut sensitivity, 1.0, column));
    }
    scale(&mut sensitivity, -0.5);
    let precision = PrecisionGradient::new(posterior.precision().prior(), &sensitivity);
    Ok((value, MarginalGradient { precision, noise_variance: by_noise_variance(posterior, &fit)? }))
}

/// -(n log 2 pi + log det K + v' K^-1 v) / 2 with log det K = log det A - log det Q + log det R, exact nodes left out of A
/// and R.
fn log_density(posterior: &Posterior, prior: &ExactSolver, fit: &ResidualFit) -> Result<f64> {
    let observations = posterior.observations();
    let noise: f64 =
        observations.iter().filter(|entry| !entry.is_exact()).map(|entry| 2.0 * entry.noise_std.ln()).sum();
    let mut log_det = posterior.factor()?.log_det()? - prior.log_det()? + noise;
    let mut num_values = observations.len();
    if let Some(drift) = posterior.drift() {
        log_det += drift.log_det();
        num_values -= drift.num_flat();
    }
    Ok(-0.5 * (num_values as f64 * log_two_pi() + log_det + fit.misfit))
}

/// (w_i^2 - P_ii) / 2 with w = P v, P = K^-1 less what the drift explains (G.10).
fn by_noise_variance(posterior: &Posterior, fit: &ResidualFit) -> Result<Vec<f64>> {
    let observations = posterior.observations();
    let spread = posterior.drift().map(|drift| drift.weight_spread()).unwrap_or_default();
    let variances = posterior.factor()?.double_variances()?;
    let prior_diagonal = posterior.precision().prior().diagonal();
    let by_value = |(at, entry): (usize, &Observation)| {
        let precision = entry.noise_std.powi(-2);
        let inverse = if precision <= prior_diagonal[entry.node] {
            precision * (1.0 - precision * variances[entry.node])
        } else {
            // Here the difference would lose its digits: one solve gives the column of K^-1 without it.
            let mut unit = vec![0.0; observations.len()];
            unit[at] = 1.0;
            let mean = posterior.refined_residual_mean(&unit)?;
            posterior.kriging_weights(&unit, &mean)[at]
        };
        let explained: f64 = spread.iter().map(|column| column[at] * column[at]).sum();
        Ok(0.5 * (fit.weights[at] * fit.weights[at] - inverse + explained))
    };
    observations.iter().enumerate().map(by_value).collect()
}
