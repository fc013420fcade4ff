//! The Delaunay triangulation of the measured cells.

use gpara::{ErrorDetail, ErrorKind, Result};
use spade::{DelaunayTriangulation, HasPosition, InsertionError, Point2, Triangulation};
use thiserror::Error as ThisError;

use super::scattered::Measured;

impl HasPosition for Measured {
    type Scalar = f64;

    fn position(&self) -> Point2<f64> {
        Point2::new(self.row, self.col)
    }
}

/// Triangulates the points, each at a place of its own.
pub(super) fn triangulate(points: Vec<Measured>) -> Result<DelaunayTriangulation<Measured>> {
    DelaunayTriangulation::bulk_load(points).map_err(|source| TriangulationError { source }.into())
}

/// The value of the nearest point: what interpolators answer outside the hull of the points.
pub(super) fn nearest(triangulation: &DelaunayTriangulation<Measured>, row: f64, col: f64) -> f64 {
    let vertex = triangulation.nearest_neighbor(Point2::new(row, col)).expect("there is at least one point");
    vertex.data().value
}

#[derive(Debug, ThisError)]
#[error("measured cells cannot be triangulated")]
struct TriangulationError {
    source: InsertionError,
}

impl ErrorDetail for TriangulationError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::NonFinite
    }
}
