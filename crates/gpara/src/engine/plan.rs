//! The symbolic part of a factorisation: everything that depends on the grid and the reach of its couplings alone.
//!
//! The grid is cut into blocks of equal size, and [`LANES`] blocks at a time are eliminated side by side, one in each lane of
//! a vector, by one shared order, the template. What is left, the separators between blocks, is eliminated by dense fronts,
//! the trunk. A block one line shorter than the template has an identity line at the end of the template's last leaf.

use super::dissection::{Dissection, Leaves, Line, Part, Rectangle, in_place_of, ring};
use super::exchange::Exchange;
use super::front::{Layout, Size};
use super::real::LANES;
use super::stencil::Reach;
use crate::grid::Grid;

/// Where entries of a matrix are in the flat list that the fronts read: its diagonal, its couplings map by map, then one 0
/// for what does not exist and one 1 for the diagonal of what does not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entries {
    grid: Grid,
    reach: Reach,
}

impl Entries {
    /// Number of values.
    pub(super) fn len(self) -> usize {
        self.one() as usize + 1
    }

    /// The index of the 0.
    pub(super) fn zero(self) -> u32 {
        ((1 + self.reach.offsets().len()) * self.grid.num_nodes()) as u32
    }

    /// The index of the 1.
    pub(super) fn one(self) -> u32 {
        self.zero() + 1
    }

    /// The index of entry (first, second), `None` if the two cells are not coupled.
    fn between(self, first: (isize, isize), second: (isize, isize)) -> Option<u32> {
        if first == second {
            return self.node(first);
        }
        let (low, high) = if first < second { (first, second) } else { (second, first) };
        let offset = (high.0 - low.0, high.1 - low.1);
        let map = self.reach.offsets().iter().position(|&known| known == offset)?;
        let (low, _) = (self.node(low)?, self.node(high)?);
        Some(((1 + map) * self.grid.num_nodes()) as u32 + low)
    }

    fn node(self, (row, col): (isize, isize)) -> Option<u32> {
        let (row, col) = (usize::try_from(row).ok()?, usize::try_from(col).ok()?);
        (row < self.grid.rows() && col < self.grid.cols()).then(|| self.grid.node(row, col) as u32)
    }
}

/// A place in the pivot rows of a front: among the pivots if below `num_pivots`^2 (`row * num_pivots + col`), else in the
/// boundary columns.
pub(super) type Slot = u32;

/// Where a slot is in the matrices of a front.
pub(super) enum Place {
    /// Entry of the pivots x pivots matrix.
    Square(usize),
    /// Entry of the pivots x boundary matrix.
    Wide(usize),
}

/// Turns slots into places for one front and layout.
#[derive(Clone, Copy)]
pub(super) struct Places {
    size: Size,
    rows: (usize, usize),
}

impl Places {
    pub(super) fn new<L: Layout>(size: Size) -> Self {
        Self { size, rows: (L::row(size.pivots), L::row(size.boundary)) }
    }

    pub(super) fn of(self, slot: Slot) -> Place {
        let (slot, Size { pivots, boundary }) = (slot as usize, self.size);
        match slot.checked_sub(pivots * pivots) {
            None => Place::Square(slot / pivots * self.rows.0 + slot % pivots),
            Some(slot) => Place::Wide(slot / boundary * self.rows.1 + slot % boundary),
        }
    }
}

/// The order in which 16 blocks are eliminated side by side.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) dissection: Dissection,
    /// Positions of the domain: the block and its ring.
    pub(super) num_positions: usize,
    /// Position of each cell of the ring.
    pub(super) ring: Vec<u32>,
    /// Entries of a front are `entry_starts[front]..entry_starts[front + 1]`.
    pub(super) entry_starts: Vec<usize>,
    pub(super) slots: Vec<Slot>,
    /// The same for pivots.
    pub(super) pivot_starts: Vec<usize>,
    /// The front that each front is a part of; the last one is the root.
    pub(super) parents: Vec<usize>,
}

/// What the lanes of one batch hold.
#[derive(Debug)]
pub(super) struct Batch {
    /// For each entry of the template, its index in [`Entries`].
    pub(super) entries: Vec<[u32; LANES]>,
    /// For each pivot of the template in the order of elimination, its node; `num_nodes` where there is none.
    pub(super) pivot_nodes: Vec<[u32; LANES]>,
    /// For each cell of the ring, its node or `num_nodes`.
    pub(super) ring_nodes: Vec<[u32; LANES]>,
    /// The other cells, row by row.
    pub(super) cells: Exchange,
}

/// The dense fronts of the separators between blocks.
#[derive(Debug)]
pub(super) struct Trunk {
    pub(super) dissection: Dissection,
    pub(super) entry_starts: Vec<usize>,
    /// Slot and index in [`Entries`] of each entry.
    pub(super) entries: Vec<(Slot, u32)>,
}

/// The order of elimination and all index tables for one grid and reach.
#[derive(Debug)]
pub(crate) struct Plan {
    grid: Grid,
    reach: Reach,
    pub(super) values: Entries,
    pub(super) template: Template,
    pub(super) batches: Vec<Batch>,
    pub(super) trunk: Trunk,
}

/// How the grid is cut. Measured choices: `docs/benchmarks.md`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cutting {
    /// Aimed side of a block.
    pub(crate) block: usize,
    /// Longest side of a rectangle that is not cut further.
    pub(crate) leaf: usize,
}

impl Cutting {
    /// The fastest of those measured.
    pub(crate) fn for_reach(reach: Reach) -> Self {
        match reach {
            Reach::One => Self { block: 16, leaf: 4 },
            Reach::Two => Self { block: 8, leaf: 3 },
        }
    }
}

impl Plan {
    /// The plan for matrices of this grid and reach.
    pub(crate) fn new(grid: Grid, reach: Reach) -> Self {
        Self::with_cutting(grid, reach, Cutting::for_reach(reach))
    }

    pub(crate) fn with_cutting(grid: Grid, reach: Reach, cutting: Cutting) -> Self {
        let width = reach.cells();
        let values = Entries { grid, reach };
        let rows = equal_blocks(grid.rows(), cutting.block, width);
        let cols = equal_blocks(grid.cols(), cutting.block, width);
        let domain = (grid.rows(), grid.cols());
        let longest = |blocks: &[(usize, usize)]| blocks.iter().map(|block| block.1 - block.0).max().unwrap_or(0);
        let size = (longest(&rows), longest(&cols));
        let leaves = Leaves::Blocks { size };
        let trunk = Dissection::new(domain, width, &Line::between(&rows), &Line::between(&cols), leaves);
        let pairs = TemplatePairs::new(size, width, cutting.leaf);
        let rectangles: Vec<Rectangle> = trunk.blocks.iter().map(|block| block.rectangle).collect();
        let batches = rectangles.chunks(LANES).map(|lanes| pairs.batch(lanes, values)).collect();
        Self { grid, reach, values, template: pairs.template, batches, trunk: Trunk::new(trunk, values) }
    }

    /// The grid.
    pub(crate) fn grid(&self) -> Grid {
        self.grid
    }

    /// How far couplings reach.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }
}

/// Ranges of nearly equal length, at most `aim` if possible, `width` apart; longer ones first.
fn equal_blocks(len: usize, aim: usize, width: usize) -> Vec<(usize, usize)> {
    // A block needs at least one line of its own.
    let count = (len + width).div_ceil(aim + width).clamp(1, (len + width) / (1 + width).max(1)).max(1);
    let lines = len - (count - 1) * width;
    let mut start = 0;
    let block = |at: usize| {
        let end = start + lines / count + usize::from(at < lines % count);
        let range = (start, end);
        start = end + width;
        range
    };
    (0..count).map(block).collect()
}

/// A template with the pairs of positions behind its slots.
struct TemplatePairs {
    template: Template,
    size: (usize, usize),
    reach: usize,
    /// The two positions of each slot.
    pairs: Vec<(u32, u32)>,
}

impl TemplatePairs {
    fn new(size: (usize, usize), reach: usize, leaf: usize) -> Self {
        let domain = (size.0 + 2 * reach, size.1 + 2 * reach);
        let line = |len: usize| Line::bisect(reach, reach + len, reach, leaf);
        let dissection = Dissection::new(domain, reach, &line(size.0), &line(size.1), Leaves::Fronts);
        let inside = Rectangle { rows: (reach, reach + size.0), cols: (reach, reach + size.1) };
        let ring = ring(inside, reach).map(|(row, col)| (row as usize * domain.1 + col as usize) as u32).collect();
        // A missing line brings cells together that are one further apart in the template.
        let (entry_starts, slots, pairs) = front_pairs(&dissection, domain, reach + 1);
        let sizes = dissection.fronts.iter().map(|front| front.pivots.len());
        let pivot_starts = std::iter::once(0).chain(sizes.scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        }));
        let pivot_starts = pivot_starts.collect();
        let num_positions = domain.0 * domain.1;
        let mut parents = vec![dissection.fronts.len() - 1; dissection.fronts.len()];
        for (at, front) in dissection.fronts.iter().enumerate() {
            for part in &front.parts {
                if let Part::Front(child) = *part {
                    parents[child] = at;
                }
            }
        }
        let template = Template { dissection, num_positions, ring, entry_starts, slots, pivot_starts, parents };
        Self { template, size, reach, pairs }.without_distant_pairs()
    }

    /// Drops the pairs that are coupled in no lane, whichever line it lacks.
    fn without_distant_pairs(mut self) -> Self {
        let reach = self.reach as isize;
        let near = |first: u32, second: u32| {
            [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().any(|missing| {
                let cells = [first, second].map(|position| self.cell(position, missing));
                let [Some(first), Some(second)] = cells else { return false };
                (first.0 - second.0).abs() <= reach && (first.1 - second.1).abs() <= reach
            })
        };
        let kept: Vec<bool> = self.pairs.iter().map(|&(first, second)| near(first, second)).collect();
        let starts = &self.template.entry_starts;
        let count = |range: &[usize]| kept[range[0]..range[1]].iter().filter(|&&kept| kept).count();
        let counts: Vec<usize> = starts.windows(2).map(count).collect();
        let mut sum = 0;
        self.template.entry_starts = std::iter::once(0)
            .chain(counts.into_iter().map(|count| {
                sum += count;
                sum
            }))
            .collect();
        let mut keep = kept.iter();
        self.template.slots.retain(|_| *keep.next().expect("one flag a slot"));
        let mut keep = kept.iter();
        self.pairs.retain(|_| *keep.next().expect("one flag a pair"));
        self
    }

    /// Row and column relative to the block of a position, in a block that lacks that many rows and columns at its end;
    /// `None` for a missing line.
    fn cell(&self, position: u32, missing: (usize, usize)) -> Option<(isize, isize)> {
        let cols = self.size.1 + 2 * self.reach;
        let (row, col) = (position as usize / cols, position as usize % cols);
        let cell = (row as isize - self.reach as isize, col as isize - self.reach as isize);
        in_place_of(cell, (self.size.0 - missing.0, self.size.1 - missing.1), self.size)
    }

    fn batch(&self, lanes: &[Rectangle], values: Entries) -> Batch {
        let num_nodes = values.grid.num_nodes() as u32;
        let place = |lane: usize, position: u32| {
            let Rectangle { rows, cols } = *lanes.get(lane)?;
            let missing = (self.size.0 - (rows.1 - rows.0), self.size.1 - (cols.1 - cols.0));
            let (row, col) = self.cell(position, missing)?;
            Some((rows.0 as isize + row, cols.0 as isize + col))
        };
        let node =
            |lane: usize, position: u32| place(lane, position).and_then(|cell| values.node(cell)).unwrap_or(num_nodes);
        let nodes = |position: &u32| std::array::from_fn(|lane| node(lane, *position));
        let entry = |&(first, second): &(u32, u32)| {
            std::array::from_fn(|lane| {
                let absent = if first == second { values.one() } else { values.zero() };
                let cells = place(lane, first).zip(place(lane, second));
                cells.and_then(|(first, second)| values.between(first, second)).unwrap_or(absent)
            })
        };
        Batch {
            entries: self.pairs.iter().map(entry).collect(),
            pivot_nodes: self.template.dissection.fronts.iter().flat_map(|front| &front.pivots).map(nodes).collect(),
            ring_nodes: self.template.ring.iter().map(nodes).collect(),
            cells: Exchange::new(lanes, self.size, self.reach, values.grid),
        }
    }
}

impl Trunk {
    fn new(dissection: Dissection, values: Entries) -> Self {
        let domain = (values.grid.rows(), values.grid.cols());
        let (entry_starts, slots, pairs) = front_pairs(&dissection, domain, values.reach.cells());
        let cell = |position: u32| {
            let (row, col) = values.grid.row_col(position as usize);
            (row as isize, col as isize)
        };
        let index = |&(first, second): &(u32, u32)| {
            values.between(cell(first), cell(second)).expect("cells of a pair are within reach")
        };
        let entries = slots.into_iter().zip(pairs.iter().map(index)).collect();
        Self { dissection, entry_starts, entries }
    }
}

/// For each front its pairs (pivot, same or later position of the front) at most `reach` apart, with their slots.
#[allow(clippy::type_complexity)]
fn front_pairs(
    dissection: &Dissection,
    domain: (usize, usize),
    reach: usize,
) -> (Vec<usize>, Vec<Slot>, Vec<(u32, u32)>) {
    let (mut starts, mut slots, mut pairs) = (vec![0], Vec::new(), Vec::new());
    let mut place = vec![u32::MAX; domain.0 * domain.1];
    for front in &dissection.fronts {
        let (num_pivots, num_boundary) = (front.pivots.len(), front.boundary.len());
        for (at, &position) in front.pivots.iter().chain(&front.boundary).enumerate() {
            place[position as usize] = at as u32;
        }
        for (at, &pivot) in front.pivots.iter().enumerate() {
            let (row, col) = (pivot as usize / domain.1, pivot as usize % domain.1);
            for other_row in row.saturating_sub(reach)..(row + reach + 1).min(domain.0) {
                for other_col in col.saturating_sub(reach)..(col + reach + 1).min(domain.1) {
                    let other = (other_row * domain.1 + other_col) as u32;
                    let to = place[other as usize] as usize;
                    if place[other as usize] == u32::MAX || to < at {
                        continue;
                    }
                    let slot = if to < num_pivots {
                        at * num_pivots + to
                    } else {
                        num_pivots * num_pivots + at * num_boundary + to - num_pivots
                    };
                    slots.push(slot as Slot);
                    pairs.push((pivot, other));
                }
            }
        }
        starts.push(slots.len());
        for &position in front.pivots.iter().chain(&front.boundary) {
            place[position as usize] = u32::MAX;
        }
    }
    (starts, slots, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_a_line_but_for_separators() {
        for (len, aim, width) in
            [(128, 15, 1), (1, 15, 1), (2, 15, 2), (16, 15, 1), (192, 31, 1), (100, 14, 2), (5, 1, 2)]
        {
            let blocks = equal_blocks(len, aim, width);
            assert_eq!(blocks[0].0, 0);
            assert_eq!(blocks[blocks.len() - 1].1, len);
            assert!(blocks.windows(2).all(|pair| pair[1].0 == pair[0].1 + width), "{len} {aim} {width}");
            let sizes: Vec<usize> = blocks.iter().map(|block| block.1 - block.0).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(*least > 0 && most - least <= 1, "{sizes:?}");
        }
    }

    #[test]
    fn every_entry_of_the_matrix_is_read_once() {
        for (rows, cols, reach) in [(1, 1, Reach::One), (37, 53, Reach::One), (40, 33, Reach::Two), (1, 50, Reach::Two)]
        {
            let grid = Grid::new(rows, cols).unwrap();
            let plan = Plan::with_cutting(grid, reach, Cutting { block: 9, leaf: 3 });
            let mut read = vec![0; plan.values.len()];
            let of_lanes = plan.batches.iter().flat_map(|batch| batch.entries.iter().flatten());
            of_lanes.chain(plan.trunk.entries.iter().map(|(_, index)| index)).for_each(|&at| read[at as usize] += 1);
            for node in 0..grid.num_nodes() {
                assert_eq!(read[node], 1);
                for (map, &offset) in reach.offsets().iter().enumerate() {
                    let expected = usize::from(grid.neighbor(node, offset).is_some());
                    assert_eq!(read[(map + 1) * grid.num_nodes() + node], expected, "{rows}x{cols} {node} {offset:?}");
                }
            }
        }
    }
}
