//! A network of role `scorer`: a score a candidate from the acquisition state.

use std::path::Path;
use std::sync::Arc;

use gpara::{AcquisitionState, Channel, Observations, Result, Scorer};

use crate::card::{Output, Role};
use crate::graph::SPREAD_GAIN;
use crate::network::Network;

/// Channels of the acquisition state, after those of the scene, in the order networks read them.
///
/// * `observed`, `candidate` - 1 or 0
/// * `conditioned_mean`, `conditioned_spread` - of the conditioned ensemble (B.32): mean, and 5 x standard deviation
/// * `posterior_std` - standard deviation under the graph posterior over the one of an isolated cell, `1 / sqrt(tau)`
/// * `risk_weight` - W_k
/// * `edge_right`, `edge_down`, `edge_down_right`, `edge_down_left` - conductances, which message passing runs along
pub const STATE_CHANNELS: [&str; 10] = [
    "observed",
    "candidate",
    "conditioned_mean",
    "conditioned_spread",
    "posterior_std",
    "risk_weight",
    "edge_right",
    "edge_down",
    "edge_down_right",
    "edge_down_left",
];

/// `t` of a scorer is this times the share of the budget that is left.
pub const BUDGET_SCALE: f64 = 1000.0;

/// The acquisition state as a scorer network reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScorerInput {
    /// The normalised utility at candidates, 0 elsewhere; `num_nodes` values.
    pub utility: Vec<f64>,
    /// 1000 times the share of the budget that is left.
    pub budget: f32,
    /// [`STATE_CHANNELS`] in their order.
    pub channels: Vec<Channel>,
}

impl ScorerInput {
    /// The input of a state: z_S of C.3 without the scene's own channels.
    pub fn of(state: &AcquisitionState<'_>) -> Self {
        let num_nodes = state.context.grid().num_nodes();
        let (mut utility, mut candidate, mut observed) =
            (vec![0.0; num_nodes], vec![0.0f32; num_nodes], vec![0.0f32; num_nodes]);
        for (&node, &value) in state.candidates.iter().zip(state.normalized_utility) {
            (utility[node], candidate[node]) = (value, 1.0);
        }
        state.posterior.observations().iter().for_each(|observation| observed[observation.node] = 1.0);
        let prior = state.posterior.precision().prior();
        let tau = prior.residual_precision();
        let maps = |values: &[f64], of: &dyn Fn(f64) -> f64| values.iter().map(|&value| of(value) as f32).collect();
        let spread = |variance: f64| SPREAD_GAIN * variance.max(0.0).sqrt();
        let mut values: Vec<Vec<f32>> = vec![
            observed,
            candidate,
            maps(&state.ensemble.mean, &|mean| mean),
            maps(&state.ensemble.variance, &spread),
            maps(&state.moments.variance_estimate, &|variance| (variance.max(0.0) * tau).sqrt()),
            maps(state.weights.as_slice(), &|weight| weight),
        ];
        values.extend(prior.conductances().edges().iter().map(|edges| maps(edges, &|conductance| conductance)));
        let channels = STATE_CHANNELS.iter().zip(values).map(|(&name, values)| Channel { name: name.into(), values });
        let budget = (BUDGET_SCALE * state.remaining as f64 / state.budget.max(1) as f64) as f32;
        Self { utility, budget, channels: channels.collect() }
    }
}

/// A [`Scorer`] that asks a network (C.3); residual or direct as its card says.
#[derive(Debug, Clone)]
pub struct OnnxScorer {
    network: Arc<Network>,
}

impl OnnxScorer {
    /// The scorer of a loaded network.
    ///
    /// # Errors
    /// `Incompatible` if its role is not `scorer`.
    pub fn new(network: Arc<Network>) -> Result<Self> {
        network.card().require_role(Role::Scorer)?;
        Ok(Self { network })
    }

    /// From `NAME.onnx` with `NAME.toml` beside it; see [`Network::from_file`].
    ///
    /// # Errors
    /// Those of [`Network::from_file`] and [`OnnxScorer::new`].
    pub fn from_file(onnx: &Path, threads: usize) -> Result<Self> {
        Self::new(Arc::new(Network::from_file(onnx, threads)?))
    }

    /// The network with its card.
    pub fn network(&self) -> &Network {
        &self.network
    }
}

impl Scorer for OnnxScorer {
    fn name(&self) -> &str {
        &self.network.card().name
    }

    fn replaces_anchor(&self) -> bool {
        self.network.card().parameterization == Output::DirectScore
    }

    fn residual_score(&self, state: &AcquisitionState<'_>) -> Result<Vec<f64>> {
        let ScorerInput { utility, budget, channels } = ScorerInput::of(state);
        let none = Observations::none(state.context.grid());
        let scores = self.network.maps(&utility, budget, state.context, &none, &channels)?;
        Ok(state.candidates.iter().map(|&node| scores[node]).collect())
    }
}
