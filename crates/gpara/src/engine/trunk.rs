//! Numeric work on the dense fronts of the separators between blocks.

use super::assembly;
use super::block::ring_values;
use super::dissection::{Front, Part, Run};
use super::front::{self, Dense, Scratch, Size};
use super::plan::{Place, Places, Plan, Trunk};
use super::real::{Aligned, padded};
use super::simd::{Kernels, Simd};
use super::stack::{Blocks, Stack, front_of};

/// What is kept of one front.
#[derive(Debug)]
pub(super) struct FrontFactor<T> {
    pub(super) size: Size,
    pub(super) inverse: Aligned<T>,
    pub(super) gain: Aligned<T>,
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

    pub(super) fn fronts(&self) -> &[Front] {
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
                    assembly::add_to_pivots::<Dense, T>(self.simd, size, runs, source, &mut own.inverse, f12);
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
                    assembly::add_to_pivots::<Dense, T>(self.simd, size, runs, source, df11, df12);
                }
                let (factor, out) = ((&*own.inverse, &*own.gain), (&mut *own.dinverse, &mut *own.dgain));
                front::differentiate::<Dense, T>(self.simd, size, factor, outer, out, scratch);
            }
        }
        for (runs, source) in self.parts(front, &parts) {
            assembly::add_to_boundary::<Dense, T>(self.simd, size, runs, source, outer);
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
            assembly::gather::<Dense, T>(
                simd,
                of_parent,
                &front.runs,
                parent.of_z(),
                padded(size.boundary),
                blocks.z22,
            );
        }
        let factor = (&*own.inverse, &*own.gain);
        let z = (&mut *blocks.z11, &mut *blocks.z12);
        front::invert::<Dense, T>(simd, size, factor, blocks.z22, z, &mut scratch[0]);
        let diagonal = blocks.z11.iter().step_by(padded(size.pivots) + 1);
        own.variance.iter_mut().zip(diagonal).for_each(|(out, value)| *out = *value);
        if derivative {
            if let Some((of_parent, parent)) = parent {
                assembly::gather::<Dense, T>(
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
        assembly::gather::<Dense, T>(self.simd, size, runs, blocks, padded(self.ring), ring);
    }
}

/// What the parts of a front left.
struct Below<'a, T> {
    /// Each starts with the S of a part that is a front.
    outers: [&'a [T]; 2],
    rings: &'a [T],
    first_block: usize,
}
