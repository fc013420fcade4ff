//! A denoiser that counts how many states it was asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::denoiser::{Denoiser, DenoiserInput};
use crate::error::Result;
use crate::linearization::Pullback;

/// Passes every call on and counts the states: one network evaluation each, whatever the batch.
pub struct CountingDenoiser {
    inner: Arc<dyn Denoiser>,
    calls: AtomicU64,
}

impl CountingDenoiser {
    /// Counts from 0.
    pub fn new(inner: Arc<dyn Denoiser>) -> Self {
        Self { inner, calls: AtomicU64::new(0) }
    }

    /// Network evaluations so far (the paper's NFE).
    pub fn network_calls(&self) -> u64 {
        // Only the total matters, no other memory is published with it.
        self.calls.load(Ordering::Relaxed)
    }

    fn count(&self, input: &DenoiserInput<'_>) {
        let states = input.noisy.len() / input.context.grid().num_nodes();
        self.calls.fetch_add(states as u64, Ordering::Relaxed);
    }
}

impl Denoiser for CountingDenoiser {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn sees_observations(&self) -> bool {
        self.inner.sees_observations()
    }

    fn clean_estimates(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<()> {
        self.count(&input);
        self.inner.clean_estimates(input, clean)
    }

    /// Counted as the forward evaluation it contains; a pullback is no evaluation.
    fn linearize(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<Box<dyn Pullback>> {
        self.count(&input);
        self.inner.linearize(input, clean)
    }
}
