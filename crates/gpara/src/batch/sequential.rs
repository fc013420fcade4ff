//! Greedy choice with exact rank-one updates of all variances and numerators between the picks (B.14-B.16).

use super::{BatchInput, first_maximum};
use crate::error::Result;
use crate::posterior::Posterior;
use crate::risk::RiskWeights;
use crate::scorer::normalized_utility;
use crate::utility::UtilityMoments;

/// Variances, numerators and utilities of all nodes as they will be once some more nodes are measured, kept exact by
/// rank-one updates (B.14-B.16).
///
/// The moments do not depend on the values that will be measured, so a batch can be planned before any of them is known.
/// A node costs two solves with the factor that is there already.
#[derive(Debug)]
pub struct LookAhead<'a> {
    posterior: &'a Posterior,
    weights: &'a RiskWeights,
    noise_variance: f64,
    picks: Vec<Pick>,
    variance: Vec<f64>,
    numerator: Vec<f64>,
    utility: Vec<f64>,
}

/// One pick: Sigma e_j under the picks before it, and noise_std^2 + Sigma_jj.
#[derive(Debug)]
struct Pick {
    column: Vec<f64>,
    innovation_variance: f64,
}

impl<'a> LookAhead<'a> {
    /// The state before any further measurement; `moments` are the exact ones of `posterior` and `weights`, each further
    /// measurement has noise of standard deviation `noise_std`.
    pub fn new(posterior: &'a Posterior, weights: &'a RiskWeights, moments: &UtilityMoments, noise_std: f64) -> Self {
        Self {
            posterior,
            weights,
            noise_variance: noise_std * noise_std,
            picks: Vec::new(),
            variance: moments.variance_estimate.clone(),
            numerator: moments.numerator_estimate.clone(),
            utility: moments.utility.clone(),
        }
    }

    /// Posterior variance of every node after the nodes so far.
    pub fn variance(&self) -> &[f64] {
        &self.variance
    }

    /// The fall of the weighted risk that one further measurement brings, for every node (Eq. 15).
    pub fn utility(&self) -> &[f64] {
        &self.utility
    }

    /// Takes a node as measured.
    ///
    /// # Errors
    /// `InvalidInput` if the node is outside the grid; `NotPositiveDefinite` if the factorisation breaks down.
    pub fn measure(&mut self, node: usize) -> Result<()> {
        let mut column = self.posterior.covariance_column(node)?;
        let mut unit = vec![0.0; column.len()];
        unit[node] = 1.0;
        self.subtract_picks(&unit, &mut column);
        let weighted: Vec<f64> = column.iter().zip(self.weights.as_slice()).map(|(u, w)| u * w).collect();
        let mut response = self.posterior.solve(&weighted)?;
        self.subtract_picks(&weighted, &mut response);
        let innovation_variance = self.noise_variance + column[node];
        let spread: f64 = column.iter().zip(&weighted).map(|(u, wu)| u * wu).sum();
        for other in 0..column.len() {
            // Sigma' = Sigma - u u'/s, hence diag(Sigma' W Sigma') = n - 2 u q / s + u^2 (u'Wu) / s^2 with q = Sigma W u.
            let ratio = column[other] / innovation_variance;
            self.variance[other] -= column[other] * ratio;
            self.numerator[other] += ratio * (ratio * spread - 2.0 * response[other]);
            self.utility[other] = self.numerator[other] / (self.noise_variance + self.variance[other]);
        }
        self.picks.push(Pick { column, innovation_variance });
        Ok(())
    }

    /// Turns Sigma rhs of the posterior before the picks into that after them (B.15).
    fn subtract_picks(&self, rhs: &[f64], solution: &mut [f64]) {
        for Pick { column, innovation_variance } in &self.picks {
            let share = column.iter().zip(rhs).map(|(u, f)| u * f).sum::<f64>() / innovation_variance;
            solution.iter_mut().zip(column).for_each(|(x, u)| *x -= u * share);
        }
    }
}

/// Picks one after another; the anchor is recomputed over the remaining candidates, the scorer's shift and W stay.
pub(super) fn select_sequential(input: &BatchInput<'_>, count: usize) -> Result<Vec<usize>> {
    let score_shift: Vec<f64> =
        input.calibrated_score.iter().zip(input.normalized_utility).map(|(score, anchor)| score - anchor).collect();
    let mut ahead = LookAhead::new(input.posterior, input.weights, input.moments, input.noise_std);
    let mut remaining: Vec<usize> = (0..input.candidates.len()).collect();
    let mut chosen = Vec::new();
    while chosen.len() < count && !remaining.is_empty() {
        let nodes: Vec<usize> = remaining.iter().map(|&at| input.candidates[at]).collect();
        let anchor = normalized_utility(ahead.utility(), &nodes);
        let best = first_maximum(0..remaining.len(), |at| anchor[at] + score_shift[remaining[at]]);
        let node = nodes[best.expect("a candidate remains")];
        remaining.retain(|&at| input.candidates[at] != node);
        chosen.push(node);
        if chosen.len() == count || remaining.is_empty() {
            break;
        }
        ahead.measure(node)?;
    }
    Ok(chosen)
}
