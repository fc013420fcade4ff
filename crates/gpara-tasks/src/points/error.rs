//! What can be wrong with a file of points.

use std::path::{Path, PathBuf};

use gpara::{ErrorDetail, ErrorKind};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(crate) enum PointError {
    #[error("{} has an ending that is not known for points; .csv, .tsv, .txt, .geojson, .json and .parquet are", path.display())]
    Ending { path: PathBuf },
    #[error("{} is not as expected: {reason}", path.display())]
    Content { path: PathBuf, reason: String },
    #[error("{} has no column `{column}`; its columns are {found}", path.display())]
    NoColumn { path: PathBuf, column: String, found: String },
    #[error("{} has two columns `{column}`", path.display())]
    TwoColumns { path: PathBuf, column: String },
    #[error("{path}, {item} {number}: {reason}{}", more_refused(*more), path = path.display())]
    RefusedRow { path: PathBuf, item: &'static str, number: u64, reason: String, more: usize },
    #[error("column `{name}` has {found} values for {expected} points")]
    Column { name: String, found: usize, expected: usize },
    #[error("`{text}` is not a role of a column; allowed are row, col, x, y, lat, lon, value and sigma")]
    Role { text: String },
    #[error("{name} is {value}, it must be {allowed}")]
    Setting { name: &'static str, value: f64, allowed: &'static str },
    #[error("sample at {item} {number} has the value {value}, bins need finite values")]
    BinValue { item: &'static str, number: u64, value: f64 },
    #[error("{} is a Parquet file, which this build cannot read", path.display())]
    #[cfg_attr(feature = "parquet", expect(dead_code, reason = "this build reads it"))]
    NoParquet { path: PathBuf },
}

fn more_refused(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more are refused)") }
}

impl PointError {
    pub(crate) fn content(path: &Path, reason: impl ToString) -> Self {
        Self::Content { path: path.into(), reason: reason.to_string() }
    }
}

impl ErrorDetail for PointError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Column { .. } => ErrorKind::ShapeMismatch,
            Self::NoParquet { .. } => ErrorKind::Unsupported,
            Self::BinValue { .. } => ErrorKind::NonFinite,
            Self::Ending { .. }
            | Self::Content { .. }
            | Self::NoColumn { .. }
            | Self::TwoColumns { .. }
            | Self::RefusedRow { .. }
            | Self::Role { .. }
            | Self::Setting { .. } => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::RefusedRow { .. } => Some("nothing was recorded; correct the file, or skip invalid rows".into()),
            Self::NoColumn { .. } => Some(
                "columns are found by their names, in any order; `--column value=NAME` names one that has another"
                    .into(),
            ),
            Self::TwoColumns { .. } => Some("rename one of them, or name the column to use".into()),
            Self::NoParquet { .. } => Some("build with the feature `parquet`, or write the points as CSV".into()),
            _ => None,
        }
    }
}
