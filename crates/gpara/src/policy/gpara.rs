//! Posterior-aligned acquisition: weighted risk reduction under the graph posterior, calibrated by a scorer
//! (Algorithm 1, stage I).

use super::probes::probes;
use super::{AcquisitionInput, Policy, PolicyError, SelectedPoint, Selection, check_count, with_pending};
use crate::batch::{BatchInput, BatchRule, CarriedMoments, select_batch};
use crate::belief::BeliefCache;
use crate::error::{ErrorKind, Result};
use crate::posterior::{Correction, Posterior};
use crate::precision::ResidualPrecision;
use crate::risk::{EnsembleMoments, RiskSettings, RiskWeights};
use crate::scorer::{AcquisitionState, Scorer, calibrated_score, direct_score, normalized_utility};
use crate::solve::MeanSolver;
use crate::utility::{UtilityMethod, UtilityMoments};

/// Which cells' uncertainty counts, W_k.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RiskRule {
    /// By the spread of the ensemble conditioned on the measurements (B.32-B.34).
    EnsembleSpread(RiskSettings),
    /// By the predicted spread of the estimate's error (see [`error_weights`](crate::error_weights)); needs a
    /// [belief](Gpara::believing) in place of an ensemble.
    PredictedSpread,
    /// All candidates alike, W = I; needs no ensemble.
    Uniform,
}

/// How [`Gpara`] decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GparaSettings {
    /// How the ensemble is conditioned on the measurements (Eq. 13).
    pub correction: Correction,
    /// How W_k follows from it.
    pub risk: RiskRule,
    /// How utilities are computed.
    pub utility: UtilityMethod,
    /// beta_acq, the bound on the scorer's shift of a z-scored utility.
    pub score_bound: f64,
    /// How redundancy inside a batch is avoided.
    pub batch_rule: BatchRule,
}

/// The paper's policy.
///
/// Pending points enter the posterior as if measured at the conditioned ensemble's mean: the covariance, hence the
/// utility, does not depend on their values.
///
/// With [`RiskRule::PredictedSpread`] a few points after each new belief test it where it is sure; once it fails, points are spread
/// the more evenly the more it is wrong ([`DiscrepancyRule`](crate::DiscrepancyRule)).
///
/// Exact utilities with [`BatchRule::ExactSequential`] and weights that do not follow an ensemble are carried from round to round
/// ([`CarriedMoments`]): then only a new belief needs a refresh.
pub struct Gpara {
    settings: GparaSettings,
    scorer: Box<dyn Scorer>,
    belief: Option<BeliefCache>,
    carried: Option<CarriedMoments>,
}

/// What [`Gpara`] knows of a state before it chooses.
struct Assessment {
    posterior: Posterior,
    weights: RiskWeights,
    moments: UtilityMoments,
    /// The z-scored utility of every candidate.
    anchor: Vec<f64>,
    /// Their calibrated scores.
    scores: Vec<f64>,
}

impl Gpara {
    /// The policy with a scorer; [`ZeroScorer`](crate::ZeroScorer) leaves the analytic utility as it is.
    pub fn new(settings: GparaSettings, scorer: Box<dyn Scorer>) -> Self {
        Self { settings, scorer, belief: None, carried: None }
    }

    /// The policy with a belief: its precision takes the place of the scene's, and its spread gives the weights of
    /// [`RiskRule::PredictedSpread`].
    pub fn believing(self, belief: BeliefCache) -> Self {
        Self { belief: Some(belief), ..self }
    }

    /// The posterior after measured and pending nodes, and the moments of the ensemble conditioned on them.
    fn condition(&self, input: &AcquisitionInput<'_>) -> Result<(Posterior, Option<EnsembleMoments>)> {
        let posterior = Posterior::new(input.precision, input.observations)?;
        let moments = self.conditioned_moments(input, &posterior)?;
        if input.pending.is_empty() {
            return Ok((posterior, moments));
        }
        let mean = match moments {
            Some(moments) => moments.mean,
            None => posterior.mean_correction(&vec![0.0; posterior.grid().num_nodes()], MeanSolver::Exact)?.0,
        };
        let posterior = Posterior::new(input.precision, &with_pending(input, |node| mean[node])?)?;
        let moments = self.conditioned_moments(input, &posterior)?;
        Ok((posterior, moments))
    }

    /// B.32 of the ensemble refined by Eq. 13; `None` if the risk rule does not look at it.
    fn conditioned_moments(
        &self,
        input: &AcquisitionInput<'_>,
        posterior: &Posterior,
    ) -> Result<Option<EnsembleMoments>> {
        if !self.needs_ensemble() {
            return Ok(None);
        }
        let ensemble = input.ensemble.ok_or(PolicyError::NoEnsemble { policy: "gpara" })?;
        let (refined, _) = self.settings.correction.refine(posterior, ensemble.as_slice())?;
        EnsembleMoments::of(&refined, input.context.grid()).map(Some)
    }

    /// W_k.
    fn weights(&self, input: &AcquisitionInput<'_>, ensemble: Option<&EnsembleMoments>) -> Result<RiskWeights> {
        match (&self.settings.risk, ensemble) {
            (RiskRule::EnsembleSpread(settings), Some(ensemble)) => {
                RiskWeights::from_variance(&ensemble.variance, input.candidates, settings)
            }
            (RiskRule::PredictedSpread, _) => {
                let belief = self.belief.as_ref().ok_or(PolicyError::NoBelief { policy: "gpara" })?;
                let mut weights = belief.weights().to_vec();
                // What is measured since the belief has no error left.
                input.observations.iter().for_each(|observation| weights[observation.node] = 0.0);
                RiskWeights::from_values(weights)
            }
            _ => RiskWeights::uniform(input.context.grid(), input.candidates),
        }
    }

    /// Whether the scorer can move any score: it is not asked if not.
    fn asks_scorer(&self) -> bool {
        self.settings.score_bound != 0.0 || self.scorer.replaces_anchor()
    }

    /// Whether moments can be carried from round to round.
    fn carries(&self) -> bool {
        let GparaSettings { utility, batch_rule, .. } = self.settings;
        utility == UtilityMethod::Exact && batch_rule == BatchRule::ExactSequential && !self.needs_ensemble()
    }

    /// The precision of the belief at this state; `None` without belief.
    fn believed(&mut self, input: &AcquisitionInput<'_>) -> Result<Option<ResidualPrecision>> {
        let belief = self.belief.as_mut();
        belief.map(|belief| Ok(belief.refresh(input.context, input.observations)?.precision.clone())).transpose()
    }

    /// Everything a choice is made of, from this state alone.
    fn assess(&self, input: &AcquisitionInput<'_>) -> Result<Assessment> {
        let (posterior, ensemble) = self.condition(input)?;
        let weights = self.weights(input, ensemble.as_ref())?;
        let method = self.settings.utility;
        let moments = UtilityMoments::compute(&posterior, &weights, input.noise_std, method, input.seeds, input.round)?;
        let anchor = normalized_utility(&moments.utility, input.candidates);
        let scores = match self.asks_scorer() {
            true => self.calibrated(input, (&posterior, ensemble), &weights, &moments, &anchor)?,
            false => anchor.clone(),
        };
        Ok(Assessment { posterior, weights, moments, anchor, scores })
    }

    /// The calibrated score of every candidate.
    fn calibrated(
        &self,
        input: &AcquisitionInput<'_>,
        (posterior, ensemble): (&Posterior, Option<EnsembleMoments>),
        weights: &RiskWeights,
        moments: &UtilityMoments,
        anchor: &[f64],
    ) -> Result<Vec<f64>> {
        let ensemble = match ensemble {
            Some(ensemble) => ensemble,
            // Without samples the graph's own mean and variances describe the spread to the scorer.
            None => {
                let flat = vec![0.0; posterior.grid().num_nodes()];
                let (mean, _) = posterior.mean_correction(&flat, self.settings.correction.solver)?;
                EnsembleMoments { mean, variance: moments.variance_estimate.clone() }
            }
        };
        let state = AcquisitionState {
            context: input.context,
            posterior,
            ensemble: &ensemble,
            weights,
            moments,
            candidates: input.candidates,
            normalized_utility: anchor,
            budget: input.budget,
            remaining: input.budget.saturating_sub(input.observations.len() + input.pending.len()),
        };
        let raw = self.scorer.residual_score(&state)?;
        if self.scorer.replaces_anchor() {
            return direct_score(anchor, raw);
        }
        calibrated_score(anchor, &raw, self.settings.score_bound)
    }
}

impl Policy for Gpara {
    fn name(&self) -> &str {
        "gpara"
    }

    fn needs_ensemble(&self) -> bool {
        matches!(self.settings.risk, RiskRule::EnsembleSpread(_))
    }

    fn network_calls(&self) -> u64 {
        self.belief.as_ref().map_or(0, BeliefCache::network_calls)
    }

    fn replayed(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<()> {
        if self.carries() {
            return self.select(input, count).map(drop);
        }
        self.belief.iter_mut().try_for_each(|belief| belief.refresh(input.context, input.observations).map(drop))
    }

    fn select(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        check_count(input, count)?;
        let believed = self.believed(input)?;
        let input = &AcquisitionInput { precision: believed.as_ref().unwrap_or(input.precision), ..*input };
        let mut probes = match &self.belief {
            Some(belief) if self.settings.risk == RiskRule::PredictedSpread => probes(input, belief, count)?,
            _ => Vec::new(),
        };
        if probes.is_empty() {
            return self.select_by_utility(input, count);
        }
        if probes.len() == count {
            return Ok(Selection { points: probes, risk: None });
        }
        // The rest of the batch is chosen as if they were measured.
        let mut pending = input.pending.to_vec();
        pending.extend(probes.iter().map(|probe| probe.node));
        pending.sort_unstable();
        let candidates: Vec<usize> =
            input.candidates.iter().copied().filter(|node| probes.iter().all(|probe| probe.node != *node)).collect();
        let rest = AcquisitionInput { pending: &pending, candidates: &candidates, ..*input };
        let Selection { points, risk } = self.select_by_utility(&rest, count - probes.len())?;
        probes.extend(points);
        Ok(Selection { points: probes, risk })
    }

    fn scores(&mut self, input: &AcquisitionInput<'_>) -> Result<Vec<f64>> {
        check_count(input, 1)?;
        let believed = self.believed(input)?;
        let input = &AcquisitionInput { precision: believed.as_ref().unwrap_or(input.precision), ..*input };
        Ok(self.assess(input)?.scores)
    }
}

impl Gpara {
    fn select_by_utility(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        if self.carries() {
            match self.select_carried(input, count) {
                // 64 bits take twice the memory of a refresh in 32.
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {}
                selection => return selection,
            }
        }
        self.select_refreshed(input, count)
    }

    /// With moments carried from the last round, computed anew where they cannot be.
    fn select_carried(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        let AcquisitionInput { candidates, noise_std, precision, .. } = *input;
        let weights = self.weights(input, None)?;
        // Covariances do not depend on the value of a pending node.
        let observations = with_pending(input, |_| 0.0)?;
        // Taken out, so that nothing is carried on from a failure.
        let carried = match self.carried.take() {
            Some(mut carried) => carried.follow(precision, &observations, &weights, noise_std).map(|()| carried),
            None => CarriedMoments::new(precision, &observations, &weights, noise_std),
        };
        let mut carried = carried?;
        let moments = carried.moments();
        let anchor = normalized_utility(&moments.utility, candidates);
        let scores = match self.asks_scorer() {
            true => self.calibrated(input, (&self.condition(input)?.0, None), &weights, moments, &anchor)?,
            false => anchor.clone(),
        };
        let risk = Some(weights.weighted_risk(&moments.variance_estimate));
        let utility = moments.utility.clone();
        let nodes = carried.select(candidates, &anchor, &scores, count)?;
        self.carried = Some(carried);
        Ok(Selection { points: selected(&nodes, candidates, &scores, &utility), risk })
    }

    /// With moments of this round alone.
    fn select_refreshed(&self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        let AcquisitionInput { candidates, noise_std, .. } = *input;
        let Assessment { posterior, weights, moments, anchor, scores } = self.assess(input)?;
        let batch = BatchInput {
            posterior: &posterior,
            weights: &weights,
            moments: &moments,
            candidates,
            normalized_utility: &anchor,
            calibrated_score: &scores,
            noise_std,
        };
        let nodes = select_batch(self.settings.batch_rule, &batch, count)?;
        let risk = Some(weights.weighted_risk(&moments.variance_estimate));
        Ok(Selection { points: selected(&nodes, candidates, &scores, &moments.utility), risk })
    }
}

/// Chosen nodes with their scores and utilities before the batch.
fn selected(nodes: &[usize], candidates: &[usize], scores: &[f64], utility: &[f64]) -> Vec<SelectedPoint> {
    let point = |&node: &usize| {
        let at = candidates.binary_search(&node).expect("a batch holds candidates");
        SelectedPoint { node, score: scores[at], expected_risk_drop: Some(utility[node]) }
    };
    nodes.iter().map(point).collect()
}
