//! A radio session with the embedded networks.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::program::gpara;

/// Begins a session on the first square of the sample city.
fn begin(folder: &Path, more: &str) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpara-tasks/data/sample_city");
    std::fs::copy(data.join("buildings/0.png"), folder.join("city.png")).unwrap();
    let positions: Value = serde_json::from_str(&std::fs::read_to_string(data.join("tx.json")).unwrap()).unwrap();
    let (col, row) = (&positions["0"][0], &positions["0"][1]);
    let sigma = if more.contains("--sigma") { "" } else { "--sigma 1dB" };
    let scene = format!("--task radio --buildings city.png --tx {row},{col} --pixels-per-cell 2 {sigma}");
    gpara(folder, &format!("new S.gpara {scene} {more}")).success();
}

#[test]
fn radio_session_with_a_gaussian_prior_asks_outdoors() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    begin(folder, "--preset gaussian --budget 20");
    let answer = gpara(folder, "ask S.gpara -n 8 --json").success().json();
    let city = image::open(folder.join("city.png")).unwrap().into_luma8();
    let points = answer["points"].as_array().unwrap();
    assert_eq!(points.len(), 8);
    for point in points {
        let (row, col) = (point["row"].as_u64().unwrap() as u32, point["col"].as_u64().unwrap() as u32);
        let pixels =
            [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(right, down)| city.get_pixel(2 * col + right, 2 * row + down).0);
        assert_eq!(pixels, [[0]; 4], "row {row}, col {col} is not outdoors");
    }
}

/// `(row, col, value)` of each point that the demo measured, in order.
fn demo_points(folder: &Path, budget: usize) -> Vec<(u64, u64, String)> {
    gpara(folder, &format!("demo radio --scene 0 --budget {budget} --policy active --quiet --out demo")).success();
    let csv = std::fs::read_to_string(folder.join("demo/sample_0_active_points.csv")).unwrap();
    let point = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields[1].parse().unwrap(), fields[2].parse().unwrap(), fields[3].to_owned())
    };
    csv.lines().skip(1).map(point).collect()
}

#[test]
fn session_chooses_the_points_of_the_demo_but_for_its_tests_and_no_samples_are_drawn() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let points = demo_points(folder, 16);
    // The noise of the preset, in dB: 1e-4 of half the range.
    begin(folder, "--budget 99 --sigma 0.004958dB");
    let asked = |answer: &Value| -> Vec<(u64, u64)> {
        let cell = |point: &Value| (point["row"].as_u64().unwrap(), point["col"].as_u64().unwrap());
        answer["points"].as_array().unwrap().iter().map(cell).collect()
    };
    let cells = |points: &[(u64, u64, String)]| points.iter().map(|point| (point.0, point.1)).collect::<Vec<_>>();
    let first = gpara(folder, "ask S.gpara -n 8 --json").success().json();
    // The demo begins with four cells that test its belief (G.15). A session does not: what it answers may not depend on the order of
    // what it is told.
    assert_eq!(asked(&first)[..4], cells(&points[4..8]));
    assert_eq!((&first["prior_drawn"], &first["networks_asked"]), (&Value::Bool(false), &Value::Bool(true)));
    assert!(first["points"][0]["predicted_std"].as_f64().unwrap() > 0.1, "{first:#}");
    let told: String = points[..8].iter().map(|(row, col, value)| format!("{row},{col},{value}\n")).collect();
    std::fs::write(folder.join("told.csv"), format!("row,col,value\n{told}")).unwrap();
    gpara(folder, "tell S.gpara told.csv").success();
    let second = gpara(folder, "ask S.gpara -n 8 --json").success().json();
    assert!(asked(&second).iter().all(|cell| !cells(&points[..8]).contains(cell) && !asked(&first).contains(cell)));
    // What the networks say of the same measurements stands in the file.
    let third = gpara(folder, "ask S.gpara -n 1 --json").success().json();
    assert_eq!(third["networks_asked"], Value::Bool(false));
    assert!(!asked(&second).contains(&asked(&third)[0]), "pending points are not asked again");
    // The intervals are those of the spread network's card.
    let half = third["interval_factors"]["50"].as_f64().unwrap();
    assert!(half > 0.1 && half != gpara::NORMAL_INTERVALS[0], "{third:#}");
    let status = gpara(folder, "status S.gpara --json").success().json();
    assert!(status["forecast"]["risk_left"].as_f64().unwrap() > 0.5, "{status:#}");
}

#[test]
#[ignore = "slow: times on a quiet machine, best in release"]
fn bench_radio_session_answers_in_time() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let time = |command: &str| {
        let started = Instant::now();
        let run = gpara(folder, command).success();
        (started.elapsed().as_secs_f64(), run)
    };
    let started = Instant::now();
    begin(folder, "");
    let (_, first) = time("ask S.gpara -n 8 --json");
    let cold = started.elapsed().as_secs_f64();
    assert_eq!(first.json()["prior_drawn"], Value::Bool(false));
    let told: String = first.json()["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| format!("{},{},-90\n", point["row"], point["col"]))
        .collect();
    std::fs::write(folder.join("told.csv"), format!("row,col,value\n{told}")).unwrap();
    let (tell, _) = time("tell S.gpara told.csv");
    let (warm, second) = time("ask S.gpara -n 8 --json");
    assert_eq!(second.json()["networks_asked"], Value::Bool(true));
    let (one, _) = time("ask S.gpara");
    let (status, _) = time("status S.gpara");
    let (map, _) = time("reconstruct S.gpara -o map.npy");
    gpara(folder, "new D.gpara --grid 192x256 --prior gaussian --sigma 0.01").success();
    let (large, _) = time("ask D.gpara -n 8");
    eprintln!(
        "new + first ask {cold:.2} s; tell {:.0} ms; ask 8 {warm:.2} s, ask 1 {one:.2} s; status {status:.2} s; \
         reconstruct {map:.2} s; ask 8 at 192x256 {large:.2} s",
        1e3 * tell
    );
    assert!(cold < 6.0 && warm < 1.0 && tell < 0.2, "{cold} {warm} {tell}");
}
