//! What happens to a session, one statement a row; the callers hold the transaction.

use gpara::PriorEnsemble;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{AskRecord, ReconstructionRecord};
use crate::belief::KeptBelief;
use crate::layer;

/// A value to record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewMeasurement {
    /// Line of the file it comes from, if it does.
    pub line: Option<u64>,
    /// Row of the cell.
    pub row: usize,
    /// Column of the cell.
    pub col: usize,
    /// The value in the session's unit.
    pub value: f64,
    /// Its noise in the unit, 0 = exact; the session's own where `None`.
    pub sigma: Option<f64>,
}

/// Values to record together.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTell {
    /// The file they come from, or `arguments`.
    pub source: String,
    /// Lines of the file that were left out as invalid.
    pub num_skipped: usize,
    /// The values.
    pub measurements: Vec<NewMeasurement>,
}

const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/// Records a tell and gives its number. The prediction of a cell is the one of the last ask that named it before it had a
/// value.
pub(crate) fn insert_tell(connection: &Connection, tell: &NewTell, sigma: f64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(&format!("INSERT INTO tell (at, source, num_skipped) VALUES ({NOW}, ?, ?)"))?
        .execute(params![tell.source, tell.num_skipped])?;
    let id = connection.last_insert_rowid();
    let mut prediction = connection.prepare_cached(
        "SELECT predicted_mean, predicted_std, ask FROM ask_point WHERE row = ?1 AND col = ?2 \
         AND NOT EXISTS (SELECT 1 FROM measurement m WHERE m.row = ?1 AND m.col = ?2) ORDER BY ask DESC LIMIT 1",
    )?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO measurement (tell, line, row, col, value, sigma, predicted_mean, predicted_std, predicted_by) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for measurement in &tell.measurements {
        let NewMeasurement { line, row, col, value, .. } = *measurement;
        let found = |found: &Row<'_>| Ok((found.get(0)?, found.get(1)?, found.get(2)?));
        let read = prediction.query_row(params![row, col], found).optional()?;
        let (mean, std, ask): (Option<f64>, Option<f64>, Option<i64>) = read.unwrap_or((None, None, None));
        insert.execute(params![id, line, row, col, value, measurement.sigma.unwrap_or(sigma), mean, std, ask])?;
    }
    Ok(id)
}

/// Records cells that could not be measured.
pub(crate) fn insert_failures(connection: &Connection, cells: &[(usize, usize)]) -> rusqlite::Result<()> {
    let query = format!("INSERT INTO failure (at, row, col) VALUES ({NOW}, ?, ?)");
    let mut insert = connection.prepare_cached(&query)?;
    cells.iter().try_for_each(|(row, col)| insert.execute(params![row, col]).map(|_| ()))
}

/// Records an ask and gives its number; `id` and `at` of the record are not read.
pub(crate) fn insert_ask(connection: &Connection, ask: &AskRecord) -> rusqlite::Result<i64> {
    let [half, four_fifths, most] = ask.interval_factors;
    connection
        .prepare_cached(&format!(
            "INSERT INTO ask (at, num_observed, risk, seconds, route_length, interval_50, interval_80, interval_95) \
             VALUES ({NOW}, ?, ?, ?, ?, ?, ?, ?)"
        ))?
        .execute(params![ask.num_observed, ask.risk, ask.seconds, ask.route_length, half, four_fifths, most])?;
    let id = connection.last_insert_rowid();
    let mut insert = connection.prepare_cached(
        "INSERT INTO ask_point (ask, place, row, col, score, expected_risk_drop, predicted_mean, predicted_std) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for (place, point) in ask.points.iter().enumerate() {
        let (mean, std) = point.predicted.unzip();
        insert.execute(params![id, place, point.row, point.col, point.score, point.expected_risk_drop, mean, std])?;
    }
    Ok(id)
}

/// Replaces the prior samples by those of a method.
pub(crate) fn replace_prior(connection: &Connection, method: &str, ensemble: &PriorEnsemble) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM prior_sample", ())?;
    let mut insert = connection.prepare("INSERT INTO prior_sample (sample, method, content) VALUES (?, ?, ?)")?;
    for (index, sample) in ensemble.iter().enumerate() {
        insert.execute(params![index, method, layer::bytes_of(sample)])?;
    }
    Ok(())
}

/// Replaces what networks said of earlier measurements.
pub(crate) fn replace_belief(connection: &Connection, method: &str, belief: &KeptBelief) -> rusqlite::Result<()> {
    let (mean, std) = (layer::bytes_of(&belief.field.mean), layer::bytes_of(&belief.field.std));
    connection.execute("DELETE FROM belief", ())?;
    let query = "INSERT INTO belief (method, observations, mean, std) VALUES (?, ?, ?, ?)";
    connection.execute(query, params![method, belief.observations, mean, std]).map(|_| ())
}

/// Records a reconstruction; `at` of the record is not read.
pub(crate) fn insert_reconstruction(connection: &Connection, made: &ReconstructionRecord) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&format!(
            "INSERT INTO reconstruction (at, num_observed, seconds, network_calls, largest_misfit, outputs) \
             VALUES ({NOW}, ?, ?, ?, ?, ?)"
        ))?
        .execute(params![made.num_observed, made.seconds, made.network_calls, made.largest_misfit, made.outputs])
        .map(|_| ())
}
