//! One network evaluation for the conditional mean, corrected by the graph posterior.

use std::sync::Arc;

use thiserror::Error as ThisError;

use super::{Reconstruction, ReconstructionInput, Reconstructor, worst_solve};
use crate::calibration::NORMAL_INTERVALS;
use crate::context::Context;
use crate::drift::Drift;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::graph::Guided;
use crate::grid::Grid;
use crate::layout::{MeasurementLayout, POISSON_DISPERSION};
use crate::mean::MeanPredictor;
use crate::observations::Observations;
use crate::posterior::{Correction, Posterior};
use crate::precision::ResidualPrecision;
use crate::prior::PriorEnsemble;
use crate::residual_scale::{SCALE_FROM, ScaledPosterior};
use crate::solve::SolveInfo;
use crate::spread::SpreadPredictor;
use crate::symmetry::{Symmetry, SymmetrySet};

/// Fewest measurements that a level, or level and gain of a prediction, are fitted to.
const AFFINE_FROM: usize = 16;

/// Dispersion of a layout above which it leaves most of the field to be extrapolated: twice that of random points. Points of space-filling
/// and active policies have .38 to .55, five discs or one route 3.5 and more at 491 points.
const UNEVEN_DISPERSION: f64 = 2.0 * POISSON_DISPERSION;

/// Where the spread around the mean comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StdSource {
    /// The graph posterior's exact standard deviation times a factor found on validation data: the graph's own scale is
    /// fitted to relative, not absolute, errors.
    Posterior {
        /// The factor, > 0.
        scale: f64,
    },
    /// The ensemble, conditioned on the measurements by the same correction as the mean.
    Ensemble,
    /// The [spread network](MeanReconstructor::with_spread) of the mean; at measured cells the noise of the measurement
    /// where that is less.
    Network,
}

/// What a mean is made of where measurements lie closer than its network was trained with (Eq. G.21).
///
/// There a field along the picture alone is about as good as the network and errs differently.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DenseSettings {
    /// Most measurements the network was trained with; the rest applies above.
    pub above: usize,
    /// In place of [`MeanSettings::network_share`].
    pub network_share: f64,
    /// In place of the graph's: the difference of luminance that weakens an edge by 1/e ([`Guided`]). Where the next measurement is
    /// near, fewer edges have to be kept.
    pub guide_scale: f64,
}

/// The settings of [`MeanReconstructor`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanSettings {
    /// The prediction is averaged over these symmetries of the grid.
    pub symmetries: SymmetrySet,
    /// How the prediction is corrected; exact with strength 1 is the posterior mean under Q_g.
    pub correction: Correction,
    /// Whether level and gain of the prediction are fitted to the measurements: x = b0 + (1 + b1) prediction + residual, b by
    /// generalised least squares under the graph (G.4). A prediction that is right keeps b near 0; one of another scale, or of a
    /// network that only half knows, is brought to the measurements before the residual is coupled.
    pub affine: bool,
    /// Share of the answer that starts from the prediction, above 0, at most 1; the rest is the posterior mean of the graph
    /// alone, with a level of its own. Below 1 two models that err differently are averaged: it pays where a network knows the
    /// shapes and blurs the edges that the graph sees. Not used below 16 measurements.
    pub network_share: f64,
    /// Whether the scale of what the graph couples is fitted to the measurements ([`ScaledPosterior`]), so that they are smoothed
    /// by their noise; else the field is conditioned at the graph's own scale, which a network's residual may be far below. Not
    /// used below 16 measurements.
    pub fitted_scale: bool,
    /// kappa^2 of the second-order graph where measurements lie in a few places only, dispersion above 1 (Eq. G.19); `None`: that of the
    /// graph. A network that sees the measurements has used what reaches far; a residual of long reach is extrapolated in its place,
    /// which shows only where the next measurement is far.
    pub uneven_kappa_squared: Option<f64>,
    /// What changes above the number of measurements that the network was trained with; `None`: nothing.
    pub dense: Option<DenseSettings>,
    /// The known value of the cells outside the valid mask, as the spread network learned to see it.
    pub invalid_value: Option<f64>,
    /// Where the std comes from.
    pub std: StdSource,
}

/// A network that sees the measurements gives the mean; the graph posterior corrects what it leaves at measured cells.
pub struct MeanReconstructor {
    predictor: Arc<dyn MeanPredictor>,
    spread: Option<Arc<dyn SpreadPredictor>>,
    settings: MeanSettings,
}

impl MeanReconstructor {
    /// A reconstructor over a mean network.
    pub fn new(predictor: Arc<dyn MeanPredictor>, settings: MeanSettings) -> Self {
        Self { predictor, spread: None, settings }
    }

    /// The reconstructor with a network for [`StdSource::Network`].
    pub fn with_spread(self, spread: Arc<dyn SpreadPredictor>) -> Self {
        Self { spread: Some(spread), ..self }
    }

    /// The prediction averaged over the symmetries, before the correction, and the number of evaluations.
    fn predict(&self, input: &ReconstructionInput<'_>) -> Result<(Vec<f64>, u64)> {
        let grid = input.context.grid();
        let symmetries = self.settings.symmetries.symmetries(grid);
        let mut mean = vec![0.0; grid.num_nodes()];
        for symmetry in &symmetries {
            let prediction = self.predict_under(*symmetry, input)?;
            mean.iter_mut().zip(prediction).for_each(|(mean, value)| *mean += value / symmetries.len() as f64);
        }
        if let Some(known) = self.settings.invalid_value {
            let cells = mean.iter_mut().zip(input.context.valid().as_slice());
            cells.filter(|(_, valid)| !**valid).for_each(|(mean, _)| *mean = known);
        }
        Ok((mean, symmetries.len() as u64))
    }

    /// The prediction of the transformed scene, transformed back.
    fn predict_under(&self, symmetry: Symmetry, input: &ReconstructionInput<'_>) -> Result<Vec<f64>> {
        let grid = input.context.grid();
        let context = symmetry.context(input.context)?;
        let prediction = self.predictor.predict(&context, &symmetry.observations(input.observations)?)?;
        if prediction.len() != grid.num_nodes() {
            let (predictor, found) = (self.predictor.name().to_owned(), prediction.len());
            return Err(MeanError::Length { predictor, found, grid }.into());
        }
        if let Some(node) = prediction.iter().position(|value| !value.is_finite()) {
            let (predictor, value) = (self.predictor.name().to_owned(), prediction[node]);
            return Err(MeanError::NonFinite { predictor, value, node }.into());
        }
        Ok(symmetry.undo(grid, &prediction))
    }

    /// The graph posterior, with level and gain of the prediction as drift where they are to be fitted.
    fn posterior(&self, input: &ReconstructionInput<'_>, prediction: &[f64]) -> Result<Posterior> {
        if !self.settings.affine || input.observations.len() < AFFINE_FROM {
            return self.conditioned(input, prediction, None);
        }
        let grid = input.context.grid();
        let drift = Drift::flat(grid, vec![vec![1.0; grid.num_nodes()], prediction.to_vec()])?;
        self.conditioned(input, prediction, Some(&drift))
    }

    /// The settings for more measurements than the network was trained with, if there are more.
    fn dense(&self, observations: &Observations) -> Option<DenseSettings> {
        self.settings.dense.filter(|dense| observations.len() > dense.above)
    }

    /// The graph's precision, of the edges that their density (Eq. G.21) and of the reach that the layout of the measurements
    /// allows (Eq. G.19).
    fn precision(&self, input: &ReconstructionInput<'_>) -> Result<ResidualPrecision> {
        let mut precision = input.precision.clone();
        if let Some(DenseSettings { guide_scale, .. }) = self.dense(input.observations) {
            let luminance = input.context.luminance().ok_or(MeanError::NoPicture)?;
            let guided = Guided::new(luminance, guide_scale)?;
            precision = precision.with_conductances(guided.conductances(input.context.valid())?)?;
        }
        let layout = || MeasurementLayout::of(input.context.valid(), input.observations);
        match self.settings.uneven_kappa_squared {
            Some(kappa_squared) if layout().dispersion > UNEVEN_DISPERSION => {
                precision.with_kappa_squared(kappa_squared)
            }
            _ => Ok(precision),
        }
    }

    /// The posterior at the scale that the settings ask for.
    fn conditioned(
        &self,
        input: &ReconstructionInput<'_>,
        prediction: &[f64],
        drift: Option<&Drift>,
    ) -> Result<Posterior> {
        let ReconstructionInput { precision, observations, .. } = *input;
        if self.settings.fitted_scale && observations.len() >= SCALE_FROM {
            return Ok(ScaledPosterior::fit(precision, observations, prediction, drift)?.into_posterior());
        }
        match drift {
            Some(drift) => Posterior::with_drift(precision, observations, drift),
            None => Posterior::new(precision, observations),
        }
    }

    /// The corrected prediction, averaged with the graph's own posterior mean where the share says so.
    fn corrected(
        &self,
        input: &ReconstructionInput<'_>,
        posterior: &Posterior,
        prediction: &[f64],
    ) -> Result<(Vec<f64>, Vec<SolveInfo>)> {
        let MeanSettings { network_share, correction, .. } = self.settings;
        let share = self.dense(input.observations).map_or(network_share, |dense| dense.network_share);
        if !(share > 0.0 && share <= 1.0) {
            return Err(MeanError::Share { share }.into());
        }
        let (mut mean, mut infos) = correction.refine(posterior, prediction)?;
        if share < 1.0 && input.observations.len() >= AFFINE_FROM {
            let grid = input.context.grid();
            let nothing = vec![0.0; grid.num_nodes()];
            let alone = self.conditioned(input, &nothing, Some(&Drift::constant(grid)))?;
            let (field, more) = correction.refine(&alone, &nothing)?;
            let valid = input.context.valid().as_slice();
            for ((mean, value), _) in mean.iter_mut().zip(field).zip(valid).filter(|(_, valid)| **valid) {
                *mean = share * *mean + (1.0 - share) * value;
            }
            infos.extend(more);
        }
        Ok((mean, infos))
    }

    /// The std, and the samples it was taken from if there are any.
    fn spread(
        &self,
        input: &ReconstructionInput<'_>,
        posterior: &Posterior,
        mean: &[f64],
    ) -> Result<(Vec<f64>, Option<PriorEnsemble>)> {
        let grid = input.context.grid();
        match self.settings.std {
            StdSource::Posterior { scale } if !(scale.is_finite() && scale > 0.0) => {
                Err(MeanError::Scale { scale }.into())
            }
            StdSource::Posterior { scale } => {
                Ok((posterior.variances()?.into_iter().map(|variance| scale * variance.sqrt()).collect(), None))
            }
            StdSource::Ensemble => {
                let ensemble = input.ensemble.ok_or(MeanError::NoEnsemble)?;
                let (refined, _) = self.settings.correction.refine(posterior, ensemble.as_slice())?;
                let samples = PriorEnsemble::new(refined, grid.num_nodes())?;
                let std = samples.moments(grid)?.variance.into_iter().map(f64::sqrt).collect();
                Ok((std, Some(samples)))
            }
            StdSource::Network => {
                let spread = self.spread.as_ref().ok_or(MeanError::NoSpread)?;
                let mut std = spread.predict_std(input.context, input.observations, mean)?;
                if std.len() != grid.num_nodes() {
                    let (predictor, found) = (spread.name().to_owned(), std.len());
                    return Err(MeanError::Length { predictor, found, grid }.into());
                }
                for observation in input.observations.iter() {
                    std[observation.node] = std[observation.node].min(observation.noise_std);
                }
                Ok((std, None))
            }
        }
    }
}

impl Reconstructor for MeanReconstructor {
    fn name(&self) -> &str {
        "mean"
    }

    fn interval_factors(&self, context: &Context, observations: &Observations) -> [f64; 3] {
        match (&self.spread, self.settings.std) {
            (Some(spread), StdSource::Network) => spread.interval_factors(context, observations),
            _ => NORMAL_INTERVALS,
        }
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let (prediction, mut network_calls) = self.predict(input)?;
        let precision = self.precision(input)?;
        let input = &ReconstructionInput { precision: &precision, ..*input };
        let posterior = self.posterior(input, &prediction)?;
        let (mean, infos) = self.corrected(input, &posterior, &prediction)?;
        let (std, samples) = self.spread(input, &posterior, &mean)?;
        network_calls += u64::from(self.settings.std == StdSource::Network);
        Ok(Reconstruction { mean, std: Some(std), samples, network_calls, worst_solve: worst_solve(infos) })
    }
}

#[derive(Debug, ThisError)]
enum MeanError {
    #[error("mean network `{predictor}` returned {found} values for a {grid} scene of {} cells", grid.num_nodes())]
    Length { predictor: String, found: usize, grid: Grid },
    #[error("mean network `{predictor}` returned {value} at node {node}")]
    NonFinite { predictor: String, value: f64, node: usize },
    #[error("network share {share} is not allowed: above 0, at most 1")]
    Share { share: f64 },
    #[error(
        "there are more measurements than the network was trained with and the scene has no picture for the graph beside it"
    )]
    NoPicture,
    #[error("posterior std scale {scale} must be a finite number > 0")]
    Scale { scale: f64 },
    #[error("the std is to come from an ensemble and none is given")]
    NoEnsemble,
    #[error("the std is to come from a spread network and none is given")]
    NoSpread,
}

impl ErrorDetail for MeanError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
            Self::NoPicture => ErrorKind::Incompatible,
            Self::Scale { .. } | Self::Share { .. } | Self::NoEnsemble | Self::NoSpread => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoEnsemble => Some("give an ensemble, or take the std from the posterior".into()),
            Self::NoPicture => Some("give the channels red, green and blue, or settings without `dense`".into()),
            _ => None,
        }
    }
}
