//! Which column of a file means what.

use std::path::Path;
use std::str::FromStr;

use gpara::{Error, Result};

use super::error::PointError;

/// What a column of a point file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// 0-based row of the grid.
    Row,
    /// 0-based column of the grid.
    Col,
    /// World coordinate.
    X,
    /// World coordinate.
    Y,
    /// Latitude in degrees on WGS 84.
    Lat,
    /// Longitude in degrees on WGS 84.
    Lon,
    /// The measured value.
    Value,
    /// Standard deviation of the value's noise.
    Sigma,
}

impl Role {
    const ALL: [Self; 8] = [Self::Row, Self::Col, Self::X, Self::Y, Self::Lat, Self::Lon, Self::Value, Self::Sigma];

    /// The usual names of such a column; the first is the one that errors name.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Row => &["row"],
            Self::Col => &["col", "column"],
            Self::X => &["x"],
            Self::Y => &["y"],
            Self::Lat => &["lat", "latitude"],
            Self::Lon => &["lon", "longitude", "lng", "long"],
            Self::Value => &["value"],
            Self::Sigma => &["sigma"],
        }
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|role| role.names()[0].eq_ignore_ascii_case(text));
        found.ok_or_else(|| PointError::Role { text: text.into() }.into())
    }
}

/// Names of the columns, where they are not the usual ones.
///
/// Usual names are `row`, `col`, `x`, `y`, `lat` (`latitude`), `lon` (`longitude`, `lng`, `long`), `value` and `sigma`, in
/// upper or lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PointColumns {
    given: Vec<(Role, String)>,
}

/// What is read from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Measurements: a place, a value, perhaps sigma.
    Samples,
    /// Places alone, such as candidates.
    Places,
}

/// Two columns that tell where a point is.
pub(super) type Pair = (Role, Role);

/// In the order in which they are used if a file has more than one.
const PAIRS: [Pair; 3] = [(Role::Row, Role::Col), (Role::X, Role::Y), (Role::Lat, Role::Lon)];

/// Where the columns of one file are.
pub(super) struct FoundColumns {
    pub(super) pair: Pair,
    /// Of the first and second column of the pair.
    pub(super) place: [usize; 2],
    /// None if only places are read.
    pub(super) value: Option<usize>,
    pub(super) sigma: Option<usize>,
}

impl PointColumns {
    /// The same with `name` for the column of a role.
    pub fn with(mut self, role: Role, name: impl Into<String>) -> Self {
        self.given.retain(|(given, _)| *given != role);
        self.given.push((role, name.into()));
        self
    }

    fn given(&self, role: Role) -> Option<&str> {
        self.given.iter().find(|(given, _)| *given == role).map(|(_, name)| name.as_str())
    }

    /// Finds the columns in a header: a pair that was named by hand, or else the first whole pair.
    pub(super) fn find(&self, header: &[String], path: &Path, content: Content) -> Result<FoundColumns> {
        let missing = |role: Role| {
            let found = header.iter().map(|column| format!("`{column}`")).collect::<Vec<_>>().join(", ");
            let column = self.given(role).unwrap_or(role.names()[0]).to_string();
            PointError::NoColumn { path: path.into(), column, found }
        };
        let need =
            |role: Role| -> Result<usize> { self.position(role, header, path)?.ok_or_else(|| missing(role).into()) };
        let by_hand = |pair: &Pair| self.given(pair.0).is_some() || self.given(pair.1).is_some();
        let has = |role: Role| self.position(role, header, path).is_ok_and(|found| found.is_some());
        let pair = PAIRS.into_iter().find(by_hand);
        let pair = pair.or_else(|| PAIRS.into_iter().find(|pair| has(pair.0) && has(pair.1)));
        // A file with half a pair misses the other half.
        let pair = pair.or_else(|| PAIRS.into_iter().find(|pair| has(pair.0) || has(pair.1))).unwrap_or(PAIRS[0]);
        let place = [need(pair.0)?, need(pair.1)?];
        if content == Content::Places {
            return Ok(FoundColumns { pair, place, value: None, sigma: None });
        }
        let value = Some(need(Role::Value)?);
        let sigma = match self.given(Role::Sigma) {
            Some(_) => Some(need(Role::Sigma)?),
            None => self.position(Role::Sigma, header, path)?,
        };
        Ok(FoundColumns { pair, place, value, sigma })
    }

    /// The position of a column, by the name given by hand or the usual ones.
    fn position(&self, role: Role, header: &[String], path: &Path) -> Result<Option<usize>> {
        let usual = role.names();
        let names: Vec<&str> = self.given(role).map_or_else(|| usual.to_vec(), |name| vec![name]);
        for name in names {
            // A name in the same case wins: `RSRP` and `rsrp` may both be there.
            let exact: Vec<usize> = (0..header.len()).filter(|&at| header[at] == name).collect();
            let folded = (0..header.len()).filter(|&at| header[at].eq_ignore_ascii_case(name));
            let found = if exact.is_empty() { folded.collect() } else { exact };
            match found[..] {
                [] => {}
                [position] => return Ok(Some(position)),
                [..] => return Err(PointError::TwoColumns { path: path.into(), column: name.into() }.into()),
            }
        }
        Ok(None)
    }
}
