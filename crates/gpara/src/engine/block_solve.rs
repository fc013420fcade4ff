//! Solves with the factors of one batch of blocks.

use super::block::{BlockFactor, BlockWork};
use super::front::{Lanes, Layout};
use super::real::LANES;
use super::simd::{Kernels, Part, Product, Update};

/// So many right-hand sides and the buffers of one front; a position has one vector for each of them.
#[derive(Debug, Default)]
pub(super) struct SolveBuffers<T> {
    pub(super) count: usize,
    pub(super) pivots: Vec<T>,
    pub(super) boundary: Vec<T>,
    pub(super) out: Vec<T>,
}

impl BlockWork<'_> {
    /// The way up of a solve: replaces `field` (the right-hand sides inside the block) by what is left for later cells.
    pub(super) fn forward<T: Kernels>(&self, factor: &BlockFactor<T>, field: &mut [T], buffers: &mut SolveBuffers<T>) {
        for (at, front) in self.template().dissection.fronts.iter().enumerate() {
            let size = self.offsets.sizes[at];
            let SolveBuffers { count, pivots, boundary, .. } = buffers;
            collect(field, *count, &front.pivots, pivots);
            collect(field, *count, &front.boundary, boundary);
            let gain = &factor.gain[self.offsets.wide(at)];
            let strides = (1, Lanes::row(size.boundary));
            let shape = (size.boundary, *count, size.pivots);
            self.apply(shape, (gain, strides), pivots, boundary, Update::Subtract);
            spread(boundary, *count, &front.boundary, field);
        }
    }

    /// The way down of a solve: x1 = P f1 - K x2, the solution on the ring being in `field`.
    pub(super) fn backward<T: Kernels>(&self, factor: &BlockFactor<T>, field: &mut [T], buffers: &mut SolveBuffers<T>) {
        for (at, front) in self.template().dissection.fronts.iter().enumerate().rev() {
            let size = self.offsets.sizes[at];
            let SolveBuffers { count, pivots, boundary, out } = buffers;
            collect(field, *count, &front.pivots, pivots);
            collect(field, *count, &front.boundary, boundary);
            out.resize(size.pivots * *count * LANES, T::ZERO);
            let inverse = (&factor.inverse[self.offsets.square(at)], (Lanes::row(size.pivots), 1));
            self.apply((size.pivots, *count, size.pivots), inverse, pivots, out, Update::Set);
            let gain = (&factor.gain[self.offsets.wide(at)], (Lanes::row(size.boundary), 1));
            self.apply((size.pivots, *count, size.boundary), gain, boundary, out, Update::Subtract);
            spread(out, *count, &front.pivots, field);
        }
    }

    /// A matrix of a front times the vectors of all right-hand sides.
    fn apply<T: Kernels>(
        &self,
        (m, n, k): (usize, usize, usize),
        (a, (a_row, a_col)): (&[T], (usize, usize)),
        b: &[T],
        c: &mut [T],
        update: Update,
    ) {
        let (b_row, b_col, c_row, and, part) = (n, 1, n, None, Part::Full);
        Product { m, n, k, a, a_row, a_col, b, b_row, b_col, and, c, c_row, update, part }.lanes(self.simd);
    }
}

/// The vectors at some positions.
fn collect<T: Copy>(field: &[T], count: usize, positions: &[u32], out: &mut Vec<T>) {
    let len = count * LANES;
    out.clear();
    for &position in positions {
        out.extend_from_slice(&field[position as usize * len..][..len]);
    }
}

/// Writes vectors to some positions.
fn spread<T: Copy>(values: &[T], count: usize, positions: &[u32], field: &mut [T]) {
    let len = count * LANES;
    for (value, &position) in values.chunks_exact(len).zip(positions) {
        field[position as usize * len..][..len].copy_from_slice(value);
    }
}
