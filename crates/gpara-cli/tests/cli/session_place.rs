//! Sessions with a place in the world, and importers.

use std::path::Path;

use gpara_tasks::field::{Raster, RasterOptions};

use crate::bad_input::{Case, check};
use crate::program::gpara;

/// Samples along two streets near 48.1 north, 11.5 east, several in each cell.
fn write_drive(path: &Path) {
    let mut text = String::from("time;Latitude;Longitude;RSRP;cell id\n");
    for k in 0..240 {
        let along = f64::from(k) * 1e-5;
        let (lat, lon) = if k < 120 { (48.1 + along, 11.5) } else { (48.1006, 11.5 + 2.0 * (along - 120e-5)) };
        let value = -85.0 - 2000.0 * along + f64::from(k * 7 % 5);
        text.push_str(&format!("{k};{lat:.7};{lon:.7};{value:.1};17\n"));
    }
    text.push_str("241;0;0;-80;17\n");
    std::fs::write(path, text).unwrap();
}

#[test]
fn drive_test_without_weights_goes_from_csv_to_geotiff() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    write_drive(&folder.join("drive.csv"));
    let import = "import drive-test drive.csv -o drive --cell-size 10 --column value=RSRP --averaging decibel";
    let refused = gpara(folder, import);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("line 242"), "a receiver without a position writes 0, 0: {}", refused.stderr);
    let said = gpara(folder, &format!("{import} --skip-invalid")).success().stderr;
    assert!(said.contains("240 samples in") && said.contains("skipped 1 invalid rows"), "{said}");

    gpara(folder, "new S.gpara --like drive/drive_test.json --prior gaussian --range=-130,-70 --budget 90").success();
    let told = gpara(folder, "tell S.gpara drive/points.csv --json").success().json();
    assert!(told["recorded"].as_u64().unwrap() > 20 && told["merged"] == 0, "{told:#}");
    // A point in degrees lands in the same cell as its coordinates.
    std::fs::write(folder.join("more.csv"), "lat,lon,value,sigma\n48.1003,11.5004,-90,2\n").unwrap();
    gpara(folder, "tell S.gpara more.csv").success();
    std::fs::write(folder.join("far.csv"), "lat,lon,value\n49.0,11.5,-90\n").unwrap();
    let far = gpara(folder, "tell S.gpara far.csv");
    assert!(far.code == 2 && far.stderr.contains("line 2"), "{}", far.stderr);

    let asked = gpara(folder, "ask S.gpara -n 2 --format geojson").success().json();
    let place = &asked["features"][0]["geometry"]["coordinates"];
    assert!((place[0].as_f64().unwrap() - 11.5).abs() < 0.01 && (place[1].as_f64().unwrap() - 48.1).abs() < 0.01);
    let csv = gpara(folder, "ask S.gpara").success().stdout;
    assert!(csv.starts_with("row,col,x,y,lat,lon,score"), "{csv}");

    gpara(folder, "reconstruct S.gpara -o map.tif --std std.tif").success();
    let map = Raster::read(&folder.join("map.tif"), &RasterOptions::default()).unwrap();
    let georeference = map.georeference.unwrap();
    assert_eq!(georeference.crs().unwrap().to_string(), "EPSG:32632");
    assert_eq!(georeference.affine().coefficients()[1], 10.0);
    gpara(folder, "report S.gpara -o report.html").success();
}

#[test]
fn place_by_hand_and_by_a_map_are_kept_and_bad_ones_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let place = "--origin 431000,5412000 --cell-size 25 --crs EPSG:32632";
    gpara(folder, &format!("new a.gpara --grid 4x6 {place} --unit m --range=0,9")).success();
    gpara(folder, "tell a.gpara --row 0 --col 0 --value 2").success();
    std::fs::write(folder.join("xy.csv"), "x,y,value\n431149,5411901,7\n").unwrap();
    gpara(folder, "tell a.gpara xy.csv").success();
    gpara(folder, "reconstruct a.gpara -o a.tif").success();
    let map = Raster::read(&folder.join("a.tif"), &RasterOptions::default()).unwrap();
    assert!((map.field.values()[23] - 7.0).abs() < 1e-3, "the last cell holds the second point");
    // A session like that map has its place.
    gpara(folder, "new b.gpara --like a.tif").success();
    let asked = gpara(folder, "ask b.gpara --json").success().json();
    let x = asked["points"][0]["x"].as_f64().unwrap();
    assert!(x > 431_000.0 && x < 431_150.0, "{x}");
    check(
        folder,
        &[
            Case { arguments: "new c.gpara --grid 4x6 --crs EPSG:32632", says: &["--crs", "--origin"] },
            Case { arguments: "new c.gpara --grid 4x6 --origin 1,2 --cell-size 0", says: &["0"] },
            Case { arguments: "new c.gpara --grid 4x6 --origin 1,2 --cell-size 3 --crs EPSG:1", says: &["EPSG"] },
            Case { arguments: "new c.gpara --like xy.csv", says: &["--like"] },
            Case { arguments: "import drive-test xy.csv -o d --cell-size 5", says: &["--averaging linear-power"] },
            Case { arguments: "import nyu no -o d --depth-scale 1000", says: &["no/depth"] },
            Case { arguments: "import radio-map-seer no -o d", says: &["no/gain"] },
        ],
    );
}

#[test]
fn layouts_of_radio_map_seer_and_nyu_become_sessions() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let make = |path: &str| std::fs::create_dir_all(folder.join(path)).unwrap();
    ["seer/png/buildings_complete", "seer/antenna", "seer/gain/DPM", "nyu/rgb", "nyu/depth"]
        .iter()
        .for_each(|p| make(p));
    let save = |path: &str, image: image::DynamicImage| image.save(folder.join(path)).unwrap();
    let built = image::GrayImage::from_fn(12, 10, |x, y| image::Luma([if x > 7 && y > 6 { 255 } else { 0 }]));
    save("seer/png/buildings_complete/0.png", built.into());
    save("seer/gain/DPM/0_0.png", image::GrayImage::from_fn(12, 10, |x, y| image::Luma([(x * 9 + y) as u8])).into());
    std::fs::write(folder.join("seer/antenna/0.json"), "[[3, 4]]").unwrap();
    let depth = image::ImageBuffer::from_fn(9, 8, |x, y| image::Luma([1000u16 + 100 * x as u16 + y as u16]));
    save("nyu/depth/a.png", depth.into());
    save("nyu/rgb/a.png", image::RgbImage::from_pixel(9, 8, image::Rgb([90, 120, 30])).into());

    gpara(folder, "import radio-map-seer seer -o city --id 0_0").success();
    gpara(folder, "new city.gpara --field-mask city/valid.png --prior gaussian --unit dB --range=-147,-47").success();
    gpara(folder, "ask city.gpara -n 2").success();
    let made = gpara(folder, "import nyu nyu -o room --depth-scale 1000 --json").success().json();
    assert_eq!(
        (made["rows"].as_u64(), made["cols"].as_u64(), made["num_valid"].as_u64()),
        (Some(8), Some(9), Some(72))
    );
    let guide = "--guide nyu/rgb/a.png --range=0,5 --unit m --sigma 0.01m";
    gpara(folder, &format!("new room.gpara --field-mask room/valid.png --prior gaussian {guide}")).success();
    gpara(folder, "ask room.gpara -n 2").success();
}
