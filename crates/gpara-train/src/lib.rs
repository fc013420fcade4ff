//! Training of the networks of gpara on libtorch: the prior, and the mean network that sees the measurements.
//!
//! `config -> data -> batches -> objective -> flat (optimiser) -> checkpoint, weights`; [`train`] runs them.

mod batches;
mod checkpoint;
mod config;
mod cuda;
mod curve;
mod data;
mod error;
mod files;
mod flat;
mod masks;
mod objective;
mod onnx;
mod torch_network;
mod train;
mod unet;
mod validation;
mod weights;

pub use config::{BudgetConfig, Keep, LogConfig, MaskConfig, OptimizerConfig, Output, Role, Source, TrainConfig};
pub use cuda::best_device;
pub use onnx::{ExportReport, export_model, export_onnx};
pub use torch_network::TorchNetwork;
pub use train::{RunOptions, RunSummary, train};
pub use unet::{DownLevel, ResidualBlock, UNet, UNetConfig, UpLevel};
pub use weights::{RunFacts, read as read_weights};
