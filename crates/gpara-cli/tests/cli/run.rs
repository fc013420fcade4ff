//! `gpara run`: any field, resumable, same result however often it was stopped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{files, gpara};

/// The repository's `configs/`.
fn configs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs")
}

/// The example configuration with other settings, beside its data, in a folder of its own.
fn example(folder: &Path, change: &[(&str, &str)]) {
    std::fs::create_dir_all(folder.join("data")).unwrap();
    for name in ["data/wave.csv", "data/wave_mask.csv"] {
        std::fs::copy(configs().join(name), folder.join(name)).unwrap();
    }
    let mut text = std::fs::read_to_string(configs().join("run_wave.toml")).unwrap();
    for (from, to) in change {
        assert!(text.contains(from), "`{from}` is in the example");
        text = text.replace(from, to);
    }
    std::fs::write(folder.join("run.toml"), text).unwrap();
}

/// Files of a run by name; seconds and folder names, which may differ between equal runs, are taken out.
fn comparable(out: &Path) -> BTreeMap<String, String> {
    let readable = |(name, bytes): (String, Vec<u8>)| {
        let text = match name.rsplit('.').next() {
            Some("json") => cleaned(&serde_json::from_slice::<Value>(&bytes).unwrap()),
            Some("jsonl") => {
                let lines = std::str::from_utf8(&bytes).unwrap().lines();
                lines.map(|line| cleaned(&serde_json::from_str::<Value>(line).unwrap())).collect::<Vec<_>>().join("\n")
            }
            _ => format!("{bytes:?}"),
        };
        (name, text)
    };
    files(out).into_iter().map(readable).collect()
}

fn cleaned(value: &Value) -> String {
    let mut value = value.clone();
    clean(&mut value);
    value.to_string()
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.remove("seconds");
            object.remove("selection_seconds");
            object.remove("out");
            object.values_mut().for_each(clean);
        }
        Value::Array(array) => array.iter_mut().for_each(clean),
        _ => {}
    }
}

#[track_caller]
fn assert_same(first: &Path, second: &Path) {
    let (first, second) = (comparable(first), comparable(second));
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (name, content) in &first {
        assert!(second[name] == *content, "{name} differs");
    }
}

#[test]
fn run_measures_the_budget_inside_the_mask_and_scores_it() {
    let folder = tempfile::tempdir().unwrap();
    example(folder.path(), &[]);
    let summary = gpara(folder.path(), "run run.toml --json --out out").success().json();
    assert_eq!(summary["active"]["points"], 60);
    assert_eq!(summary["active"]["cells"], 1888);
    assert!(summary["active"]["rmse"].as_f64().unwrap() < 0.3 * summary["prior"]["rmse"].as_f64().unwrap());
    let out = files(&folder.path().join("out"));
    let log = String::from_utf8(out["rounds.jsonl"].clone()).unwrap();
    let rounds: Vec<Value> = log.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        rounds.iter().map(|round| round["points"].as_array().unwrap().len()).collect::<Vec<_>>(),
        [8, 8, 8, 8, 8, 8, 8, 4]
    );
    let mask = std::fs::read_to_string(configs().join("data/wave_mask.csv")).unwrap();
    let mask: Vec<Vec<&str>> = mask.lines().map(|line| line.split(',').collect()).collect();
    for point in rounds.iter().flat_map(|round| round["points"].as_array().unwrap()) {
        let at = |key: &str| point[key].as_u64().unwrap() as usize;
        assert_eq!(mask[at("row")][at("col")], "1", "{point} is a valid cell");
        assert_eq!(at("node"), at("row") * 53 + at("col"));
    }
}

#[test]
fn same_values_as_csv_npy_and_png_give_the_same_points() {
    let folder = tempfile::tempdir().unwrap();
    // Values that 16 bits hold exactly: multiples of 1/64 in 0..=16.
    let (rows, cols) = (9usize, 13usize);
    let steps: Vec<u16> = (0..rows * cols).map(|node| ((node * node * 31 + 7 * node) % 1025) as u16).collect();
    let value = |step: u16| f64::from(step) / 64.0;
    let text: Vec<String> = steps
        .chunks(cols)
        .map(|row| row.iter().map(|&step| value(step).to_string()).collect::<Vec<_>>().join(","))
        .collect();
    std::fs::write(folder.path().join("field.csv"), text.join("\n")).unwrap();
    let image = image::ImageBuffer::from_fn(cols as u32, rows as u32, |x, y| {
        image::Luma([steps[y as usize * cols + x as usize]])
    });
    image.save(folder.path().join("field.png")).unwrap();
    let mut npy = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    npy.push_str(&" ".repeat(64 - (10 + npy.len() + 1) % 64));
    npy.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((npy.len() as u16).to_le_bytes());
    bytes.extend(npy.as_bytes());
    steps.iter().for_each(|&step| bytes.extend(value(step).to_le_bytes()));
    std::fs::write(folder.path().join("field.npy"), bytes).unwrap();

    for ending in ["csv", "npy", "png"] {
        let scale = if ending == "png" { "png_scale = { offset = 0.0, step = 0.015625 }" } else { "" };
        let config = format!(
            "[field]\npath = \"field.{ending}\"\nrange = [0.0, 16.1]\n{scale}\n[run]\npreset = \"gaussian\"\npolicy = \"active\"\nbudget = 20\n"
        );
        // The configuration's own hash is in the log, so each format has its folder and the same file name.
        let own = folder.path().join(ending);
        std::fs::create_dir(&own).unwrap();
        std::fs::rename(folder.path().join(format!("field.{ending}")), own.join(format!("field.{ending}"))).unwrap();
        std::fs::write(own.join("run.toml"), config).unwrap();
        gpara(&own, "run run.toml --quiet --out out").success();
    }
    let points = |ending: &str| std::fs::read(folder.path().join(ending).join("out/run_active_points.csv")).unwrap();
    let field = |ending: &str| std::fs::read(folder.path().join(ending).join("out/run_active_field.png")).unwrap();
    assert!(points("csv") == points("npy") && points("csv") == points("png"));
    assert!(field("csv") == field("npy") && field("csv") == field("png"));
}

#[test]
fn killed_run_goes_on_and_ends_like_an_uninterrupted_one() {
    for policy in ["active", "random", "farthest-point"] {
        let folder = tempfile::tempdir().unwrap();
        let named = format!("policy = \"{policy}\"");
        example(folder.path(), &[("policy = \"active\"", &named), ("budget = 60", "budget = 240")]);
        gpara(folder.path(), "run run.toml --quiet --out whole").success();

        let log = folder.path().join("cut/rounds.jsonl");
        let mut child = Command::new(env!("CARGO_BIN_EXE_gpara"))
            .args(["run", "run.toml", "--quiet", "--out", "cut"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let lines = || std::fs::read(&log).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count());
        while lines() < 6 {
            assert!(Instant::now() < deadline, "no rounds appear in {}", log.display());
        }
        // SIGKILL: the program cannot clean up.
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!folder.path().join("cut/summary.json").exists(), "the kill came in the middle of the rounds");
        // What a kill during the write of a line would leave.
        let mut bytes = std::fs::read(&log).unwrap();
        bytes.extend(b"{\"round\":7,\"num_obs");
        std::fs::write(&log, bytes).unwrap();

        let resumed = gpara(folder.path(), "run run.toml --out cut").success();
        assert!(resumed.stderr.contains("going on after "), "{}", resumed.stderr);
        assert_same(&folder.path().join("whole"), &folder.path().join("cut"));
    }
}

#[test]
fn finished_run_repeated_leaves_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    example(folder.path(), &[]);
    for _ in 0..2 {
        gpara(folder.path(), "run run.toml --quiet --out first").success();
    }
    gpara(folder.path(), "run run.toml --quiet --threads 1 --out second").success();
    assert_same(&folder.path().join("first"), &folder.path().join("second"));
}

#[test]
fn log_of_other_settings_or_seed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    example(folder.path(), &[]);
    gpara(folder.path(), "run run.toml --quiet --out out").success();
    let refused = gpara(folder.path(), "run run.toml --seed 5 --out out");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("seed 0 instead of 5"), "{}", refused.stderr);
    example(folder.path(), &[("budget = 60", "budget = 61")]);
    let refused = gpara(folder.path(), "run run.toml --out out");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("belongs to another run") && refused.stderr.contains("hint: "),
        "{}",
        refused.stderr
    );
}

#[test]
fn grids_of_one_row_or_one_column_run() {
    for (rows, cols) in [(1, 12), (12, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let values: Vec<String> = (0..12).map(|node| (f64::from(node) * 0.5).to_string()).collect();
        let text = if rows == 1 { values.join(",") } else { values.join("\n") };
        std::fs::write(folder.path().join("line.csv"), text).unwrap();
        let config = "[field]\npath = \"line.csv\"\nrange = [0.0, 6.0]\n[run]\npreset = \"gaussian\"\npolicy = \"active\"\nbudget = 12\n";
        std::fs::write(folder.path().join("run.toml"), config).unwrap();
        let summary = gpara(folder.path(), "run run.toml --json --quiet --out out").success().json();
        assert_eq!(summary["active"]["points"], 12, "{rows}x{cols}");
        assert!(summary["active"]["rmse"].as_f64().unwrap() < 1e-2, "every cell is measured");
        assert!(summary["active"]["rmse_unobserved"].is_null(), "no cell is unobserved");
    }
}

#[test]
fn example_configurations_are_read() {
    // A budget of 3 keeps the larger example short.
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(configs()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        if !name.starts_with("run_") || path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text: Vec<&str> =
            text.lines().map(|line| if line.starts_with("budget") { "budget = 3" } else { line }).collect();
        let absolute = |text: String| text.replace("= \"data/", &format!("= \"{}/data/", configs().display()));
        let absolute = |text: String| absolute(text).replace("= \"../", &format!("= \"{}/../", configs().display()));
        std::fs::write(folder.path().join("run.toml"), absolute(text.join("\n"))).unwrap();
        let summary = gpara(folder.path(), &format!("run run.toml --json --quiet --out {name}")).success().json();
        assert_eq!(summary["active"]["points"], 3, "{name}");
    }
}
