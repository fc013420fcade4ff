//! `gpara new`: a session file from what is known before the first measurement.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use gpara::Grid;
use gpara_session::{
    FittedPrior, InputFile, Layers, Scale, Scene, SessionFile, SessionPrior, Settings, Task, default_budget,
};
use gpara_tasks::field::{Field, MaskFile, MaskUse};
use gpara_tasks::import::read_depth_scene;
use gpara_tasks::points::read_cells;
use serde_json::json;

use super::new_place::{Like, PlaceArguments};
use super::new_prior::PriorArguments;
use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::quantity::{Cell, Quantity, Region, Size, unit_suffix};

/// Begin a session: a field to measure, kept in one file
///
/// Without a field there is nothing to choose from, so give a radio scene (--task radio --buildings --tx), a picture whose depth is
/// measured (--task depth --picture), the size of the grid (--grid), or a mask of its cells (--field-mask).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpara new S.gpara --task radio --buildings city.png --tx 120,88 --sigma 1dB
  gpara new S.gpara --task depth --picture room.jpg --sigma 0.02m
  gpara new S.gpara --grid 100x130 --prior gaussian --range=-120,-60 --unit dBm --sigma 2dB --budget 200
  gpara new S.gpara --like ground.tif --prior gaussian --drift constant,log-distance=40:60,channel=ground.tif --robust student-t")]
pub(crate) struct NewArguments {
    /// The file to make
    session: PathBuf,
    /// What kind of scene it is [default: radio with --buildings, depth with --picture, else field]
    #[arg(long)]
    task: Option<TaskName>,
    /// Depth: the colour picture (PNG or JPEG), a pixel a cell
    #[arg(long, conflicts_with_all = ["buildings", "grid", "field_mask", "guide"])]
    picture: Option<PathBuf>,
    /// Radio: mask of the buildings (.png, .npy or .csv; 0 and 255, or 0 and 1)
    #[arg(long)]
    buildings: Option<PathBuf>,
    /// Radio: ROW,COL of the transmitter, in pixels of the building mask
    #[arg(long)]
    tx: Option<Cell>,
    /// Radio: side of a pixel in metres
    #[arg(long, default_value_t = 1.0)]
    meters_per_pixel: f64,
    /// Radio: a cell of the field holds 1 x 1 or 2 x 2 pixels of the building mask
    #[arg(long, default_value_t = 1)]
    pixels_per_cell: usize,
    /// Size of the field, ROWSxCOLS
    #[arg(long, conflicts_with = "field_mask")]
    grid: Option<Size>,
    /// Mask of the cells of the field (marked = part of it)
    #[arg(long)]
    field_mask: Option<PathBuf>,
    /// Further mask of valid cells (marked = valid), beside the buildings
    #[arg(long)]
    valid: Option<PathBuf>,
    /// Marked cells of --field-mask and --valid are not part of the field
    #[arg(long)]
    invert_mask: bool,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    prior: PriorArguments,
    /// Values the field may take, LOW,HIGH [default: -1,1; radio: -147,-47.84]
    #[arg(long, allow_hyphen_values = true, value_delimiter = ',', num_args = 1)]
    range: Vec<f64>,
    /// Unit of the values, e.g. dBm or m [default: none; radio: dB]
    #[arg(long)]
    unit: Option<String>,
    /// Noise standard deviation of a measurement, e.g. 0.5dB; 0 = exact
    #[arg(long, default_value = "0")]
    sigma: Quantity,
    /// Measurements in all [default: 3 % of the valid cells]
    #[arg(long)]
    budget: Option<usize>,
    /// Only these cells may be asked for: CSV with the columns row and col
    #[arg(long)]
    candidates: Option<PathBuf>,
    /// Mask of cells that are never asked for (marked = forbidden)
    #[arg(long)]
    forbidden: Option<PathBuf>,
    /// Smallest distance between points, in cells
    #[arg(long, default_value_t = 0.0)]
    min_distance: f64,
    /// Cells whose uncertainty counts, TOP,LEFT,BOTTOM,RIGHT[=WEIGHT]; may be repeated, others then count 0
    #[arg(long, conflicts_with = "importance")]
    region: Vec<Region>,
    /// Weight of each cell's uncertainty: a map (.npy, .csv)
    #[arg(long)]
    importance: Option<PathBuf>,
    /// Cost of a measurement in each cell: a map (.npy, .csv); see `gpara ask --cost-budget`
    #[arg(long)]
    cost: Option<PathBuf>,
    /// Predicted error at which one may stop, e.g. 2dB; see `gpara status`
    #[arg(long)]
    stop_at: Option<Quantity>,
    /// Root of all randomness
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TaskName {
    /// Path gain in a city, one transmitter
    Radio,
    /// Depth in metres behind the pixels of a picture
    Depth,
    /// A field of any kind
    Field,
}

/// Runs the command.
pub(crate) fn run(arguments: &NewArguments, console: Console) -> Outcome {
    let mut inputs = Inputs { files: Vec::new(), warnings: Vec::new() };
    // Before any work, drawing maps above all.
    if arguments.session.exists() {
        return Err(Failure::input(
            format!("`{}` exists already", arguments.session.display()),
            "a session is never overwritten: choose another name, or remove the file yourself",
        ));
    }
    let mut layers = Layers::default();
    let like = arguments.place.like()?;
    let (task, grid) = scene(arguments, like.as_ref(), &mut layers, &mut inputs)?;
    fill_layers(arguments, grid, &mut layers, &mut inputs)?;
    let scale = scale(arguments, &task, like.as_ref())?;
    let sigma = arguments.sigma.difference_in_unit("sigma", &scale.unit)?;
    let stop_at =
        arguments.stop_at.as_ref().map(|target| target.difference_in_unit("stop-at", &scale.unit)).transpose()?;
    let mut settings = Settings {
        task,
        rows: grid.rows(),
        cols: grid.cols(),
        scale,
        budget: arguments.budget.unwrap_or(1),
        sigma,
        min_distance: arguments.min_distance,
        stop_at,
        seed: arguments.seed,
        prior: SessionPrior::Fitted(FittedPrior::default()),
        place: arguments.place.place(like.as_ref())?,
    };
    let prior = arguments.prior.prior(&settings.task, grid, &mut layers, &mut inputs)?;
    settings.prior = prior;
    arguments.prior.draw_maps(&mut settings, &mut layers, &mut inputs, console)?;
    let num_valid = Scene::new(&settings, &layers)?.valid().num_valid();
    settings.budget = arguments.budget.unwrap_or_else(|| default_budget(num_valid));
    SessionFile::create(&arguments.session, &settings, &layers, &inputs.files)?;
    inputs.warnings.iter().for_each(|warning| console.log(&format!("warning: {warning}")));
    if console.json {
        let made = json!({
            "session": arguments.session.display().to_string(),
            "rows": settings.rows,
            "cols": settings.cols,
            "valid_cells": num_valid,
            "budget": settings.budget,
            "unit": settings.scale.unit,
            "sigma": settings.sigma,
            "seed": settings.seed,
        });
        console.data(&format!("{made:#}\n"));
    } else {
        console.log(&format!(
            "made {}: {grid} cells, {num_valid} valid, budget {} measurements",
            arguments.session.display(),
            settings.budget
        ));
        let unit = unit_suffix(settings.scale.difference_unit());
        console.log(&match settings.sigma {
            0.0 => "measurements are taken as exact; --sigma gives their noise".to_string(),
            sigma => format!("measurements have a noise of {sigma}{unit} unless they are told with another"),
        });
        console.log(&format!("next: gpara ask {}", arguments.session.display()));
    }
    Ok(())
}

/// Files as they were read, to be kept in the session.
pub(super) struct Inputs {
    pub(super) files: Vec<InputFile>,
    warnings: Vec<String>,
}

impl Inputs {
    pub(super) fn keep(&mut self, role: &str, path: &Path) -> Outcome {
        let hint = format!("--{role} names a file");
        let content = std::fs::read(path).map_err(|error| Failure::file("read", path, &error, hint))?;
        self.files.push(InputFile { role: role.to_string(), path: path.to_path_buf(), content });
        Ok(())
    }

    fn mask(&mut self, role: &str, path: &Path, use_as: MaskUse, flag: &str) -> Outcome<MaskFile> {
        self.keep(role, path)?;
        let mask = MaskFile::read(path).map_err(|error| Failure::from(error).within(format!("--{role}")))?;
        self.warnings.extend(mask.warning(use_as, flag).map(|warning| format!("--{role}: {warning}")));
        Ok(mask)
    }

    pub(super) fn map(&mut self, role: &str, path: &Path, grid: Grid) -> Outcome<Vec<f64>> {
        self.keep(role, path)?;
        let field = Field::read(path, None).map_err(|error| Failure::from(error).within(format!("--{role}")))?;
        check_size(role, field.grid(), grid)?;
        Ok(field.into_values())
    }
}

pub(super) fn check_size(role: &str, found: Grid, grid: Grid) -> Outcome {
    if found == grid {
        return Ok(());
    }
    Err(Failure::input(format!("--{role} is {found} cells, the field is {grid}"), "maps have one value a cell"))
}

/// The task and the grid of the field.
fn scene(
    arguments: &NewArguments,
    like: Option<&Like>,
    layers: &mut Layers,
    inputs: &mut Inputs,
) -> Outcome<(Task, Grid)> {
    let radio = arguments.task == Some(TaskName::Radio) || (arguments.task.is_none() && arguments.buildings.is_some());
    if radio {
        let missing = |flag: &str| {
            Failure::input(
                format!("a radio session needs {flag}"),
                "gpara new S.gpara --task radio --buildings city.png --tx 120,88",
            )
        };
        let buildings = arguments.buildings.as_deref().ok_or_else(|| missing("--buildings"))?;
        let tx = arguments.tx.ok_or_else(|| missing("--tx ROW,COL"))?;
        let mask = inputs.mask("buildings", buildings, MaskUse::Invalid, "the mask the other way round")?;
        let pixels = mask.grid();
        layers.buildings = Some(mask.marked().to_vec());
        let per_cell = arguments.pixels_per_cell;
        let grid = Grid::new(pixels.rows() / per_cell.max(1), pixels.cols() / per_cell.max(1))?;
        let task = Task::Radio {
            transmitter: (tx.row, tx.col),
            meters_per_pixel: arguments.meters_per_pixel,
            pixels_per_cell: per_cell,
        };
        return Ok((task, grid));
    }
    if arguments.task == Some(TaskName::Depth) || (arguments.task.is_none() && arguments.picture.is_some()) {
        let Some(picture) = &arguments.picture else {
            return Err(Failure::input(
                "a depth session needs --picture",
                "gpara new S.gpara --task depth --picture room.jpg",
            ));
        };
        inputs.keep("picture", picture)?;
        let scene = read_depth_scene(picture).map_err(|error| Failure::from(error).within("--picture"))?;
        layers.picture = Some(scene.rgb().to_vec());
        return Ok((Task::Depth, scene.grid()));
    }
    if arguments.picture.is_some() {
        return Err(Failure::input("--picture belongs to --task depth", "leave --task out, or give --guide instead"));
    }
    if let Some(size) = arguments.grid {
        return Ok((Task::Field, Grid::new(size.rows, size.cols)?));
    }
    if let Some(like) = like {
        return Ok((Task::Field, like.grid));
    }
    let Some(path) = &arguments.field_mask else {
        return Err(Failure::input(
            "the field's size is missing",
            "give --grid ROWSxCOLS, --like MAP.tif, --field-mask MASK, --task radio with --buildings and --tx, or --task depth --picture",
        ));
    };
    let (use_as, flag) = mask_use(arguments);
    let mask = inputs.mask("field-mask", path, use_as, flag)?;
    let grid = mask.grid();
    layers.valid = Some(mask.into_valid(!arguments.invert_mask)?.as_slice().to_vec());
    Ok((Task::Field, grid))
}

fn mask_use(arguments: &NewArguments) -> (MaskUse, &'static str) {
    if arguments.invert_mask { (MaskUse::Invalid, "no --invert-mask") } else { (MaskUse::Valid, "--invert-mask") }
}

fn fill_layers(arguments: &NewArguments, grid: Grid, layers: &mut Layers, inputs: &mut Inputs) -> Outcome {
    if let Some(path) = &arguments.valid {
        let (use_as, flag) = mask_use(arguments);
        let mask = inputs.mask("valid", path, use_as, flag)?;
        check_size("valid", mask.grid(), grid)?;
        let further = mask.into_valid(!arguments.invert_mask)?;
        let both = |node: usize| further.is_valid(node) && layers.valid.as_ref().is_none_or(|valid| valid[node]);
        layers.valid = Some((0..grid.num_nodes()).map(both).collect());
    }
    if let Some(path) = &arguments.candidates {
        inputs.keep("candidates", path)?;
        let mut candidates = vec![false; grid.num_nodes()];
        read_cells(path, grid)?.into_iter().for_each(|node| candidates[node] = true);
        layers.candidates = Some(candidates);
    }
    if let Some(path) = &arguments.forbidden {
        let mask = inputs.mask("forbidden", path, MaskUse::Invalid, "the mask the other way round")?;
        check_size("forbidden", mask.grid(), grid)?;
        layers.forbidden = Some(mask.marked().to_vec());
    }
    if let Some(path) = &arguments.importance {
        layers.importance = Some(inputs.map("importance", path, grid)?);
    }
    if !arguments.region.is_empty() {
        layers.importance = Some(region_weights(&arguments.region, grid)?);
    }
    if let Some(path) = &arguments.cost {
        layers.cost = Some(inputs.map("cost", path, grid)?);
    }
    Ok(())
}

fn region_weights(regions: &[Region], grid: Grid) -> Outcome<Vec<f64>> {
    let mut weights = vec![0.0; grid.num_nodes()];
    for Region { first, last, weight } in regions {
        if last.row >= grid.rows() || last.col >= grid.cols() {
            return Err(Failure::input(
                format!("--region ends at row {}, col {}, outside the {grid} grid", last.row, last.col),
                "rows and columns count from 0, both corners are inside the region",
            ));
        }
        for row in first.row..=last.row {
            for col in first.col..=last.col {
                weights[grid.node(row, col)] = *weight;
            }
        }
    }
    Ok(weights)
}

fn scale(arguments: &NewArguments, task: &Task, like: Option<&Like>) -> Outcome<Scale> {
    let own = match task {
        Task::Radio { .. } => Settings::radio_scale(),
        Task::Depth => Settings::depth_scale(),
        Task::Field => Scale::new(-1.0, 1.0, "")?,
    };
    let of_file = like.and_then(|like| like.unit.clone());
    let unit = arguments.unit.clone().or(of_file).unwrap_or_else(|| own.unit.clone());
    match arguments.range[..] {
        [] => Ok(Scale { unit, ..own }),
        [low, high] => Ok(Scale::new(low, high, &unit)?),
        _ => Err(Failure::input("--range takes two numbers", "e.g. --range=-120,-60")),
    }
}
