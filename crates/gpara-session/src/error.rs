//! What can be wrong with a session file, its inputs or a request to it.

use std::path::PathBuf;

use gpara::{ErrorDetail, ErrorKind, Grid};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(crate) enum SessionError {
    #[error("`{}` exists already", path.display())]
    Exists { path: PathBuf },
    #[error("cannot make `{}`", path.display())]
    Create { path: PathBuf, source: std::io::Error },
    #[error("no session file `{}`", path.display())]
    Missing { path: PathBuf },
    #[error("`{}` is not a gpara session", path.display())]
    NotASession { path: PathBuf },
    #[error("`{}` has schema version {found}, this program knows 1 to {known}", path.display())]
    Newer { path: PathBuf, found: i64, known: usize },
    #[error("cannot {action} `{}`: {}", path.display(), database_reason(source))]
    Database { action: &'static str, path: PathBuf, source: rusqlite::Error },
    #[error("cannot copy `{}` before its schema is migrated", path.display())]
    Backup { path: PathBuf, source: rusqlite::Error },
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("{name} = {value} is not allowed: {allowed}")]
    Setting { name: &'static str, value: String, allowed: &'static str },
    #[error("{name} is {found}, the field is {grid}")]
    LayerSize { name: &'static str, found: Grid, grid: Grid },
    #[error("{name} has {found} values, the field {grid} has {} cells", grid.num_nodes())]
    LayerLength { name: &'static str, found: usize, grid: Grid },
    #[error("{name} is {value} at row {row}, col {col}; {allowed}")]
    LayerValue { name: &'static str, value: f64, row: usize, col: usize, allowed: &'static str },
    #[error("{name} leave no cell where a measurement is possible")]
    NoCandidates { name: &'static str },
    #[error("row {row}, col {col} is outside the {grid} grid")]
    OutsideGrid { row: usize, col: usize, grid: Grid },
    #[error("row {row}, col {col} is outside the valid mask")]
    OutsideMask { row: usize, col: usize },
    #[error("value {value} at row {row}, col {col} is not a finite number")]
    Value { value: f64, row: usize, col: usize },
    #[error("sigma {sigma} at row {row}, col {col} must be a finite number >= 0")]
    Sigma { sigma: f64, row: usize, col: usize },
    #[error(
        "{first} and {second} hold the exact values {first_value} and {second_value} for the same cell (row {row}, col {col})"
    )]
    Contradiction { first: String, second: String, first_value: f64, second_value: f64, row: usize, col: usize },
    #[error("all {budget} measurements of the budget are made or pending")]
    BudgetSpent { budget: usize },
    #[error("no cell is left that may be asked for: {reason}")]
    NothingLeft { reason: String },
    #[error("a batch of {count} points is not allowed, at least 1")]
    Count { count: usize },
    #[error("the method changed: the session was made with {recorded}, this program has {found}")]
    OtherMethod { recorded: String, found: String },
    #[error("method `{method}` makes no samples of the field")]
    NoSamples { method: String },
    #[error("row {row}, col {col}, where the route begins, is not a valid cell")]
    RouteStart { row: usize, col: usize },
}

/// What SQLite says, in words a user can act on.
fn database_reason(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => "the disk is full".into(),
        Some(rusqlite::ErrorCode::ReadOnly) => "the file is read-only".into(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            "another process is writing to it".into()
        }
        Some(rusqlite::ErrorCode::CannotOpen) => "it cannot be opened".into(),
        Some(rusqlite::ErrorCode::SystemIoFailure) => "reading or writing failed".into(),
        _ => error.to_string(),
    }
}

/// Whether an error came from a full disk, which no input explains.
pub fn is_disk_full(error: &gpara::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let by_database = inner
            .downcast_ref::<rusqlite::Error>()
            .is_some_and(|error| error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull));
        if by_database || inner.downcast_ref::<std::io::Error>().is_some_and(is_storage_full) {
            return true;
        }
        cause = inner.source();
    }
    false
}

fn is_storage_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

impl ErrorDetail for SessionError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Create { .. } | Self::Missing { .. } | Self::Database { .. } | Self::Backup { .. } => ErrorKind::Io,
            Self::NotASession { .. } | Self::Newer { .. } | Self::Damaged { .. } | Self::OtherMethod { .. } => {
                ErrorKind::Incompatible
            }
            Self::LayerSize { .. } | Self::LayerLength { .. } => ErrorKind::ShapeMismatch,
            Self::Value { .. } => ErrorKind::NonFinite,
            Self::BudgetSpent { .. } => ErrorKind::BudgetSpent,
            Self::NoSamples { .. } => ErrorKind::Unsupported,
            Self::Exists { .. }
            | Self::Setting { .. }
            | Self::LayerValue { .. }
            | Self::NoCandidates { .. }
            | Self::OutsideGrid { .. }
            | Self::OutsideMask { .. }
            | Self::Sigma { .. }
            | Self::Contradiction { .. }
            | Self::NothingLeft { .. }
            | Self::Count { .. }
            | Self::RouteStart { .. } => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Exists { .. } => "a session is never overwritten: choose another name, or remove the file yourself",
            Self::Create { .. } => "name a file in a folder you may write to",
            Self::Missing { .. } => "`gpara new` makes one",
            Self::NotASession { .. } => "session files are made by `gpara new`",
            Self::Newer { .. } => "use the version of gpara that made it, or a later one",
            Self::Database { source, .. } => match source.sqlite_error_code() {
                Some(rusqlite::ErrorCode::DiskFull) => {
                    "nothing of this command was recorded, earlier tells are safe; free some space and repeat it"
                }
                Some(rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::CannotOpen) => {
                    "nothing was recorded; the file and its folder must be writable"
                }
                _ => "nothing of this command was recorded; repeat it",
            },
            Self::Damaged { .. } => "`sqlite3 FILE 'PRAGMA integrity_check'` says more; restore it from a copy",
            Self::OutsideGrid { .. } => "rows and columns count from 0, row 0 is the top",
            Self::OutsideMask { .. } => "buildings and masked cells cannot be measured",
            Self::Contradiction { .. } => {
                "give the noise of the instrument as `sigma`, or drop one of the two; `gpara import drive-test` bins many \
                 samples a cell and finds their noise"
            }
            Self::BudgetSpent { .. } => "tell the pending points, reconstruct, or make a session with a larger budget",
            Self::OtherMethod { .. } => "use the version of gpara that made the session",
            Self::NoSamples { .. } => "a Gaussian prior makes samples",
            Self::LayerLength { .. } | Self::LayerSize { .. } => "maps and masks have one value a cell of the field",
            Self::LayerValue { .. } => "a map needs an allowed value in every cell, masked ones included",
            Self::NoCandidates { .. } => "are the masks inverted, or all candidates forbidden?",
            Self::RouteStart { .. } => "a route begins outdoors, at ROW,COL counted from 0",
            Self::Sigma { .. } => "sigma 0 stands for an exact value",
            _ => return None,
        };
        Some(text.into())
    }
}
