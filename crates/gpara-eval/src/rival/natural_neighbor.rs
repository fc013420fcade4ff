//! Natural-neighbour interpolation (Sibson 1981); outside the hull of the points the nearest measurement.

use gpara::{Reconstruction, ReconstructionInput, Reconstructor, Result};
use spade::Point2;

use super::scattered::{field, mean_only, measured};
use super::triangulation::{nearest, triangulate};
use crate::registry::ReconstructorEntry;

pub(crate) const ENTRY: ReconstructorEntry = ReconstructorEntry {
    name: "natural-neighbor",
    about: "weights are the areas that a cell would take from its neighbours' Voronoi cells, nearest outside",
    build: |_, settings| {
        settings.none("natural-neighbor")?;
        Ok(Box::new(NaturalNeighbor))
    },
};

struct NaturalNeighbor;

impl Reconstructor for NaturalNeighbor {
    fn name(&self) -> &str {
        "natural-neighbor"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let triangulation = triangulate(measured("natural-neighbor", input, 1)?)?;
        let natural = triangulation.natural_neighbor();
        let at = |row, col| {
            let inside = natural.interpolate(|vertex| vertex.data().value, Point2::new(row, col));
            inside.unwrap_or_else(|| nearest(&triangulation, row, col))
        };
        Ok(mean_only(field(input, at)))
    }
}
