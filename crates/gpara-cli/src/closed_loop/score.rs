//! What a reconstruction is worth: errors over valid and over unobserved cells, time, network calls.

use gpara::{
    FieldErrors, Observations, RelativeErrors, ValidMask, errors_over_unobserved, errors_over_valid,
    relative_errors_over_valid,
};

use crate::failure::Outcome;

/// A reconstruction and its score.
pub(crate) struct Scored {
    /// Mean of the field, `num_nodes` normalised values.
    pub(crate) mean: Vec<f64>,
    /// Standard deviation of the field, `num_nodes` normalised values; `None` where the method has no basis for one.
    pub(crate) std: Option<Vec<f64>>,
    /// How good it is.
    pub(crate) score: Score,
}

/// Errors are in normalised units; the caller scales them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score {
    /// Over every valid cell.
    pub(crate) valid: FieldErrors,
    /// Over the valid cells without a measurement; `None` when every valid cell is measured.
    pub(crate) unobserved: Option<FieldErrors>,
    /// Relative to the truth, over every valid cell; `None` for a field whose 0 has no meaning.
    pub(crate) relative: Option<RelativeErrors>,
    /// Number of measured cells.
    pub(crate) num_points: usize,
    /// Seconds of acquisition and reconstruction.
    pub(crate) seconds: f64,
    /// Seconds of the choice of points alone, rounds that evaluated a network left out.
    pub(crate) selection_seconds: f64,
    /// Network evaluations of acquisition and reconstruction.
    pub(crate) network_calls: u64,
}

impl Score {
    /// The errors of an estimate; seconds and network calls are the caller's.
    pub(crate) fn of(
        estimate: &[f64],
        truth: &[f64],
        valid: &ValidMask,
        observations: &Observations,
        seconds: f64,
        network_calls: u64,
    ) -> Outcome<Self> {
        let num_points = observations.len();
        let unobserved = match num_points < valid.num_valid() {
            true => Some(errors_over_unobserved(estimate, truth, valid, observations)?),
            false => None,
        };
        let valid = errors_over_valid(estimate, truth, valid)?;
        Ok(Self { valid, unobserved, relative: None, num_points, seconds, selection_seconds: 0.0, network_calls })
    }

    /// The same score with the errors relative to the truth; `zero` is the normalised value that stands for nothing.
    pub(crate) fn relative_to(self, zero: f64, estimate: &[f64], truth: &[f64], valid: &ValidMask) -> Outcome<Self> {
        // A ratio does not depend on the unit, only on where its zero is.
        let above = |values: &[f64]| values.iter().map(|value| value - zero).collect::<Vec<f64>>();
        let relative = Some(relative_errors_over_valid(&above(estimate), &above(truth), valid)?);
        Ok(Self { relative, ..self })
    }
}
