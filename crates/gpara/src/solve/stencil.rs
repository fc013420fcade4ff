//! A symmetric grid matrix as an operator: products without gathers, on plain vectors, in f32 or f64.

use super::Real;
use super::blocks::{for_each_block, vectorized};
use crate::engine::Reach;
use crate::grid::Grid;

/// A view of the matrix: its diagonal and, for every forward offset of its reach, the entries (i, i + offset).
///
/// Entries whose offset leaves the grid are 0, so a flat offset that wraps into the next row multiplies by 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stencil<'a, T> {
    /// The grid of the nodes.
    pub(crate) grid: Grid,
    /// Which offsets there are.
    pub(crate) reach: Reach,
    /// `num_nodes` values.
    pub(crate) diagonal: &'a [T],
    /// One map of `num_nodes` values an offset.
    pub(crate) coupling: &'a [Vec<T>],
}

impl<T: Real> Stencil<'_, T> {
    /// Number of rows of the matrix.
    pub(crate) fn num_nodes(&self) -> usize {
        self.grid.num_nodes()
    }

    /// `out = A x`.
    pub(crate) fn apply(&self, x: &[T], out: &mut [T]) {
        self.for_each_coupled_block(x, out, Finish::Product);
    }

    /// `out = rhs - A x`.
    pub(crate) fn residual(&self, x: &[T], rhs: &[T], out: &mut [T]) {
        self.for_each_coupled_block(x, out, Finish::Residual(rhs));
    }

    /// `out -= change A e` for the unit vector e of a node.
    pub(crate) fn subtract_column(&self, node: usize, change: T, out: &mut [T]) {
        out[node] -= change * self.diagonal[node];
        for (&(rows, cols), map) in self.reach.offsets().iter().zip(self.coupling) {
            if let Some(other) = self.grid.neighbor(node, (rows, cols)) {
                out[other] -= change * map[node];
            }
            if let Some(other) = self.grid.neighbor(node, (-rows, -cols)) {
                out[other] -= change * map[other];
            }
        }
    }

    /// `out = D^-1 (rhs - (A - D) x)`.
    pub(crate) fn jacobi_sweep(&self, x: &[T], rhs: &[T], out: &mut [T]) {
        self.for_each_coupled_block(x, out, Finish::JacobiSweep(rhs));
    }

    /// Fills each block of `out` with the products of `x` with the couplings, and finishes it while it is in cache.
    fn for_each_coupled_block(&self, x: &[T], out: &mut [T], finish: Finish<'_, T>) {
        let count = self.num_nodes();
        assert!(x.len() == count && out.len() == count, "a field needs one value a node");
        let offsets: Vec<usize> = self.reach.offsets().iter().map(|&offset| flat(self.grid, offset)).collect();
        let halo = self.reach.cells() * (self.grid.cols() + 1);
        for_each_block(out, |start, block| {
            let at_border = start < halo || start + block.len() + halo > count;
            vectorized(BlockProduct { matrix: *self, offsets: &offsets, start, x, block, finish, at_border });
        });
    }

    /// sum over j of |a_ij| without the diagonal, one value a node.
    pub(crate) fn coupling_sums(&self) -> Vec<T> {
        let mut sums = vec![T::default(); self.num_nodes()];
        let magnitude = |value: T| if value < T::default() { -value } else { value };
        for (&offset, map) in self.reach.offsets().iter().zip(self.coupling) {
            let offset = flat(self.grid, offset);
            sums.iter_mut().zip(map).for_each(|(sum, &w)| *sum += magnitude(w));
            sums.iter_mut().skip(offset).zip(map).for_each(|(sum, &w)| *sum += magnitude(w));
        }
        sums
    }

    /// q = max over i of sum over j of |a_ij| / a_ii: the eigenvalues of D^-1 A lie in [1 - q, 1 + q] (Gershgorin).
    pub(crate) fn gershgorin_radius(&self) -> f64 {
        let sums = self.coupling_sums();
        sums.iter().zip(self.diagonal).map(|(sum, d)| sum.to_f64() / d.to_f64()).fold(0.0, f64::max)
    }
}

/// What becomes of the products with the couplings.
#[derive(Debug, Clone, Copy)]
enum Finish<'a, T> {
    Product,
    Residual(&'a [T]),
    JacobiSweep(&'a [T]),
}

/// One block of a product, see [`vectorized`].
struct BlockProduct<'a, T> {
    matrix: Stencil<'a, T>,
    offsets: &'a [usize],
    start: usize,
    x: &'a [T],
    block: &'a mut [T],
    finish: Finish<'a, T>,
    at_border: bool,
}

impl<T: Real> pulp::NullaryFnOnce for BlockProduct<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        self.block.fill(T::default());
        if self.at_border {
            self.couple_at_border();
        } else {
            self.couple_inside();
        }
        self.finish();
    }
}

impl<T: Real> BlockProduct<'_, T> {
    /// The couplings of a block whose neighbours all have an index; four offsets a pass.
    #[inline(always)]
    fn couple_inside(&mut self) {
        let (start, x, block) = (self.start, self.x, &mut *self.block);
        let count = block.len();
        for (offsets, maps) in self.offsets.as_chunks::<4>().0.iter().zip(self.matrix.coupling.as_chunks::<4>().0) {
            // Forward: the entry stored at the node itself. Backward: the one stored at the node it comes from.
            let at: [usize; 4] = std::array::from_fn(|k| start + offsets[k]);
            let back: [usize; 4] = std::array::from_fn(|k| start - offsets[k]);
            let [w0, w1, w2, w3] = maps.each_ref().map(|map| &map[start..start + count]);
            let [x0, x1, x2, x3] = at.map(|at| &x[at..at + count]);
            let [y0, y1, y2, y3] = back.map(|back| &x[back..back + count]);
            let [v0, v1, v2, v3]: [&[T]; 4] = std::array::from_fn(|k| &maps[k][back[k]..back[k] + count]);
            for i in 0..count {
                let forward = (w0[i] * x0[i] + w1[i] * x1[i]) + (w2[i] * x2[i] + w3[i] * x3[i]);
                let backward = (v0[i] * y0[i] + v1[i] * y1[i]) + (v2[i] * y2[i] + v3[i] * y3[i]);
                block[i] += forward + backward;
            }
        }
    }

    /// The same where an offset may leave the vector: each offset on the part of the block where it does not.
    #[inline(always)]
    fn couple_at_border(&mut self) {
        let (start, x, block) = (self.start, self.x, &mut *self.block);
        let (count, end) = (x.len(), start + block.len());
        for (&offset, map) in self.offsets.iter().zip(self.matrix.coupling) {
            let forward_end = end.min(count.saturating_sub(offset)).max(start);
            let neighbors = map[start..forward_end].iter().zip(x.get(start + offset..).unwrap_or_default());
            block.iter_mut().zip(neighbors).for_each(|(out, (&w, &x))| *out += w * x);
            let first = start.max(offset).min(end);
            let from = first.saturating_sub(offset);
            let neighbors = map[from..].iter().zip(&x[from..]);
            block[first - start..].iter_mut().zip(neighbors).for_each(|(out, (&w, &x))| *out += w * x);
        }
    }

    #[inline(always)]
    fn finish(&mut self) {
        let own = self.matrix.diagonal[self.start..].iter().zip(&self.x[self.start..]);
        let block = self.block.iter_mut().zip(own);
        match self.finish {
            Finish::Product => block.for_each(|(out, (&d, &x))| *out += d * x),
            Finish::Residual(rhs) => {
                block.zip(&rhs[self.start..]).for_each(|((out, (&d, &x)), &f)| *out = f - (*out + d * x));
            }
            Finish::JacobiSweep(rhs) => {
                block.zip(&rhs[self.start..]).for_each(|((out, (&d, _)), &f)| *out = (f - *out) / d);
            }
        }
    }
}

/// The difference of node indices of a forward offset; on a grid too narrow for the offset, where its entries are 0, it is
/// cut to 0.
fn flat(grid: Grid, (rows, cols): (isize, isize)) -> usize {
    (rows as usize * grid.cols()).saturating_add_signed(cols)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::StencilMatrix;
    use crate::seed::SeedTree;

    /// Random couplings inside the grid, random diagonal.
    pub(crate) fn random_matrix(rows: usize, cols: usize, reach: Reach) -> StencilMatrix {
        let grid = Grid::new(rows, cols).unwrap();
        let mut stream = SeedTree::new(5).stream(&format!("{grid}"));
        let mut matrix = StencilMatrix::zeros(grid, reach);
        for node in 0..grid.num_nodes() {
            matrix.diagonal[node] = stream.normal();
            for (k, &offset) in reach.offsets().iter().enumerate() {
                if grid.neighbor(node, offset).is_some() {
                    matrix.coupling[k][node] = stream.normal();
                }
            }
        }
        matrix
    }

    fn entrywise_product(matrix: &StencilMatrix, x: &[f64]) -> Vec<f64> {
        let grid = matrix.grid();
        let mut out: Vec<f64> = matrix.diagonal.iter().zip(x).map(|(d, x)| d * x).collect();
        for (map, &offset) in matrix.coupling.iter().zip(matrix.reach().offsets()) {
            for node in 0..grid.num_nodes() {
                if let Some(other) = grid.neighbor(node, offset) {
                    out[node] += map[node] * x[other];
                    out[other] += map[node] * x[node];
                }
            }
        }
        out
    }

    #[test]
    fn products_match_the_entries_for_both_reaches_and_types() {
        let sizes = [(1, 1), (1, 9), (9, 1), (2, 2), (2, 7), (7, 2), (5, 6), (37, 53), (3, 2100), (300, 450)];
        for reach in [Reach::One, Reach::Two] {
            for (rows, cols) in sizes {
                let matrix = random_matrix(rows, cols, reach);
                let mut stream = SeedTree::new(6).stream("x");
                let x: Vec<f64> = (0..rows * cols).map(|_| stream.normal()).collect();
                let expected = entrywise_product(&matrix, &x);
                let mut out = vec![f64::NAN; x.len()];
                matrix.view().apply(&x, &mut out);
                let worst = out.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-13, "{rows}x{cols} {reach:?}: {worst:e}");
                matrix.view().residual(&x, &expected, &mut out);
                assert!(out.iter().all(|value| value.abs() < 1e-13), "{rows}x{cols} {reach:?}");
                (0..x.len()).for_each(|node| matrix.view().subtract_column(node, -x[node], &mut out));
                let worst = out.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-12, "{rows}x{cols} {reach:?}: {worst:e}");

                let single = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<f32>>();
                let coupling: Vec<_> = matrix.coupling.iter().map(|map| single(map)).collect();
                let (diagonal, x) = (single(&matrix.diagonal), single(&x));
                let view = Stencil { grid: matrix.grid(), reach, diagonal: &diagonal, coupling: &coupling };
                let mut out = vec![f32::NAN; x.len()];
                view.apply(&x, &mut out);
                let worst = out.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
                assert!(worst < 2e-5, "{rows}x{cols} {reach:?} f32: {worst:e}");
            }
        }
    }

    #[test]
    fn gershgorin_radius_is_the_largest_row_sum_over_the_diagonal() {
        let mut matrix = StencilMatrix::zeros(Grid::new(1, 3).unwrap(), Reach::One);
        matrix.diagonal = vec![2.0, 4.0, 8.0];
        matrix.coupling[0] = vec![-1.0, -3.0, 0.0];
        assert_eq!(matrix.view().coupling_sums(), [1.0, 4.0, 3.0]);
        assert_eq!(matrix.view().gershgorin_radius(), 1.0);
    }
}
