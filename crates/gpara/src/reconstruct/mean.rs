//! One network evaluation for the conditional mean, corrected by the graph posterior.

use std::sync::Arc;

use thiserror::Error as ThisError;

use super::{Reconstruction, ReconstructionInput, Reconstructor, worst_solve};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::Grid;
use crate::mean::MeanPredictor;
use crate::posterior::{Correction, Posterior};
use crate::prior::PriorEnsemble;
use crate::symmetry::{Symmetry, SymmetrySet};

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
}

/// The settings of [`MeanReconstructor`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanSettings {
    /// The prediction is averaged over these symmetries of the grid.
    pub symmetries: SymmetrySet,
    /// How the prediction is corrected; exact with strength 1 is the posterior mean under Q_g.
    pub correction: Correction,
    /// The known value of the cells outside the valid mask.
    pub invalid_value: Option<f64>,
    /// Where the std comes from.
    pub std: StdSource,
}

/// A network that sees the measurements gives the mean; the graph posterior corrects what it leaves at measured cells.
pub struct MeanReconstructor {
    predictor: Arc<dyn MeanPredictor>,
    settings: MeanSettings,
}

impl MeanReconstructor {
    /// A reconstructor over a mean network.
    pub fn new(predictor: Arc<dyn MeanPredictor>, settings: MeanSettings) -> Self {
        Self { predictor, settings }
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

    /// The std, and the samples it was taken from if there are any.
    fn spread(
        &self,
        input: &ReconstructionInput<'_>,
        posterior: &Posterior,
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
        }
    }
}

impl Reconstructor for MeanReconstructor {
    fn name(&self) -> &str {
        "mean"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let posterior = Posterior::new(input.precision, input.observations)?;
        let (prediction, network_calls) = self.predict(input)?;
        let (mean, infos) = self.settings.correction.refine(&posterior, &prediction)?;
        let (std, samples) = self.spread(input, &posterior)?;
        Ok(Reconstruction { mean, std: Some(std), samples, network_calls, worst_solve: worst_solve(infos) })
    }
}

#[derive(Debug, ThisError)]
enum MeanError {
    #[error("mean network `{predictor}` returned {found} values for a {grid} scene of {} cells", grid.num_nodes())]
    Length { predictor: String, found: usize, grid: Grid },
    #[error("mean network `{predictor}` returned {value} at node {node}")]
    NonFinite { predictor: String, value: f64, node: usize },
    #[error("posterior std scale {scale} must be a finite number > 0")]
    Scale { scale: f64 },
    #[error("the std is to come from an ensemble and none is given")]
    NoEnsemble,
}

impl ErrorDetail for MeanError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
            Self::Scale { .. } | Self::NoEnsemble => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        matches!(self, Self::NoEnsemble).then(|| "give an ensemble, or take the std from the posterior".into())
    }
}
