//! The graph's Gaussian model alone: exact mean, variance and samples without any network.

use thiserror::Error as ThisError;

use super::{Reconstruction, ReconstructionInput, Reconstructor};
use crate::drift::Drift;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::gaussian_field::sample_residual;
use crate::grid::Grid;
use crate::posterior::Posterior;
use crate::prior::PriorEnsemble;
use crate::solve::{MeanSolver, SolveInfo};

/// The mean of the field before the measurements.
#[derive(Debug, Clone, PartialEq)]
pub enum PriorMean {
    /// The same known value everywhere.
    Constant(f64),
    /// A known field, `num_nodes` values.
    Field(Vec<f64>),
    /// One unknown level, fitted by generalised least squares (ordinary kriging); its uncertainty enters the std.
    Fitted {
        /// The level assumed as long as nothing is measured.
        without_measurements: f64,
    },
}

/// The scale of the model's standard deviations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StdScale {
    /// A known factor on the standard deviation under Q_g.
    Fixed(f64),
    /// The factor of largest likelihood of the measurements; there is no std before two measurements.
    Fitted,
}

/// The settings of [`GaussianReconstructor`].
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianSettings {
    /// The mean before the measurements.
    pub mean: PriorMean,
    /// The scale of the std and of the samples.
    pub scale: StdScale,
    /// Number of samples drawn, each from its stream `gaussian/{k}`; 0 draws none.
    pub num_samples: usize,
}

/// Exact conditioning of N(mean, Q_g^-1) on the measurements.
#[derive(Debug, Clone)]
pub struct GaussianReconstructor {
    settings: GaussianSettings,
}

/// The posterior, with the level as drift where it is fitted, and its mean.
struct Fit {
    posterior: Posterior,
    mean: Vec<f64>,
    solve: SolveInfo,
    /// (y - F b)' K^-1 (y - F b), the misfit in the measurements' own covariance K = H Q^-1 H' + R.
    misfit: f64,
}

impl GaussianReconstructor {
    /// A reconstructor of the graph's Gaussian model.
    pub fn new(settings: GaussianSettings) -> Self {
        Self { settings }
    }

    fn fit(&self, input: &ReconstructionInput<'_>) -> Result<Fit> {
        let ReconstructionInput { precision, observations, .. } = *input;
        let grid = observations.grid();
        let known = |level: f64| vec![level; grid.num_nodes()];
        let (posterior, mean) = match &self.settings.mean {
            PriorMean::Constant(level) => (Posterior::new(precision, observations)?, known(*level)),
            PriorMean::Field(field) if field.len() != grid.num_nodes() => {
                return Err(GaussianError::Length { found: field.len(), grid }.into());
            }
            PriorMean::Field(field) => (Posterior::new(precision, observations)?, field.clone()),
            PriorMean::Fitted { .. } if !observations.is_empty() => {
                (Posterior::with_drift(precision, observations, &Drift::constant(grid))?, known(0.0))
            }
            PriorMean::Fitted { without_measurements } => {
                (Posterior::new(precision, observations)?, known(*without_measurements))
            }
        };
        let (correction, solve) = posterior.mean_correction(&mean, MeanSolver::Exact)?;
        let misfit = posterior.residual_fit(&mean)?.misfit;
        let mean = mean.iter().zip(&correction).map(|(mean, delta)| mean + delta).collect();
        Ok(Fit { posterior, mean, solve, misfit })
    }

    /// The factor on standard deviations; `None` if there are too few measurements to fit it.
    fn scale(&self, fit: &Fit) -> Result<Option<f64>> {
        match self.settings.scale {
            StdScale::Fixed(scale) if !(scale.is_finite() && scale > 0.0) => Err(GaussianError::Scale { scale }.into()),
            StdScale::Fixed(scale) => Ok(Some(scale)),
            StdScale::Fitted => {
                let num_measured = fit.posterior.observations().len();
                let free = num_measured.saturating_sub(fit.posterior.num_flat_coefficients());
                Ok((num_measured >= 2).then(|| (fit.misfit / free as f64).sqrt()))
            }
        }
    }
}

impl Reconstructor for GaussianReconstructor {
    fn name(&self) -> &str {
        "gaussian"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let fit = self.fit(input)?;
        let scale = self.scale(&fit)?;
        let variances = fit.posterior.variances()?;
        let std = scale.map(|scale| variances.iter().map(|variance| scale * variance.sqrt()).collect());
        let samples = match scale {
            Some(scale) if self.settings.num_samples > 0 => {
                Some(draw(input, &fit, scale, self.settings.num_samples)?)
            }
            _ => None,
        };
        Ok(Reconstruction { mean: fit.mean, std, samples, network_calls: 0, worst_solve: Some(fit.solve) })
    }
}

/// Draws of the posterior, the fitted level's uncertainty included.
fn draw(
    input: &ReconstructionInput<'_>,
    fit: &Fit,
    scale: f64,
    num_samples: usize,
) -> Result<PriorEnsemble> {
    let num_nodes = fit.posterior.grid().num_nodes();
    let mut samples = Vec::with_capacity(num_samples * num_nodes);
    for sample in 0..num_samples {
        let mut stream = input.seeds.stream(&format!("gaussian/{sample}"));
        let residual = sample_residual(&fit.posterior, &mut stream)?;
        samples.extend(fit.mean.iter().zip(residual).map(|(mean, delta)| mean + scale * delta));
    }
    PriorEnsemble::new(samples, num_nodes)
}

#[derive(Debug, ThisError)]
enum GaussianError {
    #[error("prior mean has {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Length { found: usize, grid: Grid },
    #[error("std scale {scale} must be a finite number > 0")]
    Scale { scale: f64 },
}

impl ErrorDetail for GaussianError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::Scale { .. } => ErrorKind::InvalidInput,
        }
    }
}
