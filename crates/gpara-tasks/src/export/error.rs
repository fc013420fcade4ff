//! What can be wrong with a map that goes out.

use std::path::PathBuf;

use gpara::{ErrorDetail, ErrorKind};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(super) enum ExportError {
    #[error("{} ends in _vis.png, the ending of previews, which hold no values", path.display())]
    PreviewName { path: PathBuf },
    #[error("{} is written twice", path.display())]
    Twice { path: PathBuf },
    #[error("{} cannot be written: {reason}", path.display())]
    Encoding { path: PathBuf, reason: String },
}

impl ErrorDetail for ExportError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::PreviewName { .. } | Self::Twice { .. } => ErrorKind::InvalidInput,
            Self::Encoding { .. } => ErrorKind::Io,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::PreviewName { .. } => Some("name the map itself; the preview is written beside it".into()),
            _ => None,
        }
    }
}
