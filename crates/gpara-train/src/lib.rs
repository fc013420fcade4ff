//! Training of the networks of gpara on libtorch: the prior, the mean network that sees the measurements, the graph, and
//! the acquisition scorer.
//!
//! `config -> data -> batches -> stage (loss) -> flat (optimiser) -> checkpoint, weights`; [`train`] runs them. The stages
//! are `stage` (prior and mean: `objective`), `graph_stage` (`conditioner`, `graph_loss`), `likelihood_stage`
//! (`residual_likelihood`) and `scorer_stage` (`teacher`, `scorer_state`, `scorer_rollout`, `scorer_net`, `scorer_loss`); the
//! last three read networks that `frozen` holds.

mod ahead;
mod augment;
mod batches;
mod checkpoint;
mod conditioner;
mod config;
mod config_names;
mod config_stages;
mod cuda;
mod curve;
mod data;
mod error;
mod files;
mod flat;
mod frozen;
mod graph_loss;
mod graph_stage;
mod guided;
mod likelihood_stage;
mod masks;
mod measured_maps;
mod objective;
mod onnx;
mod pack;
mod residual_likelihood;
mod scorer_loss;
mod scorer_net;
mod scorer_rollout;
mod scorer_stage;
mod scorer_state;
mod spread_stage;
mod stage;
mod target;
mod teacher;
mod torch_network;
mod torch_scorer;
mod train;
mod unet;
mod validation;
mod weights;

pub use config::{
    BudgetConfig, CountDraw, Keep, LogConfig, MapError, MaskConfig, OptimizerConfig, Output, Role, Source, TrainConfig,
};
pub use config_stages::{
    AugmentConfig, ConditionerConfig, GraphConfig, LikelihoodConfig, RolloutConfig, ScorerConfig, ScorerLossConfig,
    StepWeighting,
};
pub use cuda::best_device;
pub use onnx::{ExportReport, export_model, export_onnx, import_model};
pub use pack::{PackReport, PackSettings, pack_depth};
pub use scorer_net::{MessageBlock, ScorerNet};
pub use torch_network::TorchNetwork;
pub use train::{RunOptions, RunSummary, train};
pub use unet::{DownLevel, ResidualBlock, UNet, UNetConfig, UpLevel};
pub use weights::{RunFacts, read as read_weights};
