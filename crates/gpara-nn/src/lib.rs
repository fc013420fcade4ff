//! Network files of gpara: `NAME.onnx` plus its card `NAME.toml`, run by `rten` (pure Rust, CPU).
//!
//! [`Network`] loads and checks the two files; [`OnnxDenoiser`] and [`OnnxMean`] put one behind the traits of the core.
//! The interface of a file is fixed: inputs `x [N,1,H,W]`, `t [N]` (timestep from 0), `context [N,C,H,W]`, all f32;
//! output `output [N,1,H,W]`, which is noise, velocity or the clean field as the card says.

mod card;
mod channels;
mod denoiser;
mod error;
mod golden;
mod network;
mod padding;

pub use card::{Card, MEASURED_CHANNEL, MEASURED_VALUE_CHANNEL, Output, Role, Schedule, sha256_hex};
pub use denoiser::{OnnxDenoiser, OnnxMean};
pub use golden::{GoldenCheck, Verification};
pub use network::Network;
