//! Network files of gpara: `NAME.onnx` plus its card `NAME.toml`, run by `rten` (pure Rust, CPU).
//!
//! [`Network`] loads and checks the two files; [`OnnxDenoiser`], [`OnnxMean`], [`OnnxSpread`], [`OnnxGraph`] and [`OnnxScorer`] put one
//! behind the traits of the core.
//! The interface of a file is fixed: inputs `x [N,1,H,W]`, `t [N]` (timestep from 0), `context [N,C,H,W]`, all f32;
//! output `output [N,K,H,W]`, which is noise, velocity or the clean field (K = 1), edge logits (K = 4) or scores (K = 1), as
//! the card says.

mod card;
mod caught;
mod channels;
mod denoiser;
mod error;
mod golden;
mod graph;
mod guided_field;
mod nesting;
mod network;
mod padding;
mod scorer;
mod spread;
mod target;

pub use card::{Card, CardCalibration, MEASURED_CHANNEL, MEASURED_VALUE_CHANNEL, Output, Role, Schedule, sha256_hex};
pub use channels::ContextReader;
pub use denoiser::{OnnxDenoiser, OnnxMean};
pub use golden::{GoldenCheck, Verification};
pub use graph::{OnnxGraph, PRIOR_SPREAD_CHANNEL, SPACING_CHANNEL, SPREAD_GAIN, spacing_value, spread_channel};
pub use guided_field::{GUIDED_FIELD_CHANNEL, guided_field};
pub use network::Network;
pub use scorer::{BUDGET_SCALE, OnnxScorer, STATE_CHANNELS, ScorerInput};
pub use spread::{OnnxSpread, SPREAD_LOG_OFFSET, SPREAD_LOG_RANGE, spread_of_output};
pub use target::{LOG_DEPTH_FLOOR, LOG_DEPTH_RATIO, RELATIVE_FLOOR, Target, TargetScale};
