//! The scorer network (C.3): a convolutional encoder-decoder, message passing along the graph, the budget throughout.

use gpara::Result;
use tch::nn::{self, Module};
use tch::{Kind, Tensor};

use crate::conditioner::{coupled, degree};
use crate::config::TrainConfig;
use crate::error::TrainError;
use crate::unet::{UNet, conv};

/// Keeps the mean over neighbours finite at a cell without edges.
const DEGREE_FLOOR: f64 = 1e-6;

/// One exchange with the neighbours: `h + mix(SiLU(own(h) + neighbors(mean of h over edges) + budget(t)))`.
#[derive(Debug)]
pub struct MessageBlock {
    /// 1x1 on the cell itself.
    pub own: nn::Conv2D,
    /// 1x1 on the mean of the neighbours, weighted by conductance.
    pub neighbors: nn::Conv2D,
    /// From the embedded budget to one shift a channel.
    pub budget: nn::Linear,
    /// 1x1 back to the cell.
    pub mix: nn::Conv2D,
}

/// The network; its encoder-decoder embeds the budget in place of a timestep.
#[derive(Debug)]
pub struct ScorerNet {
    /// Encoder-decoder to `hidden` channels.
    pub trunk: UNet,
    /// Run in order.
    pub blocks: Vec<MessageBlock>,
    /// 1x1 to the score; starts at zero, so that a fresh scorer leaves the analytic utility as it is.
    pub head: nn::Conv2D,
    /// Context channel of the first of the four edge maps.
    pub first_edge: i64,
}

impl ScorerNet {
    /// A fresh network with its tensors registered under `path`.
    ///
    /// # Errors
    /// `InvalidInput` if the configuration is not of a scorer, or the shape is not possible.
    pub fn new(path: &nn::Path<'_>, config: &TrainConfig) -> Result<Self> {
        let scorer = config.scorer.as_ref().ok_or_else(|| TrainError::Setting {
            key: "scorer",
            value: "nothing".into(),
            allowed: "a table, for role scorer",
        })?;
        let hidden = scorer.hidden;
        let trunk = UNet::trunk(&(path / "trunk"), &config.network)?;
        let blocks = (0..scorer.message_blocks)
            .map(|block| {
                let path = path / "blocks" / block;
                MessageBlock {
                    own: conv(&(&path / "own"), hidden, hidden, 1, 1),
                    neighbors: conv(&(&path / "neighbors"), hidden, hidden, 1, 1),
                    budget: nn::linear(&path / "budget", config.network.time_dim, hidden, Default::default()),
                    mix: conv(&(&path / "mix"), hidden, hidden, 1, 1),
                }
            })
            .collect();
        let zero = nn::Init::Const(0.0);
        let head = nn::ConvConfig { ws_init: zero, bs_init: zero, ..Default::default() };
        let head = nn::conv2d(path / "head", hidden, 1, 1, head);
        // The edge maps are the last channels of the context.
        Ok(Self { trunk, blocks, head, first_edge: config.network.in_channels - 1 - 4 })
    }

    /// One raw score a cell.
    ///
    /// # Shapes
    /// * `utility` - `[N, 1, H, W]`; `budget` - `[N]`, 1000 times the share that is left
    /// * `context` - `[N, in_channels - 1, H, W]`, the four edge maps last
    /// * returns `[N, 1, H, W]`
    pub fn forward(&self, utility: &Tensor, budget: &Tensor, context: &Tensor, train: bool) -> Tensor {
        let edges = context.narrow(1, self.first_edge, 4);
        let degree = degree(&edges) + DEGREE_FLOOR;
        let embedded = self.trunk.embed(&budget.to_kind(Kind::Float));
        let mut hidden = self.trunk.forward(utility, budget, context, train);
        for block in &self.blocks {
            let message = coupled(&edges, &hidden) / &degree;
            let shift = block.budget.forward(&embedded).unsqueeze(-1).unsqueeze(-1);
            let inner = block.own.forward(&hidden) + block.neighbors.forward(&message) + shift;
            hidden = block.mix.forward(&inner.silu()) + hidden;
        }
        self.head.forward(&hidden)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpara::SeedTree;
    use tch::{Device, Kind};

    use super::*;

    fn network(store: &nn::VarStore) -> ScorerNet {
        let smoke = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/smoke_scorer.toml");
        ScorerNet::new(&store.root(), &TrainConfig::read(&smoke).unwrap()).unwrap()
    }

    fn inputs(network: &ScorerNet) -> [Tensor; 3] {
        let options = (Kind::Float, Device::Cpu);
        let context = Tensor::rand([2, network.trunk.config.in_channels - 1, 16, 24], options);
        [Tensor::randn([2, 1, 16, 24], options), Tensor::from_slice(&[1000f32, 20.0]), context]
    }

    #[test]
    fn fresh_scorer_returns_zero_and_every_variable_gets_a_gradient_once_the_head_moved() {
        tch::manual_seed(1);
        let store = nn::VarStore::new(Device::Cpu);
        let network = network(&store);
        let [utility, budget, context] = inputs(&network);
        let score = network.forward(&utility, &budget, &context, true);
        assert_eq!(score.size(), [2, 1, 16, 24]);
        assert_eq!(score.abs().max().double_value(&[]), 0.0);
        tch::no_grad(|| {
            for mut variable in store.trainable_variables() {
                let _ = variable.g_add_(&(Tensor::randn_like(&variable) * 0.1));
            }
        });
        network.forward(&utility, &budget, &context, true).square().mean(Kind::Float).backward();
        for (name, variable) in store.variables() {
            let norm = variable.grad().norm().double_value(&[]);
            assert!(norm.is_finite() && norm > 0.0, "{name}: gradient norm {norm}");
        }
    }

    #[test]
    fn message_passes_along_edges_only() {
        let store = nn::VarStore::new(Device::Cpu);
        let network = network(&store);
        for (name, mut variable) in store.variables() {
            let mut stream = SeedTree::new(3).stream(&name);
            let values: Vec<f64> = (0..variable.numel()).map(|_| 0.2 * stream.normal()).collect();
            tch::no_grad(|| variable.copy_(&Tensor::from_slice(&values).view(variable.size().as_slice())));
        }
        let [utility, budget, context] = inputs(&network);
        let edges = context.narrow(1, network.first_edge, 4);
        let hidden = Tensor::randn([2, 3, 16, 24], (Kind::Float, Device::Cpu));
        // Without edges nothing arrives; the score then differs from that with edges.
        assert_eq!(coupled(&edges.zeros_like(), &hidden).abs().max().double_value(&[]), 0.0);
        let with = network.forward(&utility, &budget, &context, false);
        let cut = context.copy();
        let _ = cut.narrow(1, network.first_edge, 4).zero_();
        let without = network.forward(&utility, &budget, &cut, false);
        assert!((with - without).abs().max().double_value(&[]) > 1e-3);
    }
}
