//! The measured values so far: S, y and R of the paper's measurement model (Eq. 4), per-node noise.

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
    /// Standard deviation of its noise, same units, > 0.
    pub noise_std: f64,
}

/// The measurements of a field, at most one entry a node, in increasing node order.
///
/// Two measurements of one node merge by precision: weights 1/std^2, so the result equals one measurement of the
/// combined precision, and the order of arrival does not matter beyond rounding.
#[derive(Debug, Clone, PartialEq)]
pub struct Observations {
    grid: Grid,
    entries: Vec<Observation>,
}

impl Observations {
    /// No measurement yet.
    pub fn none(grid: Grid) -> Self {
        Self { grid, entries: Vec::new() }
    }

    /// Records measurements; all of them land, or none.
    ///
    /// # Errors
    /// `InvalidInput` if a node is outside the mask or a noise is not positive, `NonFinite` if a value is not finite.
    pub fn add(&mut self, valid: &ValidMask, measurements: &[Observation]) -> Result<()> {
        for measurement in measurements {
            check(self.grid, valid, measurement)?;
        }
        for measurement in measurements {
            match self.entries.binary_search_by_key(&measurement.node, |entry| entry.node) {
                Ok(at) => self.entries[at] = merged(self.entries[at], *measurement),
                Err(at) => self.entries.insert(at, *measurement),
            }
        }
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
}

/// The precision-weighted mean of two measurements of one node.
fn merged(first: Observation, second: Observation) -> Observation {
    let (first_precision, second_precision) = (first.noise_std.powi(-2), second.noise_std.powi(-2));
    let precision = first_precision + second_precision;
    Observation {
        node: first.node,
        value: (first_precision * first.value + second_precision * second.value) / precision,
        noise_std: precision.powf(-0.5),
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
    if !(noise_std.is_finite() && noise_std > 0.0) {
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
    #[error("noise standard deviation {noise_std} at row {row}, col {col} must be a finite number > 0")]
    Noise { noise_std: f64, row: usize, col: usize },
}

impl ErrorDetail for ObservationError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NonFinite { .. } => ErrorKind::NonFinite,
            Self::OutsideGrid { .. } | Self::OutsideMask { .. } | Self::Noise { .. } => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Noise { .. } => Some("use a small positive value such as 1e-4 for a nearly exact instrument".into()),
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
            (Observation { noise_std: 0.0, ..ok }, ErrorKind::InvalidInput),
        ] {
            assert_eq!(seen.add(&valid, &[ok, bad]).unwrap_err().kind(), kind);
            assert!(seen.is_empty());
        }
    }
}
