//! The prior ensemble of a session: drawn once, or again when a prior that sees the measurements has seen too few of them.

use std::sync::Arc;

use thiserror::Error as ThisError;

use crate::context::Context;
use crate::counting_denoiser::CountingDenoiser;
use crate::denoiser::Denoiser;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::observations::Observations;
use crate::prior::{PriorEnsemble, sample_prior};
use crate::reverse_chain::SamplerSettings;
use crate::seed::SeedTree;

/// Gives a session its ensemble and remembers it.
///
/// A redrawn ensemble takes the same noise streams as the first, so that it changes by the measurements alone.
pub struct EnsembleCache(Source);

enum Source {
    Nothing,
    Given(PriorEnsemble),
    Drawn(Box<DrawnEnsemble>),
}

struct DrawnEnsemble {
    denoiser: CountingDenoiser,
    sampler: SamplerSettings,
    ensemble_size: usize,
    /// Numbers of measurements at which the ensemble is drawn again, strictly increasing.
    refresh_at: Vec<usize>,
    /// The ensemble and the number of measurements it was drawn at.
    latest: Option<(PriorEnsemble, usize)>,
}

impl EnsembleCache {
    /// No ensemble: every cell has the same prior spread, W = I on the candidates.
    pub fn nothing() -> Self {
        Self(Source::Nothing)
    }

    /// An ensemble that is there already, e.g. maps a user brings.
    pub fn given(ensemble: PriorEnsemble) -> Self {
        Self(Source::Given(ensemble))
    }

    /// `ensemble_size` samples of `denoiser`, drawn at the first use and again when the number of measurements reaches
    /// each of `refresh_at` (e.g. 8, 16, 32, ...; empty = once, as in the paper).
    ///
    /// # Errors
    /// `InvalidInput` if `refresh_at` is not strictly increasing from at least 1, or is not empty though the denoiser
    /// does not see the measurements.
    pub fn drawn(
        denoiser: Arc<dyn Denoiser>,
        sampler: SamplerSettings,
        ensemble_size: usize,
        refresh_at: Vec<usize>,
    ) -> Result<Self> {
        if refresh_at.first() == Some(&0) || !refresh_at.is_sorted_by(|first, second| first < second) {
            return Err(CacheError::Thresholds { refresh_at }.into());
        }
        if !refresh_at.is_empty() && !denoiser.sees_observations() {
            return Err(CacheError::Blind { denoiser: denoiser.name().to_owned(), refresh_at }.into());
        }
        let denoiser = CountingDenoiser::new(denoiser);
        let drawn = DrawnEnsemble { denoiser, sampler, ensemble_size, refresh_at, latest: None };
        Ok(Self(Source::Drawn(Box::new(drawn))))
    }

    /// The ensemble for a state of the measurements; draws it if it is missing or a threshold has been reached.
    ///
    /// # Errors
    /// Those of [`sample_prior`]; `ShapeMismatch` if a given ensemble lies on another grid.
    pub fn ensemble(
        &mut self,
        context: &Context,
        observations: &Observations,
        seeds: SeedTree,
    ) -> Result<Option<&PriorEnsemble>> {
        match &mut self.0 {
            Source::Nothing => Ok(None),
            Source::Given(ensemble) if ensemble.num_nodes() != context.grid().num_nodes() => {
                let (found, num_nodes) = (ensemble.num_nodes(), context.grid().num_nodes());
                Err(CacheError::Grid { found, num_nodes }.into())
            }
            Source::Given(ensemble) => Ok(Some(ensemble)),
            Source::Drawn(drawn) => drawn.ensemble(context, observations, seeds).map(Some),
        }
    }

    /// Network evaluations made so far.
    pub fn network_calls(&self) -> u64 {
        match &self.0 {
            Source::Nothing | Source::Given(_) => 0,
            Source::Drawn(drawn) => drawn.denoiser.network_calls(),
        }
    }
}

impl DrawnEnsemble {
    fn ensemble(&mut self, context: &Context, observations: &Observations, seeds: SeedTree) -> Result<&PriorEnsemble> {
        let passed = |count: usize| self.refresh_at.partition_point(|&threshold| threshold <= count);
        let kept = self.latest.take().filter(|(_, drawn_at)| passed(observations.len()) == passed(*drawn_at));
        let latest = match kept {
            Some(latest) => latest,
            None => {
                let ensemble =
                    sample_prior(&self.denoiser, context, observations, &self.sampler, self.ensemble_size, seeds)?;
                (ensemble, observations.len())
            }
        };
        Ok(&self.latest.insert(latest).0)
    }
}

#[derive(Debug, ThisError)]
enum CacheError {
    #[error("ensemble refresh thresholds {refresh_at:?} must increase strictly from at least 1")]
    Thresholds { refresh_at: Vec<usize> },
    #[error(
        "ensemble refresh thresholds {refresh_at:?} need a prior that sees the measurements, `{denoiser}` does not"
    )]
    Blind { denoiser: String, refresh_at: Vec<usize> },
    #[error("ensemble of {found}-cell fields does not fit a scene of {num_nodes} cells")]
    Grid { found: usize, num_nodes: usize },
}

impl ErrorDetail for CacheError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Thresholds { .. } | Self::Blind { .. } => ErrorKind::InvalidInput,
            Self::Grid { .. } => ErrorKind::ShapeMismatch,
        }
    }

    fn hint(&self) -> Option<String> {
        matches!(self, Self::Blind { .. }).then(|| "leave the thresholds empty: the ensemble is then drawn once".into())
    }
}
