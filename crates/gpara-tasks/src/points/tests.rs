//! Reading and writing points through files, as people have them.

use std::path::Path;

use gpara::{ErrorKind, Grid, Result, ValidMask};

use super::*;
use crate::field::{Field, GrayScale, MaskFile, PngScale, Raster, RasterOptions};
use crate::geo::{Crs, Georeference};

fn read(text: &[u8], valid: &ValidMask) -> Result<PointRows> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("points.csv");
    std::fs::write(&path, text).unwrap();
    read_points(&path, valid)
}

fn all_valid(rows: usize, cols: usize) -> ValidMask {
    ValidMask::all(Grid::new(rows, cols).unwrap())
}

#[test]
fn users_12_variants_of_one_file_read_the_same() {
    let variants: [&[u8]; 6] = [
        b"row,col,value\n1,2,-80.5\n0,4,3\n",
        b"\xef\xbb\xbfrow,col,value\r\n1,2,-80.5\r\n0,4,3\r\n",
        b"Value;note;COL;row\n-80,5;north;2;1\n3;;4;0\n",
        b"x,y,value\n2.5,1.5,-80.5\n4,0.999,3\n",
        b"id\tvalue\trow\tcol\n7\t-80,5\t1.0\t2\n8\t3\t0\t4\n",
        b"\"row\",\"col\",\"value\"\n1, 2, -80.5\n0, 4, 3\n",
    ];
    for text in variants {
        let points = read(text, &all_valid(2, 5)).unwrap().all().unwrap();
        let found: Vec<_> = points.iter().map(|point| (point.line, point.node, point.value, point.sigma)).collect();
        assert_eq!(found, [(2, 7, -80.5, None), (3, 4, 3.0, None)], "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn users_02_each_kind_of_bad_line_is_refused_with_its_number_and_the_rest_is_read() {
    let mut flags = vec![true; 10];
    flags[3] = false;
    let valid = ValidMask::new(Grid::new(2, 5).unwrap(), flags).unwrap();
    let text = b"row,col,value,sigma\n1,2,7,0.5\n2,0,1,1\n0,5,1,1\n0,3,1,1\n0,0,nan,1\n0,0,,1\n0,-1,1,1\n0,0,1,-1\n0,0\n1,1,2,0\n";
    let rows = read(text, &valid).unwrap();
    let lines: Vec<u64> = rows.refused.iter().map(|row| row.line).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7, 8, 9, 10]);
    let points: Vec<_> = rows.points.iter().map(|point| (point.node, point.value, point.sigma)).collect();
    assert_eq!(points, [(7, 7.0, Some(0.5)), (6, 2.0, Some(0.0))]);
    let error = rows.all().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("line 3") && error.to_string().contains("7 more"), "{error}");
}

#[test]
fn lines_are_counted_across_empty_lines_and_quoted_line_breaks() {
    let text = b"row,col,value,note\r\n\r\n0,0,1,\"two\r\nlines\"\r\n0,1,x,\r\n";
    let rows = read(text, &all_valid(1, 2)).unwrap();
    assert_eq!(rows.points.iter().map(|point| point.line).collect::<Vec<_>>(), [3]);
    assert_eq!(rows.refused.iter().map(|row| row.line).collect::<Vec<_>>(), [5]);
}

#[test]
fn users_16_coordinates_are_half_open_and_refused_outside() {
    let text = b"x,y,value\n0,0,1\n5,0,1\n-0.1,0,1\n4.999,1.999,1\n0,2,1\n";
    let rows = read(text, &all_valid(2, 5)).unwrap();
    assert_eq!(rows.points.iter().map(|point| point.node).collect::<Vec<_>>(), [0, 9]);
    assert_eq!(rows.refused.iter().map(|row| row.line).collect::<Vec<_>>(), [3, 4, 6]);
}

#[test]
fn users_12_missing_column_is_named() {
    for (header, column) in
        [("row,value", "col"), ("row,col", "value"), ("x,value", "y"), ("value", "row"), ("", "row")]
    {
        let error = read(header.as_bytes(), &all_valid(1, 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&format!("no column `{column}`")), "{header}: {error}");
    }
}

#[test]
fn written_points_read_back_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("points.csv");
    let valid = all_valid(3, 4);
    let (nodes, values) = ([11, 0, 5], [0.1, -1.0 / 3.0, 1e-300]);
    write_points(&path, valid.grid(), &nodes, &[("value", &values), ("sigma", &[0.5, 0.25, 0.0])]).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("row,col,x,y,value,sigma\n2,3,3.5,2.5,0.1,0.5\n"));
    let points = read_points(&path, &valid).unwrap().all().unwrap();
    assert_eq!(points.iter().map(|point| point.node).collect::<Vec<_>>(), nodes);
    assert_eq!(points.iter().map(|point| point.value).collect::<Vec<_>>(), values);
    let error = write_points(&path, valid.grid(), &nodes, &[("value", &[1.0])]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
}

#[test]
fn users_02_skipping_bad_rows_gives_the_points_of_the_file_without_them() {
    let valid = all_valid(2, 5);
    let with = read(b"row,col,value\n0,1,2\n0,9,2\n1,4,5\n1,1,inf\n", &valid).unwrap();
    let without = read(b"row,col,value\n0,1,2\n1,4,5\n", &valid).unwrap().all().unwrap();
    let (points, skipped) = with.skip_invalid();
    let content = |points: &[Point]| points.iter().map(|point| (point.node, point.value)).collect::<Vec<_>>();
    assert_eq!((content(&points), skipped), (content(&without), 2));
}

#[test]
fn users_12_thousands_of_rows_in_any_order_of_columns() {
    let mut text = String::from("\u{feff}note;SIGMA;col;Value;row\r\n");
    for node in 0..6000 {
        text.push_str(&format!("\"a;b\";0,5;{};{},25;{}\r\n", node % 100, node, node / 100));
    }
    let points = read(text.as_bytes(), &all_valid(60, 100)).unwrap().all().unwrap();
    assert_eq!(points.len(), 6000);
    for (node, point) in points.iter().enumerate() {
        assert_eq!((point.node, point.value, point.sigma), (node, node as f64 + 0.25, Some(0.5)));
        assert_eq!(point.line, node as u64 + 2);
    }
}

#[test]
fn users_18_sigma_comes_from_its_column_or_else_the_default() {
    let valid = all_valid(1, 3);
    let rules = SampleRules { default_sigma: Some(2.0), ..SampleRules::default() };
    let sigmas = |text: &str, rules| {
        let rows = PointReader::new(&valid).rules(rules).decode(text.as_bytes(), Path::new("a.csv"));
        rows.map(|rows| (rows.points.iter().map(|point| point.sigma).collect::<Vec<_>>(), rows.refused.len()))
    };
    let column = "row,col,value,sigma\n0,0,1,0\n0,1,1,\n0,2,1,-1\n";
    assert_eq!(sigmas(column, rules).unwrap(), (vec![Some(0.0), Some(2.0)], 1));
    assert_eq!(sigmas(column, SampleRules::default()).unwrap(), (vec![Some(0.0)], 2));
    assert_eq!(sigmas("row,col,value\n0,0,1\n", rules).unwrap(), (vec![Some(2.0)], 0));
    assert_eq!(sigmas("row,col,value\n0,0,1\n", SampleRules::default()).unwrap(), (vec![None], 0));
    let bad = SampleRules { default_sigma: Some(-1.0), ..rules };
    assert_eq!(sigmas(column, bad).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn users_01_zero_and_negative_depths_are_refused_rows() {
    let valid = all_valid(1, 3);
    let rules = SampleRules { positive_only: true, ..SampleRules::default() };
    let rows = PointReader::new(&valid).rules(rules);
    let rows = rows.decode(b"row,col,value\n0,0,0\n0,1,-1\n0,2,1\n", Path::new("a.csv")).unwrap();
    assert_eq!(rows.refused.iter().map(|row| row.line).collect::<Vec<_>>(), [2, 3]);
    assert!(rows.refused[0].reason.contains("value is 0"), "{}", rows.refused[0].reason);
}

#[test]
fn columns_named_by_hand_win_and_doubled_names_are_refused() {
    let valid = all_valid(2, 5);
    let text = b"row,col,value,RSRP,east,north\n0,0,1,-80,3.5,1.5\n";
    let columns =
        PointColumns::default().with(Role::Value, "rsrp").with(Role::X, "east").with("y".parse().unwrap(), "north");
    let rows = PointReader::new(&valid).columns(columns.clone()).decode(text, Path::new("a.csv")).unwrap();
    assert_eq!((rows.points[0].node, rows.points[0].value), (8, -80.0));
    let missing = columns.with(Role::Sigma, "std");
    let error = PointReader::new(&valid).columns(missing).decode(text, Path::new("a.csv")).unwrap_err();
    assert!(error.to_string().contains("no column `std`"), "{error}");
    let error = read(b"row,col,value,value\n", &valid).unwrap_err();
    assert!(error.to_string().contains("two columns `value`"), "{error}");
    assert_eq!("height".parse::<Role>().unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn cells_are_read_without_values_and_a_bad_one_refuses_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("candidates.csv");
    let valid = all_valid(3, 4);
    let cells = |text: &str| {
        std::fs::write(&path, text).unwrap();
        PointReader::new(&valid).read_cells(&path)
    };
    assert_eq!(cells("name;col;row\na;3;2\nb;0;1\n").unwrap(), [11, 4]);
    assert_eq!(cells("x,y,value\n0.5,2.5,\n").unwrap(), [8]);
    for (text, says) in [("row,col\n0,0\n0,4\n", "line 3"), ("row\n0\n", "`col`"), ("row,col\n", "no cells")] {
        let error = cells(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(says), "{error}");
    }
}

fn zone_32() -> Georeference {
    Georeference::north_up(431_000.0, 5_412_000.0, 10.0, Some(Crs::Epsg(32_632))).unwrap()
}

#[test]
fn users_16_latitude_and_longitude_find_their_cell_and_outside_is_named() {
    let valid = all_valid(20, 30);
    let (x, y) = zone_32().centre(7, 11);
    let (lat, lon) = zone_32().projection().unwrap().unproject(x, y).unwrap();
    let text = format!("Latitude,LONG,value\n{lat},{lon},-80\n10,{lon},-80\n95,8,-80\n");
    let reader = PointReader::new(&valid);
    let rows = reader.clone().georeference(zone_32()).decode(text.as_bytes(), Path::new("a.csv")).unwrap();
    assert_eq!(rows.points.iter().map(|point| point.node).collect::<Vec<_>>(), [7 * 30 + 11]);
    assert!(rows.refused[0].reason.contains("latitude 10"), "{}", rows.refused[0].reason);
    assert!(rows.refused[1].reason.contains("latitude 95"), "{}", rows.refused[1].reason);
    let error = reader.decode(text.as_bytes(), Path::new("a.csv")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.hint().unwrap().contains("coordinate system"), "{error}");
}

#[test]
fn geojson_goes_out_and_comes_in_with_and_without_a_place_on_earth() {
    let valid = all_valid(20, 30);
    for georeference in [zone_32(), Georeference::CELLS] {
        let (nodes, values) = ([599, 0, 217], [0.1, -1.0 / 3.0, 1e-300]);
        let sigma = [0.5, 0.25, f64::NAN];
        let columns: [(&str, &[f64]); 2] = [("value", &values), ("sigma", &sigma)];
        let output = PointOutput { grid: valid.grid(), georeference, nodes: &nodes, columns: &columns };
        let text = output.geojson().unwrap();
        let rules = SampleRules { default_sigma: Some(9.0), ..SampleRules::default() };
        let reader = PointReader::new(&valid).georeference(georeference).rules(rules);
        let points = reader.decode(text.as_bytes(), Path::new("a.geojson")).unwrap().all().unwrap();
        let found: Vec<_> = points.iter().map(|point| (point.node, point.value, point.sigma)).collect();
        assert_eq!(found, [(599, 0.1, Some(0.5)), (0, -1.0 / 3.0, Some(0.25)), (217, 1e-300, Some(9.0))]);
        // Without row and col the coordinates alone find the same cells.
        let bare = text.replace("\"row\"", "\"r\"").replace("\"col\"", "\"c\"");
        let points = reader.decode(bare.as_bytes(), Path::new("a.json")).unwrap().all().unwrap();
        assert_eq!(points.iter().map(|point| point.node).collect::<Vec<_>>(), nodes);
        assert!(output.csv().unwrap().starts_with("row,col,x,y"));
    }
}

#[test]
fn damaged_and_foreign_geojson_is_refused() {
    let valid = all_valid(2, 2);
    let feature = |geometry: &str| {
        format!(
            r#"{{"type":"FeatureCollection","features":[{{"type":"Feature","geometry":{geometry},"properties":{{"row":0,"col":1,"value":"2.5"}}}}]}}"#
        )
    };
    let read = |text: &str| PointReader::new(&valid).decode(text.as_bytes(), Path::new("a.geojson"));
    assert_eq!(read(&feature("null")).unwrap().points[0].value, 2.5);
    let rows = read(&feature(r#"{"type":"LineString","coordinates":[[0,0],[1,1]]}"#)).unwrap();
    assert!(rows.all().unwrap_err().to_string().contains("feature 1: its geometry is a `LineString`"));
    for text in ["", "{}", "[1,2]", r#"{"type":"Feature","features":[]}"#, r#"{"type":"FeatureCollection"}"#] {
        assert_eq!(read(text).unwrap_err().kind(), ErrorKind::InvalidInput, "{text}");
    }
    assert!(read(r#"{"type":"FeatureCollection","features":[]}"#).unwrap_err().to_string().contains("no column"));
}

#[test]
fn unknown_ending_and_missing_file_are_told_apart() {
    let valid = all_valid(1, 1);
    assert_eq!(read_points(Path::new("/nowhere/a.xlsx"), &valid).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(read_points(Path::new("/nowhere/a.csv"), &valid).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn users_11_the_same_measurements_in_csv_npy_and_png16_are_the_same_points() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::new(3, 4).unwrap();
    let valid = ValidMask::all(grid);
    // Millimetres of depth; 0 is missing.
    let gray: [u16; 12] = [0, 1001, 0, 3, 0, 0, 65535, 2718, 0, 0, 0, 1];
    let path = |name: &str| folder.path().join(name);
    image::ImageBuffer::<image::Luma<u16>, _>::from_vec(4, 3, gray.to_vec()).unwrap().save(path("d.png")).unwrap();
    let mask: Vec<u8> = gray.iter().map(|&gray| if gray > 0 { 255 } else { 0 }).collect();
    image::GrayImage::from_vec(4, 3, mask).unwrap().save(path("m.png")).unwrap();
    let mut text = String::from("row,col,value\n");
    let mut npy =
        b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }          \n".to_vec();
    for (node, &gray) in gray.iter().enumerate() {
        let value = f64::from(gray) / 1000.0;
        if gray > 0 {
            text.push_str(&format!("{},{},{}.{:03}\n", node / 4, node % 4, gray / 1000, gray % 1000));
        }
        npy.extend(if gray > 0 { value } else { f64::NAN }.to_le_bytes());
    }
    std::fs::write(path("d.csv"), text).unwrap();
    std::fs::write(path("d.npy"), npy).unwrap();

    let content =
        |points: Vec<Point>| points.iter().map(|point| (point.node, point.value.to_bits())).collect::<Vec<_>>();
    let csv = content(read_points(&path("d.csv"), &valid).unwrap().all().unwrap());
    assert_eq!(csv.len(), 5);
    let npy = Field::read(&path("d.npy"), None).unwrap();
    assert_eq!(content(points_on_raster(&npy, None, &valid).unwrap()), csv);
    let millimetres = Some(PngScale::per_unit(1000.0).unwrap());
    let png = Field::read(&path("d.png"), millimetres).unwrap();
    let mask = MaskFile::read(&path("m.png")).unwrap();
    assert_eq!(content(points_on_raster(&png, Some(&mask), &valid).unwrap()), csv);
    let options =
        RasterOptions { scale: millimetres.map(GrayScale::Steps), missing: Some(0.0), ..RasterOptions::default() };
    let png = Raster::read(&path("d.png"), &options).unwrap().field;
    assert_eq!(content(points_on_raster(&png, None, &valid).unwrap()), csv);
    // A mark on a missing value, or outside the valid mask, is an error.
    assert_eq!(points_on_raster(&npy, Some(&all_marked(grid)), &valid).unwrap_err().kind(), ErrorKind::NonFinite);
    let mut flags = vec![true; 12];
    flags[1] = false;
    let inner = ValidMask::new(grid, flags).unwrap();
    assert_eq!(points_on_raster(&png, Some(&mask), &inner).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(points_on_raster(&png, None, &inner).unwrap().len(), 4);
}

#[test]
fn users_14_flipped_and_transposed_inputs_give_flipped_and_transposed_cells() {
    let grid = Grid::new(3, 5).unwrap();
    let values: Vec<f64> = (0..15).map(|node| if node % 4 == 1 { f64::from(node) } else { f64::NAN }).collect();
    let cells = |rows: usize, cols: usize, values: Vec<f64>, back: &dyn Fn(usize, usize) -> (usize, usize)| {
        let grid = Grid::new(rows, cols).unwrap();
        let field = Field::new(grid, values).unwrap();
        let points = points_on_raster(&field, None, &ValidMask::all(grid)).unwrap();
        let mut cells: Vec<_> = points
            .iter()
            .map(|point| {
                let (row, col) = grid.row_col(point.node);
                (back(row, col), point.value.to_bits())
            })
            .collect();
        cells.sort_unstable();
        cells
    };
    let moved = |rows: usize, cols: usize, from: &dyn Fn(usize, usize) -> (usize, usize)| -> Vec<f64> {
        let at = |node: usize| {
            let (row, col) = from(node / cols, node % cols);
            values[grid.node(row, col)]
        };
        (0..rows * cols).map(at).collect()
    };
    let plain = cells(3, 5, values.clone(), &|row, col| (row, col));
    assert_eq!(plain.len(), 4);
    let flip = |row: usize, col: usize| (2 - row, col);
    assert_eq!(cells(3, 5, moved(3, 5, &flip), &flip), plain);
    let transpose = |row: usize, col: usize| (col, row);
    assert_eq!(cells(5, 3, moved(5, 3, &transpose), &transpose), plain);
}

fn all_marked(grid: Grid) -> MaskFile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.csv");
    std::fs::write(&path, vec![vec!["1"; grid.cols()].join(","); grid.rows()].join("\n")).unwrap();
    MaskFile::read(&path).unwrap()
}

#[cfg(feature = "parquet")]
#[test]
fn users_12_parquet_of_pyarrow_is_read_by_names_and_nulls_are_missing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let valid = all_valid(5, 7);
    let rows = read_points(&folder.join("points.parquet"), &valid).unwrap();
    let found = |points: &[Point]| points.iter().map(|p| (p.line, p.node, p.value, p.sigma)).collect::<Vec<_>>();
    assert_eq!(found(&rows.points), [(1, 0, 1.5, None), (2, 17, -2.0, None), (4, 34, 3.25, None)]);
    let error = rows.all().unwrap_err();
    assert!(error.to_string().contains("row 3: value is missing"), "{error}");
    let rules = SampleRules { default_sigma: Some(2.0), ..SampleRules::default() };
    let reader = PointReader::new(&valid).georeference(zone_32()).rules(rules);
    let points = reader.read(&folder.join("points_gzip.parquet")).unwrap().all().unwrap();
    let expected = [(1, 0, -80.5, Some(0.5)), (2, 17, -81.0, Some(2.0)), (3, 34, -90.25, Some(1.0))];
    assert_eq!(found(&points), expected);
    let columns = PointColumns::default().with(Role::Value, "note");
    let error = reader.columns(columns).read(&folder.join("points.parquet")).unwrap_err();
    assert!(error.to_string().contains("`note` must hold one number"), "{error}");
}
