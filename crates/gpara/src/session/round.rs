//! What one round of a session asked and what came back.

use crate::observations::Observation;
use crate::policy::SelectedPoint;

/// One round: plain data, so that callers may store it.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundRecord {
    /// Number of the round, from 0.
    pub round: usize,
    /// Measurements known when the round was asked.
    pub num_observed: usize,
    /// The points asked for, in the order of choice.
    pub points: Vec<SelectedPoint>,
    /// The told value of each point; `None` while pending, or if it failed.
    pub values: Vec<Option<f64>>,
    /// The weighted posterior risk before the round (Eq. 14), if the policy has one.
    pub risk: Option<f64>,
    /// Wall-clock time of the choice, in seconds.
    pub seconds: f64,
    /// Network evaluations made for the choice.
    pub network_calls: u64,
}

impl RoundRecord {
    /// The nodes asked for, in the order of choice.
    pub fn nodes(&self) -> Vec<usize> {
        self.points.iter().map(|point| point.node).collect()
    }

    /// The values told so far as measurements of the given noise.
    pub(super) fn observations(&self, noise_std: f64) -> impl Iterator<Item = Observation> + '_ {
        let told = self.points.iter().zip(&self.values);
        told.filter_map(move |(point, value)| Some(Observation { node: point.node, value: (*value)?, noise_std }))
    }

    /// Notes the value of a node of this round; false if the round did not ask for it or has it already.
    pub(super) fn record(&mut self, node: usize, value: f64) -> bool {
        let at = self.points.iter().position(|point| point.node == node);
        match at.map(|at| &mut self.values[at]) {
            Some(slot @ None) => {
                *slot = Some(value);
                true
            }
            _ => false,
        }
    }
}
