//! Each point as far as possible from all points before it.

use super::{AcquisitionInput, Policy, SelectedPoint, Selection, check_count};
use crate::context::Context;
use crate::error::Result;
use crate::grid::Grid;

/// Where farthest-point sampling starts when nothing is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FirstPoint {
    /// The candidate nearest to the centroid of the valid cells.
    Centroid,
    /// A uniformly random candidate, from the stream `policy/farthest-point`.
    Random,
}

/// Takes the candidate whose nearest measured or pending cell is farthest, in cells (Euclidean); ties go to the lowest
/// node. The score is that distance; that of a first point is infinite.
#[derive(Debug, Clone)]
pub struct FarthestPoint {
    first: FirstPoint,
    distances: Option<DistanceMap>,
}

impl FarthestPoint {
    /// The policy before its first round.
    pub fn new(first: FirstPoint) -> Self {
        Self { first, distances: None }
    }
}

impl Policy for FarthestPoint {
    fn name(&self) -> &str {
        "farthest-point"
    }

    fn needs_ensemble(&self) -> bool {
        false
    }

    fn select(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        check_count(input, count)?;
        let grid = input.context.grid();
        let mut occupied = vec![false; grid.num_nodes()];
        let taken = input.observations.iter().map(|entry| entry.node).chain(input.pending.iter().copied());
        taken.for_each(|node| occupied[node] = true);

        let known = self.distances.take().filter(|map| map.is_of(grid, &occupied));
        let distances = self.distances.insert(known.unwrap_or_else(|| DistanceMap::new(grid)));
        (0..occupied.len()).filter(|&node| occupied[node]).for_each(|node| distances.include(node));

        let mut open = input.candidates.to_vec();
        let mut points = Vec::with_capacity(count);
        for _ in 0..count {
            let at = match (distances.is_empty(), self.first) {
                (true, FirstPoint::Centroid) => nearest_to_centroid(input.context, &open),
                (true, FirstPoint::Random) => input.seeds.stream("policy/farthest-point").index(open.len()),
                (false, _) => distances.farthest(&open),
            };
            let node = open.remove(at);
            points.push(SelectedPoint { node, score: distances.distance(node), expected_risk_drop: None });
            distances.include(node);
        }
        Ok(Selection { points, risk: None })
    }
}

/// Index in `open` of the node nearest to the centroid of the valid cells, the first of equals.
fn nearest_to_centroid(context: &Context, open: &[usize]) -> usize {
    let grid = context.grid();
    let (rows, cols) = context
        .valid()
        .nodes()
        .map(|node| grid.row_col(node))
        .fold((0, 0), |sum, cell| (sum.0 + cell.0 as u64, sum.1 + cell.1 as u64));
    let count = context.valid().num_valid() as i128;
    // Distances times `count` are whole numbers, so equal distances compare as equal.
    let offset = |sum: u64, position: usize| (sum as i128 - count * position as i128).pow(2);
    let distance = |&index: &usize| {
        let (row, col) = grid.row_col(open[index]);
        offset(rows, row) + offset(cols, col)
    };
    (0..open.len()).min_by_key(distance).expect("there is a candidate")
}

/// Squared distance of every node to the nearest included one, kept up to date as nodes are included.
#[derive(Debug, Clone)]
struct DistanceMap {
    grid: Grid,
    included: Vec<bool>,
    squared: Vec<u64>,
    num_included: usize,
}

impl DistanceMap {
    fn new(grid: Grid) -> Self {
        let num_nodes = grid.num_nodes();
        Self { grid, included: vec![false; num_nodes], squared: vec![u64::MAX; num_nodes], num_included: 0 }
    }

    /// Whether the map may be continued: every node it includes is still occupied.
    fn is_of(&self, grid: Grid, occupied: &[bool]) -> bool {
        self.grid == grid && self.included.iter().zip(occupied).all(|(&included, &occupied)| occupied || !included)
    }

    fn is_empty(&self) -> bool {
        self.num_included == 0
    }

    /// Distance in cells of a node to the nearest included one; infinite if there is none.
    fn distance(&self, node: usize) -> f64 {
        if self.is_empty() { f64::INFINITY } else { (self.squared[node] as f64).sqrt() }
    }

    /// Lowers the map by the distances to `node`; O(M), nothing for a node that is in already.
    fn include(&mut self, node: usize) {
        if self.included[node] {
            return;
        }
        self.included[node] = true;
        self.num_included += 1;
        let (row, col) = self.grid.row_col(node);
        for (other_row, map) in self.squared.chunks_exact_mut(self.grid.cols()).enumerate() {
            let row_part = row.abs_diff(other_row).pow(2) as u64;
            for (other_col, squared) in map.iter_mut().enumerate() {
                *squared = (*squared).min(row_part + col.abs_diff(other_col).pow(2) as u64);
            }
        }
    }

    /// Index in `open` of the node with the largest distance, the first of equals.
    fn farthest(&self, open: &[usize]) -> usize {
        let mut best = 0;
        for index in 1..open.len() {
            if self.squared[open[index]] > self.squared[open[best]] {
                best = index;
            }
        }
        best
    }
}
