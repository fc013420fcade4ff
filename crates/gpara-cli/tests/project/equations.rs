//! docs/equations.md names, for each equation of the paper, the function that computes it and the test that checks it.

use std::path::PathBuf;

use crate::{read, workspace_root};

struct Row {
    tag: String,
    functions: Vec<String>,
    tests: Vec<String>,
    later: bool,
}

/// Every label the paper uses, in its order, then those of gpara's own equations.
fn expected_tags() -> Vec<String> {
    let body = (1..=15).map(|number| number.to_string());
    let named = ["Prop. 1", "Prop. 2", "Cor. 1", "Lemma 1", "calibrated score", "Algorithm 1"].map(String::from);
    let appendix_b = (1..=37).map(|number| format!("B.{number}"));
    let appendix_c = (1..=15).map(|number| format!("C.{number}"));
    let own = (1..=21).map(|number| format!("G.{number}"));
    body.chain(named).chain(appendix_b).chain(appendix_c).chain(own).collect()
}

/// The rows `| tag | meaning | function | test |` of the table.
fn rows(document: &str) -> Vec<Row> {
    let in_backticks = |cell: &str| cell.split('`').skip(1).step_by(2).map(String::from).collect::<Vec<_>>();
    document
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| cells.len() == 4 && cells[0] != "equation" && !cells[0].starts_with('-'))
        .map(|cells| Row {
            tag: cells[0].to_string(),
            functions: in_backticks(cells[2]),
            tests: in_backticks(cells[3]),
            later: cells[2] == "later" || cells[3] == "later",
        })
        .collect()
}

/// The source file of a path such as `gpara::posterior::exact::Factor::solve`, and what is left of the path.
///
/// Lower-case segments that name a file or folder are modules; `gpara/tests/golden.rs::name` names an integration test.
fn source_of(path: &str) -> Result<(PathBuf, Vec<String>), String> {
    let mut segments: Vec<&str> = path.split("::").collect();
    let first = segments.remove(0);
    if first.ends_with(".rs") {
        return Ok((workspace_root().join("crates").join(first), segments.into_iter().map(String::from).collect()));
    }
    let mut folder = workspace_root().join("crates").join(first.replace('_', "-")).join("src");
    let mut file = folder.join("lib.rs");
    if !file.exists() {
        file = folder.join("main.rs");
    }
    while let Some(&segment) = segments.first() {
        let as_file = folder.join(format!("{segment}.rs"));
        let as_folder = folder.join(segment);
        file = match (as_file.exists(), as_folder.join("mod.rs").exists()) {
            (true, _) => as_file,
            (false, true) => as_folder.join("mod.rs"),
            (false, false) => break,
        };
        folder = as_folder;
        segments.remove(0);
    }
    if segments.is_empty() {
        return Err(format!("`{path}` names a module, not an item"));
    }
    Ok((file, segments.into_iter().map(String::from).collect()))
}

/// Whether the source text defines an item of that name.
fn defines(source: &str, name: &str) -> bool {
    ["fn", "struct", "enum", "trait", "const", "type"].iter().any(|keyword| {
        source.match_indices(&format!("{keyword} {name}")).any(|(at, found)| {
            let before_is_word = source[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
            let after_is_word =
                source[at + found.len()..].chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_');
            !before_is_word && !after_is_word
        })
    })
}

/// Whether the source text defines a test of that name: `#[test]` or a macro's `name =>`-free `fn` after the attribute.
fn defines_test(source: &str, name: &str) -> bool {
    let Some(at) = source.find(&format!("fn {name}(")) else { return false };
    let before = &source[..at];
    let attribute = before.rfind("#[test]");
    // No other function begins between the attribute and the name.
    attribute.is_some_and(|attribute| !before[attribute..].contains("fn "))
}

fn check(path: &str, is_test: bool) -> Result<(), String> {
    let (file, items) = source_of(path)?;
    let source = std::fs::read_to_string(&file).map_err(|error| format!("`{path}`: {}: {error}", file.display()))?;
    let (name, types) = items.split_last().ok_or_else(|| format!("`{path}` names no item"))?;
    let types: Vec<&String> = types.iter().filter(|segment| *segment != "tests").collect();
    if let Some(missing) = types.iter().find(|name| !source.contains(name.as_str())) {
        return Err(format!("`{path}`: `{missing}` is not in {}", file.display()));
    }
    let found = if is_test { defines_test(&source, name) } else { defines(&source, name) };
    if found { Ok(()) } else { Err(format!("`{path}`: `{name}` is not defined in {}", file.display())) }
}

#[test]
fn every_equation_has_one_row_in_order() {
    let found: Vec<String> = rows(&read("docs/equations.md")).into_iter().map(|row| row.tag).collect();
    assert_eq!(found, expected_tags());
}

#[test]
fn every_named_function_and_test_exists() {
    let mut failures = Vec::new();
    for row in rows(&read("docs/equations.md")) {
        let named = row.functions.iter().map(|path| (path, false)).chain(row.tests.iter().map(|path| (path, true)));
        failures.extend(
            named.filter_map(|(path, is_test)| check(path, is_test).err()).map(|e| format!("{}: {e}", row.tag)),
        );
        if !row.later && (row.functions.is_empty() || row.tests.is_empty()) {
            failures.push(format!("{}: name a function and a test, or say later", row.tag));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn number_of_rows_marked_later_is_as_stated() {
    let document = read("docs/equations.md");
    let later = rows(&document).iter().filter(|row| row.later).count();
    let stated = format!("Rows marked later: {later}.");
    assert!(document.contains(&stated), "docs/equations.md must say: {stated}");
}

#[test]
fn checker_refuses_what_does_not_exist() {
    assert!(check("gpara::schedule::NoiseSchedule::no_such_function", false).is_err());
    assert!(check("gpara::schedule::NoSuchType::clean_estimate", false).is_err());
    assert!(check("gpara::no_such_module::item", false).is_err());
    assert!(check("gpara::schedule::no_such_test", true).is_err());
    // A function without `#[test]` is no test.
    assert!(check("gpara::grid::node", true).is_err());
    assert!(check("gpara::grid::Grid::node", false).is_ok());
}
