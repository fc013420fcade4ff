//! Rows and products of symmetric stencil matrices.

use crate::engine::{Reach, StencilMatrix};

/// Position of a forward offset in [`Reach::offsets`].
fn direction(reach: Reach, offset: (isize, isize)) -> Option<usize> {
    reach.offsets().iter().position(|&candidate| candidate == offset)
}

impl StencilMatrix {
    /// The entries of one row as (node, value), the diagonal first; entries that are 0 may be left out.
    pub(crate) fn row(&self, node: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let (grid, offsets) = (self.grid(), self.reach().offsets());
        let forward = offsets.iter().zip(&self.coupling).filter_map(move |(&offset, map)| {
            let other = grid.neighbor(node, offset)?;
            Some((other, map[node]))
        });
        let backward = offsets.iter().zip(&self.coupling).filter_map(move |(&(rows, cols), map)| {
            let other = grid.neighbor(node, (-rows, -cols))?;
            Some((other, map[other]))
        });
        std::iter::once((node, self.diagonal[node])).chain(forward).chain(backward)
    }

    /// Entry (row, col); 0 for a pair outside the stencil.
    pub(crate) fn entry(&self, row: usize, col: usize) -> f64 {
        let (first, second) = (row.min(col), row.max(col));
        if first == second {
            return self.diagonal[first];
        }
        let offset = self.offset(first, second);
        direction(self.reach(), offset).map_or(0.0, |direction| self.coupling[direction][first])
    }

    /// (rows, columns) from one node to another.
    fn offset(&self, from: usize, to: usize) -> (isize, isize) {
        let ((row, col), (to_row, to_col)) = (self.grid().row_col(from), self.grid().row_col(to));
        (to_row as isize - row as isize, to_col as isize - col as isize)
    }

    /// The product of a matrix of reach one with itself, of reach two.
    pub(crate) fn squared(&self) -> Self {
        let mut square = Self::zeros(self.grid(), Reach::Two);
        // (K K)_ab = sum_k K_ka K_kb: each node adds the outer product of its row.
        for node in 0..self.diagonal.len() {
            let row: Vec<(usize, f64)> = self.row(node).filter(|&(_, value)| value != 0.0).collect();
            for &(first, left) in &row {
                square.diagonal[first] += left * left;
                for &(second, right) in row.iter().filter(|&&(second, _)| second > first) {
                    let offset = self.offset(first, second);
                    let at = direction(Reach::Two, offset).expect("two steps of one cell reach two cells");
                    square.coupling[at][first] += left * right;
                }
            }
        }
        square
    }

    /// tr(A B) = sum of the products of all entries, for two symmetric matrices of the same reach.
    pub(crate) fn inner_product(&self, other: &Self) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let couplings = self.coupling.iter().zip(&other.coupling).map(|(a, b)| dot(a, b)).sum::<f64>();
        dot(&self.diagonal, &other.diagonal) + 2.0 * couplings
    }
}
