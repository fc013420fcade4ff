//! `gpara inspect`: counts, range and use of a file.

use crate::program::gpara;

#[test]
fn inspect_counts_each_kind_and_says_where_the_first_is() {
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
