//! Maps and points of a square as files.

use std::io::Cursor;

use gpara::RoundRecord;
use gpara_tasks::radio::{GAIN_FLOOR_DB, GAIN_RANGE_DB, gain_db_from_normalized};
use image::ImageFormat;

use super::scene::SceneOutcome;
use crate::closed_loop::{PolicyRun, Scored};
use crate::failure::Outcome;
use crate::output_folder::OutputFolder;
use crate::picture::{ColorMap, GrayRange, MapPicture, Mark, MarkKind, ValueScale, gray16_png};

/// The range of every 16-bit map of path gain.
pub(super) const GAIN_RANGE: GrayRange = GrayRange { low: GAIN_FLOOR_DB, high: GAIN_FLOOR_DB + GAIN_RANGE_DB };

/// The range of every 16-bit map of errors and standard deviations.
pub(super) const DIFFERENCE_RANGE: GrayRange = GrayRange { low: 0.0, high: GAIN_RANGE_DB };

/// The three maps of a reconstruction in dB.
pub(super) struct DecibelMaps {
    /// Mean.
    pub(super) field: Vec<f64>,
    /// Standard deviation, where there is one.
    pub(super) std: Option<Vec<f64>>,
    /// Absolute error.
    pub(super) error: Vec<f64>,
}

impl DecibelMaps {
    /// From normalised values; a difference of 2 is the whole range.
    pub(super) fn of(result: &Scored, truth: &[f64]) -> Self {
        let difference = |value: f64| value * 0.5 * GAIN_RANGE_DB;
        Self {
            field: gain_db(&result.mean),
            std: result.std.as_ref().map(|std| std.iter().map(|&std| difference(std)).collect()),
            error: result.mean.iter().zip(truth).map(|(mean, truth)| difference((mean - truth).abs())).collect(),
        }
    }
}

/// Path gain in dB of normalised values.
pub(super) fn gain_db(normalized: &[f64]) -> Vec<f64> {
    normalized.iter().map(|&value| gain_db_from_normalized(value)).collect()
}

/// The scale of path gain.
pub(super) fn gain_scale() -> ValueScale {
    ValueScale { color_map: ColorMap::Field, low: GAIN_RANGE.low, high: GAIN_RANGE.high, unit: "dB".to_string() }
}

/// One scale for the errors and standard deviations of all results of a square, so that they compare by eye.
///
/// It ends where 99 % of the worst result's errors lie: one outlier must not turn all maps black.
pub(super) fn difference_scale(outcome: &SceneOutcome) -> ValueScale {
    let valid = outcome.map.scene.valid();
    let high = outcome.runs.iter().map(|run| {
        let maps = DecibelMaps::of(&run.result, &outcome.truth);
        let mut errors: Vec<f64> = valid.nodes().map(|node| maps.error[node]).collect();
        errors.sort_by(f64::total_cmp);
        errors[(errors.len() - 1) * 99 / 100]
    });
    let high = high.fold(1.0, f64::max).ceil();
    ValueScale { color_map: ColorMap::Magnitude, low: 0.0, high, unit: "dB".to_string() }
}

/// Measured cells and transmitter.
pub(super) fn marks(outcome: &SceneOutcome, run: Option<&PolicyRun>) -> Vec<Mark> {
    let grid = outcome.map.scene.grid();
    let measured = run.into_iter().flat_map(|run| run.observations.iter()).map(|entry| {
        let (row, col) = grid.row_col(entry.node);
        Mark { kind: MarkKind::Measured, row, col }
    });
    let (row, col) = outcome.map.scene.transmitter();
    let transmitter = Mark { kind: MarkKind::Transmitter, row: row.round() as usize, col: col.round() as usize };
    measured.chain([transmitter]).collect()
}

/// Writes all maps and point lists of a square; names begin with the square's id.
pub(super) fn write_scene(folder: &mut OutputFolder, outcome: &SceneOutcome) -> Outcome {
    let id = &outcome.map.id;
    let (gain, difference) = (gain_scale(), difference_scale(outcome));
    let truth = gain_db(&outcome.truth);
    let no_points = marks(outcome, None);
    write_map(folder, outcome, &format!("{id}_truth"), "truth", &truth, &gain, GAIN_RANGE, &no_points)?;
    for (name, result) in outcome.results() {
        let run = outcome.runs.iter().find(|run| run.policy.name() == name);
        let maps = DecibelMaps::of(result, &outcome.truth);
        let (stem, points) = (format!("{id}_{}", name.replace('-', "_")), marks(outcome, run));
        let title = |what: &str| format!("{id}, {name}: {what}");
        write_map(
            folder,
            outcome,
            &format!("{stem}_field"),
            &title("path gain"),
            &maps.field,
            &gain,
            GAIN_RANGE,
            &points,
        )?;
        let std = maps.std.as_ref().map(|std| ("std", "standard deviation", std));
        for (what, heading, values) in std.into_iter().chain([("error", "absolute error", &maps.error)]) {
            let (stem, title) = (format!("{stem}_{what}"), title(heading));
            write_map(folder, outcome, &stem, &title, values, &difference, DIFFERENCE_RANGE, &points)?;
        }
        if let Some(run) = run {
            folder.write(&format!("{stem}_points.csv"), points_csv(outcome, &run.rounds).as_bytes())?;
        }
    }
    Ok(())
}

fn write_map(
    folder: &mut OutputFolder,
    outcome: &SceneOutcome,
    stem: &str,
    title: &str,
    values: &[f64],
    scale: &ValueScale,
    range: GrayRange,
    marks: &[Mark],
) -> Outcome {
    let valid = outcome.map.scene.valid();
    folder.write(&format!("{stem}.png"), &gray16_png(values, valid, range))?;
    let picture = MapPicture { title, values, valid, invalid_name: "building", scale, marks };
    let mut preview = Cursor::new(Vec::new());
    picture.draw().write_to(&mut preview, ImageFormat::Png).expect("a PNG fits in memory");
    folder.write(&format!("{stem}_vis.png"), &preview.into_inner())
}

/// The points in the order of measurement.
fn points_csv(outcome: &SceneOutcome, rounds: &[RoundRecord]) -> String {
    let grid = outcome.map.scene.grid();
    let mut csv = String::from("order,row,col,value,unit,score,expected_risk_drop\n");
    let points = rounds.iter().flat_map(|round| round.points.iter().zip(&round.values));
    for (order, (point, value)) in points.enumerate() {
        let (row, col) = grid.row_col(point.node);
        let text = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
        let (value, drop) = (text(value.map(gain_db_from_normalized)), text(point.expected_risk_drop));
        csv.push_str(&format!("{order},{row},{col},{value},dB,{},{drop}\n", point.score));
    }
    csv
}
