//! The best candidates by a score.

use gpara::{AcquisitionInput, Result, SelectedPoint};

use super::error::BaselineError;

/// # Errors
/// `InvalidInput` unless `1 <= count <= candidates`.
pub(crate) fn check_count(input: &AcquisitionInput<'_>, count: usize) -> Result<()> {
    let num_candidates = input.candidates.len();
    if count == 0 || count > num_candidates {
        return Err(BaselineError::Count { count, num_candidates }.into());
    }
    Ok(())
}

/// The `count` candidates of largest score, largest first; the lowest node wins a tie.
///
/// # Shapes
/// * `scores` - one value a candidate
pub(crate) fn best(candidates: &[usize], scores: &[f64], count: usize) -> Vec<SelectedPoint> {
    assert_eq!(candidates.len(), scores.len(), "one score a candidate");
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    // A stable sort over increasing nodes.
    order.sort_by(|&first, &second| scores[second].total_cmp(&scores[first]));
    let point =
        |index: usize| SelectedPoint { node: candidates[index], score: scores[index], expected_risk_drop: None };
    order.into_iter().take(count).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_sorts_by_score_and_breaks_ties_by_node() {
        let points = best(&[3, 5, 8, 9], &[1.0, 2.0, 2.0, -1.0], 3);
        assert_eq!(points.iter().map(|point| point.node).collect::<Vec<_>>(), [5, 8, 3]);
        assert_eq!(points[2].score, 1.0);
    }
}
