//! Moments that go from round to round without a refresh.

use super::check_scores;
use super::sequential::{Choice, choose, likely_picks, weight_changes};
use super::updates::Updates;
use crate::error::Result;
use crate::observations::{Observation, Observations};
use crate::posterior::Posterior;
use crate::precision::ResidualPrecision;
use crate::risk::{RiskWeights, check_candidates};
use crate::solve::Arithmetic;
use crate::utility::UtilityMoments;

/// d, n and utilities of a campaign, computed once in 64 bits and carried along by the exact updates of its picks (G.12).
///
/// [`select`](Self::select) chooses a batch by [`BatchRule::ExactSequential`](crate::BatchRule::ExactSequential) and takes it as
/// measured; [`follow`](Self::follow) compares that with what was measured and weighs by the weights of the next round. Moments
/// are computed anew only where they cannot be carried.
#[derive(Debug)]
pub struct CarriedMoments {
    prior: ResidualPrecision,
    noise_std: f64,
    weights: Vec<f64>,
    /// What the moments take as measured, with its noise, in increasing node order.
    measured: Vec<(usize, f64)>,
    base: Posterior,
    base_weights: Vec<f64>,
    updates: Updates,
    /// Whether a choice broke off, so that the moments hold a part of it.
    broken: bool,
    num_refreshes: usize,
}

/// The columns of that many picks are kept until the posterior is factorised anew. Measured at 128 x 128 and 192 x 256: a
/// factorisation takes as long as the passes over 16 to 24 columns that it saves each batch.
const PICKS_OF_A_BASE: usize = 16;

/// Disagreement from which moments are computed anew: a hundredth of what 32 bits are allowed.
const LARGEST_DISAGREEMENT: f64 = 1e-7;

impl CarriedMoments {
    /// The moments of a posterior, computed in 64 bits.
    ///
    /// # Shapes
    /// * `noise_std` - standard deviation of the prospective measurements, >= 0, in field units
    ///
    /// # Errors
    /// `ShapeMismatch` if grids differ, `InvalidInput` if the noise is negative, `OutOfMemory` if there is too little of it for
    /// 64 bits, `NotPositiveDefinite` if the factorisation breaks down.
    pub fn new(
        prior: &ResidualPrecision,
        observations: &Observations,
        weights: &RiskWeights,
        noise_std: f64,
    ) -> Result<Self> {
        let base = Posterior::new(prior, observations)?.in_arithmetic(Arithmetic::Double)?;
        let updates = Updates::new(UtilityMoments::exact(&base, weights, noise_std)?, noise_std);
        let weights = weights.as_slice().to_vec();
        let (base_weights, prior, measured) = (weights.clone(), prior.clone(), measured(observations));
        Ok(Self { prior, noise_std, weights, measured, base, base_weights, updates, broken: false, num_refreshes: 1 })
    }

    /// d, n and utilities after all measured and chosen nodes.
    pub fn moments(&self) -> &UtilityMoments {
        &self.updates.moments
    }

    /// The largest relative difference between d or n of a chosen node, as carried along until it was chosen, and the same
    /// from its columns of Sigma and Sigma W Sigma, since the last refresh.
    pub fn disagreement(&self) -> f64 {
        self.updates.disagreement()
    }

    /// How often the moments were computed, the first time included.
    pub fn num_refreshes(&self) -> usize {
        self.num_refreshes
    }

    /// Goes to another state. Moments are carried there if it differs from theirs by weights of nodes chosen lately alone, and
    /// else computed anew: another precision, noise or set of measured nodes, weights that change elsewhere, or a
    /// [`disagreement`](Self::disagreement) above 1e-7.
    ///
    /// # Errors
    /// As [`new`](Self::new); the moments are then those of before.
    pub fn follow(
        &mut self,
        prior: &ResidualPrecision,
        observations: &Observations,
        weights: &RiskWeights,
        noise_std: f64,
    ) -> Result<()> {
        let fits = !self.broken
            && self.prior.shares_data_with(prior)
            && self.noise_std == noise_std
            && self.weights.len() == weights.as_slice().len()
            && self.measured == measured(observations)
            && self.disagreement() < LARGEST_DISAGREEMENT;
        let changes = if fits { weight_changes(&self.updates, &self.weights, weights.as_slice()) } else { None };
        let Some(changes) = changes else {
            let num_refreshes = self.num_refreshes + 1;
            *self = Self { num_refreshes, ..Self::new(prior, observations, weights, noise_std)? };
            return Ok(());
        };
        self.updates.reweigh(&changes);
        self.weights.copy_from_slice(weights.as_slice());
        if self.updates.num_picks() >= PICKS_OF_A_BASE {
            self.base = Posterior::new(prior, observations)?;
            self.base_weights.copy_from_slice(&self.weights);
            self.updates.rebase();
        }
        Ok(())
    }

    /// Chooses at most `count` nodes in the order of choice and takes them as measured; fewer if there are fewer candidates.
    /// The lowest node wins a tie.
    ///
    /// # Shapes
    /// * `candidates` - C_k, strictly increasing nodes
    /// * `normalized_utility`, `calibrated_score` - the analytic anchor and the score, one value a candidate
    ///
    /// # Errors
    /// As [`select_batch`](crate::select_batch); after a breakdown of the factorisation the next [`follow`](Self::follow)
    /// computes the moments anew.
    pub fn select(
        &mut self,
        candidates: &[usize],
        normalized_utility: &[f64],
        calibrated_score: &[f64],
        count: usize,
    ) -> Result<Vec<usize>> {
        let grid = self.base.grid();
        check_candidates(candidates, grid.num_nodes())?;
        check_scores(candidates, normalized_utility, calibrated_score)?;
        let choice = Choice { candidates, normalized_utility, calibrated_score };
        self.broken = true;
        let likely = likely_picks(grid, &choice, count);
        self.updates.keep_prepared(|node| likely.contains(&node));
        let missing: Vec<usize> = likely.into_iter().filter(|&node| !self.updates.is_prepared(node)).collect();
        self.updates.prepare(&self.base, &self.base_weights, &missing)?;
        let chosen = choose(&mut self.updates, (&self.base, &self.base_weights), &choice, count, true)?;
        for &node in &chosen {
            let at = self.measured.partition_point(|&(other, _)| other < node);
            self.measured.insert(at, (node, self.noise_std));
        }
        self.broken = false;
        Ok(chosen)
    }
}

fn measured(observations: &Observations) -> Vec<(usize, f64)> {
    observations.iter().map(|&Observation { node, noise_std, .. }| (node, noise_std)).collect()
}
