//! `gpara reconstruct`: the whole field from what was told.

use std::path::{Path, PathBuf};

use clap::Args;
use gpara::ValidMask;
use gpara_session::{Campaign, Estimate, sha256_hex};
use gpara_tasks::field::{write_csv_grid, write_npy, write_npy_stack, write_png16};
use serde_json::json;

use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::session_method::method_of;

/// Write the whole field, its standard deviation, and samples of it
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gpara reconstruct S.gpara -o map.npy --std std.npy

Formats by the end of the name: .npy (float32), .csv, .png (16-bit gray, scale recorded in the file).")]
pub(crate) struct ReconstructArguments {
    /// The session
    session: PathBuf,
    /// The mean, in the session's unit
    #[arg(short = 'o', long = "out")]
    out: PathBuf,
    /// The standard deviation
    #[arg(long)]
    std: Option<PathBuf>,
    /// Samples of the field, one .npy of [samples, rows, cols]
    #[arg(long)]
    samples: Option<PathBuf>,
    /// Number of samples
    #[arg(long, default_value_t = 4)]
    num_samples: usize,
    /// Measured cells take exactly their value
    #[arg(long)]
    hard_consistency: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &ReconstructArguments, console: Console) -> Outcome {
    // Before any work: a name that cannot be written is no reason to compute first.
    for path in [Some(&arguments.out), arguments.std.as_ref()].into_iter().flatten() {
        MapFormat::of(path)?;
    }
    let mut campaign = Campaign::open(&arguments.session)?;
    super::note_migration(&campaign, console);
    let method = method_of(campaign.settings())?;
    let num_samples = if arguments.samples.is_some() { arguments.num_samples } else { 0 };
    let estimate = campaign.estimate(&*method, num_samples, arguments.hard_consistency)?;
    let outputs = write(arguments, &campaign, &estimate)?;
    let hashes: Vec<String> = outputs.iter().map(|(path, hash)| format!("{} {hash}", path.display())).collect();
    campaign.record_estimate(&estimate, &hashes.join("\n"))?;
    let unit = &campaign.settings().scale.unit;
    if console.json {
        let report = json!({
            "num_observed": estimate.num_observed,
            "seconds": estimate.seconds,
            "network_calls": estimate.network_calls,
            "unit": unit,
            "largest_misfit": estimate.largest_misfit.map(|misfit| json!({
                "row": misfit.row, "col": misfit.col, "size": misfit.size,
            })),
            "files": outputs.iter().map(|(path, hash)| json!({ "file": path.display().to_string(), "sha256": hash }))
                .collect::<Vec<_>>(),
        });
        console.data(&format!("{report:#}\n"));
        return Ok(());
    }
    for (path, _) in &outputs {
        console.log(&format!("wrote {}", path.display()));
    }
    if let Some(misfit) = estimate.largest_misfit {
        console.log(&format!(
            "largest |estimate - value| at a measured cell: {:.3e} {unit} (row {}, col {})",
            misfit.size, misfit.row, misfit.col
        ));
    }
    Ok(())
}

/// Writes what was wanted, and gives each file with its hash.
fn write(
    arguments: &ReconstructArguments,
    campaign: &Campaign,
    estimate: &Estimate,
) -> Outcome<Vec<(PathBuf, String)>> {
    let valid = campaign.valid();
    let mut written = vec![arguments.out.clone()];
    write_map(&arguments.out, valid, &estimate.mean)?;
    if let Some(path) = &arguments.std {
        let std = estimate.std.as_ref().ok_or_else(|| {
            Failure::input("there is no standard deviation yet", "a Gaussian prior has one from two measurements on")
        })?;
        write_map(path, valid, std)?;
        written.push(path.clone());
    }
    if let Some(path) = &arguments.samples {
        write_npy_stack(path, valid.grid(), &estimate.samples)?;
        written.push(path.clone());
    }
    written
        .into_iter()
        .map(|path| {
            let bytes = std::fs::read(&path).map_err(|error| Failure::file("read back", &path, &error, WRITABLE))?;
            Ok((path, sha256_hex(&bytes)))
        })
        .collect()
}

const WRITABLE: &str = "name a file in a folder you may write to";

/// A format of maps, by the end of the file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MapFormat {
    Npy,
    Csv,
    Png,
}

impl MapFormat {
    fn of(path: &Path) -> Outcome<Self> {
        match path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).as_deref() {
            Some("npy") => Ok(Self::Npy),
            Some("csv") => Ok(Self::Csv),
            Some("png") => Ok(Self::Png),
            _ => Err(Failure::input(
                format!("`{}` is in no format that maps are written in", path.display()),
                "use a name that ends in .npy, .csv or .png",
            )),
        }
    }
}

fn write_map(path: &Path, valid: &ValidMask, values: &[f64]) -> Outcome {
    match MapFormat::of(path)? {
        MapFormat::Npy => write_npy(path, valid.grid(), values)?,
        MapFormat::Csv => write_csv_grid(path, valid.grid(), values)?,
        MapFormat::Png => {
            let within = valid.nodes().map(|node| values[node]);
            let (low, high) =
                within.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
            // A constant map still needs a range.
            let high = if high > low { high } else { low + 1.0 };
            write_png16(path, valid, values, low, high)?;
        }
    }
    Ok(())
}
