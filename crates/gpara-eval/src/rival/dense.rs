//! Small dense systems: as many unknowns as there are measurements.

use gpara::{ErrorDetail, ErrorKind, Result};
use thiserror::Error as ThisError;

/// The lower Cholesky factor of a symmetric positive definite matrix.
#[derive(Debug, Clone)]
pub(super) struct Cholesky {
    size: usize,
    /// Row-major; above the diagonal nothing is read.
    factor: Vec<f64>,
}

impl Cholesky {
    /// Factorises `matrix`, `[size, size]` row-major, of which the lower triangle is read; `None` if it is not positive
    /// definite to working accuracy.
    pub(super) fn new(mut matrix: Vec<f64>, size: usize) -> Option<Self> {
        for row in 0..size {
            let (above, rest) = matrix.split_at_mut(row * size);
            let current = &mut rest[..size];
            for col in 0..row {
                let other = &above[col * size..col * size + size];
                current[col] = (current[col] - dot(&current[..col], &other[..col])) / other[col];
            }
            let pivot = current[row] - dot(&current[..row], &current[..row]);
            if pivot.is_nan() || pivot <= 0.0 {
                return None;
            }
            current[row] = pivot.sqrt();
        }
        Some(Self { size, factor: matrix })
    }

    /// Solves `L x = rhs` in place.
    pub(super) fn forward(&self, rhs: &mut [f64]) {
        for row in 0..self.size {
            let line = &self.factor[row * self.size..row * self.size + row + 1];
            rhs[row] = (rhs[row] - dot(&line[..row], &rhs[..row])) / line[row];
        }
    }

    /// Solves `L' x = rhs` in place.
    pub(super) fn backward(&self, rhs: &mut [f64]) {
        for row in (0..self.size).rev() {
            let line = &self.factor[row * self.size..row * self.size + row + 1];
            rhs[row] /= line[row];
            let value = rhs[row];
            rhs[..row].iter_mut().zip(&line[..row]).for_each(|(rhs, factor)| *rhs -= factor * value);
        }
    }

    /// Solves `L L' x = rhs`.
    pub(super) fn solve(&self, mut rhs: Vec<f64>) -> Vec<f64> {
        self.forward(&mut rhs);
        self.backward(&mut rhs);
        rhs
    }

    /// Log-determinant of the matrix.
    pub(super) fn log_det(&self) -> f64 {
        (0..self.size).map(|row| 2.0 * self.factor[row * self.size + row].ln()).sum()
    }
}

/// The inner product, in eight sums so that the compiler may use vectors.
pub(super) fn dot(first: &[f64], second: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (blocks_1, blocks_2) = (first.chunks_exact(8), second[..first.len()].chunks_exact(8));
    let rest: f64 = blocks_1.remainder().iter().zip(blocks_2.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in blocks_1.zip(blocks_2) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Solves a general square system by elimination with partial pivoting; `matrix` is `[size, size]` row-major.
///
/// # Errors
/// `InvalidInput` if the matrix is singular to working accuracy.
pub(super) fn solve_general(mut matrix: Vec<f64>, mut rhs: Vec<f64>) -> Result<Vec<f64>> {
    let size = rhs.len();
    for step in 0..size {
        let largest = (step..size).reduce(|best, row| {
            if matrix[row * size + step].abs() > matrix[best * size + step].abs() { row } else { best }
        });
        let pivot_row = largest.expect("a step has at least one row");
        if matrix[pivot_row * size + step].abs() < 1e-12 {
            return Err(DenseError::Singular { size, step }.into());
        }
        if pivot_row != step {
            (0..size).for_each(|col| matrix.swap(step * size + col, pivot_row * size + col));
            rhs.swap(step, pivot_row);
        }
        let (done, below) = matrix.split_at_mut((step + 1) * size);
        let pivot = &done[step * size + step..];
        for (row, line) in below.chunks_exact_mut(size).enumerate() {
            let factor = line[step] / pivot[0];
            if factor != 0.0 {
                line[step..].iter_mut().zip(pivot).for_each(|(value, pivot)| *value -= factor * pivot);
                rhs[step + 1 + row] -= factor * rhs[step];
            }
        }
    }
    for row in (0..size).rev() {
        let known = dot(&matrix[row * size + row + 1..(row + 1) * size], &rhs[row + 1..]);
        rhs[row] = (rhs[row] - known) / matrix[row * size + row];
    }
    Ok(rhs)
}

#[derive(Debug, ThisError)]
enum DenseError {
    #[error("a system of {size} unknowns is singular at unknown {step}: the measured cells lie on one line")]
    Singular { size: usize, step: usize },
}

impl ErrorDetail for DenseError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_solvers_give_back_the_known_solution() {
        // A = B'B + I for a fixed B, x = 0, 1, 2, ...
        let size = 11;
        let entry = |row: usize, col: usize| ((row * 7 + col * 3) % 5) as f64 - 2.0;
        let mut matrix = vec![0.0; size * size];
        for row in 0..size {
            for col in 0..size {
                let product: f64 = (0..size).map(|k| entry(k, row) * entry(k, col)).sum();
                matrix[row * size + col] = product + if row == col { 1.0 } else { 0.0 };
            }
        }
        let expected: Vec<f64> = (0..size).map(|row| row as f64).collect();
        let rhs: Vec<f64> = (0..size).map(|row| dot(&matrix[row * size..(row + 1) * size], &expected)).collect();
        let cholesky = Cholesky::new(matrix.clone(), size).unwrap();
        for solution in [cholesky.solve(rhs.clone()), solve_general(matrix, rhs).unwrap()] {
            for (found, expected) in solution.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-9, "{found} {expected}");
            }
        }
        assert!(Cholesky::new(vec![1.0, 0.0, 2.0, 1.0], 2).is_none());
        assert_eq!(
            solve_general(vec![1.0, 2.0, 2.0, 4.0], vec![1.0, 1.0]).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
}
