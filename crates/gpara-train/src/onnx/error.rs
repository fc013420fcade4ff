//! What can go wrong while exporting.

use gpara::{ErrorDetail, ErrorKind};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(super) enum ExportError {
    #[error("weight `{tensor}` has values that are not exactly f16")]
    NotHalf { tensor: String },
    #[error("rten cannot run the exported graph: {reason}")]
    Runtime { reason: String },
    #[error("the exported graph differs from libtorch by {difference:e}, at most {allowed:e} is allowed")]
    Parity { difference: f64, allowed: f64 },
}

impl ErrorDetail for ExportError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NotHalf { .. } | Self::Parity { .. } => ErrorKind::Incompatible,
            Self::Runtime { .. } => ErrorKind::Unsupported,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotHalf { .. } => Some("export from a weights file; training rounds the weights it writes".into()),
            _ => None,
        }
    }
}
