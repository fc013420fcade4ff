//! Which cells to measure next, under the limits of a campaign.
//!
//! Exact: the utility of a cell after everything measured, pending and already in the batch (rank-one updates), with the
//! uncertainty of each cell weighted by the session's importance map. Heuristic: the batch is built greedily; with costs the
//! next cell is the one of largest utility per cost among those the rest of the cost budget pays for.

use gpara::{
    BatchMoments, Context, Correction, EnsembleMoments, Posterior, PriorEnsemble, Result, RiskRule, RiskWeights,
    UtilityMoments, normalized_utility,
};

use crate::error::SessionError;

/// What the next cells are chosen from.
#[derive(Debug, Clone, Copy)]
pub struct ChoiceInput<'a> {
    /// The cells of the field; channels are not looked at.
    pub context: &'a Context,
    /// The field given the measured cells, and the pending ones taken as measured.
    pub posterior: &'a Posterior,
    /// Nodes that may be chosen, increasing, none of them measured or pending.
    pub candidates: &'a [usize],
    /// Samples of the prior, not conditioned; needed by a risk rule that weighs by their spread.
    pub ensemble: Option<&'a PriorEnsemble>,
    /// How the samples are conditioned.
    pub correction: Correction,
    /// Which cells' uncertainty counts.
    pub risk: RiskRule,
    /// The weights of [`RiskRule::PredictedSpread`] (see [`gpara::error_weights`]), one a node.
    pub error_weights: Option<&'a [f64]>,
    /// Factor on that weight, one a node.
    pub importance: Option<&'a [f64]>,
    /// Noise of the measurements to come.
    pub noise_std: f64,
    /// What a batch must respect.
    pub limits: Limits<'a>,
}

/// What a batch must respect.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits<'a> {
    /// Smallest distance between a chosen cell and any other measured, pending or chosen one, in cells; 0 = none.
    pub min_distance: f64,
    /// Cost of a measurement, one a node; 1 everywhere where `None`.
    pub cost: Option<&'a [f64]>,
    /// Largest sum of costs of the batch.
    pub cost_budget: Option<f64>,
}

/// One chosen cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChosenPoint {
    /// The cell.
    pub node: usize,
    /// Its score: log utility (per cost), standardised over the cells it was chosen from.
    pub score: f64,
    /// The fall of the weighted risk by measuring it after those before it, normalised squared.
    pub expected_risk_drop: f64,
}

/// A batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The cells in the order of choice.
    pub points: Vec<ChosenPoint>,
    /// The weighted risk before the batch (Eq. 14), normalised squared.
    pub risk: f64,
}

/// Chooses up to `count` cells; fewer where the limits leave fewer. The lowest node wins a tie.
///
/// # Errors
/// `InvalidInput` if `count` is 0, no cell is open under the limits, or the samples are missing; those of the linear algebra.
pub fn choose(input: &ChoiceInput<'_>, count: usize) -> Result<Choice> {
    if count == 0 {
        return Err(SessionError::Count { count }.into());
    }
    let posterior = input.posterior;
    let weights = risk_weights(input, posterior)?;
    let moments = UtilityMoments::exact(posterior, &weights, input.noise_std)?;
    let risk = weights.weighted_risk(&moments.variance_estimate);
    let mut open = OpenCells::new(input);
    let mut ahead = BatchMoments::new(posterior, &weights, &moments, input.noise_std);
    let mut points = Vec::new();
    while points.len() < count {
        let nodes = open.nodes();
        let Some(point) = best(&nodes, ahead.utility(), input.limits.cost) else { break };
        open.take(point.node);
        points.push(point);
        if points.len() < count {
            ahead.measure(point.node)?;
        }
    }
    if points.is_empty() {
        return Err(SessionError::NothingLeft { reason: open.reason() }.into());
    }
    Ok(Choice { points, risk })
}

/// The weights of all cells that are not measured, whether or not they may be asked for.
fn risk_weights(input: &ChoiceInput<'_>, posterior: &Posterior) -> Result<RiskWeights> {
    let open: Vec<usize> =
        input.context.valid().nodes().filter(|&node| !input.posterior.observations().contains(node)).collect();
    let grid = input.context.grid();
    let base = match (&input.risk, input.ensemble) {
        (RiskRule::EnsembleSpread(settings), Some(ensemble)) => {
            let (refined, _) = input.correction.refine(posterior, ensemble.as_slice())?;
            let spread = EnsembleMoments::of(&refined, grid)?;
            RiskWeights::from_variance(&spread.variance, &open, settings)?
        }
        (RiskRule::EnsembleSpread(_), None) => {
            return Err(SessionError::NothingLeft { reason: "the prior's samples are missing".into() }.into());
        }
        (RiskRule::PredictedSpread, _) => {
            let missing = || SessionError::NothingLeft { reason: "the predicted spread is missing".into() };
            RiskWeights::from_values(input.error_weights.ok_or_else(missing)?.to_vec())?
        }
        (RiskRule::Uniform, _) => RiskWeights::uniform(grid, &open)?,
    };
    match input.importance {
        None => Ok(base),
        Some(importance) => {
            let weighted = base.as_slice().iter().zip(importance).map(|(weight, factor)| weight * factor);
            RiskWeights::from_values(weighted.collect())
        }
    }
}

/// The cell of largest utility per cost.
fn best(nodes: &[usize], utility: &[f64], cost: Option<&[f64]>) -> Option<ChosenPoint> {
    let value: Vec<f64> = match cost {
        None => utility.to_vec(),
        Some(cost) => utility.iter().zip(cost).map(|(utility, cost)| utility / cost).collect(),
    };
    let scores = normalized_utility(&value, nodes);
    let mut best: Option<ChosenPoint> = None;
    for (&node, score) in nodes.iter().zip(scores) {
        if best.is_none_or(|best| score > best.score) {
            best = Some(ChosenPoint { node, score, expected_risk_drop: utility[node] });
        }
    }
    best
}

/// The candidates that the limits still allow.
struct OpenCells<'a> {
    input: &'a ChoiceInput<'a>,
    blocked: Vec<bool>,
    cost_left: f64,
}

impl<'a> OpenCells<'a> {
    fn new(input: &'a ChoiceInput<'a>) -> Self {
        let blocked = vec![false; input.context.grid().num_nodes()];
        let mut open = Self { input, blocked, cost_left: input.limits.cost_budget.unwrap_or(f64::INFINITY) };
        input.posterior.observations().iter().for_each(|entry| open.block_around(entry.node));
        open
    }

    fn nodes(&self) -> Vec<usize> {
        let allowed = |node: &usize| !self.blocked[*node] && self.cost(*node) <= self.cost_left;
        self.input.candidates.iter().copied().filter(allowed).collect()
    }

    fn take(&mut self, node: usize) {
        self.cost_left -= self.cost(node);
        self.block_around(node);
    }

    fn cost(&self, node: usize) -> f64 {
        self.input.limits.cost.map_or(1.0, |cost| cost[node])
    }

    fn block_around(&mut self, node: usize) {
        self.blocked[node] = true;
        let limit = self.input.limits.min_distance;
        let (grid, reach) = (self.input.context.grid(), limit.ceil() as isize);
        for down in -reach..=reach {
            for right in -reach..=reach {
                let near = ((down * down + right * right) as f64) < limit * limit;
                if let Some(other) = grid.neighbor(node, (down, right)).filter(|_| near) {
                    self.blocked[other] = true;
                }
            }
        }
    }

    /// Why no cell is left.
    fn reason(&self) -> String {
        let candidates = self.input.candidates.len();
        let near = self.input.candidates.iter().filter(|&&node| self.blocked[node]).count();
        match (candidates, self.input.limits.cost_budget) {
            (0, _) => "every candidate is measured, pending or failed".into(),
            (_, Some(budget)) if near < candidates => format!("no open cell costs at most {budget}"),
            _ => {
                let distance = self.input.limits.min_distance;
                format!("all {candidates} open candidates are nearer than {distance} cells to another point")
            }
        }
    }
}
