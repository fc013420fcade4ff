//! Scattered measurements as interpolators take them, and the field they make of them.

use gpara::{ErrorDetail, ErrorKind, Reconstruction, ReconstructionInput, Result, ValueRange};
use thiserror::Error as ThisError;

/// A measurement at the centre of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) node: usize,
    pub(super) row: f64,
    pub(super) col: f64,
    pub(super) value: f64,
}

impl Measured {
    /// Squared distance to a cell, in cells.
    pub(super) fn squared_distance(&self, row: f64, col: f64) -> f64 {
        (self.row - row).powi(2) + (self.col - col).powi(2)
    }
}

/// The measurements of `input`; at least `least`.
///
/// # Errors
/// `InvalidInput` if there are fewer.
pub(super) fn measured(method: &'static str, input: &ReconstructionInput<'_>, least: usize) -> Result<Vec<Measured>> {
    let grid = input.observations.grid();
    let points = input.observations.iter().map(|entry| {
        let (row, col) = grid.row_col(entry.node);
        Measured { node: entry.node, row: row as f64, col: col as f64, value: entry.value }
    });
    let points: Vec<Measured> = points.collect();
    if points.len() < least {
        return Err(ScatteredError { method, found: points.len(), least }.into());
    }
    Ok(points)
}

/// The field with `at(row, col)` at every valid cell and 0 elsewhere: the harness makes every method answer there alike (G.18).
pub(super) fn field(input: &ReconstructionInput<'_>, mut at: impl FnMut(f64, f64) -> f64) -> Vec<f64> {
    let grid = input.context.grid();
    let cells = input.context.valid().as_slice().iter().enumerate();
    cells
        .map(|(node, &valid)| {
            let (row, col) = grid.row_col(node);
            if valid { at(row as f64, col as f64) } else { 0.0 }
        })
        .collect()
}

/// A reconstruction that is a mean and nothing else, held inside the scale: interpolants overshoot beyond a floor that many
/// cells lie on, and every other method clips its estimates too.
pub(super) fn mean_only(mut mean: Vec<f64>) -> Reconstruction {
    ValueRange::UNIT.project(&mut mean);
    Reconstruction { mean, std: None, samples: None, network_calls: 0, worst_solve: None }
}

#[derive(Debug, ThisError)]
#[error("`{method}` has {found} measurements, it needs at least {least}")]
struct ScatteredError {
    method: &'static str,
    found: usize,
    least: usize,
}

impl ErrorDetail for ScatteredError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}
