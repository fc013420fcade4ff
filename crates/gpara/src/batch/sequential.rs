//! Greedy choice with exact rank-one updates of all variances and numerators between the picks (B.14-B.16).

use super::{BatchInput, first_maximum};
use crate::error::Result;
use crate::posterior::Posterior;
use crate::scorer::normalized_utility;

/// One pick: Sigma e_j under the picks before it, and noise_std^2 + Sigma_jj.
struct Pick {
    column: Vec<f64>,
    innovation_variance: f64,
}

/// Sigma rhs of the posterior after `picks`, from solves of the posterior before them (B.15).
fn solve_after(posterior: &Posterior, picks: &[Pick], rhs: &[f64]) -> Result<Vec<f64>> {
    let mut solution = posterior.solve(rhs)?;
    for Pick { column, innovation_variance } in picks {
        let share = column.iter().zip(rhs).map(|(u, f)| u * f).sum::<f64>() / innovation_variance;
        solution.iter_mut().zip(column).for_each(|(x, u)| *x -= u * share);
    }
    Ok(solution)
}

/// Picks one after another; the anchor is recomputed over the remaining candidates, the scorer's shift and W stay.
pub(super) fn select_sequential(input: &BatchInput<'_>, count: usize) -> Result<Vec<usize>> {
    let noise_variance = input.noise_std * input.noise_std;
    let weights = input.weights.as_slice();
    let score_shift: Vec<f64> =
        input.calibrated_score.iter().zip(input.normalized_utility).map(|(score, anchor)| score - anchor).collect();
    let mut variance = input.moments.variance_estimate.clone();
    let mut numerator = input.moments.numerator_estimate.clone();
    let mut utility = input.moments.utility.clone();
    let mut remaining: Vec<usize> = (0..input.candidates.len()).collect();
    let (mut picks, mut chosen) = (Vec::new(), Vec::new());
    while chosen.len() < count && !remaining.is_empty() {
        let nodes: Vec<usize> = remaining.iter().map(|&at| input.candidates[at]).collect();
        let anchor = normalized_utility(&utility, &nodes);
        let best = first_maximum(0..remaining.len(), |at| anchor[at] + score_shift[remaining[at]]);
        let node = nodes[best.expect("a candidate remains")];
        remaining.retain(|&at| input.candidates[at] != node);
        chosen.push(node);
        if chosen.len() == count || remaining.is_empty() {
            break;
        }
        let mut unit = vec![0.0; weights.len()];
        unit[node] = 1.0;
        let column = solve_after(input.posterior, &picks, &unit)?;
        let weighted: Vec<f64> = column.iter().zip(weights).map(|(u, w)| u * w).collect();
        let response = solve_after(input.posterior, &picks, &weighted)?;
        let innovation_variance = noise_variance + column[node];
        let spread: f64 = column.iter().zip(&weighted).map(|(u, wu)| u * wu).sum();
        for other in 0..weights.len() {
            // Sigma' = Sigma - u u'/s, hence diag(Sigma' W Sigma') = n - 2 u q / s + u^2 (u'Wu) / s^2 with q = Sigma W u.
            let ratio = column[other] / innovation_variance;
            variance[other] -= column[other] * ratio;
            numerator[other] += ratio * (ratio * spread - 2.0 * response[other]);
            utility[other] = numerator[other] / (noise_variance + variance[other]);
        }
        picks.push(Pick { column, innovation_variance });
    }
    Ok(chosen)
}
