//! Which measurements are compared with which others, so that a likelihood takes a time proportional to their number.
//!
//! Vecchia's approximation: the density of all values is the product of the density of each given those before it in some
//! order, and of these only the nearest matter. The order is that of a hash of the cell, so that it looks random (early
//! values are spread over the field) and does not depend on the order in which the values came.

use std::collections::BTreeMap;

use gpara::{Grid, Observations};

/// Values each value is conditioned on.
const NUM_NEIGHBORS: usize = 14;

/// Values whose conditional density is taken; with more measurements a fixed share of them stands for all.
const MOST_TERMS: usize = 1200;

/// One factor of the density.
#[derive(Debug)]
pub(super) struct Term {
    /// Places in the list of measurements: the values conditioned on, then the value itself.
    pub(super) members: Vec<usize>,
    /// Index of the distance of each pair (second < first), by rows of the lower triangle without its diagonal.
    pub(super) pairs: Vec<u32>,
}

/// The factors, and the distances that occur in them.
#[derive(Debug)]
pub(super) struct Design {
    pub(super) terms: Vec<Term>,
    /// Distinct distances in cells.
    pub(super) distances: Vec<f64>,
    /// Each factor stands for this many.
    pub(super) weight: f64,
}

impl Design {
    pub(super) fn new(observations: &Observations) -> Self {
        let grid = observations.grid();
        let nodes: Vec<usize> = observations.iter().map(|entry| entry.node).collect();
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|&at| (scrambled(nodes[at]), nodes[at]));
        let num_terms = order.len().min(MOST_TERMS);
        // With too many measurements every k-th factor in the order is taken, its neighbours come from all before it.
        let places = (0..num_terms).map(|term| term * order.len() / num_terms.max(1));
        let mut distances = Distances::default();
        let terms = places.map(|place| term(grid, &nodes, &order[..=place], &mut distances)).collect();
        let weight = order.len() as f64 / num_terms.max(1) as f64;
        Self { terms, distances: distances.values(), weight }
    }
}

/// The factor of the last value of `order`.
fn term(grid: Grid, nodes: &[usize], order: &[usize], distances: &mut Distances) -> Term {
    let (&target, before) = order.split_last().expect("an order up to a place holds that place");
    let mut near: Vec<(u64, usize)> =
        before.iter().map(|&other| (squared_distance(grid, nodes[target], nodes[other]), other)).collect();
    if near.len() > NUM_NEIGHBORS {
        near.select_nth_unstable(NUM_NEIGHBORS);
        near.truncate(NUM_NEIGHBORS);
    }
    near.sort_unstable();
    let members: Vec<usize> = near.iter().map(|&(_, other)| other).chain([target]).collect();
    let mut pairs = Vec::with_capacity(members.len() * members.len() / 2);
    for (row, &first) in members.iter().enumerate() {
        for &second in &members[..row] {
            pairs.push(distances.index(squared_distance(grid, nodes[first], nodes[second])));
        }
    }
    Term { members, pairs }
}

fn squared_distance(grid: Grid, first: usize, second: usize) -> u64 {
    let ((a, b), (c, d)) = (grid.row_col(first), grid.row_col(second));
    (a.abs_diff(c) * a.abs_diff(c) + b.abs_diff(d) * b.abs_diff(d)) as u64
}

/// A fixed permutation of the nodes (the finalizer of SplitMix64).
pub(super) fn scrambled(node: usize) -> u64 {
    let mut x = (node as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Numbers the distinct squared distances.
#[derive(Debug, Default)]
struct Distances(BTreeMap<u64, u32>);

impl Distances {
    fn index(&mut self, squared: u64) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(squared).or_insert(next)
    }

    fn values(&self) -> Vec<f64> {
        let mut values = vec![0.0; self.0.len()];
        self.0.iter().for_each(|(&squared, &index)| values[index as usize] = (squared as f64).sqrt());
        values
    }
}
