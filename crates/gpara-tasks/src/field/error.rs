//! What can be wrong with a file that holds a field, a mask or points.

use std::path::{Path, PathBuf};

use gpara::{ErrorDetail, ErrorKind, Grid};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(crate) enum FieldError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error(
        "{} has an ending that is not known; .png, .npy, .npz, .csv, .tif, .tiff and .asc are",
        path.display()
    )]
    Ending { path: PathBuf },
    #[error("{} is not as expected: {reason}", path.display())]
    Content { path: PathBuf, reason: String },
    #[error("{} holds {size} {what}, at most {limit} are read", path.display())]
    TooLarge { path: PathBuf, what: &'static str, size: u64, limit: u64 },
    #[error("{} is a preview: its colours are no values", path.display())]
    Preview { path: PathBuf },
    #[error("{} cannot be written as {}: {reason}", path.display(), format)]
    Unwritable { path: PathBuf, format: &'static str, reason: String },
    #[error("{} is a PNG without a recorded scale: its gray values have no unit", path.display())]
    NoScale { path: PathBuf },
    #[error("PNG scale with offset {offset} and step {step} is not allowed: both must be finite and the step not 0")]
    Scale { offset: f64, step: f64 },
    #[error("{path}, line {line}: `{text}` is not a number", path = path.display())]
    NotNumber { path: PathBuf, line: u64, text: String },
    #[error("{path}, line {line}: {found} values, the first line has {expected}", path = path.display())]
    Ragged { path: PathBuf, line: u64, found: usize, expected: usize },
    #[error("field has {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Length { grid: Grid, found: usize },
    #[error("field is {field}, the mask is {mask}")]
    MaskSize { field: Grid, mask: Grid },
    #[error("no cell of {to} is at least half covered by valid cells of {from}")]
    NoneLeft { from: Grid, to: Grid },
    #[error("row {row}, col {col} is marked as measured, but is outside the valid mask")]
    MeasuredOutside { row: usize, col: usize },
    #[error("field is {value} at row {row}, col {col}; valid cells must be finite")]
    NonFinite { value: f64, row: usize, col: usize },
    #[error(
        "mask {} holds {value} at row {row}, col {col}; allowed are 0 and 1, or 0 and 255, or true and false",
        path.display()
    )]
    MaskValue { path: PathBuf, value: f64, row: usize, col: usize },
    #[error("value {value} at row {row}, col {col} is outside the written range {low}..{high}")]
    OutsideRange { value: f64, row: usize, col: usize, low: f64, high: f64 },
    #[error("range {low}..{high} cannot be written to a 16-bit PNG: it must be finite and ascending")]
    Range { low: f64, high: f64 },
}

impl FieldError {
    pub(crate) fn content(path: &Path, reason: impl ToString) -> Self {
        Self::Content { path: path.into(), reason: reason.to_string() }
    }
}

impl ErrorDetail for FieldError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Read { .. } | Self::Write { .. } => ErrorKind::Io,
            Self::Length { .. } | Self::MaskSize { .. } | Self::Ragged { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
            Self::Range { .. }
            | Self::OutsideRange { .. }
            | Self::Ending { .. }
            | Self::Content { .. }
            | Self::TooLarge { .. }
            | Self::Preview { .. }
            | Self::Unwritable { .. }
            | Self::NoScale { .. }
            | Self::Scale { .. }
            | Self::MeasuredOutside { .. }
            | Self::NoneLeft { .. }
            | Self::NotNumber { .. }
            | Self::MaskValue { .. } => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoScale { .. } => Some("say which value gray 0 stands for and how much one gray step is".into()),
            Self::TooLarge { .. } => Some("cut the file into parts, or give a coarser one".into()),
            Self::Preview { .. } => Some("give the map itself; previews end in _vis.png".into()),
            Self::NonFinite { .. } => Some("mark missing cells as invalid in a mask".into()),
            Self::NotNumber { .. } => {
                Some("a CSV grid has numbers only, no header; missing cells are empty or nan".into())
            }
            _ => None,
        }
    }
}
