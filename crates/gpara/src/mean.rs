//! The seam to a network that answers in one evaluation: context and measurements in, the conditional mean out.

use crate::context::Context;
use crate::error::Result;
use crate::observations::Observations;

/// Predicts the conditional mean of the field given the context and the measurements so far.
///
/// Where a [`Denoiser`](crate::Denoiser) of many steps gives samples, this gives the centre of them directly; it says
/// nothing about the spread.
pub trait MeanPredictor: Send + Sync {
    /// A name for reports, e.g. the model's file name.
    fn name(&self) -> &str;

    /// The predicted mean, `num_nodes` values; same inputs, same bits, for any number of threads.
    ///
    /// # Errors
    /// `ShapeMismatch` or `Incompatible` if the scene does not fit the network, `NonFinite` if it returns a NaN or
    /// infinity.
    fn predict(&self, context: &Context, observations: &Observations) -> Result<Vec<f64>>;
}
