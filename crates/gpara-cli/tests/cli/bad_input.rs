//! Bad input: exit code 2, one message with the value and what is allowed, a hint, and nothing half-written.

use std::path::Path;

use crate::program::{files, gpara};

/// A command that must be refused.
pub(crate) struct Case {
    pub(crate) arguments: &'static str,
    /// Parts of the message: the value, and what is allowed.
    pub(crate) says: &'static [&'static str],
}

/// Runs every case in a folder and reports all that fail.
pub(crate) fn check(folder: &Path, cases: &[Case]) {
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

/// A configuration over `field.csv` (2 x 3, values 1 to 6) with lines put in or changed.
fn config(field: &str, run: &str) -> String {
    let run_keys = ["preset = \"gaussian\"", "policy = \"active\"", "budget = 2"];
    let run_lines = run_keys.iter().filter(|line| !run.contains(line.split(' ').next().unwrap())).copied();
    let path = if field.contains("path") { "" } else { "path = \"field.csv\"\n" };
    let range = if field.contains("range") { "" } else { "range = [0.0, 7.0]\n" };
    format!("[field]\n{path}{range}{field}\n[run]\n{}\n{run}\n", run_lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn run_refuses_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("field.csv", "1,2,3\n4,5,6\n");
    write("nan.csv", "1,2,3\n4,nan,6\n");
    write("ragged.csv", "1,2,3\n4,5\n");
    write("text.txt", "1,2,3\n");
    write("broken.png", "not a picture");
    write("wide_mask.csv", "1,1,1,1\n1,1,1,1\n");
    write("empty_mask.csv", "0,0,0\n0,0,0\n");
    write("gray_mask.csv", "0,1,7\n0,1,1\n");
    image::ImageBuffer::from_fn(3, 2, |x, _| image::Luma([x as u8])).save(folder.path().join("plain.png")).unwrap();
    write("wrong_preset.toml", "about = \"x\"\nfast = true\n");
    let marks = "mask_marks = \"valid\"";
    let masked = |mask: &str| config(&format!("mask = \"{mask}\"\n{marks}"), "");
    for (name, text) in [
        ("good", config("", "")),
        ("no_field", config("path = \"missing.csv\"", "")),
        ("nan", config("path = \"nan.csv\"", "")),
        ("ragged", config("path = \"ragged.csv\"", "")),
        ("ending", config("path = \"text.txt\"", "")),
        ("broken", config("path = \"broken.png\"", "")),
        ("no_scale", config("path = \"plain.png\"", "")),
        ("bad_scale", config("path = \"plain.png\"\npng_scale = { offset = 0.0, step = 0.0 }", "")),
        ("narrow", config("range = [0.0, 5.5]", "")),
        ("turned", config("range = [7.0, 0.0]", "")),
        ("mask_shape", masked("wide_mask.csv")),
        ("mask_empty", masked("empty_mask.csv")),
        ("mask_value", masked("gray_mask.csv")),
        ("mask_missing", masked("missing.csv")),
        ("mask_polarity", config("mask = \"wide_mask.csv\"", "")),
        ("budget_zero", config("", "budget = 0")),
        ("budget_large", config("", "budget = 7")),
        ("noise", config("", "noise_std = -0.5")),
        ("preset", config("", "preset = \"fast\"")),
        ("preset_file", config("", "preset = \"wrong_preset.toml\"")),
        ("policy", config("", "policy = \"lucky\"")),
        ("unknown_key", config("", "speed = 3")),
        ("not_toml", "[field\n".to_string()),
        (
            "no_budget",
            "[field]\npath = \"field.csv\"\nrange = [0.0, 7.0]\n[run]\npreset = \"gaussian\"\npolicy = \"active\"\n"
                .to_string(),
        ),
        ("channel", config("", "") + "[channels]\nbuilding = \"wide_mask.csv\"\n"),
    ] {
        write(&format!("{name}.toml"), &text);
    }
    check(
        folder.path(),
        &[
            Case { arguments: "run missing.toml --out out", says: &["`missing.toml`", "no such file"] },
            Case { arguments: "run no_field.toml --out out", says: &["missing.csv", "no such file"] },
            Case { arguments: "run nan.toml --out out", says: &["nan.csv", "NaN", "row 1, col 1"] },
            Case { arguments: "run ragged.toml --out out", says: &["ragged.csv", "line 2", "2 values"] },
            Case {
                arguments: "run ending.toml --out out",
                says: &["text.txt", ".png, .npy, .npz, .csv, .tif, .tiff and .asc are"],
            },
            Case { arguments: "run broken.toml --out out", says: &["broken.png", "not a readable PNG"] },
            Case { arguments: "run no_scale.toml --out out", says: &["plain.png", "scale"] },
            Case { arguments: "run bad_scale.toml --out out", says: &["step 0", "not 0"] },
            Case { arguments: "run narrow.toml --out out", says: &["value 6 at row 1, col 2", "0 to 5.5"] },
            Case { arguments: "run turned.toml --out out", says: &["[7, 0]", "the first below the second"] },
            Case { arguments: "run mask_shape.toml --out out", says: &["2x3", "2x4"] },
            Case { arguments: "run mask_empty.toml --out out", says: &["all 6 cells", "at least one must be valid"] },
            Case {
                arguments: "run mask_value.toml --out out",
                says: &["gray_mask.csv", "7", "row 0, col 2", "0 and 1"],
            },
            Case { arguments: "run mask_missing.toml --out out", says: &["missing.csv"] },
            Case { arguments: "run mask_polarity.toml --out out", says: &["mask_marks", "valid or invalid"] },
            Case { arguments: "run budget_zero.toml --out out", says: &["run.budget = 0", "1 to 6"] },
            Case { arguments: "run budget_large.toml --out out", says: &["run.budget = 7", "1 to 6"] },
            Case { arguments: "run noise.toml --out out", says: &["run.noise_std = -0.5", "> 0"] },
            Case { arguments: "run preset.toml --out out", says: &["preset `fast`", "paper, best, gaussian"] },
            Case {
                arguments: "run preset_file.toml --out out",
                says: &["wrong_preset.toml", "line 2", "unknown field `fast`"],
            },
            Case { arguments: "run policy.toml --out out", says: &["`lucky`", "random, farthest-point, active"] },
            Case { arguments: "run unknown_key.toml --out out", says: &["unknown_key.toml", "unknown field `speed`"] },
            Case { arguments: "run not_toml.toml --out out", says: &["not_toml.toml", "line 1"] },
            Case { arguments: "run no_budget.toml --out out", says: &["missing field `budget`"] },
            Case { arguments: "run channel.toml --out out", says: &["`building`", "8 values", "6 cells"] },
            Case { arguments: "run good.toml --out field.csv", says: &["`field.csv`"] },
            Case { arguments: "run good.toml --out /proc/out", says: &["`/proc/out`"] },
        ],
    );
    // The same configuration without a fault runs.
    assert_eq!(gpara(folder.path(), "run good.toml --quiet --out out").code, 0);
}

#[test]
fn inspect_refuses_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "1").unwrap();
    std::fs::write(folder.path().join("b.csv"), "1,x\n").unwrap();
    check(
        folder.path(),
        &[
            Case { arguments: "inspect missing.csv", says: &["missing.csv"] },
            Case { arguments: "inspect a.txt", says: &["a.txt", ".tif, .tiff and .asc"] },
            Case { arguments: "inspect b.csv", says: &["b.csv", "line 1", "`x`"] },
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
