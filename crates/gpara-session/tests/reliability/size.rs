//! Many tells on a large field.

use std::time::Instant;

use gpara::Grid;
use gpara_session::{Campaign, Layers, NewMeasurement, NewTell, Scale, SessionFile, Settings, gaussian_method};

/// Tells 20 batches on a field of `side` x `side` cells, reconstructs it, and gives the seconds of both.
fn tell_many(side: usize, per_batch: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    let scale = Scale::new(-1.0, 1.0, "").unwrap();
    let settings = Settings { sigma: 0.1, ..Settings::field(Grid::new(side, side).unwrap(), scale) };
    SessionFile::create(&path, &settings, &Layers::default(), &[]).unwrap();
    let started = Instant::now();
    let mut campaign = Campaign::open(&path).unwrap();
    for batch in 0..20 {
        let measurements = (0..per_batch).map(|k| {
            let at = (batch * per_batch + k) * 2_654_435_761;
            let value = (at % 1000) as f64 / 1000.0;
            NewMeasurement { line: None, row: at / side % side, col: at % side, value, sigma: None }
        });
        let tell = NewTell { source: "many".into(), num_skipped: 0, measurements: measurements.collect() };
        campaign.tell(&tell).unwrap();
    }
    let method = gaussian_method(&campaign.settings().prior).unwrap();
    let estimate = campaign.estimate(&*method, 0, false).unwrap();
    assert_eq!(estimate.std.is_some(), side < 724, "large grids have a mean only");
    // The told values lie between 0 and 1, whatever their cells have in common.
    assert!(estimate.mean.iter().all(|mean| *mean > -1.0 && *mean < 2.0));
    let status = campaign.status().unwrap();
    assert_eq!(status.num_values, 20 * per_batch);
    assert!(status.num_observed > 0 && status.num_observed <= 20 * per_batch);
    started.elapsed().as_secs_f64()
}

/// Largest memory this process has held, in MB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

#[test]
fn users_26_two_thousand_tells_take_less_than_a_few_seconds() {
    let seconds = tell_many(256, 100);
    assert!(seconds < 10.0, "{seconds} s");
}

#[test]
#[ignore = "slow: 20,000 tells on 2048 x 2048 cells"]
fn users_26_twenty_thousand_tells_on_four_million_cells_fit_time_and_memory() {
    let seconds = tell_many(2048, 1000);
    let memory = peak_memory();
    eprintln!("20,000 tells and the map of 2048 x 2048: {seconds:.2} s, {memory:.0} MB at most");
    assert!(seconds < 60.0, "{seconds} s");
    assert!(memory < 2048.0, "{memory} MB");
}
