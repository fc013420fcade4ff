//! Solves with the factors of the separators between blocks.

use super::front::Size;
use super::real::padded;
use super::simd::{self, Kernels, Part, Product, Update};
use super::trunk::{FrontFactor, TrunkWork};

/// The values of one front, one row a right-hand side.
#[derive(Debug, Default)]
pub(super) struct TrunkBuffers<T> {
    pivots: Vec<T>,
    boundary: Vec<T>,
    out: Vec<T>,
}

impl TrunkWork<'_> {
    /// The way up of a solve on `x`, one row of `num_nodes` values and a 0 for each of `count` right-hand sides: leaves P f1 at
    /// the pivots.
    pub(super) fn forward<T: Kernels>(
        &self,
        factors: &[FrontFactor<T>],
        x: &mut [T],
        count: usize,
        buffers: &mut TrunkBuffers<T>,
    ) {
        let len = x.len() / count;
        for (front, factor) in self.fronts().iter().zip(factors) {
            let Size { pivots, boundary } = factor.size;
            collect(x, len, &front.pivots, pivots, &mut buffers.pivots);
            if buffers.pivots.iter().all(|&value| value == T::ZERO) {
                continue;
            }
            let TrunkBuffers { pivots: values, boundary: changes, out } = &mut *buffers;
            self.rows_times(boundary, values, &factor.gain, changes, count);
            self.rows_times(pivots, values, &factor.inverse, out, count);
            for (at, x) in x.chunks_mut(len).enumerate() {
                for (&node, change) in front.boundary.iter().zip(&changes[at * padded(boundary)..]) {
                    x[node as usize] -= *change;
                }
                for (&node, value) in front.pivots.iter().zip(&out[at * padded(pivots)..]) {
                    x[node as usize] = *value;
                }
            }
        }
    }

    /// The way down: x1 = P f1 - K x2.
    pub(super) fn backward<T: Kernels>(
        &self,
        factors: &[FrontFactor<T>],
        x: &mut [T],
        count: usize,
        buffers: &mut TrunkBuffers<T>,
    ) {
        let len = x.len() / count;
        for (front, factor) in self.fronts().iter().zip(factors).rev() {
            let Size { pivots, boundary } = factor.size;
            let row = padded(boundary);
            collect(x, len, &front.boundary, row, &mut buffers.boundary);
            collect(x, len, &front.pivots, pivots, &mut buffers.out);
            simd::subtract_dots(
                self.simd,
                (pivots, boundary, count),
                (&factor.gain, row),
                (&buffers.boundary, row),
                &mut buffers.out,
            );
            for (x, out) in x.chunks_mut(len).zip(buffers.out.chunks(pivots)) {
                for (&node, value) in front.pivots.iter().zip(out) {
                    x[node as usize] = *value;
                }
            }
        }
    }

    /// `count` rows of values times a matrix of `cols` columns.
    fn rows_times<T: Kernels>(&self, cols: usize, rows: &[T], matrix: &[T], out: &mut Vec<T>, count: usize) {
        out.resize(count * padded(cols), T::ZERO);
        let (m, n, k) = (count, cols, rows.len() / count);
        let (a, a_row, a_col, b, b_row, b_col) = (rows, k, 1, matrix, padded(cols), 1);
        let (and, c, c_row, update, part) = (None, &mut out[..], padded(cols), Update::Set, Part::Full);
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
