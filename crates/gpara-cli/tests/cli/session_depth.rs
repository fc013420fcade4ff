//! A depth session: a colour picture, points of depth, the embedded networks of depth.

use std::path::Path;

use gpara_tasks::field::Field;

use crate::program::gpara;

const ROOMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpara-tasks/data/sample_rooms");

/// The middle of the first room, a quarter of its cells so that a build without optimisation is quick.
fn middle(file: &str) -> image::DynamicImage {
    image::open(Path::new(ROOMS).join(file)).unwrap().crop_imm(64, 48, 128, 96)
}

/// Depth in millimetres, 0 where there is none.
fn truth() -> image::ImageBuffer<image::Luma<u16>, Vec<u16>> {
    middle("depth/0.png").into_luma16()
}

/// Writes the depths of every `stride`-th row and column as points; gives their number.
fn write_points(folder: &Path, stride: u32) -> usize {
    let depth = truth();
    let places = depth
        .enumerate_pixels()
        .filter(|(x, y, pixel)| x % stride == stride / 2 && y % stride == stride / 2 && pixel.0[0] > 0);
    let rows: Vec<String> = places.map(|(x, y, pixel)| format!("{y},{x},{}", f64::from(pixel.0[0]) / 1000.0)).collect();
    std::fs::write(folder.join("points.csv"), format!("row,col,value\n{}\n", rows.join("\n"))).unwrap();
    rows.len()
}

/// Root mean square error in metres of a map, and the share of cells inside twice its standard deviation.
fn score(folder: &Path, map: &str, std: &str) -> (f64, f64) {
    let [map, std] = [map, std].map(|name| Field::read(&folder.join(name), None).unwrap().into_values());
    let (mut squares, mut inside, mut count) = (0.0, 0.0, 0.0);
    for (node, pixel) in truth().pixels().enumerate().filter(|(_, pixel)| pixel.0[0] > 0) {
        let error = map[node] - f64::from(pixel.0[0]) / 1000.0;
        squares += error * error;
        inside += f64::from(error.abs() < 2.0 * std[node]);
        count += 1.0;
    }
    let (rmse, share) = ((squares / count).sqrt(), inside / count);
    (rmse, share)
}

#[test]
fn depth_session_asks_and_reconstructs_with_the_networks() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    middle("rgb/0.png").save(folder.join("room.png")).unwrap();
    gpara(folder, "new D.gpara --task depth --picture room.png --sigma 0.02m --budget 200").success();
    gpara(
        folder,
        "new G.gpara --grid 96x128 --prior gaussian --guide room.png --range=0,10 --unit m --sigma 0.02m --budget 200",
    )
    .success();
    let asked = gpara(folder, "ask D.gpara -n 4 --json").success().json();
    assert_eq!(asked["points"].as_array().unwrap().len(), 4);
    assert_eq!(asked["prior_drawn"], false);
    assert_eq!(asked["networks_asked"], true);
    assert!(asked["points"].as_array().unwrap().iter().all(|point| point["predicted"].as_f64().unwrap() > 0.0));
    let count = write_points(folder, 16);
    assert!(count > 40, "{count} points");
    for session in ["D", "G"] {
        gpara(folder, &format!("tell {session}.gpara points.csv")).success();
        gpara(folder, &format!("reconstruct {session}.gpara -o {session}.npy --std {session}_std.npy")).success();
    }
    let ((networks, share), (gaussian, _)) = (score(folder, "D.npy", "D_std.npy"), score(folder, "G.npy", "G_std.npy"));
    println!(
        "{count} points: {networks:.3} m by the networks ({share:.3} within two std), {gaussian:.3} m by the guided field"
    );
    // A drawn room looks like no photograph: networks that predict depth itself had .142 and .169 m here against .136 m of the fitted
    // field that is guided by the picture. The network that corrects such a field has .107 m.
    assert!(networks < 0.9 * gaussian, "{networks} m, {gaussian} m");
    assert!(share > 0.8, "{share}");
    // The same points come next whatever the order of the tells, and none that is measured.
    let again = gpara(folder, "ask D.gpara -n 2 --json").success().json();
    assert_eq!(again["num_observed"], count);
    gpara(folder, "status D.gpara").success();
    gpara(folder, "report D.gpara -o D.html").success();
}

#[test]
fn depth_task_without_its_picture_and_a_picture_without_the_task_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    middle("rgb/0.png").save(folder.join("room.png")).unwrap();
    std::fs::write(folder.join("torn.png"), &std::fs::read(folder.join("room.png")).unwrap()[..400]).unwrap();
    for (arguments, message) in [
        ("--task depth", "a depth session needs --picture"),
        ("--task field --picture room.png", "--picture belongs to --task depth"),
        ("--picture torn.png", "--picture"),
        ("--picture room.png --preset paper", "preset `paper-depth` cannot serve a session"),
    ] {
        let refused = gpara(folder, &format!("new R.gpara {arguments}"));
        assert!(refused.code == 2 && refused.stderr.contains(message), "{arguments}: {}", refused.stderr);
        assert!(!folder.join("R.gpara").exists());
    }
}
