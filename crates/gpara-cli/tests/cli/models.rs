//! `gpara models`: what is embedded is what lies in `models/`.

use std::path::Path;

use crate::program::gpara;

/// Names of the networks in `models/`.
pub(crate) fn committed() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "onnx"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn models_lists_every_committed_network() {
    let folder = tempfile::tempdir().unwrap();
    let listed = gpara(folder.path(), "models --json").success().json();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|model| model["name"].as_str().unwrap()).collect();
    assert_eq!(names, committed());
    assert!(listed.as_array().unwrap().iter().all(|model| model["bytes"].as_u64().unwrap() <= 24 << 20));
    let text = gpara(folder.path(), "models").success().stdout;
    assert!(committed().iter().all(|name| text.contains(name.as_str())), "{text}");
}

#[test]
fn models_verify_recomputes_every_golden_output() {
    let folder = tempfile::tempdir().unwrap();
    let verified = gpara(folder.path(), "models verify --json").success().json();
    assert_eq!(verified.as_array().unwrap().len(), committed().len());
    for model in verified.as_array().unwrap() {
        assert!(model["num_values"].as_u64().unwrap() > 0);
        assert!(model["max_difference"].as_f64().unwrap() <= model["tolerance"].as_f64().unwrap());
    }
}
