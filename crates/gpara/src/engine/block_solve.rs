//! Solves with the factors of one batch of blocks.

use super::block::{BlockFactor, BlockWork};
use super::front::{Lanes, Layout};
use super::real::LANES;
use super::simd::{FieldProduct, Kernels, Update};

impl BlockWork<'_> {
    /// Vectors of a field for one right-hand side: the positions of the template, then room for the pivots of a front.
    pub(super) fn field_vectors(&self) -> usize {
        self.template().num_positions + self.offsets.room.len()
    }

    /// The way up of a solve for `count` right-hand sides: leaves P f1 at the pivots and, at the ring, what is to be added to
    /// the right-hand sides of later cells. `field` has one vector for each right-hand side at each position.
    pub(super) fn forward<T: Kernels>(&self, factor: &BlockFactor<T>, field: &mut [T], count: usize) {
        let len = count * LANES;
        for (at, front) in self.template().dissection.fronts.iter().enumerate() {
            let size = self.offsets.sizes[at];
            let (rows, columns, update) = (&front.boundary, &front.pivots, Update::Subtract);
            let (matrix, strides) = (&factor.gain[self.offsets.wide(at)], (1, Lanes::row(size.boundary)));
            FieldProduct { matrix, strides, rows, columns, count, update }.run(self.simd, field);
            let (rows, update) = (&self.offsets.room[..size.pivots], Update::Set);
            let (matrix, strides) = (&factor.inverse[self.offsets.square(at)], (Lanes::row(size.pivots), 1));
            FieldProduct { matrix, strides, rows, columns, count, update }.run(self.simd, field);
            let (positions, products) = field.split_at_mut(self.template().num_positions * len);
            for (product, &pivot) in products.chunks_exact(len).zip(&front.pivots) {
                positions[pivot as usize * len..][..len].copy_from_slice(product);
            }
        }
    }

    /// The way down of a solve: x1 = P f1 - K x2, the solution on the ring being in `field`.
    pub(super) fn backward<T: Kernels>(&self, factor: &BlockFactor<T>, field: &mut [T], count: usize) {
        for (at, front) in self.template().dissection.fronts.iter().enumerate().rev() {
            let (rows, columns, update) = (&front.pivots, &front.boundary, Update::Subtract);
            let strides = (Lanes::row(self.offsets.sizes[at].boundary), 1);
            let matrix = &factor.gain[self.offsets.wide(at)];
            FieldProduct { matrix, strides, rows, columns, count, update }.run(self.simd, field);
        }
    }
}
