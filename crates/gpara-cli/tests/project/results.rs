//! docs/results.md and its figures are what the recorded cases say.

use std::process::Command;

use super::workspace_root;

#[test]
fn page_of_results_is_made_of_the_recorded_cases() {
    let root = workspace_root().canonicalize().unwrap();
    let recorded = std::fs::read_dir(root.join("results")).map_or(0, Iterator::count);
    assert!(recorded > 0, "results/ holds no recorded cases");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("results.md");
    let made = Command::new(root.join("scripts/results.sh"))
        .arg(&page)
        .env("GPARA", env!("CARGO_BIN_EXE_gpara"))
        .output()
        .expect("bash runs the script");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = std::fs::read_to_string(&page).unwrap();
    let committed = std::fs::read_to_string(root.join("docs/results.md")).unwrap();
    assert!(text == committed, "docs/results.md is not what scripts/results.sh writes: run it");
    for entry in std::fs::read_dir(folder.path().join("figures")).unwrap() {
        let entry = entry.unwrap();
        let figure = std::fs::read_to_string(entry.path()).unwrap();
        let committed = std::fs::read_to_string(root.join("docs/figures").join(entry.file_name())).unwrap_or_default();
        assert!(figure == committed, "docs/figures/{} is out of date", entry.file_name().display());
    }
}
