//! Sessions in temporary folders, and a field to measure.

use std::path::PathBuf;

use gpara::Grid;
use gpara_session::{
    Answer, AskRequest, Campaign, GaussianMethod, Layers, NewMeasurement, NewTell, Scale, SessionFile, SessionPrior,
    Settings,
};
use tempfile::TempDir;

/// A session with the method that serves it.
pub(crate) struct Program {
    _folder: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) campaign: Campaign,
    pub(crate) method: GaussianMethod,
}

/// A smooth field in the range -1..1.
pub(crate) fn field(row: usize, col: usize) -> f64 {
    0.6 * (row as f64 * 0.37).sin() + 0.4 * (col as f64 * 0.23 + 0.5).cos()
}

/// Settings over a grid with the identity as scale, sigma .01 and a prior that does not depend on the values.
pub(crate) fn settings(rows: usize, cols: usize, budget: usize) -> Settings {
    let scale = Scale::new(-1.0, 1.0, "").unwrap();
    let prior = SessionPrior::GAUSSIAN;
    Settings { budget, sigma: 0.01, prior, ..Settings::field(Grid::new(rows, cols).unwrap(), scale) }
}

impl Program {
    pub(crate) fn new(settings: &Settings, layers: &Layers) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("S.gpara");
        SessionFile::create(&path, settings, layers, &[]).unwrap();
        let campaign = Campaign::open(&path).unwrap();
        let method = GaussianMethod::of(&settings.prior).unwrap();
        Self { _folder: folder, path, campaign, method }
    }

    pub(crate) fn plain(rows: usize, cols: usize, budget: usize) -> Self {
        Self::new(&settings(rows, cols, budget), &Layers::default())
    }

    pub(crate) fn ask(&mut self, count: usize) -> Vec<(usize, usize)> {
        cells(&self.campaign.ask(&self.method, &AskRequest::points(count)).unwrap())
    }

    /// Tells the field's values at cells.
    pub(crate) fn tell(&mut self, cells: &[(usize, usize)]) {
        self.campaign.tell(&values(cells)).unwrap();
    }

    /// Closes and opens the file.
    pub(crate) fn reopen(&mut self) {
        self.campaign = Campaign::open(&self.path).unwrap();
    }
}

pub(crate) fn cells(answer: &Answer) -> Vec<(usize, usize)> {
    answer.ask.points.iter().map(|point| (point.row, point.col)).collect()
}

/// The field's values at cells, as a tell.
pub(crate) fn values(cells: &[(usize, usize)]) -> NewTell {
    let measurements = cells.iter().map(|&(row, col)| measured(row, col, field(row, col), None)).collect();
    NewTell { source: "test".into(), num_skipped: 0, measurements }
}

pub(crate) fn measured(row: usize, col: usize, value: f64, sigma: Option<f64>) -> NewMeasurement {
    NewMeasurement { line: None, row, col, value, sigma }
}

pub(crate) fn one(row: usize, col: usize, value: f64, sigma: Option<f64>) -> NewTell {
    NewTell { source: "test".into(), num_skipped: 0, measurements: vec![measured(row, col, value, sigma)] }
}
