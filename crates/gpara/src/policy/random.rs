//! Cells in random order, every admissible cell equally likely.

use super::{AcquisitionInput, Policy, SelectedPoint, Selection, check_count};
use crate::error::Result;
use crate::grid::Grid;
use crate::seed::SeedTree;

/// Walks through one random permutation of the grid (stream `policy/random`) and takes the cells that are admissible.
///
/// The permutation depends on the seed and the grid alone, so the points of a small budget are among those of a larger
/// one, and the batch size does not matter.
#[derive(Debug, Clone, Default)]
pub struct Random {
    order: Option<Order>,
}

#[derive(Debug, Clone)]
struct Order {
    seeds: SeedTree,
    grid: Grid,
    nodes: Vec<usize>,
}

impl Random {
    /// The policy before its first round.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn needs_ensemble(&self) -> bool {
        false
    }

    fn select(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        check_count(input, count)?;
        let (seeds, grid) = (input.seeds, input.context.grid());
        let known = self.order.take().filter(|order| order.seeds == seeds && order.grid == grid);
        let order = self.order.insert(known.unwrap_or_else(|| permutation(seeds, grid)));
        let admissible = order.nodes.iter().filter(|node| input.candidates.binary_search(node).is_ok());
        let points =
            admissible.take(count).map(|&node| SelectedPoint { node, score: 0.0, expected_risk_drop: None }).collect();
        Ok(Selection { points, risk: None })
    }
}

/// A uniformly random permutation of the nodes (Fisher-Yates).
fn permutation(seeds: SeedTree, grid: Grid) -> Order {
    let mut stream = seeds.stream("policy/random");
    let mut nodes: Vec<usize> = (0..grid.num_nodes()).collect();
    for last in (1..nodes.len()).rev() {
        nodes.swap(last, stream.index(last + 1));
    }
    Order { seeds, grid, nodes }
}
