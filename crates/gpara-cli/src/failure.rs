//! What the command says when it cannot go on: one message, an optional hint, an exit code.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use gpara::ErrorKind;

/// Result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Whose doing a failure is; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Usage or bad input: exit code 2.
    Input,
    /// Anything else: exit code 1.
    Program,
}

/// A failure as it is shown: what was wrong, the value, what is allowed; then a hint.
#[derive(Debug)]
pub(crate) struct Failure {
    cause: Cause,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// Something the user gave is not allowed.
    pub(crate) fn input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { cause: Cause::Input, message: message.into(), hint: Some(hint.into()) }
    }

    /// A file or folder of the user cannot be read or written.
    pub(crate) fn file(action: &str, path: &Path, error: &std::io::Error, hint: impl Into<String>) -> Self {
        let failure = Self::input(format!("cannot {action} `{}`: {}", path.display(), plain(error)), hint);
        match error.kind() {
            std::io::ErrorKind::StorageFull => Self { cause: Cause::Program, ..failure },
            _ => failure,
        }
    }

    /// Something went wrong that no input explains.
    pub(crate) fn program(message: impl Into<String>) -> Self {
        Self { cause: Cause::Program, message: message.into(), hint: None }
    }

    /// The same failure with what was being done in front.
    pub(crate) fn within(self, place: impl fmt::Display) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// The same failure with another hint.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same failure with a hint where it has none.
    pub(crate) fn or_hint(self, hint: &str) -> Self {
        Self { hint: self.hint.or_else(|| Some(hint.to_string())), ..self }
    }

    /// The exit code: 2 for usage or bad input, 1 for anything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.cause {
            Cause::Input => 2,
            Cause::Program => 1,
        })
    }
}

impl Failure {
    /// The failure as an error of the library, for code that the library calls.
    pub(crate) fn into_library_error(self) -> gpara::Error {
        Callback(self).into()
    }
}

/// A failure on its way through the library.
#[derive(Debug)]
struct Callback(Failure);

impl fmt::Display for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Callback {}

impl gpara::ErrorDetail for Callback {
    fn kind(&self) -> ErrorKind {
        match self.0.cause {
            Cause::Input => ErrorKind::InvalidInput,
            Cause::Program => ErrorKind::NotPositiveDefinite,
        }
    }

    fn hint(&self) -> Option<String> {
        self.0.hint.clone()
    }
}

impl From<gpara::Error> for Failure {
    fn from(error: gpara::Error) -> Self {
        let cause = match error.kind() {
            // The matrices are ours: no input of a user makes a precision indefinite.
            ErrorKind::NotPositiveDefinite => Cause::Program,
            _ if gpara_session::is_disk_full(&error) => Cause::Program,
            _ => Cause::Input,
        };
        Self { cause, message: error.to_string(), hint: error.hint() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// An I/O error without the operating system's number: `No such file or directory (os error 2)` ends at the bracket.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_error_keeps_message_and_hint() {
        let grid = gpara::Grid::new(1, 2).unwrap();
        let failure = Failure::from(gpara::ValidMask::new(grid, vec![false; 2]).unwrap_err()).within("mask.png");
        assert_eq!(
            failure.to_string(),
            "error: mask.png: all 2 cells of the 1x2 mask are invalid, at least one must be valid\n\nhint: is the mask inverted?"
        );
        assert_eq!(failure.cause, Cause::Input);
    }

    #[test]
    fn file_error_names_action_path_and_reason() {
        let error = std::fs::read("/no/such/file").unwrap_err();
        let failure = Failure::file("read", Path::new("/no/such/file"), &error, "check the path");
        assert_eq!(
            failure.to_string(),
            "error: cannot read `/no/such/file`: no such file or directory\n\nhint: check the path"
        );
    }
}
