//! The prior ensemble: samples of p(x0 | c) drawn once and cached (Algorithm 1, line 2), with its moments (B.32).

use thiserror::Error as ThisError;

use crate::context::Context;
use crate::denoiser::Denoiser;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::Grid;
use crate::observations::Observations;
use crate::reverse_chain::{SamplerSettings, Scene, run_reverse_chain};
use crate::risk::EnsembleMoments;
use crate::seed::SeedTree;

/// Samples of the prior, `[ensemble_size, num_nodes]`.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorEnsemble {
    samples: Vec<f64>,
    num_nodes: usize,
}

impl PriorEnsemble {
    /// An ensemble from `[ensemble_size, num_nodes]` values, e.g. maps a user brings.
    ///
    /// # Errors
    /// `ShapeMismatch` if the length is not a positive multiple of `num_nodes`, `NonFinite` if a value is not a number.
    pub fn new(samples: Vec<f64>, num_nodes: usize) -> Result<Self> {
        if num_nodes == 0 || samples.is_empty() || !samples.len().is_multiple_of(num_nodes) {
            return Err(EnsembleError::Length { found: samples.len(), num_nodes }.into());
        }
        if let Some(at) = samples.iter().position(|value| !value.is_finite()) {
            let (sample, node) = (at / num_nodes, at % num_nodes);
            return Err(EnsembleError::NonFinite { sample, node, value: samples[at] }.into());
        }
        Ok(Self { samples, num_nodes })
    }

    /// Number of samples, L.
    pub fn ensemble_size(&self) -> usize {
        self.samples.len() / self.num_nodes
    }

    /// Number of nodes, M.
    pub fn num_nodes(&self) -> usize {
        self.num_nodes
    }

    /// One sample, `[num_nodes]`.
    pub fn sample(&self, index: usize) -> &[f64] {
        &self.samples[index * self.num_nodes..][..self.num_nodes]
    }

    /// The samples in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> + '_ {
        self.samples.chunks_exact(self.num_nodes)
    }

    /// All values, `[ensemble_size, num_nodes]`.
    pub fn as_slice(&self) -> &[f64] {
        &self.samples
    }

    /// The mean field (B.32, left).
    pub fn mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.num_nodes];
        for sample in self.iter() {
            mean.iter_mut().zip(sample).for_each(|(mean, value)| *mean += value);
        }
        let count = self.ensemble_size() as f64;
        mean.iter_mut().for_each(|mean| *mean /= count);
        mean
    }

    /// Mean and empirical variance of every node (B.32).
    ///
    /// # Errors
    /// `InvalidInput` for an ensemble of one sample, which has no variance; `ShapeMismatch` for another grid.
    pub fn moments(&self, grid: Grid) -> Result<EnsembleMoments> {
        EnsembleMoments::of(&self.samples, grid)
    }
}

/// Draws an ensemble from a denoiser; sample k takes all its noise from the stream `prior/{k}`.
///
/// A denoiser that sees the measurements is conditioned on `observations`; give [`Observations::none`] for the prior.
///
/// # Errors
/// Those of the denoiser; `InvalidInput` for no sample or no step; `NonFinite` with the timestep if a state stops
/// being a number.
pub fn sample_prior(
    denoiser: &dyn Denoiser,
    context: &Context,
    observations: &Observations,
    settings: &SamplerSettings,
    ensemble_size: usize,
    seeds: SeedTree,
) -> Result<PriorEnsemble> {
    let scene = Scene { denoiser, context, observations };
    let samples = run_reverse_chain(scene, settings, ensemble_size, seeds, "prior", &|_, _| Ok(()))?;
    PriorEnsemble::new(samples, context.grid().num_nodes())
}

#[derive(Debug, ThisError)]
enum EnsembleError {
    #[error("ensemble of {found} values is not a whole number of fields of {num_nodes} cells, at least one")]
    Length { found: usize, num_nodes: usize },
    #[error("ensemble sample {sample} is {value} at node {node}, it must be finite")]
    NonFinite { sample: usize, node: usize, value: f64 },
}

impl ErrorDetail for EnsembleError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
        }
    }
}
