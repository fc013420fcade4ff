//! GeoJSON (RFC 7946): a feature collection of points, values in the properties.

use std::collections::BTreeSet;
use std::path::Path;

use gpara::Result;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::PointError;
use super::samples::{Collector, Entry};

/// What the coordinates of a file are; a member that only files of ours have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Coordinates {
    /// Longitude and latitude, as the standard demands.
    #[default]
    LonLat,
    /// World coordinates of a grid without a place on Earth.
    XY,
}

impl Coordinates {
    /// The name in the file.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LonLat => "lon_lat",
            Self::XY => "x_y",
        }
    }

    fn columns(self) -> [&'static str; 2] {
        match self {
            Self::LonLat => ["lon", "lat"],
            Self::XY => ["x", "y"],
        }
    }
}

#[derive(Deserialize)]
struct Collection {
    r#type: String,
    #[serde(default)]
    coordinates: Coordinates,
    features: Vec<Feature>,
}

#[derive(Deserialize)]
struct Feature {
    geometry: Option<Geometry>,
    properties: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Geometry {
    r#type: String,
    #[serde(default)]
    coordinates: Value,
}

/// Reads the features; their properties are columns, and so are the coordinates of their points.
pub(super) fn read(bytes: &[u8], path: &Path, collector: &mut Collector<'_>) -> Result<()> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let collection: Collection =
        serde_json::from_slice(bytes).map_err(|error| PointError::content(path, format!("not a GeoJSON ({error})")))?;
    if collection.r#type != "FeatureCollection" {
        let reason = format!("it is a `{}`, a FeatureCollection of points is needed", collection.r#type);
        return Err(PointError::content(path, reason).into());
    }
    let own = collection.coordinates.columns();
    let properties = collection.features.iter().filter_map(|feature| feature.properties.as_ref());
    let others: BTreeSet<&String> =
        properties.flat_map(Map::keys).filter(|name| !own.contains(&name.as_str())).collect();
    let names: Vec<String> = own.into_iter().map(String::from).chain(others.into_iter().cloned()).collect();
    let wanted = collector.header(&names)?;
    for (number, feature) in (1..).zip(&collection.features) {
        let point = match &feature.geometry {
            None => [Entry::Missing, Entry::Missing],
            Some(geometry) if geometry.r#type == "Point" => [0, 1].map(|axis| entry(geometry.coordinates.get(axis))),
            Some(geometry) => {
                collector.refuse(number, format!("its geometry is a `{}`, it must be a Point", geometry.r#type));
                continue;
            }
        };
        let of_column = |&column: &usize| match point.get(column) {
            Some(coordinate) => coordinate.clone(),
            None => entry(feature.properties.as_ref().and_then(|properties| properties.get(&names[column]))),
        };
        let entries: Vec<Entry> = wanted.iter().map(of_column).collect();
        collector.row(number, &entries);
    }
    Ok(())
}

fn entry(value: Option<&Value>) -> Entry {
    match value {
        None | Some(Value::Null) => Entry::Missing,
        Some(Value::Number(number)) => number.as_f64().map_or(Entry::Missing, Entry::Number),
        Some(Value::String(text)) if text.trim().is_empty() => Entry::Missing,
        Some(Value::String(text)) => text.trim().parse().map_or_else(|_| Entry::Text(text.clone()), Entry::Number),
        Some(other) => Entry::Text(other.to_string()),
    }
}
