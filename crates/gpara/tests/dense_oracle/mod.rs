//! A dense reference for small grids, written from the equations and sharing no numerical code with the library.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod cases;
pub(crate) mod matrix;

use cases::Case;
use matrix::Dense;

/// Everything of one case as dense matrices.
pub(crate) struct Oracle {
    /// Adjacency C_g.
    pub(crate) adjacency: Dense,
    /// Q_g = tau I + lambda (diag(C 1) - C).
    pub(crate) prior_precision: Dense,
    /// A_S = Q_g + H' R^-1 H.
    pub(crate) precision: Dense,
    /// Sigma_S = A_S^-1.
    pub(crate) covariance: Dense,
}

impl Oracle {
    pub(crate) fn new(case: &Case) -> Self {
        let size = case.grid().num_nodes();
        let adjacency = adjacency(case);
        let mut prior_precision = Dense::zeros(size);
        for i in 0..size {
            let degree: f64 = adjacency.row(i).iter().sum();
            for j in 0..size {
                let identity = f64::from(u8::from(i == j));
                let laplacian = identity * degree - adjacency.at(i, j);
                *prior_precision.at_mut(i, j) = case.tau * identity + case.lambda * laplacian;
            }
        }
        let mut precision = prior_precision.clone();
        for entry in case.observations.iter() {
            *precision.at_mut(entry.node, entry.node) += 1.0 / (entry.noise_std * entry.noise_std);
        }
        let covariance = precision.inverse();
        Self { adjacency, prior_precision, precision, covariance }
    }

    /// f_S = H' R^-1 (y - H mu).
    pub(crate) fn right_hand_side(&self, case: &Case, prediction: &[f64]) -> Vec<f64> {
        let mut rhs = vec![0.0; prediction.len()];
        for entry in case.observations.iter() {
            rhs[entry.node] = (entry.value - prediction[entry.node]) / (entry.noise_std * entry.noise_std);
        }
        rhs
    }

    /// m_S by Eq. 10.
    pub(crate) fn mean(&self, case: &Case, prediction: &[f64]) -> Vec<f64> {
        self.covariance.times(&self.right_hand_side(case, prediction))
    }

    /// (Sigma W Sigma)_ij.
    pub(crate) fn weighted_square(&self, weights: &[f64], i: usize, j: usize) -> f64 {
        (0..weights.len()).map(|k| self.covariance.at(i, k) * weights[k] * self.covariance.at(k, j)).sum()
    }

    /// U_i by Eq. 15.
    pub(crate) fn utility(&self, weights: &[f64], noise_std: f64, i: usize) -> f64 {
        self.weighted_square(weights, i, i) / (noise_std * noise_std + self.covariance.at(i, i))
    }

    /// Measures node i: Sigma - Sigma e e' Sigma / (noise^2 + Sigma_ii) (B.15).
    pub(crate) fn measure(&mut self, i: usize, noise_std: f64) {
        let column: Vec<f64> = (0..self.covariance.size()).map(|j| self.covariance.at(j, i)).collect();
        let scale = noise_std * noise_std + column[i];
        for row in 0..column.len() {
            for col in 0..column.len() {
                *self.covariance.at_mut(row, col) -= column[row] * column[col] / scale;
            }
        }
    }
}

/// The symmetric adjacency, from the edge maps by (row, col) arithmetic of its own.
fn adjacency(case: &Case) -> Dense {
    let (rows, cols) = (case.grid().rows() as i64, case.grid().cols() as i64);
    let mut adjacency = Dense::zeros((rows * cols) as usize);
    for (map, (down, right)) in case.conductances.edges().iter().zip([(0, 1), (1, 0), (1, 1), (1, -1)]) {
        for row in 0..rows {
            for col in 0..cols {
                let (other_row, other_col) = (row + down, col + right);
                if other_row < rows && (0..cols).contains(&other_col) {
                    let (i, j) = ((row * cols + col) as usize, (other_row * cols + other_col) as usize);
                    *adjacency.at_mut(i, j) = map[i];
                    *adjacency.at_mut(j, i) = map[i];
                }
            }
        }
    }
    adjacency
}
