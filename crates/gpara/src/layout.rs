//! How measured cells lie, in two numbers: how dense they are and how evenly they are spread.

use crate::grid::ValidMask;
use crate::observations::Observations;

/// Mean distance of measured cells, in cells: `sqrt(num_valid / (num_measured + 1))`.
pub fn measurement_spacing(num_valid: usize, num_measured: usize) -> f64 {
    (num_valid as f64 / (num_measured as f64 + 1.0)).sqrt()
}

/// Most cells whose distance to the nearest measurement is looked up: the mean of so many is right to about 1 %, and a large grid
/// with many measurements costs no more than a small one.
const SAMPLED_CELLS: usize = 4096;

/// Dispersion of a Poisson process in the plane, the mean distance from a place to its nearest point times the root of their density.
pub const POISSON_DISPERSION: f64 = 0.5;

/// A layout of measurements, as far as a [`Calibration`](crate::Calibration) looks at it.
///
/// Points that a policy crowds where the field is hard leave the rest of the field farther from its nearest point than points spread
/// evenly at the same density do, and the errors there have other tails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasurementLayout {
    /// [`measurement_spacing`], in cells.
    pub spacing: f64,
    /// Mean distance from a valid cell to the nearest measured one, over `spacing`: about .38 for a hexagonal lattice, .5 for
    /// random points, more where points crowd. [`POISSON_DISPERSION`] without measurements.
    pub dispersion: f64,
}

impl MeasurementLayout {
    /// The layout of `observations` among the valid cells. Distances are straight lines, through invalid cells too.
    pub fn of(valid: &ValidMask, observations: &Observations) -> Self {
        let spacing = measurement_spacing(valid.num_valid(), observations.len());
        if observations.is_empty() {
            return Self { spacing, dispersion: POISSON_DISPERSION };
        }
        let grid = valid.grid();
        let measured: Vec<(usize, usize)> =
            observations.iter().map(|observation| grid.row_col(observation.node)).collect();
        let cells: Vec<usize> = valid.nodes().collect();
        let count = cells.len().min(SAMPLED_CELLS);
        let total: f64 = (0..count)
            .map(|at| {
                let cell = grid.row_col(cells[sampled(at, count, cells.len())]);
                let squared = measured.iter().map(|&place| squared_distance(cell, place)).min();
                (squared.expect("there are measurements") as f64).sqrt()
            })
            .sum();
        Self { spacing, dispersion: total / count as f64 / spacing }
    }
}

/// Squared distance of two cells, each a row and a column.
pub(crate) fn squared_distance(one: (usize, usize), other: (usize, usize)) -> usize {
    one.0.abs_diff(other.0).pow(2) + one.1.abs_diff(other.1).pow(2)
}

/// The `at`-th of `count` cells among `total`: all of them, or a sequence of the golden ratio, which no width of the grid is in
/// step with.
fn sampled(at: usize, count: usize, total: usize) -> usize {
    if count == total {
        return at;
    }
    let share = (at as f64 * 0.618_033_988_749_894_9).fract();
    ((share * total as f64) as usize).min(total - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::grid::Grid;
    use crate::observations::Observation;
    use crate::seed::SeedTree;

    fn layout(grid: Grid, nodes: impl Iterator<Item = usize>) -> MeasurementLayout {
        let context = Context::empty(grid);
        let mut observations = Observations::none(grid);
        let batch: Vec<Observation> = nodes.map(|node| Observation { node, value: 0.0, noise_std: 0.0 }).collect();
        observations.add(context.valid(), &batch).unwrap();
        MeasurementLayout::of(context.valid(), &observations)
    }

    #[test]
    fn one_point_at_the_end_of_a_line_has_the_mean_distance_of_that_line() {
        // Distances 0, 1, ..., 9 have the mean 4.5; the spacing is sqrt(10 / 2).
        let found = layout(Grid::new(1, 10).unwrap(), std::iter::once(0));
        assert!((found.dispersion - 4.5 / 5.0f64.sqrt()).abs() < 1e-12, "{found:?}");
        assert_eq!(found.spacing, 5.0f64.sqrt());
    }

    #[test]
    fn theory_lattice_random_and_crowded_points_have_their_dispersions() {
        let grid = Grid::new(160, 160).unwrap();
        // The mean distance to the nearest point of a square lattice is (sqrt(2) + ln(1 + sqrt(2))) / 6 = .3826 of its side.
        let lattice = layout(grid, (0..400).map(|at| (4 + 8 * (at / 20)) * 160 + 4 + 8 * (at % 20)));
        assert!((lattice.dispersion - 0.3826).abs() < 0.02, "{lattice:?}");
        let mut stream = SeedTree::new(3).stream("points");
        let mut random: Vec<usize> = (0..400).map(|_| stream.index(25_600)).collect();
        random.sort_unstable();
        random.dedup();
        let random = layout(grid, random.into_iter());
        // Borders add a little to 1 / 2.
        assert!((random.dispersion - 0.52).abs() < 0.04, "{random:?}");
        let crowded = layout(grid, (0..400).map(|at| (at / 20) * 160 + at % 20));
        assert!(crowded.dispersion > 5.0, "{crowded:?}");
    }

    #[test]
    fn without_measurements_the_dispersion_is_that_of_random_points() {
        let found = layout(Grid::new(3, 3).unwrap(), std::iter::empty());
        assert_eq!(found, MeasurementLayout { spacing: 3.0, dispersion: POISSON_DISPERSION });
    }
}
