//! Nested dissection of a rectangle by straight separators: the order in which its cells are eliminated.
//!
//! A front eliminates its pivots once all cells inside its rectangle are gone; what remains coupled to them is the ring of
//! cells around the rectangle that come later in the order, its boundary. Separators are as wide as the couplings reach, so
//! that the two parts of a cut share no coupling.

/// A range of lines (rows or columns) and how it is cut.
#[derive(Debug)]
pub(crate) struct Line {
    start: usize,
    end: usize,
    cut: Option<Box<Cut>>,
}

#[derive(Debug)]
struct Cut {
    first: Line,
    /// First line of the separator; it ends where `second` starts.
    separator: usize,
    second: Line,
}

impl Line {
    /// Cuts `start..end` in the middle by separators `width` wide until at most `leaf` lines are left.
    pub(crate) fn bisect(start: usize, end: usize, width: usize, leaf: usize) -> Self {
        let len = end - start;
        if len <= leaf.max(width + 1) {
            return Self { start, end, cut: None };
        }
        let separator = start + (len - width).div_ceil(2);
        let first = Self::bisect(start, separator, width, leaf);
        let second = Self::bisect(separator + width, end, width, leaf);
        Self { start, end, cut: Some(Box::new(Cut { first, separator, second })) }
    }

    /// Cuts between the given blocks `(start, end)`, which lie a separator apart.
    pub(crate) fn between(blocks: &[(usize, usize)]) -> Self {
        let (start, end) = (blocks[0].0, blocks[blocks.len() - 1].1);
        if blocks.len() == 1 {
            return Self { start, end, cut: None };
        }
        let (first, second) = blocks.split_at(blocks.len().div_ceil(2));
        let separator = first[first.len() - 1].1;
        let cut = Cut { first: Self::between(first), separator, second: Self::between(second) };
        Self { start, end, cut: Some(Box::new(cut)) }
    }

    fn len(&self) -> usize {
        self.end - self.start
    }
}

/// Rows and columns of a rectangle of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rectangle {
    pub(crate) rows: (usize, usize),
    pub(crate) cols: (usize, usize),
}

/// A part that a front waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Another front.
    Front(usize),
    /// A rectangle that is eliminated elsewhere.
    Block(usize),
}

/// Consecutive entries of a boundary that are consecutive in the next front too, all among its pivots or all in its boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// First entry in the boundary.
    pub(crate) start: usize,
    /// Its place among the pivots, then boundary, of the front that takes it over.
    pub(crate) target: usize,
    /// Number of entries.
    pub(crate) len: usize,
}

/// One step of the elimination. Positions are `row * columns + col` in the domain.
#[derive(Debug)]
pub(crate) struct Front {
    /// Positions eliminated here, row by row.
    pub(crate) pivots: Vec<u32>,
    /// Later positions coupled to the rectangle, in the order of their elimination.
    pub(crate) boundary: Vec<u32>,
    /// The parts of its rectangle.
    pub(crate) parts: Vec<Part>,
    /// Where its boundary lies in its parent; empty at the root.
    pub(crate) runs: Vec<Run>,
    /// Number of cuts above it.
    pub(crate) depth: usize,
    /// The first front of its subtree, which is `first..=own index`.
    pub(crate) first: usize,
    /// The blocks of its subtree.
    pub(crate) blocks: (usize, usize),
    rectangle: Rectangle,
}

/// A rectangle that is eliminated elsewhere before the fronts.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) rectangle: Rectangle,
    /// Where its ring, listed by [`ring_of_size`], lies in the front above, by target; what does not exist is in no run.
    pub(crate) runs: Vec<Run>,
}

/// What becomes of rectangles that are not cut further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// They are fronts.
    Fronts,
    /// They are blocks, of at most these rows and columns.
    Blocks {
        /// Rows and columns of the longest block.
        size: (usize, usize),
    },
}

/// The elimination of a rectangle inside a domain of `rows` x `cols` positions, children before parents.
#[derive(Debug)]
pub(crate) struct Dissection {
    pub(crate) fronts: Vec<Front>,
    pub(crate) blocks: Vec<Block>,
    cols: usize,
}

/// Marks positions that no front eliminates.
const NOWHERE: u32 = u32::MAX;

impl Dissection {
    /// Cuts the rectangle `rows` x `cols` of a domain.
    ///
    /// Positions of the domain outside the rectangle count as eliminated last, in the order of [`ring`].
    pub(crate) fn new(domain: (usize, usize), reach: usize, rows: &Line, cols: &Line, leaves: Leaves) -> Self {
        let mut out = Self { fronts: Vec::new(), blocks: Vec::new(), cols: domain.1 };
        out.cut(rows, cols, reach, leaves, 0);
        let mut rank = vec![NOWHERE; domain.0 * domain.1];
        let order = out.fronts.iter().flat_map(|front| &front.pivots);
        let last = ring(Rectangle { rows: (rows.start, rows.end), cols: (cols.start, cols.end) }, reach);
        let outside: Vec<u32> = last.filter_map(|cell| position(domain, cell)).collect();
        for (at, &position) in order.chain(&outside).enumerate() {
            rank[position as usize] = at as u32;
        }
        for front in &mut out.fronts {
            front.boundary = ring(front.rectangle, reach).filter_map(|cell| position(domain, cell)).collect();
            front.boundary.sort_unstable_by_key(|&position| rank[position as usize]);
        }
        out.find_runs(domain, reach, leaves);
        out
    }

    /// Adds the subtree of a rectangle.
    fn cut(&mut self, rows: &Line, cols: &Line, reach: usize, leaves: Leaves, depth: usize) -> Part {
        let rectangle = Rectangle { rows: (rows.start, rows.end), cols: (cols.start, cols.end) };
        let (first, first_block) = (self.fronts.len(), self.blocks.len());
        let by_rows = rows.cut.is_some() && (cols.cut.is_none() || rows.len() >= cols.len());
        let (parts, pivots) = match (&rows.cut, &cols.cut) {
            (Some(cut), _) if by_rows => {
                let parts = [&cut.first, &cut.second].map(|part| self.cut(part, cols, reach, leaves, depth + 1));
                (parts.to_vec(), Rectangle { rows: (cut.separator, cut.separator + reach), ..rectangle })
            }
            (_, Some(cut)) => {
                let parts = [&cut.first, &cut.second].map(|part| self.cut(rows, part, reach, leaves, depth + 1));
                (parts.to_vec(), Rectangle { cols: (cut.separator, cut.separator + reach), ..rectangle })
            }
            _ if leaves != Leaves::Fronts => {
                self.blocks.push(Block { rectangle, runs: Vec::new() });
                return Part::Block(first_block);
            }
            _ => (Vec::new(), rectangle),
        };
        let pivots = cells(pivots).map(|(row, col)| (row * self.cols + col) as u32).collect();
        let blocks = (first_block, self.blocks.len());
        let front = Front { pivots, boundary: Vec::new(), parts, runs: Vec::new(), depth, first, blocks, rectangle };
        self.fronts.push(front);
        Part::Front(self.fronts.len() - 1)
    }

    fn find_runs(&mut self, domain: (usize, usize), reach: usize, leaves: Leaves) {
        let mut place = vec![NOWHERE; domain.0 * domain.1];
        for parent in 0..self.fronts.len() {
            let (pivots, boundary) = (&self.fronts[parent].pivots, &self.fronts[parent].boundary);
            for (at, &position) in pivots.iter().chain(boundary).enumerate() {
                place[position as usize] = at as u32;
            }
            let num_pivots = pivots.len();
            for part in self.fronts[parent].parts.clone() {
                match part {
                    Part::Front(child) => {
                        let boundary = self.fronts[child].boundary.iter().map(|&position| Some(position));
                        self.fronts[child].runs = runs(boundary, &place, num_pivots);
                    }
                    Part::Block(child) => {
                        let Leaves::Blocks { size } = leaves else { unreachable!("only then there are blocks") };
                        let ring = ring_of_size(self.blocks[child].rectangle, size, reach);
                        let ring = ring.map(|cell| cell.and_then(|cell| position(domain, cell)));
                        self.blocks[child].runs = runs(ring, &place, num_pivots);
                        self.blocks[child].runs.sort_unstable_by_key(|run| run.target);
                    }
                }
            }
            for &position in self.fronts[parent].pivots.iter().chain(&self.fronts[parent].boundary) {
                place[position as usize] = NOWHERE;
            }
        }
    }
}

/// Joins consecutive entries that stay consecutive.
fn runs(positions: impl Iterator<Item = Option<u32>>, place: &[u32], num_pivots: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, position) in positions.enumerate() {
        let Some(position) = position else { continue };
        let target = place[position as usize];
        assert_ne!(target, NOWHERE, "a boundary lies in the front above");
        let target = target as usize;
        match runs.last_mut() {
            Some(run) if run.start + run.len == at && run.target + run.len == target && target != num_pivots => {
                run.len += 1;
            }
            _ => runs.push(Run { start: at, target, len: 1 }),
        }
    }
    runs
}

/// The cells of a rectangle, row by row.
fn cells(rectangle: Rectangle) -> impl Iterator<Item = (usize, usize)> {
    let Rectangle { rows, cols } = rectangle;
    (rows.0..rows.1).flat_map(move |row| (cols.0..cols.1).map(move |col| (row, col)))
}

/// The cells at most `reach` rows and columns from a rectangle: those above it, to its left, to its right, below it, each
/// strip row by row. Cells may lie outside the domain.
pub(crate) fn ring(rectangle: Rectangle, reach: usize) -> impl Iterator<Item = (isize, isize)> {
    let reach = reach as isize;
    let signed = |(start, end): (usize, usize)| (start as isize, end as isize);
    let (rows, cols) = (signed(rectangle.rows), signed(rectangle.cols));
    let strips = [
        ((rows.0 - reach, rows.0), (cols.0 - reach, cols.1 + reach)),
        (rows, (cols.0 - reach, cols.0)),
        (rows, (cols.1, cols.1 + reach)),
        ((rows.1, rows.1 + reach), (cols.0 - reach, cols.1 + reach)),
    ];
    strips.into_iter().flat_map(|(rows, cols)| {
        (rows.0..rows.1).flat_map(move |row| (cols.0..cols.1).map(move |col| (row, col)))
    })
}

/// Rows and columns of a rectangle when it takes the place of a longer one: a line that the rectangle lacks at its end is
/// `None`, what follows it comes nearer.
pub(crate) fn in_place_of(
    (row, col): (isize, isize),
    rectangle: (usize, usize),
    longer: (usize, usize),
) -> Option<(isize, isize)> {
    let along = |at: isize, present: usize, longer: usize| {
        let (present, longer) = (present as isize, longer as isize);
        if at < present {
            Some(at)
        } else {
            (at >= longer).then_some(at - (longer - present))
        }
    };
    Some((along(row, rectangle.0, longer.0)?, along(col, rectangle.1, longer.1)?))
}

/// The [`ring`] of a rectangle, listed as that of one of `size`.
fn ring_of_size(
    rectangle: Rectangle,
    size: (usize, usize),
    reach: usize,
) -> impl Iterator<Item = Option<(isize, isize)>> {
    let Rectangle { rows, cols } = rectangle;
    ring(Rectangle { rows: (0, size.0), cols: (0, size.1) }, reach).map(move |cell| {
        let (row, col) = in_place_of(cell, (rows.1 - rows.0, cols.1 - cols.0), size)?;
        Some((rows.0 as isize + row, cols.0 as isize + col))
    })
}

/// The position of a cell, if it is in the domain.
fn position(domain: (usize, usize), (row, col): (isize, isize)) -> Option<u32> {
    let (row, col) = (usize::try_from(row).ok()?, usize::try_from(col).ok()?);
    (row < domain.0 && col < domain.1).then_some((row * domain.1 + col) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_eliminated_once_and_children_come_first() {
        for (rows, cols, reach) in [(1, 1, 1), (1, 9, 1), (17, 5, 1), (12, 17, 2), (40, 33, 2)] {
            let lines = [rows, cols].map(|len| Line::bisect(0, len, reach, 3));
            let dissection = Dissection::new((rows, cols), reach, &lines[0], &lines[1], Leaves::Fronts);
            let mut seen = vec![0; rows * cols];
            for (at, front) in dissection.fronts.iter().enumerate() {
                front.pivots.iter().for_each(|&pivot| seen[pivot as usize] += 1);
                assert!(front.parts.iter().all(|part| matches!(part, Part::Front(child) if *child < at)));
            }
            assert!(seen.iter().all(|&times| times == 1), "{rows}x{cols}");
            assert!(dissection.fronts.last().unwrap().boundary.is_empty());
        }
    }

    #[test]
    fn runs_name_the_same_cell_in_child_and_parent() {
        let line = |len| Line::bisect(0, len, 2, 2);
        let dissection = Dissection::new((23, 31), 2, &line(23), &line(31), Leaves::Fronts);
        for parent in &dissection.fronts {
            let places: Vec<u32> = parent.pivots.iter().chain(&parent.boundary).copied().collect();
            for part in &parent.parts {
                let Part::Front(child) = *part else { panic!("no blocks were asked for") };
                let child = &dissection.fronts[child];
                let covered: usize = child.runs.iter().map(|run| run.len).sum();
                assert_eq!(covered, child.boundary.len());
                for run in &child.runs {
                    let source = &child.boundary[run.start..run.start + run.len];
                    assert_eq!(source, &places[run.target..run.target + run.len]);
                }
                assert!(child.runs.is_sorted_by_key(|run| run.target), "the order of elimination is kept");
            }
        }
    }

    #[test]
    fn ring_lists_each_neighbour_once() {
        let rectangle = Rectangle { rows: (3, 5), cols: (2, 6) };
        let mut cells: Vec<_> = ring(rectangle, 2).collect();
        assert_eq!(cells.len(), 6 * 8 - 2 * 4);
        cells.sort_unstable();
        cells.dedup();
        assert_eq!(cells.len(), 6 * 8 - 2 * 4);
    }
}
