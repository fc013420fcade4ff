//! One public error: opaque, with a [`kind`](Error::kind) to branch on and an optional hint for people.

use std::error::Error as StdError;
use std::fmt;

/// Result of every fallible operation in gpara.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What class of failure an [`Error`] is; callers branch on this, never on message text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value given by the user is not allowed.
    InvalidInput,
    /// Two arrays, files or networks disagree about a size.
    ShapeMismatch,
    /// A factorisation met a pivot that is not positive.
    NotPositiveDefinite,
    /// A NaN or an infinity appeared where a number was needed.
    NonFinite,
    /// No measurement is left in the budget.
    BudgetSpent,
    /// A file is of another version, task or hash than required.
    Incompatible,
    /// The request needs more memory than there is.
    OutOfMemory,
    /// Reading or writing failed.
    Io,
    /// The request is understood but this build or model cannot do it.
    Unsupported,
}

/// The private detail behind an [`Error`]: an enum with fields beside the module that raises it.
///
/// Its `Display` is the message (what was wrong, the value, what is allowed; lower case, no full stop).
pub trait ErrorDetail: StdError + Send + Sync + 'static {
    /// The class of this failure.
    fn kind(&self) -> ErrorKind;

    /// What the user can do about it, if there is something to say.
    fn hint(&self) -> Option<String> {
        None
    }
}

/// The error of gpara.
///
/// # Example: branch on the kind
/// ```
/// use gpara::{ErrorKind, Grid};
///
/// let error = Grid::new(0, 5).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// ```
pub struct Error(Box<dyn ErrorDetail>);

impl Error {
    /// The class of this failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind()
    }

    /// What the user can do about it, if there is something to say.
    pub fn hint(&self) -> Option<String> {
        self.0.hint()
    }
}

impl<D: ErrorDetail> From<D> for Error {
    fn from(detail: D) -> Self {
        Self(Box::new(detail))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}
