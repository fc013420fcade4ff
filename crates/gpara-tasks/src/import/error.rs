//! What can be wrong with data of others.

use std::path::PathBuf;

use gpara::{ErrorDetail, ErrorKind, Grid};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(super) enum ImportError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot create {}", path.display())]
    Create { path: PathBuf, source: std::io::Error },
    #[error("{} is not as expected: {reason}", path.display())]
    Content { path: PathBuf, reason: String },
    #[error("{} holds {} folders of gains ({}), one must be named", path.display(), found.len(), found.join(", "))]
    Simulation { path: PathBuf, found: Vec<String> },
    #[error("`{id}` is not in {}; {allowed}", path.display())]
    NoScene { id: String, path: PathBuf, allowed: String },
    #[error("{what} is {found}, {other} is {expected}")]
    Size { what: &'static str, found: Grid, other: &'static str, expected: Grid },
    #[error("transmitter at row {row}, col {col} is outside the map {grid}")]
    Transmitter { row: usize, col: usize, grid: Grid },
    #[error("{} has no good sample ({refused} rows are refused)", path.display())]
    NoSamples { path: PathBuf, refused: usize },
    #[error("{} has rows and columns of a grid, a drive test needs lat and lon, or x and y", path.display())]
    Cells { path: PathBuf },
    #[error("{crs} counts degrees, cells of a drive test are in metres")]
    Degrees { crs: String },
    #[error("cell size {size} m is not allowed: it must be positive and finite")]
    CellSize { size: f64 },
    #[error("the samples span {width} x {height} m, in cells of {size} m that is more than {limit} cells")]
    Span { width: f64, height: f64, size: f64, limit: usize },
}

impl ErrorDetail for ImportError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Read { .. } | Self::Create { .. } => ErrorKind::Io,
            Self::Size { .. } => ErrorKind::ShapeMismatch,
            Self::Content { .. }
            | Self::Simulation { .. }
            | Self::NoScene { .. }
            | Self::Transmitter { .. }
            | Self::NoSamples { .. }
            | Self::Cells { .. }
            | Self::Degrees { .. }
            | Self::CellSize { .. }
            | Self::Span { .. } => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Span { .. } => Some("is one position far off? give larger cells, or remove it".into()),
            Self::Degrees { .. } => Some("leave the coordinate system out to take the UTM zone of the samples".into()),
            Self::Cells { .. } => Some("measurements of a known grid are read as points, without an importer".into()),
            _ => None,
        }
    }
}
