//! `gpara inspect`: counts, range and use of a file.

use crate::program::gpara;

#[test]
fn users_01_inspect_counts_each_kind_and_says_where_the_first_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("field.csv"), "1,nan,0\n-2,inf,5\n").unwrap();
    std::fs::write(folder.path().join("mask.csv"), "0,1,1\n0,1,1\n").unwrap();
    let run = gpara(folder.path(), "inspect field.csv mask.csv --json").success();
    let entries = run.json();
    let field = &entries[0];
    assert_eq!((field["rows"].as_u64(), field["cols"].as_u64()), (Some(2), Some(3)));
    for (kind, row, col) in [("nan", 0, 1), ("infinite", 1, 1), ("zero", 0, 2), ("negative", 1, 0)] {
        assert_eq!(field[kind], 1, "{kind}");
        let first = &field[format!("first_{kind}")];
        assert_eq!((first["row"].as_u64(), first["col"].as_u64()), (Some(row), Some(col)), "{kind}");
    }
    assert_eq!((field["lowest"].as_f64(), field["highest"].as_f64()), (Some(-2.0), Some(5.0)));
    assert_eq!(entries[1]["usable_as"], "a mask with 4 of 6 cells marked");
    let text = gpara(folder.path(), "inspect field.csv").success().stdout;
    assert!(text.contains("nan 1 (first at row 0, col 1)"), "{text}");
}

#[test]
fn inspect_of_a_png_tells_whether_a_scale_is_known() {
    let folder = tempfile::tempdir().unwrap();
    image::ImageBuffer::from_fn(3, 2, |x, _| image::Luma([x as u8 * 100])).save(folder.path().join("a.png")).unwrap();
    let plain = gpara(folder.path(), "inspect a.png --json").success().json();
    assert_eq!(plain[0]["values"], "gray values, no scale recorded");
    let scaled = gpara(folder.path(), "inspect a.png --png-offset -100 --png-step 0.5 --json").success().json();
    assert_eq!((scaled[0]["lowest"].as_f64(), scaled[0]["highest"].as_f64()), (Some(-100.0), Some(0.0)));
}

#[test]
fn inspect_tells_points_from_fields_and_names_the_first_refused_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("points.csv"), "lat;lon;value;sigma\n48,1;8;-80;1\n48,2;8;nan;1\n48,3;8;-90;1\n")
        .unwrap();
    let run = gpara(folder.path(), "inspect points.csv --json").success();
    let entry = &run.json()[0];
    assert_eq!((entry["points"].as_u64(), entry["refused"].as_u64()), (Some(2), Some(1)));
    assert_eq!(entry["first_refused"]["line"], 3);
    assert_eq!(entry["position"], "latitude and longitude");
    let text = gpara(folder.path(), "inspect points.csv").success().stdout;
    assert!(
        text.contains("2 points by latitude and longitude, 2 with sigma, 1 refused (first at 3: value is NaN"),
        "{text}"
    );
}

#[test]
fn inspect_of_an_ascii_grid_counts_declared_missing_cells_and_tells_of_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let text = "ncols 3\nnrows 1\nxllcorner 10\nyllcorner 20\ncellsize 2\nNODATA_value -1\n4 -1 5\n";
    std::fs::write(folder.path().join("a.asc"), text).unwrap();
    let entry = &gpara(folder.path(), "inspect a.asc --missing 5 --json").success().json()[0];
    assert_eq!((entry["nan"].as_u64(), entry["highest"].as_f64()), (Some(2), Some(4.0)));
    assert_eq!(entry["geotransform"][3].as_f64(), Some(22.0));
    let text = gpara(folder.path(), "inspect a.asc").success().stdout;
    assert!(text.contains("with a place of unknown coordinate system"), "{text}");
}

#[test]
fn points_with_a_header_of_their_own_are_told_how_to_be_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.csv"), "x;y;rssi\r\n3;4;-80.5\r\n7;1;-91\r\n").unwrap();
    let run = gpara(folder.path(), "inspect mine.csv");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("no column `value`") && run.stderr.contains("--column value=NAME"), "{}", run.stderr);
    let made = gpara(folder.path(), "new S.gpara --grid 9x9 --sigma 2 --budget 9").success();
    assert!(made.stderr.contains("noise of 2 unless"), "{}", made.stderr);
    gpara(folder.path(), "tell S.gpara mine.csv --column value=rssi").success();
    gpara(folder.path(), "ask S.gpara -n 1").success();
    let said = gpara(folder.path(), "reconstruct S.gpara -o map.tif").success().stderr;
    assert!(said.contains("fitted: range") && !said.contains(" ,"), "{said}");
}
