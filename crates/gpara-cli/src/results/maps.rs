//! Maps and points of a field as files.

use std::io::Cursor;

use gpara::RoundRecord;
use gpara_tasks::field::write_png16;
use image::{ImageFormat, RgbImage};

use super::scene::SceneOutcome;
use super::units::FieldUnits;
use crate::closed_loop::{PolicyRun, Scored};
use crate::failure::Outcome;
use crate::output_folder::OutputFolder;
use crate::picture::{ColorMap, MapPicture, Mark, MarkKind, ValueScale, overview};

/// The three maps of a reconstruction in the user's unit.
pub(super) struct UnitMaps {
    /// Mean.
    pub(super) field: Vec<f64>,
    /// Standard deviation, where there is one.
    pub(super) std: Option<Vec<f64>>,
    /// Absolute error.
    pub(super) error: Vec<f64>,
}

impl UnitMaps {
    /// From normalised values.
    pub(super) fn of(result: &Scored, truth: &[f64], units: &FieldUnits) -> Self {
        let factor = units.factor();
        Self {
            field: in_units(&result.mean, units),
            std: result.std.as_ref().map(|std| std.iter().map(|std| std * factor).collect()),
            error: result.mean.iter().zip(truth).map(|(mean, truth)| (mean - truth).abs() * factor).collect(),
        }
    }
}

/// Normalised values in the user's unit.
pub(super) fn in_units(normalized: &[f64], units: &FieldUnits) -> Vec<f64> {
    normalized.iter().map(|&value| units.value(value)).collect()
}

/// The scale of all maps of the field itself: the field's whole range.
pub(super) fn field_scale(units: &FieldUnits) -> ValueScale {
    ValueScale { color_map: ColorMap::Field, low: units.low, high: units.high, unit: units.unit.clone() }
}

/// One scale for the errors and standard deviations of all results of a field, so that they compare by eye.
///
/// It ends where 99 % of the worst policy's errors lie: one outlier must not turn all maps black.
pub(super) fn difference_scale(outcome: &SceneOutcome) -> ValueScale {
    let units = &outcome.input.units;
    let high = outcome.runs.iter().map(|run| {
        let maps = UnitMaps::of(&run.result, &outcome.input.truth, units);
        let mut errors: Vec<f64> = outcome.valid().nodes().map(|node| maps.error[node]).collect();
        errors.sort_by(f64::total_cmp);
        errors[(errors.len() - 1) * 99 / 100]
    });
    // A perfect reconstruction still needs a scale; a hundredth of the range is a small error in any unit.
    let high = round_up(high.fold(0.01 * (units.high - units.low), f64::max));
    ValueScale { color_map: ColorMap::Magnitude, low: 0.0, high, unit: units.difference_unit().to_string() }
}

/// The next number with two leading digits.
fn round_up(value: f64) -> f64 {
    let step = 10f64.powf(value.log10().floor() - 1.0);
    (value / step).ceil() * step
}

/// Measured cells and transmitter.
pub(super) fn marks(outcome: &SceneOutcome, run: Option<&PolicyRun>) -> Vec<Mark> {
    let grid = outcome.valid().grid();
    let measured = run.into_iter().flat_map(|run| run.observations.iter()).map(|entry| {
        let (row, col) = grid.row_col(entry.node);
        Mark { kind: MarkKind::Measured, row, col }
    });
    let transmitter = outcome.input.transmitter;
    let transmitter = transmitter.map(|(row, col)| Mark { kind: MarkKind::Transmitter, row, col });
    measured.chain(transmitter).collect()
}

/// Writes all maps and point lists of a field; names begin with its id.
pub(crate) fn write_scene(folder: &mut OutputFolder, outcome: &SceneOutcome) -> Outcome {
    let (id, units) = (&outcome.input.id, &outcome.input.units);
    let (field, difference) = (field_scale(units), difference_scale(outcome));
    let truth = in_units(&outcome.input.truth, units);
    write_map(folder, outcome, &format!("{id}_truth"), &format!("{id}: truth"), &truth, &field, &marks(outcome, None))?;
    for (name, result) in outcome.results() {
        let run = outcome.run_named(name);
        let maps = UnitMaps::of(result, &outcome.input.truth, units);
        let (stem, points) = (format!("{id}_{}", name.replace('-', "_")), marks(outcome, run));
        let std = maps.std.as_ref().map(|std| ("std", "standard deviation", std, &difference));
        let always = [("field", "mean", &maps.field, &field), ("error", "absolute error", &maps.error, &difference)];
        for (what, heading, values, scale) in always.into_iter().chain(std) {
            let (stem, title) = (format!("{stem}_{what}"), format!("{id}, {name}: {heading}"));
            write_map(folder, outcome, &stem, &title, values, scale, &points)?;
        }
        if let Some(run) = run {
            folder.write(&format!("{stem}_points.csv"), points_csv(outcome, &run.rounds).as_bytes())?;
        }
    }
    write_overview(folder, outcome)
}

/// Means above, errors below, every method beside the other.
fn write_overview(folder: &mut OutputFolder, outcome: &SceneOutcome) -> Outcome {
    let (input, valid) = (&outcome.input, outcome.valid());
    let (field, difference) = (field_scale(&input.units), difference_scale(outcome));
    let truth = in_units(&input.truth, &input.units);
    let no_points = marks(outcome, None);
    let results: Vec<(&str, UnitMaps, Vec<Mark>, String)> = outcome
        .results()
        .map(|(name, result)| {
            let rmse = result.score.valid.rmse * input.units.factor();
            let title = format!("RMSE {rmse:.2} {}", input.units.difference_unit());
            (name, UnitMaps::of(result, &input.truth, &input.units), marks(outcome, outcome.run_named(name)), title)
        })
        .collect();
    let invalid_name = &input.invalid_name;
    let truth = MapPicture { title: "truth", values: &truth, valid, invalid_name, scale: &field, marks: &no_points };
    let means = results.iter().map(|(title, maps, marks, _)| MapPicture {
        title,
        values: &maps.field,
        valid,
        invalid_name,
        scale: &field,
        marks,
    });
    let errors = results.iter().map(|(_, maps, _, title)| {
        // Points would hide small errors.
        MapPicture { title, values: &maps.error, valid, invalid_name, scale: &difference, marks: &no_points }
    });
    // Each error below its method; the truth has none.
    let rows = [
        std::iter::once(truth).chain(means).map(Some).collect(),
        std::iter::once(None).chain(errors.map(Some)).collect(),
    ];
    let picture = overview(&rows).expect("there is a map of the truth");
    folder.write(&format!("{}_overview_vis.png", input.id), &png_bytes(&picture))
}

pub(crate) fn png_bytes(image: &RgbImage) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png).expect("a PNG fits in memory");
    bytes.into_inner()
}

/// The map as 16-bit PNG, whose range covers every value, and as a preview in the colours of its row.
fn write_map(
    folder: &mut OutputFolder,
    outcome: &SceneOutcome,
    stem: &str,
    title: &str,
    values: &[f64],
    scale: &ValueScale,
    marks: &[Mark],
) -> Outcome {
    let valid = outcome.valid();
    let low = valid.nodes().map(|node| values[node]).fold(scale.low, f64::min);
    let high = valid.nodes().map(|node| values[node]).fold(scale.high, f64::max);
    folder.write_by(&format!("{stem}.png"), |path| write_png16(path, valid, values, low, high))?;
    let invalid_name = &outcome.input.invalid_name;
    let picture = MapPicture { title, values, valid, invalid_name, scale, marks };
    folder.write(&format!("{stem}_vis.png"), &png_bytes(&picture.draw()))
}

/// The points in the order of measurement.
fn points_csv(outcome: &SceneOutcome, rounds: &[RoundRecord]) -> String {
    let (grid, units) = (outcome.valid().grid(), &outcome.input.units);
    let mut csv = String::from("order,row,col,value,unit,score,expected_risk_drop\n");
    let points = rounds.iter().flat_map(|round| round.points.iter().zip(&round.values));
    for (order, (point, value)) in points.enumerate() {
        let (row, col) = grid.row_col(point.node);
        let text = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
        let (value, drop) = (text(value.map(|value| units.value(value))), text(point.expected_risk_drop));
        csv.push_str(&format!("{order},{row},{col},{value},{},{},{drop}\n", units.unit, point.score));
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_ends_are_rounded_up_to_two_digits() {
        for (value, end) in [(20.3, 21.0), (1.0, 1.0), (0.0431, 0.044), (996.0, 1000.0)] {
            assert!((round_up(value) - end).abs() < 1e-9 * end, "{value}");
        }
    }
}
