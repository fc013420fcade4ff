//! `gpara models`: what networks this build holds, and whether they still compute what they did when exported.

use clap::{Args, Subcommand};
use gpara_nn::{Card, sha256_hex};
use serde_json::{Value, json};

use super::calibrate::{self, CalibrateArguments};
use crate::console::{Console, aligned};
use crate::embedded_models::{EMBEDDED_MODELS, EmbeddedModel};
use crate::failure::{Failure, Outcome};

/// List the embedded networks, or check them.
#[derive(Debug, Args)]
pub(crate) struct ModelsArguments {
    #[command(subcommand)]
    action: Option<ModelsAction>,
}

#[derive(Debug, Subcommand)]
enum ModelsAction {
    /// Recompute the golden output of each network and compare its hash with the card
    Verify,
    Calibrate(CalibrateArguments),
}

/// Runs the command.
pub(crate) fn run(arguments: &ModelsArguments, console: Console) -> Outcome {
    match &arguments.action {
        None => list(console),
        Some(ModelsAction::Verify) => verify(console),
        Some(ModelsAction::Calibrate(arguments)) => calibrate::run(arguments, console),
    }
}

fn card(model: &EmbeddedModel) -> Outcome<Card> {
    Card::parse(model.card).map_err(|error| Failure::from(error).within(format!("card of `{}`", model.name)))
}

fn list(console: Console) -> Outcome {
    let cards = EMBEDDED_MODELS.iter().map(|model| Ok((model, card(model)?))).collect::<Outcome<Vec<_>>>()?;
    if console.json {
        let models: Vec<Value> = cards.iter().map(|(model, card)| entry(model, card)).collect();
        console.data(&format!("{:#}\n", Value::Array(models)));
        return Ok(());
    }
    if cards.is_empty() {
        console.data("this build holds no network; the preset `gaussian` works without\n");
        return Ok(());
    }
    let columns = ["model", "task", "role", "output", "sees measurements", "grid", "steps", "MiB", "licence", "sha256"];
    let rows: Vec<Vec<String>> = cards
        .iter()
        .map(|(model, card)| {
            let output = json!(card.parameterization);
            let role = json!(card.role);
            vec![
                model.name.to_string(),
                card.task.clone(),
                role.as_str().unwrap_or_default().to_string(),
                output.as_str().unwrap_or_default().to_string(),
                if card.sees_measurements { "yes" } else { "no" }.to_string(),
                format!("{}x{}", card.grid[0], card.grid[1]),
                card.steps.to_string(),
                format!("{:.1}", model.onnx.len() as f64 / f64::from(1 << 20)),
                card.licence.clone(),
                card.sha256[..12].to_string(),
            ]
        })
        .collect();
    console.data(&aligned(&columns.map(String::from), &rows));
    for (model, card) in cards {
        console.data(&format!("\n{}: trained on {}\n", model.name, card.data));
    }
    Ok(())
}

fn entry(model: &EmbeddedModel, card: &Card) -> Value {
    json!({
        "name": model.name,
        "task": card.task,
        "role": card.role,
        "parameterization": card.parameterization,
        "sees_measurements": card.sees_measurements,
        "channels": card.channels,
        "grid": card.grid,
        "training_steps": card.steps,
        "training_seconds": card.training_seconds,
        "data": card.data,
        "licence": card.licence,
        "bytes": model.onnx.len(),
        "sha256": card.sha256,
        "validation": card.validation,
    })
}

fn verify(console: Console) -> Outcome {
    let mut results = Vec::new();
    for model in EMBEDDED_MODELS {
        let verification = model.load()?.verify()?;
        if console.json {
            results.push(json!({
                "name": model.name,
                "sha256": sha256_hex(model.onnx),
                "num_values": verification.num_values,
                "max_difference": verification.max_difference,
                "tolerance": verification.tolerance,
            }));
        } else {
            console.data(&format!(
                "{}: hash matches; {} golden values agree, largest difference {:.1e} (allowed {:.0e})\n",
                model.name, verification.num_values, verification.max_difference, verification.tolerance
            ));
        }
    }
    if console.json {
        console.data(&format!("{:#}\n", Value::Array(results)));
    } else if EMBEDDED_MODELS.is_empty() {
        console.data("this build holds no network, nothing to verify\n");
    }
    Ok(())
}
