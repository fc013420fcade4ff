//! Numeric work on one batch of blocks, side by side in the lanes of vectors.

use super::assembly;
use super::dissection::{Front, Part, Run};
use super::front::{self, Lanes, Layout, Scratch, Size};
use super::leaf;
use super::offsets::Offsets;
use super::plan::{Batch, Place, Places, Plan, Template};
use super::real::{Aligned, LANES, padded};
use super::simd::{self, Kernels, Simd};

/// What is kept of one batch: P and K of every front, and their derivatives.
#[derive(Debug)]
pub(super) struct BlockFactor<T> {
    pub(super) inverse: Aligned<T>,
    pub(super) gain: Aligned<T>,
    dinverse: Aligned<T>,
    dgain: Aligned<T>,
    /// One vector a pivot, in the order of elimination.
    pub(super) pivots: Aligned<T>,
    /// diag(Z) and -diag(dZ), likewise.
    pub(super) variance: Aligned<T>,
    pub(super) numerator: Aligned<T>,
}

/// Room to work on one batch after another.
#[derive(Debug)]
pub(super) struct BlockScratch<T> {
    front: Scratch<T>,
    outer: [Aligned<T>; 2],
    douter: [Aligned<T>; 2],
    down: Aligned<T>,
    ddown: Aligned<T>,
}

impl<T: Kernels> BlockFactor<T> {
    pub(super) fn new(offsets: &Offsets, template: &Template) -> Self {
        let zeros = Aligned::zeros;
        let cells = template.pivot_starts[offsets.sizes.len()] * LANES;
        Self {
            inverse: zeros(offsets.square_end),
            gain: zeros(offsets.wide_end),
            dinverse: zeros(offsets.square_end),
            dgain: zeros(offsets.wide_end),
            pivots: zeros(cells),
            variance: zeros(cells),
            numerator: zeros(cells),
        }
    }
}

#[cfg(test)]
impl<T: Kernels> BlockFactor<T> {
    /// Values held.
    pub(super) fn num_values(&self) -> usize {
        let matrices = [&self.inverse, &self.gain, &self.dinverse, &self.dgain];
        let vectors = [&self.pivots, &self.variance, &self.numerator];
        matrices.into_iter().chain(vectors).map(|values| values.len()).sum()
    }
}

impl<T: Kernels> BlockScratch<T> {
    pub(super) fn new(offsets: &Offsets) -> Self {
        let zeros = Aligned::zeros;
        let outer = || offsets.outer_end.map(zeros);
        Self {
            front: Scratch::for_fronts::<Lanes>(offsets.sizes.iter().copied()),
            outer: outer(),
            douter: outer(),
            down: zeros(offsets.down_end),
            ddown: zeros(offsets.down_end),
        }
    }
}

/// A batch with its tables.
#[derive(Clone, Copy)]
pub(super) struct BlockWork<'a> {
    pub(super) simd: Simd,
    pub(super) plan: &'a Plan,
    pub(super) offsets: &'a Offsets,
    pub(super) batch: &'a Batch,
}

/// The vectors of a flat array.
fn vectors<T>(values: &[T]) -> &[[T; LANES]] {
    values.as_chunks().0
}

/// The vectors of a flat array.
fn vectors_mut<T>(values: &mut [T]) -> &mut [[T; LANES]] {
    values.as_chunks_mut().0
}

/// One value of each lane.
#[inline(always)]
fn load<T: Copy>(target: &mut [T; LANES], values: &[T], index: &[u32; LANES]) {
    for (target, &at) in target.iter_mut().zip(index) {
        *target = values[at as usize];
    }
}

impl BlockWork<'_> {
    pub(super) fn template(&self) -> &Template {
        &self.plan.template
    }

    /// Runs and matrix of each part of a front, with the row length of the matrix.
    fn parts<'a, T>(
        &'a self,
        front: &'a Front,
        outer: &'a [T],
    ) -> impl Iterator<Item = (&'a [Run], (&'a [T], usize))> + 'a {
        front.parts.iter().map(move |part| {
            let Part::Front(child) = *part else { unreachable!("a template has no blocks") };
            let row = Lanes::row(self.offsets.sizes[child].boundary);
            (&self.template().dissection.fronts[child].runs[..], (&outer[self.offsets.outer(child)], row))
        })
    }

    /// Eliminates the blocks; `values` as listed by the plan. Leaves the upper triangles of the rings' matrices in `rings`,
    /// lane by lane.
    pub(super) fn eliminate<T: Kernels>(
        &self,
        values: &[T],
        factor: &mut BlockFactor<T>,
        scratch: &mut BlockScratch<T>,
        rings: &mut [T],
    ) {
        let Self { simd, offsets, .. } = *self;
        let template = self.template();
        for (at, front) in template.dissection.fronts.iter().enumerate() {
            let size = offsets.sizes[at];
            let (own, children) = by_parity(&mut scratch.outer, front.depth);
            let f11 = &mut factor.inverse[offsets.square(at)];
            let f22 = &mut own[offsets.outer(at)];
            let f12 = &mut scratch.front.f12[..size.wide::<Lanes>()];
            f11.fill(T::ZERO);
            f12.fill(T::ZERO);
            let entries = template.entry_starts[at]..template.entry_starts[at + 1];
            let place = Places::new::<Lanes>(size);
            let (f11_vectors, f12_vectors) = (vectors_mut(f11), vectors_mut(f12));
            for (&slot, index) in template.slots[entries.clone()].iter().zip(&self.batch.entries[entries]) {
                let target = match place.of(slot) {
                    Place::Square(at) => &mut f11_vectors[at],
                    Place::Wide(at) => &mut f12_vectors[at],
                };
                load(target, values, index);
            }
            for (runs, source) in self.parts(front, children) {
                assembly::add_to_pivots::<Lanes, T>(simd, size, runs, source, f11, f12);
            }
            let (gain, pivots) = (&mut factor.gain[offsets.wide(at)], &mut factor.pivots[self.pivots(at)]);
            front::eliminate::<Lanes, T>(simd, size, f11, f22, gain, pivots, &mut scratch.front);
            for (runs, source) in self.parts(front, children) {
                assembly::add_to_boundary::<Lanes, T>(simd, size, runs, source, f22);
            }
        }
        self.unpack(&scratch.outer, rings);
    }

    /// The derivative of [`eliminate`](Self::eliminate) along the diagonal `weights` (`num_nodes` values, then a 0).
    pub(super) fn differentiate<T: Kernels>(
        &self,
        weights: &[T],
        factor: &mut BlockFactor<T>,
        scratch: &mut BlockScratch<T>,
        rings: &mut [T],
    ) {
        let Self { simd, offsets, .. } = *self;
        let template = self.template();
        for (at, front) in template.dissection.fronts.iter().enumerate() {
            let size = offsets.sizes[at];
            let (own, children) = by_parity(&mut scratch.douter, front.depth);
            let df22 = &mut own[offsets.outer(at)];
            let of_factor = (&factor.inverse[offsets.square(at)], &factor.gain[offsets.wide(at)]);
            let out = (&mut factor.dinverse[offsets.square(at)], &mut factor.dgain[offsets.wide(at)]);
            let nodes = &self.batch.pivot_nodes[template.pivot_starts[at]..template.pivot_starts[at + 1]];
            if front.parts.is_empty() {
                for (weight, nodes) in vectors_mut(&mut scratch.front.df11).iter_mut().zip(nodes) {
                    load(weight, weights, nodes);
                }
                leaf::differentiate(simd, size, of_factor, df22, out, &mut scratch.front);
                continue;
            }
            let df11 = &mut scratch.front.df11[..size.square::<Lanes>()];
            let df12 = &mut scratch.front.df12[..size.wide::<Lanes>()];
            df11.fill(T::ZERO);
            df12.fill(T::ZERO);
            for (diagonal, index) in vectors_mut(df11).iter_mut().step_by(Lanes::row(size.pivots) + 1).zip(nodes) {
                load(diagonal, weights, index);
            }
            for (runs, source) in self.parts(front, children) {
                assembly::add_to_pivots::<Lanes, T>(simd, size, runs, source, df11, df12);
            }
            front::differentiate::<Lanes, T>(simd, size, of_factor, df22, out, &mut scratch.front);
            for (runs, source) in self.parts(front, children) {
                assembly::add_to_boundary::<Lanes, T>(simd, size, runs, source, df22);
            }
        }
        self.unpack(&scratch.douter, rings);
    }

    /// The upper triangle of the matrix of the ring of each block, from side by side to one after another.
    fn unpack<T: Kernels>(&self, outer: &[Aligned<T>; 2], rings: &mut [T]) {
        let root = self.offsets.sizes.len() - 1;
        let size = self.offsets.sizes[root].boundary;
        let source = &outer[0][self.offsets.outer(root)];
        let (row, lane) = (padded(size), ring_values(size));
        for at in 0..size {
            let vectors = &source[(at * Lanes::row(size) + at) * LANES..][..(size - at) * LANES];
            simd::transpose(self.simd, (size - at, LANES), vectors, LANES, &mut rings[at * row + at..], lane);
        }
    }

    /// The reverse of [`unpack`](Self::unpack), for the way down.
    fn pack<T: Kernels>(&self, rings: &[T], down: &mut [T]) {
        let root = self.offsets.sizes.len() - 1;
        let size = self.offsets.sizes[root].boundary;
        let (row, lane) = (padded(size), ring_values(size));
        for at in 0..size {
            let vectors = &mut down[(at * Lanes::row(size) + at) * LANES..][..(size - at) * LANES];
            simd::transpose(self.simd, (LANES, size - at), &rings[at * row + at..], lane, vectors, LANES);
        }
    }

    /// diag(Z) of all pivots, from the upper triangle of Z22 of each ring. `visit` sees Z11 and Z12 of each front.
    pub(super) fn invert<T: Kernels>(
        &self,
        factor: &mut BlockFactor<T>,
        scratch: &mut BlockScratch<T>,
        rings: &[T],
        mut visit: Option<impl FnMut(usize, &[T], &[T])>,
    ) {
        let Self { simd, offsets, .. } = *self;
        self.pack(rings, &mut scratch.down);
        for at in (0..offsets.sizes.len()).rev() {
            let (parents, own) = scratch.down.split_at_mut(offsets.down[at]);
            let own = Down::split(offsets.sizes[at], own);
            self.descend(at, parents, &mut *own.z22);
            if visit.is_none() && self.is_leaf(at) {
                self.invert_leaf(at, factor, own.z22, &mut scratch.front);
                continue;
            }
            let of_factor = (&factor.inverse[offsets.square(at)], &factor.gain[offsets.wide(at)]);
            front::invert::<Lanes, T>(
                simd,
                offsets.sizes[at],
                of_factor,
                own.z22,
                (own.z11, own.z12),
                &mut scratch.front,
            );
            if let Some(visit) = &mut visit {
                visit(at, own.z11, own.z12);
            }
            self.diagonal(at, own.z11, &mut factor.variance);
        }
    }

    /// [`invert`](Self::invert) with -diag(dZ) beside it.
    pub(super) fn invert_with_derivative<T: Kernels>(
        &self,
        factor: &mut BlockFactor<T>,
        scratch: &mut BlockScratch<T>,
        (rings, drings): (&[T], &[T]),
    ) {
        let Self { simd, offsets, .. } = *self;
        self.pack(rings, &mut scratch.down);
        self.pack(drings, &mut scratch.ddown);
        for at in (0..offsets.sizes.len()).rev() {
            let size = offsets.sizes[at];
            let (parents, own) = scratch.down.split_at_mut(offsets.down[at]);
            let (dparents, down) = scratch.ddown.split_at_mut(offsets.down[at]);
            let (own, down) = (Down::split(size, own), Down::split(size, down));
            self.descend(at, parents, &mut *own.z22);
            self.descend(at, dparents, &mut *down.z22);
            let (square, wide) = (offsets.square(at), offsets.wide(at));
            if self.is_leaf(at) {
                self.invert_leaf(at, factor, own.z22, &mut scratch.front);
                self.diagonal(at, &factor.dinverse[square], &mut factor.numerator);
                let pivots = self.pivots(at);
                let out = &mut factor.numerator[pivots];
                out.iter_mut().for_each(|value| *value = -*value);
                let gains = (&factor.gain[wide.clone()], &factor.dgain[wide]);
                let scratch = &mut scratch.front;
                leaf::differentiate_inverse(simd, size, gains, own.z22, down.z22, out, scratch);
                continue;
            }
            let gain = &factor.gain[wide.clone()];
            let of_factor = (&factor.inverse[square.clone()], gain);
            front::invert::<Lanes, T>(simd, size, of_factor, own.z22, (own.z11, &mut *own.z12), &mut scratch.front);
            let of_derivative = (&factor.dinverse[square], &factor.dgain[wide]);
            let (z, dz) = ((&*own.z12, &*own.z22), (&mut *down.z11, down.z12));
            front::differentiate_inverse::<Lanes, T>(
                simd,
                size,
                gain,
                of_derivative,
                z,
                down.z22,
                dz,
                &mut scratch.front,
            );
            self.diagonal(at, own.z11, &mut factor.variance);
            self.diagonal(at, down.z11, &mut factor.numerator);
        }
        factor.numerator.iter_mut().for_each(|value| *value = -*value);
    }

    fn is_leaf(&self, at: usize) -> bool {
        self.template().dissection.fronts[at].parts.is_empty()
    }

    /// The values of the pivots of a front among those of all.
    fn pivots(&self, at: usize) -> std::ops::Range<usize> {
        self.template().pivot_starts[at] * LANES..self.template().pivot_starts[at + 1] * LANES
    }

    /// diag(Z) of the pivots of a front without parts.
    fn invert_leaf<T: Kernels>(&self, at: usize, factor: &mut BlockFactor<T>, z22: &mut [T], scratch: &mut Scratch<T>) {
        let offsets = self.offsets;
        self.diagonal(at, &factor.inverse[offsets.square(at)], &mut factor.variance);
        let (gain, out) = (&factor.gain[offsets.wide(at)], &mut factor.variance[self.pivots(at)]);
        leaf::invert(self.simd, offsets.sizes[at], gain, z22, out, scratch);
    }

    /// Z22 of a front from its parent, which is in `parents`; that of the root is there already.
    fn descend<T: Kernels>(&self, at: usize, parents: &mut [T], z22: &mut [T]) {
        let offsets = self.offsets;
        let fronts = &self.template().dissection.fronts;
        let root = fronts.len() - 1;
        if at == root {
            return;
        }
        let parent = self.plan.template.parents[at];
        let size = offsets.sizes[parent];
        let of_parent = Down::split(size, &mut parents[offsets.down[parent]..]);
        let blocks = (&*of_parent.z11, &*of_parent.z12, &*of_parent.z22);
        assembly::gather::<Lanes, T>(
            self.simd,
            size,
            &fronts[at].runs,
            blocks,
            Lanes::row(offsets.sizes[at].boundary),
            z22,
        );
    }

    fn diagonal<T: Kernels>(&self, at: usize, z11: &[T], out: &mut [T]) {
        let pivots = self.offsets.sizes[at].pivots;
        let out = &mut vectors_mut(out)[self.template().pivot_starts[at]..];
        for (out, diagonal) in out.iter_mut().zip(vectors(z11).iter().step_by(Lanes::row(pivots) + 1)) {
            *out = *diagonal;
        }
    }
}

/// The blocks of Z on one front.
struct Down<'a, T> {
    z22: &'a mut [T],
    z11: &'a mut [T],
    z12: &'a mut [T],
}

impl<'a, T> Down<'a, T> {
    fn split(size: Size, values: &'a mut [T]) -> Self {
        let (z22, rest) = values.split_at_mut(size.outer::<Lanes>());
        let (z11, rest) = rest.split_at_mut(size.square::<Lanes>());
        let (z12, _) = rest.split_at_mut(size.wide::<Lanes>());
        Self { z22, z11, z12 }
    }
}

/// Values of the dense matrix of one ring.
pub(super) fn ring_values(size: usize) -> usize {
    size * padded(size)
}

/// The stack of a depth's parity, and the other one.
fn by_parity<T>(stacks: &mut [Aligned<T>; 2], depth: usize) -> (&mut Aligned<T>, &Aligned<T>) {
    let [even, odd] = stacks;
    if depth.is_multiple_of(2) { (even, odd) } else { (odd, even) }
}
