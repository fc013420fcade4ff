//! The report of a demo as data.

use gpara_tasks::radio::GAIN_RANGE_DB;

use super::files::{DecibelMaps, difference_scale, gain_db, gain_scale, marks};
use super::scene::{DemoSettings, SceneOutcome};
use super::summary;
use crate::closed_loop::PolicyRun;
use crate::embedded_models::EMBEDDED_MODELS;
use crate::output_folder::{Written, sha256_hex};
use crate::picture::Mark;
use crate::report::{Chart, Curve, MapPanel, MapRow, Report, SceneReport, Table};

/// Half the range in dB: what one normalised unit is.
const DB_PER_UNIT: f64 = 0.5 * GAIN_RANGE_DB;

/// The page for all squares.
pub(super) fn report(settings: &DemoSettings, outcomes: &[SceneOutcome], files: &[Written]) -> Report {
    let policies: Vec<&str> = settings.policies.iter().map(|policy| policy.name()).collect();
    Report {
        title: "gpara: radio map from a few measurements".to_string(),
        summary: format!(
            "Path gain in {}, measured at {} cells by every policy ({}) and reconstructed with the preset {}. Errors are over valid \
             cells; buildings are grey.",
            match outcomes.len() {
                1 => "a square of a generated city".to_string(),
                count => format!("{count} squares of a generated city"),
            },
            settings.budget,
            policies.join(", "),
            settings.preset.name
        ),
        scenes: outcomes.iter().map(scene).collect(),
        settings: setting_pairs(settings),
        hashes: hash_pairs(settings, files),
    }
}

fn scene(outcome: &SceneOutcome) -> SceneReport {
    let map = &outcome.map;
    let results: Vec<(&str, DecibelMaps, Vec<Mark>)> = outcome
        .results()
        .map(|(name, result)| {
            let run = outcome.runs.iter().find(|run| run.policy.name() == name);
            (name, DecibelMaps::of(result, &outcome.truth), marks(outcome, run))
        })
        .collect();
    let row = |title: &str, scale, values: fn(&DecibelMaps) -> Option<&Vec<f64>>| {
        let panel = |(name, maps, marks): &(&str, DecibelMaps, Vec<Mark>)| {
            Some(MapPanel { title: (*name).to_string(), values: values(maps)?.clone(), marks: marks.clone() })
        };
        MapRow { title: title.to_string(), scale, maps: results.iter().filter_map(panel).collect() }
    };
    let mut field = row("Path gain", gain_scale(), |maps| Some(&maps.field));
    let truth = MapPanel { title: "truth".to_string(), values: gain_db(&outcome.truth), marks: marks(outcome, None) };
    field.maps.insert(0, truth);
    let difference = difference_scale(outcome);
    let note = format!("the last colour also stands for more than {} dB", difference.high);
    SceneReport {
        title: format!(
            "{}: {} cells of {} m, {} valid",
            map.id,
            map.scene.grid(),
            map.scene.meters_per_cell(),
            map.scene.valid().num_valid()
        ),
        valid: map.scene.valid().clone(),
        invalid_name: "building".to_string(),
        rows: vec![
            field,
            row(&format!("Absolute error ({note})"), difference.clone(), |maps| Some(&maps.error)),
            row("Standard deviation (same scale)", difference, |maps| maps.std.as_ref()),
        ],
        charts: vec![
            chart("Error against budget", "RMSE over valid cells, dB", &outcome.runs, |run| {
                scaled(&run.error_curve, DB_PER_UNIT)
            }),
            // The graph's variances are right up to a factor, which the ratio does not need.
            chart("Posterior risk against budget", "share of the risk without measurements", &outcome.runs, |run| {
                scaled(&run.risk_curve, run.risk_curve.first().map_or(1.0, |first| 1.0 / first.1))
            }),
        ],
        table: table(outcome),
    }
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
        columns: summary::columns(),
        rows: results.iter().map(|(name, result)| summary::row(name, &result.score)).collect(),
        best_row: (0..results.len()).min_by(|first, second| rmse(first).total_cmp(&rmse(second))),
    }
}

fn setting_pairs(settings: &DemoSettings) -> Vec<(String, String)> {
    let pairs = [
        ("program", format!("gpara {}", env!("CARGO_PKG_VERSION"))),
        ("preset", settings.preset.name.clone()),
        ("seed", settings.seed.to_string()),
        ("budget", settings.budget.to_string()),
    ];
    pairs.map(|(name, value)| (name.to_string(), value)).into_iter().chain(settings.preset.pairs()).collect()
}

fn hash_pairs(settings: &DemoSettings, files: &[Written]) -> Vec<(String, String)> {
    let preset = ("preset".to_string(), sha256_hex(settings.preset.text.as_bytes()));
    let used = settings.preset.model_names();
    let models = EMBEDDED_MODELS.iter().filter(|model| used.contains(&model.name));
    let models = models.map(|model| (format!("model {}", model.name), sha256_hex(model.onnx)));
    // Previews are drawn from the lossless files, whose hashes say all.
    let files = files.iter().filter(|file| !file.name.ends_with("_vis.png"));
    let files = files.map(|file| (file.name.clone(), file.sha256.clone()));
    std::iter::once(preset).chain(models).chain(files).collect()
}
