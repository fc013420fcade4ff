//! The numbers of a closed loop as a table and as JSON.

use gpara::FieldErrors;
use serde_json::{Map, Value, json};

use super::scene::{RunSettings, SceneOutcome};
use super::units::FieldUnits;
use crate::closed_loop::Score;
use crate::console::aligned;
use crate::output_folder::OutputFolder;

/// Heads of the table's columns: four errors a unit, and the relative errors on a ratio scale.
pub(super) fn columns(units: &FieldUnits) -> Vec<String> {
    let errors = units.measures.iter().flat_map(|measure| {
        ["RMSE", "MAE", "RMSE unobs.", "MAE unobs."]
            .map(|name| format!("{name} {}", measure.unit).trim_end().to_string())
    });
    let head = ["method", "points"].map(String::from);
    let relative = units.ratio_scale.then_some(["AbsRel", "delta1"]).into_iter().flatten().map(String::from);
    head.into_iter().chain(errors).chain(relative).chain(["network calls".to_string()]).collect()
}

/// One row of the table. Seconds are not in it: files do not depend on the clock.
pub(super) fn row(name: &str, score: &Score, units: &FieldUnits) -> Vec<String> {
    let errors = units.measures.iter().flat_map(|measure| {
        let text = |errors: FieldErrors| {
            let errors = errors.scaled(measure.factor);
            // Five significant digits of the whole range.
            let decimals = (4.0 - (2.0 * measure.factor).log10().floor()).clamp(0.0, 12.0) as usize;
            [format!("{:.decimals$}", errors.rmse), format!("{:.decimals$}", errors.mae)]
        };
        let none = || ["-".to_string(), "-".to_string()];
        text(score.valid).into_iter().chain(score.unobserved.map_or_else(none, text))
    });
    let head = [name.to_string(), score.num_points.to_string()];
    let relative = score.relative.map(|errors| [format!("{:.4}", errors.abs_rel), format!("{:.4}", errors.delta1)]);
    let relative = relative.into_iter().flatten();
    head.into_iter().chain(errors).chain(relative).chain([score.network_calls.to_string()]).collect()
}

/// The table as text, one block a field, with seconds.
pub(crate) fn text(settings: &RunSettings, outcomes: &[SceneOutcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let (valid, units) = (outcome.valid(), &outcome.input.units);
        let mut columns = columns(units);
        columns.extend(["selection s".to_string(), "seconds".to_string()]);
        text.push_str(&format!(
            "\n{}: {} grid, {} valid cells, preset {}, seed {}; errors over valid and over unobserved cells\n\n",
            outcome.input.id,
            valid.grid(),
            valid.num_valid(),
            settings.preset.name,
            settings.seed
        ));
        let rows: Vec<Vec<String>> = outcome
            .results()
            .map(|(name, result)| {
                let mut row = row(name, &result.score, units);
                row.extend(
                    [result.score.selection_seconds, result.score.seconds].map(|seconds| format!("{seconds:.2}")),
                );
                row
            })
            .collect();
        text.push_str(&aligned(&columns, &rows));
    }
    if let [first, _, ..] = outcomes {
        let measure = &first.input.units.measures[0];
        text.push_str(&format!("\nmean over {} fields: RMSE over valid cells, {}\n\n", outcomes.len(), measure.unit));
        let rows: Vec<Vec<String>> = first
            .results()
            .map(|(name, _)| {
                vec![
                    name.to_string(),
                    format!("{:.4}", mean(outcomes, name, |score| score.valid.rmse * measure.factor)),
                ]
            })
            .collect();
        text.push_str(&aligned(&["method".to_string(), "RMSE".to_string()], &rows));
    }
    text
}

/// Everything as JSON: one key a method (means over the fields), then the fields one by one.
pub(crate) fn json(settings: &RunSettings, outcomes: &[SceneOutcome], folder: &OutputFolder) -> Value {
    let mut object = Map::new();
    let names: Vec<&str> = outcomes.iter().take(1).flat_map(SceneOutcome::results).map(|(name, _)| name).collect();
    for name in names {
        object.insert(key(name), mean_entry(outcomes, name));
    }
    let unit = outcomes.first().map(|outcome| outcome.input.units.measures[0].unit.clone());
    object.insert("unit".to_string(), json!(unit));
    object.insert("preset".to_string(), json!(settings.preset.name));
    object.insert("seed".to_string(), json!(settings.seed));
    object.insert("budget".to_string(), json!(settings.budget));
    let scenes: Vec<Value> = outcomes.iter().map(scene_entry).collect();
    object.insert("scenes".to_string(), Value::Array(scenes));
    object.insert("out".to_string(), json!(folder.path().display().to_string()));
    let files: Vec<&str> = folder.written().iter().map(|written| written.name.as_str()).collect();
    object.insert("files".to_string(), json!(files));
    Value::Object(object)
}

fn scene_entry(outcome: &SceneOutcome) -> Value {
    let mut scene = Map::new();
    scene.insert("scene".to_string(), json!(outcome.input.id));
    scene.insert("valid_cells".to_string(), json!(outcome.valid().num_valid()));
    for (name, result) in outcome.results() {
        scene.insert(key(name), Value::Object(entry(&result.score, &outcome.input.units)));
    }
    Value::Object(scene)
}

/// The first unit's errors have plain keys, those of the others end in the unit, e.g. `rmse_db`.
fn entry(score: &Score, units: &FieldUnits) -> Map<String, Value> {
    let mut entry = Map::new();
    for (place, measure) in units.measures.iter().enumerate() {
        let end = if place == 0 { String::new() } else { format!("_{}", measure.unit.to_lowercase()) };
        let valid = score.valid.scaled(measure.factor);
        let unobserved = score.unobserved.map(|errors| errors.scaled(measure.factor));
        entry.insert(format!("rmse{end}"), json!(valid.rmse));
        entry.insert(format!("mae{end}"), json!(valid.mae));
        entry.insert(format!("rmse_unobserved{end}"), json!(unobserved.map(|errors| errors.rmse)));
        entry.insert(format!("mae_unobserved{end}"), json!(unobserved.map(|errors| errors.mae)));
    }
    if let Some(relative) = score.relative {
        entry.insert("abs_rel".to_string(), json!(relative.abs_rel));
        entry.insert("delta1".to_string(), json!(relative.delta1));
    }
    entry.insert("cells".to_string(), json!(score.valid.num_cells));
    entry.insert("points".to_string(), json!(score.num_points));
    entry.insert("network_calls".to_string(), json!(score.network_calls));
    entry.insert("seconds".to_string(), json!(score.seconds));
    entry.insert("selection_seconds".to_string(), json!(score.selection_seconds));
    entry
}

/// The entry of a method with every number averaged over the fields.
fn mean_entry(outcomes: &[SceneOutcome], name: &str) -> Value {
    let of_scene = |outcome| Some(entry(score(outcome, name)?, &outcome.input.units));
    let entries: Vec<Map<String, Value>> = outcomes.iter().filter_map(of_scene).collect();
    let Some(first) = entries.first() else { return Value::Null };
    let mean = |field: &String| {
        let values: Option<Vec<f64>> = entries.iter().map(|entry| entry.get(field)?.as_f64()).collect();
        match values {
            Some(_) if entries.len() == 1 => first[field].clone(),
            Some(values) => json!(values.iter().sum::<f64>() / values.len() as f64),
            None => Value::Null,
        }
    };
    Value::Object(first.keys().map(|field| (field.clone(), mean(field))).collect())
}

fn score<'a>(outcome: &'a SceneOutcome, name: &str) -> Option<&'a Score> {
    outcome.results().find(|(found, _)| *found == name).map(|(_, result)| &result.score)
}

/// The mean of a number of a method over the fields.
fn mean(outcomes: &[SceneOutcome], name: &str, of: impl Fn(&Score) -> f64) -> f64 {
    outcomes.iter().filter_map(|outcome| score(outcome, name)).map(of).sum::<f64>() / outcomes.len() as f64
}

/// The JSON key of a method, e.g. `farthest_point`.
fn key(name: &str) -> String {
    name.replace('-', "_")
}
