//! Greedy choice with exact rank-one updates of all variances and numerators between the picks.

use super::updates::Updates;
use super::{BatchInput, BatchMoments, first_maximum};
use crate::error::Result;
use crate::grid::Grid;
use crate::posterior::Posterior;
use crate::scorer::{UTILITY_FLOOR, normalized_utility};

/// What a batch is chosen from, beside the moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<'a> {
    /// C_k, strictly increasing nodes.
    pub(super) candidates: &'a [usize],
    /// The analytic anchor, one value a candidate.
    pub(super) normalized_utility: &'a [f64],
    /// The calibrated score, one value a candidate.
    pub(super) calibrated_score: &'a [f64],
}

/// The picks, and the moments after all but the last of them, whose effect the choice does not need.
pub(super) fn select_sequential<'a>(input: &BatchInput<'a>, count: usize) -> Result<(Vec<usize>, BatchMoments<'a>)> {
    let BatchInput { candidates, normalized_utility, calibrated_score, .. } = *input;
    let choice = Choice { candidates, normalized_utility, calibrated_score };
    let mut moments = BatchMoments::new(input.posterior, input.weights, input.moments, input.noise_std);
    let (posterior, weights, updates) = moments.parts();
    // The effect of a single pick is not asked for here.
    if count > 1 {
        updates.prepare(posterior, weights, &likely_picks(posterior.grid(), &choice, count))?;
    }
    let chosen = choose(updates, (posterior, weights), &choice, count, false)?;
    Ok((chosen, moments))
}

/// Picks one after another; the anchor is recomputed over the remaining candidates, the scorer's shift and W stay.
pub(super) fn choose(
    updates: &mut Updates,
    (base, weights): (&Posterior, &[f64]),
    choice: &Choice<'_>,
    count: usize,
    measures_last: bool,
) -> Result<Vec<usize>> {
    let Choice { candidates, normalized_utility: anchor, calibrated_score } = *choice;
    let score_shift: Vec<f64> = calibrated_score.iter().zip(anchor).map(|(score, anchor)| score - anchor).collect();
    let unshifted = score_shift.iter().all(|&shift| shift == 0.0);
    let count = count.min(candidates.len());
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < count {
        let best = if unshifted {
            // The anchor grows with the utility, so its logarithms are not needed.
            best_open(candidates, &updates.moments.utility, &chosen)
        } else {
            let open: Vec<usize> = (0..candidates.len()).filter(|&at| !chosen.contains(&candidates[at])).collect();
            let nodes: Vec<usize> = open.iter().map(|&at| candidates[at]).collect();
            let anchor = normalized_utility(&updates.moments.utility, &nodes);
            first_maximum(0..open.len(), |at| anchor[at] + score_shift[open[at]]).map(|at| nodes[at])
        };
        let node = best.expect("fewer are chosen than there are candidates");
        chosen.push(node);
        if measures_last || chosen.len() < count {
            updates.measure(base, weights, node)?;
        }
    }
    Ok(chosen)
}

/// The candidate of largest utility that is not chosen yet, the first of equals.
fn best_open(candidates: &[usize], utility: &[f64], chosen: &[usize]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for &node in candidates {
        let value = utility[node].max(UTILITY_FLOOR);
        if best.is_none_or(|(_, highest)| value > highest) && !chosen.contains(&node) {
            best = Some((node, value));
        }
    }
    best.map(|(node, _)| node)
}

/// The nodes whose weights differ, with the differences; `None` if one of them was not measured since the base.
pub(super) fn weight_changes(updates: &Updates, before: &[f64], after: &[f64]) -> Option<Vec<(usize, f64)>> {
    let changed = before.iter().zip(after).enumerate().filter(|(_, (before, after))| before != after);
    changed.map(|(node, (before, after))| updates.has_picked(node).then_some((node, after - before))).collect()
}

/// Cells between likely picks. Measured in a campaign of 491 picks at 128 x 128: 8 to 10 picks of all were not among the likely
/// ones with distances of 4 to 6, 30 with 10.
const LIKELY_DISTANCE: usize = 4;

/// Values that the columns of all likely picks may take: 32 MB; on large grids fewer are prepared.
const PREPARED_VALUES: usize = 1 << 22;

/// The best candidates at some distance from each other, half as many again as will be picked: where most picks will be, since
/// a pick lowers the utility of its surroundings.
pub(super) fn likely_picks(grid: Grid, choice: &Choice<'_>, count: usize) -> Vec<usize> {
    let mut scores = vec![f64::NEG_INFINITY; grid.num_nodes()];
    choice.candidates.iter().zip(choice.calibrated_score).for_each(|(&node, &score)| scores[node] = score);
    let mut likely = Vec::new();
    let limit = (count + count / 2).min(PREPARED_VALUES / grid.num_nodes());
    while likely.len() < limit {
        let open = (0..scores.len()).filter(|&node| scores[node] > f64::NEG_INFINITY);
        let Some(best) = first_maximum(open, |node| scores[node]) else { break };
        likely.push(best);
        let (row, col) = grid.row_col(best);
        for near in row.saturating_sub(LIKELY_DISTANCE)..(row + LIKELY_DISTANCE + 1).min(grid.rows()) {
            let start = grid.node(near, col.saturating_sub(LIKELY_DISTANCE));
            let end = grid.node(near, (col + LIKELY_DISTANCE).min(grid.cols() - 1));
            scores[start..=end].fill(f64::NEG_INFINITY);
        }
    }
    likely
}
