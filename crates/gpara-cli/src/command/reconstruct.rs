//! `gpara reconstruct`: the whole field from what was told.

use std::path::{Path, PathBuf};

use clap::Args;
use gpara_session::{Campaign, Estimate, sha256_hex};
use gpara_tasks::export::{MapOutput, write_maps};
use gpara_tasks::field::write_npy_stack;
use gpara_tasks::units::Unit;
use serde_json::json;

use super::ask::intervals;
use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::quantity::unit_suffix;
use crate::session_method::method_of;

/// Write the whole field, its standard deviation, and samples of it
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gpara reconstruct S.gpara -o map.tif --std std.tif

Formats by the end of the name: .tif (GeoTIFF), .npy (float32), .csv, .asc, .png (16-bit gray, scale recorded beside it).")]
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
        check_ending(path)?;
    }
    let mut campaign = Campaign::open(&arguments.session)?;
    super::note_migration(&campaign, console);
    let method = method_of(campaign.settings())?;
    let num_samples = if arguments.samples.is_some() { arguments.num_samples } else { 0 };
    let estimate = campaign.estimate(&*method, num_samples, arguments.hard_consistency)?;
    let outputs = write(arguments, &campaign, &estimate)?;
    let hashes: Vec<String> = outputs.iter().map(|(path, hash)| format!("{} {hash}", path.display())).collect();
    campaign.record_estimate(&estimate, &hashes.join("\n"))?;
    let scale = &campaign.settings().scale;
    let error_unit = scale.difference_unit();
    if console.json {
        let report = json!({
            "num_observed": estimate.num_observed,
            "seconds": estimate.seconds,
            "network_calls": estimate.network_calls,
            "unit": scale.unit,
            "error_unit": error_unit,
            "interval_factors": intervals(estimate.interval_factors),
            "largest_misfit": estimate.largest_misfit.map(|misfit| json!({
                "row": misfit.row, "col": misfit.col, "size": misfit.size,
            })),
            "fitted": estimate.parameters.iter().map(|&(name, value)| (name.to_string(), json!(value)))
                .collect::<serde_json::Map<_, _>>(),
            "outliers": estimate.outliers.iter().map(|(row, col)| json!({ "row": row, "col": col })).collect::<Vec<_>>(),
            "files": outputs.iter().map(|(path, hash)| json!({ "file": path.display().to_string(), "sha256": hash }))
                .collect::<Vec<_>>(),
        });
        console.data(&format!("{report:#}\n"));
        return Ok(());
    }
    for (path, _) in &outputs {
        console.log(&format!("wrote {}", path.display()));
    }
    if let Some(text) = fitted(&estimate, error_unit) {
        console.log(&text);
    }
    if let Some(misfit) = estimate.largest_misfit {
        console.log(&format!(
            "largest |estimate - value| at a measured cell: {:.3e}{} (row {}, col {})",
            misfit.size,
            unit_suffix(error_unit),
            misfit.row,
            misfit.col
        ));
    }
    Ok(())
}

/// What a method fitted, in words, spreads in the unit of a difference; `None` if it fits nothing.
pub(super) fn fitted(estimate: &Estimate, unit: &str) -> Option<String> {
    let of = |wanted: &str| estimate.parameters.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    let (range, spread, nugget) = (of("range")?, of("spread")?, of("nugget")?);
    let unit = unit_suffix(unit);
    let mut text = format!("fitted: range {range:.1} cells, spread {spread:.3}{unit}, nugget {nugget:.3}{unit}");
    if let Some(count) = of("outliers") {
        text.push_str(&format!(", {count:.0} outliers"));
        let cells: Vec<String> =
            estimate.outliers.iter().take(8).map(|(row, col)| format!("row {row} col {col}")).collect();
        if !cells.is_empty() {
            text.push_str(&format!(" ({}{})", cells.join(", "), if count > 8.0 { ", ..." } else { "" }));
        }
    }
    Some(text)
}

/// Writes what was wanted, and gives each file with its hash.
fn write(
    arguments: &ReconstructArguments,
    campaign: &Campaign,
    estimate: &Estimate,
) -> Outcome<Vec<(PathBuf, String)>> {
    let valid = campaign.valid();
    // A unit that files have no name for stays without one.
    let unit = campaign.settings().scale.unit.parse::<Unit>().unwrap_or_default();
    let settings = campaign.settings();
    let georeference = settings.place.is_some().then(|| settings.georeference()).transpose()?;
    let map = |values, unit| MapOutput { valid, values, unit, georeference };
    let mut maps = vec![(arguments.out.as_path(), map(&estimate.mean, unit))];
    if let Some(path) = &arguments.std {
        let std = estimate.std.as_ref().ok_or_else(|| {
            Failure::input("there is no standard deviation yet", "a Gaussian prior has one from two measurements on")
        })?;
        maps.push((path, map(std, unit.difference())));
    }
    let mut written: Vec<PathBuf> = maps.iter().map(|(path, _)| path.to_path_buf()).collect();
    write_maps(&maps)?;
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

/// Endings of the formats that maps are written in.
const ENDINGS: [&str; 6] = ["tif", "tiff", "npy", "csv", "png", "asc"];

/// Refuses a name in no format that maps are written in.
fn check_ending(path: &Path) -> Outcome {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    if ENDINGS.contains(&ending.as_str()) {
        return Ok(());
    }
    Err(Failure::input(
        format!("`{}` is in no format that maps are written in", path.display()),
        format!("use a name that ends in .{}", ENDINGS.join(", .")),
    ))
}
