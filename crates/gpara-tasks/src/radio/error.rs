//! What can be wrong with a radio scene or a folder of radio maps.

use std::path::PathBuf;

use gpara::{ErrorDetail, ErrorKind, Grid};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(super) enum RadioError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is 16-bit gray, radio maps and building masks are 8-bit gray", path.display())]
    NotGray8 { path: PathBuf },
    #[error("{} is not as expected: {reason}", path.display())]
    Json { path: PathBuf, reason: String },
    #[error("radio map `{id}` is not of the form MAP_TRANSMITTER, e.g. 12_0")]
    Id { id: String },
    #[error("map {map} has {count} transmitters, transmitter {transmitter} is asked for")]
    NoTransmitter { map: String, transmitter: usize, count: usize },
    #[error("gain map is {gain}, its buildings are {buildings}")]
    GainSize { gain: Grid, buildings: Grid },
    #[error("{} holds the value {value} at row {row}, col {col}; only 0 (outdoors) and 255 (building) are allowed", path.display())]
    MaskValue { path: PathBuf, value: u8, row: usize, col: usize },
    #[error("building mask has {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    MaskLength { grid: Grid, found: usize },
    #[error("transmitter (row {row}, col {col}) is outside the grid {grid}")]
    TransmitterOutside { row: usize, col: usize, grid: Grid },
    #[error("transmitter (row {row}, col {col}) is inside a building, it must stand outdoors")]
    TransmitterInBuilding { row: usize, col: usize },
    #[error("size {grid} cannot be halved: both sides must be even")]
    OddSize { grid: Grid },
    #[error("meters per pixel is {value}, it must be a positive finite number")]
    MetersPerPixel { value: f64 },
    #[error("sample scene {index} does not exist, there are scenes 0..={last}")]
    NoSampleScene { index: usize, last: usize },
}

impl ErrorDetail for RadioError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Read { .. } => ErrorKind::Io,
            Self::GainSize { .. } | Self::MaskLength { .. } => ErrorKind::ShapeMismatch,
            Self::NotGray8 { .. }
            | Self::Json { .. }
            | Self::Id { .. }
            | Self::NoTransmitter { .. }
            | Self::MaskValue { .. }
            | Self::TransmitterOutside { .. }
            | Self::TransmitterInBuilding { .. }
            | Self::OddSize { .. }
            | Self::MetersPerPixel { .. }
            | Self::NoSampleScene { .. } => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::TransmitterInBuilding { .. } => {
                Some("move it to the nearest outdoor cell; is the building mask inverted?".into())
            }
            Self::TransmitterOutside { .. } => Some("positions are 0-based, x = column, y = row".into()),
            Self::OddSize { .. } => Some("crop or pad one row or column".into()),
            _ => None,
        }
    }
}
