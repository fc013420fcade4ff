//! What the exporter needs of a network: the same three inputs for every role.

use gpara::Result;
use tch::Tensor;

use super::{scorer_graph, unet_graph};
use crate::scorer_net::ScorerNet;
use crate::unet::{UNet, UNetConfig};

/// A network that can be written as a file.
pub(super) trait Exported {
    /// Its shape; `in_channels` counts `x` and the context.
    fn shape(&self) -> &UNetConfig;

    /// Its answer, `[N, K, H, W]`.
    fn answer(&self, x: &Tensor, t: &Tensor, context: &Tensor) -> Tensor;

    /// Its ONNX file.
    ///
    /// # Errors
    /// `Incompatible` if a weight is not exactly an f16.
    fn onnx_bytes(&self) -> Result<Vec<u8>>;
}

impl Exported for UNet {
    fn shape(&self) -> &UNetConfig {
        &self.config
    }

    fn answer(&self, x: &Tensor, t: &Tensor, context: &Tensor) -> Tensor {
        self.forward(x, t, context, false)
    }

    fn onnx_bytes(&self) -> Result<Vec<u8>> {
        unet_graph::onnx_bytes(self)
    }
}

impl Exported for ScorerNet {
    fn shape(&self) -> &UNetConfig {
        &self.trunk.config
    }

    fn answer(&self, x: &Tensor, t: &Tensor, context: &Tensor) -> Tensor {
        self.forward(x, t, context, false)
    }

    fn onnx_bytes(&self) -> Result<Vec<u8>> {
        scorer_graph::onnx_bytes(self)
    }
}
