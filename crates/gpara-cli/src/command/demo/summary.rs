//! The numbers of a demo as a table and as JSON.

use gpara::FieldErrors;
use gpara_tasks::radio::GAIN_RANGE_DB;
use serde_json::{Map, Value, json};

use super::files::{DIFFERENCE_RANGE, GAIN_RANGE};
use super::scene::{DemoSettings, SceneOutcome};
use crate::closed_loop::Score;
use crate::console::aligned;
use crate::output_folder::OutputFolder;

/// Normalised values span 2 where gray/255 spans 1.
const GRAY_FACTOR: f64 = 0.5;

/// Heads of the table's columns.
pub(super) fn columns() -> Vec<String> {
    let text = [
        "method",
        "points",
        "RMSE",
        "MAE",
        "RMSE unobs.",
        "MAE unobs.",
        "RMSE dB",
        "MAE dB",
        "RMSE unobs. dB",
        "MAE unobs. dB",
        "network calls",
    ];
    text.map(String::from).to_vec()
}

/// One row of the table; errors in gray/255, then in dB. Seconds are not in it: files do not depend on the clock.
pub(super) fn row(name: &str, score: &Score) -> Vec<String> {
    let gray = |errors: FieldErrors| {
        let errors = errors.scaled(GRAY_FACTOR);
        [format!("{:.4}", errors.rmse), format!("{:.4}", errors.mae)]
    };
    let decibel = |errors: FieldErrors| {
        let errors = errors.scaled(GRAY_FACTOR * GAIN_RANGE_DB);
        [format!("{:.2}", errors.rmse), format!("{:.2}", errors.mae)]
    };
    let none = || ["-".to_string(), "-".to_string()];
    let head = [name.to_string(), score.num_points.to_string()];
    let numbers = [
        gray(score.valid),
        score.unobserved.map_or_else(none, gray),
        decibel(score.valid),
        score.unobserved.map_or_else(none, decibel),
    ];
    head.into_iter().chain(numbers.into_iter().flatten()).chain([score.network_calls.to_string()]).collect()
}

/// The table as text, one block a square, with seconds.
pub(super) fn text(settings: &DemoSettings, outcomes: &[SceneOutcome]) -> String {
    let mut text = String::new();
    let mut columns = columns();
    columns.push("seconds".to_string());
    for outcome in outcomes {
        let valid = outcome.map.scene.valid();
        text.push_str(&format!(
            "\n{}: {} grid, {} valid cells, preset {}, seed {}; errors in gray/255 and dB over valid and over unobserved cells\n\n",
            outcome.map.id,
            outcome.map.scene.grid(),
            valid.num_valid(),
            settings.preset.name,
            settings.seed
        ));
        let rows: Vec<Vec<String>> = outcome
            .results()
            .map(|(name, result)| {
                let mut row = row(name, &result.score);
                row.push(format!("{:.2}", result.score.seconds));
                row
            })
            .collect();
        text.push_str(&aligned(&columns, &rows));
    }
    if outcomes.len() > 1 {
        text.push_str(&format!("\nmean over {} squares, RMSE in gray/255 over valid cells\n\n", outcomes.len()));
        let names = outcomes[0].results().map(|(name, _)| name);
        let rows: Vec<Vec<String>> = names
            .map(|name| {
                vec![name.to_string(), format!("{:.4}", mean(outcomes, name, |score| score.valid.rmse * GRAY_FACTOR))]
            })
            .collect();
        text.push_str(&aligned(&["method".to_string(), "RMSE".to_string()], &rows));
    }
    text
}

/// Everything as JSON: one key a method (means over the squares), then the squares one by one.
pub(super) fn json(settings: &DemoSettings, outcomes: &[SceneOutcome], folder: &OutputFolder) -> Value {
    let mut object = Map::new();
    for (name, _) in outcomes[0].results() {
        object.insert(key(name), mean_entry(outcomes, name));
    }
    object.insert("unit".to_string(), json!("gray/255"));
    object.insert("preset".to_string(), json!(settings.preset.name));
    object.insert("seed".to_string(), json!(settings.seed));
    object.insert("budget".to_string(), json!(settings.budget));
    let scenes: Vec<Value> = outcomes.iter().map(scene_entry).collect();
    object.insert("scenes".to_string(), Value::Array(scenes));
    object.insert(
        "pictures".to_string(),
        json!({
            "field_db": { "gray_0": GAIN_RANGE.low, "gray_65535": GAIN_RANGE.high },
            "std_and_error_db": { "gray_0": DIFFERENCE_RANGE.low, "gray_65535": DIFFERENCE_RANGE.high },
        }),
    );
    object.insert("out".to_string(), json!(folder.path().display().to_string()));
    let files: Vec<&str> = folder.written().iter().map(|written| written.name.as_str()).collect();
    object.insert("files".to_string(), json!(files));
    Value::Object(object)
}

fn scene_entry(outcome: &SceneOutcome) -> Value {
    let mut scene = Map::new();
    scene.insert("scene".to_string(), json!(outcome.map.id));
    scene.insert("valid_cells".to_string(), json!(outcome.map.scene.valid().num_valid()));
    for (name, result) in outcome.results() {
        scene.insert(key(name), entry(&result.score));
    }
    Value::Object(scene)
}

fn entry(score: &Score) -> Value {
    let gray = score.valid.scaled(GRAY_FACTOR);
    let decibel = score.valid.scaled(GRAY_FACTOR * GAIN_RANGE_DB);
    let unobserved = score.unobserved.map(|errors| errors.scaled(GRAY_FACTOR));
    let unobserved_decibel = score.unobserved.map(|errors| errors.scaled(GRAY_FACTOR * GAIN_RANGE_DB));
    json!({
        "rmse": gray.rmse,
        "mae": gray.mae,
        "rmse_unobserved": unobserved.map(|errors| errors.rmse),
        "mae_unobserved": unobserved.map(|errors| errors.mae),
        "rmse_db": decibel.rmse,
        "mae_db": decibel.mae,
        "rmse_unobserved_db": unobserved_decibel.map(|errors| errors.rmse),
        "mae_unobserved_db": unobserved_decibel.map(|errors| errors.mae),
        "cells": gray.num_cells,
        "points": score.num_points,
        "network_calls": score.network_calls,
        "seconds": score.seconds,
    })
}

/// The entry of a method with every number averaged over the squares.
fn mean_entry(outcomes: &[SceneOutcome], name: &str) -> Value {
    let entries: Vec<Value> = outcomes.iter().filter_map(|outcome| Some(entry(score(outcome, name)?))).collect();
    let Some(Value::Object(first)) = entries.first() else { return Value::Null };
    let mean = |field: &String| {
        let values: Option<Vec<f64>> = entries.iter().map(|entry| entry[field].as_f64()).collect();
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

/// The mean of a number of a method over the squares.
fn mean(outcomes: &[SceneOutcome], name: &str, of: impl Fn(&Score) -> f64) -> f64 {
    outcomes.iter().filter_map(|outcome| score(outcome, name)).map(of).sum::<f64>() / outcomes.len() as f64
}

/// The JSON key of a method, e.g. `farthest_point`.
fn key(name: &str) -> String {
    name.replace('-', "_")
}
