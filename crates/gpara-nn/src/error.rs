//! What can be wrong with a model or with the scene it is asked about.

use std::path::PathBuf;

use gpara::{ErrorDetail, ErrorKind, Grid};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(crate) enum ModelError {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("model card: {}", reason.trim_end().replace('\n', " "))]
    CardText { reason: String },
    #[error("model card: {key} = {value} is not allowed: {allowed}")]
    CardValue { key: &'static str, value: String, allowed: &'static str },
    #[error("model {name}: the file has SHA-256 {found}, its card says {expected}")]
    Hash { name: String, found: String, expected: String },
    #[error("model {name} is for task `{found}`, not `{expected}`")]
    Task { name: String, found: String, expected: String },
    #[error("model {name} has role `{found}`, role `{expected}` is needed here")]
    Role { name: String, found: &'static str, expected: &'static str },
    #[error("model {name} cannot be loaded: {reason}")]
    Load { name: String, reason: String },
    #[error("model {name}: {what} `{tensor}` has shape {found}, the card asks for {expected}")]
    Interface { name: String, what: &'static str, tensor: &'static str, found: String, expected: String },
    #[error("model {name} needs the context channel `{channel}`, the scene has {}", list(available))]
    Channel { name: String, channel: String, available: Vec<String> },
    #[error(
        "channel `{channel}` follows the scene's picture: it needs the context channels red, green and blue, the scene has {}",
        list(available)
    )]
    NoPicture { channel: &'static str, available: Vec<String> },
    #[error("measurements are on a {found} grid, the scene on {expected}")]
    ObservationGrid { found: Grid, expected: Grid },
    #[error("timestep {timestep} is not allowed for model {name}: 0 to {}", num_steps - 1)]
    Timestep { name: String, timestep: usize, num_steps: usize },
    #[error("model {name} failed at timestep {timestep}: {reason}")]
    Run { name: String, timestep: usize, reason: String },
    #[error("model {name} returned {value} at timestep {timestep} (state {state}, row {row}, col {col})")]
    Output { name: String, value: f32, timestep: usize, state: usize, row: usize, col: usize },
    #[error("model {name} fails its golden check: node {node} is {found}, the card says {expected} +- {tolerance}")]
    Golden { name: String, node: usize, found: f64, expected: f64, tolerance: f64 },
    #[error("0 threads are not allowed: at least 1")]
    NoThreads,
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

impl ErrorDetail for ModelError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::Io,
            Self::CardText { .. } | Self::CardValue { .. } | Self::Timestep { .. } | Self::NoThreads => {
                ErrorKind::InvalidInput
            }
            Self::Hash { .. }
            | Self::Task { .. }
            | Self::Role { .. }
            | Self::Load { .. }
            | Self::Channel { .. }
            | Self::NoPicture { .. }
            | Self::Golden { .. } => ErrorKind::Incompatible,
            Self::Interface { .. } | Self::ObservationGrid { .. } => ErrorKind::ShapeMismatch,
            Self::Run { .. } => ErrorKind::Unsupported,
            Self::Output { .. } => ErrorKind::NonFinite,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Hash { .. } => {
                Some("the file is damaged or was exchanged: fetch model and card again together".into())
            }
            Self::Load { .. } => {
                Some("the file is truncated, no ONNX file, or uses an operator this build lacks".into())
            }
            Self::Channel { .. } => Some("scene and model must be of the same task and version".into()),
            Self::Golden { .. } => {
                Some("this machine or build computes something else than the one that trained it".into())
            }
            _ => None,
        }
    }
}
