//! The graph's Gaussian model alone: exact mean, variance and samples without any network.

use thiserror::Error as ThisError;

use super::{Reconstruction, ReconstructionInput, Reconstructor};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::gaussian_field::sample_residual;
use crate::grid::Grid;
use crate::observations::Observation;
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

/// The mean, and what the unknown level adds to the variance.
struct Fit {
    mean: Vec<f64>,
    solve: SolveInfo,
    level: Option<LevelUncertainty>,
    /// (y - F b)' K^-1 (y - F b), the misfit in the measurements' own covariance K = H Q^-1 H' + R.
    misfit: f64,
}

/// The fitted level's share in the error of the estimate: `influence * error of the level`.
struct LevelUncertainty {
    /// 1 - m_S(1): how much of the level a node keeps once the measurements are in.
    influence: Vec<f64>,
    /// Variance of the fitted level.
    variance: f64,
}

impl GaussianReconstructor {
    /// A reconstructor of the graph's Gaussian model.
    pub fn new(settings: GaussianSettings) -> Self {
        Self { settings }
    }

    fn fit(&self, posterior: &Posterior) -> Result<Fit> {
        let grid = posterior.grid();
        let mean = match &self.settings.mean {
            PriorMean::Constant(level) => vec![*level; grid.num_nodes()],
            PriorMean::Field(field) if field.len() != grid.num_nodes() => {
                return Err(GaussianError::Length { found: field.len(), grid }.into());
            }
            PriorMean::Field(field) => field.clone(),
            PriorMean::Fitted { .. } if !posterior.observations().is_empty() => return fit_level(posterior),
            PriorMean::Fitted { without_measurements } => vec![*without_measurements; grid.num_nodes()],
        };
        let (correction, solve) = posterior.mean_correction(&mean, MeanSolver::Exact)?;
        let misfit = misfit(posterior, &posterior.innovation(&mean)?, &correction);
        let mean = mean.iter().zip(&correction).map(|(mean, delta)| mean + delta).collect();
        Ok(Fit { mean, solve, level: None, misfit })
    }

    /// The factor on standard deviations; `None` if there are too few measurements to fit it.
    fn scale(&self, posterior: &Posterior, fit: &Fit) -> Result<Option<f64>> {
        match self.settings.scale {
            StdScale::Fixed(scale) if !(scale.is_finite() && scale > 0.0) => Err(GaussianError::Scale { scale }.into()),
            StdScale::Fixed(scale) => Ok(Some(scale)),
            StdScale::Fitted => {
                let free = posterior.observations().len().saturating_sub(usize::from(fit.level.is_some()));
                Ok((posterior.observations().len() >= 2).then(|| (fit.misfit / free as f64).sqrt()))
            }
        }
    }
}

impl Reconstructor for GaussianReconstructor {
    fn name(&self) -> &str {
        "gaussian"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let posterior = Posterior::new(input.precision, input.observations)?;
        let fit = self.fit(&posterior)?;
        let scale = self.scale(&posterior, &fit)?;
        let mut variances = posterior.variances()?;
        if let Some(LevelUncertainty { influence, variance }) = &fit.level {
            variances
                .iter_mut()
                .zip(influence)
                .for_each(|(total, influence)| *total += influence * influence * variance);
        }
        let std = scale.map(|scale| variances.iter().map(|variance| scale * variance.sqrt()).collect());
        let samples = match scale {
            Some(scale) if self.settings.num_samples > 0 => {
                Some(draw(input, &posterior, &fit, scale, self.settings.num_samples)?)
            }
            _ => None,
        };
        Ok(Reconstruction { mean: fit.mean, std, samples, network_calls: 0, worst_solve: Some(fit.solve) })
    }
}

/// Generalised least squares for one level b: `b = 1' K^-1 y / 1' K^-1 1`, then the residual given that level.
fn fit_level(posterior: &Posterior) -> Result<Fit> {
    let num_nodes = posterior.grid().num_nodes();
    let flat = vec![0.0; num_nodes];
    let (of_values, solve) = posterior.mean_correction(&flat, MeanSolver::Exact)?;
    let mut unit = flat.clone();
    posterior.observations().iter().for_each(|entry| unit[entry.node] = entry.noise_std.powi(-2));
    let of_ones = posterior.solve(&unit)?;
    let ones = vec![1.0; posterior.observations().len()];
    let precision: f64 = kriging_weights(posterior, &ones, &of_ones).iter().sum();
    let weighted: f64 = kriging_weights(posterior, &posterior.innovation(&flat)?, &of_values).iter().sum();
    let level = weighted / precision;
    let base = vec![level; num_nodes];
    let (correction, _) = posterior.mean_correction(&base, MeanSolver::Exact)?;
    let misfit = misfit(posterior, &posterior.innovation(&base)?, &correction);
    let mean = correction.iter().map(|delta| level + delta).collect();
    let influence = of_ones.into_iter().map(|correction| 1.0 - correction).collect();
    let level = Some(LevelUncertainty { influence, variance: precision.recip() });
    Ok(Fit { mean, solve, level, misfit })
}

/// K^-1 v, one value a measurement, of the innovation v whose correction is m.
///
/// `A m = H' R^-1 v` says twice the same: K^-1 v = R^-1 (v - H m) = H Q m. The first loses its digits where the noise is
/// small and m reproduces v, the second where it is large; each measurement takes the one that suits its noise.
fn kriging_weights(posterior: &Posterior, innovation: &[f64], correction: &[f64]) -> Vec<f64> {
    let prior = posterior.precision().prior();
    let applied = prior.apply(correction);
    let weight = |(entry, v): (&Observation, &f64)| {
        let noise_precision = entry.noise_std.powi(-2);
        match noise_precision > prior.diagonal()[entry.node] {
            true => applied[entry.node],
            false => noise_precision * (v - correction[entry.node]),
        }
    };
    posterior.observations().iter().zip(innovation).map(weight).collect()
}

/// v' K^-1 v of the innovation v, whose correction is m.
fn misfit(posterior: &Posterior, innovation: &[f64], correction: &[f64]) -> f64 {
    kriging_weights(posterior, innovation, correction).iter().zip(innovation).map(|(weight, v)| weight * v).sum()
}

/// Draws of the posterior, the fitted level's uncertainty included.
fn draw(
    input: &ReconstructionInput<'_>,
    posterior: &Posterior,
    fit: &Fit,
    scale: f64,
    num_samples: usize,
) -> Result<PriorEnsemble> {
    let num_nodes = posterior.grid().num_nodes();
    let mut samples = Vec::with_capacity(num_samples * num_nodes);
    for sample in 0..num_samples {
        let mut stream = input.seeds.stream(&format!("gaussian/{sample}"));
        let mut residual = sample_residual(posterior, &mut stream)?;
        if let Some(LevelUncertainty { influence, variance }) = &fit.level {
            let level = variance.sqrt() * stream.normal();
            residual.iter_mut().zip(influence).for_each(|(value, influence)| *value += influence * level);
        }
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
