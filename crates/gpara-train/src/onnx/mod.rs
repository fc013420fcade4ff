//! Export of a trained network: `NAME.onnx` in f16 weights and its model card `NAME.toml`, checked against libtorch.

mod card;
mod error;
mod graph;
mod parity;
mod proto;
mod unet_graph;

use std::path::Path;

use sha2::{Digest, Sha256};
use tch::Device;

use gpara::Result;

use self::card::ModelCard;
use crate::config::hex;
use crate::error::TrainError;
use crate::files::write_whole;
use crate::unet::UNet;
use crate::weights;

/// What an export wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportReport {
    /// Largest difference between `rten` on the file and libtorch on the network, over 16 random inputs.
    pub max_difference: f64,
    /// Size of the ONNX file.
    pub bytes: usize,
    /// Its SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// Writes `network` as an ONNX file and checks it; nothing is written if the check fails.
///
/// # Errors
/// `Incompatible` if a weight is not exactly an f16, or `rten` and libtorch differ by more than 1e-3; `Unsupported` if
/// `rten` cannot run the graph; `Io` if the file cannot be written.
pub fn export_onnx(network: &UNet, path: &Path) -> Result<ExportReport> {
    let bytes = unet_graph::onnx_bytes(network)?;
    let max_difference = parity::max_difference(network, &bytes)?;
    write_whole(path, &bytes)?;
    Ok(ExportReport { max_difference, bytes: bytes.len(), sha256: hex(&Sha256::digest(&bytes)) })
}

/// Writes `NAME.onnx` and the card `NAME.toml` to `folder` from a weights file; NAME is that of the run.
///
/// # Errors
/// Those of [`read_weights`](crate::read_weights) and [`export_onnx`].
pub fn export_model(weights: &Path, folder: &Path) -> Result<ExportReport> {
    let (network, _variables, facts) = weights::read(weights, Device::Cpu)?;
    std::fs::create_dir_all(folder).map_err(|source| TrainError::Io { action: "create", path: folder.into(), source })?;
    let name = &facts.config.name;
    let report = export_onnx(&network, &folder.join(format!("{name}.onnx")))?;
    let card = ModelCard::new(&network, &facts, &report.sha256)?;
    write_whole(&folder.join(format!("{name}.toml")), card.to_toml().as_bytes())?;
    Ok(report)
}
