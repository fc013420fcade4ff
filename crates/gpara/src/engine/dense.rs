//! The oracle of the engine: the same operations on a full matrix, by textbook algorithms, for at most a few hundred nodes.

use super::StencilMatrix;
use crate::error::{ErrorDetail, ErrorKind, Result};

use thiserror::Error as ThisError;

/// A = L L' and A^-1 as full matrices.
#[derive(Debug, Clone)]
pub(crate) struct DenseFactorization {
    size: usize,
    /// L, row-major.
    lower: Vec<f64>,
    /// A^-1, row-major.
    inverse: Vec<f64>,
}

impl DenseFactorization {
    /// # Errors
    /// `NotPositiveDefinite` with the node whose pivot is not positive.
    pub(crate) fn factor(matrix: &StencilMatrix) -> Result<Self> {
        let size = matrix.diagonal.len();
        let mut full = vec![0.0; size * size];
        for node in 0..size {
            matrix.row(node).for_each(|(other, value)| full[node * size + other] = value);
        }
        let mut lower = vec![0.0; size * size];
        for i in 0..size {
            for j in 0..=i {
                let done: f64 = (0..j).map(|k| lower[i * size + k] * lower[j * size + k]).sum();
                let left = full[i * size + j] - done;
                if i == j && left.is_nan() || i == j && left <= 0.0 {
                    return Err(DensePivot { node: i, pivot: left }.into());
                }
                lower[i * size + j] = if i == j { left.sqrt() } else { left / lower[j * size + j] };
            }
        }
        let mut factorization = Self { size, lower, inverse: Vec::new() };
        let mut inverse = vec![0.0; size * size];
        for (node, row) in inverse.chunks_exact_mut(size).enumerate() {
            let mut unit = vec![0.0; size];
            unit[node] = 1.0;
            factorization.solve(&unit, row);
        }
        factorization.inverse = inverse;
        Ok(factorization)
    }

    /// log det A.
    pub(crate) fn log_det(&self) -> f64 {
        (0..self.size).map(|i| 2.0 * self.lower[i * self.size + i].ln()).sum()
    }

    /// `out = A^-1 rhs`.
    pub(crate) fn solve(&self, rhs: &[f64], out: &mut [f64]) {
        for i in 0..self.size {
            let done: f64 = (0..i).map(|k| self.lower[i * self.size + k] * out[k]).sum();
            out[i] = (rhs[i] - done) / self.lower[i * self.size + i];
        }
        let forward = out.to_vec();
        self.sample(&forward, out);
    }

    /// `out = L^-T normals`.
    pub(crate) fn sample(&self, normals: &[f64], out: &mut [f64]) {
        for i in (0..self.size).rev() {
            let done: f64 = (i + 1..self.size).map(|k| self.lower[k * self.size + i] * out[k]).sum();
            out[i] = (normals[i] - done) / self.lower[i * self.size + i];
        }
    }

    /// diag A^-1.
    pub(crate) fn variances(&mut self, variance: &mut [f64]) {
        (0..self.size).for_each(|i| variance[i] = self.inverse[i * self.size + i]);
    }

    /// diag A^-1 and diag(A^-1 W A^-1).
    pub(crate) fn variances_and_numerators(&mut self, weights: &[f64], variance: &mut [f64], numerator: &mut [f64]) {
        self.variances(variance);
        for (row, numerator) in self.inverse.chunks_exact(self.size).zip(numerator) {
            *numerator = row.iter().zip(weights).map(|(entry, weight)| weight * entry * entry).sum();
        }
    }

    /// The entries of A^-1 on the stencil of `out`.
    pub(crate) fn selected_inverse(&mut self, out: &mut StencilMatrix) {
        let grid = out.grid();
        self.variances(&mut out.diagonal);
        for (&offset, map) in out.reach().offsets().iter().zip(&mut out.coupling) {
            for (node, entry) in map.iter_mut().enumerate() {
                *entry = grid.neighbor(node, offset).map_or(0.0, |other| self.inverse[node * self.size + other]);
            }
        }
    }
}

#[derive(Debug, ThisError)]
#[error("the posterior precision is not positive definite: pivot {pivot} at node {node}")]
struct DensePivot {
    node: usize,
    pivot: f64,
}

impl ErrorDetail for DensePivot {
    fn kind(&self) -> ErrorKind {
        ErrorKind::NotPositiveDefinite
    }
}
