//! What can be wrong with a depth scene or a folder of depth maps.

use std::path::PathBuf;

use gpara::{ErrorDetail, ErrorKind, Grid};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(super) enum DepthError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is not a readable picture: {reason}", path.display())]
    Picture { path: PathBuf, reason: String },
    #[error("{} is 8-bit gray, depth maps are 16-bit gray in millimetres", path.display())]
    NotGray16 { path: PathBuf },
    #[error("{} is not as expected: {reason}", path.display())]
    Json { path: PathBuf, reason: String },
    #[error("depth map `{id}` is not a frame number of four digits, e.g. 0042")]
    Id { id: String },
    #[error("picture has {found} pixels, the grid {grid} has {} cells", grid.num_nodes())]
    PictureLength { grid: Grid, found: usize },
    #[error("depth map is {depth}, its picture is {picture}")]
    DepthSize { depth: Grid, picture: Grid },
    #[error("sample room {index} does not exist, there are rooms 0..={last}")]
    NoSampleRoom { index: usize, last: usize },
}

impl ErrorDetail for DepthError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Read { .. } => ErrorKind::Io,
            Self::PictureLength { .. } | Self::DepthSize { .. } => ErrorKind::ShapeMismatch,
            Self::Picture { .. }
            | Self::NotGray16 { .. }
            | Self::Json { .. }
            | Self::Id { .. }
            | Self::NoSampleRoom { .. } => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::DepthSize { .. } => Some("resize both to the same rows and columns first".into()),
            Self::Picture { .. } => Some("colour pictures may be JPEG or PNG".into()),
            _ => None,
        }
    }
}
