//! Greedy choice with exact rank-one updates of all variances and numerators between the picks (B.14-B.16).

use super::{BatchInput, first_maximum, overlap};
use crate::error::Result;
use crate::posterior::Posterior;
use crate::risk::RiskWeights;
use crate::scorer::normalized_utility;
use crate::utility::UtilityMoments;

/// One pick: Sigma e_j under the picks before it, and noise_std^2 + Sigma_jj.
#[derive(Debug)]
struct Pick {
    column: Vec<f64>,
    innovation_variance: f64,
}

/// Exact d, n and utilities of all nodes while measurements are added in thought, two solves each (B.15, G.12).
///
/// The values that will be measured do not matter. A drift and exact measurements of the posterior are accounted for; with
/// noise 0 the added measurements are exact too.
#[derive(Debug)]
pub struct BatchMoments<'a> {
    posterior: &'a Posterior,
    weights: &'a [f64],
    noise_variance: f64,
    picks: Vec<Pick>,
    variance: Vec<f64>,
    numerator: Vec<f64>,
    utility: Vec<f64>,
}

impl<'a> BatchMoments<'a> {
    /// The moments before any addition, from exact `moments` of the same posterior and weights.
    pub fn new(posterior: &'a Posterior, weights: &'a RiskWeights, moments: &UtilityMoments, noise_std: f64) -> Self {
        Self {
            posterior,
            weights: weights.as_slice(),
            noise_variance: noise_std * noise_std,
            picks: Vec::new(),
            variance: moments.variance_estimate.clone(),
            numerator: moments.numerator_estimate.clone(),
            utility: moments.utility.clone(),
        }
    }

    /// d, `num_nodes` values.
    pub fn variance(&self) -> &[f64] {
        &self.variance
    }

    /// n, `num_nodes` values.
    pub fn numerator(&self) -> &[f64] {
        &self.numerator
    }

    /// n / (noise_std^2 + d), `num_nodes` values; 0 where both are 0.
    pub fn utility(&self) -> &[f64] {
        &self.utility
    }

    /// Measures a node, whatever the value.
    ///
    /// # Errors
    /// `InvalidInput` if the node is outside the grid; `NotPositiveDefinite` if the factorisation breaks down.
    pub fn measure(&mut self, node: usize) -> Result<()> {
        let (column, weighted, response) = self.responses(node)?;
        let innovation_variance = self.noise_variance + column[node];
        if innovation_variance <= 0.0 {
            // The node is known exactly already: measuring it changes nothing.
            return Ok(());
        }
        let spread: f64 = column.iter().zip(&weighted).map(|(u, wu)| u * wu).sum();
        for other in 0..column.len() {
            // Sigma' = Sigma - u u'/s, hence diag(Sigma' W Sigma') = n - 2 u q / s + u^2 (u'Wu) / s^2 with q = Sigma W u.
            let ratio = column[other] / innovation_variance;
            self.variance[other] -= column[other] * ratio;
            self.numerator[other] += ratio * (ratio * spread - 2.0 * response[other]);
        }
        if self.noise_variance == 0.0 {
            (self.variance[node], self.numerator[node]) = (0.0, 0.0);
        }
        for ((utility, n), d) in self.utility.iter_mut().zip(&self.numerator).zip(&self.variance) {
            let predictive = self.noise_variance + d;
            *utility = if predictive > 0.0 { n / predictive } else { 0.0 };
        }
        self.picks.push(Pick { column, innovation_variance });
        Ok(())
    }

    /// kappa_ij = (Sigma W Sigma)_ij^2 / (n_i n_j) of every candidate with `node`: what B.35 estimates.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    pub fn overlap(&self, candidates: &[usize], node: usize) -> Result<Vec<f64>> {
        let (_, _, product) = self.responses(node)?;
        let numerator = |node: usize| self.numerator[node];
        Ok(candidates.iter().map(|&other| overlap(product[other], numerator(other), numerator(node))).collect())
    }

    /// u = Sigma e_node, W u and Sigma W u under the picks so far.
    fn responses(&self, node: usize) -> Result<(Vec<f64>, Vec<f64>, Vec<f64>)> {
        let column = self.after_picks(self.posterior.covariance_column(node)?, |u| u[node]);
        let weighted: Vec<f64> = column.iter().zip(self.weights).map(|(u, w)| u * w).collect();
        let response = self.after_picks(self.posterior.solve(&weighted)?, |u| {
            u.iter().zip(&weighted).map(|(u, f)| u * f).sum::<f64>()
        });
        Ok((column, weighted, response))
    }

    /// Sigma rhs under the picks, from that before them; `share` is the product of rhs with a pick's column (B.15).
    fn after_picks(&self, mut solution: Vec<f64>, share: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        for Pick { column, innovation_variance } in &self.picks {
            let share = share(column) / innovation_variance;
            solution.iter_mut().zip(column).for_each(|(x, u)| *x -= u * share);
        }
        solution
    }
}

/// Picks one after another; the anchor is recomputed over the remaining candidates, the scorer's shift and W stay.
pub(super) fn select_sequential(input: &BatchInput<'_>, count: usize) -> Result<Vec<usize>> {
    let score_shift: Vec<f64> =
        input.calibrated_score.iter().zip(input.normalized_utility).map(|(score, anchor)| score - anchor).collect();
    let mut moments = BatchMoments::new(input.posterior, input.weights, input.moments, input.noise_std);
    let mut remaining: Vec<usize> = (0..input.candidates.len()).collect();
    let mut chosen = Vec::new();
    while chosen.len() < count && !remaining.is_empty() {
        let nodes: Vec<usize> = remaining.iter().map(|&at| input.candidates[at]).collect();
        let anchor = normalized_utility(moments.utility(), &nodes);
        let best = first_maximum(0..remaining.len(), |at| anchor[at] + score_shift[remaining[at]]);
        let node = nodes[best.expect("a candidate remains")];
        remaining.retain(|&at| input.candidates[at] != node);
        chosen.push(node);
        // What the last pick changes would not be used.
        if chosen.len() < count && !remaining.is_empty() {
            moments.measure(node)?;
        }
    }
    Ok(chosen)
}
