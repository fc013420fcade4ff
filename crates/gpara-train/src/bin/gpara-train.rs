//! Training without the rest of the CLI: the program that travels to a GPU machine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use gpara_train::{RunOptions, TrainConfig, best_device, train};

#[derive(Debug, Parser)]
#[command(name = "gpara-train", version, about = "Trains the networks of gpara on libtorch")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Trains a prior or a mean network as CONFIG says.
    Prior {
        /// Configuration, e.g. configs/radio_best_mean.toml.
        config: PathBuf,
        /// Folder of the data set.
        #[arg(long)]
        data: Option<PathBuf>,
        /// Folder for checkpoint, weights and curve.
        #[arg(long, default_value = "runs")]
        out: PathBuf,
        /// Continue from the checkpoint in the folder.
        #[arg(long)]
        resume: bool,
        /// Stop after this many seconds, to be resumed.
        #[arg(long)]
        max_seconds: Option<f64>,
        /// Replaces the budget of the configuration; give the same when resuming.
        #[arg(long)]
        budget_seconds: Option<f64>,
        /// Replaces the budget of the configuration; give the same when resuming.
        #[arg(long, conflicts_with = "budget_seconds")]
        steps: Option<u64>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            if let Some(hint) = error.hint() {
                eprintln!("\nhint: {hint}");
            }
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> gpara::Result<()> {
    let Command::Prior { config, data, out, resume, max_seconds, budget_seconds, steps } = arguments.command;
    let mut config = TrainConfig::read(&config)?;
    if budget_seconds.is_some() || steps.is_some() {
        (config.budget.seconds, config.budget.steps) = (budget_seconds, steps);
        config = config.check()?;
    }
    let summary = train(&config, &RunOptions { data, out, resume, max_seconds, device: best_device() })?;
    let state = if summary.finished { "finished" } else { "stopped, resume with --resume" };
    eprintln!("{}: {state} at step {}", config.name, summary.step);
    Ok(())
}
