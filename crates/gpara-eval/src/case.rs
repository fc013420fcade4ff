//! One line of a results file: what one method reached on one scene, and what it was made with.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use gpara::{ErrorDetail, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error as ThisError;

use crate::method::Method;
use crate::task::Task;

/// One method on one scene.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name of the method.
    pub method: String,
    /// Id of the scene.
    pub scene: String,
    /// Number of the run of this scene, from 0.
    pub repeat: u32,
    /// Root seed of the evaluation.
    pub seed: u64,
    /// Hash of all settings of the method and of the data.
    pub settings: String,
    /// Hash of the sources.
    pub code: String,
    /// Hash of each network that was used, by name.
    pub weights: BTreeMap<String, String>,
    /// Hash of the measured nodes.
    pub points: String,
    /// The numbers, by name.
    pub values: BTreeMap<String, f64>,
}

impl Case {
    /// Method, scene and repeat: what makes a case unique.
    pub fn key(&self) -> (&str, &str, u32) {
        (&self.method, &self.scene, self.repeat)
    }

    /// The line of a results file, with its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a case is plain numbers and strings") + "\n"
    }
}

/// Hash of everything that decides a method's numbers, seed, code and weights aside.
pub(crate) fn settings_hash(method: &Method, task: Task, data: &str) -> String {
    // How often a scene is run does not change any run.
    let method = Method { repeats: 1, ..method.clone() };
    let text = serde_json::to_string(&(method, task, data)).expect("settings are plain numbers and strings");
    Sha256::digest(text.as_bytes())[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a results file, `.jsonl` or `.jsonl.gz`. A last line without an end is dropped.
///
/// # Errors
/// `Io` if it cannot be read, `Incompatible` if a whole line is not a case.
pub fn read_cases(path: &Path) -> Result<Vec<Case>> {
    let io = |source| CaseError::Io { path: path.into(), source };
    let bytes = std::fs::read(path).map_err(io)?;
    let mut text = String::new();
    match path.extension().is_some_and(|extension| extension == "gz") {
        true => flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).map_err(io)?,
        false => bytes.as_slice().read_to_string(&mut text).map_err(io)?,
    };
    let mut cases = Vec::new();
    for (place, line) in text.split_inclusive('\n').enumerate().filter(|(_, line)| line.ends_with('\n')) {
        let case = serde_json::from_str(line).map_err(|source| CaseError::Line {
            path: path.into(),
            number: place + 1,
            source,
        })?;
        cases.push(case);
    }
    Ok(cases)
}

#[derive(Debug, ThisError)]
enum CaseError {
    #[error("cannot read results file {path}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("line {number} of results file {path} is not a case: {source}")]
    Line { path: PathBuf, number: usize, source: serde_json::Error },
}

impl ErrorDetail for CaseError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::Io,
            Self::Line { .. } => ErrorKind::Incompatible,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } => None,
            Self::Line { .. } => Some("give another --out folder, or remove the file".into()),
        }
    }
}
