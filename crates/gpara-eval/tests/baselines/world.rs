//! Scenes with a Gaussian field, and what is the same in all tests.

use std::sync::Arc;

use gpara::{
    Context, Denoiser, GaussianDenoiser, NoiseSchedule, Observations, Reconstruction, ReconstructionInput,
    Reconstructor, Result, SeedTree,
};
use gpara_eval::baseline::{Chain, ChainSettings};

use crate::dense_oracle::Oracle;
use crate::dense_oracle::cases::{self, Case};

/// Direct methods, relative to the largest entry.
pub(crate) const CLOSE: f64 = 1e-9;
/// Standard errors a Monte-Carlo entry may be off.
pub(crate) const DEVIATIONS: f64 = 5.0;

pub(crate) fn scenes() -> Vec<Case> {
    ["full 6x5", "masked 7x8", "row 1x24"].map(cases::named).into()
}

/// A smooth field of order 1 that is not the prior's mean of zero.
pub(crate) fn mean_field(case: &Case) -> Vec<f64> {
    (0..case.grid().num_nodes()).map(|node| (0.7 * node as f64).cos()).collect()
}

pub(crate) fn context(case: &Case) -> Context {
    Context::new(case.valid.clone(), Vec::new()).unwrap()
}

pub(crate) fn toy_denoiser(case: &Case) -> Arc<dyn Denoiser> {
    Arc::new(GaussianDenoiser::new(mean_field(case), case.prior(), NoiseSchedule::ddpm()).unwrap())
}

/// A chain without clip, so that a Gaussian stays a Gaussian.
pub(crate) fn free(steps: usize, samples: usize) -> ChainSettings {
    ChainSettings { steps, samples, clip: false, ..ChainSettings::default() }
}

pub(crate) fn chain(case: &Case, settings: ChainSettings) -> Chain {
    chain_of(toy_denoiser(case), settings)
}

pub(crate) fn chain_of(denoiser: Arc<dyn Denoiser>, settings: ChainSettings) -> Chain {
    Chain::new(denoiser, &NoiseSchedule::ddpm(), settings, None).unwrap()
}

pub(crate) fn reconstruct(method: &dyn Reconstructor, case: &Case, seed: u64) -> Reconstruction {
    try_reconstruct(method, case, &case.observations, seed).unwrap()
}

pub(crate) fn try_reconstruct(
    method: &dyn Reconstructor,
    case: &Case,
    observations: &Observations,
    seed: u64,
) -> Result<Reconstruction> {
    let (context, precision, seeds) = (context(case), case.prior(), SeedTree::new(seed));
    method.reconstruct(&ReconstructionInput {
        context: &context,
        observations,
        precision: &precision,
        ensemble: None,
        seeds,
    })
}

/// Mean and standard deviation of the field given the measurements, exactly.
pub(crate) fn exact_posterior(case: &Case) -> (Vec<f64>, Vec<f64>) {
    let (oracle, mean) = (Oracle::new(case), mean_field(case));
    let correction = oracle.mean(case, &mean);
    let posterior = mean.iter().zip(correction).map(|(mean, delta)| mean + delta).collect();
    (posterior, oracle.covariance.diagonal().into_iter().map(f64::sqrt).collect())
}

/// Root mean square of the difference.
pub(crate) fn distance(first: &[f64], second: &[f64]) -> f64 {
    let squares: f64 = first.iter().zip(second).map(|(a, b)| (a - b).powi(2)).sum();
    (squares / first.len() as f64).sqrt()
}

#[track_caller]
pub(crate) fn assert_close(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    for (node, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs() / largest;
        assert!(difference <= tolerance, "{name}, node {node}: {found} instead of {expected}");
    }
}
