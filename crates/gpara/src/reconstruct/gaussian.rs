//! The graph's Gaussian model alone: exact mean, variance and samples without any network.

use thiserror::Error as ThisError;

use super::{Reconstruction, ReconstructionInput, Reconstructor};
use crate::drift::Drift;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::gaussian_field::sample_residual;
use crate::grid::Grid;
use crate::observations::Observations;
use crate::posterior::Posterior;
use crate::prior::PriorEnsemble;
use crate::residual_scale::ScaledPosterior;
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
    /// The factor that the measurements and their noise speak for ([`ScaledPosterior`]), from 16 measurements on by that scale of
    /// the field in the mean as well; there is no std before two measurements.
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
    /// The factor on standard deviations; `None` if there are too few measurements to fit it.
    scale: Option<f64>,
}

impl GaussianReconstructor {
    /// A reconstructor of the graph's Gaussian model.
    pub fn new(settings: GaussianSettings) -> Self {
        Self { settings }
    }

    fn fit(&self, input: &ReconstructionInput<'_>) -> Result<Fit> {
        let ReconstructionInput { precision, observations, .. } = *input;
        let (mean, drift) = self.before_measurements(observations)?;
        let (posterior, scale) = match (self.settings.scale, &drift) {
            (StdScale::Fixed(scale), _) if !(scale.is_finite() && scale > 0.0) => {
                return Err(GaussianError::Scale { scale }.into());
            }
            (StdScale::Fixed(scale), Some(drift)) => {
                (Posterior::with_drift(precision, observations, drift)?, Some(scale))
            }
            (StdScale::Fixed(scale), None) => (Posterior::new(precision, observations)?, Some(scale)),
            (StdScale::Fitted, _) => {
                let scaled = ScaledPosterior::fit(precision, observations, &mean, drift.as_ref())?;
                let scale = (observations.len() >= 2).then_some(scaled.scale());
                (scaled.into_posterior(), scale)
            }
        };
        let (correction, solve) = posterior.mean_correction(&mean, MeanSolver::Exact)?;
        let mean = mean.iter().zip(&correction).map(|(mean, delta)| mean + delta).collect();
        Ok(Fit { posterior, mean, solve, scale })
    }

    /// The mean before the measurements, and the level as drift where it is fitted to them.
    fn before_measurements(&self, observations: &Observations) -> Result<(Vec<f64>, Option<Drift>)> {
        let grid = observations.grid();
        let known = |level: f64| vec![level; grid.num_nodes()];
        Ok(match &self.settings.mean {
            PriorMean::Constant(level) => (known(*level), None),
            PriorMean::Field(field) if field.len() != grid.num_nodes() => {
                return Err(GaussianError::Length { found: field.len(), grid }.into());
            }
            PriorMean::Field(field) => (field.clone(), None),
            PriorMean::Fitted { .. } if !observations.is_empty() => (known(0.0), Some(Drift::constant(grid))),
            PriorMean::Fitted { without_measurements } => (known(*without_measurements), None),
        })
    }
}

impl Reconstructor for GaussianReconstructor {
    fn name(&self) -> &str {
        "gaussian"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let fit = self.fit(input)?;
        let variances = fit.posterior.variances()?;
        let std = fit.scale.map(|scale| variances.iter().map(|variance| scale * variance.sqrt()).collect());
        let samples = match fit.scale {
            Some(scale) if self.settings.num_samples > 0 => Some(draw(input, &fit, scale, self.settings.num_samples)?),
            _ => None,
        };
        Ok(Reconstruction { mean: fit.mean, std, samples, network_calls: 0, worst_solve: Some(fit.solve) })
    }
}

/// Draws of the posterior, the fitted level's uncertainty included.
fn draw(input: &ReconstructionInput<'_>, fit: &Fit, scale: f64, num_samples: usize) -> Result<PriorEnsemble> {
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
