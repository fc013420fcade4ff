//! Points going out: CSV and GeoJSON.

use std::fmt::Write;
use std::path::Path;

use gpara::{Grid, Result};
use serde_json::{Map, Value, json};

use super::error::PointError;
use super::geojson::Coordinates;
use crate::field::write_whole;
use crate::geo::Georeference;

/// Cells and what is known about them.
#[derive(Debug, Clone, Copy)]
pub struct PointOutput<'a> {
    /// The grid of the cells.
    pub grid: Grid,
    /// Its place in the world.
    pub georeference: Georeference,
    /// The cells in the order of the file.
    pub nodes: &'a [usize],
    /// Name and one value a cell.
    pub columns: &'a [(&'a str, &'a [f64])],
}

impl PointOutput<'_> {
    /// Writes `.geojson` or `.json` as GeoJSON, everything else as CSV.
    ///
    /// # Errors
    /// As [`csv`](Self::csv) and [`geojson`](Self::geojson); `Io` if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let text = match ending.as_deref() {
            Some("geojson" | "json") => self.geojson()?,
            _ => self.csv()?,
        };
        write_whole(path, text.as_bytes())
    }

    /// `row,col,x,y` (x and y at the cell's centre), `lat,lon` if the grid has a coordinate system, and the columns.
    ///
    /// # Errors
    /// `ShapeMismatch` if a column has another number of values than there are cells; `InvalidInput` if a centre cannot be
    /// told in degrees.
    pub fn csv(&self) -> Result<String> {
        self.check()?;
        let places = self.lat_lon()?;
        let mut text = String::from(if places.is_some() { "row,col,x,y,lat,lon" } else { "row,col,x,y" });
        self.columns.iter().for_each(|(name, _)| text.extend([",", name]));
        text.push('\n');
        for (point, &node) in self.nodes.iter().enumerate() {
            let (row, col) = self.grid.row_col(node);
            let (x, y) = self.georeference.centre(row, col);
            write!(text, "{row},{col},{x},{y}").expect("writing to a String succeeds");
            if let Some((lat, lon)) = places.as_ref().map(|places| places[point]) {
                write!(text, ",{lat},{lon}").expect("writing to a String succeeds");
            }
            for (_, values) in self.columns {
                // The shortest text that reads back to the same bits; a missing value is an empty cell.
                let value = values[point];
                let written = if value.is_nan() { write!(text, ",") } else { write!(text, ",{value}") };
                written.expect("writing to a String succeeds");
            }
            text.push('\n');
        }
        Ok(text)
    }

    /// A feature collection of points at the cells' centres, in longitude and latitude if the grid has a coordinate system;
    /// otherwise in x and y, which the member `coordinates` of the file then says. Properties are `row`, `col` and the
    /// columns; a value that is not finite is `null`.
    ///
    /// # Errors
    /// As [`csv`](Self::csv).
    pub fn geojson(&self) -> Result<String> {
        self.check()?;
        let places = self.lat_lon()?;
        let feature = |(point, &node): (usize, &usize)| {
            let (row, col) = self.grid.row_col(node);
            let coordinates = match &places {
                Some(places) => json!([places[point].1, places[point].0]),
                None => {
                    let (x, y) = self.georeference.centre(row, col);
                    json!([x, y])
                }
            };
            let mut properties = Map::from_iter([("row".into(), json!(row)), ("col".into(), json!(col))]);
            properties.extend(self.columns.iter().map(|(name, values)| ((*name).into(), json!(values[point]))));
            json!({ "type": "Feature", "geometry": { "type": "Point", "coordinates": coordinates }, "properties": properties })
        };
        let features: Vec<Value> = self.nodes.iter().enumerate().map(feature).collect();
        let kind = if places.is_some() { Coordinates::LonLat } else { Coordinates::XY };
        Ok(format!("{:#}\n", json!({ "type": "FeatureCollection", "coordinates": kind.name(), "features": features })))
    }

    fn check(&self) -> Result<()> {
        let expected = self.nodes.len();
        match self.columns.iter().find(|(_, values)| values.len() != expected) {
            None => Ok(()),
            Some((name, values)) => {
                Err(PointError::Column { name: (*name).into(), found: values.len(), expected }.into())
            }
        }
    }

    /// Latitude and longitude of the centres, if the grid has a coordinate system.
    fn lat_lon(&self) -> Result<Option<Vec<(f64, f64)>>> {
        if self.georeference.crs().is_none() {
            return Ok(None);
        }
        let projection = self.georeference.projection()?;
        let centre = |&node: &usize| {
            let (row, col) = self.grid.row_col(node);
            let (x, y) = self.georeference.centre(row, col);
            projection.unproject(x, y)
        };
        self.nodes.iter().map(centre).collect::<Result<Vec<_>>>().map(Some)
    }
}

/// Writes points of a grid without a place in the world as CSV.
///
/// # Shapes
/// * `columns` - name and one value for each of `nodes`
///
/// # Errors
/// As [`PointOutput::write`].
pub fn write_points(path: &Path, grid: Grid, nodes: &[usize], columns: &[(&str, &[f64])]) -> Result<()> {
    let output = PointOutput { grid, georeference: Georeference::CELLS, nodes, columns };
    write_whole(path, output.csv()?.as_bytes())
}
