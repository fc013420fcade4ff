//! Checks of the project itself: dependency rule, licences, the equation table, the README, the results.

#![allow(clippy::unwrap_used, reason = "a test may panic, and helpers of tests are not marked as tests")]

mod architecture;
mod equations;
mod portable;
mod readme;
mod results;

use std::path::{Path, PathBuf};

/// The root of the workspace.
fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file of the workspace.
fn read(path: &str) -> String {
    let path = workspace_root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
