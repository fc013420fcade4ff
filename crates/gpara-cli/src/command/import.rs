//! `gpara import`: files of others become the inputs of a session.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Subcommand};
use gpara_tasks::geo::Crs;
use gpara_tasks::import::{DriveTest, DriveTestSettings, ImportedScene, NyuDepth, RadioMapSeer};
use gpara_tasks::points::{BinSettings, PointColumns, Role, SampleRules};
use gpara_tasks::units::{Averaging, Unit};
use serde_json::json;

use crate::console::Console;
use crate::failure::{Failure, Outcome};

/// Turn files of others into the inputs of a session
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpara import drive-test log.csv -o drive --cell-size 10 --column value=RSRP --unit dBm --averaging decibel
  gpara import radio-map-seer RadioMapSeer -o scene --id 0_3
  gpara import nyu nyu_depth_v2 -o room --name 00001 --depth-scale 1000")]
pub(crate) struct ImportArguments {
    #[command(subcommand)]
    source: Source,
}

#[derive(Debug, Subcommand)]
enum Source {
    /// Samples along streets (CSV, GeoJSON or Parquet): binned into the cells of a grid in metres
    DriveTest(Box<DriveTestArguments>),
    /// One map of a folder in RadioMapSeer's layout
    RadioMapSeer(RadioMapSeerArguments),
    /// One picture with depths of a folder in the layout of NYU Depth V2
    Nyu(NyuArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  gpara import drive-test log.csv -o drive --cell-size 10 --column value=RSRP --unit dBm --averaging decibel
  gpara new S.gpara --like drive/drive_test.json --prior gaussian --range=-140,-60
  gpara tell S.gpara drive/points.csv")]
struct DriveTestArguments {
    /// The samples: a place (lat and lon, or x and y) and a value a row
    samples: PathBuf,
    /// Folder for points.csv and drive_test.json
    #[arg(short = 'o', long)]
    out: PathBuf,
    /// Side of a cell in metres
    #[arg(long)]
    cell_size: f64,
    /// ROLE=NAME where the header has another name: value, lat, lon, x, y, sigma; may be repeated
    #[arg(long)]
    column: Vec<NamedColumn>,
    /// System of the grid, EPSG:CODE or local:LAT,LON [default: the UTM zone of the first sample]
    #[arg(long)]
    crs: Option<String>,
    /// Unit of the values: dB, dBm, m, gray or none
    #[arg(long, default_value = "dBm")]
    unit: String,
    /// What is averaged in a cell: linear-power (as an antenna averages over fading) or decibel (the median of fading);
    /// needed for dB and dBm
    #[arg(long)]
    averaging: Option<String>,
    /// Smallest standard deviation of a cell's mean: what its samples have in common does not average out
    #[arg(long, default_value_t = 1.0)]
    sigma_floor: f64,
    /// The spread of all cells together counts as this many samples in each
    #[arg(long, default_value_t = 4.0)]
    shared_samples: f64,
    /// Cells around the samples, on each side
    #[arg(long, default_value_t = 4)]
    margin: usize,
    /// Leave out invalid rows instead of refusing the file
    #[arg(long)]
    skip_invalid: bool,
}

#[derive(Debug, Args)]
struct RadioMapSeerArguments {
    /// The folder
    folder: PathBuf,
    /// Folder for the scene's files
    #[arg(short = 'o', long)]
    out: PathBuf,
    /// MAP_TRANSMITTER, e.g. 0_3 [default: the first]
    #[arg(long)]
    id: Option<String>,
    /// Simulation, e.g. DPM, if the folder has several
    #[arg(long)]
    simulation: Option<String>,
}

#[derive(Debug, Args)]
struct NyuArguments {
    /// The folder, with rgb/ and depth/
    folder: PathBuf,
    /// Folder for the scene's files
    #[arg(short = 'o', long)]
    out: PathBuf,
    /// Name of the picture [default: the first]
    #[arg(long)]
    name: Option<String>,
    /// Gray steps a metre in the depth files: 1000 for millimetres
    #[arg(long)]
    depth_scale: f64,
}

/// `ROLE=NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedColumn {
    role: Role,
    name: String,
}

impl FromStr for NamedColumn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (role, name) = text.split_once('=').ok_or_else(|| format!("`{text}` is not ROLE=NAME, e.g. value=RSRP"))?;
        Ok(Self { role: role.parse::<Role>().map_err(|error| error.to_string())?, name: name.to_owned() })
    }
}

/// The columns that were named by hand.
pub(super) fn columns(named: &[NamedColumn]) -> PointColumns {
    named.iter().fold(PointColumns::default(), |columns, NamedColumn { role, name }| columns.with(*role, name.clone()))
}

/// Runs the command.
pub(crate) fn run(arguments: &ImportArguments, console: Console) -> Outcome {
    match &arguments.source {
        Source::DriveTest(arguments) => drive_test(arguments, console),
        Source::RadioMapSeer(arguments) => {
            let folder = RadioMapSeer::open(&arguments.folder, arguments.simulation.as_deref())?;
            let id = chosen(arguments.id.as_deref(), folder.ids()?, &arguments.folder)?;
            scene(&folder.scene(&id)?, &arguments.out, console)
        }
        Source::Nyu(arguments) => {
            let folder = NyuDepth::open(&arguments.folder, arguments.depth_scale)?;
            let name = chosen(arguments.name.as_deref(), folder.names()?, &arguments.folder)?;
            scene(&folder.scene(&name, "--depth-scale")?, &arguments.out, console)
        }
    }
}

fn chosen(given: Option<&str>, names: Vec<String>, folder: &Path) -> Outcome<String> {
    let first = names.into_iter().next();
    given.map(String::from).or(first).ok_or_else(|| {
        Failure::input(format!("`{}` holds no scene", folder.display()), "is it the root of the data set?")
    })
}

fn drive_test(arguments: &DriveTestArguments, console: Console) -> Outcome {
    let unit: Unit = arguments.unit.parse()?;
    let averaging = match (&arguments.averaging, unit.is_logarithmic()) {
        (Some(name), true) => Some(name.parse::<Averaging>()?),
        (None, true) => {
            return Err(Failure::input(
                format!("values in {unit} can be averaged in two ways, which differ by some dB"),
                "say --averaging linear-power (the mean power) or --averaging decibel (the mean of the dB values)",
            ));
        }
        (Some(_), false) => {
            return Err(Failure::input(format!("--averaging is for dB and dBm, the unit is {unit}"), "leave it away"));
        }
        (None, false) => None,
    };
    let settings = DriveTestSettings {
        columns: columns(&arguments.column),
        rules: SampleRules::default(),
        crs: arguments.crs.as_deref().map(str::parse::<Crs>).transpose()?,
        cell_size_m: arguments.cell_size,
        margin_cells: arguments.margin,
        bins: BinSettings { averaging, sigma_floor: arguments.sigma_floor, shared_samples: arguments.shared_samples },
        unit,
        skip_invalid: arguments.skip_invalid,
    };
    let test = DriveTest::read(&arguments.samples, &settings)?;
    let summary = test.write(&arguments.out)?;
    if console.json {
        let report = json!({
            "summary": summary.display().to_string(),
            "points": arguments.out.join("points.csv").display().to_string(),
            "rows": test.grid.rows(),
            "cols": test.grid.cols(),
            "num_samples": test.report.num_samples,
            "num_cells": test.report.num_cells,
            "num_skipped": test.num_skipped,
        });
        console.data(&format!("{report:#}\n"));
        return Ok(());
    }
    console.log(&format!("{} on {} cells of {} m", test.report, test.grid, arguments.cell_size));
    if test.num_skipped > 0 {
        console.log(&format!("skipped {} invalid rows", test.num_skipped));
    }
    let points = arguments.out.join("points.csv");
    console.log(&format!("wrote {}\nwrote {}", points.display(), summary.display()));
    let values = test.points.iter().map(|point| point.value);
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    console.log(&format!(
        "next: gpara new S.gpara --like {} --prior gaussian --range={:.0},{:.0} --budget {}",
        summary.display(),
        (low - 10.0).floor(),
        (high + 10.0).ceil(),
        // What is measured counts towards the budget; as much again may be asked for.
        2 * test.report.num_cells
    ));
    console.log(&format!("      gpara tell S.gpara {}", points.display()));
    Ok(())
}

fn scene(scene: &ImportedScene, out: &Path, console: Console) -> Outcome {
    let summary = scene.write(out)?;
    scene.warnings.iter().for_each(|warning| console.log(&format!("warning: {warning}")));
    let grid = scene.valid.grid();
    if console.json {
        let report = json!({
            "summary": summary.display().to_string(),
            "name": scene.name,
            "rows": grid.rows(),
            "cols": grid.cols(),
            "num_valid": scene.valid.num_valid(),
        });
        console.data(&format!("{report:#}\n"));
        return Ok(());
    }
    console.log(&format!(
        "scene {}: {grid} cells, {} valid, in {}; wrote field.npy, valid.png, its channels and scene.json to {}",
        scene.name,
        scene.valid.num_valid(),
        scene.unit,
        out.display()
    ));
    let (mask, unit) = (out.join("valid.png"), scene.unit);
    console.log(&format!("next: gpara new S.gpara --field-mask {} --prior gaussian --unit {unit}", mask.display()));
    Ok(())
}
