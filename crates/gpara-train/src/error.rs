//! What can go wrong while training or exporting.

use std::path::PathBuf;

use gpara::{ErrorDetail, ErrorKind};
use thiserror::Error as ThisError;

use crate::config::Role;

#[derive(Debug, ThisError)]
pub(crate) enum TrainError {
    #[error("{key} = {value} is not allowed: {allowed}")]
    Setting { key: &'static str, value: String, allowed: &'static str },
    #[error("log.watch = {value} is not allowed: any of {}", allowed.join(", "))]
    Watch { value: String, allowed: Vec<&'static str> },
    #[error("cannot read the configuration {}: {reason}", path.display())]
    Config { path: PathBuf, reason: String },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{} is not usable: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error("step {step}: the loss is {loss}, training stops")]
    Loss { step: u64, loss: f64 },
    #[error("network {name} returned a value that is not finite at timestep {timestep}")]
    Output { name: String, timestep: usize },
    #[error("network {name}: {reason}")]
    Scene { name: String, reason: String },
    #[error("network {name} has role {found:?}, {expected:?} is needed here")]
    Role { name: String, found: Role, expected: Role },
    #[error("timestep {timestep} is not allowed for network {name}: 0 to {last}")]
    Timestep { name: String, timestep: usize, last: usize },
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
}

impl ErrorDetail for TrainError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Setting { .. } | Self::Watch { .. } | Self::Config { .. } | Self::Timestep { .. } => {
                ErrorKind::InvalidInput
            }
            Self::Io { .. } => ErrorKind::Io,
            Self::File { .. } | Self::Role { .. } => ErrorKind::Incompatible,
            Self::Loss { .. } | Self::Output { .. } => ErrorKind::NonFinite,
            Self::Scene { .. } => ErrorKind::ShapeMismatch,
            Self::Torch(_) => ErrorKind::Unsupported,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Setting { key, .. } => rollout_hint(key).map(Into::into),
            Self::Loss { .. } => Some("lower `learning_rate`, or resume from the last checkpoint".into()),
            _ => None,
        }
    }
}

/// What to do about a refused key of `[scorer.rollout]`.
fn rollout_hint(key: &str) -> Option<&'static str> {
    Some(match key.strip_prefix("scorer.rollout.")? {
        "share" => "`share = 0.5` draws half of the states on-policy; without the table all come from `masks`",
        "num_scenes" => "`num_scenes` campaigns are run before the first step; leave the table out to run none",
        "batch" => "`batch = 8` is the paper's; a larger one needs fewer refreshes",
        _ => "leave `scorer` out to follow the analytic utility, or name the weights of a finished run",
    })
}
