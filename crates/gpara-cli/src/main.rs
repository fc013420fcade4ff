//! The `gpara` command: where to measure a field next, and what the whole field looks like.

mod closed_loop;
mod command;
mod console;
mod embedded_models;
mod evaluation;
mod failure;
mod model_source;
mod output_folder;
mod picture;
mod preset;
mod quantity;
mod recalibrated;
mod report;
mod results;
mod round_log;
mod session_method;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[cfg(feature = "train")]
use command::train;
use command::{
    ask, completions, demo, eval, import, inspect, models, new, reconstruct, report as report_command, run, status,
    tell,
};
use console::Console;
use failure::{Failure, Outcome};

/// Where to measure a field next, and what the whole field looks like given the measurements
#[derive(Debug, Parser)]
#[command(
    name = "gpara",
    version,
    arg_required_else_help = true,
    after_help = "A campaign on a field of 64 x 64 cells:
  gpara new S.gpara --grid 64x64 --unit dBm --sigma 2dB
  gpara tell S.gpara measured.csv --column value=rssi   what is measured already, if anything is
  gpara ask S.gpara -n 8 > points.csv                   measure these, then tell them
  gpara reconstruct S.gpara -o map.tif --std std.tif
  gpara report S.gpara -o report.html"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Threads to use; the results do not depend on it [default: all cores]
    #[arg(long, global = true, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Print errors only, and data that were asked for with --json
    #[arg(long, global = true)]
    quiet: bool,
    /// Print data as JSON on stdout
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(Box<new::NewArguments>),
    Ask(ask::AskArguments),
    Tell(tell::TellArguments),
    Status(status::StatusArguments),
    Reconstruct(reconstruct::ReconstructArguments),
    Report(report_command::ReportArguments),
    Demo(demo::DemoArguments),
    Eval(eval::EvalArguments),
    Import(import::ImportArguments),
    Inspect(inspect::InspectArguments),
    Models(models::ModelsArguments),
    Run(run::RunArguments),
    #[cfg(feature = "train")]
    Train(train::TrainArguments),
    Completions(completions::CompletionsArguments),
    Man(completions::ManArguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let console = Console { quiet: cli.quiet, json: cli.json };
    match set_threads(cli.threads).and_then(|()| execute(&cli.command, console)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let failure = failure.or_hint("`gpara COMMAND --help` names every flag and shows an example");
            console.error(&failure.to_string());
            failure.exit_code()
        }
    }
}

fn execute(command: &Command, console: Console) -> Outcome {
    match command {
        Command::New(arguments) => new::run(arguments, console),
        Command::Ask(arguments) => ask::run(arguments, console),
        Command::Tell(arguments) => tell::run(arguments, console),
        Command::Status(arguments) => status::run(arguments, console),
        Command::Reconstruct(arguments) => reconstruct::run(arguments, console),
        Command::Report(arguments) => report_command::run(arguments, console),
        Command::Demo(arguments) => demo::run(arguments, console),
        Command::Eval(arguments) => eval::run(arguments, console),
        Command::Import(arguments) => import::run(arguments, console),
        Command::Inspect(arguments) => inspect::run(arguments, console),
        Command::Models(arguments) => models::run(arguments, console),
        Command::Run(arguments) => run::run(arguments, console),
        #[cfg(feature = "train")]
        Command::Train(arguments) => train::run(arguments, console),
        Command::Completions(arguments) => completions::run(arguments, Cli::command(), console),
        Command::Man(arguments) => completions::run_man(arguments, Cli::command(), console),
    }
}

fn set_threads(threads: Option<u16>) -> Outcome {
    let Some(threads) = threads else { return Ok(()) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(threads));
    pool.build_global().map_err(|error| Failure::program(format!("cannot start {threads} threads: {error}")))
}
