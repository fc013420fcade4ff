//! Bad input: exit code 2, one message with the value and what is allowed, a hint, and nothing half-written.

use std::path::Path;

use crate::program::{files, gpara};

struct Case {
    arguments: &'static str,
    /// Parts of the message: the value, and what is allowed.
    says: &'static [&'static str],
}

/// Runs every case in a folder and reports all that fail.
fn check(folder: &Path, cases: &[Case]) {
    let before = files(folder);
    let mut failures = Vec::new();
    for case in cases {
        let run = gpara(folder, case.arguments);
        let mut wrong = Vec::new();
        if run.code != 2 {
            wrong.push(format!("exit code {} instead of 2", run.code));
        }
        if !run.stdout.is_empty() {
            wrong.push("data on stdout".to_string());
        }
        let message = run.stderr.trim_end();
        let well_formed = message.lines().next().is_some_and(|line| line.starts_with("error: "));
        if !well_formed || message.matches("error: ").count() != 1 {
            wrong.push("not one line that begins with `error: `".to_string());
        }
        if !message.contains("\n\nhint: ") {
            wrong.push("no hint after a blank line".to_string());
        }
        wrong.extend(
            case.says.iter().filter(|part| !message.contains(**part)).map(|part| format!("does not say `{part}`")),
        );
        if files(folder) != before {
            wrong.push(format!("left files: {:?}", files(folder).keys()));
        }
        if !wrong.is_empty() {
            failures.push(format!("gpara {}\n  {}\n  said: {message}", case.arguments, wrong.join("\n  ")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn demo_refuses_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "not a folder").unwrap();
    check(
        folder.path(),
        &[
            Case { arguments: "demo radio --preset gaussian --budget 0 --out out", says: &["budget 0", "1 to 12237"] },
            Case {
                arguments: "demo radio --preset gaussian --budget 16000 --out out",
                says: &["budget 16000", "1 to 12237"],
            },
            Case { arguments: "demo radio --preset fast --out out", says: &["preset `fast`", "paper, best, gaussian"] },
            Case { arguments: "demo radio --preset gaussian --scene 12 --out out", says: &["scene `12`", "0 to 11"] },
            Case { arguments: "demo radio --preset gaussian --scene x --out out", says: &["scene `x`", "`all`"] },
            Case { arguments: "demo radio --preset gaussian --budget 9 --out file", says: &["`file`"] },
            Case { arguments: "demo radio --preset gaussian --budget 9 --out /proc/out", says: &["`/proc/out`"] },
            Case {
                arguments: "demo radio --preset gaussian --budget 9 --policy max-variance --out out",
                says: &["policy `max-variance`", "preset `gaussian`"],
            },
        ],
    );
}

#[test]
fn usage_errors_end_with_code_two() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in ["demo", "demo sea", "demo radio --budget many", "nonsense", "demo radio --threads 0", ""] {
        let run = gpara(folder.path(), arguments);
        assert_eq!(run.code, 2, "gpara {arguments}: {}", run.stderr);
        assert!(run.stdout.is_empty() && !run.stderr.is_empty());
    }
    assert!(files(folder.path()).is_empty());
}
