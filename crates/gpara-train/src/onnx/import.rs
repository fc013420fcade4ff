//! From an exported network back to the weights file of a run, so that graph and scorer can be trained for a prior whose run
//! is gone.

use std::path::Path;

use gpara::Result;
use gpara_nn::Card;
use prost::Message;
use tch::{Kind, Tensor};

use super::proto::{FLOAT16, GraphProto, ModelProto};
use crate::config::{Keep, TrainConfig};
use crate::error::TrainError;
use crate::files::write_tensors;
use crate::weights::{self, RunFacts};

/// Ending of the names under which the exporter stores weights.
const STORED: &str = ".f16";

/// Writes `NAME.safetensors` to `folder` from `onnx` with its card beside it; `config` is that of the run, NAME its name.
///
/// # Errors
/// `Io` if a file cannot be read or written, `Incompatible` if the two files do not belong together or were not exported by
/// this program.
pub fn import_model(onnx: &Path, config: &TrainConfig, folder: &Path) -> Result<()> {
    let read = |path: &Path| -> Result<Vec<u8>> {
        std::fs::read(path).map_err(|source| TrainError::Io { action: "read", path: path.into(), source }.into())
    };
    let refuse = |reason: String| TrainError::File { path: onnx.into(), reason };
    let (bytes, text) = (read(onnx)?, read(&onnx.with_extension("toml"))?);
    let card = Card::parse(&String::from_utf8_lossy(&text))?;
    card.check_hash(&bytes)?;
    if card.channels != config.channels() {
        let reason = format!("it reads {:?}, configuration {} has {:?}", card.channels, config.name, config.channels());
        return Err(refuse(reason).into());
    }
    let model = ModelProto::decode(bytes.as_slice()).map_err(|error| refuse(error.to_string()))?;
    let graph = model.graph.unwrap_or_default();
    let mut tensors = Vec::new();
    for stored in &graph.initializer {
        let (Some(stored_name), Some(values)) = (&stored.name, &stored.raw_data) else { continue };
        let Some(name) = stored_name.strip_suffix(STORED) else { continue };
        if stored.data_type != Some(FLOAT16) {
            return Err(refuse(format!("weight {name} is not stored as f16")).into());
        }
        let tensor = Tensor::f_from_data_size(values, &stored.dims, Kind::Half).map_err(TrainError::Torch)?;
        tensors.push((name.to_owned(), as_trained(&tensor, consumer(&graph, stored_name))));
    }
    let facts = RunFacts {
        config: config.clone(),
        steps: card.steps,
        total_steps: None,
        kept: Keep::Last,
        seconds: card.training_seconds,
        device: card.device,
        num_maps: 0,
        grid: card.grid,
        validation: card.validation.into_iter().collect(),
    };
    std::fs::create_dir_all(folder).map_err(|source| TrainError::Io {
        action: "create",
        path: folder.into(),
        source,
    })?;
    let path = folder.join(format!("{}.safetensors", config.name));
    write_tensors(&path, &tensors, weights::header(&facts))?;
    // A file that lacks a weight of the network is found now, not by the run that needs it.
    weights::read(&path, tch::Device::Cpu).map(|_| ()).inspect_err(|_| {
        let _ = std::fs::remove_file(&path);
    })
}

/// The operator that reads a stored weight once it is cast to f32.
fn consumer<'a>(graph: &'a GraphProto, stored: &str) -> Option<&'a str> {
    let cast = graph.node.iter().find(|node| node.input.iter().any(|input| input == stored))?;
    let value = cast.output.first()?;
    graph.node.iter().find(|node| node.input.contains(value))?.op_type.as_deref()
}

/// Undoes what the exporter does to a weight for the operator that reads it.
fn as_trained(stored: &Tensor, operator: Option<&str>) -> Tensor {
    match operator.filter(|_| stored.dim() == 4) {
        // A convolution written as the transposed one with the mirrored kernel.
        Some("ConvTranspose") => stored.transpose(0, 1).flip([2, 3]).contiguous(),
        // A convolution after doubling: its taps are split and added up when the file is loaded.
        Some("Split") => stored.transpose(0, 1).contiguous(),
        // Scale and shift of a normalisation, stored as [1, C, 1, 1].
        Some("Mul" | "Add") => stored.reshape([-1]),
        _ => stored.shallow_clone(),
    }
}
