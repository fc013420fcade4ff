//! The likelihood of the measurements under a Matern field, with drift and nugget, of the nearest neighbours (Vecchia).

use gpara::Observations;
use rayon::prelude::*;

use super::design::{Design, Term};
use super::matern::Shape;
use super::robust::least_squares;

/// What is fitted: the covariance of the field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Covariance {
    /// Distance in cells at which about a tenth of the correlation is left.
    pub(crate) range: f64,
    /// Standard deviation of the smooth field, normalised.
    pub(crate) std: f64,
    /// Standard deviation of what varies from cell to cell, normalised.
    pub(crate) nugget_std: f64,
}

/// The measurements as a likelihood reads them.
#[derive(Debug)]
pub(super) struct Likelihood<'a> {
    pub(super) shape: Shape,
    pub(super) design: &'a Design,
    /// Value and noise variance of each measurement, without the nugget.
    pub(super) values: Vec<(f64, f64)>,
    /// The drift's columns at each measurement, `num_columns` values each.
    pub(super) columns: Vec<f64>,
    /// Prior precision of each coefficient; 0 = flat.
    pub(super) precisions: Vec<f64>,
}

/// What one factor adds: log of its standard deviation, the whitened value and the whitened columns.
struct Whitened {
    log_std: f64,
    row: Vec<f64>,
}

/// Log-determinant and squares of the whitened values, and the normal equations `gram b = cross` of the drift.
struct NormalEquations {
    log_det: f64,
    squares: f64,
    gram: Vec<f64>,
    cross: Vec<f64>,
}

impl<'a> Likelihood<'a> {
    /// The likelihood of `observations`, whose noise may be replaced by `noise_variance`.
    pub(super) fn new(
        shape: Shape,
        design: &'a Design,
        observations: &Observations,
        noise_variance: &[f64],
        drift: (&[Vec<f64>], &[f64]),
    ) -> Self {
        let values = observations.iter().zip(noise_variance).map(|(entry, noise)| (entry.value, *noise)).collect();
        let columns = observations.iter().flat_map(|entry| drift.0.iter().map(move |column| column[entry.node]));
        Self { shape, design, values, columns: columns.collect(), precisions: drift.1.to_vec() }
    }

    /// log p(y), flat coefficients integrated out by the restricted likelihood, up to a constant; minus infinity where the
    /// covariance is not positive definite in rounding.
    pub(super) fn log_density(&self, covariance: &Covariance) -> f64 {
        let Some(NormalEquations { log_det, squares, gram, cross }) = self.normal_equations(covariance) else {
            return f64::NEG_INFINITY;
        };
        let Some((log_det_drift, explained)) = solve_small(gram, cross) else { return f64::NEG_INFINITY };
        -0.5 * (log_det + squares - explained + log_det_drift)
    }

    /// The drift's coefficients; 0 where they cannot be told.
    pub(super) fn coefficients(&self, covariance: &Covariance) -> Vec<f64> {
        let size = self.precisions.len();
        let Some(NormalEquations { gram, cross, .. }) = self.normal_equations(covariance) else {
            return vec![0.0; size];
        };
        let rows = gram.chunks(size).zip(&cross).flat_map(|(row, right)| row.iter().copied().chain([*right]));
        least_squares(rows.collect(), size)
    }

    fn normal_equations(&self, covariance: &Covariance) -> Option<NormalEquations> {
        let inverse_length = self.shape.inverse_length(covariance.range);
        let variance = covariance.std * covariance.std;
        let table: Vec<f64> =
            self.design.distances.iter().map(|d| variance * self.shape.correlation(d * inverse_length)).collect();
        let whitened: Option<Vec<Whitened>> =
            self.design.terms.par_iter().map(|term| self.whiten(term, &table, covariance)).collect();

        let size = self.precisions.len();
        let (mut log_det, mut squares, mut cross, mut gram) = (0.0, 0.0, vec![0.0; size], vec![0.0; size * size]);
        for Whitened { log_std, row } in &whitened? {
            log_det += 2.0 * log_std;
            squares += row[0] * row[0];
            for i in 0..size {
                cross[i] += row[1 + i] * row[0];
                (0..size).for_each(|j| gram[i * size + j] += row[1 + i] * row[1 + j]);
            }
        }
        let weight = self.design.weight;
        gram.iter_mut().chain(&mut cross).for_each(|entry| *entry *= weight);
        (0..size).for_each(|i| gram[i * size + i] += self.precisions[i]);
        Some(NormalEquations { log_det: weight * log_det, squares: weight * squares, gram, cross })
    }

    /// The value and the columns of a factor given those it is conditioned on, over their standard deviation.
    fn whiten(&self, term: &Term, table: &[f64], covariance: &Covariance) -> Option<Whitened> {
        let (size, width) = (term.members.len(), 1 + self.precisions.len());
        let own = covariance.std.powi(2) * (1.0 + JITTER) + covariance.nugget_std.powi(2);
        let mut lower = vec![0.0; size * size];
        let mut whitened = vec![0.0; size * width];
        let mut pairs = term.pairs.iter();
        for (i, &member) in term.members.iter().enumerate() {
            for j in 0..i {
                let done: f64 = (0..j).map(|k| lower[i * size + k] * lower[j * size + k]).sum();
                let pair = *pairs.next().expect("a factor has the distance of each of its pairs") as usize;
                lower[i * size + j] = (table[pair] - done) / lower[j * size + j];
            }
            let done: f64 = lower[i * size..i * size + i].iter().map(|entry| entry * entry).sum();
            let pivot = own + self.values[member].1 - done;
            if pivot.is_nan() || pivot <= 0.0 {
                return None;
            }
            lower[i * size + i] = pivot.sqrt();
            for at in 0..width {
                let value = match at {
                    0 => self.values[member].0,
                    _ => self.columns[member * (width - 1) + at - 1],
                };
                let done: f64 = (0..i).map(|k| lower[i * size + k] * whitened[k * width + at]).sum();
                whitened[i * width + at] = (value - done) / lower[i * size + i];
            }
        }
        let log_std = lower[size * size - 1].ln();
        Some(Whitened { log_std, row: whitened.split_off((size - 1) * width) })
    }
}

/// Added to the smooth variance, so that close cells of a very smooth field stay positive definite in rounding.
const JITTER: f64 = 1e-9;

/// log det M and b' M^-1 b of a small symmetric matrix; `None` unless it is positive definite.
fn solve_small(mut matrix: Vec<f64>, mut rhs: Vec<f64>) -> Option<(f64, f64)> {
    let size = rhs.len();
    let (mut log_det, mut explained) = (0.0, 0.0);
    for k in 0..size {
        let pivot = matrix[k * size + k];
        if pivot.is_nan() || pivot <= 0.0 {
            return None;
        }
        log_det += pivot.ln();
        explained += rhs[k] * rhs[k] / pivot;
        for i in k + 1..size {
            let factor = matrix[i * size + k] / pivot;
            rhs[i] -= factor * rhs[k];
            (k..size).for_each(|j| matrix[i * size + j] -= factor * matrix[k * size + j]);
        }
    }
    Some((log_det, explained))
}

#[cfg(test)]
mod tests {
    use gpara::{Drift, Grid, Observation, Posterior, ResidualPrecision, ValidMask, log_marginal_likelihood};

    use super::super::matern::GridPrecision;
    use super::*;

    #[test]
    fn few_values_have_the_exact_likelihood_of_the_grids_model() {
        // Fewer values than neighbours: nothing is approximated but the grid's border.
        let grid = Grid::new(61, 61).unwrap();
        let (valid, mut seen) = (ValidMask::all(grid), Observations::none(grid));
        let entries: Vec<Observation> = (0..12)
            .map(|k| Observation {
                node: grid.node(24 + k * 5 % 13, 23 + k * 7 % 15),
                value: (k as f64 * 0.4).sin(),
                noise_std: 0.3 + 0.01 * k as f64,
            })
            .collect();
        seen.add(&valid, &entries).unwrap();
        let (design, columns) = (Design::new(&seen), vec![vec![1.0; grid.num_nodes()]]);
        let noise: Vec<f64> = seen.iter().map(|entry| entry.noise_std.powi(2)).collect();
        let likelihood = Likelihood::new(Shape::Surface, &design, &seen, &noise, (&columns, &[0.0]));
        let exact = |range: f64| {
            let GridPrecision { kappa_squared, lambda, .. } = Shape::Surface.precision_of(range, 0.49);
            let context = gpara::Context::new(valid.clone(), Vec::new()).unwrap();
            let flat = vec![0.0; grid.num_nodes()];
            let descriptor =
                gpara::GraphDescriptor { context: &context, prior_mean: &flat, prior_std: &flat, num_measured: 0 };
            let graph = gpara::GraphPredictor::predict(&gpara::UniformGraph, &descriptor).unwrap();
            let precision = ResidualPrecision::second_order(graph, 0.0, lambda, kappa_squared).unwrap();
            let posterior = Posterior::with_drift(&precision, &seen, &Drift::constant(grid)).unwrap();
            log_marginal_likelihood(&posterior, &flat).unwrap()
        };
        let near = |range| likelihood.log_density(&Covariance { range, std: 0.7, nugget_std: 0.0 });
        let difference = (near(12.0) - near(20.0)) - (exact(12.0) - exact(20.0));
        assert!(difference.abs() < 0.15, "{difference}");
        // And it tells ranges apart by more than that.
        assert!((near(5.0) - near(20.0)).abs() > 0.3, "{}", near(5.0) - near(20.0));
    }
}
