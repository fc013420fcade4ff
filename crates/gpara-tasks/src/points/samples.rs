//! Rows of a point file, checked one by one, before anyone knows their cells.

use std::path::{Path, PathBuf};

use gpara::Result;

use super::columns::{Content, FoundColumns, PointColumns, Role};
use super::error::PointError;
use super::{geojson, table};
use crate::field::read_file;

/// Where a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Position {
    /// A cell of the grid.
    Cell {
        /// 0-based row.
        row: usize,
        /// 0-based column.
        col: usize,
    },
    /// World coordinates.
    World {
        /// To the right, in a map to the east.
        x: f64,
        /// As the grid's georeference has it.
        y: f64,
    },
    /// Degrees on WGS 84.
    LatLon {
        /// Latitude.
        lat: f64,
        /// Longitude.
        lon: f64,
    },
}

/// One good row of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Line of a text, number of a Parquet row or of a GeoJSON feature; 1-based.
    pub line: u64,
    /// Where it was taken.
    pub position: Position,
    /// Its value in the file's unit.
    pub value: f64,
    /// Standard deviation of its noise, if the file or the reader's rules give one.
    pub sigma: Option<f64>,
}

/// A row that is not a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// Line of a text, number of a Parquet row or of a GeoJSON feature; 1-based.
    pub line: u64,
    /// What is wrong, the value, what is allowed.
    pub reason: String,
}

/// What a value must be like.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SampleRules {
    /// Whether zero and negative values are refused, as for depths, where 0 means missing.
    pub positive_only: bool,
    /// Sigma of rows that have none.
    pub default_sigma: Option<f64>,
}

/// The rows of a file, good and refused ones.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRows {
    pub(super) path: PathBuf,
    /// What the file's numbers count: `line`, `row` or `feature`.
    pub(super) item: &'static str,
    /// The good rows in the order of the file.
    pub samples: Vec<Sample>,
    /// The refused rows in the order of the file.
    pub refused: Vec<RefusedRow>,
}

impl SampleRows {
    /// Reads `.csv`, `.tsv`, `.txt`, `.geojson`, `.json` or, with the feature `parquet`, `.parquet`.
    ///
    /// Texts may have a byte order mark, CRLF, commas, semicolons or tabulators, and decimal commas between the latter two.
    ///
    /// # Errors
    /// `Io` if the file cannot be read; `InvalidInput` if a column is missing (named), twice there, or the file is damaged;
    /// `Unsupported` for Parquet in a build without it. What is wrong with single rows is in the result.
    pub fn read(path: &Path, columns: &PointColumns, rules: SampleRules) -> Result<Self> {
        Ending::of(path)?;
        Self::decode(&read_file(path)?, path, columns, rules)
    }

    /// Decodes the bytes of a file; the end of `path` tells the format.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn decode(bytes: &[u8], path: &Path, columns: &PointColumns, rules: SampleRules) -> Result<Self> {
        Self::decode_content(bytes, path, columns, rules, Content::Samples)
    }

    /// The places of a file that need not have values; each sample has the value 0.
    pub(super) fn decode_places(bytes: &[u8], path: &Path, columns: &PointColumns) -> Result<Self> {
        Self::decode_content(bytes, path, columns, SampleRules::default(), Content::Places)
    }

    fn decode_content(
        bytes: &[u8],
        path: &Path,
        columns: &PointColumns,
        rules: SampleRules,
        content: Content,
    ) -> Result<Self> {
        if let Some(sigma) = rules.default_sigma.filter(|sigma| !(sigma.is_finite() && *sigma >= 0.0)) {
            return Err(PointError::Setting { name: "sigma", value: sigma, allowed: "finite and at least 0" }.into());
        }
        let ending = Ending::of(path)?;
        let mut collector = Collector {
            columns,
            rules,
            content,
            found: None,
            rows: Self { path: path.into(), item: ending.item(), samples: Vec::new(), refused: Vec::new() },
        };
        match ending {
            Ending::Text => table::read(bytes, path, &mut collector)?,
            Ending::GeoJson => geojson::read(bytes, path, &mut collector)?,
            #[cfg(feature = "parquet")]
            Ending::Parquet => super::parquet_file::read(bytes, path, &mut collector)?,
            #[cfg(not(feature = "parquet"))]
            Ending::Parquet => return Err(PointError::NoParquet { path: path.into() }.into()),
        }
        Ok(collector.rows)
    }

    /// The samples, if no row was refused: all land or none.
    ///
    /// # Errors
    /// `InvalidInput` with the first refused row and how many more there are.
    pub fn all(self) -> Result<Vec<Sample>> {
        refuse_any(&self.path, self.item, &self.refused)?;
        Ok(self.samples)
    }

    /// The good rows, and how many were left out.
    pub fn skip_invalid(self) -> (Vec<Sample>, usize) {
        (self.samples, self.refused.len())
    }
}

pub(super) fn refuse_any(path: &Path, item: &'static str, refused: &[RefusedRow]) -> Result<()> {
    let Some(RefusedRow { line, reason }) = refused.first() else { return Ok(()) };
    let (number, reason, more) = (*line, reason.clone(), refused.len() - 1);
    Err(PointError::RefusedRow { path: path.into(), item, number, reason, more }.into())
}

/// The formats of point files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Text,
    GeoJson,
    Parquet,
}

impl Ending {
    fn of(path: &Path) -> Result<Self> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("csv" | "tsv" | "txt") => Ok(Self::Text),
            Some("geojson" | "json") => Ok(Self::GeoJson),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(PointError::Ending { path: path.into() }.into()),
        }
    }

    fn item(self) -> &'static str {
        match self {
            Self::Text => "line",
            Self::GeoJson => "feature",
            Self::Parquet => "row",
        }
    }
}

/// One cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entry {
    Missing,
    Number(f64),
    Text(String),
}

/// Takes what a format reads: first the names of the columns, then the wanted entries of each row.
pub(super) struct Collector<'a> {
    columns: &'a PointColumns,
    rules: SampleRules,
    content: Content,
    found: Option<FoundColumns>,
    rows: SampleRows,
}

impl Collector<'_> {
    /// The positions of the wanted columns: two of the place, the value unless places are read, and sigma if there is one.
    pub(super) fn header(&mut self, names: &[String]) -> Result<Vec<usize>> {
        let found = self.columns.find(names, &self.rows.path, self.content)?;
        let wanted = found.place.into_iter().chain(found.value).chain(found.sigma).collect();
        self.found = Some(found);
        Ok(wanted)
    }

    /// Takes the wanted entries of one row, in the order of `header`'s answer.
    pub(super) fn row(&mut self, line: u64, entries: &[Entry]) {
        match self.sample(line, entries) {
            Ok(sample) => self.rows.samples.push(sample),
            Err(reason) => self.rows.refused.push(RefusedRow { line, reason }),
        }
    }

    /// Refuses one row as a whole.
    pub(super) fn refuse(&mut self, line: u64, reason: impl Into<String>) {
        self.rows.refused.push(RefusedRow { line, reason: reason.into() });
    }

    fn sample(&self, line: u64, entries: &[Entry]) -> Result<Sample, String> {
        let found = self.found.as_ref().expect("formats give the header before the rows");
        let [first, second, values @ ..] = entries else { return Err("it has too few values".into()) };
        let position = match found.pair {
            (Role::Row, _) => Position::Cell { row: index(first, "row")?, col: index(second, "col")? },
            (Role::X, _) => Position::World { x: finite(first, "x")?, y: finite(second, "y")? },
            _ => Position::LatLon { lat: finite(first, "latitude")?, lon: finite(second, "longitude")? },
        };
        let [value, sigma @ ..] = values else { return Ok(Sample { line, position, value: 0.0, sigma: None }) };
        let value = finite(value, "value")?;
        if self.rules.positive_only && value <= 0.0 {
            return Err(format!("value is {value}, it must be above 0 (0 means missing)"));
        }
        let sigma = match (sigma.first(), self.rules.default_sigma) {
            (None | Some(Entry::Missing), Some(default)) => Some(default),
            (None, None) => None,
            (Some(entry), _) => Some(finite(entry, "sigma")?),
        };
        if let Some(sigma) = sigma.filter(|&sigma| sigma < 0.0) {
            return Err(format!("sigma is {sigma}, it must be at least 0"));
        }
        Ok(Sample { line, position, value, sigma })
    }
}

fn finite(entry: &Entry, name: &str) -> Result<f64, String> {
    match entry {
        Entry::Number(number) if number.is_finite() => Ok(*number),
        Entry::Number(number) => Err(format!("{name} is {number}, it must be a finite number")),
        Entry::Text(text) => Err(format!("{name} is `{text}`, it must be a finite number")),
        Entry::Missing => Err(format!("{name} is missing, it must be a finite number")),
    }
}

/// A whole number from 0; spreadsheets may write it as `3.0`.
fn index(entry: &Entry, name: &str) -> Result<usize, String> {
    let number = finite(entry, name).map_err(|reason| reason.replace("a finite number", "a whole number from 0"))?;
    if number < 0.0 || number.fract() != 0.0 || number > f64::from(u32::MAX) {
        return Err(format!("{name} is {number}, it must be a whole number from 0"));
    }
    Ok(number as usize)
}
