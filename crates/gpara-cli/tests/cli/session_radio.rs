//! A radio session with the embedded networks.

use std::path::Path;
use std::time::Instant;

use crate::program::gpara;

/// Begins a session on the first square of the sample city.
fn begin(folder: &Path, more: &str) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpara-tasks/data/sample_city");
    std::fs::copy(data.join("buildings/0.png"), folder.join("city.png")).unwrap();
    let positions: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(data.join("tx.json")).unwrap()).unwrap();
    let (col, row) = (&positions["0"][0], &positions["0"][1]);
    let scene = format!("--task radio --buildings city.png --tx {row},{col} --pixels-per-cell 2 --sigma 1dB");
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

#[test]
#[ignore = "slow: draws the embedded prior, best in release"]
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
    assert_eq!(first.json()["prior_drawn"], serde_json::Value::Bool(true));
    let told: String = first.json()["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| format!("{},{},-90\n", point["row"], point["col"]))
        .collect();
    std::fs::write(folder.join("told.csv"), format!("row,col,value\n{told}")).unwrap();
    let (tell, _) = time("tell S.gpara told.csv");
    let (warm, second) = time("ask S.gpara -n 8 --json");
    assert_eq!(second.json()["prior_drawn"], serde_json::Value::Bool(false));
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
    assert!(cold < 12.0 && warm < 1.0 && tell < 0.2, "{cold} {warm} {tell}");
}
