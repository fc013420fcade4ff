//! Priors of a session from the command line: fitted, from maps, from a network.

use std::path::Path;

use serde_json::Value;

use crate::bad_input::{Case, check};
use crate::program::gpara;

/// A field in dB that falls with the distance from (5, 5) and jumps at column 16.
fn truth(row: usize, col: usize) -> f64 {
    let distance = (row as f64 - 5.0).hypot(col as f64 - 5.0).max(0.5);
    -60.0 - 12.0 * distance.ln() - if col >= 16 { 8.0 } else { 0.0 } + (row as f64 * 0.3).sin()
}

fn write_truth(folder: &Path, name: &str, cells: &[(usize, usize)], outlier: Option<usize>) {
    let line = |(at, &(row, col)): (usize, &(usize, usize))| {
        let off = if outlier == Some(at) { 25.0 } else { 0.0 };
        format!("{row},{col},{}\n", truth(row, col) + off)
    };
    let lines: String = cells.iter().enumerate().map(line).collect();
    std::fs::write(folder.join(name), format!("row,col,value\n{lines}")).unwrap();
}

fn cells() -> Vec<(usize, usize)> {
    (0..40).map(|k| (k * 7 % 20, k * 11 % 24)).collect()
}

fn rmse(folder: &Path, session: &str) -> f64 {
    gpara(folder, &format!("reconstruct {session} -o {session}.csv")).success();
    let map = std::fs::read_to_string(folder.join(format!("{session}.csv"))).unwrap();
    let mut squares = 0.0;
    for (row, line) in map.lines().enumerate() {
        for (col, cell) in line.split(',').enumerate() {
            squares += (cell.parse::<f64>().unwrap() - truth(row, col)).powi(2);
        }
    }
    (squares / 480.0).sqrt()
}

#[test]
fn drift_guide_and_robust_weights_are_taken_and_reported() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    image::GrayImage::from_fn(24, 20, |x, _| image::Luma([if x < 16 { 40 } else { 220 }]))
        .save(folder.join("scene.png"))
        .unwrap();
    write_truth(folder, "told.csv", &cells(), None);
    let field = "--grid 20x24 --range=-120,-50 --unit dBm --sigma 1dB --budget 99";
    gpara(folder, &format!("new plain.gpara {field} --prior gaussian")).success();
    let drift = "--drift constant,log-distance=5:5 --guide scene.png --guide-scale 0.2";
    gpara(folder, &format!("new told.gpara {field} {drift}")).success();
    for session in ["plain.gpara", "told.gpara"] {
        gpara(folder, &format!("tell {session} told.csv")).success();
        gpara(folder, &format!("ask {session} -n 3")).success();
    }
    let (plain, with) = (rmse(folder, "plain.gpara"), rmse(folder, "told.gpara"));
    assert!(with < 0.7 * plain && with < 2.0, "{with} dB with what is known, {plain} dB without");

    write_truth(folder, "outlier.csv", &cells(), Some(17));
    gpara(folder, &format!("new robust.gpara {field} {drift} --robust student-t")).success();
    gpara(folder, "tell robust.gpara outlier.csv").success();
    let made = gpara(folder, "reconstruct robust.gpara -o robust.npy --json").success().json();
    let (row, col) = cells()[17];
    let outlier = serde_json::json!({ "row": row, "col": col });
    assert!(made["outliers"].as_array().unwrap().contains(&outlier), "{made:#}");
    assert!(made["fitted"]["range"].as_f64().unwrap() > 1.0, "{made:#}");
    let said = gpara(folder, "reconstruct robust.gpara -o robust.npy").success().stderr;
    assert!(said.contains("fitted: range") && said.contains("outliers"), "{said}");
    gpara(folder, "report robust.gpara -o robust.html").success();
    let page = std::fs::read_to_string(folder.join("robust.html")).unwrap();
    assert!(
        page.contains("log-distance=5:5, robust student-t") || page.contains("robust student-t"),
        "method is named"
    );
}

/// A stack of float32 maps as .npy.
fn write_maps(path: &Path, maps: &[Vec<f64>], rows: usize, cols: usize) {
    gpara_tasks::field::write_npy_stack(path, gpara::Grid::new(rows, cols).unwrap(), maps).unwrap();
}

#[test]
fn ensemble_of_maps_is_the_prior_and_beats_no_prior() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    // Maps of other strengths and places of the jump.
    let map = |k: usize| {
        let of = |node: usize| {
            let (row, col) = (node / 24, node % 24);
            let distance = (row as f64 - 5.0).hypot(col as f64 - 5.0).max(0.5);
            let jump = if col >= 12 + k { 4.0 + k as f64 } else { 0.0 };
            -55.0 - k as f64 - (9.0 + k as f64) * distance.ln() - jump
        };
        (0..480).map(of).collect::<Vec<f64>>()
    };
    write_maps(&folder.join("maps.npy"), &(0..8).map(map).collect::<Vec<_>>(), 20, 24);
    let field = "--grid 20x24 --range=-120,-50 --unit dBm --sigma 1dB --budget 99";
    gpara(folder, &format!("new maps.gpara {field} --prior ensemble=maps.npy")).success();
    gpara(folder, &format!("new plain.gpara {field} --prior gaussian")).success();
    // Before any measurement the mean is that of the maps.
    let prior = rmse(folder, "maps.gpara");
    write_truth(folder, "told.csv", &cells()[..6], None);
    for session in ["maps.gpara", "plain.gpara"] {
        gpara(folder, &format!("tell {session} told.csv")).success();
    }
    let (with, without) = (rmse(folder, "maps.gpara"), rmse(folder, "plain.gpara"));
    assert!(with < prior && with < 0.6 * without, "{with} with maps, {without} without, {prior} before");
    let asked = gpara(folder, "ask maps.gpara -n 4 --json").success().json();
    assert!(asked["points"].as_array().unwrap().iter().all(|point| point["predicted_std"].as_f64().unwrap() > 0.0));

    write_maps(&folder.join("one.npy"), &[map(0)], 20, 24);
    write_maps(&folder.join("small.npy"), &[vec![0.0; 6], vec![1.0; 6]], 2, 3);
    check(
        folder,
        &[
            Case { arguments: "new S.gpara --grid 20x24 --prior ensemble=one.npy", says: &["1 map", "two maps"] },
            Case { arguments: "new S.gpara --grid 20x24 --prior ensemble=small.npy", says: &["2x3", "20x24"] },
            Case { arguments: "new S.gpara --grid 20x24 --prior ensemble=no.npy", says: &["no.npy"] },
        ],
    );
}

#[test]
fn onnx_network_with_its_card_draws_the_prior() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpara-nn/tests/data");
    for file in ["tiny_prior.onnx", "tiny_prior.toml", "tiny_mean.onnx", "tiny_mean.toml"] {
        std::fs::copy(data.join(file), folder.join(file)).unwrap();
    }
    let card: toml::Table = std::fs::read_to_string(folder.join("tiny_prior.toml")).unwrap().parse().unwrap();
    let mut channels = String::new();
    for (at, name) in card["channels"].as_array().unwrap().iter().enumerate() {
        let name = name.as_str().unwrap();
        if !["measured", "measured_value"].contains(&name) {
            let lines: String = (0..16).map(|row| vec![format!("{}", (row + at) % 3); 16].join(",") + "\n").collect();
            std::fs::write(folder.join(format!("{name}.csv")), lines).unwrap();
            channels.push_str(&format!(" --channel {name}={name}.csv"));
        }
    }
    let new = "new S.gpara --grid 16x16 --prior onnx=tiny_prior.onnx --num-maps 4 --num-steps 2 --range=0,10 --unit m";
    let made = gpara(folder, &format!("{new}{channels}")).success();
    assert!(made.stderr.contains("drawing 4 maps with tiny_prior.onnx"), "{}", made.stderr);
    gpara(folder, "ask S.gpara -n 2").success();
    gpara(folder, "tell S.gpara --row 3 --col 3 --value 4").success();
    let made = gpara(folder, "reconstruct S.gpara -o map.csv --json").success().json();
    assert_eq!(made["num_observed"], Value::from(1));
    check(
        folder,
        &[
            Case { arguments: "new T.gpara --grid 16x16 --prior onnx=tiny_mean.onnx", says: &["--prior onnx"] },
            Case { arguments: "new T.gpara --grid 16x16 --prior onnx=no.onnx", says: &["no.onnx"] },
        ],
    );
}

#[test]
fn priors_and_drifts_that_make_no_sense_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    std::fs::write(folder.join("small.csv"), "1,1,1\n").unwrap();
    for (arguments, says) in [
        ("--prior magic", "gaussian, ensemble=MAPS.npy"),
        ("--drift slope", "log-distance=ROW:COL"),
        ("--robust median", "student-t, huber"),
        ("--preset gaussian --robust huber", "--robust"),
        ("--origin 1 --cell-size 3", "X,Y"),
    ] {
        let run = gpara(folder, &format!("new S.gpara --grid 2x2 {arguments}"));
        assert!(run.code == 2 && run.stderr.contains(says), "{arguments}: {}", run.stderr);
        assert!(!folder.join("S.gpara").exists());
    }
    check(
        folder,
        &[
            Case { arguments: "new S.gpara --grid 2x2 --drift channel=small.csv", says: &["1x3", "2x2"] },
            Case {
                arguments: "new S.gpara --grid 2x2 --drift constant,constant",
                says: &["constant,constant", "twice"],
            },
            Case { arguments: "new S.gpara --grid 2x2 --guide no.png", says: &["no.png"] },
        ],
    );
}
