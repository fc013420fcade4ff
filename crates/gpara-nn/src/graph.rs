//! A network of role `graph`: edge logits of a scene from its descriptor.

use std::path::Path;
use std::sync::Arc;

use gpara::{Channel, Conductances, GraphDescriptor, GraphPredictor, Observations, Result};

use crate::card::Role;
use crate::network::Network;

/// Channel of a graph network: the standard deviation of the prior ensemble times [`SPREAD_GAIN`].
pub const PRIOR_SPREAD_CHANNEL: &str = "prior_spread";

/// Channel of a graph network that serves all numbers of measurements: [`measurement_spacing`] in every cell.
pub const SPACING_CHANNEL: &str = "measurement_spacing";

/// The logarithm of the mean distance of measured cells, in cells, over 4: `ln(sqrt(num_valid / (num_measured + 1))) / 4`.
pub fn measurement_spacing(num_valid: usize, num_measured: usize) -> f64 {
    (num_valid as f64 / (num_measured as f64 + 1.0)).ln() / 8.0
}

/// Factor on standard deviations among a network's inputs (the paper's descriptor: context, mean and 5 x std).
pub const SPREAD_GAIN: f64 = 5.0;

/// A [`GraphPredictor`] that asks a network (C.1-C.2): the state is the mean of the prior ensemble, the context ends in
/// [`PRIOR_SPREAD_CHANNEL`], the timestep is 0.
#[derive(Debug, Clone)]
pub struct OnnxGraph {
    network: Arc<Network>,
}

impl OnnxGraph {
    /// The predictor of a loaded network.
    ///
    /// # Errors
    /// `Incompatible` if its role is not `graph`.
    pub fn new(network: Arc<Network>) -> Result<Self> {
        network.card().require_role(Role::Graph)?;
        Ok(Self { network })
    }

    /// From `NAME.onnx` with `NAME.toml` beside it; see [`Network::from_file`].
    ///
    /// # Errors
    /// Those of [`Network::from_file`] and [`OnnxGraph::new`].
    pub fn from_file(onnx: &Path, threads: usize) -> Result<Self> {
        Self::new(Arc::new(Network::from_file(onnx, threads)?))
    }

    /// The network with its card.
    pub fn network(&self) -> &Network {
        &self.network
    }
}

/// The channel that a graph network reads beside those of the scene.
pub fn spread_channel(prior_std: &[f64]) -> Channel {
    let values = prior_std.iter().map(|std| (SPREAD_GAIN * std) as f32).collect();
    Channel { name: PRIOR_SPREAD_CHANNEL.into(), values }
}

impl GraphPredictor for OnnxGraph {
    fn name(&self) -> &str {
        &self.network.card().name
    }

    fn predict(&self, descriptor: &GraphDescriptor<'_>) -> Result<Conductances> {
        let context = descriptor.context;
        let spacing = measurement_spacing(context.valid().num_valid(), descriptor.num_measured) as f32;
        let spacing = vec![spacing; context.grid().num_nodes()];
        let extra = [spread_channel(descriptor.prior_std), Channel { name: SPACING_CHANNEL.into(), values: spacing }];
        let none = Observations::none(context.grid());
        let logits = self.network.maps(descriptor.prior_mean, 0.0, context, &none, &extra)?;
        Conductances::from_logits(&logits, context.valid())
    }
}
