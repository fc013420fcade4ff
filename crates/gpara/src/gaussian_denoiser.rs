//! The exact denoiser of a Gaussian field: the toy prior with a closed-form answer, and the prior of `--prior gaussian`.

use thiserror::Error as ThisError;

use crate::denoiser::{Denoiser, DenoiserInput};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::{Grid, ValidMask};
use crate::linearization::Pullback;
use crate::observations::{Observation, Observations};
use crate::posterior::Posterior;
use crate::precision::ResidualPrecision;
use crate::schedule::NoiseSchedule;

/// E[x0 | x_t] for x0 ~ N(mean, Q^-1), or E[x0 | x_t, y] if it sees the measurements.
///
/// With s = abar / (1 - abar) the noisy state is a measurement of every node with precision s:
/// `x0|t = mean + (Q + s I + R^-1)^-1 (s (x_t / sqrt(abar) - mean) + R^-1 (y - mean))`, R^-1 at measured nodes only.
#[derive(Debug, Clone)]
pub struct GaussianDenoiser {
    mean: Vec<f64>,
    precision: ResidualPrecision,
    schedule: NoiseSchedule,
    sees_observations: bool,
}

impl GaussianDenoiser {
    /// The denoiser of N(`mean`, `precision`^-1) that ignores the measurements.
    ///
    /// # Errors
    /// `ShapeMismatch` if `mean` is not one value a node, `NonFinite` if it holds a NaN or infinity.
    pub fn new(mean: Vec<f64>, precision: ResidualPrecision, schedule: NoiseSchedule) -> Result<Self> {
        let grid = precision.grid();
        if mean.len() != grid.num_nodes() {
            return Err(GaussianError::Length { found: mean.len(), grid }.into());
        }
        if let Some(node) = mean.iter().position(|value| !value.is_finite()) {
            return Err(GaussianError::NonFinite { node, value: mean[node] }.into());
        }
        Ok(Self { mean, precision, schedule, sees_observations: false })
    }

    /// The same field, conditioned on the measurements exactly.
    pub fn seeing_observations(self) -> Self {
        Self { sees_observations: true, ..self }
    }
}

impl Denoiser for GaussianDenoiser {
    fn name(&self) -> &str {
        "gaussian"
    }

    fn sees_observations(&self) -> bool {
        self.sees_observations
    }

    fn clean_estimates(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<()> {
        self.conditioned_estimates(input, clean).map(drop)
    }

    fn linearize(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<Box<dyn Pullback>> {
        let posterior = self.conditioned_estimates(input, clean)?;
        let alpha_bar = self.schedule.alpha_bar(input.timestep);
        Ok(Box::new(GaussianPullback { posterior, scale: alpha_bar.sqrt() / (1.0 - alpha_bar) }))
    }
}

/// J = (Q + s I + R^-1)^-1 sqrt(abar) / (1 - abar), symmetric and the same for every state.
struct GaussianPullback {
    posterior: Posterior,
    scale: f64,
}

impl Pullback for GaussianPullback {
    fn pull_back(&self, cotangent: &[f64]) -> Result<Vec<f64>> {
        let num_nodes = self.posterior.grid().num_nodes();
        assert!(cotangent.len().is_multiple_of(num_nodes), "whole fields in");
        let mut gradient = Vec::with_capacity(cotangent.len());
        for cotangent in cotangent.chunks_exact(num_nodes) {
            gradient.extend(self.posterior.solve(cotangent)?.into_iter().map(|value| self.scale * value));
        }
        Ok(gradient)
    }
}

impl GaussianDenoiser {
    /// Writes the clean estimates and returns the posterior of the field given a noisy state.
    fn conditioned_estimates(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<Posterior> {
        let grid = self.precision.grid();
        if input.context.grid() != grid {
            return Err(GaussianError::Scene { scene: input.context.grid(), grid }.into());
        }
        let num_nodes = grid.num_nodes();
        assert!(clean.len() == input.noisy.len() && clean.len().is_multiple_of(num_nodes), "whole fields in and out");

        let alpha_bar = self.schedule.alpha_bar(input.timestep);
        let state_precision = alpha_bar / (1.0 - alpha_bar);
        let seen = Observations::none(grid);
        let seen = if self.sees_observations { input.observations } else { &seen };
        let posterior = Posterior::new(&self.precision, &with_noisy_state(grid, state_precision, seen)?)?;
        for (noisy, clean) in input.noisy.chunks_exact(num_nodes).zip(clean.chunks_exact_mut(num_nodes)) {
            // Every node is measured, so there is one innovation a node.
            let states = noisy.iter().zip(&self.mean);
            let mut innovation: Vec<f64> = states.map(|(noisy, mean)| noisy / alpha_bar.sqrt() - mean).collect();
            for entry in seen.iter() {
                let value = entry.value - self.mean[entry.node];
                // Both weighed by precision, times noise_std^2: an exact value has it all. The state alone may be huge.
                let of_state = state_precision * entry.noise_std * entry.noise_std;
                innovation[entry.node] = (of_state * innovation[entry.node] + value) / (1.0 + of_state);
            }
            let residual = posterior.refined_residual_mean(&innovation)?;
            clean.iter_mut().zip(&self.mean).zip(residual).for_each(|((clean, mean), delta)| *clean = mean + delta);
        }
        Ok(posterior)
    }
}

/// A measurement of precision `state_precision` at every node, merged with the true ones; only the precisions count.
fn with_noisy_state(grid: Grid, state_precision: f64, observations: &Observations) -> Result<Observations> {
    let noise_std = state_precision.powf(-0.5);
    let states: Vec<_> = (0..grid.num_nodes()).map(|node| Observation { node, value: 0.0, noise_std }).collect();
    let measured: Vec<_> = observations.iter().copied().collect();
    let mut all = Observations::none(grid);
    all.add(&ValidMask::all(grid), &states)?;
    all.add(&ValidMask::all(grid), &measured)?;
    Ok(all)
}

#[derive(Debug, ThisError)]
enum GaussianError {
    #[error("gaussian mean has {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Length { found: usize, grid: Grid },
    #[error("gaussian mean is {value} at node {node}, it must be finite")]
    NonFinite { node: usize, value: f64 },
    #[error("a scene of {scene} cells does not fit the {grid} gaussian prior")]
    Scene { scene: Grid, grid: Grid },
}

impl ErrorDetail for GaussianError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } | Self::Scene { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
        }
    }
}
