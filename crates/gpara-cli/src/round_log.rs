//! The log of a run: a header line, then one JSON line a round, each on disk before the next round begins.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gpara::{RoundRecord, SelectedPoint};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome};

const FORMAT: u32 = 1;
const NEW_HINT: &str = "name another folder with --out, or delete this one to start again";

/// What a log belongs to; a log of anything else is not continued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogHeader {
    /// Version of the log's format.
    pub(crate) format: u32,
    /// SHA-256 of everything that decides the run: configuration, preset, input files, models.
    pub(crate) inputs_sha256: String,
    /// Root seed.
    pub(crate) seed: u64,
}

impl LogHeader {
    /// The header of a run with these inputs.
    pub(crate) fn new(inputs_sha256: String, seed: u64) -> Self {
        Self { format: FORMAT, inputs_sha256, seed }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundLine {
    round: usize,
    num_observed: usize,
    points: Vec<PointLine>,
    /// Normalised values as measured, `null` for a failed measurement.
    values: Vec<Option<f64>>,
    risk: Option<f64>,
    seconds: f64,
    network_calls: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointLine {
    node: usize,
    row: usize,
    col: usize,
    /// `null` stands for the infinite score of a first farthest point: JSON has no infinity.
    score: Option<f64>,
    expected_risk_drop: Option<f64>,
}

/// An open log.
pub(crate) struct RoundLog {
    file: File,
    path: PathBuf,
    cols: usize,
}

impl RoundLog {
    /// Opens the log of a run, or starts it; returns the rounds it holds.
    ///
    /// An unfinished last line is what a kill during a write leaves: it was never acknowledged, so it is removed.
    pub(crate) fn open(path: &Path, header: &LogHeader, cols: usize) -> Outcome<(Self, Vec<RoundRecord>)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut log = Self { file: file.map_err(|error| io_failure("open", path, &error))?, path: path.into(), cols };
        let mut text = String::new();
        log.file.read_to_string(&mut text).map_err(|error| io_failure("read", path, &error))?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        log.cut(whole)?;
        let mut lines = text[..whole].lines().enumerate();
        match lines.next() {
            None => log.append_line(&serde_json::to_string(header).expect("a header is JSON"))?,
            Some((_, first)) => check_header(path, first, header)?,
        }
        let rounds = lines.map(|(line, text)| read_round(path, line, text)).collect::<Outcome<Vec<_>>>()?;
        Ok((log, rounds))
    }

    /// Adds a round; it is on disk when this returns.
    pub(crate) fn append(&mut self, record: &RoundRecord) -> Outcome {
        let point = |point: &SelectedPoint| PointLine {
            node: point.node,
            row: point.node / self.cols,
            col: point.node % self.cols,
            score: Some(point.score).filter(|score| score.is_finite()),
            expected_risk_drop: point.expected_risk_drop,
        };
        let line = RoundLine {
            round: record.round,
            num_observed: record.num_observed,
            points: record.points.iter().map(point).collect(),
            values: record.values.clone(),
            risk: record.risk,
            seconds: record.seconds,
            network_calls: record.network_calls,
        };
        self.append_line(&serde_json::to_string(&line).expect("a round is JSON"))
    }

    fn append_line(&mut self, line: &str) -> Outcome {
        let write = |file: &mut File| {
            file.write_all(format!("{line}\n").as_bytes())?;
            file.sync_data()
        };
        write(&mut self.file).map_err(|error| io_failure("write", &self.path, &error))
    }

    /// Ends the file after `length` bytes and goes on there.
    fn cut(&mut self, length: usize) -> Outcome {
        let cut = |file: &mut File| {
            file.set_len(length as u64)?;
            file.seek(SeekFrom::End(0)).map(drop)
        };
        cut(&mut self.file).map_err(|error| io_failure("write", &self.path, &error))
    }
}

fn check_header(path: &Path, line: &str, expected: &LogHeader) -> Outcome {
    let found: LogHeader = serde_json::from_str(line)
        .map_err(|error| Failure::input(format!("`{}`, line 1: not a run log: {error}", path.display()), NEW_HINT))?;
    let differs = match () {
        () if found.format != expected.format => format!("format {} instead of {}", found.format, expected.format),
        () if found.seed != expected.seed => format!("seed {} instead of {}", found.seed, expected.seed),
        () if found.inputs_sha256 != expected.inputs_sha256 => "other settings or input files".to_string(),
        () => return Ok(()),
    };
    Err(Failure::input(format!("`{}` belongs to another run: {differs}", path.display()), NEW_HINT))
}

fn read_round(path: &Path, line: usize, text: &str) -> Outcome<RoundRecord> {
    let line_number = line + 1;
    let round: RoundLine = serde_json::from_str(text).map_err(|error| {
        Failure::input(format!("`{}`, line {line_number}: not a round: {error}", path.display()), NEW_HINT)
    })?;
    let point = |point: &PointLine| SelectedPoint {
        node: point.node,
        score: point.score.unwrap_or(f64::INFINITY),
        expected_risk_drop: point.expected_risk_drop,
    };
    Ok(RoundRecord {
        round: round.round,
        num_observed: round.num_observed,
        points: round.points.iter().map(point).collect(),
        values: round.values,
        risk: round.risk,
        seconds: round.seconds,
        network_calls: round.network_calls,
    })
}

fn io_failure(action: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::file(action, path, error, "name a folder you may write to with --out")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> LogHeader {
        LogHeader::new("ab".repeat(32), 7)
    }

    fn record(round: usize) -> RoundRecord {
        // Values whose shortest decimal form needs all 17 digits.
        let value = 0.1 + 0.2 + round as f64 / 3.0;
        let score = if round == 0 { f64::INFINITY } else { value * 1e-7 };
        let point = SelectedPoint { node: 5 + round, score, expected_risk_drop: Some(value.sqrt()) };
        let (points, values) = (vec![point], vec![Some(value)]);
        RoundRecord {
            round,
            num_observed: round,
            points,
            values,
            risk: Some(1.0 / 3.0),
            seconds: 0.25,
            network_calls: 20,
        }
    }

    #[test]
    fn rounds_read_back_are_the_same_bits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.jsonl");
        let (mut log, none) = RoundLog::open(&path, &header(), 4).unwrap();
        assert!(none.is_empty());
        (0..50).for_each(|round| log.append(&record(round)).unwrap());
        let (_, rounds) = RoundLog::open(&path, &header(), 4).unwrap();
        assert_eq!(rounds, (0..50).map(record).collect::<Vec<_>>());
    }

    #[test]
    fn every_cut_of_the_file_leaves_whole_rounds_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.jsonl");
        let (mut log, _) = RoundLog::open(&path, &header(), 4).unwrap();
        (0..3).for_each(|round| log.append(&record(round)).unwrap());
        let bytes = std::fs::read(&path).unwrap();
        for length in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let (mut log, rounds) = RoundLog::open(&path, &header(), 4).unwrap();
            let whole = bytes[..length].iter().filter(|&&byte| byte == b'\n').count().saturating_sub(1);
            assert_eq!(rounds, (0..whole).map(record).collect::<Vec<_>>(), "cut at {length}");
            (whole..3).for_each(|round| log.append(&record(round)).unwrap());
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "continued after a cut at {length}");
        }
    }

    #[test]
    fn log_of_another_run_or_with_a_broken_line_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.jsonl");
        RoundLog::open(&path, &header(), 4).unwrap();
        let other = LogHeader { seed: 8, ..header() };
        let message = RoundLog::open(&path, &other, 4).err().unwrap().to_string();
        assert!(message.contains("seed 7 instead of 8"), "{message}");
        std::fs::write(&path, serde_json::to_string(&header()).unwrap() + "\nnonsense\n").unwrap();
        let message = RoundLog::open(&path, &header(), 4).err().unwrap().to_string();
        assert!(message.contains("line 2: not a round"), "{message}");
    }
}
