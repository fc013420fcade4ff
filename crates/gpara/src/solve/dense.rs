//! Small dense matrices of the fronts: product, inverse of a symmetric positive definite block.

/// A row-major matrix.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Matrix {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) data: Vec<f64>,
}

impl Matrix {
    pub(super) fn zeros(rows: usize, cols: usize) -> Self {
        Self { rows, cols, data: vec![0.0; rows * cols] }
    }

    /// A copy of what a view shows.
    pub(super) fn copy_of(view: View<'_>) -> Self {
        let mut copy = Self::zeros(view.rows, view.cols);
        if view.is_empty() {
            return copy;
        }
        for (row, target) in copy.data.chunks_exact_mut(view.cols).enumerate() {
            let source = &view.data[row * view.row_stride..];
            if view.col_stride == 1 {
                target.copy_from_slice(&source[..view.cols]);
            } else {
                target
                    .iter_mut()
                    .zip(source.iter().step_by(view.col_stride))
                    .for_each(|(target, source)| *target = *source);
            }
        }
        copy
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }

    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.data[row * self.cols..(row + 1) * self.cols]
    }

    /// The whole matrix.
    pub(super) fn view(&self) -> View<'_> {
        self.block(0, 0, self.rows, self.cols)
    }

    /// The `rows` x `cols` block whose first entry is (row, col).
    pub(super) fn block(&self, row: usize, col: usize, rows: usize, cols: usize) -> View<'_> {
        let start = (row * self.cols + col).min(self.data.len());
        View { data: &self.data[start..], rows, cols, row_stride: self.cols, col_stride: 1 }
    }

    /// Makes the matrix symmetric by copying the lower triangle to the upper one.
    pub(super) fn mirror_lower(&mut self) {
        const TILE: usize = 16;
        // In tiles, because a column walk over a whole front misses the cache at every step.
        for first_row in (0..self.rows).step_by(TILE) {
            for first_col in (0..=first_row).step_by(TILE) {
                for row in first_row..(first_row + TILE).min(self.rows) {
                    for col in first_col..(first_col + TILE).min(row) {
                        self.data[col * self.cols + row] = self.data[row * self.cols + col];
                    }
                }
            }
        }
    }
}

/// A block of a matrix, possibly transposed.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    data: &'a [f64],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl View<'_> {
    pub(super) fn transposed(self) -> Self {
        let Self { data, rows, cols, row_stride, col_stride } = self;
        Self { data, rows: cols, cols: rows, row_stride: col_stride, col_stride: row_stride }
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }
}

/// Which entries of a product are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of them.
    Full,
    /// At least the lower triangle; the rest of a symmetric result follows by [`Matrix::mirror_lower`].
    Lower,
}

const TILE_ROWS: usize = 4;
const TILE_COLS: usize = 4;

/// Packed operands, kept between products to save allocations.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    left: Vec<f64>,
    right: Vec<f64>,
}

impl Workspace {
    /// `c += scale * a b`, tile by tile over operands packed into the order in which the tiles read them.
    pub(super) fn add_product(&mut self, c: &mut Matrix, scale: f64, a: View<'_>, b: View<'_>, part: Part) {
        let inner = a.cols;
        debug_assert!(c.rows == a.rows && c.cols == b.cols && inner == b.rows);
        if a.is_empty() || b.is_empty() {
            return;
        }
        pack::<TILE_ROWS>(&mut self.left, a);
        pack::<TILE_COLS>(&mut self.right, b.transposed());
        for (panel, left) in self.left.chunks_exact(TILE_ROWS * inner).enumerate() {
            let first_row = panel * TILE_ROWS;
            let rows = TILE_ROWS.min(c.rows - first_row);
            let end_col = match part {
                Part::Full => c.cols,
                Part::Lower => (first_row + rows).min(c.cols),
            };
            for (panel, right) in self.right.chunks_exact(TILE_COLS * inner).enumerate() {
                let first_col = panel * TILE_COLS;
                if first_col >= end_col {
                    break;
                }
                let cols = TILE_COLS.min(c.cols - first_col);
                let tile = tile_product(left, right);
                for (row, sums) in tile.iter().enumerate().take(rows) {
                    let start = (first_row + row) * c.cols + first_col;
                    let target = &mut c.data[start..start + cols];
                    target.iter_mut().zip(sums).for_each(|(target, sum)| *target += scale * sum);
                }
            }
        }
    }

    /// Replaces a symmetric positive definite matrix by its inverse, by sweeping blocks of pivots.
    ///
    /// # Errors
    /// The index and value of the first pivot that is not positive.
    pub(super) fn invert(&mut self, a: &mut Matrix) -> Result<(), (usize, f64)> {
        const BLOCK: usize = 16;
        let size = a.rows;
        for first in (0..size).step_by(BLOCK) {
            let count = BLOCK.min(size - first);
            let mut pivot = Matrix::copy_of(a.block(first, first, count, count));
            pivot.mirror_lower();
            sweep(&mut pivot).map_err(|(at, value)| (first + at, value))?;
            // The block's columns; above the block they are read from the lower triangle, which alone is kept valid.
            let mut panel = Matrix::zeros(size, count);
            for row in 0..size {
                for col in first..first + count {
                    let (low, high) = if row < col { (row, col) } else { (col, row) };
                    panel.data[row * count + col - first] = a.data[high * size + low];
                }
            }
            let mut solved = Matrix::zeros(count, size);
            self.add_product(&mut solved, 1.0, pivot.view(), panel.view().transposed(), Part::Full);
            self.add_product(a, -1.0, panel.view(), solved.view(), Part::Lower);
            for at in 0..count {
                for other in 0..size {
                    let (low, high) = if other < first + at { (other, first + at) } else { (first + at, other) };
                    a.data[high * size + low] = solved.data[at * size + other];
                }
            }
            for at in 0..count {
                for other in 0..=at {
                    a.data[(first + at) * size + first + other] = -pivot.data[at * count + other];
                }
            }
        }
        // Sweeping every pivot leaves minus the inverse.
        a.data.iter_mut().for_each(|value| *value = -*value);
        a.mirror_lower();
        Ok(())
    }
}

/// Rows of `view` in groups of `ROWS`, each group column by column, the last one filled up with zeros.
fn pack<const ROWS: usize>(packed: &mut Vec<f64>, view: View<'_>) {
    packed.clear();
    packed.resize(view.rows.div_ceil(ROWS) * ROWS * view.cols, 0.0);
    for (group, panel) in packed.chunks_exact_mut(ROWS * view.cols).enumerate() {
        let first = group * ROWS;
        let rows = ROWS.min(view.rows - first);
        let (columns, _) = panel.as_chunks_mut::<ROWS>();
        if view.row_stride == 1 && rows == ROWS {
            for (col, column) in columns.iter_mut().enumerate() {
                let start = first + col * view.col_stride;
                column.copy_from_slice(&view.data[start..start + ROWS]);
            }
        } else {
            for row in 0..rows {
                let source = &view.data[(first + row) * view.row_stride..];
                for (col, column) in columns.iter_mut().enumerate() {
                    column[row] = source[col * view.col_stride];
                }
            }
        }
    }
}

/// The product of one packed group of rows with one packed group of columns.
fn tile_product(left: &[f64], right: &[f64]) -> [[f64; TILE_COLS]; TILE_ROWS] {
    let mut sums = [[0.0; TILE_COLS]; TILE_ROWS];
    let (left, _) = left.as_chunks::<TILE_ROWS>();
    let (right, _) = right.as_chunks::<TILE_COLS>();
    for (a, b) in left.iter().zip(right) {
        for row in 0..TILE_ROWS {
            for col in 0..TILE_COLS {
                sums[row][col] += a[row] * b[col];
            }
        }
    }
    sums
}

/// Inverse of a small symmetric positive definite matrix by Gauss-Jordan; the error is the first bad pivot.
fn sweep(a: &mut Matrix) -> Result<(), (usize, f64)> {
    let size = a.rows;
    let mut pivot_row = vec![0.0; size];
    for k in 0..size {
        let pivot = a.data[k * size + k];
        // Also false for NaN.
        if !(pivot > 0.0 && pivot.is_finite()) {
            return Err((k, pivot));
        }
        let scale = pivot.recip();
        a.row_mut(k)[k] = 1.0;
        a.row_mut(k).iter_mut().for_each(|value| *value *= scale);
        pivot_row.copy_from_slice(a.row(k));
        for row in (0..size).filter(|&row| row != k) {
            let target = a.row_mut(row);
            let factor = std::mem::take(&mut target[k]);
            target.iter_mut().zip(&pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::SeedTree;

    fn random(rows: usize, cols: usize, name: &str) -> Matrix {
        let mut matrix = Matrix::zeros(rows, cols);
        SeedTree::new(1).stream(name).fill_normal(&mut matrix.data);
        matrix
    }

    fn at(view: View<'_>, row: usize, col: usize) -> f64 {
        view.data[row * view.row_stride + col * view.col_stride]
    }

    fn naive(a: View<'_>, b: View<'_>) -> Matrix {
        let mut c = Matrix::zeros(a.rows, b.cols);
        for row in 0..a.rows {
            for col in 0..b.cols {
                c.data[row * b.cols + col] = (0..a.cols).map(|k| at(a, row, k) * at(b, k, col)).sum();
            }
        }
        c
    }

    fn largest_difference(a: &Matrix, b: &Matrix) -> f64 {
        a.data.iter().zip(&b.data).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn parity_product_matches_the_definition_for_odd_sizes_and_transposes() {
        for (rows, inner, cols) in [(1, 1, 1), (4, 4, 4), (5, 3, 9), (17, 20, 6), (33, 1, 2), (2, 0, 3)] {
            let (a, b) = (random(rows, inner, "a"), random(inner, cols, "b"));
            let (at, bt) = (Matrix::copy_of(a.view().transposed()), Matrix::copy_of(b.view().transposed()));
            let expected = naive(a.view(), b.view());
            for (left, right) in [(a.view(), b.view()), (at.view().transposed(), bt.view().transposed())] {
                let mut c = Matrix::zeros(rows, cols);
                Workspace::default().add_product(&mut c, 1.0, left, right, Part::Full);
                assert!(largest_difference(&c, &expected) < 1e-12, "{rows}x{inner}x{cols}");
            }
        }
    }

    #[test]
    fn lower_product_mirrors_to_the_full_symmetric_one() {
        let a = random(23, 7, "a");
        let mut c = Matrix::zeros(23, 23);
        Workspace::default().add_product(&mut c, -0.5, a.view(), a.view().transposed(), Part::Lower);
        c.mirror_lower();
        let mut expected = naive(a.view(), a.view().transposed());
        expected.data.iter_mut().for_each(|value| *value *= -0.5);
        assert!(largest_difference(&c, &expected) < 1e-12);
    }

    #[test]
    fn inverse_times_matrix_is_the_identity() {
        for size in [1, 2, 15, 16, 17, 50] {
            let root = random(size, size, "root");
            let mut a = naive(root.view(), root.view().transposed());
            (0..size).for_each(|at| a.data[at * size + at] += 1.0);
            let mut inverse = a.clone();
            Workspace::default().invert(&mut inverse).unwrap();
            let mut identity = Matrix::zeros(size, size);
            (0..size).for_each(|at| identity.data[at * size + at] = 1.0);
            assert!(largest_difference(&naive(a.view(), inverse.view()), &identity) < 1e-10, "{size}");
        }
    }

    #[test]
    fn indefinite_matrix_is_refused_with_its_pivot() {
        let mut a = Matrix::zeros(20, 20);
        (0..20).for_each(|at| a.data[at * 20 + at] = if at == 18 { -3.0 } else { 1.0 });
        assert_eq!(Workspace::default().invert(&mut a), Err((18, -3.0)));
    }
}
