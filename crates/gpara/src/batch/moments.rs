//! The moments of one batch, for callers that choose the cells themselves.

use super::updates::Updates;
use super::{overlap, sequential};
use crate::error::Result;
use crate::posterior::Posterior;
use crate::risk::RiskWeights;
use crate::solve::{SolveInfo, Stop};
use crate::utility::UtilityMoments;

/// Exact d, n and utilities of all nodes while measurements are added in thought, two solves each (B.15, G.12).
///
/// The values that will be measured do not matter. A drift and exact measurements of the posterior are accounted for; with
/// noise 0 the added measurements are exact too.
#[derive(Debug)]
pub struct BatchMoments<'a> {
    posterior: &'a Posterior,
    weights: &'a [f64],
    updates: Updates,
}

impl<'a> BatchMoments<'a> {
    /// The moments before any addition, from exact `moments` of the same posterior and weights.
    pub fn new(posterior: &'a Posterior, weights: &'a RiskWeights, moments: &UtilityMoments, noise_std: f64) -> Self {
        Self { posterior, weights: weights.as_slice(), updates: Updates::new(moments.clone(), noise_std) }
    }

    /// d, `num_nodes` values.
    pub fn variance(&self) -> &[f64] {
        &self.updates.moments.variance_estimate
    }

    /// n, `num_nodes` values.
    pub fn numerator(&self) -> &[f64] {
        &self.updates.moments.numerator_estimate
    }

    /// n / (noise_std^2 + d), `num_nodes` values; 0 where both are 0.
    pub fn utility(&self) -> &[f64] {
        &self.updates.moments.utility
    }

    /// The largest relative difference between d or n of a measured node, as carried along until it was measured, and the
    /// same from its columns of Sigma and Sigma W Sigma: what rounding has made of the moments so far.
    pub fn disagreement(&self) -> f64 {
        self.updates.disagreement()
    }

    /// Measures a node, whatever the value.
    ///
    /// # Errors
    /// `InvalidInput` if the node is outside the grid; `NotPositiveDefinite` if the factorisation breaks down.
    pub fn measure(&mut self, node: usize) -> Result<()> {
        self.posterior.check_node(node)?;
        self.updates.measure(self.posterior, self.weights, node)
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
        let changes = sequential::weight_changes(&self.updates, self.weights, weights)?;
        self.updates.reweigh(&changes);
        let (iterations, rel_residual) = (self.updates.num_picks(), self.updates.disagreement());
        let mut moments = self.updates.moments;
        moments.solves = vec![SolveInfo { iterations, rel_residual, stop: Stop::Direct }];
        Some(moments)
    }

    /// kappa_ij = (Sigma W Sigma)_ij^2 / (n_i n_j) of every candidate with `node`: what B.35 estimates.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    pub fn overlap(&self, candidates: &[usize], node: usize) -> Result<Vec<f64>> {
        self.posterior.check_node(node)?;
        let product = self.updates.response_of(self.posterior, self.weights, node)?;
        let numerator = |node: usize| self.numerator()[node];
        let value = |&other: &usize| overlap(product[other], numerator(other), numerator(node));
        Ok(candidates.iter().map(value).collect())
    }

    /// Solves for nodes that are likely to be measured, in few passes over the factor for all of them. Measuring one of them
    /// then takes no solve; measuring another node is as exact as before.
    ///
    /// # Errors
    /// As [`measure`](Self::measure).
    pub fn prepare(&mut self, nodes: &[usize]) -> Result<()> {
        nodes.iter().try_for_each(|&node| self.posterior.check_node(node))?;
        self.updates.prepare(self.posterior, self.weights, nodes)
    }

    pub(super) fn parts(&mut self) -> (&'a Posterior, &'a [f64], &mut Updates) {
        (self.posterior, self.weights, &mut self.updates)
    }
}
