//! Drive tests: many samples along streets become cells of a grid in metres.

use std::path::{Path, PathBuf};

use gpara::{Grid, Result};
use serde_json::json;

use super::error::ImportError;
use crate::field::{MAX_CELLS, write_together};
use crate::geo::{Crs, Georeference};
use crate::points::{
    BinReport, BinSettings, BinnedPoint, Point, PointColumns, PointOutput, Position, RefusedRow, SampleRows,
    SampleRules, bin_samples,
};
use crate::units::Unit;

/// How the samples of a drive test become cells.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveTestSettings {
    /// Names of the columns.
    pub columns: PointColumns,
    /// What values must be like.
    pub rules: SampleRules,
    /// The system of the grid; none takes the UTM zone of the first sample. Files with x and y are in this system.
    pub crs: Option<Crs>,
    /// Side of a cell in metres.
    pub cell_size_m: f64,
    /// Cells around the samples, on each side.
    pub margin_cells: usize,
    /// How samples of one cell are merged.
    pub bins: BinSettings,
    /// The unit of the values.
    pub unit: Unit,
    /// Whether bad rows are left out and counted, instead of refusing the file.
    pub skip_invalid: bool,
}

/// A drive test on a grid of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveTest {
    /// The grid.
    pub grid: Grid,
    /// Its place.
    pub georeference: Georeference,
    /// One measurement a cell, in increasing order of cells.
    pub points: Vec<BinnedPoint>,
    /// What was merged, and how.
    pub report: BinReport,
    /// Rows that were left out.
    pub num_skipped: usize,
    /// The unit of the values.
    pub unit: Unit,
}

impl DriveTest {
    /// Reads a file of samples in any format of [`SampleRows::read`]. Latitude 0 with longitude 0 is what receivers write
    /// without a position, so that such a row is bad.
    ///
    /// # Errors
    /// Those of [`SampleRows::read`] and [`bin_samples`]; `InvalidInput` if a row is bad and is not to be skipped, no row is
    /// good, the system counts degrees, or the grid would have more than 2^28 cells.
    pub fn read(path: &Path, settings: &DriveTestSettings) -> Result<Self> {
        Self::from_rows(SampleRows::read(path, &settings.columns, settings.rules)?, path, settings)
    }

    fn from_rows(mut rows: SampleRows, path: &Path, settings: &DriveTestSettings) -> Result<Self> {
        let size = settings.cell_size_m;
        if !(size > 0.0 && size.is_finite()) {
            return Err(ImportError::CellSize { size }.into());
        }
        refuse_missing_positions(&mut rows);
        let (samples, num_skipped) = if settings.skip_invalid { rows.skip_invalid() } else { (rows.all()?, 0) };
        let first =
            samples.first().ok_or_else(|| ImportError::NoSamples { path: path.into(), refused: num_skipped })?;
        let crs = match (settings.crs, first.position) {
            (Some(crs), _) => Some(crs),
            (None, Position::LatLon { lat, lon }) => Some(Crs::utm(lat, lon)?),
            (None, _) => None,
        };
        let projection = crs.map(Crs::projection).transpose()?;
        if let Some(crs) = crs.filter(|_| projection.as_ref().is_some_and(|projection| projection.is_geographic())) {
            return Err(ImportError::Degrees { crs: crs.to_string() }.into());
        }
        let places = samples
            .iter()
            .map(|sample| match (sample.position, &projection) {
                (Position::World { x, y }, _) => Ok((x, y)),
                (Position::LatLon { lat, lon }, Some(projection)) => projection.project(lat, lon),
                _ => Err(ImportError::Cells { path: path.into() }.into()),
            })
            .collect::<Result<Vec<_>>>()?;
        let (grid, georeference) = grid_around(&places, settings, crs)?;
        let points = samples
            .iter()
            .zip(&places)
            .map(|(sample, &(x, y))| {
                let (row, col) = georeference.cell(grid, x, y)?;
                Ok(Point { line: sample.line, node: grid.node(row, col), value: sample.value, sigma: sample.sigma })
            })
            .collect::<Result<Vec<_>>>()?;
        let (points, report) = bin_samples(&points, settings.bins)?;
        Ok(Self { grid, georeference, points, report, num_skipped, unit: settings.unit })
    }

    /// Writes `points.csv` (cells, coordinates, `value`, `sigma`, `num_samples`) and `drive_test.json` (grid, place, unit, what
    /// was merged) into a folder, which is made if it is not there. Both files appear or none. Returns the path of the latter.
    ///
    /// # Errors
    /// `Io` if the folder cannot be made or written to.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder).map_err(|source| ImportError::Create { path: folder.into(), source })?;
        let nodes: Vec<usize> = self.points.iter().map(|point| point.node).collect();
        let column = |of: fn(&BinnedPoint) -> f64| self.points.iter().map(of).collect::<Vec<f64>>();
        let (values, sigmas) = (column(|point| point.value), column(|point| point.sigma));
        let counts = column(|point| point.num_samples as f64);
        let columns: [(&str, &[f64]); 3] = [("value", &values), ("sigma", &sigmas), ("num_samples", &counts)];
        let (grid, georeference) = (self.grid, self.georeference);
        let points = PointOutput { grid, georeference, nodes: &nodes, columns: &columns }.csv()?;
        let text = json!({
            "rows": self.grid.rows(),
            "cols": self.grid.cols(),
            "geotransform": self.georeference.affine().coefficients(),
            "crs": self.georeference.crs().map(|crs| crs.to_string()),
            "unit": self.unit.name(),
            "num_samples": self.report.num_samples,
            "num_skipped": self.num_skipped,
            "num_cells": self.report.num_cells,
            "num_merged_cells": self.report.num_merged_cells,
            "largest_bin": self.report.largest_bin,
            "spread": self.report.spread,
            "averaging": self.report.settings.averaging.map(|averaging| averaging.name()),
            "sigma_floor": self.report.settings.sigma_floor,
            "shared_samples": self.report.settings.shared_samples,
        });
        let summary = folder.join("drive_test.json");
        let files =
            [(folder.join("points.csv"), points.into_bytes()), (summary.clone(), format!("{text:#}\n").into_bytes())];
        write_together(&files)?;
        Ok(summary)
    }
}

fn refuse_missing_positions(rows: &mut SampleRows) {
    let has_position = |position: Position| position != Position::LatLon { lat: 0.0, lon: 0.0 };
    let reason = "latitude 0, longitude 0 stands for a missing position";
    let missing = rows.samples.iter().filter(|sample| !has_position(sample.position));
    rows.refused.extend(missing.map(|sample| RefusedRow { line: sample.line, reason: reason.into() }));
    rows.refused.sort_by_key(|row| row.line);
    rows.samples.retain(|sample| has_position(sample.position));
}

/// The grid of whole cells around places; its lines lie on multiples of the cell size.
fn grid_around(places: &[(f64, f64)], settings: &DriveTestSettings, crs: Option<Crs>) -> Result<(Grid, Georeference)> {
    let (size, margin) = (settings.cell_size_m, settings.margin_cells as f64);
    let fold =
        |of: fn(&(f64, f64)) -> f64, pick: fn(f64, f64) -> f64, start: f64| places.iter().map(of).fold(start, pick);
    let (min_x, max_x) = (fold(|p| p.0, f64::min, f64::INFINITY), fold(|p| p.0, f64::max, f64::NEG_INFINITY));
    let (min_y, max_y) = (fold(|p| p.1, f64::min, f64::INFINITY), fold(|p| p.1, f64::max, f64::NEG_INFINITY));
    // The upper edge of a cell belongs to the next one in x, and to the row below in y: one more cell holds it.
    let (first_col, last_col) = ((min_x / size).floor() - margin, (max_x / size).floor() + margin);
    let (first_row, last_row) = ((max_y / size).floor() + 1.0 + margin, (min_y / size).floor() - margin);
    let (cols, rows) = (last_col - first_col + 1.0, first_row - last_row + 1.0);
    // Places at the end of the number range give infinite or undefined counts.
    if (rows * cols).is_nan() || rows * cols > MAX_CELLS as f64 {
        let (width, height) = (max_x - min_x, max_y - min_y);
        return Err(ImportError::Span { width, height, size, limit: MAX_CELLS }.into());
    }
    let georeference = Georeference::north_up(first_col * size, first_row * size, size, crs)?;
    Ok((Grid::new(rows as usize, cols as usize)?, georeference))
}

#[cfg(test)]
mod tests {
    use gpara::{ErrorKind, ValidMask};

    use super::*;
    use crate::points::{PointReader, Role};
    use crate::units::Averaging;

    fn settings() -> DriveTestSettings {
        DriveTestSettings {
            columns: PointColumns::default().with(Role::Value, "RSRP"),
            rules: SampleRules::default(),
            crs: None,
            cell_size_m: 10.0,
            margin_cells: 2,
            bins: BinSettings { averaging: Some(Averaging::LinearPower), sigma_floor: 1.0, shared_samples: 4.0 },
            unit: Unit::DecibelMilliwatt,
            skip_invalid: false,
        }
    }

    fn write(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.csv");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn users_06_degrees_become_cells_of_the_utm_zone_and_merges_are_reported() {
        // About 1 m apart twice, then about 71 m to the east.
        let text = "time;lat;lon;RSRP\n1;48,85;8,06;-80\n2;48,85001;8,06;-84\n3;48,85;8,06097;-100\n";
        let (folder, path) = write(text);
        let test = DriveTest::read(&path, &settings()).unwrap();
        assert_eq!(test.georeference.crs(), Some(Crs::Epsg(32_632)));
        assert_eq!((test.report.num_samples, test.num_skipped), (3, 0));
        assert_eq!(test.points.iter().map(|point| point.num_samples).sum::<usize>(), 3);
        let cells: Vec<_> = test.points.iter().map(|point| test.grid.row_col(point.node)).collect();
        let east = cells.iter().map(|cell| cell.1).max().unwrap() - cells.iter().map(|cell| cell.1).min().unwrap();
        assert!((6..=8).contains(&east), "{cells:?}");
        let margin = |cell: &(usize, usize)| {
            cell.0 >= 2 && cell.1 >= 2 && cell.0 + 2 < test.grid.rows() && cell.1 + 2 < test.grid.cols()
        };
        assert!(cells.iter().all(margin), "{cells:?} in {}", test.grid);
        // What was written reads back as points of that grid.
        let out = folder.path().join("out");
        let summary = std::fs::read_to_string(test.write(&out).unwrap()).unwrap();
        assert!(summary.contains("\"averaging\": \"linear-power\"") && summary.contains("EPSG:32632"), "{summary}");
        let valid = ValidMask::all(test.grid);
        let reader = PointReader::new(&valid).georeference(test.georeference);
        let points = reader.read(&out.join("points.csv")).unwrap().all().unwrap();
        let content = |node, value, sigma| (node, value, sigma);
        assert_eq!(
            points.iter().map(|point| content(point.node, point.value, point.sigma.unwrap())).collect::<Vec<_>>(),
            test.points.iter().map(|point| content(point.node, point.value, point.sigma)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn metres_stay_metres_and_cell_edges_are_half_open() {
        let (_folder, path) = write("x,y,RSRP\n0,0,-80\n10,10,-90\n9.99,9.99,-80\n");
        let test = DriveTest::read(&path, &DriveTestSettings { margin_cells: 0, ..settings() }).unwrap();
        assert_eq!((test.grid.rows(), test.grid.cols(), test.georeference.crs()), (3, 2, None));
        let cells: Vec<_> = test.points.iter().map(|point| test.grid.row_col(point.node)).collect();
        assert_eq!(cells, [(1, 0), (1, 1), (2, 0)]);
    }

    #[test]
    fn users_02_bad_rows_refuse_the_file_or_are_counted() {
        let good = "lat,lon,RSRP\n48.85,8.06,-80\n48.8501,8.06,-82\n";
        let (_folder, path) = write(&format!("{good}0,0,-90\n48.85,8.06,nan\n"));
        let error = DriveTest::read(&path, &settings()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("line 4: latitude 0"), "{error}");
        let skipping = DriveTestSettings { skip_invalid: true, ..settings() };
        let test = DriveTest::read(&path, &skipping).unwrap();
        assert_eq!(test.num_skipped, 2);
        let (_folder, path) = write(good);
        assert_eq!(DriveTest { num_skipped: 2, ..DriveTest::read(&path, &settings()).unwrap() }, test);
    }

    #[test]
    fn what_gives_no_grid_is_refused() {
        let read = |text: &str, settings: DriveTestSettings| {
            let (_folder, path) = write(text);
            DriveTest::read(&path, &settings).unwrap_err().kind()
        };
        let good = "lat,lon,RSRP\n48.85,8.06,-80\n";
        let far = "x,y,RSRP\n0,0,-80\n1e9,1e9,-80\n";
        assert_eq!(read(far, settings()), ErrorKind::InvalidInput);
        assert_eq!(read("x,y,RSRP\n0,0,-80\n1e300,1e308,-80\n", settings()), ErrorKind::InvalidInput);
        assert_eq!(read("row,col,RSRP\n0,0,-80\n", settings()), ErrorKind::InvalidInput);
        assert_eq!(read("lat,lon,RSRP\n", settings()), ErrorKind::InvalidInput);
        assert_eq!(read(good, DriveTestSettings { cell_size_m: 0.0, ..settings() }), ErrorKind::InvalidInput);
        assert_eq!(read(good, DriveTestSettings { crs: Some(Crs::Epsg(4326)), ..settings() }), ErrorKind::InvalidInput);
    }
}
