//! One line of a results file: what one method reached on one scene, and what it was made with.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use gpara::{ErrorDetail, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize};
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
    /// The numbers, by name. One that JSON cannot hold is left out: it is written and read as `null`.
    #[serde(deserialize_with = "finite_values")]
    pub values: BTreeMap<String, f64>,
}

fn finite_values<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<BTreeMap<String, f64>, D::Error> {
    let values = BTreeMap::<String, Option<f64>>::deserialize(from)?;
    Ok(values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

impl Case {
    /// Method, scene and repeat: what makes a case unique.
    pub fn key(&self) -> (&str, &str, u32) {
        (&self.method, &self.scene, self.repeat)
    }

    /// The case with some of its numbers only, to five significant digits: what is kept in the repository.
    #[must_use]
    pub fn thinned(&self, numbers: &BTreeSet<String>) -> Self {
        let rounded = |value: f64| format!("{value:.4e}").parse().unwrap_or(value);
        let kept = self.values.iter().filter(|(name, _)| numbers.contains(*name));
        Self { values: kept.map(|(name, &value)| (name.clone(), rounded(value))).collect(), ..self.clone() }
    }

    /// The line of a results file, with its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a case is plain numbers and strings") + "\n"
    }
}

/// Hash of everything that decides a method's numbers, seed, code and weights aside.
pub(crate) fn settings_hash(method: &Method, task: Task, data: &str) -> String {
    // How often a scene is run, and how many are, does not change any run.
    let method = Method { repeats: 1, first: None, ..method.clone() };
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

/// The lines of a `.jsonl.gz` file; the same cases give the same bytes.
pub fn compressed_lines(cases: &[Case]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    cases.iter().for_each(|case| encoder.write_all(case.line().as_bytes()).expect("memory takes any bytes"));
    encoder.finish().expect("memory takes any bytes")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::case;

    #[test]
    fn recorded_lines_come_back_with_five_digits_and_the_wanted_numbers() {
        let mut full = case("m", "s", "rmse", 0.123_456_789);
        full.values.insert("mae".into(), 1.0);
        let thin = full.thinned(&BTreeSet::from(["rmse".to_owned()]));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl.gz");
        std::fs::write(&path, compressed_lines(&[thin])).unwrap();
        let found = read_cases(&path).unwrap();
        assert_eq!(found[0].values, BTreeMap::from([("rmse".to_owned(), 0.12346)]));
        assert_eq!(found[0].key(), full.key());
    }

    #[test]
    fn number_that_json_cannot_hold_does_not_spoil_the_file() {
        let mut odd = case("m", "s", "rmse", 1.0);
        odd.values.insert("standardized_error".into(), f64::INFINITY);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, odd.line()).unwrap();
        assert_eq!(read_cases(&path).unwrap(), [case("m", "s", "rmse", 1.0)]);
    }

    #[test]
    fn line_that_is_no_case_is_refused_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, case("m", "s", "rmse", 1.0).line() + "{}\n").unwrap();
        let error = read_cases(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
