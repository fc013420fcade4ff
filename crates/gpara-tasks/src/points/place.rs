//! From samples to the cells of a grid.

use std::path::{Path, PathBuf};

use gpara::{Result, ValidMask};

use super::columns::PointColumns;
use super::error::PointError;
use super::samples::{Position, RefusedRow, Sample, SampleRows, SampleRules, refuse_any};
use crate::field::read_file;
use crate::geo::{Georeference, Projection};

/// One measured point of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Line of a text, number of a Parquet row or of a GeoJSON feature; 1-based.
    pub line: u64,
    /// The cell that contains it.
    pub node: usize,
    /// Its value in the file's unit.
    pub value: f64,
    /// Standard deviation of its noise, if it is known.
    pub sigma: Option<f64>,
}

/// The rows of a point file, good and refused ones. Points keep their number: N good rows are N points.
#[derive(Debug, Clone, PartialEq)]
pub struct PointRows {
    path: PathBuf,
    item: &'static str,
    /// The measurements in the order of the file.
    pub points: Vec<Point>,
    /// The refused rows in the order of the file.
    pub refused: Vec<RefusedRow>,
}

impl PointRows {
    /// The points, if no row was refused: all land or none.
    ///
    /// # Errors
    /// `InvalidInput` with the first refused row and how many more there are.
    pub fn all(self) -> Result<Vec<Point>> {
        refuse_any(&self.path, self.item, &self.refused)?;
        Ok(self.points)
    }

    /// The good points, and how many rows were left out.
    pub fn skip_invalid(self) -> (Vec<Point>, usize) {
        (self.points, self.refused.len())
    }
}

/// Reads point files for one grid.
///
/// # Example
/// ```
/// use gpara::{Grid, ValidMask};
/// use gpara_tasks::points::{PointColumns, PointReader, Role};
///
/// let valid = ValidMask::all(Grid::new(3, 4)?);
/// let reader = PointReader::new(&valid).columns(PointColumns::default().with(Role::Value, "RSRP"));
/// let rows = reader.decode(b"RSRP;x;y\n-80,5;3,2;0,5\n", "points.csv".as_ref())?;
/// assert_eq!((rows.points[0].node, rows.points[0].value), (3, -80.5));
/// # Ok::<(), gpara::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PointReader<'a> {
    valid: &'a ValidMask,
    georeference: Georeference,
    columns: PointColumns,
    rules: SampleRules,
}

impl<'a> PointReader<'a> {
    /// For a grid without a place in the world: x and y are in cells, y down.
    pub fn new(valid: &'a ValidMask) -> Self {
        let (columns, rules) = (PointColumns::default(), SampleRules::default());
        Self { valid, georeference: Georeference::CELLS, columns, rules }
    }

    /// With the grid's place, for x and y in its system, and for latitude and longitude.
    pub fn georeference(self, georeference: Georeference) -> Self {
        Self { georeference, ..self }
    }

    /// With other names of columns.
    pub fn columns(self, columns: PointColumns) -> Self {
        Self { columns, ..self }
    }

    /// With rules for values.
    pub fn rules(self, rules: SampleRules) -> Self {
        Self { rules, ..self }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`SampleRows::read`]; `InvalidInput` also if a file has latitude and longitude and the grid no coordinate system.
    /// A point outside the grid or the mask is a refused row of the result.
    pub fn read(&self, path: &Path) -> Result<PointRows> {
        self.place(SampleRows::read(path, &self.columns, self.rules)?)
    }

    /// Decodes the bytes of a file; the end of `path` tells the format.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn decode(&self, bytes: &[u8], path: &Path) -> Result<PointRows> {
        self.place(SampleRows::decode(bytes, path, &self.columns, self.rules)?)
    }

    /// Reads the cells of a file of places, with or without values: candidates, for example. A place that is there twice
    /// is in the result twice.
    ///
    /// # Errors
    /// As [`read`](Self::read); `InvalidInput` also with the first row that is not a valid cell, or if there is no row.
    pub fn read_cells(&self, path: &Path) -> Result<Vec<usize>> {
        let rows = SampleRows::decode_places(&read_file(path)?, path, &self.columns)?;
        let points = self.place(rows)?.all()?;
        if points.is_empty() {
            return Err(PointError::content(path, "it holds no cells").into());
        }
        Ok(points.into_iter().map(|point| point.node).collect())
    }

    /// Finds the cells of samples.
    ///
    /// # Errors
    /// `InvalidInput` for latitude and longitude if the grid has no coordinate system.
    pub fn place(&self, rows: SampleRows) -> Result<PointRows> {
        let in_degrees = rows.samples.iter().any(|sample| matches!(sample.position, Position::LatLon { .. }));
        let projection = if in_degrees { Some(self.georeference.projection()?) } else { None };
        let (mut points, mut refused) = (Vec::with_capacity(rows.samples.len()), rows.refused);
        for sample in rows.samples {
            match self.node(&sample, projection.as_ref()) {
                Ok(node) => {
                    points.push(Point { line: sample.line, node, value: sample.value, sigma: sample.sigma });
                }
                Err(reason) => refused.push(RefusedRow { line: sample.line, reason }),
            }
        }
        refused.sort_by_key(|row| row.line);
        Ok(PointRows { path: rows.path, item: rows.item, points, refused })
    }

    /// The valid cell that contains a sample, or what is wrong with it.
    fn node(&self, sample: &Sample, projection: Option<&Projection>) -> Result<usize, String> {
        let grid = self.valid.grid();
        let of_world = |x: f64, y: f64| self.georeference.cell(grid, x, y).map_err(|error| error.to_string());
        let (row, col) = match sample.position {
            Position::Cell { row, col } if row >= grid.rows() || col >= grid.cols() => {
                let (last_row, last_col) = (grid.rows() - 1, grid.cols() - 1);
                return Err(format!(
                    "row {row}, col {col} is outside the grid {grid}, allowed are rows 0 to {last_row} and cols 0 to {last_col}"
                ));
            }
            Position::Cell { row, col } => (row, col),
            Position::World { x, y } => of_world(x, y)?,
            Position::LatLon { lat, lon } => {
                let projection = projection.ok_or("the grid has no coordinate system")?;
                let (x, y) = projection.project(lat, lon).map_err(|error| error.to_string())?;
                of_world(x, y).map_err(|reason| format!("latitude {lat}, longitude {lon}: {reason}"))?
            }
        };
        let node = grid.node(row, col);
        if !self.valid.is_valid(node) {
            return Err(format!("row {row}, col {col} is outside the valid mask"));
        }
        Ok(node)
    }
}

/// Reads points of a grid without a place in the world, with the usual names of columns.
///
/// # Errors
/// As [`PointReader::read`].
pub fn read_points(path: &Path, valid: &ValidMask) -> Result<PointRows> {
    PointReader::new(valid).read(path)
}
