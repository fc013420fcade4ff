//! `gpara tell`: what was measured, or could not be.

use std::path::{Path, PathBuf};

use clap::Args;
use gpara_session::{Campaign, NewMeasurement, NewTell};
use gpara_tasks::points::PointReader;
use serde_json::json;

use super::import::{NamedColumn, columns};
use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::quantity::Quantity;

/// Record measurements, asked for or not; they are durable when the command ends well
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpara tell S.gpara points.csv
  gpara tell S.gpara --row 12 --col 40 --value=-93.5 --sigma 1dB
  gpara tell S.gpara --row 12 --col 40 --failed

A CSV is read by the names in its first line: value, and row, col (or x, y, or lat, lon in a session with a coordinate
system), and sigma if there is one. Parquet and GeoJSON are read too.")]
pub(crate) struct TellArguments {
    /// The session
    session: PathBuf,
    /// Measurements as CSV
    #[arg(conflicts_with_all = ["row", "col", "value", "sigma", "failed"])]
    points: Option<PathBuf>,
    /// ROLE=NAME where the file's header has another name: value, sigma, row, col, x, y, lat, lon; may be repeated
    #[arg(long, requires = "points")]
    column: Vec<NamedColumn>,
    /// Row of the cell
    #[arg(long, requires = "col")]
    row: Option<usize>,
    /// Column of the cell
    #[arg(long, requires = "row")]
    col: Option<usize>,
    /// The measured value
    #[arg(long, allow_hyphen_values = true, conflicts_with = "failed")]
    value: Option<Quantity>,
    /// Its noise standard deviation [default: the session's]
    #[arg(long, requires = "value")]
    sigma: Option<Quantity>,
    /// The cell could not be measured: never ask for it again
    #[arg(long)]
    failed: bool,
    /// Leave out invalid lines of the CSV instead of refusing all of it
    #[arg(long, requires = "points")]
    skip_invalid: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &TellArguments, console: Console) -> Outcome {
    let mut campaign = Campaign::open(&arguments.session)?;
    super::note_migration(&campaign, console);
    if let (Some(row), Some(col), true) = (arguments.row, arguments.col, arguments.failed) {
        campaign.tell_failed(&[(row, col)])?;
        if console.json {
            console.data(&format!("{:#}\n", json!({ "failed": { "row": row, "col": col } })));
        } else {
            console.log(&format!("row {row}, col {col} failed: it will not be asked for again"));
        }
        return Ok(());
    }
    let tell = match &arguments.points {
        Some(path) => from_file(path, arguments, &campaign, console)?,
        None => from_arguments(arguments, &campaign)?,
    };
    let told = campaign.tell(&tell)?;
    let budget = campaign.settings().budget;
    if console.json {
        let report = json!({
            "tell": told.tell,
            "recorded": told.num_values,
            "merged": told.num_merged,
            "skipped": tell.num_skipped,
            "num_observed": told.num_observed,
            "budget": budget,
        });
        console.data(&format!("{report:#}\n"));
        return Ok(());
    }
    let mut text = format!("recorded {} values", told.num_values);
    if told.num_merged > 0 {
        text.push_str(&format!(", {} of them merged with another one of their cell", told.num_merged));
    }
    if tell.num_skipped > 0 {
        text.push_str(&format!(", skipped {} invalid lines", tell.num_skipped));
    }
    console.log(&format!("{text}; {} cells measured, budget {budget}", told.num_observed));
    Ok(())
}

fn from_file(path: &Path, arguments: &TellArguments, campaign: &Campaign, console: Console) -> Outcome<NewTell> {
    let skip_invalid = arguments.skip_invalid;
    let reader = PointReader::new(campaign.valid()).georeference(campaign.settings().georeference()?);
    let rows = reader.columns(columns(&arguments.column)).read(path)?;
    let (mut num_skipped, grid) = (0, campaign.scene().grid());
    if skip_invalid {
        num_skipped = rows.refused.len();
        for refused in &rows.refused {
            console.log(&format!("skipped {}, line {}: {}", path.display(), refused.line, refused.reason));
        }
    }
    let points = if skip_invalid {
        rows.points
    } else {
        rows.all().map_err(|error| {
            Failure::from(error)
                .with_hint("nothing was recorded; correct the line, or leave it out with --skip-invalid")
        })?
    };
    if points.is_empty() {
        return Err(Failure::input(
            format!("{} holds no measurement that can be recorded", path.display()),
            "give one line a measurement below the header",
        ));
    }
    let measurements = points.into_iter().map(|point| {
        let (row, col) = grid.row_col(point.node);
        NewMeasurement { line: Some(point.line), row, col, value: point.value, sigma: point.sigma }
    });
    Ok(NewTell { source: path.display().to_string(), num_skipped, measurements: measurements.collect() })
}

fn from_arguments(arguments: &TellArguments, campaign: &Campaign) -> Outcome<NewTell> {
    let (Some(row), Some(col), Some(value)) = (arguments.row, arguments.col, &arguments.value) else {
        return Err(Failure::input(
            "nothing to tell",
            "give a CSV file, or --row, --col and --value, or --row, --col and --failed",
        ));
    };
    let unit = &campaign.settings().scale.unit;
    let value = value.in_unit("value", unit)?;
    let sigma = arguments.sigma.as_ref().map(|sigma| sigma.difference_in_unit("sigma", unit)).transpose()?;
    let measurements = vec![NewMeasurement { line: None, row, col, value, sigma }];
    Ok(NewTell { source: "arguments".to_string(), num_skipped: 0, measurements })
}
