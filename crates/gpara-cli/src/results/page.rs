//! The report of a closed loop as data.

use gpara_nn::sha256_hex;

use super::maps::{UnitMaps, difference_scale, field_scale, in_units, marks};
use super::scene::{RunSettings, SceneOutcome};
use super::summary;
use crate::closed_loop::PolicyRun;
use crate::embedded_models::EMBEDDED_MODELS;
use crate::output_folder::Written;
use crate::picture::Mark;
use crate::report::{Chart, Curve, MapPanel, MapRow, Report, SceneReport, Table};

/// What the page is about.
pub(crate) struct ReportInput<'a> {
    /// Heading.
    pub(crate) title: &'a str,
    /// What was measured, e.g. `Path gain in a square of a generated city`.
    pub(crate) subject: &'a str,
    /// What was asked for.
    pub(crate) settings: &'a RunSettings,
    /// Name and SHA-256 of input files.
    pub(crate) inputs: &'a [(String, String)],
}

/// The page for all fields; `files` lie beside it.
pub(crate) fn report(input: &ReportInput<'_>, files: &[Written], outcomes: &[SceneOutcome]) -> Report {
    let settings = input.settings;
    let policies: Vec<&str> = settings.policies.iter().map(|policy| policy.name()).collect();
    Report {
        title: input.title.to_string(),
        summary: format!(
            "{}, measured at {} cells by {} and reconstructed with the preset {}. Errors are over valid cells.",
            input.subject,
            settings.budget,
            match policies.as_slice() {
                [only] => format!("the policy {only}"),
                all => format!("each policy ({})", all.join(", ")),
            },
            settings.preset.name
        ),
        scenes: outcomes.iter().map(scene).collect(),
        settings: setting_pairs(settings),
        hashes: hash_pairs(input, files),
    }
}

fn scene(outcome: &SceneOutcome) -> SceneReport {
    let input = &outcome.input;
    let results: Vec<(&str, UnitMaps, Vec<Mark>)> = outcome
        .results()
        .map(|(name, result)| {
            let run = outcome.run_named(name);
            (name, UnitMaps::of(result, &input.truth, &input.units), marks(outcome, run))
        })
        .collect();
    let row = |title: &str, scale, values: fn(&UnitMaps) -> Option<&Vec<f64>>| {
        let panel = |(name, maps, marks): &(&str, UnitMaps, Vec<Mark>)| {
            Some(MapPanel { title: (*name).to_string(), values: values(maps)?.clone(), marks: marks.clone() })
        };
        MapRow { title: title.to_string(), scale, maps: results.iter().filter_map(panel).collect() }
    };
    let mut field = row("Mean", field_scale(&input.units), |maps| Some(&maps.field));
    let truth = MapPanel {
        title: "truth".to_string(),
        values: in_units(&input.truth, &input.units),
        marks: marks(outcome, None),
    };
    field.maps.insert(0, truth);
    let difference = difference_scale(outcome);
    let note = format!("the last colour also stands for more than {} {}", short(difference.high), difference.unit);
    let error_label = format!("RMSE over valid cells{}", in_brackets(input.units.difference_unit()));
    let factor = input.units.factor();
    let valid = outcome.valid();
    let rows = [
        field,
        row(&format!("Absolute error ({})", note.trim_end()), difference.clone(), |maps| Some(&maps.error)),
        row("Standard deviation (same scale)", difference, |maps| maps.std.as_ref()),
    ];
    SceneReport {
        title: format!("{}: {} cells, {} valid", input.id, valid.grid(), valid.num_valid()),
        valid: valid.clone(),
        invalid_name: input.invalid_name.clone(),
        rows: rows.into_iter().filter(|row| !row.maps.is_empty()).collect(),
        charts: vec![
            chart("Error against budget", &error_label, &outcome.runs, |run| scaled(&run.error_curve, factor)),
            // The graph's variances are right up to a factor, which the ratio does not need.
            chart("Posterior risk against budget", "share of the risk without measurements", &outcome.runs, |run| {
                scaled(&run.risk_curve, run.risk_curve.first().map_or(1.0, |first| 1.0 / first.1))
            }),
        ],
        table: table(outcome),
    }
}

/// At most four decimals, without zeros at the end.
fn short(value: f64) -> String {
    format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_string()
}

fn in_brackets(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(", {unit}") }
}

fn scaled(curve: &[(f64, f64)], factor: f64) -> Vec<(f64, f64)> {
    curve.iter().map(|&(x, y)| (x, y * factor)).collect()
}

fn chart(title: &str, y_label: &str, runs: &[PolicyRun], points: impl Fn(&PolicyRun) -> Vec<(f64, f64)>) -> Chart {
    Chart {
        title: title.to_string(),
        x_label: "measurements".to_string(),
        y_label: y_label.to_string(),
        curves: runs.iter().map(|run| Curve { name: run.policy.name().to_string(), points: points(run) }).collect(),
    }
}

fn table(outcome: &SceneOutcome) -> Table {
    let results: Vec<_> = outcome.results().collect();
    let rmse = |place: &usize| results[*place].1.score.valid.rmse;
    Table {
        columns: summary::columns(&outcome.input.units),
        rows: results.iter().map(|(name, result)| summary::row(name, &result.score, &outcome.input.units)).collect(),
        best_row: (0..results.len()).min_by(|first, second| rmse(first).total_cmp(&rmse(second))),
    }
}

fn setting_pairs(settings: &RunSettings) -> Vec<(String, String)> {
    let pairs = [
        ("program", format!("gpara {}", env!("CARGO_PKG_VERSION"))),
        ("preset", settings.preset.name.clone()),
        ("seed", settings.seed.to_string()),
        ("budget", settings.budget.to_string()),
    ];
    pairs.map(|(name, value)| (name.to_string(), value)).into_iter().chain(settings.preset.pairs()).collect()
}

fn hash_pairs(input: &ReportInput<'_>, files: &[Written]) -> Vec<(String, String)> {
    let preset = &input.settings.preset;
    let preset_pair = ("preset".to_string(), sha256_hex(preset.text.as_bytes()));
    let used = preset.model_names();
    let models = EMBEDDED_MODELS.iter().filter(|model| used.contains(&model.name));
    let models = models.map(|model| (format!("model {}", model.name), sha256_hex(model.onnx)));
    // Previews are drawn from the lossless files, whose hashes say all.
    let files = files.iter().filter(|file| !file.name.ends_with("_vis.png"));
    let files = files.map(|file| (file.name.clone(), file.sha256.clone()));
    std::iter::once(preset_pair).chain(models).chain(input.inputs.iter().cloned()).chain(files).collect()
}
