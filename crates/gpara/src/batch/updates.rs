//! d and n of all nodes while measurements are added in thought: exact rank-one updates (B.14-B.16).

use super::fused::{Term, add_squares, combine, take};
use crate::error::Result;
use crate::posterior::Posterior;
use crate::utility::UtilityMoments;

/// A measurement: u = Sigma e_node and q = Sigma W u under the measurements before it.
#[derive(Debug)]
struct Pick {
    node: usize,
    column: Vec<f64>,
    response: Vec<f64>,
    /// noise_std^2 + Sigma_node,node.
    innovation_variance: f64,
}

/// u = Sigma e_node and q = Sigma W u at the base.
#[derive(Debug, Clone)]
struct Prepared {
    node: usize,
    column: Vec<f64>,
    response: Vec<f64>,
}

/// A change of the weight of a node, once so many picks were made; `column` is Sigma e of the node then, as a combination of the
/// picks' columns.
#[derive(Debug)]
struct Reweighed {
    after: usize,
    change: f64,
    column: Vec<Term>,
}

/// d, n and utilities of all nodes, and what is needed to go on: the columns of the picks since the base.
///
/// The base is a posterior with weights W. What is asked of it are columns u = Sigma e_i and q = Sigma W u, where
/// `n_i = q_i`. A measurement of node k, with `s = noise^2 + u_k,k`, leaves
/// `u' = u - a u_k` and `q' = q - a q_k - b u_k` with `a = u_k,i / s` and `b = (q_k,i - a n_k) / s`. So a column is a sum over
/// the picks with factors that are known from their values at i alone, and takes one pass over them (G.12).
#[derive(Debug)]
pub(super) struct Updates {
    noise_variance: f64,
    pub(super) moments: UtilityMoments,
    picks: Vec<Pick>,
    reweighed: Vec<Reweighed>,
    prepared: Vec<Prepared>,
    spare: Vec<Vec<f64>>,
    solved: Vec<f64>,
    disagreement: f64,
}

/// Shares of the picks in a column and in its response.
struct Shares {
    column: Vec<f64>,
    response: Vec<f64>,
}

impl Updates {
    /// Exact moments before any addition.
    pub(super) fn new(moments: UtilityMoments, noise_std: f64) -> Self {
        Self {
            noise_variance: noise_std * noise_std,
            moments,
            picks: Vec::new(),
            reweighed: Vec::new(),
            prepared: Vec::new(),
            spare: Vec::new(),
            solved: Vec::new(),
            disagreement: 0.0,
        }
    }

    /// The largest relative difference between d or n of a measured node as carried and as its column gives it.
    pub(super) fn disagreement(&self) -> f64 {
        self.disagreement
    }

    /// Number of measurements since the base.
    pub(super) fn num_picks(&self) -> usize {
        self.picks.len()
    }

    /// Whether a node was measured since the base.
    pub(super) fn has_picked(&self, node: usize) -> bool {
        self.picks.iter().any(|pick| pick.node == node)
    }

    /// Whether the columns of a node are there.
    pub(super) fn is_prepared(&self, node: usize) -> bool {
        self.prepared.iter().any(|prepared| prepared.node == node)
    }

    /// Solves for nodes at the base, all in the same passes over the factor.
    pub(super) fn prepare(&mut self, base: &Posterior, weights: &[f64], nodes: &[usize]) -> Result<()> {
        let num_nodes = weights.len();
        let values = 2 * nodes.len() * num_nodes;
        if self.solved.len() < values {
            self.solved.resize(values, 0.0);
        }
        let (columns, responses) = self.solved[..values].split_at_mut(values / 2);
        base.responses(nodes, weights, columns, responses)?;
        for ((&node, column), response) in nodes.iter().zip(columns.chunks(num_nodes)).zip(responses.chunks(num_nodes))
        {
            let [column, response] = [column, response].map(|values| {
                let mut own = self.spare.pop().unwrap_or_default();
                own.clear();
                own.extend_from_slice(values);
                own
            });
            self.prepared.push(Prepared { node, column, response });
        }
        Ok(())
    }

    /// Measures a node, whatever the value.
    pub(super) fn measure(&mut self, base: &Posterior, weights: &[f64], node: usize) -> Result<()> {
        let (column, response) = self.columns_of(base, weights, node)?;
        let innovation_variance = self.noise_variance + column[node];
        if innovation_variance <= 0.0 {
            // The node is known exactly already: measuring it changes nothing.
            self.spare.extend([column, response]);
            return Ok(());
        }
        let spread = response[node];
        let UtilityMoments { variance_estimate: variance, numerator_estimate: numerator, utility, .. } =
            &mut self.moments;
        for (carried, exact) in [(variance[node], column[node]), (numerator[node], spread)] {
            if exact > 0.0 {
                self.disagreement = self.disagreement.max((carried / exact - 1.0).abs());
            }
        }
        take((&column, &response), (innovation_variance, spread, self.noise_variance), (variance, numerator, utility));
        // At the node itself nearly everything cancels; what is left is known without.
        let left = self.noise_variance / innovation_variance;
        (variance[node], numerator[node]) = (column[node] * left, spread * left * left);
        utility[node] = utility_of(numerator[node], variance[node], self.noise_variance);
        self.picks.push(Pick { node, column, response, innovation_variance });
        Ok(())
    }

    /// u and q of a node under the picks so far; its prepared columns, if there are any, are used up.
    fn columns_of(&mut self, base: &Posterior, weights: &[f64], node: usize) -> Result<(Vec<f64>, Vec<f64>)> {
        if !self.is_prepared(node) {
            self.prepare(base, weights, &[node])?;
        }
        let at = self.prepared.iter().position(|prepared| prepared.node == node).expect("prepared above");
        let mut prepared = self.prepared.swap_remove(at);
        self.bring_up_to_date(&mut prepared);
        Ok((prepared.column, prepared.response))
    }

    /// q of a node under the picks so far.
    pub(super) fn response_of(&self, base: &Posterior, weights: &[f64], node: usize) -> Result<Vec<f64>> {
        let mut own = match self.prepared.iter().find(|prepared| prepared.node == node) {
            Some(prepared) => prepared.clone(),
            None => {
                let (mut column, mut response) = (vec![0.0; weights.len()], vec![0.0; weights.len()]);
                base.responses(&[node], weights, &mut column, &mut response)?;
                Prepared { node, column, response }
            }
        };
        self.bring_up_to_date(&mut own);
        Ok(own.response)
    }

    /// Makes the state so far the base: columns that are prepared stay so.
    pub(super) fn rebase(&mut self) {
        let mut prepared = std::mem::take(&mut self.prepared);
        prepared.iter_mut().for_each(|prepared| self.bring_up_to_date(prepared));
        self.prepared = prepared;
        self.spare.extend(self.picks.drain(..).flat_map(|pick| [pick.column, pick.response]));
        self.reweighed.clear();
    }

    /// Forgets prepared columns of nodes that are not wanted any more.
    pub(super) fn keep_prepared(&mut self, wanted: impl Fn(usize) -> bool) {
        let (kept, dropped): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.prepared).into_iter().partition(|prepared| wanted(prepared.node));
        self.prepared = kept;
        self.spare.extend(dropped.into_iter().flat_map(|prepared| [prepared.column, prepared.response]));
    }

    /// Changes weights of nodes measured since the base, by so much each.
    ///
    /// # Panics
    /// If a node was not.
    pub(super) fn reweigh(&mut self, changes: &[(usize, f64)]) {
        let after = self.picks.len();
        let columns: Vec<Vec<Term>> = changes.iter().map(|&(node, _)| self.column_of_picked(node)).collect();
        let squares: Vec<(f64, &[Term])> =
            changes.iter().zip(&columns).map(|(&(_, change), column)| (change, &column[..])).collect();
        let picked: Vec<&[f64]> = self.picks.iter().map(|pick| &pick.column[..]).collect();
        let UtilityMoments { variance_estimate: variance, numerator_estimate: numerator, utility, .. } =
            &mut self.moments;
        add_squares(&squares, &picked, numerator);
        for ((utility, n), d) in utility.iter_mut().zip(&*numerator).zip(&*variance) {
            *utility = utility_of(*n, *d, self.noise_variance);
        }
        let pairs = changes.iter().zip(columns);
        self.reweighed.extend(pairs.map(|(&(_, change), column)| Reweighed { after, change, column }));
    }

    /// Sigma e of the node of a pick under all picks: u noise^2 / s, less what later picks take.
    fn column_of_picked(&self, node: usize) -> Vec<Term> {
        // The last pick of a node, so that the noise of all its measurements has been added.
        let at = self.picks.iter().rposition(|pick| pick.node == node).expect("only picked nodes change their weight");
        let own = Term { pick: at, factor: self.noise_variance / self.picks[at].innovation_variance };
        let later = self.picks.iter().enumerate().skip(at + 1);
        let taken = later.map(|(pick, later)| Term { pick, factor: -later.column[node] / later.innovation_variance });
        std::iter::once(own).chain(taken).collect()
    }

    /// Applies the picks and changes of weights since the base to a prepared column.
    fn bring_up_to_date(&self, prepared: &mut Prepared) {
        if self.picks.is_empty() {
            return;
        }
        let shares = self.shares(prepared.node);
        let at_picked: Vec<(usize, f64, f64)> =
            self.picks.iter().map(|pick| self.at_measured(prepared, &shares, pick.node)).collect();
        let picks: Vec<(&[f64], &[f64])> =
            self.picks.iter().map(|pick| (&pick.column[..], &pick.response[..])).collect();
        combine(&picks, (&shares.column, &shares.response), (&mut prepared.column, &mut prepared.response));
        for (node, u, q) in at_picked {
            (prepared.column[node], prepared.response[node]) = (u, q);
        }
    }

    /// The factors of the picks in u and q of a node.
    fn shares(&self, node: usize) -> Shares {
        let count = self.picks.len();
        let mut shares = Shares { column: vec![0.0; count], response: vec![0.0; count] };
        for (at, pick) in self.picks.iter().enumerate() {
            self.share_reweighed(node, at, &mut shares);
            let Pick { column, response, innovation_variance, .. } = pick;
            let a = column[node] / innovation_variance;
            shares.column[at] = a;
            shares.response[at] += (response[node] - a * response[pick.node]) / innovation_variance;
        }
        self.share_reweighed(node, count, &mut shares);
        shares
    }

    /// The part of changed weights: q grows by change u_j Sigma e_j, where u_j is (Sigma e_j)_i.
    fn share_reweighed(&self, node: usize, after: usize, shares: &mut Shares) {
        for reweighed in self.reweighed.iter().filter(|reweighed| reweighed.after == after) {
            let at_node = reweighed.change * self.value_of(&reweighed.column, node);
            reweighed.column.iter().for_each(|term| shares.response[term.pick] -= at_node * term.factor);
        }
    }

    fn value_of(&self, column: &[Term], node: usize) -> f64 {
        column.iter().map(|term| term.factor * self.picks[term.pick].column[node]).sum()
    }

    /// u and q of a prepared node at a picked one. There a measurement leaves noise^2 / s of what was before, of which a
    /// difference would keep no digits.
    fn at_measured(&self, prepared: &Prepared, shares: &Shares, node: usize) -> (usize, f64, f64) {
        let (mut u, mut q) = (prepared.column[node], prepared.response[node]);
        let reweigh = |after: usize, q: &mut f64| {
            for reweighed in self.reweighed.iter().filter(|reweighed| reweighed.after == after) {
                let Reweighed { change, column, .. } = reweighed;
                *q += change * self.value_of(column, prepared.node) * self.value_of(column, node);
            }
        };
        for (at, pick) in self.picks.iter().enumerate() {
            reweigh(at, &mut q);
            let Pick { column, response, innovation_variance, .. } = pick;
            let a = shares.column[at];
            if pick.node == node {
                let left = self.noise_variance / innovation_variance;
                (u, q) = (u * left, (q - a * response[node]) * left);
            } else {
                let b = (response[prepared.node] - a * response[pick.node]) / innovation_variance;
                (u, q) = (u - a * column[node], q - a * response[node] - b * column[node]);
            }
        }
        reweigh(self.picks.len(), &mut q);
        (node, u, q)
    }
}

/// n / (noise^2 + d); 0 where both are 0.
pub(super) fn utility_of(numerator: f64, variance: f64, noise_variance: f64) -> f64 {
    let predictive = noise_variance + variance;
    if predictive > 0.0 { numerator / predictive } else { 0.0 }
}
