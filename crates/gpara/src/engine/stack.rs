//! Where the fronts above the blocks keep what they hand to each other.

use super::dissection::{Front, Part};
use super::front::{Dense, Size};

/// Subtrees with at least this many pivots are worked on in parallel; smaller ones cost less than the hand-over.
const PARALLEL_PIVOTS: usize = 256;

/// Where the matrices lie that a front leaves for its neighbours in the tree: S on the way up, the blocks of Z on the way
/// down. They live on a stack, so that the few in use stay in the cache.
///
/// A subtree's part starts with the matrices of its own front. Subtrees that may be worked on in parallel lie side by side;
/// otherwise what the first one leaves is all that the second one spares.
#[derive(Debug)]
pub(super) struct Stack {
    /// Values of the part of each subtree.
    pub(super) up: Vec<usize>,
    pub(super) down: Vec<usize>,
    /// Whether the two parts of a front are large enough to be worked on in parallel.
    pub(super) parallel: Vec<bool>,
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

/// The front that a part is, if it is one.
pub(super) fn front_of(part: &Part) -> Option<usize> {
    match *part {
        Part::Front(child) => Some(child),
        Part::Block(_) => None,
    }
}

/// The blocks of Z and dZ on one front.
pub(super) struct Blocks<'a, T> {
    pub(super) z22: &'a mut [T],
    pub(super) z11: &'a mut [T],
    pub(super) z12: &'a mut [T],
    pub(super) dz22: &'a mut [T],
    pub(super) dz11: &'a mut [T],
    pub(super) dz12: &'a mut [T],
}

impl<'a, T> Blocks<'a, T> {
    fn len(size: Size) -> usize {
        2 * (size.outer::<Dense>() + size.square::<Dense>() + size.wide::<Dense>())
    }

    /// The blocks at the start of a subtree's part of the stack, and the rest of it.
    pub(super) fn split(size: Size, stack: &'a mut [T]) -> (Self, &'a mut [T]) {
        let (outer, square, wide) = (size.outer::<Dense>(), size.square::<Dense>(), size.wide::<Dense>());
        let (z22, rest) = stack.split_at_mut(outer);
        let (z11, rest) = rest.split_at_mut(square);
        let (z12, rest) = rest.split_at_mut(wide);
        let (dz22, rest) = rest.split_at_mut(outer);
        let (dz11, rest) = rest.split_at_mut(square);
        let (dz12, rest) = rest.split_at_mut(wide);
        (Self { z22, z11, z12, dz22, dz11, dz12 }, rest)
    }

    pub(super) fn of_z(&self) -> (&[T], &[T], &[T]) {
        (self.z11, self.z12, self.z22)
    }

    pub(super) fn of_dz(&self) -> (&[T], &[T], &[T]) {
        (self.dz11, self.dz12, self.dz22)
    }
}
