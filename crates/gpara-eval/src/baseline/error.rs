//! What can go wrong in a baseline.

use gpara::{ErrorDetail, ErrorKind, Grid, Result};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(crate) enum BaselineError {
    #[error("{key} = {value} is not allowed: {allowed}")]
    Setting { key: &'static str, value: f64, allowed: &'static str },
    #[error("grid `{grid}` of {steps} steps does not fit a schedule of {num_steps} timesteps: {timesteps:?}")]
    StepGrid { grid: &'static str, steps: usize, num_steps: usize, timesteps: Vec<usize> },
    #[error("state {state} became {value} at timestep {timestep}, node {node}")]
    NonFinite { timestep: usize, state: usize, node: usize, value: f64 },
    #[error("measurements on a {found} grid do not fit a scene of {grid}")]
    Grid { found: Grid, grid: Grid },
    #[error("{count} points cannot be chosen from {num_candidates} candidates: 1 to {num_candidates} are allowed")]
    Count { count: usize, num_candidates: usize },
    #[error("`{backend}` gave {found} samples, `adasense` chooses by the spread of at least 2")]
    Samples { backend: String, found: usize },
    #[error(
        "{budget} points in rounds of {count} are {rounds} rounds, a trajectory of {steps} steps has room for {room}"
    )]
    Rounds { budget: usize, count: usize, rounds: usize, steps: usize, room: usize },
    #[error("round {round} was asked and the trajectory has not seen the rounds before it")]
    Order { round: usize },
}

impl ErrorDetail for BaselineError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NonFinite { .. } => ErrorKind::NonFinite,
            Self::Grid { .. } => ErrorKind::ShapeMismatch,
            _ => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::StepGrid { .. } => Some("take fewer steps, or `grid = \"fractional\"`".into()),
            Self::Samples { .. } => Some("set `samples` of its chain, the paper has 4".into()),
            Self::Rounds { .. } => Some("take more steps, a larger batch, or a wider window".into()),
            Self::Order { .. } => Some("one `ads` follows one session from its first round to its end".into()),
            _ => None,
        }
    }
}

/// # Errors
/// `InvalidInput` with key, value and what is allowed, unless `is_allowed`.
pub(crate) fn require(is_allowed: bool, key: &'static str, value: f64, allowed: &'static str) -> Result<()> {
    if is_allowed { Ok(()) } else { Err(BaselineError::Setting { key, value, allowed }.into()) }
}
