//! Radial basis functions with an affine part: thin plate, or linear (biharmonic and harmonic splines).

use gpara::{Reconstruction, ReconstructionInput, Reconstructor, Result};
use serde::Deserialize;

use super::dense::solve_general;
use super::scattered::{field, mean_only, measured};
use crate::registry::ReconstructorEntry;

pub(crate) const ENTRY: ReconstructorEntry = ReconstructorEntry {
    name: "radial-basis",
    about: "thin-plate or linear radial basis functions with an affine part, through every measurement",
    build: |_, settings| {
        let settings = settings.parse("radial-basis")?;
        Ok(Box::new(RadialBasis { settings }))
    },
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RadialBasisSettings {
    kernel: Kernel,
    /// Added to the diagonal: 0 goes through every measurement.
    smoothing: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kernel {
    /// r^2 log r.
    #[default]
    ThinPlate,
    /// -r.
    Linear,
}

impl Kernel {
    fn of_squared(self, squared: f64) -> f64 {
        match self {
            Self::ThinPlate if squared == 0.0 => 0.0,
            Self::ThinPlate => 0.5 * squared * squared.ln(),
            Self::Linear => -squared.sqrt(),
        }
    }
}

struct RadialBasis {
    settings: RadialBasisSettings,
}

impl Reconstructor for RadialBasis {
    fn name(&self) -> &str {
        "radial-basis"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let points = measured("radial-basis", input, 3)?;
        let grid = input.context.grid();
        // Lengths in units of the grid, so that kernel and affine part have like sizes.
        let unit = 1.0 / grid.rows().max(grid.cols()) as f64;
        let kernel = |squared: f64| self.settings.kernel.of_squared(squared * unit * unit);
        let (count, size) = (points.len(), points.len() + 3);
        let mut matrix = vec![0.0; size * size];
        for (i, point) in points.iter().enumerate() {
            for (j, other) in points.iter().enumerate() {
                matrix[i * size + j] = kernel(point.squared_distance(other.row, other.col));
            }
            matrix[i * size + i] += self.settings.smoothing;
            for (k, affine) in [1.0, point.row * unit, point.col * unit].into_iter().enumerate() {
                matrix[i * size + count + k] = affine;
                matrix[(count + k) * size + i] = affine;
            }
        }
        let rhs = points.iter().map(|point| point.value).chain([0.0; 3]).collect();
        let weights = solve_general(matrix, rhs)?;
        let at = |row: f64, col: f64| {
            let radial = points.iter().zip(&weights).map(|(p, weight)| weight * kernel(p.squared_distance(row, col)));
            radial.sum::<f64>() + weights[count] + unit * (weights[count + 1] * row + weights[count + 2] * col)
        };
        Ok(mean_only(field(input, at)))
    }
}
