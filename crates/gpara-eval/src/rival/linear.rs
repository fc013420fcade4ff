//! Linear interpolation in the triangles of a Delaunay triangulation; outside them the nearest measurement.

use gpara::{Reconstruction, ReconstructionInput, Reconstructor, Result};
use spade::{FloatTriangulation, Point2};

use super::scattered::{field, mean_only, measured};
use super::triangulation::{nearest, triangulate};
use crate::registry::ReconstructorEntry;

pub(crate) const ENTRY: ReconstructorEntry = ReconstructorEntry {
    name: "linear",
    about: "linear in the triangles of a Delaunay triangulation, nearest outside",
    build: |_, settings| {
        settings.none("linear")?;
        Ok(Box::new(Linear))
    },
};

struct Linear;

impl Reconstructor for Linear {
    fn name(&self) -> &str {
        "linear"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let triangulation = triangulate(measured("linear", input, 1)?)?;
        let barycentric = triangulation.barycentric();
        let at = |row, col| {
            let inside = barycentric.interpolate(|vertex| vertex.data().value, Point2::new(row, col));
            inside.unwrap_or_else(|| nearest(&triangulation, row, col))
        };
        Ok(mean_only(field(input, at)))
    }
}
