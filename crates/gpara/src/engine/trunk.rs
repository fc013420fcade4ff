//! Numeric work on the dense fronts of the separators between blocks.

use super::block::{SolveBuffers, ring_values};
use super::dissection::{Front, Part, Run};
use super::front::{self, Dense, Scratch, Size};
use super::plan::{Place, Places, Plan, Trunk};
use super::real::{Aligned, padded};
use super::simd::{self, Kernels, Simd, Update};

/// Subtrees with at least this many pivots are worked on in parallel; smaller ones cost less than the hand-over.
const PARALLEL_PIVOTS: usize = 256;

/// What is kept of one front.
#[derive(Debug)]
pub(super) struct FrontFactor<T> {
    size: Size,
    inverse: Aligned<T>,
    gain: Aligned<T>,
    dinverse: Aligned<T>,
    dgain: Aligned<T>,
    pub(super) pivots: Aligned<T>,
    /// diag(Z) and -diag(dZ) of the pivots.
    variance: Aligned<T>,
    numerator: Aligned<T>,
    /// The entries of Z at the plan's slots, after a sweep without derivative.
    covariances: Aligned<T>,
}

impl<T: Kernels> FrontFactor<T> {
    /// `num_entries` of the matrix enter with the front.
    pub(super) fn new(front: &Front, num_entries: usize) -> Self {
        let size = Size { pivots: front.pivots.len(), boundary: front.boundary.len() };
        let (square, wide) = (size.square::<Dense>(), size.wide::<Dense>());
        let zeros = Aligned::zeros;
        Self {
            size,
            inverse: zeros(square),
            gain: zeros(wide),
            dinverse: zeros(square),
            dgain: zeros(wide),
            pivots: zeros(size.pivots),
            variance: zeros(size.pivots),
            numerator: zeros(size.pivots),
            covariances: zeros(num_entries),
        }
    }

    /// Values held.
    #[cfg(test)]
    pub(super) fn num_values(&self) -> usize {
        let matrices = [&self.inverse, &self.gain, &self.dinverse, &self.dgain];
        let vectors = [&self.pivots, &self.variance, &self.numerator, &self.covariances];
        matrices.into_iter().chain(vectors).map(|values| values.len()).sum()
    }

    /// The entries of Z at the plan's slots.
    pub(super) fn covariances(&self) -> &[T] {
        &self.covariances
    }

    /// diag(Z) and -diag(dZ) of the pivots.
    pub(super) fn diagonals(&self) -> impl Iterator<Item = (T, T)> + '_ {
        self.variance.iter().copied().zip(self.numerator.iter().copied())
    }
}

/// Where the matrices lie that a front leaves for its neighbours in the tree: S on the way up, the blocks of Z on the way
/// down. They live on a stack, so that the few in use stay in the cache.
///
/// A subtree's part starts with the matrices of its own front. Subtrees that may be worked on in parallel lie side by side;
/// otherwise what the first one leaves is all that the second one spares.
#[derive(Debug)]
pub(super) struct Stack {
    /// Values of the part of each subtree.
    up: Vec<usize>,
    down: Vec<usize>,
    /// Whether the two parts of a front are large enough to be worked on in parallel.
    parallel: Vec<bool>,
}

impl Stack {
    pub(super) fn new(fronts: &[Front]) -> Self {
        let mut pivots = vec![0; fronts.len()];
        let mut out =
            Self { up: vec![0; fronts.len()], down: vec![0; fronts.len()], parallel: vec![false; fronts.len()] };
        for (at, front) in fronts.iter().enumerate() {
            let size = Size { pivots: front.pivots.len(), boundary: front.boundary.len() };
            let children: Vec<usize> = front.parts.iter().filter_map(front_of).collect();
            pivots[at] = size.pivots + children.iter().map(|&child| pivots[child]).sum::<usize>();
            let num_large = children.iter().filter(|&&child| pivots[child] >= PARALLEL_PIVOTS).count();
            out.parallel[at] = num_large == 2;
            let parts = |part: &[usize]| [0, 1].map(|at| children.get(at).map_or(0, |&child| part[child]));
            let ([first_up, second_up], [first_down, second_down]) = (parts(&out.up), parts(&out.down));
            let left = |&child: &usize| {
                let boundary = fronts[child].boundary.len();
                Size { pivots: 0, boundary }.outer::<Dense>()
            };
            (out.up[at], out.down[at]) = match out.parallel[at] {
                true => (first_up + second_up, first_down + second_down),
                false => (first_up.max(children.first().map_or(0, left) + second_up), first_down.max(second_down)),
            };
            out.up[at] += size.outer::<Dense>();
            out.down[at] += Blocks::<f32>::len(size);
        }
        out
    }

    /// Values of the whole.
    pub(super) fn len(&self) -> usize {
        self.up.last().copied().max(self.down.last().copied()).unwrap_or(0)
    }
}

fn front_of(part: &Part) -> Option<usize> {
    match *part {
        Part::Front(child) => Some(child),
        Part::Block(_) => None,
    }
}

/// The blocks of Z and dZ on one front.
struct Blocks<'a, T> {
    z22: &'a mut [T],
    z11: &'a mut [T],
    z12: &'a mut [T],
    dz22: &'a mut [T],
    dz11: &'a mut [T],
    dz12: &'a mut [T],
}

impl<'a, T> Blocks<'a, T> {
    fn len(size: Size) -> usize {
        2 * (size.outer::<Dense>() + size.square::<Dense>() + size.wide::<Dense>())
    }

    /// The blocks at the start of a subtree's part of the stack, and the rest of it.
    fn split(size: Size, stack: &'a mut [T]) -> (Self, &'a mut [T]) {
        let (outer, square, wide) = (size.outer::<Dense>(), size.square::<Dense>(), size.wide::<Dense>());
        let (z22, rest) = stack.split_at_mut(outer);
        let (z11, rest) = rest.split_at_mut(square);
        let (z12, rest) = rest.split_at_mut(wide);
        let (dz22, rest) = rest.split_at_mut(outer);
        let (dz11, rest) = rest.split_at_mut(square);
        let (dz12, rest) = rest.split_at_mut(wide);
        (Self { z22, z11, z12, dz22, dz11, dz12 }, rest)
    }

    fn of_z(&self) -> (&[T], &[T], &[T]) {
        (self.z11, self.z12, self.z22)
    }

    fn of_dz(&self) -> (&[T], &[T], &[T]) {
        (self.dz11, self.dz12, self.dz22)
    }
}

/// The fronts above the blocks.
#[derive(Clone, Copy)]
pub(super) struct TrunkWork<'a> {
    pub(super) simd: Simd,
    pub(super) plan: &'a Plan,
    pub(super) layout: &'a Stack,
    /// Cells of a block's ring.
    pub(super) ring: usize,
}

/// Room that a subtree works in: its part of the stack, and the scratch of the threads that may work on it.
struct Room<'a, T> {
    stack: &'a mut [T],
    scratch: &'a mut [Scratch<T>],
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
        (stack, scratch): (&mut [T], &mut [Scratch<T>]),
        rings: &mut [T],
    ) {
        self.sweep_up(Up::Eliminate(values), fronts, Room { stack, scratch }, rings);
    }

    /// The derivative of [`eliminate`](Self::eliminate) along `weights`, one value a node.
    pub(super) fn differentiate<T: Kernels>(
        &self,
        weights: &[T],
        fronts: &mut [FrontFactor<T>],
        (stack, scratch): (&mut [T], &mut [Scratch<T>]),
        drings: &mut [T],
    ) {
        self.sweep_up(Up::Differentiate(weights), fronts, Room { stack, scratch }, drings);
    }

    fn sweep_up<T: Kernels>(
        &self,
        sweep: Up<'_, T>,
        fronts: &mut [FrontFactor<T>],
        room: Room<'_, T>,
        rings: &mut [T],
    ) {
        if !fronts.is_empty() {
            let share = Share { fronts, first_front: 0, rings, drings: &mut [], first_block: 0 };
            self.up(sweep, self.fronts().len() - 1, share, room);
        }
    }

    fn up<T: Kernels>(&self, sweep: Up<'_, T>, at: usize, share: Share<'_, T>, room: Room<'_, T>) {
        let front = &self.fronts()[at];
        let (own, below) = share.fronts.split_last_mut().expect("a subtree holds its own front");
        let (first_front, first_block, rings) = (share.first_front, share.first_block, share.rings);
        let size = own.size;
        let (outer, rest) = room.stack.split_at_mut(size.outer::<Dense>());
        // The S of the first part stays at the start of the rest, that of the second one behind what is spared for it.
        let spared = front
            .parts
            .first()
            .and_then(front_of)
            .map_or(0, |child| Size { pivots: 0, boundary: self.fronts()[child].boundary.len() }.outer::<Dense>());
        let below = Share { fronts: below, first_front, rings: &mut *rings, drings: share.drings, first_block };
        let below_room = Room { stack: &mut *rest, scratch: &mut *room.scratch };
        let parts = below.split(front, self.fronts(), self.ring);
        let second = self.each(at, parts, below_room, (spared, &self.layout.up), |part, share, room| {
            if let Part::Front(child) = part {
                self.up(sweep, child, share, room);
            }
        });
        let scratch = &mut room.scratch[0];
        let parts = Below { outers: [&*rest, &rest[second..]], rings, first_block };
        match sweep {
            Up::Eliminate(values) => {
                own.inverse.fill(T::ZERO);
                let f12 = &mut scratch.f12[..size.wide::<Dense>()];
                f12.fill(T::ZERO);
                self.scatter(at, values, size, &mut own.inverse, f12);
                for (runs, source) in self.parts(front, &parts) {
                    front::add_to_pivots::<Dense, T>(self.simd, size, runs, source, &mut own.inverse, f12);
                }
                let f11 = &mut own.inverse;
                front::eliminate::<Dense, T>(self.simd, size, f11, outer, &mut own.gain, &mut own.pivots, scratch);
            }
            Up::Differentiate(weights) => {
                let df11 = &mut scratch.df11[..size.square::<Dense>()];
                let df12 = &mut scratch.df12[..size.wide::<Dense>()];
                df11.fill(T::ZERO);
                df12.fill(T::ZERO);
                for (&pivot, diagonal) in front.pivots.iter().zip(df11.iter_mut().step_by(padded(size.pivots) + 1)) {
                    *diagonal = weights[pivot as usize];
                }
                for (runs, source) in self.parts(front, &parts) {
                    front::add_to_pivots::<Dense, T>(self.simd, size, runs, source, df11, df12);
                }
                let (factor, out) = ((&*own.inverse, &*own.gain), (&mut *own.dinverse, &mut *own.dgain));
                front::differentiate::<Dense, T>(self.simd, size, factor, outer, out, scratch);
            }
        }
        for (runs, source) in self.parts(front, &parts) {
            front::add_to_boundary::<Dense, T>(self.simd, size, runs, source, outer);
        }
    }

    /// Runs `work` on both parts of a front, in parallel where they are large and there is scratch for two. Where the second
    /// part's room starts: behind the first one's if they are at work together, else behind the values to spare.
    fn each<T: Kernels>(
        &self,
        at: usize,
        parts: [(Part, Share<'_, T>); 2],
        room: Room<'_, T>,
        (spared, lens): (usize, &[usize]),
        work: impl Fn(Part, Share<'_, T>, Room<'_, T>) + Sync,
    ) -> usize {
        let [(first, first_share), (second, second_share)] = parts;
        let Room { stack, scratch } = room;
        match front_of(&first) {
            Some(child) if self.layout.parallel[at] && scratch.len() > 1 => {
                let (first_scratch, second_scratch) = scratch.split_at_mut(scratch.len() / 2);
                let (first_stack, second_stack) = stack.split_at_mut(lens[child]);
                let first_room = Room { stack: first_stack, scratch: first_scratch };
                let second_room = Room { stack: second_stack, scratch: second_scratch };
                rayon::join(|| work(first, first_share, first_room), || work(second, second_share, second_room));
                lens[child]
            }
            _ => {
                work(first, first_share, Room { stack: &mut *stack, scratch: &mut *scratch });
                work(second, second_share, Room { stack: &mut stack[spared..], scratch });
                spared
            }
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
        front.parts.iter().zip(below.outers).map(move |(part, outer)| match *part {
            Part::Front(child) => {
                let front = &dissection.fronts[child];
                (&front.runs[..], (outer, padded(front.boundary.len())))
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
        (stack, scratch): (&mut [T], &mut [Scratch<T>]),
        rings: &mut [T],
        drings: &mut [T],
    ) {
        if !fronts.is_empty() {
            let share = Share { fronts, first_front: 0, rings, drings, first_block: 0 };
            self.down(derivative, self.fronts().len() - 1, None, share, Room { stack, scratch });
        }
    }

    fn down<T: Kernels>(
        &self,
        derivative: bool,
        at: usize,
        parent: Option<(Size, &Blocks<'_, T>)>,
        share: Share<'_, T>,
        room: Room<'_, T>,
    ) {
        let front = &self.fronts()[at];
        let (own, below) = share.fronts.split_last_mut().expect("a subtree holds its own front");
        let (simd, size, scratch) = (self.simd, own.size, room.scratch);
        let (blocks, rest) = Blocks::split(size, room.stack);
        if let Some((of_parent, parent)) = parent {
            front::gather::<Dense, T>(simd, of_parent, &front.runs, parent.of_z(), padded(size.boundary), blocks.z22);
        }
        let factor = (&*own.inverse, &*own.gain);
        let z = (&mut *blocks.z11, &mut *blocks.z12);
        front::invert::<Dense, T>(simd, size, factor, blocks.z22, z, &mut scratch[0]);
        let diagonal = blocks.z11.iter().step_by(padded(size.pivots) + 1);
        own.variance.iter_mut().zip(diagonal).for_each(|(out, value)| *out = *value);
        if derivative {
            if let Some((of_parent, parent)) = parent {
                front::gather::<Dense, T>(
                    simd,
                    of_parent,
                    &front.runs,
                    parent.of_dz(),
                    padded(size.boundary),
                    blocks.dz22,
                );
            }
            let dfactor = (&*own.dinverse, &*own.dgain);
            let (z, dz) = ((&*blocks.z12, &*blocks.z22), (&mut *blocks.dz11, &mut *blocks.dz12));
            let scratch = &mut scratch[0];
            front::differentiate_inverse::<Dense, T>(simd, size, &own.gain, dfactor, z, blocks.dz22, dz, scratch);
            let diagonal = blocks.dz11.iter().step_by(padded(size.pivots) + 1);
            own.numerator.iter_mut().zip(diagonal).for_each(|(out, value)| *out = -*value);
        } else {
            self.read_covariances(at, size, &blocks, &mut own.covariances);
        }
        let below = Share { fronts: below, ..share };
        let parts = below.split(front, self.fronts(), self.ring);
        let room = Room { stack: rest, scratch };
        self.each(at, parts, room, (0, &self.layout.down), |part, share, room| match part {
            Part::Front(child) => self.down(derivative, child, Some((size, &blocks)), share, room),
            Part::Block(child) => {
                let len = ring_values(self.ring);
                self.gather_ring(child, size, blocks.of_z(), &mut share.rings[..len]);
                if derivative {
                    self.gather_ring(child, size, blocks.of_dz(), &mut share.drings[..len]);
                }
            }
        });
    }

    /// The entries of Z where the matrix has its own.
    fn read_covariances<T: Kernels>(&self, at: usize, size: Size, blocks: &Blocks<'_, T>, out: &mut [T]) {
        let trunk = self.trunk();
        let place = Places::new::<Dense>(size);
        let entries = &trunk.entries[trunk.entry_starts[at]..trunk.entry_starts[at + 1]];
        for (&(slot, _), out) in entries.iter().zip(out) {
            *out = match place.of(slot) {
                Place::Square(at) => blocks.z11[at],
                Place::Wide(at) => blocks.z12[at],
            };
        }
    }

    /// The upper triangle of the covariance of a block's ring, whose order is not that of elimination; cells that do not exist
    /// stay as they are, since the block is not coupled to them.
    fn gather_ring<T: Kernels>(&self, block: usize, size: Size, blocks: (&[T], &[T], &[T]), ring: &mut [T]) {
        let runs = &self.trunk().dissection.blocks[block].runs;
        front::gather::<Dense, T>(self.simd, size, runs, blocks, padded(self.ring), ring);
    }

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
        let (and, c, c_row, update, part) = (None, out, padded(cols), Update::Set, simd::Part::Full);
        simd::Product { m, n, k, a, a_row, a_col, b, b_row, b_col, and, c, c_row, update, part }.dense(self.simd);
    }
}

/// What the parts of a front left.
struct Below<'a, T> {
    /// Each starts with the S of a part that is a front.
    outers: [&'a [T]; 2],
    rings: &'a [T],
    first_block: usize,
}

/// The values at some nodes, one row of `row` values for each right-hand side of `len` values.
fn collect<T: Kernels>(x: &[T], len: usize, nodes: &[u32], row: usize, out: &mut Vec<T>) {
    out.clear();
    for (at, x) in x.chunks(len).enumerate() {
        out.extend(nodes.iter().map(|&node| x[node as usize]));
        out.resize((at + 1) * row, T::ZERO);
    }
}
