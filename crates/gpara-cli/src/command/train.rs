//! `gpara train`: trains a network, or exports trained weights; only in builds with the feature `train`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gpara_train::{Role, RunOptions, TrainConfig, best_device, export_model, train};

use crate::console::Console;
use crate::failure::{Failure, Outcome};

/// Train a network on libtorch, or export trained weights.
#[derive(Debug, Args)]
pub(crate) struct TrainArguments {
    #[command(subcommand)]
    action: TrainAction,
}

#[derive(Debug, Subcommand)]
enum TrainAction {
    /// Train a prior or a mean network as CONFIG says, on the first GPU or else the CPU
    Prior(RunArguments),
    /// Train the graph network of a prior that lies in the folder
    Graph(RunArguments),
    /// Train the acquisition scorer of a prior and a graph that lie in the folder
    Scorer(RunArguments),
    /// Write NAME.onnx and its card NAME.toml from trained weights, checked against libtorch
    Export {
        /// Weights that training wrote, NAME.safetensors
        weights: PathBuf,
        /// Folder for the two files
        #[arg(long, default_value = "models")]
        out: PathBuf,
        /// Name of the model [default: that of the run]
        #[arg(long)]
        name: Option<String>,
    },
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Configuration, e.g. configs/radio_best_mean.toml
    config: PathBuf,
    /// Folder of the data set; not needed with embedded samples
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder for checkpoint, weights and validation curve; frozen networks are read from it
    #[arg(long, default_value = "runs")]
    out: PathBuf,
    /// Go on from the checkpoint in the folder
    #[arg(long)]
    resume: bool,
    /// Stop after this many seconds, to be resumed
    #[arg(long)]
    max_seconds: Option<f64>,
}

/// Runs the command.
pub(crate) fn run(arguments: &TrainArguments, console: Console) -> Outcome {
    match &arguments.action {
        TrainAction::Prior(run) => run_training(run, &[Role::Prior, Role::Mean, Role::Spread], console),
        TrainAction::Graph(run) => run_training(run, &[Role::Graph], console),
        TrainAction::Scorer(run) => run_training(run, &[Role::Scorer], console),
        TrainAction::Export { weights, out, name } => {
            let report = export_model(weights, out, name.as_deref())?;
            console.log(&format!(
                "exported to {}: {:.1} MiB, SHA-256 {}, differs from libtorch by at most {:.1e} over 16 random inputs",
                out.display(),
                report.bytes as f64 / f64::from(1 << 20),
                report.sha256,
                report.max_difference,
            ));
            Ok(())
        }
    }
}

fn run_training(run: &RunArguments, roles: &[Role], console: Console) -> Outcome {
    let RunArguments { config, data, out, resume, max_seconds } = run;
    if let Some(seconds) = max_seconds.filter(|seconds| seconds.is_nan() || *seconds <= 0.0) {
        let message = format!("--max-seconds {seconds} is not allowed: a number above 0");
        return Err(Failure::input(message, "leave it out to train to the end of the budget"));
    }
    let config = TrainConfig::read(config)?;
    config.require_role(roles)?;
    let options = RunOptions {
        data: data.clone(),
        out: out.clone(),
        resume: *resume,
        max_seconds: *max_seconds,
        max_steps: None,
        device: best_device(),
    };
    let summary = train(&config, &options)?;
    let state = if summary.finished { "finished" } else { "stopped, go on with --resume" };
    let name = &config.name;
    console.log(&format!(
        "{name}: {state} at step {}; {}/{name}.safetensors holds the weights of step {}",
        summary.step,
        options.out.display(),
        summary.kept_step,
    ));
    Ok(())
}
