//! Whether a policy's scores tell what measuring a cell is worth: the paper's one-step diagnostic (Table 6).

use gpara::{
    AcquisitionInput, ErrorDetail, ErrorKind, FieldSource, MeasurementSource, Observations, ReconstructionInput,
    Reconstructor, ResidualPrecision, Result, SeedTree, errors_over_valid,
};
use serde::{Deserialize, Serialize};
use thiserror::Error as ThisError;

use crate::registry::{MethodScene, Registry, Settings};
use crate::runner::MAX_BATCH;
use crate::scene::Scene;

/// Asks a policy for scores at the measurements of a method, and compares them with what each candidate alone brings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneStepConfig {
    /// The policy whose scores are judged; it has to give every cell one.
    pub policy: String,
    /// Its settings.
    #[serde(default)]
    pub settings: toml::Table,
    /// The budget it is told; the method's own is the number of measurements made before.
    pub budget: usize,
    /// Cells that are judged, drawn from all that could be measured.
    #[serde(default = "sixteen")]
    pub candidates: usize,
    /// Paired reconstructions whose errors are averaged.
    #[serde(default = "four")]
    pub runs: usize,
}

fn sixteen() -> usize {
    16
}

fn four() -> usize {
    4
}

/// What a diagnostic found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OneStep {
    /// Correlation of the ranks of scores and benefits.
    pub(crate) spearman: f64,
    /// How much lower the mean squared error after the best cell is than after the one of the highest score; the square of the
    /// task's unit.
    pub(crate) regret: f64,
}

/// The state that is judged.
pub(crate) struct Prefix<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) observations: &'a Observations,
    pub(crate) precision: &'a ResidualPrecision,
    pub(crate) reconstructor: &'a dyn Reconstructor,
    pub(crate) seeds: SeedTree,
}

impl OneStepConfig {
    /// Scores against benefits at a prefix. The candidates, their measured values and the runs depend on the seeds alone, so that
    /// all scores of a scene are judged by the same.
    pub(crate) fn diagnose(
        &self,
        prefix: &Prefix<'_>,
        build: &MethodScene<'_>,
        registry: &Registry,
    ) -> Result<OneStep> {
        let Prefix { scene, observations, .. } = *prefix;
        let open = |node: &usize| !observations.contains(*node);
        let all: Vec<usize> = match &scene.candidates {
            Some(nodes) => nodes.iter().copied().filter(open).collect(),
            None => scene.context.valid().nodes().filter(open).collect(),
        };
        if self.candidates < 2 || self.candidates > all.len() || self.runs == 0 {
            let Self { candidates, runs, .. } = *self;
            return Err(OneStepError::Counts { candidates, runs, open: all.len() }.into());
        }
        let seeds = prefix.seeds.subtree("one_step");
        let judged = drawn(&all, self.candidates, seeds);

        let told = MethodScene { budget: self.budget, ..*build };
        let mut model = (registry.policy(&self.policy)?.build)(&told, &Settings(self.settings.clone()))?;
        let ensemble = match model.policy.needs_ensemble() {
            true => model.ensemble.ensemble(&scene.context, observations, prefix.seeds)?,
            false => None,
        };
        let scores = model.policy.scores(&AcquisitionInput {
            context: &scene.context,
            candidates: &all,
            observations,
            pending: &[],
            ensemble,
            precision: &model.precision,
            noise_std: scene.noise_std,
            round: observations.len().div_ceil(MAX_BATCH),
            budget: self.budget,
            seeds: prefix.seeds,
        })?;
        let scores: Vec<f64> = judged.iter().map(|&place| scores[place]).collect();

        let mut source = FieldSource::new(scene.truth.clone(), scene.noise_std, prefix.seeds)?;
        let factor = build.task.error_factor();
        let mut benefits = Vec::with_capacity(judged.len());
        let before = self.mean_square(prefix, observations, seeds, factor)?;
        for &place in &judged {
            let mut with = observations.clone();
            with.add(scene.context.valid(), &source.measure(&[all[place]])?)?;
            benefits.push(before - self.mean_square(prefix, &with, seeds, factor)?);
        }
        Ok(judge(&scores, &benefits))
    }

    /// The mean squared error over the scored cells, averaged over the runs.
    fn mean_square(
        &self,
        prefix: &Prefix<'_>,
        observations: &Observations,
        seeds: SeedTree,
        factor: f64,
    ) -> Result<f64> {
        let mut sum = 0.0;
        for run in 0..self.runs {
            let input = ReconstructionInput {
                context: &prefix.scene.context,
                observations,
                precision: prefix.precision,
                ensemble: None,
                seeds: seeds.subtree(&format!("run/{run}")),
            };
            let made = prefix.reconstructor.reconstruct(&input)?;
            let errors = errors_over_valid(&made.mean, &prefix.scene.truth, &prefix.scene.scored)?;
            sum += errors.scaled(factor).rmse.powi(2);
        }
        Ok(sum / self.runs as f64)
    }
}

/// Places of `count` of the nodes, in increasing order.
fn drawn(nodes: &[usize], count: usize, seeds: SeedTree) -> Vec<usize> {
    let mut stream = seeds.stream("candidates");
    let mut places: Vec<usize> = (0..nodes.len()).collect();
    for at in 0..count {
        let other = at + stream.index(nodes.len() - at);
        places.swap(at, other);
    }
    places.truncate(count);
    places.sort_unstable();
    places
}

fn judge(scores: &[f64], benefits: &[f64]) -> OneStep {
    let first = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    let chosen = (0..scores.len()).fold(0, first);
    let most = benefits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    OneStep { spearman: correlation(&ranks(scores), &ranks(benefits)), regret: most - benefits[chosen] }
}

/// Ranks from 0; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + 0.5 * (equal as f64 - 1.0)
    };
    values.iter().map(rank).collect()
}

/// Pearson's correlation, 0 where one side is constant.
fn correlation(first: &[f64], second: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (m1, m2) = (mean(first), mean(second));
    let sum = |of: &dyn Fn(f64, f64) -> f64| first.iter().zip(second).map(|(a, b)| of(a - m1, b - m2)).sum::<f64>();
    let scale = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    if scale == 0.0 { 0.0 } else { sum(&|a, b| a * b) / scale }
}

#[derive(Debug, ThisError)]
enum OneStepError {
    #[error("one_step has candidates = {candidates} and runs = {runs}: 2 to {open} and at least 1 are allowed here")]
    Counts { candidates: usize, runs: usize, open: usize },
}

impl ErrorDetail for OneStepError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_is_that_of_ranks_with_ties_shared_and_regret_is_of_the_highest_score() {
        let found = judge(&[1.0, 2.0, 30.0, 4.0], &[0.1, 0.2, 0.3, 0.4]);
        // Ranks 0 1 3 2 against 0 1 2 3: 1 - 6 * 2 / (4 * 15).
        assert!((found.spearman - 0.8).abs() < 1e-12, "{found:?}");
        assert!((found.regret - 0.1).abs() < 1e-12, "{found:?}");
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [1.5, 0.0, 1.5]);
        assert_eq!(judge(&[1.0, 1.0], &[0.5, 0.0]), OneStep { spearman: 0.0, regret: 0.0 });
        assert_eq!(judge(&[1.0, 2.0], &[-0.5, -0.75]), OneStep { spearman: -1.0, regret: 0.25 });
    }

    #[test]
    fn candidates_are_distinct_in_order_and_of_the_seed() {
        let nodes: Vec<usize> = (100..200).collect();
        let places = drawn(&nodes, 16, SeedTree::new(4));
        assert!(places.len() == 16 && places.windows(2).all(|pair| pair[0] < pair[1]) && places[15] < 100);
        assert_eq!(places, drawn(&nodes, 16, SeedTree::new(4)));
        assert_ne!(places, drawn(&nodes, 16, SeedTree::new(5)));
        assert_eq!(drawn(&nodes, 100, SeedTree::new(4)), (0..100).collect::<Vec<_>>());
    }
}
