//! Where the matrices of blocks lie in their arenas.

use super::dissection::{Front, Part};
use super::front::{Lanes, Size};
use super::plan::Template;

/// Where the matrices of each template front are.
#[derive(Debug)]
pub(super) struct Offsets {
    pub(super) sizes: Vec<Size>,
    square: Vec<usize>,
    wide: Vec<usize>,
    /// Start of S in the stack of its depth's parity.
    outer: Vec<usize>,
    pub(super) outer_end: [usize; 2],
    /// Start of Z22, Z11, Z12 in the stack of the way down.
    pub(super) down: Vec<usize>,
    pub(super) down_end: usize,
    pub(super) square_end: usize,
    pub(super) wide_end: usize,
    /// Positions behind those of the template, where the fields of solves have room for the pivots of a front.
    pub(super) room: Vec<u32>,
}

impl Offsets {
    pub(super) fn new(template: &Template) -> Self {
        let fronts = &template.dissection.fronts;
        let size = |front: &Front| Size { pivots: front.pivots.len(), boundary: front.boundary.len() };
        let sizes: Vec<Size> = fronts.iter().map(size).collect();
        let (mut square, mut wide) = (vec![0], vec![0]);
        for (at, size) in sizes.iter().enumerate() {
            square.push(square[at] + size.square::<Lanes>());
            wide.push(wide[at] + size.wide::<Lanes>());
        }
        // A front's S lies above those of earlier fronts of the same parity that are still waiting for their parent.
        let (mut outer, mut top, mut outer_end) = (vec![0; sizes.len()], [0; 2], [0; 2]);
        for (at, front) in fronts.iter().enumerate() {
            let parity = front.depth % 2;
            if let Some(Part::Front(child)) = front.parts.first() {
                top[1 - parity] = outer[*child];
            }
            outer[at] = top[parity];
            top[parity] += sizes[at].outer::<Lanes>();
            outer_end[parity] = outer_end[parity].max(top[parity]);
        }
        let (mut down, mut down_end) = (vec![0; sizes.len()], 0);
        for (at, front) in fronts.iter().enumerate().rev() {
            let end = down[at] + Self::down_len(sizes[at]);
            down_end = down_end.max(end);
            for part in &front.parts {
                if let Part::Front(child) = *part {
                    down[child] = end;
                }
            }
        }
        let (square_end, wide_end) = (square[sizes.len()], wide[sizes.len()]);
        let most_pivots = sizes.iter().map(|size| size.pivots).max().unwrap_or(0);
        let room = (template.num_positions..template.num_positions + most_pivots).map(|at| at as u32).collect();
        Self { sizes, square, wide, outer, outer_end, down, down_end, square_end, wide_end, room }
    }

    fn down_len(size: Size) -> usize {
        size.outer::<Lanes>() + size.square::<Lanes>() + size.wide::<Lanes>()
    }

    pub(super) fn square(&self, front: usize) -> std::ops::Range<usize> {
        self.square[front]..self.square[front + 1]
    }

    pub(super) fn wide(&self, front: usize) -> std::ops::Range<usize> {
        self.wide[front]..self.wide[front + 1]
    }

    pub(super) fn outer(&self, front: usize) -> std::ops::Range<usize> {
        self.outer[front]..self.outer[front] + self.sizes[front].outer::<Lanes>()
    }
}
