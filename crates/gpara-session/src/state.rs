//! The state of a campaign, a pure function of what was told: any order of the same tells gives the same state, bit for bit.

use std::collections::{BTreeMap, BTreeSet};

use gpara::{Observation, Observations, Result, ValidMask};

use crate::error::SessionError;
use crate::settings::Settings;
use crate::store::ToldValue;

/// What is measured, asked for and given up.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The measurements, normalised, merged by precision.
    pub observations: Observations,
    /// Nodes asked for and not told yet, increasing.
    pub pending: Vec<usize>,
    /// Nodes told as failed.
    pub failed: BTreeSet<usize>,
}

impl State {
    /// The state of the given tells, pending cells and failures.
    ///
    /// # Errors
    /// `InvalidInput` if a cell is not valid or two exact values contradict each other.
    pub fn new(
        settings: &Settings,
        valid: &ValidMask,
        told: &[ToldValue],
        pending: &[(usize, usize)],
        failed: &[(usize, usize)],
    ) -> Result<Self> {
        check_contradictions(told)?;
        let grid = valid.grid();
        let mut entries = Vec::with_capacity(told.len());
        for value in told {
            let node = checked_node(valid, value.row, value.col)?;
            let noise_std = settings.noise_std(value.sigma);
            entries.push(Observation { node, value: settings.scale.normalized(value.value), noise_std });
        }
        // Merging rounds, so the order of arrival must not decide it.
        entries.sort_by(|first, second| {
            let by_node = first.node.cmp(&second.node);
            by_node.then(first.noise_std.total_cmp(&second.noise_std)).then(first.value.total_cmp(&second.value))
        });
        let mut observations = Observations::none(grid);
        observations.add(valid, &entries)?;
        let nodes = |cells: &[(usize, usize)]| -> Result<Vec<usize>> {
            cells.iter().map(|&(row, col)| checked_node(valid, row, col)).collect()
        };
        let mut pending = nodes(pending)?;
        pending.sort_unstable();
        pending.dedup();
        Ok(Self { observations, pending, failed: nodes(failed)?.into_iter().collect() })
    }

    /// Measurements that may still be asked for.
    pub fn remaining(&self, budget: usize) -> usize {
        budget.saturating_sub(self.observations.len() + self.pending.len())
    }

    /// Whether a node is measured, pending or failed.
    pub fn is_taken(&self, node: usize) -> bool {
        self.observations.contains(node) || self.pending.binary_search(&node).is_ok() || self.failed.contains(&node)
    }

    /// Measurements, as a model sees them, as they will be once the pending nodes are measured at `mean`: the covariance does
    /// not depend on those values.
    ///
    /// # Errors
    /// None for pending nodes of a checked state and a finite mean.
    pub fn with_pending(
        &self,
        valid: &ValidMask,
        seen: &Observations,
        mean: &[f64],
        noise_std: f64,
    ) -> Result<Observations> {
        let mut observations = seen.clone();
        let assumed: Vec<Observation> =
            self.pending.iter().map(|&node| Observation { node, value: mean[node], noise_std }).collect();
        observations.add(valid, &assumed)?;
        Ok(observations)
    }
}

/// The node of a cell.
///
/// # Errors
/// `InvalidInput` if the cell is outside the grid or the mask.
pub(crate) fn checked_node(valid: &ValidMask, row: usize, col: usize) -> Result<usize> {
    let grid = valid.grid();
    if row >= grid.rows() || col >= grid.cols() {
        return Err(SessionError::OutsideGrid { row, col, grid }.into());
    }
    let node = grid.node(row, col);
    if valid.is_valid(node) { Ok(node) } else { Err(SessionError::OutsideMask { row, col }.into()) }
}

/// Refuses two different exact values of one cell.
pub(crate) fn check_contradictions(told: &[ToldValue]) -> Result<()> {
    let mut exact: BTreeMap<(usize, usize), &ToldValue> = BTreeMap::new();
    for value in told.iter().filter(|value| value.sigma == 0.0) {
        let (row, col) = (value.row, value.col);
        match exact.insert((row, col), value) {
            Some(first) if first.value != value.value => {
                return Err(SessionError::Contradiction {
                    first: first.place(),
                    second: value.place(),
                    first_value: first.value,
                    second_value: value.value,
                    row,
                    col,
                }
                .into());
            }
            _ => {}
        }
    }
    Ok(())
}
