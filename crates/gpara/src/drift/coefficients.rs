//! Cholesky factorisation of the small matrices of the drift's coefficients.

/// Pivots below this share of their diagonal entry count as 0: the column repeats the ones before it.
const DEPENDENT: f64 = 1e-11;

/// V^-1 = L L', p x p.
#[derive(Debug, Clone)]
pub(crate) struct CoefficientCholesky {
    size: usize,
    /// L, row-major.
    lower: Vec<f64>,
}

impl CoefficientCholesky {
    /// # Errors
    /// The first column that depends on the ones before it.
    pub(crate) fn new(matrix: &[f64], size: usize) -> Result<Self, usize> {
        let mut lower = vec![0.0; size * size];
        for i in 0..size {
            for j in 0..=i {
                let done: f64 = (0..j).map(|k| lower[i * size + k] * lower[j * size + k]).sum();
                let left = matrix[i * size + j] - done;
                if i != j {
                    lower[i * size + j] = left / lower[j * size + j];
                } else if left > DEPENDENT * matrix[i * size + i] {
                    lower[i * size + i] = left.sqrt();
                } else {
                    return Err(i);
                }
            }
        }
        Ok(Self { size, lower })
    }

    pub(crate) fn log_det(&self) -> f64 {
        (0..self.size).map(|i| 2.0 * self.lower[i * self.size + i].ln()).sum()
    }

    /// V x.
    pub(crate) fn solve(&self, x: &[f64]) -> Vec<f64> {
        let size = self.size;
        let mut out = x.to_vec();
        for i in 0..size {
            let done: f64 = (0..i).map(|k| self.lower[i * size + k] * out[k]).sum();
            out[i] = (out[i] - done) / self.lower[i * size + i];
        }
        for i in (0..size).rev() {
            let done: f64 = (i + 1..size).map(|k| self.lower[k * size + i] * out[k]).sum();
            out[i] = (out[i] - done) / self.lower[i * size + i];
        }
        out
    }

    /// V, row-major.
    pub(crate) fn inverse(&self) -> Vec<f64> {
        let unit = |at: usize| (0..self.size).map(|i| if i == at { 1.0 } else { 0.0 }).collect::<Vec<f64>>();
        (0..self.size).flat_map(|at| self.solve(&unit(at))).collect()
    }

    /// The columns of X L'^-1, so that the product with its own transpose is X V X'.
    pub(crate) fn times_inverse_root(&self, columns: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut out: Vec<Vec<f64>> = Vec::with_capacity(self.size);
        for (i, column) in columns.iter().enumerate() {
            let mut next = column.clone();
            for (k, done) in out.iter().enumerate() {
                let factor = self.lower[i * self.size + k];
                next.iter_mut().zip(done).for_each(|(value, done)| *value -= factor * done);
            }
            next.iter_mut().for_each(|value| *value /= self.lower[i * self.size + i]);
            out.push(next);
        }
        out
    }
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
