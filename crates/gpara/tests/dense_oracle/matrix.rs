//! Square dense matrices, textbook algorithms.

#[derive(Debug, Clone)]
pub(crate) struct Dense {
    size: usize,
    data: Vec<f64>,
}

impl Dense {
    pub(crate) fn zeros(size: usize) -> Self {
        Self { size, data: vec![0.0; size * size] }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn at(&self, row: usize, col: usize) -> f64 {
        self.data[row * self.size + col]
    }

    pub(crate) fn at_mut(&mut self, row: usize, col: usize) -> &mut f64 {
        &mut self.data[row * self.size + col]
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.data[row * self.size..(row + 1) * self.size]
    }

    pub(crate) fn diagonal(&self) -> Vec<f64> {
        (0..self.size).map(|i| self.at(i, i)).collect()
    }

    pub(crate) fn times(&self, x: &[f64]) -> Vec<f64> {
        (0..self.size).map(|row| self.row(row).iter().zip(x).map(|(a, x)| a * x).sum()).collect()
    }

    /// Lower Cholesky factor; panics if the matrix is not positive definite.
    pub(crate) fn cholesky(&self) -> Self {
        let mut lower = Self::zeros(self.size);
        for i in 0..self.size {
            for j in 0..=i {
                let done: f64 = (0..j).map(|k| lower.at(i, k) * lower.at(j, k)).sum();
                let left = self.at(i, j) - done;
                *lower.at_mut(i, j) = if i == j {
                    assert!(left > 0.0, "pivot {left} at {i}");
                    left.sqrt()
                } else {
                    left / lower.at(j, j)
                };
            }
        }
        lower
    }

    /// Inverse by Cholesky, column by column.
    pub(crate) fn inverse(&self) -> Self {
        let lower = self.cholesky();
        let mut inverse = Self::zeros(self.size);
        for col in 0..self.size {
            let mut x = vec![0.0; self.size];
            for i in col..self.size {
                let unit = if i == col { 1.0 } else { 0.0 };
                let done: f64 = (col..i).map(|k| lower.at(i, k) * x[k]).sum();
                x[i] = (unit - done) / lower.at(i, i);
            }
            for i in (0..self.size).rev() {
                let done: f64 = (i + 1..self.size).map(|k| lower.at(k, i) * x[k]).sum();
                x[i] = (x[i] - done) / lower.at(i, i);
            }
            for (row, value) in x.into_iter().enumerate() {
                *inverse.at_mut(row, col) = value;
            }
        }
        inverse
    }
}
