//! The derivative of a denoiser by its noisy state, for methods that follow the gradient of a data misfit.

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};

/// The transposed Jacobian of clean estimates by the noisy states they were made from.
///
/// It is held apart from the call that made the estimates, because the misfit may be known only later, e.g. after a
/// measurement that the estimate itself asked for. It owns what it needs.
pub trait Pullback: Send {
    /// J' `cotangent` for every state: the gradient by x_t of `sum(cotangent * x0|t)`.
    ///
    /// # Shapes
    /// * `cotangent` - `[batch, num_nodes]` as the clean estimates, and so is the result
    ///
    /// # Errors
    /// `NonFinite` if a network returns a NaN or infinity, and whatever the linear algebra raises.
    ///
    /// # Panics
    /// If `cotangent` has another length than the clean estimates.
    fn pull_back(&self, cotangent: &[f64]) -> Result<Vec<f64>>;
}

/// The error of a denoiser that has no input gradient.
#[derive(Debug, ThisError)]
#[error("denoiser `{name}` gives no gradient by its input")]
pub(crate) struct NoInputGradient {
    pub(crate) name: String,
}

impl ErrorDetail for NoInputGradient {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Unsupported
    }

    fn hint(&self) -> Option<String> {
        Some("use the network on libtorch: a build with feature `train`, and `--weights DIR`".into())
    }
}

pub(crate) fn no_input_gradient<T>(name: &str) -> Result<T> {
    Err(NoInputGradient { name: name.to_owned() }.into())
}
