//! Inverse-distance weighting (Shepard 1968).

use gpara::{Reconstruction, ReconstructionInput, Reconstructor, Result};
use serde::Deserialize;

use super::scattered::{Measured, field, mean_only, measured};
use crate::registry::ReconstructorEntry;

pub(crate) const ENTRY: ReconstructorEntry = ReconstructorEntry {
    name: "inverse-distance",
    about: "mean of the nearest measurements, weighted by distance^-power",
    build: |_, settings| {
        let settings = settings.parse("inverse-distance")?;
        Ok(Box::new(InverseDistance { settings }))
    },
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct InverseDistanceSettings {
    power: f64,
    /// Measurements that count at each cell.
    num_neighbors: usize,
}

impl Default for InverseDistanceSettings {
    fn default() -> Self {
        Self { power: 2.0, num_neighbors: 12 }
    }
}

struct InverseDistance {
    settings: InverseDistanceSettings,
}

impl InverseDistance {
    fn at(&self, points: &[Measured], nearest: &mut Vec<(f64, f64)>, row: f64, col: f64) -> f64 {
        nearest.clear();
        nearest.extend(points.iter().map(|point| (point.squared_distance(row, col), point.value)));
        let count = self.settings.num_neighbors.clamp(1, nearest.len());
        nearest.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        if let Some(&(_, value)) = nearest[..count].iter().find(|(squared, _)| *squared == 0.0) {
            return value;
        }
        let weight = |squared: f64| squared.powf(-0.5 * self.settings.power);
        let total: f64 = nearest[..count].iter().map(|&(squared, _)| weight(squared)).sum();
        nearest[..count].iter().map(|&(squared, value)| weight(squared) * value).sum::<f64>() / total
    }
}

impl Reconstructor for InverseDistance {
    fn name(&self) -> &str {
        "inverse-distance"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let points = measured("inverse-distance", input, 1)?;
        let mut nearest = Vec::with_capacity(points.len());
        let mean = field(input, |row, col| self.at(&points, &mut nearest, row, col));
        Ok(mean_only(mean))
    }
}
