//! The respaced ancestral reverse chain (Eqs. 2-3), shared by the prior ensemble and by Stage II.

use rayon::prelude::*;
use thiserror::Error as ThisError;

use crate::context::Context;
use crate::denoiser::{Denoiser, DenoiserInput};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::observations::Observations;
use crate::schedule::ReverseStep;
use crate::seed::SeedTree;
use crate::value_range::ValueRange;

/// How samples are drawn from a denoiser.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerSettings {
    /// The respaced chain, from [`NoiseSchedule::respace`](crate::NoiseSchedule::respace).
    pub steps: Vec<ReverseStep>,
    /// Clip of each clean estimate before anything else is done with it; `None` leaves it free.
    pub clip: Option<ValueRange>,
    /// The known value of the cells outside the valid mask; they are held there in every clean estimate.
    pub invalid_value: Option<f64>,
    /// Largest number of states the denoiser is asked at once; bounds memory, changes no bit of the result.
    pub max_states: usize,
}

impl SamplerSettings {
    /// Clipped to [-1, 1], invalid cells free, four states at once: the paper's sampler over `steps`.
    pub fn clipped(steps: Vec<ReverseStep>) -> Self {
        Self { steps, clip: Some(ValueRange::UNIT), invalid_value: None, max_states: 4 }
    }

    /// # Errors
    /// `InvalidInput` if there is no step, no state may be asked, or the known value is not finite.
    fn check(&self) -> Result<()> {
        if self.steps.is_empty() || self.max_states == 0 {
            let (num_steps, max_states) = (self.steps.len(), self.max_states);
            return Err(ChainError::Settings { num_steps, max_states }.into());
        }
        match self.invalid_value {
            Some(value) if !value.is_finite() => Err(ChainError::InvalidValue { value }.into()),
            _ => Ok(()),
        }
    }
}

/// The scene a chain runs on.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) denoiser: &'a dyn Denoiser,
    pub(crate) context: &'a Context,
    pub(crate) observations: &'a Observations,
}

/// Where the clean estimate that `refine` is given stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainPosition {
    /// Index in the list of steps.
    pub(crate) step: usize,
    /// Whether no step follows.
    pub(crate) last: bool,
}

/// Changes a clean estimate `[num_nodes]` at a position of the chain.
pub(crate) type Refine<'a> = dyn Fn(ChainPosition, &mut [f64]) -> Result<()> + Sync + 'a;

/// Draws `num_samples` fields; sample k takes all its noise from the stream `{stream_prefix}/{k}`.
///
/// `refine(position, clean)` may change each clean estimate `[num_nodes]` after the clip, e.g. correct it by the
/// measurements. The initial noise of all nodes comes first in the stream, then that of each step; the last step has
/// none.
///
/// # Shapes
/// * returns `[num_samples, num_nodes]`
///
/// # Errors
/// Those of the denoiser and of `refine`; `InvalidInput` for unusable settings or zero samples; `NonFinite` with the
/// timestep and sample if a state stops being a number.
pub(crate) fn run_reverse_chain(
    scene: Scene<'_>,
    settings: &SamplerSettings,
    num_samples: usize,
    seeds: SeedTree,
    stream_prefix: &str,
    refine: &Refine<'_>,
) -> Result<Vec<f64>> {
    settings.check()?;
    if num_samples == 0 {
        return Err(ChainError::NoSample.into());
    }
    let num_nodes = scene.context.grid().num_nodes();
    let mut states = vec![0.0; num_samples * num_nodes];
    for (chunk_index, chunk) in states.chunks_mut(settings.max_states * num_nodes).enumerate() {
        let first_sample = chunk_index * settings.max_states;
        run_chunk(scene, settings, seeds, stream_prefix, first_sample, chunk, refine)?;
    }
    Ok(states)
}

/// Runs the whole chain for the samples `first_sample..`, as many as `states` holds.
fn run_chunk(
    scene: Scene<'_>,
    settings: &SamplerSettings,
    seeds: SeedTree,
    stream_prefix: &str,
    first_sample: usize,
    states: &mut [f64],
    refine: &Refine<'_>,
) -> Result<()> {
    let num_nodes = scene.context.grid().num_nodes();
    let mut streams: Vec<_> = states
        .chunks_mut(num_nodes)
        .enumerate()
        .map(|(offset, state)| {
            let mut stream = seeds.stream(&format!("{stream_prefix}/{}", first_sample + offset));
            stream.fill_normal(state);
            stream
        })
        .collect();
    let mut clean = vec![0.0; states.len()];
    for (step_index, step) in settings.steps.iter().enumerate() {
        let Scene { denoiser, context, observations } = scene;
        let input = DenoiserInput { noisy: states, timestep: step.timestep, context, observations };
        denoiser.clean_estimates(input, &mut clean)?;
        let position = ChainPosition { step: step_index, last: step_index + 1 == settings.steps.len() };
        // Samples are independent of each other, so the order the threads take them in changes no bit.
        clean
            .par_chunks_mut(num_nodes)
            .zip(states.par_chunks_mut(num_nodes))
            .zip(&mut streams)
            .enumerate()
            .try_for_each(|(offset, ((clean, state), stream))| {
                let sample = first_sample + offset;
                require_finite(clean, step.timestep, sample)?;
                hold_known(settings, context, clean);
                refine(position, clean)?;
                advance(step, clean, state, || stream.normal());
                require_finite(state, step.timestep, sample)
            })?;
    }
    Ok(())
}

/// Clips a clean estimate and puts the known value into the invalid cells.
fn hold_known(settings: &SamplerSettings, context: &Context, clean: &mut [f64]) {
    if let Some(range) = settings.clip {
        range.project(clean);
    }
    if let Some(value) = settings.invalid_value {
        for (estimate, &valid) in clean.iter_mut().zip(context.valid().as_slice()) {
            if !valid {
                *estimate = value;
            }
        }
    }
}

/// The transition of Eq. 3 in place.
fn advance(step: &ReverseStep, clean: &[f64], state: &mut [f64], mut normal: impl FnMut() -> f64) {
    let coefficients = step.coefficients;
    let noise_std = coefficients.noise_variance.sqrt();
    for (value, estimate) in state.iter_mut().zip(clean) {
        *value = coefficients.clean * estimate + coefficients.noisy * *value;
        // A step without noise draws none, so that a chain's last step does not advance the stream.
        if noise_std > 0.0 {
            *value += noise_std * normal();
        }
    }
}

fn require_finite(values: &[f64], timestep: usize, sample: usize) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(node) => Err(ChainError::NonFinite { timestep, sample, node, value: values[node] }.into()),
        None => Ok(()),
    }
}

#[derive(Debug, ThisError)]
enum ChainError {
    #[error("sampler with {num_steps} steps and {max_states} states at once is not allowed: both must be at least 1")]
    Settings { num_steps: usize, max_states: usize },
    #[error("known value {value} of the invalid cells is not a finite number")]
    InvalidValue { value: f64 },
    #[error("0 samples were asked for, at least 1 is needed")]
    NoSample,
    #[error("sample {sample} became {value} at timestep {timestep}, node {node}")]
    NonFinite { timestep: usize, sample: usize, node: usize, value: f64 },
}

impl ErrorDetail for ChainError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Settings { .. } | Self::InvalidValue { .. } | Self::NoSample => ErrorKind::InvalidInput,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NonFinite { .. } => Some("check the prior's weights with `gpara models verify`".into()),
            _ => None,
        }
    }
}
