//! `gpara run`: the closed loop on a known field of the user's, resumable.

use std::path::PathBuf;

use clap::Args;
use gpara_nn::sha256_hex;

use super::run_config::RunConfig;
use crate::console::Console;
use crate::failure::Outcome;
use crate::output_folder::OutputFolder;
use crate::results::{ReportInput, publish, run_scene, write_scene};
use crate::round_log::{LogHeader, RoundLog};

/// Measure a known field round by round, reconstruct it, and score the result
///
/// A run that was stopped goes on where it was. Example: gpara run configs/run_wave.toml
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The run, TOML
    config: PathBuf,
    /// Folder for the log of rounds, maps and report [default: out/ and the configuration's name]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Root of all randomness, instead of the configuration's
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the command.
pub(crate) fn run(arguments: &RunArguments, console: Console) -> Outcome {
    let RunConfig { input, mut settings, inputs } = RunConfig::read(&arguments.config)?;
    settings.seed = arguments.seed.unwrap_or(settings.seed);
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from("out").join(&input.id));
    let mut folder = OutputFolder::open(&out)?;
    console.log(&format!("writing to {}", folder.path().display()));

    // Everything that decides the rounds: files, preset, networks.
    let mut decides = settings.preset.text.clone();
    inputs.iter().for_each(|(_, hash)| decides.push_str(hash));
    settings.preset.model_hashes()?.iter().for_each(|hash| decides.push_str(hash));
    let header = LogHeader::new(sha256_hex(decides.as_bytes()), settings.seed);
    let cols = input.context.grid().cols();
    let (mut log, recorded) = RoundLog::open(&out.join("rounds.jsonl"), &header, cols)?;
    if !recorded.is_empty() {
        console.log(&format!("going on after {} recorded rounds", recorded.len()));
    }

    let progress = console.progress(settings.budget as u64, "points");
    let outcome = run_scene(&settings, input, &recorded, &progress, &mut |round| log.append(round))?;
    progress.finish_and_clear();
    write_scene(&mut folder, &outcome)?;
    let title = format!("gpara: {}", outcome.input.id);
    let subject = format!("A known field of {} cells", outcome.valid().grid());
    let input = ReportInput { title: &title, subject: &subject, settings: &settings, inputs: &inputs };
    publish(&input, &[outcome], &mut folder, console)
}
