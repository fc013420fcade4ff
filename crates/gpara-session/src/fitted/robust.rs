//! Outliers of real measurements: their noise is taken as larger than it was told.
//!
//! Each value is compared with what the nearest others say of it, themselves already weighed; the innovation's variance v grows
//! to v / w with the weight w of its standardised size u. Student-t of nu degrees: w = (nu + 1) / (nu + u^2). Huber:
//! w = min(1, k / |u|).

use gpara::{Grid, Observations};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::fit::Fit;

/// How outliers are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Robust {
    /// Noise of Student's t distribution with four degrees of freedom.
    StudentT,
    /// Huber's weights, 95 % efficient without outliers.
    Huber,
}

const DEGREES: f64 = 4.0;
const HUBER: f64 = 1.345;

/// Neighbours a value is compared with.
const NUM_NEIGHBORS: usize = 16;

/// Rounds in which the noise of all values settles.
const NUM_ROUNDS: usize = 8;

impl Robust {
    fn weight(self, size: f64) -> f64 {
        match self {
            Self::StudentT => ((DEGREES + 1.0) / (DEGREES + size * size)).min(1.0),
            Self::Huber => (HUBER / size.abs()).min(1.0),
        }
    }
}

/// The noise variance of each measurement.
pub(super) fn inflated_noise(
    robust: Robust,
    observations: &Observations,
    told: &[f64],
    fit: &Fit,
    columns: &[Vec<f64>],
) -> Vec<f64> {
    let grid = observations.grid();
    let nodes: Vec<usize> = observations.iter().map(|entry| entry.node).collect();
    let values = beside_drift(observations, columns);
    let neighbors: Vec<Vec<usize>> =
        (0..nodes.len()).into_par_iter().map(|at| nearest(grid, &nodes, at, 0.0)).collect();
    let mut noise = fit.noise_variance.clone();
    for _ in 0..NUM_ROUNDS {
        let settled = (0..nodes.len()).into_par_iter().map(|at| {
            let predicted = predict(fit, grid, &nodes, &values, &noise, at, &neighbors[at]);
            let Some((mean, variance)) = predicted else { return told[at] };
            let own = variance + told[at] + fit.covariance.nugget_std.powi(2);
            let weight = robust.weight((values[at] - mean) / own.sqrt());
            told[at] + own * (1.0 / weight - 1.0)
        });
        noise = settled.collect();
    }
    noise
}

/// The values without what the drift's columns explain of them by least squares of absolute deviations, so that outliers do
/// not bend it: five rounds of weights 1 / |residual|.
fn beside_drift(observations: &Observations, columns: &[Vec<f64>]) -> Vec<f64> {
    let mut residual: Vec<f64> = observations.iter().map(|entry| entry.value).collect();
    let count = residual.len();
    let mut weights = vec![1.0; count];
    let size = columns.len();
    for _ in 0..5 {
        let mut system = vec![0.0; size * (size + 1)];
        for (at, entry) in observations.iter().enumerate() {
            for i in 0..size {
                let left = weights[at] * columns[i][entry.node];
                (0..size).for_each(|j| system[i * (size + 1) + j] += left * columns[j][entry.node]);
                system[i * (size + 1) + size] += left * entry.value;
            }
        }
        let coefficients = least_squares(system, size);
        for (at, entry) in observations.iter().enumerate() {
            let explained: f64 = (0..size).map(|i| coefficients[i] * columns[i][entry.node]).sum();
            residual[at] = entry.value - explained;
        }
        let mut sizes: Vec<f64> = residual.iter().map(|value| value.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let floor = (0.1 * sizes.get(count / 2).copied().unwrap_or(0.0)).max(1e-9);
        residual.iter().zip(&mut weights).for_each(|(value, weight)| *weight = 1.0 / value.abs().max(floor));
    }
    residual
}

/// Solves a symmetric system with a small ridge; a column that repeats others gets a share of 0.
pub(super) fn least_squares(mut system: Vec<f64>, size: usize) -> Vec<f64> {
    let width = size + 1;
    for k in 0..size {
        let pivot = system[k * width + k] * (1.0 + 1e-9) + 1e-12;
        system[k * width + k] = pivot;
        for i in (0..size).filter(|&i| i != k) {
            let factor = system[i * width + k] / pivot;
            (k..width).for_each(|j| system[i * width + j] -= factor * system[k * width + j]);
        }
    }
    (0..size).map(|i| system[i * width + size] / system[i * width + i]).collect()
}

/// The nearest other measurements that are at least `distance` away.
pub(super) fn nearest(grid: Grid, nodes: &[usize], at: usize, distance: f64) -> Vec<usize> {
    let (row, col) = grid.row_col(nodes[at]);
    let squared = |other: usize| {
        let (r, c) = grid.row_col(nodes[other]);
        r.abs_diff(row).pow(2) + c.abs_diff(col).pow(2)
    };
    let mut others: Vec<(usize, usize)> =
        (0..nodes.len()).filter(|&other| other != at).map(|other| (squared(other), other)).collect();
    others.retain(|&(squared, _)| squared as f64 >= distance * distance);
    if others.len() > NUM_NEIGHBORS {
        others.select_nth_unstable(NUM_NEIGHBORS);
        others.truncate(NUM_NEIGHBORS);
    }
    others.sort_unstable();
    others.into_iter().map(|(_, other)| other).collect()
}

/// Mean and variance of the smooth field at one measurement from its neighbours; `None` without neighbours or where their
/// covariance is not positive definite in rounding.
pub(super) fn predict(
    fit: &Fit,
    grid: Grid,
    nodes: &[usize],
    values: &[f64],
    noise: &[f64],
    at: usize,
    neighbors: &[usize],
) -> Option<(f64, f64)> {
    let (shape, variance) = (fit.shape, fit.covariance.std.powi(2));
    let (inverse_length, nugget) = (shape.inverse_length(fit.covariance.range), fit.covariance.nugget_std.powi(2));
    let between = |first: usize, second: usize| {
        let ((a, b), (c, d)) = (grid.row_col(nodes[first]), grid.row_col(nodes[second]));
        let distance = (a as f64 - c as f64).hypot(b as f64 - d as f64);
        variance * shape.correlation(distance * inverse_length)
    };
    let size = neighbors.len();
    if size == 0 {
        return None;
    }
    let mut lower = vec![0.0; size * size];
    let (mut left, mut right) = (vec![0.0; size], vec![0.0; size]);
    for i in 0..size {
        for j in 0..=i {
            let done: f64 = (0..j).map(|k| lower[i * size + k] * lower[j * size + k]).sum();
            if i == j {
                let pivot = variance * (1.0 + 1e-9) + nugget + noise[neighbors[i]] - done;
                if pivot.is_nan() || pivot <= 0.0 {
                    return None;
                }
                lower[i * size + i] = pivot.sqrt();
            } else {
                lower[i * size + j] = (between(neighbors[i], neighbors[j]) - done) / lower[j * size + j];
            }
        }
        let forward = |value: f64, solved: &[f64]| {
            let done: f64 = (0..i).map(|k| lower[i * size + k] * solved[k]).sum();
            (value - done) / lower[i * size + i]
        };
        left[i] = forward(between(at, neighbors[i]), &left);
        right[i] = forward(values[neighbors[i]], &right);
    }
    let mean = left.iter().zip(&right).map(|(a, b)| a * b).sum();
    let explained: f64 = left.iter().map(|a| a * a).sum();
    Some((mean, (variance - explained).max(0.0)))
}
