//! A sampler whose every step is affine in the state, as dense matrices: its moments and each of its samples are known.

use gpara::{Observation, Stream};
use gpara_eval::baseline::Level;

use crate::affine_chain::denoiser;
use crate::dense_oracle::cases::Case;
use crate::dense_oracle::matrix::Dense;
use crate::world::mean_field;

/// x -> matrix x + offset + diag(noise) z.
#[derive(Clone)]
pub(crate) struct NoisyMap {
    pub(crate) matrix: Dense,
    pub(crate) offset: Vec<f64>,
    /// Standard deviation of every node.
    pub(crate) noise: Vec<f64>,
    /// Normals drawn before z and not used.
    pub(crate) unused: usize,
    /// Whether z is drawn.
    pub(crate) draws: bool,
}

/// How one cell moves: x' = signal * p + old * eps + fresh * z, p the estimate with share `weight` replaced by `value`.
#[derive(Clone, Copy)]
pub(crate) struct CellRule {
    pub(crate) weight: f64,
    pub(crate) value: f64,
    pub(crate) old: f64,
    pub(crate) fresh: f64,
}

/// Whose noise `old` is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum NoiseOf {
    /// That of the prior's estimate.
    Estimate,
    /// That of the estimate after the replacement.
    Projected,
}

/// The estimate with the measured share replaced, as an affine map of the state.
pub(crate) fn projected(case: &Case, level: &Level, rule: impl Fn(Option<&Observation>) -> CellRule) -> NoisyMap {
    let (size, prior) = (case.grid().num_nodes(), denoiser(case, &mean_field(case), level.alpha_bar, false));
    let (mut matrix, mut offset) = (prior.matrix, prior.offset);
    for node in 0..size {
        let CellRule { weight, value, .. } = rule(observation(case, node));
        (0..size).for_each(|col| *matrix.at_mut(node, col) *= 1.0 - weight);
        offset[node] = (1.0 - weight) * offset[node] + weight * value;
    }
    NoisyMap { matrix, offset, noise: vec![0.0; size], unused: 0, draws: false }
}

/// One step of a method that replaces measured cells.
pub(crate) fn step(
    case: &Case,
    level: &Level,
    noise_of: NoiseOf,
    rule: impl Fn(Option<&Observation>) -> CellRule,
) -> NoisyMap {
    let size = case.grid().num_nodes();
    let estimate = denoiser(case, &mean_field(case), level.alpha_bar, false);
    let mut map = projected(case, level, &rule);
    let (signal, scale, spread) = (level.alpha_bar_next.sqrt(), level.alpha_bar.sqrt(), (1.0 - level.alpha_bar).sqrt());
    let (clean, clean_offset) = match noise_of {
        NoiseOf::Estimate => (estimate.matrix, estimate.offset),
        NoiseOf::Projected => (map.matrix.clone(), map.offset.clone()),
    };
    for node in 0..size {
        let CellRule { old, fresh, .. } = rule(observation(case, node));
        for col in 0..size {
            let identity = f64::from(u8::from(node == col));
            let noise = (identity - scale * clean.at(node, col)) / spread;
            *map.matrix.at_mut(node, col) = signal * map.matrix.at(node, col) + old * noise;
        }
        map.offset[node] = signal * map.offset[node] - old * scale * clean_offset[node] / spread;
        map.noise[node] = fresh;
    }
    map.draws = level.alpha_bar_next < 1.0;
    map
}

pub(crate) fn observation(case: &Case, node: usize) -> Option<&Observation> {
    case.observations.iter().find(|entry| entry.node == node)
}

/// Mean and covariance of the output for x_T ~ N(0, I).
pub(crate) fn moments(steps: &[NoisyMap]) -> (Vec<f64>, Dense) {
    let size = steps[0].offset.len();
    let (mut mean, mut covariance) = (vec![0.0; size], Dense::zeros(size));
    (0..size).for_each(|node| *covariance.at_mut(node, node) = 1.0);
    for step in steps {
        mean = apply(step, &mean);
        let mut next = Dense::zeros(size);
        for row in 0..size {
            let moved: Vec<f64> =
                (0..size).map(|col| (0..size).map(|k| step.matrix.at(row, k) * covariance.at(k, col)).sum()).collect();
            for col in 0..size {
                *next.at_mut(row, col) = (0..size).map(|k| moved[k] * step.matrix.at(col, k)).sum();
            }
            *next.at_mut(row, row) += step.noise[row].powi(2);
        }
        covariance = next;
    }
    (mean, covariance)
}

/// The output for the noise of one stream: the start first, then each step that draws.
pub(crate) fn sample(steps: &[NoisyMap], stream: &mut Stream) -> Vec<f64> {
    let mut state = vec![0.0; steps[0].offset.len()];
    stream.fill_normal(&mut state);
    for step in steps {
        state = apply(step, &state);
        (0..step.unused).for_each(|_| drop(stream.normal()));
        if step.draws {
            state.iter_mut().zip(&step.noise).for_each(|(value, std)| *value += std * stream.normal());
        }
    }
    state
}

fn apply(step: &NoisyMap, x: &[f64]) -> Vec<f64> {
    step.matrix.times(x).iter().zip(&step.offset).map(|(value, offset)| value + offset).collect()
}
