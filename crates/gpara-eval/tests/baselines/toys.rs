//! Denoisers that are not Gaussian, for what a Gaussian does not show.

use std::sync::{Arc, Mutex};

use gpara::{Denoiser, DenoiserInput, Pullback, Result};

/// Passes every call on and keeps the states it was asked about.
pub(crate) struct Recorder {
    inner: Arc<dyn Denoiser>,
    calls: Mutex<Vec<(usize, Vec<f64>)>>,
}

impl Recorder {
    pub(crate) fn new(inner: Arc<dyn Denoiser>) -> Arc<Self> {
        Arc::new(Self { inner, calls: Mutex::default() })
    }

    /// Timestep and states `[batch, num_nodes]` of every call.
    pub(crate) fn calls(&self) -> Vec<(usize, Vec<f64>)> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn timesteps(&self) -> Vec<usize> {
        self.calls().into_iter().map(|(timestep, _)| timestep).collect()
    }
}

impl Denoiser for Recorder {
    fn name(&self) -> &str {
        "recorder"
    }

    fn sees_observations(&self) -> bool {
        false
    }

    fn clean_estimates(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<()> {
        assert!(input.observations.is_empty(), "a baseline asks the prior without measurements");
        self.calls.lock().unwrap().push((input.timestep, input.noisy.to_vec()));
        self.inner.clean_estimates(input, clean)
    }
}

/// A prior that is sure of one value at every cell, except for what it says at one timestep.
pub(crate) struct Constant {
    pub(crate) value: f64,
    pub(crate) exception: Option<(usize, f64)>,
}

impl Denoiser for Constant {
    fn name(&self) -> &str {
        "constant"
    }

    fn sees_observations(&self) -> bool {
        false
    }

    fn clean_estimates(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<()> {
        let value =
            self.exception.filter(|(timestep, _)| *timestep == input.timestep).map_or(self.value, |(_, value)| value);
        clean.fill(value);
        Ok(())
    }

    /// The identity, which no constant has: a gradient that shows whatever cotangent comes in.
    fn linearize(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<Box<dyn Pullback>> {
        self.clean_estimates(input, clean)?;
        Ok(Box::new(Identity))
    }
}

struct Identity;

impl Pullback for Identity {
    fn pull_back(&self, cotangent: &[f64]) -> Result<Vec<f64>> {
        Ok(cotangent.to_vec())
    }
}
