//! Nested dissection of a grid: in which order nodes are eliminated, and which dense front each group forms.

use crate::graph::EDGE_OFFSETS;
use crate::grid::Grid;

/// A rectangle of at most this many cells is eliminated at once.
const LEAF_CELLS: usize = 20;

/// The elimination tree of an 8-neighbour grid. It depends on the size of the grid alone.
///
/// A rectangle is cut by a grid line into two rectangles that share no edge; the line is eliminated after both. Every
/// node eliminated in a subtree lies in its rectangle, and touches later nodes only in the ring of cells around it.
#[derive(Debug)]
pub(crate) struct Dissection {
    num_nodes: usize,
    /// Children before parents; the subtree of a front is the contiguous range that ends with it.
    fronts: Vec<FrontShape>,
}

/// One dense front: its pivots are eliminated, which couples the boundary.
#[derive(Debug)]
pub(super) struct FrontShape {
    /// Nodes eliminated here.
    pub(super) pivots: Vec<usize>,
    /// Later nodes that are coupled to them: the ring around the rectangle.
    pub(super) boundary: Vec<usize>,
    /// Fronts of the two halves, in order; empty for a leaf.
    pub(super) children: Vec<usize>,
    /// First front of the subtree.
    pub(super) first: usize,
    /// Cells of the rectangle.
    pub(super) num_cells: usize,
    /// Where the boundary lies in the front of the parent.
    pub(super) runs: Vec<Run>,
    /// Graph edges that enter the matrix with this front.
    pub(super) edges: Vec<FrontEdge>,
}

/// Consecutive boundary nodes that are consecutive in the parent's front (pivots, then boundary).
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) parent_start: usize,
    pub(super) len: usize,
}

/// The edge (direction, node) of the graph and the two positions in the front that it couples.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrontEdge {
    pub(super) direction: usize,
    pub(super) node: usize,
    pub(super) row: usize,
    pub(super) col: usize,
}

impl FrontShape {
    pub(super) fn num_pivots(&self) -> usize {
        self.pivots.len()
    }

    pub(super) fn size(&self) -> usize {
        self.pivots.len() + self.boundary.len()
    }
}

/// Rows and columns of a rectangle, ends exclusive.
#[derive(Debug, Clone, Copy)]
struct Rectangle {
    rows: (usize, usize),
    cols: (usize, usize),
}

impl Dissection {
    pub(crate) fn new(grid: Grid) -> Self {
        let mut dissection = Self { num_nodes: grid.num_nodes(), fronts: Vec::new() };
        dissection.divide(grid, Rectangle { rows: (0, grid.rows()), cols: (0, grid.cols()) });
        dissection.connect(grid);
        dissection
    }

    pub(super) fn num_nodes(&self) -> usize {
        self.num_nodes
    }

    pub(super) fn fronts(&self) -> &[FrontShape] {
        &self.fronts
    }

    /// Appends the fronts of a rectangle and returns the last one, if the rectangle has a cell.
    fn divide(&mut self, grid: Grid, rectangle: Rectangle) -> Option<usize> {
        let Rectangle { rows, cols } = rectangle;
        let (height, width) = (rows.1 - rows.0, cols.1 - cols.0);
        let num_cells = height * width;
        if num_cells == 0 {
            return None;
        }
        let first = self.fronts.len();
        let mut children = Vec::new();
        let pivots = if num_cells <= LEAF_CELLS {
            nodes_of(grid, rectangle).collect()
        } else if height > width {
            let cut = rows.0 + height / 2;
            children.extend(self.divide(grid, Rectangle { rows: (rows.0, cut), cols }));
            children.extend(self.divide(grid, Rectangle { rows: (cut + 1, rows.1), cols }));
            nodes_of(grid, Rectangle { rows: (cut, cut + 1), cols }).collect()
        } else {
            let cut = cols.0 + width / 2;
            children.extend(self.divide(grid, Rectangle { rows, cols: (cols.0, cut) }));
            children.extend(self.divide(grid, Rectangle { rows, cols: (cut + 1, cols.1) }));
            nodes_of(grid, Rectangle { rows, cols: (cut, cut + 1) }).collect()
        };
        let boundary = ring_around(grid, rectangle);
        let (runs, edges) = (Vec::new(), Vec::new());
        self.fronts.push(FrontShape { pivots, boundary, children, first, num_cells, runs, edges });
        Some(self.fronts.len() - 1)
    }

    /// Fills in where each child's boundary lies in its parent, and which edges belong to which front.
    fn connect(&mut self, grid: Grid) {
        let mut position = vec![None; self.num_nodes];
        for index in 0..self.fronts.len() {
            let front = &self.fronts[index];
            let members: Vec<usize> = front.pivots.iter().chain(&front.boundary).copied().collect();
            members.iter().enumerate().for_each(|(at, &node)| position[node] = Some(at));
            let edges = front_edges(grid, &front.pivots, &position);
            let runs: Vec<_> =
                front.children.iter().map(|&child| runs_of(&self.fronts[child].boundary, &position)).collect();
            for (child, runs) in self.fronts[index].children.clone().into_iter().zip(runs) {
                self.fronts[child].runs = runs;
            }
            self.fronts[index].edges = edges;
            members.iter().for_each(|&node| position[node] = None);
        }
    }
}

fn nodes_of(grid: Grid, rectangle: Rectangle) -> impl Iterator<Item = usize> {
    let Rectangle { rows, cols } = rectangle;
    (rows.0..rows.1).flat_map(move |row| (cols.0..cols.1).map(move |col| grid.node(row, col)))
}

/// The cells of the grid that touch a rectangle from outside, corners included.
fn ring_around(grid: Grid, rectangle: Rectangle) -> Vec<usize> {
    let Rectangle { rows, cols } = rectangle;
    let wide = (cols.0.saturating_sub(1), (cols.1 + 1).min(grid.cols()));
    let mut ring = Vec::new();
    // Long sides as whole lines: they become long runs in the parent's front.
    if rows.0 > 0 {
        ring.extend(nodes_of(grid, Rectangle { rows: (rows.0 - 1, rows.0), cols: wide }));
    }
    if rows.1 < grid.rows() {
        ring.extend(nodes_of(grid, Rectangle { rows: (rows.1, rows.1 + 1), cols: wide }));
    }
    if cols.0 > 0 {
        ring.extend(nodes_of(grid, Rectangle { rows, cols: (cols.0 - 1, cols.0) }));
    }
    if cols.1 < grid.cols() {
        ring.extend(nodes_of(grid, Rectangle { rows, cols: (cols.1, cols.1 + 1) }));
    }
    ring
}

/// Edges between a pivot and a node that is eliminated here or later; earlier ones are not in the front.
fn front_edges(grid: Grid, pivots: &[usize], position: &[Option<usize>]) -> Vec<FrontEdge> {
    let mut edges = Vec::new();
    for (row, &pivot) in pivots.iter().enumerate() {
        for (direction, &(down, right)) in EDGE_OFFSETS.iter().enumerate() {
            for (offset, forward) in [((down, right), true), ((-down, -right), false)] {
                let Some(neighbor) = grid.neighbor(pivot, offset) else { continue };
                let Some(col) = position[neighbor] else { continue };
                // Both ends of an edge between two pivots come by here; each writes its own entry of the symmetric pair.
                let node = if forward { pivot } else { neighbor };
                edges.push(FrontEdge { direction, node, row, col });
            }
        }
    }
    edges
}

fn runs_of(boundary: &[usize], position: &[Option<usize>]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (start, &node) in boundary.iter().enumerate() {
        let parent_start = position[node].expect("a child's ring lies in the parent's pivots and ring");
        match runs.last_mut() {
            Some(run) if run.parent_start + run.len == parent_start => run.len += 1,
            _ => runs.push(Run { start, parent_start, len: 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [(usize, usize); 7] = [(1, 1), (1, 70), (70, 1), (2, 33), (5, 4), (23, 17), (40, 37)];

    #[test]
    fn every_node_is_eliminated_exactly_once() {
        for (rows, cols) in SIZES {
            let dissection = Dissection::new(Grid::new(rows, cols).unwrap());
            let mut pivots: Vec<usize> = dissection.fronts().iter().flat_map(|front| front.pivots.clone()).collect();
            pivots.sort_unstable();
            assert!(pivots.into_iter().eq(0..rows * cols), "{rows}x{cols}");
            assert!(dissection.fronts().last().unwrap().boundary.is_empty());
        }
    }

    #[test]
    fn every_edge_enters_with_the_front_of_its_first_eliminated_end() {
        for (rows, cols) in SIZES {
            let grid = Grid::new(rows, cols).unwrap();
            let dissection = Dissection::new(grid);
            let mut count = [vec![0; rows * cols], vec![0; rows * cols], vec![0; rows * cols], vec![0; rows * cols]];
            for front in dissection.fronts() {
                for edge in &front.edges {
                    // An edge between two pivots is listed from both ends, any other once.
                    count[edge.direction][edge.node] += if edge.col < front.num_pivots() { 1 } else { 2 };
                }
            }
            for (direction, count) in count.iter().enumerate() {
                for (node, &count) in count.iter().enumerate() {
                    let expected = if grid.neighbor(node, EDGE_OFFSETS[direction]).is_some() { 2 } else { 0 };
                    assert_eq!(count, expected, "{rows}x{cols} edge {direction} of {node}");
                }
            }
        }
    }
}
