//! What can be wrong with units.

use gpara::{ErrorDetail, ErrorKind};
use thiserror::Error as ThisError;

use super::unit::Unit;

#[derive(Debug, ThisError)]
pub(super) enum UnitError {
    #[error("unit `{text}` is not known; allowed are dB, dBm, m, gray and none")]
    Unknown { text: String },
    #[error("`{text}` is not a number in {unit}; allowed are a number alone, or followed by {}", unit.difference())]
    Quantity { text: String, unit: Unit },
    #[error("`{text}` is not a way to average; allowed are linear-power and decibel")]
    Averaging { text: String },
    #[error("floor {floor} dB is not allowed: it must be finite")]
    Floor { floor: f64 },
    #[error("power {value} at index {index} is not allowed: a linear power must be at least 0 and finite")]
    Power { value: f64, index: usize },
}

impl ErrorDetail for UnitError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Power { .. } => Some("are the values in dB already?".into()),
            _ => None,
        }
    }
}
