//! What a run needs to go on with the same bits.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

use gpara::Result;
use tch::Tensor;

use crate::error::TrainError;
use crate::files::{read_tensors, write_tensors};
use crate::flat::FlatParameters;

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Progress {
    /// Steps done.
    pub(crate) step: u64,
    /// Steps of the whole run; not known in the first steps of a budget in seconds.
    pub(crate) total: Option<u64>,
    /// Seconds spent training so far, in all pieces.
    pub(crate) seconds: f64,
    /// The step of the best validation and its watched error.
    pub(crate) best: Option<(u64, f64)>,
}

/// Writes the flat tensors and the progress.
///
/// # Errors
/// `Io` if the file cannot be written.
pub(crate) fn write(path: &Path, flat: &FlatParameters, progress: &Progress, config_hash: &str) -> Result<()> {
    let tensors: Vec<(String, Tensor)> =
        flat.state().into_iter().map(|(name, tensor)| (name.to_string(), tensor.shallow_clone())).collect();
    let total = progress.total.map_or_else(|| "unknown".into(), |total| total.to_string());
    let (best_step, best_error) = progress.best.unzip();
    let text_or_none = |text: Option<String>| text.unwrap_or_else(|| "none".into());
    let text = [
        ("best_step", text_or_none(best_step.map(|step| step.to_string()))),
        ("best_error", text_or_none(best_error.map(|error| error.to_string()))),
        ("step", progress.step.to_string()),
        ("total", total),
        ("seconds", progress.seconds.to_string()),
        ("config_hash", config_hash.to_string()),
    ];
    write_tensors(path, &tensors, text.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
}

/// Puts a checkpoint into `flat`.
///
/// # Errors
/// `Io` if the file cannot be read; `Incompatible` if it is of another configuration or broken.
pub(crate) fn read(path: &Path, flat: &mut FlatParameters, config_hash: &str) -> Result<Progress> {
    let (mut tensors, text) = read_tensors(path)?;
    let refuse = |reason: String| TrainError::File { path: path.into(), reason };
    let stored = text.get("config_hash").map_or("none", String::as_str);
    if stored != config_hash {
        return Err(refuse(format!("it was written under configuration {stored}, this one is {config_hash}")).into());
    }
    let sizes: Vec<(&str, Vec<i64>)> = flat.state().map(|(name, tensor)| (name, tensor.size())).into();
    for (name, size) in sizes {
        if tensors.get(name).is_none_or(|tensor| tensor.size() != size) {
            return Err(refuse(format!("tensor `{name}` of size {size:?} is missing")).into());
        }
    }
    let progress = Progress {
        step: number(&text, "step").ok_or_else(|| refuse("`step` is missing".into()))?,
        total: number(&text, "total"),
        seconds: number(&text, "seconds").ok_or_else(|| refuse("`seconds` is missing".into()))?,
        best: number(&text, "best_step").zip(number(&text, "best_error")),
    };
    flat.restore(["weights", "mean", "square", "average"].map(|name| tensors.remove(name).expect("checked above")));
    Ok(progress)
}

fn number<T: FromStr>(text: &HashMap<String, String>, key: &str) -> Option<T> {
    text.get(key)?.parse().ok()
}
