//! The part of `gpara new` that says where the grid lies in the world.

use std::path::{Path, PathBuf};

use clap::Args;
use gpara::Grid;
use gpara_session::Place;
use gpara_tasks::field::{Raster, RasterOptions};
use gpara_tasks::geo::{Affine, Crs, Georeference};
use serde_json::Value;

use crate::failure::{Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    /// Size and place of the field from a map (.tif, .asc, or any with a world file) or from `drive_test.json` of `gpara import`
    #[arg(long, conflicts_with_all = ["grid", "field_mask", "origin"])]
    like: Option<PathBuf>,
    /// X,Y of the outer corner of row 0, column 0; north is up
    #[arg(long, requires = "cell_size", allow_hyphen_values = true)]
    origin: Option<WorldPoint>,
    /// Side of a cell in the units of the coordinates
    #[arg(long, requires = "origin")]
    cell_size: Option<f64>,
    /// Coordinate system, EPSG:CODE or local:LAT,LON; with it points may come in degrees
    #[arg(long)]
    crs: Option<String>,
}

/// `X,Y`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WorldPoint {
    x: f64,
    y: f64,
}

impl std::str::FromStr for WorldPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        let point = text.split_once(',').and_then(|(x, y)| Some(Self { x: number(x)?, y: number(y)? }));
        point.ok_or_else(|| format!("`{text}` is not X,Y, e.g. 431000,5412000"))
    }
}

/// What a file says about a field that is to be like it.
pub(super) struct Like {
    pub(super) grid: Grid,
    pub(super) unit: Option<String>,
    place: Option<Georeference>,
}

impl PlaceArguments {
    /// Size, place and unit of the file that the field is to be like.
    pub(super) fn like(&self) -> Outcome<Option<Like>> {
        self.like.as_deref().map(read_like).transpose()
    }

    /// The place of the grid.
    pub(super) fn place(&self, like: Option<&Like>) -> Outcome<Option<Place>> {
        let crs = self.crs.as_deref().map(str::parse::<Crs>).transpose()?;
        let place = match (like.and_then(|like| like.place), self.origin, self.cell_size) {
            (Some(place), ..) => Some(crs.map_or(place, |crs| place.with_crs(crs))),
            (None, Some(WorldPoint { x, y }), Some(size)) => Some(Georeference::north_up(x, y, size, crs)?),
            _ => None,
        };
        match (place, &self.crs) {
            (None, Some(crs)) => Err(Failure::input(
                format!("--crs {crs} needs a place of the grid"),
                "give --origin X,Y with --cell-size, or --like MAP.tif",
            )),
            (Some(place), _) => {
                if place.crs().is_some() {
                    // A system that cannot be used is told now, not with the first point in degrees.
                    place.projection()?;
                }
                Ok(Some(place.into()))
            }
            (None, None) => Ok(None),
        }
    }
}

fn read_like(path: &Path) -> Outcome<Like> {
    let within = |error: gpara::Error| Failure::from(error).within("--like");
    if path.extension().is_none_or(|ending| ending != "json") {
        let raster = Raster::read(path, &RasterOptions::default()).map_err(within)?;
        return Ok(Like { grid: raster.field.grid(), unit: None, place: raster.georeference });
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::file("read", path, &error, "--like names a map or drive_test.json"))?;
    let broken = || {
        Failure::input(
            format!("--like: `{}` is not a drive_test.json", path.display()),
            "`gpara import drive-test` makes one",
        )
    };
    let value: Value = serde_json::from_str(&text).map_err(|_| broken())?;
    let side = |name: &str| value[name].as_u64().and_then(|side| usize::try_from(side).ok()).ok_or_else(broken);
    let grid = Grid::new(side("rows")?, side("cols")?)?;
    let transform: Vec<f64> =
        value["geotransform"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    let transform: [f64; 6] = transform.try_into().map_err(|_| broken())?;
    let crs = value["crs"].as_str().map(str::parse::<Crs>).transpose().map_err(within)?;
    let place = Some(Georeference::new(Affine::new(transform).map_err(within)?, crs));
    let unit = value["unit"].as_str().filter(|unit| *unit != "none").map(String::from);
    Ok(Like { grid, unit, place })
}
