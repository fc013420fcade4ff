//! The dependency rule of ARCHITECTURE.md and the licences of deny.toml, over `cargo metadata`.

use std::process::Command;

use serde_json::Value;

use crate::{read, workspace_root};

/// Which workspace crates a crate may use. Nothing points up.
const ALLOWED_EDGES: [(&str, &[&str]); 8] = [
    ("gpara", &[]),
    ("gpara-fuzz", &[]),
    ("gpara-nn", &["gpara", "gpara-fuzz"]),
    ("gpara-tasks", &["gpara", "gpara-fuzz"]),
    ("gpara-train", &["gpara", "gpara-nn", "gpara-tasks"]),
    ("gpara-eval", &["gpara", "gpara-tasks"]),
    ("gpara-session", &["gpara", "gpara-tasks", "gpara-fuzz"]),
    ("gpara-cli", &["gpara", "gpara-nn", "gpara-tasks", "gpara-train", "gpara-eval", "gpara-session", "gpara-fuzz"]),
];

/// What the numeric core must not pull in: file formats, networks, async, frameworks.
const CORE_FORBIDDEN: [&str; 8] = ["serde", "image", "csv", "npyz", "rten", "tch", "tokio", "clap"];

fn metadata(extra: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1"])
        .args(extra)
        .current_dir(workspace_root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text `{key}` in {value}"))
}

/// The edges of `packages` between crates of `ALLOWED_EDGES` that are not allowed, as `from -> to`.
fn forbidden_edges(packages: &[(String, Vec<String>)]) -> Vec<String> {
    let mut forbidden = Vec::new();
    for (name, dependencies) in packages {
        let allowed = ALLOWED_EDGES.iter().find(|(from, _)| from == name).map(|&(_, allowed)| allowed);
        for dependency in dependencies {
            let of_workspace = ALLOWED_EDGES.iter().any(|(crate_name, _)| crate_name == dependency);
            if of_workspace && !allowed.is_some_and(|allowed| allowed.contains(&dependency.as_str())) {
                forbidden.push(format!("{name} -> {dependency}"));
            }
        }
    }
    forbidden
}

fn workspace_packages() -> Vec<(String, Vec<String>)> {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().expect("metadata lists packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("a package lists dependencies");
            (text(package, "name").to_string(), dependencies.iter().map(|d| text(d, "name").to_string()).collect())
        })
        .collect()
}

#[test]
fn crates_follow_the_dependency_rule() {
    let packages = workspace_packages();
    let mut names: Vec<&str> = packages.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let mut known: Vec<&str> = ALLOWED_EDGES.iter().map(|&(name, _)| name).collect();
    known.sort_unstable();
    assert_eq!(names, known, "a crate was added or removed: extend ALLOWED_EDGES and ARCHITECTURE.md");
    assert_eq!(forbidden_edges(&packages), Vec::<String>::new());
}

#[test]
fn damaged_files_are_for_tests_only() {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().expect("metadata lists packages");
    let dependencies = packages.iter().flat_map(|package| package["dependencies"].as_array().expect("a list"));
    let kinds: Vec<&Value> = dependencies.filter(|d| text(d, "name") == "gpara-fuzz").map(|d| &d["kind"]).collect();
    assert_eq!(kinds, [&Value::from("dev"); 4]);
}

#[test]
fn core_has_no_format_network_or_framework_dependency() {
    let packages = workspace_packages();
    let (_, core) = packages.iter().find(|(name, _)| name == "gpara").unwrap();
    // `serde_json` reads golden files in tests only and is no dependency of the library itself.
    let found: Vec<&String> = core.iter().filter(|name| CORE_FORBIDDEN.contains(&name.as_str())).collect();
    assert!(found.is_empty(), "the core depends on {found:?}");
}

#[test]
fn dependency_check_reports_an_edge_that_points_up() {
    let packages =
        [("gpara".to_string(), vec!["gpara-nn".to_string()]), ("gpara-nn".to_string(), vec!["gpara".to_string()])];
    assert_eq!(forbidden_edges(&packages), ["gpara -> gpara-nn"]);
}

#[test]
fn default_build_has_no_training_framework() {
    let metadata = metadata(&[]);
    let root: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let defaults = root["workspace"]["default-members"].as_array().unwrap();
    assert!(!defaults.iter().any(|member| member.as_str() == Some("crates/gpara-train")));
    let cli = metadata["packages"].as_array().unwrap().iter().find(|p| text(p, "name") == "gpara-cli").unwrap();
    let train = cli["dependencies"].as_array().unwrap().iter().find(|d| text(d, "name") == "gpara-train").unwrap();
    assert_eq!(train["optional"], Value::Bool(true));
    // Named in full, so that no default feature can pull in training, directly or through another one.
    assert_eq!(cli["features"]["default"], serde_json::json!(["parquet"]), "default features of the CLI");
    assert_eq!(cli["features"]["parquet"], serde_json::json!(["gpara-tasks/parquet"]), "what `parquet` turns on");
}

/// Whether an SPDX expression is satisfied by `allowed`: some `OR` branch whose every `AND` part is allowed.
fn licence_allowed(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ");
    let or_of_ands = |part: &str| {
        part.split(" OR ").any(|branch| {
            branch
                .split(" AND ")
                .all(|licence| allowed.iter().any(|name| name == licence.trim_matches(['(', ')', ' '])))
        })
    };
    // `(A OR B) AND C` is the one nesting in use: every AND factor outside brackets must hold by itself.
    match expression.strip_prefix('(').and_then(|rest| rest.split_once(") AND ")) {
        Some((choice, rest)) => or_of_ands(choice) && or_of_ands(rest),
        None => or_of_ands(&expression),
    }
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let deny: toml::Table = toml::from_str(&read("deny.toml")).unwrap();
    let allowed: Vec<String> = deny["licenses"]["allow"]
        .as_array()
        .unwrap()
        .iter()
        .map(|licence| licence.as_str().unwrap().to_string())
        .collect();
    assert!(!licence_allowed("GPL-3.0-only", &allowed));
    assert!(!licence_allowed("(MIT OR Apache-2.0) AND GPL-3.0-only", &allowed));
    assert!(licence_allowed("GPL-3.0-only OR MIT", &allowed));

    let metadata = metadata(&[]);
    let refused: Vec<String> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(|licence| licence_allowed(licence, &allowed)))
        .map(|package| format!("{} {}: {}", text(package, "name"), text(package, "version"), package["license"]))
        .collect();
    assert!(refused.is_empty(), "not in the allow list of deny.toml: {refused:#?}");
}
