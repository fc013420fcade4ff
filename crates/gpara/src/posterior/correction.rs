//! The refinement of clean estimates by a posterior (Eq. 13).

use thiserror::Error as ThisError;

use super::Posterior;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::solve::{MeanSolver, SolveInfo};
use crate::value_range::ValueRange;

/// How a clean estimate is refined by the posterior (Eq. 13).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    /// Solver of the mean.
    pub solver: MeanSolver,
    /// rho_g, the factor on the correction; 1 is the posterior mean.
    pub strength: f64,
    /// The normalised range that refined values are clipped to, if any.
    pub range: Option<ValueRange>,
}

impl Correction {
    /// `clip(x + strength * m_S(x))` for every row of `estimates` (Eq. 13).
    ///
    /// # Shapes
    /// * `estimates` - `[batch, num_nodes]` clean estimates; so is the result, with one [`SolveInfo`] a row
    ///
    /// # Errors
    /// As [`Posterior::mean_corrections`]; `InvalidInput` unless the strength is finite and positive.
    pub fn refine(&self, posterior: &Posterior, estimates: &[f64]) -> Result<(Vec<f64>, Vec<SolveInfo>)> {
        let Self { solver, strength, range } = *self;
        if !(strength.is_finite() && strength > 0.0) {
            return Err(StrengthError { strength }.into());
        }
        let (mut refined, infos) = posterior.mean_corrections(estimates, solver)?;
        let pairs = refined.iter_mut().zip(estimates);
        pairs.for_each(|(value, estimate)| *value = estimate + strength * *value);
        if let Some(range) = range {
            range.project(&mut refined);
        }
        Ok((refined, infos))
    }
}

#[derive(Debug, ThisError)]
#[error("correction strength {strength} must be a finite number > 0")]
struct StrengthError {
    strength: f64,
}

impl ErrorDetail for StrengthError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}
