//! What a session file holds, as plain data.

use gpara::{NORMAL_INTERVALS, PriorEnsemble, Result};
use rusqlite::{OptionalExtension, Row};

use super::SessionFile;
use crate::belief::BelievedField;
use crate::error::SessionError;
use crate::layer;
use crate::scene::Layers;
use crate::settings::Settings;

/// A value that was told.
#[derive(Debug, Clone, PartialEq)]
pub struct ToldValue {
    /// Number of the tell it came with.
    pub tell: i64,
    /// Line of the told file, if it came from one.
    pub line: Option<u64>,
    /// Row of the cell.
    pub row: usize,
    /// Column of the cell.
    pub col: usize,
    /// The value in the session's unit.
    pub value: f64,
    /// Its noise in the session's unit; 0 = exact.
    pub sigma: f64,
    /// What was predicted for the cell before it was told, mean and standard deviation in the unit, if anything was.
    pub predicted: Option<(f64, f64)>,
    /// Half widths of the 50, 80 and 95 % intervals of that prediction, in its standard deviation.
    pub interval_factors: [f64; 3],
}

impl ToldValue {
    /// Names the row for people: `tell 3, line 5`.
    pub fn place(&self) -> String {
        // Tell 0 is the one that is being made.
        match (self.tell, self.line) {
            (0, Some(line)) => format!("line {line}"),
            (0, None) => "the told value".into(),
            (tell, Some(line)) => format!("tell {tell}, line {line}"),
            (tell, None) => format!("tell {tell}"),
        }
    }
}

/// A point that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedPoint {
    /// Row of the cell.
    pub row: usize,
    /// Column of the cell.
    pub col: usize,
    /// The policy's score; comparable within one ask.
    pub score: f64,
    /// The expected fall of the weighted risk, in the unit squared.
    pub expected_risk_drop: f64,
    /// The prediction when it was asked, mean and standard deviation in the unit; absent without a fitted spread.
    pub predicted: Option<(f64, f64)>,
}

/// One ask.
#[derive(Debug, Clone, PartialEq)]
pub struct AskRecord {
    /// Its number, from 1.
    pub id: i64,
    /// When, UTC.
    pub at: String,
    /// Cells measured before it.
    pub num_observed: usize,
    /// The weighted risk before it, in the unit squared.
    pub risk: f64,
    /// How long the choice took.
    pub seconds: f64,
    /// Length of the tour through its points in cells, for a route.
    pub route_length: Option<f64>,
    /// Half widths of the 50, 80 and 95 % intervals of its predictions, in their standard deviation.
    pub interval_factors: [f64; 3],
    /// Its points in the order of choice, or of the route.
    pub points: Vec<AskedPoint>,
}

/// One tell.
#[derive(Debug, Clone, PartialEq)]
pub struct TellRecord {
    /// Its number, from 1.
    pub id: i64,
    /// When, UTC.
    pub at: String,
    /// The file it came from, or `arguments`.
    pub source: String,
    /// Lines of the file that were skipped as invalid.
    pub num_skipped: usize,
    /// Values that were recorded.
    pub num_values: usize,
}

/// One reconstruction.
#[derive(Debug, Clone, PartialEq)]
pub struct ReconstructionRecord {
    /// When, UTC.
    pub at: String,
    /// Cells measured then.
    pub num_observed: usize,
    /// How long it took.
    pub seconds: f64,
    /// Network evaluations it took.
    pub network_calls: u64,
    /// Largest |estimate - value| at a measured cell, in the unit.
    pub largest_misfit: Option<f64>,
    /// The files written, with their hashes, one a line.
    pub outputs: String,
}

/// A file that was given to the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRecord {
    /// What it is used as.
    pub role: String,
    /// Where it came from.
    pub path: String,
    /// SHA-256 of its content.
    pub sha256: String,
    /// Its size.
    pub num_bytes: usize,
}

impl SessionFile {
    /// The settings.
    ///
    /// # Errors
    /// `Io` if the file cannot be read, `Incompatible` if the settings are not readable.
    pub fn settings(&self) -> Result<Settings> {
        let text = self.meta("settings")?;
        serde_json::from_str(&text).map_err(|error| {
            SessionError::Damaged { path: self.path().into(), what: format!("settings: {error}") }.into()
        })
    }

    /// A text of the table `meta`: `settings`, `made_by`, `made_at`.
    ///
    /// # Errors
    /// `Io` if the file cannot be read or has no such text.
    pub fn meta(&self, key: &str) -> Result<String> {
        let read = self.connection().query_row("SELECT value FROM meta WHERE key = ?", [key], |row| row.get(0));
        read.map_err(self.failure("read"))
    }

    /// The identity of the method the session was begun with, once there is one.
    pub(crate) fn method(&self) -> Result<Option<String>> {
        let query = "SELECT value FROM meta WHERE key = 'method'";
        self.connection().query_row(query, (), |row| row.get(0)).optional().map_err(self.failure("read"))
    }

    /// The exact value told for a cell, if one was.
    pub(crate) fn exact_value(&self, row: usize, col: usize) -> Result<Option<ToldValue>> {
        let query = "SELECT tell, line, value FROM measurement WHERE row = ? AND col = ? AND sigma = 0 LIMIT 1";
        let mut statement = self.connection().prepare_cached(query).map_err(self.failure("read"))?;
        let read = statement.query_row([row, col], |found| {
            let (tell, line, value) = (found.get(0)?, found.get(1)?, found.get(2)?);
            Ok(ToldValue {
                tell,
                line,
                row,
                col,
                value,
                sigma: 0.0,
                predicted: None,
                interval_factors: NORMAL_INTERVALS,
            })
        });
        read.optional().map_err(self.failure("read"))
    }

    /// The maps.
    ///
    /// # Errors
    /// `Io` if the file cannot be read, `Incompatible` if it is damaged.
    pub fn layers(&self) -> Result<Layers> {
        layer::load(self.connection(), self.path())
    }

    /// Every told value in the order of arrival.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn told(&self) -> Result<Vec<ToldValue>> {
        self.rows(
            "SELECT tell, line, row, col, value, sigma, predicted_mean, predicted_std, interval_50, interval_80, interval_95 \
             FROM measurement LEFT JOIN ask ON ask.id = predicted_by ORDER BY measurement.id",
            |row| {
                Ok(ToldValue {
                    tell: row.get(0)?,
                    line: row.get(1)?,
                    row: row.get(2)?,
                    col: row.get(3)?,
                    value: row.get(4)?,
                    sigma: row.get(5)?,
                    predicted: row.get::<_, Option<f64>>(6)?.zip(row.get::<_, Option<f64>>(7)?),
                    interval_factors: match row.get::<_, Option<f64>>(8)? {
                        Some(half) => [half, row.get(9)?, row.get(10)?],
                        None => NORMAL_INTERVALS,
                    },
                })
            },
        )
    }

    /// Cells told as failed, in the order of arrival.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn failed(&self) -> Result<Vec<(usize, usize)>> {
        self.rows("SELECT row, col FROM failure ORDER BY id", |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Cells asked for, neither measured nor failed, row by row.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn pending(&self) -> Result<Vec<(usize, usize)>> {
        self.rows("SELECT row, col FROM pending ORDER BY row, col", |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Every ask in order.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn asks(&self) -> Result<Vec<AskRecord>> {
        let query = "SELECT id, at, num_observed, risk, seconds, route_length, interval_50, interval_80, interval_95 \
                     FROM ask ORDER BY id";
        let mut asks = self.rows(query, |row| {
            Ok(AskRecord {
                id: row.get(0)?,
                at: row.get(1)?,
                num_observed: row.get(2)?,
                risk: row.get(3)?,
                seconds: row.get(4)?,
                route_length: row.get(5)?,
                interval_factors: [row.get(6)?, row.get(7)?, row.get(8)?],
                points: Vec::new(),
            })
        })?;
        let points = self.rows(
            "SELECT ask, row, col, score, expected_risk_drop, predicted_mean, predicted_std FROM ask_point \
             ORDER BY ask, place",
            |row| {
                let point = AskedPoint {
                    row: row.get(1)?,
                    col: row.get(2)?,
                    score: row.get(3)?,
                    expected_risk_drop: row.get(4)?,
                    predicted: row.get::<_, Option<f64>>(5)?.zip(row.get::<_, Option<f64>>(6)?),
                };
                Ok((row.get::<_, i64>(0)?, point))
            },
        )?;
        for (id, point) in points {
            if let Ok(at) = asks.binary_search_by_key(&id, |ask| ask.id) {
                asks[at].points.push(point);
            }
        }
        Ok(asks)
    }

    /// Every tell in order.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn tells(&self) -> Result<Vec<TellRecord>> {
        self.rows(
            "SELECT id, at, source, num_skipped, (SELECT count(*) FROM measurement m WHERE m.tell = tell.id) \
             FROM tell ORDER BY id",
            |row| {
                Ok(TellRecord {
                    id: row.get(0)?,
                    at: row.get(1)?,
                    source: row.get(2)?,
                    num_skipped: row.get(3)?,
                    num_values: row.get(4)?,
                })
            },
        )
    }

    /// Every reconstruction in order.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn reconstructions(&self) -> Result<Vec<ReconstructionRecord>> {
        self.rows(
            "SELECT at, num_observed, seconds, network_calls, largest_misfit, outputs FROM reconstruction ORDER BY id",
            |row| {
                Ok(ReconstructionRecord {
                    at: row.get(0)?,
                    num_observed: row.get(1)?,
                    seconds: row.get(2)?,
                    network_calls: row.get(3)?,
                    largest_misfit: row.get(4)?,
                    outputs: row.get(5)?,
                })
            },
        )
    }

    /// The files the session was given.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn inputs(&self) -> Result<Vec<InputRecord>> {
        self.rows("SELECT role, path, sha256, length(content) FROM input ORDER BY id", |row| {
            Ok(InputRecord { role: row.get(0)?, path: row.get(1)?, sha256: row.get(2)?, num_bytes: row.get(3)? })
        })
    }

    /// The prior samples drawn with a method, `None` if there are none of that method.
    ///
    /// # Errors
    /// `Io` if the file cannot be read, `Incompatible` if a sample is damaged.
    pub fn prior_samples(&self, method: &str, num_nodes: usize) -> Result<Option<PriorEnsemble>> {
        let mut statement = self
            .connection()
            .prepare("SELECT content FROM prior_sample WHERE method = ? ORDER BY sample")
            .map_err(self.failure("read"))?;
        let samples = statement.query_map([method], |row| row.get::<_, Vec<u8>>(0)).map_err(self.failure("read"))?;
        let mut values = Vec::new();
        for sample in samples {
            values.extend(layer::numbers_of(&sample.map_err(self.failure("read"))?, self.path())?);
        }
        if values.is_empty() { Ok(None) } else { PriorEnsemble::new(values, num_nodes).map(Some) }
    }

    /// What networks of a method said of measurements, `None` if that is not kept.
    pub(crate) fn belief(&self, method: &str, observations: &str, num_nodes: usize) -> Result<Option<BelievedField>> {
        let query = "SELECT mean, std FROM belief WHERE method = ? AND observations = ?";
        let read = self
            .connection()
            .query_row(query, [method, observations], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?)));
        let Some((mean, std)) = read.optional().map_err(self.failure("read"))? else { return Ok(None) };
        let (mean, std) = (layer::numbers_of(&mean, self.path())?, layer::numbers_of(&std, self.path())?);
        if mean.len() != num_nodes || std.len() != num_nodes {
            let what = format!("a belief of {} and {} values for {num_nodes} cells", mean.len(), std.len());
            return Err(SessionError::Damaged { path: self.path().into(), what }.into());
        }
        Ok(Some(BelievedField { mean, std }))
    }

    /// Asks SQLite to check the whole file.
    ///
    /// # Errors
    /// `Incompatible` if it finds damage, `Io` if the file cannot be read.
    pub fn check_integrity(&self) -> Result<()> {
        let found: String = self
            .connection()
            .query_row("PRAGMA integrity_check", (), |row| row.get(0))
            .map_err(self.failure("check"))?;
        if found == "ok" {
            return Ok(());
        }
        Err(SessionError::Damaged { path: self.path().into(), what: found }.into())
    }

    fn rows<T>(&self, query: &str, read: impl Fn(&Row<'_>) -> rusqlite::Result<T>) -> Result<Vec<T>> {
        let mut statement = self.connection().prepare_cached(query).map_err(self.failure("read"))?;
        let rows = statement.query_map((), |row| read(row)).map_err(self.failure("read"))?;
        rows.map(|row| row.map_err(self.failure("read"))).collect()
    }
}
