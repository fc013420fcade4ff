//! The seam to the diffusion prior: a noisy state in, the clean estimate out.

use crate::context::Context;
use crate::error::Result;
use crate::linearization::{Pullback, no_input_gradient};
use crate::observations::Observations;

/// What a [`Denoiser`] is asked: a batch of noisy states of one scene at one timestep.
#[derive(Debug, Clone, Copy)]
pub struct DenoiserInput<'a> {
    /// `[batch, num_nodes]` noisy states x_t.
    pub noisy: &'a [f64],
    /// The timestep t, 0-based in the schedule of the denoiser.
    pub timestep: usize,
    /// The scene.
    pub context: &'a Context,
    /// The measurements so far; a denoiser that does not see them ignores this.
    pub observations: &'a Observations,
}

/// A conditional diffusion prior, seen as its clean estimate x0|t (Eq. 2).
///
/// Whatever a network predicts (noise, velocity, clean field), the conversion happens inside; nothing above asks.
/// The answer for one state does not depend on the other states of the batch, bit for bit.
pub trait Denoiser: Send + Sync {
    /// A name for reports, e.g. the model's file name.
    fn name(&self) -> &str;

    /// Whether the estimate depends on the observations.
    fn sees_observations(&self) -> bool;

    /// Writes the clean estimates `[batch, num_nodes]` of `input.noisy` to `clean`.
    ///
    /// # Errors
    /// `ShapeMismatch` or `Incompatible` if the scene does not fit the network, `NonFinite` if it returns a NaN or
    /// infinity (the message names the timestep).
    ///
    /// # Panics
    /// If `clean` has another length than `input.noisy`, or that is not a multiple of the number of nodes.
    fn clean_estimates(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<()>;

    /// The same clean estimates, with the derivative by the noisy states; one evaluation of the network a state, as
    /// without.
    ///
    /// # Errors
    /// As [`clean_estimates`](Self::clean_estimates); `Unsupported` for a denoiser without an input gradient, which is the
    /// default.
    ///
    /// # Panics
    /// As [`clean_estimates`](Self::clean_estimates).
    fn linearize(&self, _input: DenoiserInput<'_>, _clean: &mut [f64]) -> Result<Box<dyn Pullback>> {
        no_input_gradient(self.name())
    }
}
