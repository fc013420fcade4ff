//! What can be wrong with coordinates and their reference system.

use gpara::{ErrorDetail, ErrorKind, Grid};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub(super) enum GeoError {
    #[error("affine transform {coefficients:?} maps the grid onto a line or is not finite")]
    Singular { coefficients: [f64; 6] },
    #[error("point x {x}, y {y} is at row {row}, col {col}, outside the grid {grid}")]
    Outside { x: f64, y: f64, row: f64, col: f64, grid: Grid },
    #[error("coordinate system `{text}` is not known; allowed are EPSG:CODE, e.g. EPSG:32632, and local:LAT,LON")]
    UnknownCrs { text: String },
    #[error("EPSG:{code} cannot be used: {reason}")]
    Unusable { code: u32, reason: String },
    #[error("latitude {lat}, longitude {lon} is not a place: allowed are -90 to 90 and -180 to 180 degrees")]
    NoPlace { lat: f64, lon: f64 },
    #[error("latitude {lat} has no UTM zone: allowed are -80 to 84 degrees")]
    NoZone { lat: f64 },
    #[error("{what} cannot be projected with {crs}")]
    Projection { what: String, crs: String },
    #[error("points have latitude and longitude, but the grid has no coordinate system")]
    NoCrs,
    #[error("cell size {size} is not allowed: it must be positive and finite")]
    CellSize { size: f64 },
}

impl ErrorDetail for GeoError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Outside { .. } => {
                Some("a cell holds its lower edges, not its upper ones; is the unit the grid's?".into())
            }
            Self::NoPlace { .. } => Some("are latitude and longitude exchanged, or projected already?".into()),
            Self::NoCrs => {
                Some("declare the grid's coordinate system, e.g. EPSG:32632, or read it from a GeoTIFF".into())
            }
            Self::NoZone { .. } => Some("declare a polar coordinate system by its EPSG code".into()),
            _ => None,
        }
    }
}
