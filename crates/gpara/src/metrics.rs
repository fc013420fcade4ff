//! How far an estimate is from a known field, and over which cells.

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::{Grid, ValidMask};
use crate::observations::Observations;

/// Errors of an estimate over a set of cells, in the units of the fields compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldErrors {
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// Largest absolute error.
    pub max: f64,
    /// Number of cells compared.
    pub num_cells: usize,
}

impl FieldErrors {
    /// The same errors in units of which `factor` make one of the present units, e.g. 0.5 from [-1, 1] to [0, 1].
    pub fn scaled(self, factor: f64) -> Self {
        Self { rmse: self.rmse * factor, mae: self.mae * factor, max: self.max * factor, ..self }
    }
}

/// Errors relative to the truth, for fields on a ratio scale such as depth in metres: 0 means nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelativeErrors {
    /// Mean of `|estimate - truth| / truth` (AbsRel).
    pub abs_rel: f64,
    /// Share of cells where `max(estimate / truth, truth / estimate) < 1.25` (delta1).
    pub delta1: f64,
    /// Number of cells compared.
    pub num_cells: usize,
}

/// Largest ratio of estimate and truth that [`RelativeErrors::delta1`] counts as right.
const DELTA1_RATIO: f64 = 1.25;

/// Relative errors over the valid cells whose truth is above 0; cells of truth 0 or below, which stand for "no value" in
/// depth files, are skipped.
///
/// # Shapes
/// * `estimate`, `truth` - `num_nodes` values in a unit whose 0 means nothing, e.g. metres
///
/// # Errors
/// `ShapeMismatch` if a field has another length than the grid, `NonFinite` if a value compared is not a number,
/// `InvalidInput` if no valid cell has a truth above 0.
pub fn relative_errors_over_valid(estimate: &[f64], truth: &[f64], valid: &ValidMask) -> Result<RelativeErrors> {
    // Also refuses what is not finite.
    errors_over_valid(estimate, truth, valid)?;
    let (mut relative, mut within, mut num_cells) = (0.0, 0usize, 0usize);
    for node in valid.nodes().filter(|&node| truth[node] > 0.0) {
        relative += (estimate[node] - truth[node]).abs() / truth[node];
        // An estimate of 0 or below is not within any ratio of a positive truth.
        let ratio = if estimate[node] > 0.0 {
            (estimate[node] / truth[node]).max(truth[node] / estimate[node])
        } else {
            f64::INFINITY
        };
        within += usize::from(ratio < DELTA1_RATIO);
        num_cells += 1;
    }
    if num_cells == 0 {
        return Err(MetricError::NoCell.into());
    }
    let count = num_cells as f64;
    Ok(RelativeErrors { abs_rel: relative / count, delta1: within as f64 / count, num_cells })
}

/// Errors over all valid cells.
///
/// # Errors
/// `ShapeMismatch` if a field has another length than the grid, `NonFinite` if a value compared is not a number.
pub fn errors_over_valid(estimate: &[f64], truth: &[f64], valid: &ValidMask) -> Result<FieldErrors> {
    errors_over(estimate, truth, valid.grid(), valid.nodes())
}

/// Errors over the valid cells that were not measured.
///
/// # Errors
/// As [`errors_over_valid`], and `InvalidInput` if every valid cell was measured.
pub fn errors_over_unobserved(
    estimate: &[f64],
    truth: &[f64],
    valid: &ValidMask,
    observations: &Observations,
) -> Result<FieldErrors> {
    errors_over(estimate, truth, valid.grid(), valid.nodes().filter(|&node| !observations.contains(node)))
}

/// Errors over the given nodes.
fn errors_over(estimate: &[f64], truth: &[f64], grid: Grid, nodes: impl Iterator<Item = usize>) -> Result<FieldErrors> {
    for (field, values) in [("estimate", estimate), ("truth", truth)] {
        if values.len() != grid.num_nodes() {
            return Err(MetricError::Length { field, found: values.len(), grid }.into());
        }
    }
    let (mut squares, mut absolutes, mut max, mut num_cells) = (0.0, 0.0, 0.0f64, 0usize);
    for node in nodes {
        for (field, value) in [("estimate", estimate[node]), ("truth", truth[node])] {
            if !value.is_finite() {
                let (row, col) = grid.row_col(node);
                return Err(MetricError::NonFinite { field, value, row, col }.into());
            }
        }
        let error = (estimate[node] - truth[node]).abs();
        squares += error * error;
        absolutes += error;
        max = max.max(error);
        num_cells += 1;
    }
    if num_cells == 0 {
        return Err(MetricError::NoCell.into());
    }
    let count = num_cells as f64;
    Ok(FieldErrors { rmse: (squares / count).sqrt(), mae: absolutes / count, max, num_cells })
}

#[derive(Debug, ThisError)]
enum MetricError {
    #[error("{field} has {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Length { field: &'static str, found: usize, grid: Grid },
    #[error("{field} is {value} at row {row}, col {col}, which counts in the metric")]
    NonFinite { field: &'static str, value: f64, row: usize, col: usize },
    #[error("the metric's set of cells is empty, at least one cell is needed")]
    NoCell,
}

impl ErrorDetail for MetricError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
            Self::NoCell => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NonFinite { field: "truth", .. } => Some("mark cells without truth as invalid in the mask".into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::Observation;

    fn observed(valid: &ValidMask, nodes: &[usize]) -> Observations {
        let mut observations = Observations::none(valid.grid());
        let entries: Vec<_> = nodes.iter().map(|&node| Observation { node, value: 0.0, noise_std: 0.1 }).collect();
        observations.add(valid, &entries).unwrap();
        observations
    }

    #[test]
    fn errors_over_valid_skip_invalid_cells_even_if_nan() {
        let valid = ValidMask::new(Grid::new(1, 4).unwrap(), vec![true, true, true, false]).unwrap();
        let errors = errors_over_valid(&[1.0, 2.0, 5.0, 0.0], &[1.0, 0.0, 1.0, f64::NAN], &valid).unwrap();
        assert_eq!(errors.num_cells, 3);
        assert!((errors.rmse - (20.0f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!((errors.mae, errors.max), (2.0, 4.0));
        assert_eq!(errors.scaled(0.5).mae, 1.0);
    }

    #[test]
    fn errors_over_unobserved_leave_measured_cells_out() {
        let valid = ValidMask::all(Grid::new(1, 3).unwrap());
        let errors = errors_over_unobserved(&[1.0, 9.0, 3.0], &[0.0; 3], &valid, &observed(&valid, &[1])).unwrap();
        assert_eq!((errors.num_cells, errors.mae, errors.max), (2, 2.0, 3.0));
    }

    #[test]
    fn relative_errors_skip_zero_truth_and_count_ratios_below_five_quarters() {
        let valid = ValidMask::new(Grid::new(1, 6).unwrap(), vec![true, true, true, true, true, false]).unwrap();
        let errors =
            relative_errors_over_valid(&[2.2, 5.0, -1.0, 3.0, 2.5, 1.0], &[2.0, 0.0, 1.0, 4.0, 2.0, 9.0], &valid);
        let errors = errors.unwrap();
        assert_eq!(errors.num_cells, 4);
        // .1, skipped, 2, .25, .25; ratios 1.1, infinite, 1.33, 1.25.
        assert!((errors.abs_rel - 2.6 / 4.0).abs() < 1e-12, "{errors:?}");
        assert_eq!(errors.delta1, 0.25);
        let none = relative_errors_over_valid(&[1.0; 6], &[0.0; 6], &valid).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InvalidInput);
        let nan = relative_errors_over_valid(&[f64::NAN; 6], &[1.0; 6], &valid).unwrap_err();
        assert_eq!(nan.kind(), ErrorKind::NonFinite);
    }

    #[test]
    fn empty_set_nan_and_wrong_length_are_errors() {
        let valid = ValidMask::all(Grid::new(1, 2).unwrap());
        let all = observed(&valid, &[0, 1]);
        let kind = |result: Result<FieldErrors>| result.unwrap_err().kind();
        assert_eq!(kind(errors_over_unobserved(&[0.0; 2], &[0.0; 2], &valid, &all)), ErrorKind::InvalidInput);
        assert_eq!(kind(errors_over_valid(&[0.0; 2], &[0.0, f64::NAN], &valid)), ErrorKind::NonFinite);
        assert_eq!(kind(errors_over_valid(&[f64::NAN, 0.0], &[0.0; 2], &valid)), ErrorKind::NonFinite);
        assert_eq!(kind(errors_over_valid(&[0.0; 3], &[0.0; 2], &valid)), ErrorKind::ShapeMismatch);
    }
}
