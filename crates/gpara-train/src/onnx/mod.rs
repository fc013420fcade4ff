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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unet::UNetConfig;
    use gpara::ErrorKind;
    use tch::{Kind, Tensor, nn};

    /// A network whose weights are random f16 numbers, zero-initialised layers included.
    fn random_network(store: &nn::VarStore) -> UNet {
        let config =
            UNetConfig { widths: vec![8, 16, 24], blocks: 2, groups: 4, time_dim: 32, dropout: 0.1, in_channels: 4 };
        let network = UNet::new(&store.root(), &config).unwrap();
        tch::manual_seed(3);
        tch::no_grad(|| {
            for mut variable in store.trainable_variables() {
                let moved = &variable + Tensor::randn_like(&variable) * 0.1;
                variable.copy_(&moved.to_kind(Kind::Half));
            }
        });
        network
    }

    #[test]
    fn exported_graph_agrees_with_libtorch_and_is_described_right() {
        let (store, folder) = (nn::VarStore::new(Device::Cpu), tempfile::tempdir().unwrap());
        let network = random_network(&store);
        let path = folder.path().join("net.onnx");
        let report = export_onnx(&network, &path).unwrap();
        assert!(report.max_difference < 1e-5, "{}", report.max_difference);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((report.bytes, report.sha256), (bytes.len(), hex(&Sha256::digest(&bytes))));
        let stored: usize = store.variables().values().map(|variable| 2 * variable.numel()).sum();
        assert!(bytes.len() > stored && bytes.len() < stored + 60_000, "{} for {stored}", bytes.len());
    }

    #[test]
    fn parity_check_refuses_the_graph_of_another_network() {
        let store = nn::VarStore::new(Device::Cpu);
        let network = random_network(&store);
        let bytes = unet_graph::onnx_bytes(&network).unwrap();
        tch::no_grad(|| {
            let _ = network.middle[1].conv2.ws.shallow_clone().g_add_scalar_(0.125);
        });
        let error = parity::max_difference(&network, &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
    }

    #[test]
    fn weight_that_is_no_f16_is_refused_and_nothing_is_written() {
        let (store, folder) = (nn::VarStore::new(Device::Cpu), tempfile::tempdir().unwrap());
        let network = random_network(&store);
        tch::no_grad(|| {
            let mut bias = network.conv_out.bs.as_ref().unwrap().shallow_clone();
            let _ = bias.fill_(0.1);
        });
        let error = export_onnx(&network, &folder.path().join("net.onnx")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.to_string().contains("conv_out.bias"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
