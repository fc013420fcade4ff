//! The report of a run: plain data first, then one self-contained HTML page (no script, no outside link).

mod base64;
mod chart;
mod html;
mod map_figure;
mod scatter;
mod session_page;
mod viewer;

use gpara::ValidMask;

use crate::picture::{Mark, ValueScale};

pub(crate) use html::report_page;
pub(crate) use scatter::{Scatter, ScatterPoint};
pub(crate) use session_page::{SessionReport, session_page};
pub(crate) use viewer::{BaseMap, PointLayer};

/// Everything a report shows.
pub(crate) struct Report {
    /// Heading of the page.
    pub(crate) title: String,
    /// One or two sentences on what was done.
    pub(crate) summary: String,
    /// One section a scene.
    pub(crate) scenes: Vec<SceneReport>,
    /// Name and value of every setting that decides the result.
    pub(crate) settings: Vec<(String, String)>,
    /// Name and SHA-256 of inputs, models and outputs.
    pub(crate) hashes: Vec<(String, String)>,
}

/// What was found for one scene.
pub(crate) struct SceneReport {
    /// Heading of the section.
    pub(crate) title: String,
    /// The valid cells, shared by all maps.
    pub(crate) valid: ValidMask,
    /// What invalid cells are, e.g. `building`.
    pub(crate) invalid_name: String,
    /// Rows of maps; each row has one colour scale.
    pub(crate) rows: Vec<MapRow>,
    /// Curves against the number of measurements.
    pub(crate) charts: Vec<Chart>,
    /// Numbers of the methods.
    pub(crate) table: Table,
}

/// Maps side by side under one colour scale.
pub(crate) struct MapRow {
    /// What the row shows.
    pub(crate) title: String,
    /// Colours and unit of every map in the row.
    pub(crate) scale: ValueScale,
    /// The maps.
    pub(crate) maps: Vec<MapPanel>,
}

/// One map.
pub(crate) struct MapPanel {
    /// Name above the map.
    pub(crate) title: String,
    /// `num_nodes` values in the row's unit.
    pub(crate) values: Vec<f64>,
    /// Marks on the map.
    pub(crate) marks: Vec<Mark>,
}

/// Curves over one pair of axes.
pub(crate) struct Chart {
    /// What is shown.
    pub(crate) title: String,
    /// Label of the horizontal axis.
    pub(crate) x_label: String,
    /// Label of the vertical axis, with unit.
    pub(crate) y_label: String,
    /// The curves, at most six.
    pub(crate) curves: Vec<Curve>,
}

/// One curve.
pub(crate) struct Curve {
    /// Name in the legend.
    pub(crate) name: String,
    /// Points with increasing x.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A table of text cells.
pub(crate) struct Table {
    /// Column names.
    pub(crate) columns: Vec<String>,
    /// One row a method, as many cells as columns.
    pub(crate) rows: Vec<Vec<String>>,
    /// Which row is the best one, if one is.
    pub(crate) best_row: Option<usize>,
}
