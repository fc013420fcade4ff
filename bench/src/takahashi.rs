//! Selected inversion of a sparse Cholesky factor, entry by entry (Takahashi, Fagan and Chin 1973).

/// L by columns; the diagonal entry is the first of its column.
#[derive(Debug)]
pub(crate) struct LowerFactor {
    starts: Vec<usize>,
    rows: Vec<usize>,
    values: Vec<f64>,
}

impl LowerFactor {
    /// No columns yet, space for that many.
    pub(crate) fn with_columns(count: usize) -> Self {
        let mut starts = Vec::with_capacity(count + 1);
        starts.push(0);
        Self { starts, rows: Vec::new(), values: Vec::new() }
    }

    /// Appends a column that begins with its diagonal entry.
    pub(crate) fn push_column(&mut self, entries: impl Iterator<Item = (usize, f64)>) {
        for (row, value) in entries {
            self.rows.push(row);
            self.values.push(value);
        }
        self.starts.push(self.rows.len());
    }

    /// diag((L L')^-1), with all entries of the inverse on the pattern of L on the way.
    pub(crate) fn inverse_diagonal(&self) -> Vec<f64> {
        let size = self.starts.len() - 1;
        let mut inverse = vec![0.0; self.rows.len()];
        let mut diagonal = vec![0.0; size];
        // Where a row is in the column that is worked on.
        let mut place = vec![usize::MAX; size];
        let mut sums = Vec::new();
        for col in (0..size).rev() {
            let (start, end) = (self.starts[col], self.starts[col + 1]);
            let (rows, values) = (&self.rows[start + 1..end], &self.values[start + 1..end]);
            rows.iter().enumerate().for_each(|(at, &row)| place[row] = at);
            sums.clear();
            sums.resize(rows.len(), 0.0);
            // Z22 l: the later columns of Z hold its lower half.
            for (at, (&row, &value)) in rows.iter().zip(values).enumerate() {
                let later = self.starts[row]..self.starts[row + 1];
                sums[at] += inverse[later.start] * value;
                for entry in later.start + 1..later.end {
                    let other = place[self.rows[entry]];
                    if other != usize::MAX {
                        sums[other] += inverse[entry] * value;
                        sums[at] += inverse[entry] * values[other];
                    }
                }
            }
            let pivot = self.values[start].recip();
            let mut own = pivot;
            for (at, sum) in sums.iter().enumerate() {
                inverse[start + 1 + at] = -pivot * sum;
                own += pivot * values[at] * sum;
            }
            inverse[start] = own * pivot;
            diagonal[col] = inverse[start];
            rows.iter().for_each(|&row| place[row] = usize::MAX);
        }
        diagonal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_diagonal_of_a_hand_computed_factor() {
        // L = [2 0 0; 0 1 0; 1 3 1]: L L' = [4 0 2; 0 1 3; 2 3 11].
        let mut lower = LowerFactor::with_columns(3);
        lower.push_column([(0, 2.0), (2, 1.0)].into_iter());
        lower.push_column([(1, 1.0), (2, 3.0)].into_iter());
        lower.push_column([(2, 1.0)].into_iter());
        // det = 4, cofactors 2, 40, 4.
        let diagonal = lower.inverse_diagonal();
        for (found, expected) in diagonal.iter().zip([0.5, 10.0, 1.0]) {
            assert!((found - expected).abs() < 1e-14, "{diagonal:?}");
        }
    }
}
