//! The README's commands are the ones that work: exactly two to set up, and what CI calls.

use crate::read;

/// The lines of the fenced `sh` blocks, comments and empty lines left out.
fn commands(document: &str) -> Vec<String> {
    let mut inside = false;
    let mut commands = Vec::new();
    for line in document.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside && !line.is_empty() && !line.starts_with('#') => commands.push(line.to_string()),
            _ => {}
        }
    }
    commands
}

#[test]
fn set_up_is_exactly_two_commands_and_ci_runs_the_second() {
    let readme = read("README.md");
    let set_up = readme.split("\n## ").find(|section| section.starts_with("Set up")).expect("a section `Set up`");
    assert_eq!(commands(set_up), ["cargo run --release -- demo radio", "make check"]);
    assert!(read(".ci/run").lines().any(|line| line.starts_with("make check")), ".ci/run calls `make check`");
}

#[test]
fn pictures_of_the_readme_exist() {
    let readme = read("README.md");
    let named: Vec<&str> = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let files: Vec<&&str> = named.iter().filter(|target| !target.contains("://")).collect();
    assert!(files.iter().any(|target| target.ends_with(".png")), "the README shows a picture");
    for target in files {
        assert!(crate::workspace_root().join(target).exists(), "README.md links to `{target}`, which does not exist");
    }
}
