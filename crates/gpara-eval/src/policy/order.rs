//! A policy that walks through an order of nodes fixed before the first measurement.

use std::collections::HashSet;

use gpara::{AcquisitionInput, ErrorDetail, ErrorKind, Policy, Result, SelectedPoint, Selection};
use thiserror::Error as ThisError;

/// Takes the first admissible nodes of an order; the points of a small budget are among those of a larger one.
pub(super) struct FixedOrder {
    name: &'static str,
    nodes: Vec<usize>,
}

impl FixedOrder {
    /// A policy over `nodes`, most wanted first.
    pub(super) fn new(name: &'static str, nodes: Vec<usize>) -> Self {
        Self { name, nodes }
    }
}

impl Policy for FixedOrder {
    fn name(&self) -> &str {
        self.name
    }

    fn needs_ensemble(&self) -> bool {
        false
    }

    fn select(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        let open: HashSet<usize> = input.candidates.iter().copied().collect();
        let point = |&node: &usize| SelectedPoint { node, score: 0.0, expected_risk_drop: None };
        let points: Vec<SelectedPoint> =
            self.nodes.iter().filter(|node| open.contains(node)).take(count).map(point).collect();
        if points.len() < count {
            return Err(OrderError { policy: self.name, wanted: count, found: points.len() }.into());
        }
        Ok(Selection { points, risk: None })
    }
}

#[derive(Debug, ThisError)]
#[error("policy `{policy}` is asked for {wanted} cells and its order has {found} admissible ones left")]
struct OrderError {
    policy: &'static str,
    wanted: usize,
    found: usize,
}

impl ErrorDetail for OrderError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}
