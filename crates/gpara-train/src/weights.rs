//! The averaged weights as they leave training: f16, named as the variables, with the facts of the run beside them.

use std::collections::HashMap;
use std::path::Path;

use gpara::Result;
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor, nn};

use crate::config::{Keep, Role, TrainConfig};
use crate::error::TrainError;
use crate::files::{read_tensors, write_tensors};
use crate::flat::FlatParameters;
use crate::scorer_net::ScorerNet;
use crate::unet::UNet;

/// Facts of a run that the model card tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// The configuration of the run.
    pub config: TrainConfig,
    /// Steps after which the weights were as they are.
    pub steps: u64,
    /// Steps of the whole run as far as known then; more than `steps` where the best weights were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<u64>,
    /// Which weights the run kept; old files hold the last.
    #[serde(default = "last")]
    pub kept: Keep,
    /// Seconds of training.
    pub seconds: f64,
    /// Where it was trained, e.g. `Cuda(0)`.
    pub device: String,
    /// Number of training maps.
    pub num_maps: usize,
    /// Sides of the grid, rows first.
    pub grid: [usize; 2],
    /// Validation of these weights: name and error.
    pub validation: Vec<(String, f64)>,
}

fn last() -> Keep {
    Keep::Last
}

/// The layer that reads state and context.
const FIRST_LAYER: &str = "conv_in.weight";

/// The layer that makes the output.
const LAST_LAYER: [&str; 2] = ["conv_out.weight", "conv_out.bias"];

/// Key of the facts in the file's header.
const FACTS: &str = "facts";

/// Writes the averaged weights, rounded to f16.
///
/// # Errors
/// `Io` if the file cannot be written.
pub(crate) fn write(path: &Path, flat: &FlatParameters, facts: &RunFacts) -> Result<()> {
    let tensors: Vec<(String, Tensor)> =
        flat.averaged().into_iter().map(|(name, tensor)| (name, tensor.to_kind(Kind::Half))).collect();
    write_tensors(path, &tensors, header(facts))
}

/// The text beside the tensors of a weights file.
pub(crate) fn header(facts: &RunFacts) -> HashMap<String, String> {
    [(FACTS.to_string(), toml::to_string(facts).expect("facts are plain values"))].into()
}

/// A network of role prior, mean or graph with stored weights (as f32 of the f16 values), the variables that hold them, and the facts of the run.
///
/// # Errors
/// `Io` if the file cannot be read; `Incompatible` if it lacks the facts or a tensor of the network, or has
/// others, or is a scorer.
pub fn read(path: &Path, device: Device) -> Result<(UNet, nn::VarStore, RunFacts)> {
    read_as(path, device, |root, config| match config.role {
        Role::Scorer => {
            Err(TrainError::Role { name: config.name.clone(), found: config.role, expected: Role::Prior }.into())
        }
        _ => UNet::new(root, &config.network),
    })
}

/// A scorer with stored weights; see [`read`].
///
/// # Errors
/// As [`read`], and `Incompatible` for a network of another role.
pub(crate) fn read_scorer(path: &Path, device: Device) -> Result<(ScorerNet, nn::VarStore, RunFacts)> {
    read_as(path, device, ScorerNet::new)
}

/// The facts of a weights file.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_facts(path: &Path) -> Result<RunFacts> {
    facts_of(&read_tensors(path)?.1, path)
}

/// The facts in a header that was read from `path`.
fn facts_of(text: &HashMap<String, String>, path: &Path) -> Result<RunFacts> {
    let refuse = |reason: String| TrainError::File { path: path.into(), reason };
    let facts = text.get(FACTS).ok_or_else(|| refuse("the facts of its run are missing".into()))?;
    Ok(toml::from_str(facts).map_err(|error| refuse(error.to_string()))?)
}

fn read_as<N>(
    path: &Path,
    device: Device,
    build: impl FnOnce(&nn::Path<'_>, &TrainConfig) -> Result<N>,
) -> Result<(N, nn::VarStore, RunFacts)> {
    let (tensors, text) = read_tensors(path)?;
    let facts = facts_of(&text, path)?;
    let store = nn::VarStore::new(device);
    let network = build(&store.root(), &facts.config)?;
    fill(&store, path, tensors)?;
    Ok((network, store, facts))
}

/// Copies stored weights into the variables of a network that is there already.
///
/// A network that reads channels more than the stored one sees nothing of them at first; one that corrects a channel which the
/// stored one did not starts without a correction.
///
/// # Errors
/// As [`read`].
pub(crate) fn copy_into(store: &nn::VarStore, path: &Path, config: &TrainConfig) -> Result<()> {
    let (mut tensors, text) = read_tensors(path)?;
    let stored = facts_of(&text, path)?.config;
    if let Some(weight) = tensors.get_mut(FIRST_LAYER)
        && stored.channels() != config.channels()
    {
        *weight = widened(weight, &stored.channels(), &config.channels());
    }
    if stored.network.corrected_channel != config.network.corrected_channel {
        for name in LAST_LAYER {
            if let Some(tensor) = tensors.get_mut(name) {
                *tensor = tensor.zeros_like();
            }
        }
    }
    fill(store, path, tensors)
}

/// The first layer's weight `[outputs, 1 + channels, 3, 3]` for a longer list of channels: zeros at the new ones.
fn widened(weight: &Tensor, stored: &[String], wanted: &[String]) -> Tensor {
    let column = |channel: &String| match stored.iter().position(|name| name == channel) {
        Some(at) => weight.narrow(1, 1 + at as i64, 1),
        None => weight.narrow(1, 0, 1).zeros_like(),
    };
    let columns: Vec<Tensor> = std::iter::once(weight.narrow(1, 0, 1)).chain(wanted.iter().map(column)).collect();
    Tensor::cat(&columns, 1)
}

fn fill(store: &nn::VarStore, path: &Path, mut tensors: HashMap<String, Tensor>) -> Result<()> {
    let refuse = |reason: String| TrainError::File { path: path.into(), reason };
    for (name, mut variable) in store.variables() {
        let stored = tensors.remove(&name).filter(|tensor| tensor.size() == variable.size());
        let stored = stored.ok_or_else(|| refuse(format!("tensor `{name}` {:?} is missing", variable.size())))?;
        tch::no_grad(|| variable.copy_(&stored));
    }
    match tensors.keys().min() {
        Some(name) => Err(refuse(format!("tensor `{name}` belongs to no part of the network")).into()),
        None => Ok(()),
    }
}
