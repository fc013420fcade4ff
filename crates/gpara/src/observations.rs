//! The measured values so far: S, y and R of the paper's measurement model (Eq. 4), per-node noise.

use std::sync::Arc;

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::{Grid, ValidMask};

/// One measurement of one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The cell's node.
    pub node: usize,
    /// The measured value, in the field's normalised units.
    pub value: f64,
    /// Standard deviation of its noise, same units, >= 0; 0 is an exact measurement.
    pub noise_std: f64,
}

impl Observation {
    /// Whether the field takes this value without any noise.
    pub fn is_exact(&self) -> bool {
        self.noise_std == 0.0
    }
}

/// The measurements of a field, at most one entry a node, in increasing node order.
///
/// Two measurements of one node merge by precision: weights 1/std^2, so the result equals one measurement of the
/// combined precision, and the order of arrival does not matter beyond rounding. An exact measurement (noise 0) outweighs
/// all noisy ones of its node; a second exact one must agree with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Observations {
    grid: Grid,
    entries: Vec<Observation>,
    chosen_by: Option<Arc<str>>,
}

impl Observations {
    /// No measurement yet.
    pub fn none(grid: Grid) -> Self {
        Self { grid, entries: Vec::new(), chosen_by: None }
    }

    /// The same measurements with the [name](crate::Policy::name) of the policy that chose their places. It moves no mean; a
    /// [`Calibration`](crate::Calibration) may know how errors are spread between such points.
    #[must_use]
    pub fn with_chosen_by(self, policy: Option<&str>) -> Self {
        Self { chosen_by: policy.map(Arc::from), ..self }
    }

    /// The policy that chose all places; `None` if it is not known, or was not one.
    pub fn chosen_by(&self) -> Option<&str> {
        self.chosen_by.as_deref()
    }

    /// Records measurements; all of them land, or none.
    ///
    /// # Errors
    /// `InvalidInput` if a node is outside the mask, a noise is negative or two exact values of one node differ,
    /// `NonFinite` if a value is not finite.
    pub fn add(&mut self, valid: &ValidMask, measurements: &[Observation]) -> Result<()> {
        for measurement in measurements {
            check(self.grid, valid, measurement)?;
        }
        let mut entries = self.entries.clone();
        for measurement in measurements {
            match entries.binary_search_by_key(&measurement.node, |entry| entry.node) {
                Ok(at) => entries[at] = self.merged(entries[at], *measurement)?,
                Err(at) => entries.insert(at, *measurement),
            }
        }
        self.entries = entries;
        Ok(())
    }

    /// The grid they belong to.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Number of measured nodes, |S|.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is measured.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries in increasing node order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Observation> + '_ {
        self.entries.iter()
    }

    /// Whether a node is measured.
    pub fn contains(&self, node: usize) -> bool {
        self.entries.binary_search_by_key(&node, |entry| entry.node).is_ok()
    }

    /// The same values with every noise divided by `scale`.
    pub(crate) fn with_noise_over(&self, scale: f64) -> Self {
        let divided = |entry: &Observation| Observation { noise_std: entry.noise_std / scale, ..*entry };
        Self { entries: self.entries.iter().map(divided).collect(), ..self.clone() }
    }

    /// The precision-weighted mean of two measurements of one node; an exact one wins.
    fn merged(&self, first: Observation, second: Observation) -> Result<Observation> {
        match (first.is_exact(), second.is_exact()) {
            (true, true) if first.value != second.value => {
                let (row, col) = self.grid.row_col(first.node);
                Err(ObservationError::Contradiction { row, col, first: first.value, second: second.value }.into())
            }
            (true, _) => Ok(first),
            (false, true) => Ok(second),
            (false, false) => {
                let (first_precision, second_precision) = (first.noise_std.powi(-2), second.noise_std.powi(-2));
                let precision = first_precision + second_precision;
                let value = (first_precision * first.value + second_precision * second.value) / precision;
                Ok(Observation { node: first.node, value, noise_std: precision.powf(-0.5) })
            }
        }
    }
}

fn check(grid: Grid, valid: &ValidMask, measurement: &Observation) -> Result<()> {
    let Observation { node, value, noise_std } = *measurement;
    if node >= grid.num_nodes() {
        return Err(ObservationError::OutsideGrid { node, grid }.into());
    }
    let (row, col) = grid.row_col(node);
    if !valid.is_valid(node) {
        return Err(ObservationError::OutsideMask { node, row, col }.into());
    }
    if !value.is_finite() {
        return Err(ObservationError::NonFinite { value, row, col }.into());
    }
    if !(noise_std.is_finite() && noise_std >= 0.0) {
        return Err(ObservationError::Noise { noise_std, row, col }.into());
    }
    Ok(())
}

#[derive(Debug, ThisError)]
enum ObservationError {
    #[error("node {node} is outside the {grid} grid of {} cells", grid.num_nodes())]
    OutsideGrid { node: usize, grid: Grid },
    #[error("node {node} (row {row}, col {col}) is outside the valid mask")]
    OutsideMask { node: usize, row: usize, col: usize },
    #[error("measured value {value} at row {row}, col {col} is not a finite number")]
    NonFinite { value: f64, row: usize, col: usize },
    #[error("noise standard deviation {noise_std} at row {row}, col {col} must be a finite number >= 0")]
    Noise { noise_std: f64, row: usize, col: usize },
    #[error("two exact values of the cell at row {row}, col {col} contradict each other: {first} and {second}")]
    Contradiction { row: usize, col: usize, first: f64, second: f64 },
}

impl ErrorDetail for ObservationError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NonFinite { .. } => ErrorKind::NonFinite,
            _ => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Noise { .. } => Some("use 0 for an exact instrument".into()),
            Self::Contradiction { .. } => Some("give the measurements the noise of the instrument".into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid::new(2, 3).unwrap()
    }

    #[test]
    fn duplicates_merge_to_half_the_variance() {
        let (valid, mut seen) = (ValidMask::all(grid()), Observations::none(grid()));
        let at = |value| Observation { node: 4, value, noise_std: 0.2 };
        seen.add(&valid, &[at(1.0), at(2.0)]).unwrap();
        let entry = seen.iter().next().unwrap();
        assert_eq!(seen.len(), 1);
        assert!((entry.value - 1.5).abs() < 1e-15);
        assert!((entry.noise_std.powi(2) - 0.02).abs() < 1e-15);
    }

    #[test]
    fn bad_row_records_none_of_the_rows() {
        let valid = ValidMask::new(grid(), vec![true, true, true, true, true, false]).unwrap();
        let mut seen = Observations::none(grid());
        let ok = Observation { node: 1, value: 0.0, noise_std: 0.1 };
        for (bad, kind) in [
            (Observation { node: 5, ..ok }, ErrorKind::InvalidInput),
            (Observation { node: 6, ..ok }, ErrorKind::InvalidInput),
            (Observation { value: f64::NAN, ..ok }, ErrorKind::NonFinite),
            (Observation { noise_std: -0.1, ..ok }, ErrorKind::InvalidInput),
            (Observation { noise_std: f64::INFINITY, ..ok }, ErrorKind::InvalidInput),
        ] {
            assert_eq!(seen.add(&valid, &[ok, bad]).unwrap_err().kind(), kind);
            assert!(seen.is_empty());
        }
    }

    #[test]
    fn exact_value_outweighs_noisy_ones_in_any_order() {
        let (exact, noisy) = (Observation { node: 2, value: 0.3, noise_std: 0.0 }, 0.1);
        let noisy = Observation { node: 2, value: 0.9, noise_std: noisy };
        for rows in [[exact, noisy, exact], [noisy, exact, noisy], [noisy, noisy, exact]] {
            let mut seen = Observations::none(grid());
            seen.add(&ValidMask::all(grid()), &rows).unwrap();
            assert_eq!(seen.iter().copied().collect::<Vec<_>>(), [exact]);
        }
    }

    #[test]
    fn contradicting_exact_values_are_refused_by_both_values() {
        let (valid, mut seen) = (ValidMask::all(grid()), Observations::none(grid()));
        let exact = |value| Observation { node: 4, value, noise_std: 0.0 };
        seen.add(&valid, &[exact(0.25)]).unwrap();
        let other = Observation { node: 1, value: 0.0, noise_std: 0.1 };
        let error = seen.add(&valid, &[other, exact(0.5)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("row 1, col 1") && error.hint().is_some());
        assert!(error.to_string().contains("0.25 and 0.5"), "{error}");
        assert_eq!(seen.iter().copied().collect::<Vec<_>>(), [exact(0.25)], "nothing is recorded after an error");
    }
}
