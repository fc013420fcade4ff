//! The reverse chain that all sampling baselines share: levels of noise, the prior's estimates, the samples' noise.

use std::sync::Arc;

use gpara::{
    Context, CountingDenoiser, Denoiser, DenoiserInput, NoiseSchedule, Observation, Observations, PriorEnsemble,
    Pullback, Reconstruction, Result, ReverseCoefficients, SeedTree, Stream, ValueRange,
};
use serde::{Deserialize, Serialize};

use super::error::{BaselineError, require};

/// Which timesteps a chain of n steps visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepGrid {
    /// Evenly from 0 to T - 1, e.g. 999, 749, 500, 250, 0: the grid of the paper, and of guided diffusion.
    #[default]
    Fractional,
    /// Evenly, ending above 0: 999, 799, 599, 399, 199.
    Trailing,
    /// Multiples of floor(T / n): 800, 600, 400, 200, 0; DDNM's own grid, which starts below T - 1.
    Strided,
    /// T - 1 - floor(sqrt(linspace(0, T^2, n))): 999, 499, 292, 133, 0; DiffPIR's own grid.
    Quad,
}

impl StepGrid {
    /// The timesteps of `count` steps, in decreasing order.
    ///
    /// # Errors
    /// `InvalidInput` unless `1 <= count <= T`, and for a quad grid so dense that timesteps repeat.
    pub fn timesteps(self, schedule: &NoiseSchedule, count: usize) -> Result<Vec<usize>> {
        let (evenly, num_steps) = (schedule.spaced_timesteps(count)?, schedule.num_steps());
        let timesteps: Vec<usize> = match self {
            Self::Fractional => evenly,
            Self::Trailing => (1..=count).rev().map(|index| index * num_steps / count - 1).collect(),
            Self::Strided => (0..count).rev().map(|index| index * (num_steps / count)).collect(),
            Self::Quad if count == 1 => evenly,
            Self::Quad => (0..count)
                .map(|index| {
                    let root = num_steps as f64 * (index as f64 / (count - 1) as f64).sqrt();
                    // The last root is T, one beyond the last timestep.
                    (num_steps - 1).saturating_sub(root.floor() as usize)
                })
                .collect(),
        };
        if timesteps.windows(2).any(|pair| pair[0] <= pair[1]) {
            let grid = self.name();
            return Err(BaselineError::StepGrid { grid, steps: count, num_steps, timesteps }.into());
        }
        Ok(timesteps)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Fractional => "fractional",
            Self::Trailing => "trailing",
            Self::Strided => "strided",
            Self::Quad => "quad",
        }
    }
}

/// The settings of a chain, as a configuration has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChainSettings {
    /// Number of levels n.
    pub steps: usize,
    /// Which timesteps they are.
    pub grid: StepGrid,
    /// Number of samples N.
    pub samples: usize,
    /// Whether every clean estimate is clipped to [-1, 1].
    pub clip: bool,
}

impl Default for ChainSettings {
    /// The paper's: five steps, four samples.
    fn default() -> Self {
        Self { steps: 5, grid: StepGrid::Fractional, samples: 4, clip: true }
    }
}

/// One level of noise, and the next one that the chain goes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The timestep the network is asked at.
    pub timestep: usize,
    /// a = alpha_bar of this level.
    pub alpha_bar: f64,
    /// a' = alpha_bar of the next, less noisy level; 1 after the last.
    pub alpha_bar_next: f64,
    /// The ancestral transition to it.
    pub coefficients: ReverseCoefficients,
}

impl Level {
    /// sqrt(a') and sqrt(1 - a'): what the next level keeps of the clean field, and its noise.
    pub(crate) fn next_scales(&self) -> (f64, f64) {
        (self.alpha_bar_next.sqrt(), (1.0 - self.alpha_bar_next).sqrt())
    }

    /// The noise in `noisy` if `clean` is the field: eps = (x_t - sqrt(a) x0) / sqrt(1 - a).
    pub(crate) fn noise(&self, noisy: f64, clean: f64) -> f64 {
        (noisy - self.alpha_bar.sqrt() * clean) / (1.0 - self.alpha_bar).sqrt()
    }
}

/// A prior and the levels at which it is asked.
#[derive(Clone)]
pub struct Chain {
    denoiser: Arc<dyn Denoiser>,
    levels: Vec<Level>,
    num_samples: usize,
    clip: Option<ValueRange>,
    invalid_value: Option<f64>,
}

impl Chain {
    /// The chain of a prior whose timesteps belong to `schedule`; invalid cells are held at `invalid_value` where it is known.
    ///
    /// # Errors
    /// `InvalidInput` for no sample, or a number of steps that the grid does not have.
    pub fn new(
        denoiser: Arc<dyn Denoiser>,
        schedule: &NoiseSchedule,
        settings: ChainSettings,
        invalid_value: Option<f64>,
    ) -> Result<Self> {
        require(settings.samples > 0, "samples", settings.samples as f64, "at least 1")?;
        let steps = schedule.respace(&settings.grid.timesteps(schedule, settings.steps)?)?;
        let next = steps[1..].iter().map(|step| step.alpha_bar).chain([1.0]);
        let levels = steps
            .iter()
            .zip(next)
            .map(|(step, alpha_bar_next)| Level {
                timestep: step.timestep,
                alpha_bar: step.alpha_bar,
                alpha_bar_next,
                coefficients: step.coefficients,
            })
            .collect();
        let clip = settings.clip.then_some(ValueRange::UNIT);
        Ok(Self { denoiser, levels, num_samples: settings.samples, clip, invalid_value })
    }

    /// The levels, noisiest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Number of samples N.
    pub fn num_samples(&self) -> usize {
        self.num_samples
    }

    /// The prior on one scene, its evaluations counted.
    pub(crate) fn on<'a>(&'a self, context: &'a Context) -> SceneChain<'a> {
        let denoiser = CountingDenoiser::new(Arc::clone(&self.denoiser));
        SceneChain { chain: self, context, nothing: Observations::none(context.grid()), denoiser }
    }
}

/// A chain on one scene.
pub(crate) struct SceneChain<'a> {
    chain: &'a Chain,
    context: &'a Context,
    nothing: Observations,
    denoiser: CountingDenoiser,
}

/// The prior's estimates of the clean fields behind a batch of states.
pub(crate) struct Estimates {
    /// As the network says, `[batch, num_nodes]`; its own noise estimate follows from it.
    pub(crate) free: Vec<f64>,
    /// Clipped, and with the known value in invalid cells.
    pub(crate) clean: Vec<f64>,
}

impl Estimates {
    /// `cotangent` of the held estimates as one of the free ones: what is held does not move with the state.
    pub(crate) fn stop_held(&self, cotangent: &mut [f64]) {
        for ((value, free), clean) in cotangent.iter_mut().zip(&self.free).zip(&self.clean) {
            if free != clean {
                *value = 0.0;
            }
        }
    }
}

impl SceneChain<'_> {
    /// The estimates at a level, all states in one call.
    pub(crate) fn estimates(&self, level: &Level, states: &[f64]) -> Result<Estimates> {
        let mut free = vec![0.0; states.len()];
        self.denoiser.clean_estimates(self.input(level, states), &mut free)?;
        self.hold(level, free)
    }

    /// The estimates with their derivative by the states.
    pub(crate) fn linearized(&self, level: &Level, states: &[f64]) -> Result<(Estimates, Box<dyn Pullback>)> {
        let mut free = vec![0.0; states.len()];
        let pullback = self.denoiser.linearize(self.input(level, states), &mut free)?;
        Ok((self.hold(level, free)?, pullback))
    }

    fn input<'s>(&'s self, level: &Level, noisy: &'s [f64]) -> DenoiserInput<'s> {
        DenoiserInput { noisy, timestep: level.timestep, context: self.context, observations: &self.nothing }
    }

    fn hold(&self, level: &Level, free: Vec<f64>) -> Result<Estimates> {
        self.require_finite(level, &free)?;
        let mut clean = free.clone();
        if let Some(range) = self.chain.clip {
            range.project(&mut clean);
        }
        if let Some(value) = self.chain.invalid_value {
            for field in clean.chunks_exact_mut(self.num_nodes()) {
                let valid = self.context.valid().as_slice();
                field.iter_mut().zip(valid).filter(|(_, valid)| !**valid).for_each(|(held, _)| *held = value);
            }
        }
        Ok(Estimates { free, clean })
    }

    /// # Errors
    /// `NonFinite` with timestep, state and node.
    pub(crate) fn require_finite(&self, level: &Level, values: &[f64]) -> Result<()> {
        let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
        let (state, node) = (at / self.num_nodes(), at % self.num_nodes());
        Err(BaselineError::NonFinite { timestep: level.timestep, state, node, value: values[at] }.into())
    }

    pub(crate) fn num_nodes(&self) -> usize {
        self.context.grid().num_nodes()
    }

    pub(crate) fn levels(&self) -> &[Level] {
        &self.chain.levels
    }

    pub(crate) fn network_calls(&self) -> u64 {
        self.denoiser.network_calls()
    }

    /// The measurement of every node, `None` where there is none.
    ///
    /// # Errors
    /// `ShapeMismatch` if they lie on another grid.
    pub(crate) fn measured(&self, observations: &Observations) -> Result<Vec<Option<Observation>>> {
        let (found, grid) = (observations.grid(), self.context.grid());
        if found != grid {
            return Err(BaselineError::Grid { found, grid }.into());
        }
        let mut measured = vec![None; grid.num_nodes()];
        observations.iter().for_each(|entry| measured[entry.node] = Some(*entry));
        Ok(measured)
    }

    /// Mean and spread of the samples (divisor N - 1) as a reconstruction.
    pub(crate) fn reconstruction(&self, samples: Vec<f64>) -> Result<Reconstruction> {
        let samples = PriorEnsemble::new(samples, self.num_nodes())?;
        let std = match samples.ensemble_size() {
            1 => None,
            _ => Some(samples.moments(self.context.grid())?.variance.into_iter().map(f64::sqrt).collect()),
        };
        let network_calls = self.network_calls();
        Ok(Reconstruction { mean: samples.mean(), std, samples: Some(samples), network_calls, worst_solve: None })
    }
}

/// States of a batch, each with the stream it takes all its noise from.
pub(crate) struct States {
    /// `[batch, num_nodes]`.
    pub(crate) values: Vec<f64>,
    pub(crate) streams: Vec<Stream>,
    num_nodes: usize,
}

impl States {
    /// Pure noise from the named streams.
    pub(crate) fn noise(seeds: SeedTree, names: impl Iterator<Item = String>, num_nodes: usize) -> Self {
        let mut streams: Vec<Stream> = names.map(|name| seeds.stream(&name)).collect();
        let mut values = vec![0.0; streams.len() * num_nodes];
        values.chunks_mut(num_nodes).zip(&mut streams).for_each(|(state, stream)| stream.fill_normal(state));
        Self { values, streams, num_nodes }
    }

    /// N samples from `reconstruct/{k}`: the start that all methods of a seed share.
    pub(crate) fn samples(seeds: SeedTree, count: usize, num_nodes: usize) -> Self {
        Self::noise(seeds, (0..count).map(|sample| format!("reconstruct/{sample}")), num_nodes)
    }

    /// Replaces every value by `next(index in batch, node, value, normal)`, state by state, each with its own stream.
    pub(crate) fn update(&mut self, mut next: impl FnMut(usize, usize, f64, &mut dyn FnMut() -> f64) -> f64) {
        for (state, (values, stream)) in self.values.chunks_mut(self.num_nodes).zip(&mut self.streams).enumerate() {
            let mut normal = || stream.normal();
            for (node, value) in values.iter_mut().enumerate() {
                *value = next(state * self.num_nodes + node, node, *value, &mut normal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn step_grids_of_five_are_those_of_the_methods() {
        let schedule = NoiseSchedule::ddpm();
        for (grid, timesteps) in [
            (StepGrid::Fractional, [999, 749, 500, 250, 0]),
            (StepGrid::Trailing, [999, 799, 599, 399, 199]),
            (StepGrid::Strided, [800, 600, 400, 200, 0]),
            (StepGrid::Quad, [999, 499, 292, 133, 0]),
        ] {
            assert_eq!(grid.timesteps(&schedule, 5).unwrap(), timesteps, "{grid:?}");
        }
        // A strided grid of five never sees pure noise.
        assert!(schedule.alpha_bar(800) > 1.4e-3 && schedule.alpha_bar(999) < 4.1e-5);
    }

    #[test]
    fn grid_that_repeats_a_timestep_is_refused() {
        let schedule = NoiseSchedule::ddpm();
        assert_eq!(StepGrid::Quad.timesteps(&schedule, 900).unwrap_err().kind(), ErrorKind::InvalidInput);
        for grid in [StepGrid::Fractional, StepGrid::Trailing, StepGrid::Strided] {
            assert_eq!(grid.timesteps(&schedule, 1000).unwrap(), (0..1000).rev().collect::<Vec<_>>(), "{grid:?}");
            assert_eq!(grid.timesteps(&schedule, 0).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}
