//! Training without the rest of the CLI: the program that travels to a GPU machine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use gpara_train::{
    PackSettings, Role, RunOptions, TrainConfig, best_device, export_model, import_model, pack_depth, train,
};

#[derive(Debug, Parser)]
#[command(name = "gpara-train", version, about = "Trains the networks of gpara on libtorch")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Trains a prior, a mean network or the spread of one as CONFIG says.
    Prior(Run),
    /// Trains a graph network, after its prior.
    Graph(Run),
    /// Trains an acquisition scorer, after its prior and graph.
    Scorer(Run),
    /// Writes a smaller copy of the depth data, to be carried to a GPU machine.
    PackDepth {
        /// Folder of the data set.
        from: PathBuf,
        /// Folder of the copy.
        to: PathBuf,
        /// JPEG quality of the pictures.
        #[arg(long, default_value_t = 85)]
        quality: u8,
        /// Depths are rounded to multiples of this many millimetres.
        #[arg(long, default_value_t = 10)]
        step_mm: u16,
    },
    /// Writes NAME.safetensors from an exported network, for the training of graph and scorer.
    Import {
        /// The exported network, with its card beside it.
        onnx: PathBuf,
        /// The configuration it was trained with.
        config: PathBuf,
        /// Folder of the runs.
        #[arg(long, default_value = "runs")]
        out: PathBuf,
    },
    /// Writes NAME.onnx and the card NAME.toml from a weights file, after a check against libtorch.
    Export {
        /// Weights that training wrote, NAME.safetensors.
        weights: PathBuf,
        /// Folder for the two files.
        #[arg(long, default_value = "models")]
        out: PathBuf,
        /// Name of the model [default: that of the run].
        #[arg(long)]
        name: Option<String>,
    },
}

#[derive(Debug, Args)]
struct Run {
    /// Configuration, e.g. configs/radio_best_mean.toml.
    config: PathBuf,
    /// Folder of the data set.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder for checkpoint, weights and curve; frozen networks are read from it.
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
    match arguments.command {
        Command::Prior(run) => run_training(run, &[Role::Prior, Role::Mean, Role::Spread]),
        Command::Graph(run) => run_training(run, &[Role::Graph]),
        Command::Scorer(run) => run_training(run, &[Role::Scorer]),
        Command::PackDepth { from, to, quality, step_mm } => {
            let report = pack_depth(&from, &to, PackSettings { quality, step_millimeters: step_mm })?;
            let size = report.bytes as f64 / f64::from(1 << 20);
            eprintln!("{}: {} maps, {size:.1} MiB", to.display(), report.num_maps);
            Ok(())
        }
        Command::Import { onnx, config, out } => import_model(&onnx, &TrainConfig::read(&config)?, &out),
        Command::Export { weights, out, name } => {
            let report = export_model(&weights, &out, name.as_deref())?;
            eprintln!(
                "exported to {}: {:.1} MiB, SHA-256 {}, largest difference from libtorch over 16 random inputs {:.1e}",
                out.display(),
                report.bytes as f64 / f64::from(1 << 20),
                report.sha256,
                report.max_difference,
            );
            Ok(())
        }
    }
}

fn run_training(run: Run, roles: &[Role]) -> gpara::Result<()> {
    let Run { config, data, out, resume, max_seconds, budget_seconds, steps } = run;
    let mut config = TrainConfig::read(&config)?;
    config.require_role(roles)?;
    if budget_seconds.is_some() || steps.is_some() {
        (config.budget.seconds, config.budget.steps) = (budget_seconds, steps);
        config = config.check()?;
    }
    let options = RunOptions { data, out, resume, max_seconds, max_steps: None, device: best_device() };
    let summary = train(&config, &options)?;
    let state = if summary.finished { "finished" } else { "stopped, resume with --resume" };
    eprintln!("{}: {state} at step {}, kept the weights of step {}", config.name, summary.step, summary.kept_step);
    Ok(())
}
