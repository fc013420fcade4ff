//! How wide the intervals around a prediction must be: a real field has other tails than a Gaussian one.
//!
//! Measurements are predicted from others that are as far away as measurements are from the cells to be predicted, under the
//! fitted covariance. The share of them inside an interval of some width is what the interval holds; measurements as dense as
//! along a street would say nothing of the blocks between streets if their nearest neighbours were not left out too.

use gpara::{COVERAGE_LEVELS, NORMAL_INTERVALS, Observations, ValidMask};
use rayon::prelude::*;

use super::design::scrambled;
use super::fit::Fit;
use super::robust::{nearest, predict};

/// Fewer measurements than this say nothing of tails.
const FEWEST: usize = 20;

/// Measurements that are predicted at most.
const MOST_HELD: usize = 400;

/// Cells whose distance to the nearest measurement is looked at, at most.
const MOST_CELLS: usize = 2000;

/// Shares of those cells that are nearer than the distances at which measurements are left out.
const NEARER: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// A prediction from fewer others than this is not looked at.
const FEWEST_NEIGHBORS: usize = 4;

/// Cells at which the standard deviation is kept under which the intervals hold.
const NUM_REFERENCES: usize = 200;

/// Imagined measurements with the tails of a normal distribution.
const IMAGINED: f64 = 40.0;

/// Half widths of the intervals of [`COVERAGE_LEVELS`] in predicted standard deviations.
///
/// # Shapes
/// * `columns` - the columns of the drift, `num_nodes` values each
pub(super) fn interval_factors(
    observations: &Observations,
    valid: &ValidMask,
    fit: &Fit,
    columns: &[Vec<f64>],
) -> [f64; 3] {
    if observations.len() < FEWEST {
        return NORMAL_INTERVALS;
    }
    let grid = observations.grid();
    let nodes: Vec<usize> = observations.iter().map(|entry| entry.node).collect();
    let told: Vec<f64> = observations.iter().map(|entry| entry.noise_std.powi(2)).collect();
    let beside_drift = observations.iter().map(|entry| {
        entry.value - columns.iter().zip(&fit.coefficients).map(|(column, b)| b * column[entry.node]).sum::<f64>()
    });
    let values: Vec<f64> = beside_drift.collect();
    let distances = distances_to_nearest(observations, valid);
    let mut held: Vec<usize> = (0..nodes.len()).collect();
    held.sort_by_key(|&at| (scrambled(nodes[at]), nodes[at]));
    held.truncate(MOST_HELD);
    let nugget = fit.covariance.nugget_std.powi(2);
    let ratios_of = |&at: &usize| -> Vec<f64> {
        let ratio = |&distance: &f64| {
            let neighbors = nearest(grid, &nodes, at, distance);
            if neighbors.len() < FEWEST_NEIGHBORS {
                return None;
            }
            let (mean, variance) = predict(fit, grid, &nodes, &values, &fit.noise_variance, at, &neighbors)?;
            Some((values[at] - mean).abs() / (variance + nugget + told[at]).sqrt())
        };
        distances.iter().filter_map(ratio).collect()
    };
    let by_value: Vec<Vec<f64>> = held.par_iter().map(ratios_of).collect();
    let num_held = by_value.iter().filter(|ratios| !ratios.is_empty()).count();
    let mut ratios: Vec<f64> = by_value.into_iter().flatten().filter(|ratio| ratio.is_finite()).collect();
    if num_held < FEWEST {
        return NORMAL_INTERVALS;
    }
    ratios.sort_by(f64::total_cmp);
    between_normal_and(&ratios, num_held)
}

/// The standard deviation under the fitted covariance, nugget included, at cells spread over those to be predicted.
///
/// The factors above hold for it. The grid's own is larger near walls, where its field varies more than in the open.
pub(super) fn reference_stds(observations: &Observations, valid: &ValidMask, fit: &Fit) -> Vec<(usize, f64)> {
    let grid = observations.grid();
    let measured: Vec<usize> = observations.iter().map(|entry| entry.node).collect();
    let values = vec![0.0; measured.len()];
    let mut open: Vec<usize> = valid.nodes().filter(|&node| !observations.contains(node)).collect();
    open.sort_by_key(|&node| (scrambled(node), node));
    open.truncate(NUM_REFERENCES);
    let nugget = fit.covariance.nugget_std.powi(2);
    let std_at = |&node: &usize| {
        let nodes: Vec<usize> = measured.iter().copied().chain([node]).collect();
        let at = measured.len();
        let neighbors = nearest(grid, &nodes, at, 0.0);
        let (_, variance) = predict(fit, grid, &nodes, &values, &fit.noise_variance, at, &neighbors)?;
        Some((node, (variance + nugget).sqrt()))
    };
    open.par_iter().filter_map(std_at).collect()
}

/// Quantiles of sorted ratios of error to standard deviation, drawn towards those of a normal distribution.
fn between_normal_and(ratios: &[f64], num_held: usize) -> [f64; 3] {
    let share = num_held as f64 / (num_held as f64 + IMAGINED);
    let mut factors = NORMAL_INTERVALS;
    let mut least = 0.0;
    for (factor, level) in factors.iter_mut().zip(COVERAGE_LEVELS) {
        let rank = (level * ratios.len() as f64).ceil() as usize;
        let found = ratios[rank.clamp(1, ratios.len()) - 1].max(f64::MIN_POSITIVE);
        *factor = (*factor * (share * (found / *factor).ln()).exp()).max(least);
        // A wider interval is wider, whatever few ratios say.
        least = 1.001 * *factor;
    }
    factors
}

/// Distances from unmeasured cells to the nearest measurement that [`NEARER`] of these cells do not exceed; increasing.
fn distances_to_nearest(observations: &Observations, valid: &ValidMask) -> Vec<f64> {
    let grid = observations.grid();
    let open: Vec<usize> = valid.nodes().filter(|&node| !observations.contains(node)).collect();
    let places: Vec<(usize, usize)> = observations.iter().map(|entry| grid.row_col(entry.node)).collect();
    let stride = open.len().div_ceil(MOST_CELLS).max(1);
    let cells: Vec<usize> = open.into_iter().step_by(stride).collect();
    let nearest_squared = |&node: &usize| {
        let (row, col) = grid.row_col(node);
        places.iter().map(|&(r, c)| r.abs_diff(row).pow(2) + c.abs_diff(col).pow(2)).min().unwrap_or(0)
    };
    let mut squared: Vec<usize> = cells.par_iter().map(nearest_squared).collect();
    squared.sort_unstable();
    let at = |share: f64| squared.get((share * squared.len() as f64) as usize).map(|&squared| (squared as f64).sqrt());
    let mut distances: Vec<f64> = NEARER.iter().filter_map(|&share| at(share)).collect();
    distances.dedup();
    distances
}

#[cfg(test)]
mod tests {
    use gpara::{Grid, Observation, SeedTree};

    use super::*;

    #[test]
    fn ratios_of_heavier_tails_give_narrow_halves_and_wide_ends() {
        let mut stream = SeedTree::new(3).stream("tails");
        let mut draw = |heavy: bool| {
            let size = if heavy && stream.normal().abs() > 1.2 { 2.5 } else { 0.6 };
            let size = if heavy { size } else { 1.0 };
            (size * stream.normal()).abs()
        };
        let mut sorted = |heavy: bool| {
            let mut ratios: Vec<f64> = (0..20_000).map(|_| draw(heavy)).collect();
            ratios.sort_by(f64::total_cmp);
            between_normal_and(&ratios, ratios.len())
        };
        let (normal, heavy) = (sorted(false), sorted(true));
        for (found, expected) in normal.iter().zip(NORMAL_INTERVALS) {
            assert!((found / expected - 1.0).abs() < 0.03, "{normal:?}");
        }
        assert!(heavy[0] < 0.9 * NORMAL_INTERVALS[0] && heavy[2] > 1.2 * NORMAL_INTERVALS[2], "{heavy:?}");
        // Few ratios hardly move what a normal distribution says, and intervals widen whatever they are.
        let few = between_normal_and(&[1.0; 4], 4);
        assert!((few[0] / NORMAL_INTERVALS[0]).ln().abs() < 0.1 && few[0] < few[1] && few[1] < few[2], "{few:?}");
    }

    #[test]
    fn distances_are_those_of_the_cells_between_two_measured_columns() {
        let grid = Grid::new(9, 21).unwrap();
        let valid = ValidMask::all(grid);
        let mut observations = Observations::none(grid);
        let entries: Vec<Observation> = (0..9)
            .flat_map(|row| [grid.node(row, 0), grid.node(row, 20)])
            .map(|node| Observation { node, value: 0.0, noise_std: 0.1 })
            .collect();
        observations.add(&valid, &entries).unwrap();
        // Columns 1 to 19 lie 1 to 10 cells away, all but the middle one twice.
        assert_eq!(distances_to_nearest(&observations, &valid), [1.0, 3.0, 5.0, 7.0, 9.0]);
    }
}
