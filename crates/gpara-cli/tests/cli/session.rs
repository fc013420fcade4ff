//! A campaign from the command line, with the prior that needs no weights.

use std::path::Path;

use serde_json::Value;

use crate::program::gpara;

/// Begins a session of 20 x 30 cells in `S.gpara`.
pub(crate) fn begin(folder: &Path, more: &str) {
    let field = "--grid 20x30 --prior gaussian --range=-100,-60 --unit dBm --sigma 1dBm --budget 40";
    gpara(folder, &format!("new S.gpara {field} {more}")).success();
}

/// The field that is measured, in dBm.
fn field(row: i64, col: i64) -> f64 {
    -80.0 + 10.0 * (row as f64 * 0.3).sin() + 5.0 * (col as f64 * 0.2).cos()
}

/// Asks, and writes the answers into `told.csv`.
pub(crate) fn ask_and_measure(folder: &Path, count: usize) -> Vec<(i64, i64)> {
    let answer = gpara(folder, &format!("ask S.gpara -n {count} --json")).success().json();
    let cells: Vec<(i64, i64)> = answer["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| (point["row"].as_i64().unwrap(), point["col"].as_i64().unwrap()))
        .collect();
    let lines: String = cells.iter().map(|&(row, col)| format!("{row},{col},{}\n", field(row, col))).collect();
    std::fs::write(folder.join("told.csv"), format!("row,col,value\n{lines}")).unwrap();
    cells
}

#[test]
fn campaign_from_new_to_reconstruct_measures_the_field() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    begin(folder, "--stop-at 5dBm");
    for _ in 0..5 {
        ask_and_measure(folder, 8);
        let told = gpara(folder, "tell S.gpara told.csv --json").success().json();
        assert_eq!((&told["recorded"], &told["merged"], &told["skipped"]), (&8.into(), &0.into(), &0.into()));
    }
    let status = gpara(folder, "status S.gpara --json").success().json();
    assert_eq!((status["num_observed"].as_u64(), status["remaining"].as_u64()), (Some(40), Some(0)));
    assert_eq!(status["forecast"]["stop_reached"], Value::Bool(true), "{status:#}");
    assert!(status["coverage"]["num_values"].as_u64().unwrap() >= 32);
    // A difference of dBm values is in dB, wherever it is told.
    assert_eq!((&status["unit"], &status["error_unit"]), (&"dBm".into(), &"dB".into()));
    let said = gpara(folder, "status S.gpara").success().stdout;
    assert!(said.contains(" dB") && !said.contains("dBm"), "{said}");
    let said = gpara(folder, "reconstruct S.gpara -o map.npy").success().stderr;
    assert!(said.contains("nugget") && !said.contains("dBm"), "{said}");

    let made = gpara(folder, "reconstruct S.gpara -o map.csv --std std.tif --samples s.npy --num-samples 2 --json");
    let made = made.success().json();
    assert_eq!(made["files"].as_array().unwrap().len(), 3);
    let map = std::fs::read_to_string(folder.join("map.csv")).unwrap();
    let rows: Vec<Vec<f64>> =
        map.lines().map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    assert_eq!((rows.len(), rows[0].len()), (20, 30));
    let mut sum = 0.0;
    for (row, values) in rows.iter().enumerate() {
        for (col, value) in values.iter().enumerate() {
            sum += (value - field(row as i64, col as i64)).powi(2);
        }
    }
    let rmse = (sum / 600.0).sqrt();
    // The field spreads by 8 dB.
    assert!(rmse < 3.0, "{rmse} dB");

    let over = gpara(folder, "ask S.gpara");
    assert_eq!(over.code, 2);
    assert!(over.stderr.contains("all 40 measurements of the budget"), "{}", over.stderr);
}

#[test]
fn ask_formats_hold_the_same_points_and_pending_ones_are_not_repeated() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    begin(folder, "");
    let csv = gpara(folder, "ask S.gpara -n 3").success().stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "row,col,x,y,score,expected_risk_drop,predicted,predicted_std");
    assert_eq!(lines.len(), 4);
    let first: Vec<&str> = lines[1].split(',').collect();
    assert_eq!(first[2].parse::<f64>().unwrap(), first[1].parse::<f64>().unwrap() + 0.5);

    let geojson = gpara(folder, "ask S.gpara -n 3 --format geojson").success().json();
    assert_eq!(geojson["type"], "FeatureCollection");
    let features = geojson["features"].as_array().unwrap();
    assert_eq!(features.len(), 3);
    for feature in features {
        let properties = &feature["properties"];
        assert_eq!(feature["geometry"]["coordinates"][0], properties["x"]);
        let cell = format!("{},{},", properties["row"], properties["col"]);
        assert!(!lines[1..].iter().any(|line| line.starts_with(&cell)), "{cell} was pending");
    }
    let status = gpara(folder, "status S.gpara --no-forecast --json").success().json();
    assert_eq!(status["pending"].as_array().unwrap().len(), 6);
    assert_eq!(status["forecast"], Value::Null);
}

#[test]
fn users_02_skip_invalid_equals_the_file_without_the_bad_lines() {
    let estimate = |csv: &str, flag: &str| {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        begin(folder, "");
        std::fs::write(folder.join("told.csv"), csv).unwrap();
        let told = gpara(folder, &format!("tell S.gpara told.csv {flag} --json")).success().json();
        gpara(folder, "reconstruct S.gpara -o map.npy").success();
        (std::fs::read(folder.join("map.npy")).unwrap(), told["skipped"].as_u64().unwrap())
    };
    let bad = "row,col,value\n1,1,-80\n1,99,-70\n5,5,nan\n9,9,-75\n12,3,\n";
    let (with, skipped) = estimate(bad, "--skip-invalid");
    let (without, none) = estimate("row,col,value\n1,1,-80\n9,9,-75\n", "");
    assert_eq!((skipped, none), (3, 0));
    assert_eq!(with, without);

    let temporary = tempfile::tempdir().unwrap();
    begin(temporary.path(), "");
    std::fs::write(temporary.path().join("told.csv"), bad).unwrap();
    let run = gpara(temporary.path(), "tell S.gpara told.csv");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("line 3") && run.stderr.contains("2 more"), "{}", run.stderr);
    assert!(run.stderr.contains("--skip-invalid"), "{}", run.stderr);
    let status = gpara(temporary.path(), "status S.gpara --no-forecast --json").success().json();
    assert_eq!(status["num_values"].as_u64(), Some(0));
}

#[test]
fn users_20_order_of_rows_does_not_change_map_or_next_points() {
    let run = |csv: &str| {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        begin(folder, "");
        std::fs::write(folder.join("told.csv"), csv).unwrap();
        gpara(folder, "tell S.gpara told.csv").success();
        gpara(folder, "reconstruct S.gpara -o map.npy").success();
        let points = gpara(folder, "ask S.gpara -n 5 --threads 1").success().stdout;
        (std::fs::read(folder.join("map.npy")).unwrap(), points)
    };
    let forward = run("row,col,value\n1,1,-80\n9,9,-75\n17,20,-90\n9,9,-76\n");
    let backward = run("value;col;row\n-76;9;9\n-90;20;17\n-75;9;9\n-80;1;1\n");
    assert_eq!(forward, backward);
}

#[test]
fn values_told_one_by_one_carry_units_and_failures_block() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    begin(folder, "");
    gpara(folder, "tell S.gpara --row 3 --col 4 --value=-71.5dBm --sigma 0.5").success();
    gpara(folder, "tell S.gpara --row 3 --col 5 --failed").success();
    let status = gpara(folder, "status S.gpara --no-forecast --json").success().json();
    assert_eq!((status["num_values"].as_u64(), status["num_failed"].as_u64()), (Some(1), Some(1)));
    let text = gpara(folder, "status S.gpara").success().stdout;
    assert!(text.contains("measured              1 of 40 in the budget"), "{text}");
}

#[test]
fn route_candidates_regions_and_costs_are_taken() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let cells: String = (0..20).map(|row| format!("{row},{}\n", row + 5)).collect();
    std::fs::write(folder.join("c.csv"), format!("row,col\n{cells}")).unwrap();
    let cost: String = (0..20).map(|row| vec![if row < 10 { "1" } else { "3" }; 30].join(",") + "\n").collect();
    std::fs::write(folder.join("cost.csv"), cost).unwrap();
    begin(folder, "--candidates c.csv --min-distance 2.5 --region 0,0,9,29=2 --cost cost.csv");
    let run = gpara(folder, "ask S.gpara -n 6 --route --from 0,0 --cost-budget 9 --json").success();
    let answer = run.json();
    assert!(answer["route_length"].as_f64().unwrap() > 5.0);
    assert!(answer["cost"].as_f64().unwrap() <= 9.0);
    for point in answer["points"].as_array().unwrap() {
        assert_eq!(point["col"].as_i64().unwrap(), point["row"].as_i64().unwrap() + 5);
    }
}

#[test]
fn completions_and_manual_pages_name_the_commands() {
    let temporary = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let text = gpara(temporary.path(), &format!("completions {shell}")).success().stdout;
        assert!(text.contains("reconstruct") && text.contains("skip-invalid"), "{shell}");
    }
    let page = gpara(temporary.path(), "man").success().stdout;
    assert!(page.contains(".TH gpara 1"), "{page}");
    gpara(temporary.path(), "man --out man").success();
    let ask = std::fs::read_to_string(temporary.path().join("man/gpara-ask.1")).unwrap();
    assert!(ask.contains(".TH gpara-ask 1") && ask.contains("gpara ask S.gpara"), "{ask}");
}

#[test]
fn every_session_command_has_help_with_an_example() {
    let temporary = tempfile::tempdir().unwrap();
    for command in ["new", "ask", "tell", "status", "reconstruct", "report", "inspect", "completions", "man"] {
        let help = gpara(temporary.path(), &format!("{command} --help")).success().stdout;
        assert!(help.contains("Example") && help.contains(&format!("gpara {command}")), "{command}: {help}");
    }
}

#[test]
fn users_01_invalid_values_are_counted_by_inspect_and_never_recorded() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    std::fs::write(folder.join("field.csv"), "1,nan,0\n-2,inf,3\n").unwrap();
    let found = gpara(folder, "inspect field.csv --json").success().json();
    for kind in ["nan", "infinite", "zero", "negative"] {
        assert_eq!(found[0][kind].as_u64(), Some(1), "{kind}");
    }
    assert_eq!((found[0]["first_nan"]["col"].as_u64(), found[0]["first_infinite"]["row"].as_u64()), (Some(1), Some(1)));
    begin(folder, "");
    for value in ["nan", "inf", "-inf", ""] {
        std::fs::write(folder.join("told.csv"), format!("row,col,value\n1,1,{value}\n")).unwrap();
        let run = gpara(folder, "tell S.gpara told.csv");
        assert!(run.code == 2 && run.stderr.contains("line 2"), "{value}: {}", run.stderr);
    }
    let status = gpara(folder, "status S.gpara --no-forecast --json").success().json();
    assert_eq!(status["num_values"].as_u64(), Some(0));
}

#[test]
fn users_16_world_coordinates_belong_to_the_half_open_cell() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    begin(folder, "");
    // The cells (0, 0), (0, 0), (1, 2) and (19, 29).
    std::fs::write(folder.join("told.csv"), "x,y,value\n0,0,-80\n0.999,0.5,-80\n2,1,-70\n29.999,19.999,-90\n").unwrap();
    let told = gpara(folder, "tell S.gpara told.csv --json").success().json();
    assert_eq!((told["num_observed"].as_u64(), told["merged"].as_u64()), (Some(3), Some(1)));
    for outside in ["30,5", "5,20", "-0.001,5"] {
        std::fs::write(folder.join("told.csv"), format!("x,y,value\n{outside},-80\n")).unwrap();
        let run = gpara(folder, "tell S.gpara told.csv");
        assert!(run.code == 2 && run.stderr.contains("outside the grid 20x30"), "{outside}: {}", run.stderr);
    }
}
