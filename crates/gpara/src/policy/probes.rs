//! Cells that a belief is sure of, measured to test it.

use super::{AcquisitionInput, FarthestPoint, FirstPoint, Policy, SelectedPoint};
use crate::belief::BeliefCache;
use crate::error::Result;

/// The cells of a batch of `count` that test the latest belief; none once it has its tests or is distrusted.
///
/// The first half of a belief's tests are the sure candidates farthest from all measurements, the others those whose predicted
/// value is farthest from that of any test: an offset shows anywhere, a gain only where the field is far from where the gain
/// leaves it. Ties go to the lowest node.
pub(super) fn probes(input: &AcquisitionInput<'_>, belief: &BeliefCache, count: usize) -> Result<Vec<SelectedPoint>> {
    let made = belief.tests_under_way(input.observations, input.pending);
    let wanted = belief.tests_wanted(input.observations, input.pending, count);
    let mut sure: Vec<usize> = input.candidates.iter().copied().filter(|&node| belief.is_sure(node)).collect();
    let mut pending = input.pending.to_vec();
    let mut tested: Vec<f64> = belief.tested_values().collect();
    tested.extend(made.iter().map(|&node| belief.mean()[node]));
    let mut points = Vec::new();
    while points.len() < wanted && !sure.is_empty() {
        let by_value = belief.tests_before() + made.len() + points.len() >= belief.num_tests() / 2;
        let point = match by_value {
            true => farthest_value(&sure, belief.mean(), &tested),
            false => {
                let inner = AcquisitionInput { candidates: &sure, pending: &pending, ..*input };
                FarthestPoint::new(FirstPoint::Centroid).select(&inner, 1)?.points[0].node
            }
        };
        sure.retain(|&node| node != point);
        pending.insert(pending.partition_point(|&node| node < point), point);
        tested.push(belief.mean()[point]);
        // Not chosen for the risk: it stands at the mean of the standardised scores.
        points.push(SelectedPoint { node: point, score: 0.0, expected_risk_drop: None });
    }
    Ok(points)
}

/// The first of the nodes whose predicted value is farthest from the nearest one tested.
fn farthest_value(nodes: &[usize], mean: &[f64], tested: &[f64]) -> usize {
    let distance = |node: usize| tested.iter().map(|value| (value - mean[node]).abs()).fold(f64::INFINITY, f64::min);
    let mut best = (nodes[0], distance(nodes[0]));
    for &node in &nodes[1..] {
        let far = distance(node);
        if far > best.1 {
            best = (node, far);
        }
    }
    best.0
}
