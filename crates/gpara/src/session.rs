//! The acquisition loop as a state machine: ask for points, tell their values, until the budget is spent (Algorithm 1,
//! stage I).

mod round;
mod run;

use std::collections::BTreeSet;
use std::time::Instant;

use thiserror::Error as ThisError;

pub use round::RoundRecord;
pub use run::run_to_end;

use crate::context::Context;
use crate::ensemble_cache::EnsembleCache;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::observations::{Observation, Observations};
use crate::policy::{AcquisitionInput, Policy, SelectedPoint};
use crate::precision::ResidualPrecision;
use crate::prior::PriorEnsemble;
use crate::seed::SeedTree;

/// What decides in a session: the policy, the graph it reads and the ensemble it weighs by.
pub struct AcquisitionModel {
    /// Chooses the points.
    pub policy: Box<dyn Policy>,
    /// The residual precision Q_g of the scene.
    pub precision: ResidualPrecision,
    /// The prior ensemble.
    pub ensemble: EnsembleCache,
}

impl AcquisitionModel {
    /// Network evaluations made so far.
    fn network_calls(&self) -> u64 {
        self.ensemble.network_calls() + self.policy.network_calls()
    }
}

/// The rules of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionSettings {
    /// Measurements that may be made in all, Gamma.
    pub budget: usize,
    /// Largest number of points of a round, B; the paper uses 8.
    pub max_batch: usize,
    /// Noise standard deviation expected of the measurements, in field units.
    pub noise_std: f64,
}

/// The state of one acquisition: what was asked, what was told, what is left.
///
/// # Example
/// ```
/// use gpara::{
///     AcquisitionModel, AcquisitionSession, Conductances, Context, EnsembleCache, ErrorKind, FarthestPoint, FirstPoint,
///     Grid, Observation, ResidualPrecision, SeedTree, SessionSettings,
/// };
///
/// let context = Context::empty(Grid::new(1, 9)?);
/// let graph = Conductances::from_logits(&[0.0; 36], context.valid())?;
/// let mut model = AcquisitionModel {
///     policy: Box::new(FarthestPoint::new(FirstPoint::Centroid)),
///     precision: ResidualPrecision::new(graph, 0.0625, 0.8)?,
///     ensemble: EnsembleCache::nothing(),
/// };
/// let settings = SessionSettings { budget: 3, max_batch: 8, noise_std: 0.01 };
/// let mut session = AcquisitionSession::new(context, settings, SeedTree::new(1))?;
///
/// let nodes = session.ask(&mut model, 2)?.nodes();
/// assert_eq!(nodes, [4, 0]);
/// session.tell(&[Observation { node: 4, value: 0.3, noise_std: 0.01 }])?;
/// assert_eq!(session.pending().collect::<Vec<_>>(), [0]);
/// assert_eq!(session.ask(&mut model, 2)?.nodes(), [8]);
/// assert_eq!(session.ask(&mut model, 1).unwrap_err().kind(), ErrorKind::BudgetSpent);
/// # Ok::<(), gpara::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct AcquisitionSession {
    context: Context,
    settings: SessionSettings,
    seeds: SeedTree,
    observations: Observations,
    pending: BTreeSet<usize>,
    /// Valid nodes that are never proposed: told as failed, or outside the caller's list of candidates.
    excluded: BTreeSet<usize>,
    rounds: Vec<RoundRecord>,
}

impl AcquisitionSession {
    /// A session without measurements.
    ///
    /// # Errors
    /// `InvalidInput` if the budget is 0 or exceeds the valid cells, the batch is 0, or the noise is negative.
    pub fn new(context: Context, settings: SessionSettings, seeds: SeedTree) -> Result<Self> {
        let num_valid = context.valid().num_valid();
        if settings.budget == 0 || settings.budget > num_valid {
            return Err(SessionError::Budget { budget: settings.budget, num_valid }.into());
        }
        if settings.max_batch == 0 {
            return Err(SessionError::Batch.into());
        }
        if !(settings.noise_std.is_finite() && settings.noise_std >= 0.0) {
            return Err(SessionError::Noise { noise_std: settings.noise_std }.into());
        }
        let observations = Observations::none(context.grid());
        let (pending, excluded) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { context, settings, seeds, observations, pending, excluded, rounds: Vec::new() })
    }

    /// Proposes only these nodes from here on, e.g. the cells a vehicle can reach.
    ///
    /// # Errors
    /// `InvalidInput` if a node is outside the valid mask, or fewer unmeasured nodes are left than the budget needs.
    pub fn restrict_candidates(&mut self, nodes: &[usize]) -> Result<()> {
        nodes.iter().try_for_each(|&node| self.require_valid(node))?;
        let allowed: BTreeSet<usize> = nodes.iter().copied().collect();
        let excluded: BTreeSet<usize> = self.context.valid().nodes().filter(|node| !allowed.contains(node)).collect();
        let open = |node: &&usize| !self.observations.contains(**node) && !self.pending.contains(*node);
        let (found, needed) = (allowed.iter().filter(open).count(), self.remaining());
        if found < needed {
            return Err(SessionError::TooFewCandidates { found, needed }.into());
        }
        self.excluded.extend(excluded);
        Ok(())
    }

    /// Chooses up to `count` points and marks them pending; fewer if the budget or the candidates leave fewer.
    ///
    /// # Errors
    /// `InvalidInput` if `count` is 0, `BudgetSpent` if nothing may be asked any more, and what the policy raises; after
    /// an error the session is as before.
    pub fn ask(&mut self, model: &mut AcquisitionModel, count: usize) -> Result<&RoundRecord> {
        let started = Instant::now();
        let candidates = self.candidates();
        let allowed = count.min(self.remaining()).min(candidates.len());
        if count == 0 {
            return Err(SessionError::AskNone.into());
        }
        if allowed == 0 {
            return Err(self.nothing_left(candidates.len()).into());
        }
        let calls_before = model.network_calls();
        let AcquisitionModel { policy, precision, ensemble } = model;
        let samples = match policy.needs_ensemble() {
            true => ensemble.ensemble(&self.context, &self.observations, self.seeds)?,
            false => None,
        };
        let pending: Vec<usize> = self.pending.iter().copied().collect();
        let input = self.input(&candidates, &pending, samples, precision);
        let selection = policy.select(&input, allowed)?;
        self.check_selection(policy.name(), &candidates, &selection.points, allowed)?;
        self.pending.extend(selection.points.iter().map(|point| point.node));
        self.mark_chosen_by(policy.name());
        self.rounds.push(RoundRecord {
            round: self.rounds.len(),
            num_observed: self.observations.len(),
            values: vec![None; selection.points.len()],
            points: selection.points,
            risk: selection.risk,
            seconds: started.elapsed().as_secs_f64(),
            network_calls: model.network_calls() - calls_before,
        });
        Ok(self.rounds.last().expect("a round was pushed"))
    }

    /// The first policy is that of all measurements, until another one is asked.
    fn mark_chosen_by(&mut self, policy: &str) {
        let known = self.rounds.is_empty() || self.observations.chosen_by() == Some(policy);
        let observations = std::mem::replace(&mut self.observations, Observations::none(self.context.grid()));
        self.observations = observations.with_chosen_by(known.then_some(policy));
    }

    /// What the policy sees of this state.
    fn input<'a>(
        &'a self,
        candidates: &'a [usize],
        pending: &'a [usize],
        ensemble: Option<&'a PriorEnsemble>,
        precision: &'a ResidualPrecision,
    ) -> AcquisitionInput<'a> {
        AcquisitionInput {
            context: &self.context,
            candidates,
            observations: &self.observations,
            pending,
            ensemble,
            precision,
            noise_std: self.settings.noise_std,
            round: self.rounds.len(),
            budget: self.settings.budget,
            seeds: self.seeds,
        }
    }

    /// Records measurements, asked for or not; all of them land, or none.
    ///
    /// Points that were not asked for count against the budget too; telling more than the budget is allowed.
    ///
    /// # Errors
    /// Those of [`Observations::add`].
    pub fn tell(&mut self, measurements: &[Observation]) -> Result<()> {
        self.observations.add(self.context.valid(), measurements)?;
        for measurement in measurements {
            if self.pending.remove(&measurement.node) {
                self.rounds.iter_mut().rev().any(|round| round.record(measurement.node, measurement.value));
            }
        }
        Ok(())
    }

    /// Records that nodes could not be measured: they are not pending any more and never proposed again.
    ///
    /// # Errors
    /// `InvalidInput` if a node is outside the valid mask; none is recorded then.
    pub fn tell_failed(&mut self, nodes: &[usize]) -> Result<()> {
        nodes.iter().try_for_each(|&node| self.require_valid(node))?;
        for node in nodes {
            self.pending.remove(node);
            self.excluded.insert(*node);
        }
        Ok(())
    }

    /// Repeats a recorded round without asking the policy, so that a session can be resumed.
    ///
    /// The ensemble is drawn at the same states as in the first run, hence later rounds give the same bits. Values of
    /// the record are told with the session's noise; points without a value stay pending, tell them as failed if they
    /// were.
    ///
    /// # Errors
    /// `InvalidInput` if the record does not continue this session; those of the denoiser and of `tell`.
    pub fn replay(&mut self, model: &mut AcquisitionModel, record: &RoundRecord) -> Result<()> {
        let candidates = self.candidates();
        let fits = record.round == self.rounds.len() && record.num_observed == self.observations.len();
        if !fits || record.points.len() != record.values.len() || record.points.len() > self.remaining() {
            let (round, expected) = (record.round, self.rounds.len());
            return Err(SessionError::Replay { round, expected, num_observed: self.observations.len() }.into());
        }
        self.check_selection("record", &candidates, &record.points, record.points.len())?;
        let AcquisitionModel { policy, precision, ensemble } = model;
        let samples = match policy.needs_ensemble() {
            true => ensemble.ensemble(&self.context, &self.observations, self.seeds)?,
            false => None,
        };
        let pending: Vec<usize> = self.pending.iter().copied().collect();
        if !record.points.is_empty() {
            policy.replayed(&self.input(&candidates, &pending, samples, precision), record.points.len())?;
        }
        self.mark_chosen_by(policy.name());
        let told: Vec<Observation> = record.observations(self.settings.noise_std).collect();
        self.observations.add(self.context.valid(), &told)?;
        let open = record.points.iter().zip(&record.values).filter(|(_, value)| value.is_none());
        self.pending.extend(open.map(|(point, _)| point.node));
        self.rounds.push(record.clone());
        Ok(())
    }

    /// The scene.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The rules.
    pub fn settings(&self) -> SessionSettings {
        self.settings
    }

    /// The root of this session's randomness.
    pub fn seeds(&self) -> SeedTree {
        self.seeds
    }

    /// The measurements so far.
    pub fn observations(&self) -> &Observations {
        &self.observations
    }

    /// Nodes asked for and not told yet, in increasing order.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.pending.iter().copied()
    }

    /// The rounds asked so far.
    pub fn rounds(&self) -> &[RoundRecord] {
        &self.rounds
    }

    /// Measurements that may still be asked for: the budget less what is measured or pending.
    pub fn remaining(&self) -> usize {
        self.settings.budget.saturating_sub(self.observations.len() + self.pending.len())
    }

    /// Number of points of the next round, at most B; 0 when the budget is spent or no candidate is left.
    pub fn next_batch(&self) -> usize {
        self.settings.max_batch.min(self.remaining()).min(self.candidates().len())
    }

    /// The admissible nodes C_k in increasing order: valid, not measured, not pending, not excluded.
    pub fn candidates(&self) -> Vec<usize> {
        let mut measured = vec![false; self.context.grid().num_nodes()];
        self.observations.iter().for_each(|entry| measured[entry.node] = true);
        let open = |node: &usize| !measured[*node] && !self.pending.contains(node) && !self.excluded.contains(node);
        self.context.valid().nodes().filter(open).collect()
    }

    /// The weighted posterior risk before each round that has one, with the number of measurements it was taken at.
    pub fn risk_curve(&self) -> Vec<(usize, f64)> {
        self.rounds.iter().filter_map(|round| Some((round.num_observed, round.risk?))).collect()
    }

    fn require_valid(&self, node: usize) -> Result<()> {
        let grid = self.context.grid();
        if node >= grid.num_nodes() {
            return Err(SessionError::OutsideGrid { node, num_nodes: grid.num_nodes() }.into());
        }
        if !self.context.valid().is_valid(node) {
            let (row, col) = grid.row_col(node);
            return Err(SessionError::OutsideMask { node, row, col }.into());
        }
        Ok(())
    }

    /// A policy that breaks its contract must not spend the budget on it.
    fn check_selection(
        &self,
        policy: &str,
        candidates: &[usize],
        points: &[SelectedPoint],
        allowed: usize,
    ) -> Result<()> {
        let distinct: BTreeSet<usize> = points.iter().map(|point| point.node).collect();
        let admissible = distinct.iter().all(|node| candidates.binary_search(node).is_ok());
        if points.len() != allowed || distinct.len() != allowed || !admissible {
            let nodes = points.iter().map(|point| point.node).collect();
            return Err(SessionError::Selection { policy: policy.to_owned(), nodes, allowed }.into());
        }
        Ok(())
    }

    fn nothing_left(&self, num_candidates: usize) -> SessionError {
        let (budget, measured, pending) = (self.settings.budget, self.observations.len(), self.pending.len());
        match num_candidates {
            0 => SessionError::NoCandidate { measured, excluded: self.excluded.len() },
            _ => SessionError::Spent { budget, measured, pending },
        }
    }
}

#[derive(Debug, ThisError)]
enum SessionError {
    #[error("budget {budget} is not allowed: 1 to {num_valid}, the number of valid cells")]
    Budget { budget: usize, num_valid: usize },
    #[error("batch size 0 is not allowed, at least 1 point a round is needed")]
    Batch,
    #[error("expected noise standard deviation {noise_std} must be a finite number >= 0")]
    Noise { noise_std: f64 },
    #[error("0 points were asked for, at least 1 is needed")]
    AskNone,
    #[error("budget of {budget} measurements is spent: {measured} measured, {pending} pending")]
    Spent { budget: usize, measured: usize, pending: usize },
    #[error("no admissible cell is left: {measured} are measured, {excluded} excluded")]
    NoCandidate { measured: usize, excluded: usize },
    #[error("the candidates hold {found} unmeasured cells, the budget needs {needed}")]
    TooFewCandidates { found: usize, needed: usize },
    #[error("node {node} is outside the grid of {num_nodes} cells")]
    OutsideGrid { node: usize, num_nodes: usize },
    #[error("node {node} (row {row}, col {col}) is outside the valid mask")]
    OutsideMask { node: usize, row: usize, col: usize },
    #[error("policy `{policy}` chose nodes {nodes:?} where {allowed} distinct admissible ones were asked for")]
    Selection { policy: String, nodes: Vec<usize>, allowed: usize },
    #[error("recorded round {round} does not continue a session at round {expected} with {num_observed} measurements")]
    Replay { round: usize, expected: usize, num_observed: usize },
}

impl ErrorDetail for SessionError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Spent { .. } | Self::NoCandidate { .. } => ErrorKind::BudgetSpent,
            _ => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Budget { .. } => Some("give a smaller budget, or a mask with more valid cells".into()),
            Self::Spent { pending: 1.., .. } => Some("tell the pending points, or tell them as failed".into()),
            _ => None,
        }
    }
}
