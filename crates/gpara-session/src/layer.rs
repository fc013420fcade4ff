//! Maps as bytes in the session file: one byte a cell for flags, a little-endian f64 for numbers.

use std::path::Path;

use gpara::{Grid, Result};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::SessionError;
use crate::scene::Layers;

/// In front of the name of a map that a drift names.
const CHANNEL: &str = "channel:";

/// Name of the picture of a depth scene.
const PICTURE: &str = "picture";

/// In front of the number of a map of the prior.
const MAP: &str = "map:";

/// Stores every layer that is there; `pixels` is the grid of the buildings, `cells` of everything else.
pub(crate) fn store(connection: &Connection, layers: &Layers, pixels: Grid, cells: Grid) -> rusqlite::Result<()> {
    let flags = [
        ("valid", cells, &layers.valid),
        ("buildings", pixels, &layers.buildings),
        ("candidates", cells, &layers.candidates),
        ("forbidden", cells, &layers.forbidden),
    ];
    for (name, grid, layer) in flags {
        if let Some(layer) = layer {
            let content: Vec<u8> = layer.iter().map(|&flag| u8::from(flag)).collect();
            insert(connection, name, grid, "u8", &content)?;
        }
    }
    for (name, layer) in [("importance", &layers.importance), ("cost", &layers.cost), ("guide", &layers.guide)] {
        if let Some(layer) = layer {
            insert(connection, name, cells, "f64", &bytes_of(layer))?;
        }
    }
    if let Some(picture) = &layers.picture {
        insert(connection, PICTURE, cells, "u8", picture.as_flattened())?;
    }
    for (at, map) in layers.maps.iter().enumerate() {
        insert(connection, &format!("{MAP}{at:04}"), cells, "f64", &bytes_of(map))?;
    }
    for (name, map) in &layers.channels {
        insert(connection, &format!("{CHANNEL}{name}"), cells, "f64", &bytes_of(map))?;
    }
    Ok(())
}

fn insert(connection: &Connection, name: &str, grid: Grid, kind: &str, content: &[u8]) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare_cached("INSERT INTO layer (name, rows, cols, kind, content) VALUES (?, ?, ?, ?, ?)")?;
    statement.execute(params![name, grid.rows(), grid.cols(), kind, content]).map(|_| ())
}

/// Reads every layer back.
pub(crate) fn load(connection: &Connection, path: &Path) -> Result<Layers> {
    let flags = |name| -> Result<Option<Vec<bool>>> {
        Ok(content(connection, path, name)?.map(|bytes| bytes.into_iter().map(|byte| byte != 0).collect()))
    };
    let numbers = |name| -> Result<Option<Vec<f64>>> {
        content(connection, path, name)?.map(|bytes| numbers_of(&bytes, path)).transpose()
    };
    Ok(Layers {
        valid: flags("valid")?,
        buildings: flags("buildings")?,
        candidates: flags("candidates")?,
        forbidden: flags("forbidden")?,
        importance: numbers("importance")?,
        cost: numbers("cost")?,
        guide: numbers("guide")?,
        channels: named(connection, path, CHANNEL)?,
        picture: content(connection, path, PICTURE)?.map(|bytes| pixels_of(&bytes, path)).transpose()?,
        maps: named(connection, path, MAP)?.into_iter().map(|(_, map)| map).collect(),
    })
}

/// The maps whose name begins with `prefix`, ordered by the rest of their names.
fn named(connection: &Connection, path: &Path, prefix: &str) -> Result<Vec<(String, Vec<f64>)>> {
    let failure = |source| SessionError::Database { action: "read", path: path.into(), source };
    let query = "SELECT name, content FROM layer WHERE name LIKE ? || '%' ORDER BY name";
    let mut statement = connection.prepare(query).map_err(failure)?;
    let rows = statement.query_map([prefix], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failure)?;
    rows.map(|row| {
        let (name, content): (String, Vec<u8>) = row.map_err(failure)?;
        Ok((name[prefix.len()..].to_owned(), numbers_of(&content, path)?))
    })
    .collect()
}

fn content(connection: &Connection, path: &Path, name: &str) -> Result<Option<Vec<u8>>> {
    let read = connection.query_row("SELECT content FROM layer WHERE name = ?", [name], |row| row.get(0)).optional();
    read.map_err(|source| SessionError::Database { action: "read", path: path.into(), source }.into())
}

/// Three bytes a pixel.
fn pixels_of(bytes: &[u8], path: &Path) -> Result<Vec<[u8; 3]>> {
    let (pixels, rest) = bytes.as_chunks::<3>();
    if !rest.is_empty() {
        let what = format!("a picture of {} bytes is not a whole number of pixels", bytes.len());
        return Err(SessionError::Damaged { path: path.into(), what }.into());
    }
    Ok(pixels.to_vec())
}

/// Little-endian bytes of numbers.
pub(crate) fn bytes_of(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Numbers from little-endian bytes.
///
/// # Errors
/// `Incompatible` if the bytes are not a whole number of numbers.
pub(crate) fn numbers_of(bytes: &[u8], path: &Path) -> Result<Vec<f64>> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        let what = format!("a map of {} bytes is not a whole number of values", bytes.len());
        return Err(SessionError::Damaged { path: path.into(), what }.into());
    }
    Ok(numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
}
