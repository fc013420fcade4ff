//! Solves with the factors of the separators between blocks.

use super::block_solve::SolveBuffers;
use super::front::Size;
use super::real::padded;
use super::simd::{self, Kernels, Part, Product, Update};
use super::trunk::{FrontFactor, TrunkWork};

impl TrunkWork<'_> {
    /// The way up of a solve on `x`: one row a right-hand side, `num_nodes` values and a 0 each.
    pub(super) fn forward<T: Kernels>(&self, factors: &[FrontFactor<T>], x: &mut [T], buffers: &mut SolveBuffers<T>) {
        let len = x.len() / buffers.count;
        for (front, factor) in self.fronts().iter().zip(factors) {
            collect(x, len, &front.pivots, front.pivots.len(), &mut buffers.pivots);
            if buffers.pivots.iter().all(|&value| value == T::ZERO) {
                continue;
            }
            let row = padded(front.boundary.len());
            buffers.boundary.resize(row * buffers.count, T::ZERO);
            self.rows_times(factor.size.boundary, &buffers.pivots, &factor.gain, &mut buffers.boundary, buffers.count);
            for (x, changes) in x.chunks_mut(len).zip(buffers.boundary.chunks(row.max(1))) {
                for (&node, change) in front.boundary.iter().zip(changes) {
                    x[node as usize] -= *change;
                }
            }
        }
    }

    /// The way down: x1 = P f1 - K x2.
    pub(super) fn backward<T: Kernels>(&self, factors: &[FrontFactor<T>], x: &mut [T], buffers: &mut SolveBuffers<T>) {
        let len = x.len() / buffers.count;
        for (front, factor) in self.fronts().iter().zip(factors).rev() {
            let Size { pivots, boundary } = factor.size;
            collect(x, len, &front.pivots, pivots, &mut buffers.pivots);
            collect(x, len, &front.boundary, padded(boundary), &mut buffers.boundary);
            buffers.out.resize(padded(pivots) * buffers.count, T::ZERO);
            self.rows_times(pivots, &buffers.pivots, &factor.inverse, &mut buffers.out, buffers.count);
            let rows = buffers.boundary.chunks(padded(boundary).max(1)).map(Some).chain(std::iter::repeat(None));
            for ((x, out), boundary_values) in x.chunks_mut(len).zip(buffers.out.chunks_mut(padded(pivots))).zip(rows) {
                if let Some(values) = boundary_values {
                    simd::subtract_dots(
                        self.simd,
                        boundary,
                        &factor.gain,
                        padded(boundary),
                        values,
                        &mut out[..pivots],
                    );
                }
                for (&node, value) in front.pivots.iter().zip(out) {
                    x[node as usize] = *value;
                }
            }
        }
    }

    /// `count` rows of values times a matrix of `cols` columns.
    fn rows_times<T: Kernels>(&self, cols: usize, rows: &[T], matrix: &[T], out: &mut [T], count: usize) {
        let (m, n, k) = (count, cols, rows.len() / count);
        let (a, a_row, a_col, b, b_row, b_col) = (rows, k, 1, matrix, padded(cols), 1);
        let (and, c, c_row, update, part) = (None, out, padded(cols), Update::Set, Part::Full);
        Product { m, n, k, a, a_row, a_col, b, b_row, b_col, and, c, c_row, update, part }.dense(self.simd);
    }
}

/// The values at some nodes, one row of `row` values for each right-hand side of `len` values.
fn collect<T: Kernels>(x: &[T], len: usize, nodes: &[u32], row: usize, out: &mut Vec<T>) {
    out.clear();
    for (at, x) in x.chunks(len).enumerate() {
        out.extend(nodes.iter().map(|&node| x[node as usize]));
        out.resize((at + 1) * row, T::ZERO);
    }
}
