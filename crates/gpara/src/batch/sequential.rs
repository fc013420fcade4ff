//! Greedy choice with exact rank-one updates of all variances and numerators between the picks (B.14-B.16).

use super::{BatchInput, first_maximum, overlap};
use crate::error::Result;
use crate::posterior::Posterior;
use crate::risk::RiskWeights;
use crate::scorer::{UTILITY_FLOOR, normalized_utility};
use crate::solve::{SolveInfo, Stop};
use crate::utility::UtilityMoments;

/// One pick: Sigma e_node under the picks before it, the covariance before all picks times W times that column, and
/// noise_std^2 + Sigma_node,node.
#[derive(Debug)]
struct Pick {
    node: usize,
    column: Vec<f64>,
    response: Vec<f64>,
    innovation_variance: f64,
}

/// u = Sigma e_node and Sigma W u before all picks.
#[derive(Debug)]
struct Prepared {
    node: usize,
    column: Vec<f64>,
    response: Vec<f64>,
}

/// u = Sigma e_node under the picks so far, W u, and W u times the covariance before all picks and under the picks.
struct Responses {
    column: Vec<f64>,
    weighted: Vec<f64>,
    response: Vec<f64>,
    response_after: Vec<f64>,
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
    prepared: Vec<Prepared>,
    variance: Vec<f64>,
    numerator: Vec<f64>,
    utility: Vec<f64>,
    disagreement: f64,
}

impl<'a> BatchMoments<'a> {
    /// The moments before any addition, from exact `moments` of the same posterior and weights.
    pub fn new(posterior: &'a Posterior, weights: &'a RiskWeights, moments: &UtilityMoments, noise_std: f64) -> Self {
        Self {
            posterior,
            weights: weights.as_slice(),
            noise_variance: noise_std * noise_std,
            picks: Vec::new(),
            prepared: Vec::new(),
            variance: moments.variance_estimate.clone(),
            numerator: moments.numerator_estimate.clone(),
            utility: moments.utility.clone(),
            disagreement: 0.0,
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

    /// The largest relative difference between d or n of a measured node, as carried along until it was measured, and the
    /// same from its column of Sigma: what rounding has made of the moments so far.
    pub fn disagreement(&self) -> f64 {
        self.disagreement
    }

    /// Measures a node, whatever the value.
    ///
    /// # Errors
    /// `InvalidInput` if the node is outside the grid; `NotPositiveDefinite` if the factorisation breaks down.
    pub fn measure(&mut self, node: usize) -> Result<()> {
        let Responses { column, weighted, response, response_after } = self.responses(node)?;
        let innovation_variance = self.noise_variance + column[node];
        if innovation_variance <= 0.0 {
            // The node is known exactly already: measuring it changes nothing.
            return Ok(());
        }
        let spread = dot(&column, &weighted);
        for (carried, exact) in [(self.variance[node], column[node]), (self.numerator[node], spread)] {
            if exact > 0.0 {
                self.disagreement = self.disagreement.max((carried / exact - 1.0).abs());
            }
        }
        // Sigma' = Sigma - u u'/s, hence diag(Sigma' W Sigma') = n - 2 u q / s + u^2 (u'Wu) / s^2 with q = Sigma W u.
        let moments = self.variance.iter_mut().zip(&mut self.numerator);
        for (((variance, numerator), u), q) in moments.zip(&column).zip(&response_after) {
            let ratio = u / innovation_variance;
            *variance -= u * ratio;
            *numerator += ratio * (ratio * spread - 2.0 * q);
        }
        // At the node itself nearly everything cancels; what is left is known without.
        let left = self.noise_variance / innovation_variance;
        (self.variance[node], self.numerator[node]) = (column[node] * left, spread * left * left);
        for ((utility, n), d) in self.utility.iter_mut().zip(&self.numerator).zip(&self.variance) {
            let predictive = self.noise_variance + d;
            *utility = if predictive > 0.0 { n / predictive } else { 0.0 };
        }
        self.picks.push(Pick { node, column, response, innovation_variance });
        Ok(())
    }

    /// The moments once the measured nodes are measured, under `weights` that may differ from those so far at measured nodes
    /// only; `None` if they differ elsewhere. They are what [`UtilityMoments::exact`] gives for the posterior with these
    /// measurements, at a fraction of its cost; what rounding adds is in `solves`, as
    /// [`disagreement`](Self::disagreement).
    ///
    /// # Panics
    /// If the weights belong to another grid.
    #[track_caller]
    pub fn into_moments(mut self, weights: &RiskWeights) -> Option<UtilityMoments> {
        let weights = weights.as_slice();
        assert_eq!(weights.len(), self.weights.len(), "risk weights of another grid");
        let changed: Vec<usize> = (0..weights.len()).filter(|&node| weights[node] != self.weights[node]).collect();
        // The last pick of a node, so that the noise of all its measurements has been added.
        let picks: Option<Vec<usize>> = changed.iter().map(|&node| self.last_pick_of(node)).collect();
        for (at, node) in picks?.into_iter().zip(changed) {
            let change = weights[node] - self.weights[node];
            let column = self.column_after_all(at);
            self.numerator.iter_mut().zip(&column).for_each(|(n, u)| *n += change * u * u);
        }
        for ((utility, n), d) in self.utility.iter_mut().zip(&self.numerator).zip(&self.variance) {
            let predictive = self.noise_variance + d;
            *utility = if predictive > 0.0 { n / predictive } else { 0.0 };
        }
        let Self { picks, variance: variance_estimate, numerator: numerator_estimate, utility, .. } = self;
        let info = SolveInfo { iterations: picks.len(), rel_residual: self.disagreement, stop: Stop::Direct };
        Some(UtilityMoments {
            variance_estimate,
            numerator_estimate,
            utility,
            weighted_probes: Vec::new(),
            solves: vec![info],
        })
    }

    fn last_pick_of(&self, node: usize) -> Option<usize> {
        self.picks.iter().rposition(|pick| pick.node == node)
    }

    /// Sigma e of the node of a pick under all picks, its own included: u noise^2 / s, less what later picks take.
    fn column_after_all(&self, at: usize) -> Vec<f64> {
        let Pick { node, column, innovation_variance, .. } = &self.picks[at];
        let left = self.noise_variance / innovation_variance;
        let mut out: Vec<f64> = column.iter().map(|u| u * left).collect();
        for later in &self.picks[at + 1..] {
            // The share of a later pick in this column, of the column before both own and later measurements.
            let share = later.column[*node] / later.innovation_variance;
            out.iter_mut().zip(&later.column).for_each(|(x, u)| *x -= u * share);
        }
        out
    }

    /// kappa_ij = (Sigma W Sigma)_ij^2 / (n_i n_j) of every candidate with `node`: what B.35 estimates.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    pub fn overlap(&self, candidates: &[usize], node: usize) -> Result<Vec<f64>> {
        let product = self.responses(node)?.response_after;
        let numerator = |node: usize| self.numerator[node];
        Ok(candidates.iter().map(|&other| overlap(product[other], numerator(other), numerator(node))).collect())
    }

    /// Solves for nodes that are likely to be measured, in two passes over the factor for all of them. Measuring one of them
    /// then takes no solve; measuring another node is as exact as before.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    pub fn prepare(&mut self, nodes: &[usize]) -> Result<()> {
        let num_nodes = self.weights.len();
        let mut rhs = vec![0.0; nodes.len() * num_nodes];
        for (unit, &node) in rhs.chunks_mut(num_nodes).zip(nodes) {
            // Refuses a node outside of the grid.
            self.posterior.check_node(node)?;
            unit[node] = 1.0;
        }
        let columns = self.posterior.solve_rows(&rhs)?;
        for (weighted, column) in rhs.chunks_mut(num_nodes).zip(columns.chunks(num_nodes)) {
            weighted.iter_mut().zip(column).zip(self.weights).for_each(|((out, u), w)| *out = u * w);
        }
        let responses = self.posterior.solve_rows(&rhs)?;
        let rows = columns.chunks(num_nodes).zip(responses.chunks(num_nodes));
        self.prepared.extend(nodes.iter().zip(rows).map(|(&node, (column, response))| Prepared {
            node,
            column: column.to_vec(),
            response: response.to_vec(),
        }));
        Ok(())
    }

    fn responses(&self, node: usize) -> Result<Responses> {
        let weigh = |column: &[f64]| column.iter().zip(self.weights).map(|(u, w)| u * w).collect::<Vec<f64>>();
        let (column, weighted, response) = match self.prepared.iter().find(|prepared| prepared.node == node) {
            Some(prepared) => {
                let (mut column, mut response) = (prepared.column.clone(), prepared.response.clone());
                for pick in &self.picks {
                    // Both are linear in the column, and a pick takes the same share of each.
                    let share = pick.column[node] / pick.innovation_variance;
                    let taken = pick.column.iter().zip(&pick.response);
                    for ((x, q), (u, r)) in column.iter_mut().zip(&mut response).zip(taken) {
                        *x -= u * share;
                        *q -= r * share;
                    }
                }
                let weighted = weigh(&column);
                (column, weighted, response)
            }
            None => {
                let column = self.after_picks(self.posterior.covariance_column(node)?, |u| u[node]);
                let weighted = weigh(&column);
                let response = self.posterior.solve(&weighted)?;
                (column, weighted, response)
            }
        };
        let response_after = self.after_picks(response.clone(), |u| dot(u, &weighted));
        Ok(Responses { column, weighted, response, response_after })
    }

    /// Sigma rhs under the picks, from that before them; `share` is the product of rhs with a pick's column (B.15).
    fn after_picks(&self, mut solution: Vec<f64>, share: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        for Pick { column, innovation_variance, .. } in &self.picks {
            let share = share(column) / innovation_variance;
            solution.iter_mut().zip(column).for_each(|(x, u)| *x -= u * share);
        }
        solution
    }
}

/// The sum of products, as eight sums side by side: no chain of additions as long as the field.
fn dot(first: &[f64], second: &[f64]) -> f64 {
    const SUMS: usize = 8;
    let mut sums = [0.0; SUMS];
    let ((first, first_rest), (second, second_rest)) = (first.as_chunks::<SUMS>(), second.as_chunks::<SUMS>());
    for (a, b) in first.iter().zip(second) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + first_rest.iter().zip(second_rest).map(|(a, b)| a * b).sum::<f64>()
}

/// Picks one after another; the anchor is recomputed over the remaining candidates, the scorer's shift and W stay. The picks,
/// and the moments after all but the last of them, whose effect the choice does not need.
pub(super) fn select_sequential<'a>(input: &BatchInput<'a>, count: usize) -> Result<(Vec<usize>, BatchMoments<'a>)> {
    let score_shift: Vec<f64> =
        input.calibrated_score.iter().zip(input.normalized_utility).map(|(score, anchor)| score - anchor).collect();
    let unshifted = score_shift.iter().all(|&shift| shift == 0.0);
    let mut moments = BatchMoments::new(input.posterior, input.weights, input.moments, input.noise_std);
    // The effect of a single pick is not asked for here.
    if count > 1 {
        moments.prepare(&likely_picks(input, count))?;
    }
    let mut remaining: Vec<usize> = (0..input.candidates.len()).collect();
    let mut chosen = Vec::new();
    while chosen.len() < count && !remaining.is_empty() {
        let best = if unshifted {
            // The anchor grows with the utility, so its logarithms are not needed.
            let utility = |at: usize| moments.utility()[input.candidates[at]].max(UTILITY_FLOOR);
            first_maximum(remaining.iter().copied(), utility)
        } else {
            let nodes: Vec<usize> = remaining.iter().map(|&at| input.candidates[at]).collect();
            let anchor = normalized_utility(moments.utility(), &nodes);
            let best = first_maximum(0..remaining.len(), |at| anchor[at] + score_shift[remaining[at]]);
            best.map(|at| remaining[at])
        };
        let best = best.expect("a candidate remains");
        remaining.retain(|&at| at != best);
        let node = input.candidates[best];
        chosen.push(node);
        if chosen.len() < count && !remaining.is_empty() {
            moments.measure(node)?;
        }
    }
    Ok((chosen, moments))
}

/// Cells between likely picks. Measured in a campaign of 491 picks at 128 x 128: 8 to 10 picks of all were not among the likely
/// ones with distances of 4 to 6, 30 with 10.
const LIKELY_DISTANCE: usize = 4;

/// Values that the columns of all likely picks may take: 32 MB; on large grids fewer are prepared.
const PREPARED_VALUES: usize = 1 << 22;

/// The best candidates at some distance from each other, half as many again as will be picked: where most picks will be, since
/// a pick lowers the utility of its surroundings.
fn likely_picks(input: &BatchInput<'_>, count: usize) -> Vec<usize> {
    let grid = input.posterior.grid();
    let mut scores = vec![f64::NEG_INFINITY; grid.num_nodes()];
    input.candidates.iter().zip(input.calibrated_score).for_each(|(&node, &score)| scores[node] = score);
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
