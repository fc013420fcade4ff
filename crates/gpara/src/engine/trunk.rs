//! Numeric work on the dense fronts of the separators between blocks.

use super::block::{SolveBuffers, ring_values};
use super::dissection::{Front, Part, Run};
use super::front::{self, Dense, Scratch, Size};
use super::plan::{Place, Places, Plan, Slot, Trunk};
use super::real::{Aligned, padded};
use super::simd::{self, Kernels, Simd, Update};

/// Subtrees with at least this many pivots are worked on in parallel; smaller ones cost less than the hand-over.
const PARALLEL_PIVOTS: usize = 256;

/// The matrices of one front.
#[derive(Debug)]
pub(super) struct FrontFactor<T> {
    size: Size,
    inverse: Aligned<T>,
    gain: Aligned<T>,
    /// S on the way up, Z22 on the way down.
    outer: Aligned<T>,
    dinverse: Aligned<T>,
    dgain: Aligned<T>,
    douter: Aligned<T>,
    z11: Aligned<T>,
    z12: Aligned<T>,
    dz11: Aligned<T>,
    dz12: Aligned<T>,
    pub(super) pivots: Aligned<T>,
}

impl<T: Kernels> FrontFactor<T> {
    pub(super) fn new(front: &Front) -> Self {
        let size = Size { pivots: front.pivots.len(), boundary: front.boundary.len() };
        let (square, wide, outer) = (size.square::<Dense>(), size.wide::<Dense>(), size.outer::<Dense>());
        let zeros = Aligned::zeros;
        Self {
            size,
            inverse: zeros(square),
            gain: zeros(wide),
            outer: zeros(outer),
            dinverse: zeros(square),
            dgain: zeros(wide),
            douter: zeros(outer),
            z11: zeros(square),
            z12: zeros(wide),
            dz11: zeros(square),
            dz12: zeros(wide),
            pivots: zeros(size.pivots),
        }
    }

    /// Values held.
    #[cfg(test)]
    pub(super) fn num_values(&self) -> usize {
        let up = [&self.inverse, &self.gain, &self.outer, &self.dinverse, &self.dgain, &self.douter];
        let down = [&self.z11, &self.z12, &self.dz11, &self.dz12, &self.pivots];
        up.into_iter().chain(down).map(|values| values.len()).sum()
    }

    /// The entry of Z at a slot of the plan.
    pub(super) fn covariance(&self, slot: Slot) -> T {
        match Places::new::<Dense>(self.size).of(slot) {
            Place::Square(at) => self.z11[at],
            Place::Wide(at) => self.z12[at],
        }
    }

    /// diag(Z) and -diag(dZ) of the pivots.
    pub(super) fn diagonals(&self) -> impl Iterator<Item = (T, T)> + '_ {
        let step = padded(self.size.pivots) + 1;
        (0..self.size.pivots).map(move |at| (self.z11[at * step], -self.dz11[at * step]))
    }
}

/// The fronts above the blocks.
#[derive(Clone, Copy)]
pub(super) struct TrunkWork<'a> {
    pub(super) simd: Simd,
    pub(super) plan: &'a Plan,
    /// Cells of a block's ring.
    pub(super) ring: usize,
}

/// A subtree's share of what is written: its fronts, and the ring matrices of its blocks.
struct Share<'a, T> {
    fronts: &'a mut [FrontFactor<T>],
    first_front: usize,
    rings: &'a mut [T],
    drings: &'a mut [T],
    first_block: usize,
}

impl<'a, T> Share<'a, T> {
    /// The shares of the two parts of a front whose own entry is taken off already.
    fn split(self, front: &Front, fronts: &[Front], ring: usize) -> [(Part, Self); 2] {
        let [first, second] = front.parts[..] else { unreachable!("a rectangle is cut in two") };
        let (front_at, block_at) = match second {
            Part::Front(at) => (fronts[at].first, fronts[at].blocks.0),
            Part::Block(at) => (self.first_front + self.fronts.len(), at),
        };
        let (first_fronts, second_fronts) = self.fronts.split_at_mut(front_at - self.first_front);
        let at = (block_at - self.first_block) * ring_values(ring);
        let (first_rings, second_rings) = self.rings.split_at_mut(at);
        let (first_drings, second_drings) = self.drings.split_at_mut(at.min(self.drings.len()));
        [
            (
                first,
                Self {
                    fronts: first_fronts,
                    first_front: self.first_front,
                    rings: first_rings,
                    drings: first_drings,
                    first_block: self.first_block,
                },
            ),
            (
                second,
                Self {
                    fronts: second_fronts,
                    first_front: front_at,
                    rings: second_rings,
                    drings: second_drings,
                    first_block: block_at,
                },
            ),
        ]
    }
}

/// Which sweep a subtree makes on the way up.
#[derive(Clone, Copy)]
enum Up<'a, T> {
    /// Elimination of the listed values.
    Eliminate(&'a [T]),
    /// Its derivative along these weights.
    Differentiate(&'a [T]),
}

impl TrunkWork<'_> {
    fn trunk(&self) -> &Trunk {
        &self.plan.trunk
    }

    fn fronts(&self) -> &[Front] {
        &self.trunk().dissection.fronts
    }

    /// Eliminates the separators, given the matrices of the blocks' rings.
    pub(super) fn eliminate<T: Kernels>(
        &self,
        values: &[T],
        fronts: &mut [FrontFactor<T>],
        scratch: &mut [Scratch<T>],
        rings: &mut [T],
    ) {
        self.sweep_up(Up::Eliminate(values), fronts, scratch, rings);
    }

    /// The derivative of [`eliminate`](Self::eliminate) along `weights`, one value a node.
    pub(super) fn differentiate<T: Kernels>(
        &self,
        weights: &[T],
        fronts: &mut [FrontFactor<T>],
        scratch: &mut [Scratch<T>],
        drings: &mut [T],
    ) {
        self.sweep_up(Up::Differentiate(weights), fronts, scratch, drings);
    }

    fn sweep_up<T: Kernels>(
        &self,
        sweep: Up<'_, T>,
        fronts: &mut [FrontFactor<T>],
        scratch: &mut [Scratch<T>],
        rings: &mut [T],
    ) {
        if !fronts.is_empty() {
            let share = Share { fronts, first_front: 0, rings, drings: &mut [], first_block: 0 };
            self.up(sweep, self.fronts().len() - 1, share, scratch);
        }
    }

    fn up<T: Kernels>(&self, sweep: Up<'_, T>, at: usize, mut share: Share<'_, T>, scratch: &mut [Scratch<T>]) {
        let front = &self.fronts()[at];
        let (own, below) = share.fronts.split_last_mut().expect("a subtree holds its own front");
        let (first_front, first_block) = (share.first_front, share.first_block);
        {
            let (rings, drings) = (&mut *share.rings, &mut *share.drings);
            let below = Share { fronts: &mut *below, first_front, rings, drings, first_block };
            let parts = below.split(front, self.fronts(), self.ring);
            self.each(parts, scratch, |part, share, scratch| {
                if let Part::Front(child) = part {
                    self.up(sweep, child, share, scratch);
                }
            });
        }
        share.fronts = &mut [];
        let scratch = &mut scratch[0];
        let size = own.size;
        match sweep {
            Up::Eliminate(values) => {
                own.inverse.fill(T::ZERO);
                let f12 = &mut scratch.f12[..size.wide::<Dense>()];
                f12.fill(T::ZERO);
                self.scatter(at, values, size, &mut own.inverse, f12);
                let parts = Below { fronts: below, first_front, rings: share.rings, first_block, derivative: false };
                for (runs, source) in self.parts(front, &parts) {
                    front::add_to_pivots::<Dense, T>(self.simd, size, runs, source, &mut own.inverse, f12);
                }
                let (f11, f22) = (&mut own.inverse, &mut own.outer);
                front::eliminate::<Dense, T>(self.simd, size, f11, f22, &mut own.gain, &mut own.pivots, scratch);
                for (runs, source) in self.parts(front, &parts) {
                    front::add_to_boundary::<Dense, T>(self.simd, size, runs, source, &mut own.outer);
                }
            }
            Up::Differentiate(weights) => {
                let df11 = &mut scratch.df11[..size.square::<Dense>()];
                let df12 = &mut scratch.df12[..size.wide::<Dense>()];
                df11.fill(T::ZERO);
                df12.fill(T::ZERO);
                for (&pivot, diagonal) in front.pivots.iter().zip(df11.iter_mut().step_by(padded(size.pivots) + 1)) {
                    *diagonal = weights[pivot as usize];
                }
                let parts = Below { fronts: below, first_front, rings: share.rings, first_block, derivative: true };
                for (runs, source) in self.parts(front, &parts) {
                    front::add_to_pivots::<Dense, T>(self.simd, size, runs, source, df11, df12);
                }
                let (factor, out) = ((&*own.inverse, &*own.gain), (&mut *own.dinverse, &mut *own.dgain));
                front::differentiate::<Dense, T>(self.simd, size, factor, &mut own.douter, out, scratch);
                for (runs, source) in self.parts(front, &parts) {
                    front::add_to_boundary::<Dense, T>(self.simd, size, runs, source, &mut own.douter);
                }
            }
        }
    }

    /// Runs `work` on both parts of a front, in parallel where they are large and there is scratch for two.
    fn each<T: Kernels>(
        &self,
        parts: [(Part, Share<'_, T>); 2],
        scratch: &mut [Scratch<T>],
        work: impl Fn(Part, Share<'_, T>, &mut [Scratch<T>]) + Sync,
    ) {
        let [(first, first_share), (second, second_share)] = parts;
        let pivots = |share: &Share<'_, T>| share.fronts.iter().map(|front| front.size.pivots).sum::<usize>();
        let large = pivots(&first_share) >= PARALLEL_PIVOTS && pivots(&second_share) >= PARALLEL_PIVOTS;
        if large && scratch.len() > 1 {
            let (first_scratch, second_scratch) = scratch.split_at_mut(scratch.len() / 2);
            rayon::join(|| work(first, first_share, first_scratch), || work(second, second_share, second_scratch));
        } else {
            work(first, first_share, scratch);
            work(second, second_share, scratch);
        }
    }

    /// The entries of the matrix that enter with a front.
    fn scatter<T: Kernels>(&self, at: usize, values: &[T], size: Size, f11: &mut [T], f12: &mut [T]) {
        let trunk = self.trunk();
        let place = Places::new::<Dense>(size);
        for &(slot, index) in &trunk.entries[trunk.entry_starts[at]..trunk.entry_starts[at + 1]] {
            *match place.of(slot) {
                Place::Square(at) => &mut f11[at],
                Place::Wide(at) => &mut f12[at],
            } = values[index as usize];
        }
    }

    /// Runs and matrix of each part of a front, with the row length of the matrix.
    fn parts<'a, T>(
        &'a self,
        front: &'a Front,
        below: &'a Below<'_, T>,
    ) -> impl Iterator<Item = (&'a [Run], (&'a [T], usize))> + 'a {
        let dissection = &self.trunk().dissection;
        front.parts.iter().map(move |part| match *part {
            Part::Front(child) => {
                let source = &below.fronts[child - below.first_front];
                let matrix = if below.derivative { &*source.douter } else { &*source.outer };
                (&dissection.fronts[child].runs[..], (matrix, padded(source.size.boundary)))
            }
            Part::Block(child) => {
                let len = ring_values(self.ring);
                let matrix = &below.rings[(child - below.first_block) * len..][..len];
                (&dissection.blocks[child].runs[..], (matrix, padded(self.ring)))
            }
        })
    }

    /// The selected inverse of all fronts and the covariances of the blocks' rings; with `derivative` those of dZ too.
    pub(super) fn invert<T: Kernels>(
        &self,
        derivative: bool,
        fronts: &mut [FrontFactor<T>],
        scratch: &mut [Scratch<T>],
        rings: &mut [T],
        drings: &mut [T],
    ) {
        if !fronts.is_empty() {
            let share = Share { fronts, first_front: 0, rings, drings, first_block: 0 };
            self.down(derivative, self.fronts().len() - 1, None, share, scratch);
        }
    }

    fn down<T: Kernels>(
        &self,
        derivative: bool,
        at: usize,
        parent: Option<&FrontFactor<T>>,
        share: Share<'_, T>,
        scratch: &mut [Scratch<T>],
    ) {
        let front = &self.fronts()[at];
        let (own, below) = share.fronts.split_last_mut().expect("a subtree holds its own front");
        let (simd, size) = (self.simd, own.size);
        if let Some(parent) = parent {
            let blocks = (&*parent.z11, &*parent.z12, &*parent.outer);
            front::gather::<Dense, T>(simd, parent.size, &front.runs, blocks, size.boundary, &mut own.outer);
        }
        let factor = (&*own.inverse, &*own.gain);
        let z = (&mut *own.z11, &mut *own.z12);
        front::invert::<Dense, T>(simd, size, factor, &own.outer, z, &mut scratch[0]);
        if derivative {
            if let Some(parent) = parent {
                let blocks = (&*parent.dz11, &*parent.dz12, &*parent.douter);
                front::gather::<Dense, T>(simd, parent.size, &front.runs, blocks, size.boundary, &mut own.douter);
            }
            let dfactor = (&*own.dinverse, &*own.dgain);
            let (z, dz) = ((&*own.z12, &*own.outer), (&mut *own.dz11, &mut *own.dz12));
            let scratch = &mut scratch[0];
            front::differentiate_inverse::<Dense, T>(simd, size, &own.gain, dfactor, z, &own.douter, dz, scratch);
        }
        let own = &*own;
        let below = Share { fronts: below, ..share };
        self.each(below.split(front, self.fronts(), self.ring), scratch, |part, share, scratch| match part {
            Part::Front(child) => self.down(derivative, child, Some(own), share, scratch),
            Part::Block(child) => {
                let len = ring_values(self.ring);
                self.gather_ring(child, size, (&own.z11, &own.z12, &own.outer), &mut share.rings[..len]);
                if derivative {
                    self.gather_ring(child, size, (&own.dz11, &own.dz12, &own.douter), &mut share.drings[..len]);
                }
            }
        });
    }

    /// The full covariance of a block's ring, whose order is not that of elimination; cells that do not exist stay as they
    /// are, since the block is not coupled to them.
    fn gather_ring<T: Kernels>(&self, block: usize, size: Size, blocks: (&[T], &[T], &[T]), ring: &mut [T]) {
        let row = padded(self.ring);
        let runs = &self.trunk().dissection.blocks[block].runs;
        front::gather_upper::<Dense, T>(self.simd, size, runs, blocks, row, ring);
        let (l1, l2) = (padded(size.pivots), padded(size.boundary));
        for (at, rows) in runs.iter().enumerate() {
            simd::mirror(self.simd, rows.len, &mut ring[rows.start * (row + 1)..], row);
            for cols in &runs[at + 1..] {
                let (source, source_row) = match (rows.target < size.pivots, cols.target < size.pivots) {
                    (true, true) => (&blocks.0[rows.target * l1 + cols.target..], l1),
                    (true, false) => (&blocks.1[rows.target * l2 + cols.target - size.pivots..], l2),
                    _ => (&blocks.2[(rows.target - size.pivots) * l2 + cols.target - size.pivots..], l2),
                };
                let target = &mut ring[cols.start * row + rows.start..];
                simd::transpose(self.simd, (rows.len, cols.len), source, source_row, target, row);
            }
        }
    }

    /// The way up of a solve on `x`: one row a right-hand side, `num_nodes` values and a 0 each.
    pub(super) fn forward<T: Kernels>(&self, factors: &[FrontFactor<T>], x: &mut [T], buffers: &mut SolveBuffers<T>) {
        let len = x.len() / buffers.count;
        for (front, factor) in self.fronts().iter().zip(factors) {
            collect(x, len, &front.pivots, front.pivots.len(), &mut buffers.pivots);
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
        let (and, c, c_row, update, part) = (None, out, padded(cols), Update::Set, simd::Part::Full);
        simd::Product { m, n, k, a, a_row, a_col, b, b_row, b_col, and, c, c_row, update, part }.dense(self.simd);
    }
}

/// What the parts of a front left.
struct Below<'a, T> {
    fronts: &'a [FrontFactor<T>],
    first_front: usize,
    rings: &'a [T],
    first_block: usize,
    derivative: bool,
}

/// The values at some nodes, one row of `row` values for each right-hand side of `len` values.
fn collect<T: Kernels>(x: &[T], len: usize, nodes: &[u32], row: usize, out: &mut Vec<T>) {
    out.clear();
    for (at, x) in x.chunks(len).enumerate() {
        out.extend(nodes.iter().map(|&node| x[node as usize]));
        out.resize((at + 1) * row, T::ZERO);
    }
}
