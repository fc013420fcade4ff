//! docs/baselines.md names the test of every trap.

use std::path::Path;

#[test]
fn users_29_every_test_that_the_card_of_a_trap_names_exists() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(package.join("../../docs/baselines.md")).unwrap();
    let (_, table) = document.split_once("## Each trap and its test").unwrap();
    let names: Vec<(&str, &str)> =
        table.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::")).collect();
    assert!(names.len() > 15, "{names:?}");
    for (file, test) in names {
        let source = std::fs::read_to_string(package.join(file)).unwrap_or_default();
        assert!(
            source.contains(&format!("#[test]\n    fn {test}(")) || source.contains(&format!("#[test]\nfn {test}(")),
            "{file}::{test}"
        );
    }
}
