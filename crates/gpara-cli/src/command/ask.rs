//! `gpara ask`: where to measure next.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gpara_session::{Answer, AskRequest, Campaign};
use gpara_tasks::geo::{Georeference, Projection};
use serde_json::{Value, json};

use crate::console::Console;
use crate::failure::Outcome;
use crate::quantity::Cell;
use crate::session_method::method_of;

/// Say where to measure next; the points stay pending until they are told
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpara ask S.gpara -n 8 > points.csv
  gpara ask S.gpara -n 20 --route --from 0,0 --format geojson

The points go to stdout as CSV: row, col (0-based cells), x, y (centre of the cell), lat, lon (with --crs), score, the expected drop of the
weighted risk, and what is predicted for the cell. Measure them, then `gpara tell`.")]
pub(crate) struct AskArguments {
    /// The session
    session: PathBuf,
    /// Number of points; fewer if budget, candidates or limits leave fewer
    #[arg(short = 'n', long = "count", default_value_t = 1)]
    count: usize,
    /// How points are written; --json is --format json
    #[arg(long, default_value = "csv")]
    format: PointFormat,
    /// Order the points as a short way around obstacles
    #[arg(long, requires = "from")]
    route: bool,
    /// ROW,COL where the route begins
    #[arg(long, requires = "route")]
    from: Option<Cell>,
    /// Largest sum of the points' costs (see `gpara new --cost`; 1 a point without a cost map)
    #[arg(long)]
    cost_budget: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PointFormat {
    /// One line a point, with a header
    Csv,
    /// An object with the points and the ask
    Json,
    /// A FeatureCollection of points at x, y
    Geojson,
}

/// Runs the command.
pub(crate) fn run(arguments: &AskArguments, console: Console) -> Outcome {
    let mut campaign = Campaign::open(&arguments.session)?;
    super::note_migration(&campaign, console);
    let method = method_of(campaign.settings())?;
    let route_from = arguments.from.filter(|_| arguments.route).map(|cell| (cell.row, cell.col));
    let request = AskRequest { count: arguments.count, cost_budget: arguments.cost_budget, route_from };
    if campaign.must_draw(&*method)? {
        console.log("the prior's samples are drawn first, which takes some seconds and happens once ...");
    } else if campaign.must_believe(&*method)? {
        console.log("the networks are asked about what is measured ...");
    }
    let answer = campaign.ask(&*method, &request)?;
    let places = Places::new(&campaign)?;
    if answer.ask.points.len() < arguments.count {
        let found = answer.ask.points.len();
        console
            .log(&format!("note: {found} of {} points: budget, candidates or limits leave no more", arguments.count));
    }
    if let Some(length) = answer.ask.route_length {
        console.log(&format!("route of {length:.1} cells through {} points", answer.ask.points.len()));
    }
    let format = if console.json { PointFormat::Json } else { arguments.format };
    console.data(&match format {
        PointFormat::Csv => csv(&answer, &places)?,
        PointFormat::Json => format!("{:#}\n", object(&answer, &places)?),
        PointFormat::Geojson => format!("{:#}\n", geojson(&answer, &places)?),
    });
    Ok(())
}

/// Where cells lie in the world.
struct Places {
    georeference: Georeference,
    projection: Option<Projection>,
}

/// Where a cell is.
struct Place {
    x: f64,
    y: f64,
    /// Latitude and longitude, if the coordinate system is known.
    degrees: Option<(f64, f64)>,
}

impl Places {
    fn new(campaign: &Campaign) -> Outcome<Self> {
        let georeference = campaign.settings().georeference()?;
        let projection = georeference.crs().map(|_| georeference.projection()).transpose()?;
        Ok(Self { georeference, projection })
    }

    /// The place of a cell's centre.
    fn of(&self, row: usize, col: usize) -> Outcome<Place> {
        let (x, y) = self.georeference.centre(row, col);
        let degrees = self.projection.as_ref().map(|projection| projection.unproject(x, y)).transpose()?;
        Ok(Place { x, y, degrees })
    }
}

fn csv(answer: &Answer, places: &Places) -> Outcome<String> {
    let degrees = if places.projection.is_some() { "lat,lon," } else { "" };
    let mut text = format!("row,col,x,y,{degrees}score,expected_risk_drop,predicted,predicted_std\n");
    for point in &answer.ask.points {
        let Place { x, y, degrees } = places.of(point.row, point.col)?;
        let degrees = degrees.map_or(String::new(), |(lat, lon)| format!("{lat:.8},{lon:.8},"));
        let predicted = point.predicted.map_or(",".to_string(), |(mean, std)| format!("{mean:.4},{std:.4}"));
        writeln!(
            text,
            "{},{},{x},{y},{degrees}{:.6},{:.6e},{predicted}",
            point.row, point.col, point.score, point.expected_risk_drop
        )
        .expect("writing to a String succeeds");
    }
    Ok(text)
}

fn properties(answer: &Answer, places: &Places) -> Outcome<Vec<Value>> {
    let points = answer.ask.points.iter().enumerate();
    points
        .map(|(order, point)| {
            let Place { x, y, degrees } = places.of(point.row, point.col)?;
            let mut properties = json!({
                "order": order,
                "row": point.row,
                "col": point.col,
                "x": x,
                "y": y,
                "score": point.score,
                "expected_risk_drop": point.expected_risk_drop,
                "predicted": point.predicted.map(|predicted| predicted.0),
                "predicted_std": point.predicted.map(|predicted| predicted.1),
            });
            if let Some((lat, lon)) = degrees {
                (properties["lat"], properties["lon"]) = (json!(lat), json!(lon));
            }
            Ok(properties)
        })
        .collect()
}

fn object(answer: &Answer, places: &Places) -> Outcome<Value> {
    Ok(json!({
        "ask": answer.ask.id,
        "num_observed": answer.ask.num_observed,
        "risk": answer.ask.risk,
        "seconds": answer.ask.seconds,
        "prior_drawn": answer.drawn,
        "networks_asked": answer.believed,
        "interval_factors": intervals(answer.ask.interval_factors),
        "cost": answer.cost,
        "route_length": answer.ask.route_length,
        "points": properties(answer, places)?,
    }))
}

/// Half widths of the intervals around a prediction, in its standard deviation, by their percentage.
pub(super) fn intervals([half, four_fifths, most]: [f64; 3]) -> Value {
    json!({ "50": half, "80": four_fifths, "95": most })
}

/// GeoJSON holds degrees by definition; without a coordinate system it can only hold x and y.
fn geojson(answer: &Answer, places: &Places) -> Outcome<Value> {
    let feature = |properties: Value| {
        let (first, second) = if properties.get("lon").is_some() { ("lon", "lat") } else { ("x", "y") };
        let place = [properties[first].clone(), properties[second].clone()];
        let geometry = json!({ "type": "Point", "coordinates": place });
        json!({ "type": "Feature", "geometry": geometry, "properties": properties })
    };
    let features: Vec<Value> = properties(answer, places)?.into_iter().map(feature).collect();
    Ok(json!({ "type": "FeatureCollection", "features": features }))
}
