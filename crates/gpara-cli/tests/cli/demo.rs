//! `gpara demo radio` with the preset that needs no weights.

use serde_json::Value;

use crate::program::{files, gpara};

const SMALL: &str = "demo radio --preset gaussian --budget 40 --quiet";

#[test]
fn demo_json_has_the_promised_keys_and_active_beats_random() {
    let folder = tempfile::tempdir().unwrap();
    let run = gpara(folder.path(), &format!("{SMALL} --json --out out")).success();
    assert_eq!(run.stderr, "");
    let summary = run.json();
    for method in ["prior", "random", "farthest_point", "active"] {
        for key in
            ["rmse", "mae", "rmse_db", "mae_db", "seconds", "selection_seconds", "network_calls", "cells", "points"]
        {
            assert!(summary[method][key].is_number(), "{method}.{key}");
        }
        let points = if method == "prior" { 0.0 } else { 40.0 };
        assert_eq!(summary[method]["points"].as_f64(), Some(points));
    }
    let rmse = |method: &str| summary[method]["rmse"].as_f64().unwrap();
    assert!(rmse("active") < rmse("random") && rmse("random") < rmse("prior"), "{summary:#}");
    // One grey level of 255 is 0.389 dB.
    let ratio = summary["active"]["rmse_db"].as_f64().unwrap() / rmse("active");
    assert!((ratio - 99.16).abs() < 1e-9, "{ratio}");
}

#[test]
fn demo_writes_maps_points_and_an_offline_report() {
    let folder = tempfile::tempdir().unwrap();
    let run = gpara(folder.path(), &format!("{SMALL} --json --out out/deep")).success();
    let found = files(&folder.path().join("out/deep"));
    let mut listed: Vec<String> =
        run.json()["files"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_string()).collect();
    listed.push("summary.json".to_string());
    listed.sort();
    assert_eq!(found.keys().cloned().collect::<Vec<_>>(), listed, "no file is left over or missing");
    for method in ["random", "farthest_point", "active"] {
        for map in ["field", "std", "error"] {
            let lossless = &found[&format!("sample_0_{method}_{map}.png")];
            // Bit depth 16, colour type grey: bytes 24 and 25 of a PNG.
            assert_eq!((&lossless[1..4], lossless[24], lossless[25]), (&b"PNG"[..], 16, 0));
            assert!(found.contains_key(&format!("sample_0_{method}_{map}_vis.png")));
        }
        let points = String::from_utf8(found[&format!("sample_0_{method}_points.csv")].clone()).unwrap();
        assert_eq!(points.lines().next(), Some("order,row,col,value,unit,score,expected_risk_drop"));
        let mut cells: Vec<&str> = points.lines().skip(1).map(|line| line.split_once(',').unwrap().1).collect();
        assert_eq!(cells.len(), 40);
        cells.sort_unstable();
        cells.dedup();
        assert_eq!(cells.len(), 40, "no cell is measured twice");
    }
    let report = String::from_utf8(found["report.html"].clone()).unwrap();
    assert!(!report.contains("http:") && !report.contains("https:") && !report.contains("<script"));
    assert_eq!(report.matches("<figure class=\"map\"").count(), 5 + 4 + 3);
}

#[test]
fn same_seed_gives_the_same_files_for_one_and_two_threads() {
    let folder = tempfile::tempdir().unwrap();
    for threads in [1, 2] {
        gpara(folder.path(), &format!("{SMALL} --seed 7 --threads {threads} --out out{threads}")).success();
    }
    let mut first = files(&folder.path().join("out1"));
    let mut second = files(&folder.path().join("out2"));
    // The summary holds the seconds and the folder; everything else in it must agree.
    let mut summaries = [&mut first, &mut second]
        .map(|found| -> Value { serde_json::from_slice(&found.remove("summary.json").unwrap()).unwrap() });
    summaries.iter_mut().for_each(without_clock);
    assert_eq!(summaries[0], summaries[1]);
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (name, bytes) in &first {
        assert!(second[name] == *bytes, "{name} differs between 1 and 2 threads");
    }

    gpara(folder.path(), &format!("{SMALL} --seed 8 --threads 2 --out out3")).success();
    let other = files(&folder.path().join("out3"));
    assert!(other["sample_0_random_points.csv"] != first["sample_0_random_points.csv"], "the seed has an effect");
}

/// Removes what depends on the clock or the folder's name.
fn without_clock(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.remove("seconds");
            object.remove("selection_seconds");
            object.remove("out");
            object.values_mut().for_each(without_clock);
        }
        Value::Array(array) => array.iter_mut().for_each(without_clock),
        _ => {}
    }
}

#[test]
fn table_goes_to_stdout_and_the_log_to_stderr() {
    let folder = tempfile::tempdir().unwrap();
    let run =
        gpara(folder.path(), "demo radio --preset gaussian --budget 9 --scene 5 --policy active --out out").success();
    let lines: Vec<&str> = run.stdout.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines[0].starts_with("sample_5: 128x128 grid, "), "{}", run.stdout);
    let names: Vec<&str> = lines[1..4].iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["method", "prior", "active"]);
    assert_eq!(lines[4], "report: out/report.html");
    assert_eq!(run.stderr, "writing to out\n", "no progress bar without a terminal");
}

#[test]
fn budget_of_one_works() {
    let folder = tempfile::tempdir().unwrap();
    let run = gpara(folder.path(), "demo radio --preset gaussian --budget 1 --quiet --json --out out").success();
    assert_eq!(run.json()["active"]["points"], 1);
}

#[test]
fn depth_demo_tells_metres_and_relative_errors_and_says_that_no_network_is_embedded() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "demo depth --preset gaussian --budget 60 --scene 2 --quiet --json --out out";
    let summary = gpara(folder.path(), arguments).success().json();
    assert_eq!((summary["unit"].as_str(), summary["preset"].as_str()), (Some("m"), Some("gaussian-depth")));
    let of = |method: &str, key: &str| summary[method][key].as_f64().unwrap();
    for method in ["random", "farthest_point", "active"] {
        assert!(of(method, "rmse") < 0.6 * of("prior", "rmse"), "{method}: {summary:#}");
        assert!(of(method, "abs_rel") < 0.3 && of(method, "delta1") > 0.7, "{method}: {summary:#}");
    }
    let found = files(&folder.path().join("out"));
    assert!(found.contains_key("room_2_active_error_vis.png"));
    let report = String::from_utf8(found["report.html"].clone()).unwrap();
    assert!(report.contains("AbsRel") && report.contains("delta1"));
    let points = String::from_utf8(found["room_2_active_points.csv"].clone()).unwrap();
    let first: Vec<&str> = points.lines().nth(1).unwrap().split(',').collect();
    let meters: f64 = first[3].parse().unwrap();
    assert!((0.3..10.0).contains(&meters) && first[4] == "m", "{first:?}");
}

#[test]
fn demo_without_networks_of_its_task_says_so_and_takes_the_gaussian_preset() {
    let folder = tempfile::tempdir().unwrap();
    let run = gpara(folder.path(), "models --json").success();
    let embedded = run.stdout.contains("\"depth-best-mean\"");
    let run = gpara(folder.path(), "demo depth --budget 3 --policy active --out out").success();
    assert_eq!(run.stderr.contains("no depth network is embedded"), !embedded, "{}", run.stderr);
    assert!(folder.path().join("out/room_0_truth.png").exists());
}
