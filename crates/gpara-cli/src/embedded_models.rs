//! The networks that are part of the binary; nothing is parsed before it is used.

use std::sync::Arc;

use gpara_nn::{Network, OnnxDenoiser, OnnxGraph, OnnxMean, OnnxScorer, OnnxSpread};

use crate::failure::{Failure, Outcome};

/// A network file and its card.
pub(crate) struct EmbeddedModel {
    /// Name without extension.
    pub(crate) name: &'static str,
    /// The ONNX file.
    pub(crate) onnx: &'static [u8],
    /// The card, TOML.
    pub(crate) card: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/embedded_models.rs"));

impl EmbeddedModel {
    /// The model of that name.
    pub(crate) fn named(name: &str) -> Outcome<&'static Self> {
        EMBEDDED_MODELS.iter().find(|model| model.name == name).ok_or_else(|| {
            let known: Vec<&str> = EMBEDDED_MODELS.iter().map(|model| model.name).collect();
            let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
            Failure::input(
                format!("model `{name}` is not embedded in this build, these are: {known}"),
                "`--preset gaussian` needs no weights",
            )
        })
    }

    /// The network, checked against its card. Its answers do not depend on the number of threads.
    pub(crate) fn load(&self) -> Outcome<Arc<Network>> {
        let network = Network::from_bytes(self.onnx, self.card, rayon::current_num_threads())
            .map_err(|error| Failure::from(error).within(format!("model `{}`", self.name)))?;
        Ok(Arc::new(network))
    }

    /// The network as a prior for a task.
    pub(crate) fn denoiser(&self, task: &str) -> Outcome<OnnxDenoiser> {
        let network = self.load()?;
        network.card().require_task(task)?;
        Ok(OnnxDenoiser::new(network)?)
    }

    /// The network as a graph predictor for a task.
    pub(crate) fn graph(&self, task: &str) -> Outcome<OnnxGraph> {
        let network = self.load()?;
        network.card().require_task(task)?;
        Ok(OnnxGraph::new(network)?)
    }

    /// The network as a spread predictor for a task.
    pub(crate) fn spread(&self, task: &str) -> Outcome<OnnxSpread> {
        let network = self.load()?;
        network.card().require_task(task)?;
        Ok(OnnxSpread::new(network)?)
    }

    /// The network as a scorer for a task.
    pub(crate) fn scorer(&self, task: &str) -> Outcome<OnnxScorer> {
        let network = self.load()?;
        network.card().require_task(task)?;
        Ok(OnnxScorer::new(network)?)
    }

    /// The network as a mean predictor for a task.
    pub(crate) fn mean(&self, task: &str) -> Outcome<OnnxMean> {
        let network = self.load()?;
        network.card().require_task(task)?;
        Ok(OnnxMean::new(network)?)
    }
}
