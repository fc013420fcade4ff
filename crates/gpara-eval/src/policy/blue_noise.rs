//! Blue noise by best candidate (Mitchell 1991): random cells that keep their distance.

use gpara::{Context, SeedTree};
use serde::Deserialize;

use super::order::FixedOrder;
use crate::registry::PolicyEntry;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "blue-noise",
    about: "of some random cells the one farthest from all before it (best candidate)",
    build: |scene, settings| {
        let settings: BlueNoise = settings.parse("blue-noise")?;
        let nodes = order(scene.context, scene.seeds, scene.budget, settings.candidates);
        scene.plain_model(Box::new(FixedOrder::new("blue-noise", nodes)))
    },
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BlueNoise {
    /// Random cells compared for each point.
    candidates: usize,
}

impl Default for BlueNoise {
    fn default() -> Self {
        Self { candidates: 16 }
    }
}

/// `budget` spread nodes, then all others in node order: some of the first may be inadmissible to a session.
fn order(context: &Context, seeds: SeedTree, budget: usize, candidates: usize) -> Vec<usize> {
    let (grid, valid) = (context.grid(), context.valid());
    let mut stream = seeds.stream("policy/blue-noise");
    let mut open: Vec<usize> = valid.nodes().collect();
    let mut squared = vec![usize::MAX; grid.num_nodes()];
    let mut nodes = Vec::with_capacity(open.len());
    while nodes.len() < budget && !open.is_empty() {
        let draws: Vec<usize> = (0..candidates.max(1)).map(|_| stream.index(open.len())).collect();
        let best = draws.into_iter().reduce(|best, draw| match squared[open[draw]] > squared[open[best]] {
            true => draw,
            false => best,
        });
        let node = open.swap_remove(best.expect("at least one was drawn"));
        nodes.push(node);
        let (row, col) = grid.row_col(node);
        for (other, squared) in squared.iter_mut().enumerate() {
            let (other_row, other_col) = grid.row_col(other);
            *squared = (*squared).min(row.abs_diff(other_row).pow(2) + col.abs_diff(other_col).pow(2));
        }
    }
    open.sort_unstable();
    nodes.extend(open);
    nodes
}

#[cfg(test)]
mod tests {
    use gpara::Grid;

    use super::*;

    #[test]
    fn points_keep_a_distance_that_random_ones_do_not() {
        let grid = Grid::new(40, 40).unwrap();
        let context = Context::empty(grid);
        let nearest = |candidates: usize| {
            let nodes = &order(&context, SeedTree::new(3), 64, candidates)[..64];
            let distance = |a: usize, b: usize| {
                let ((r1, c1), (r2, c2)) = (grid.row_col(a), grid.row_col(b));
                r1.abs_diff(r2).pow(2) + c1.abs_diff(c2).pow(2)
            };
            let pairs = nodes.iter().flat_map(|&a| nodes.iter().filter(move |&&b| b < a).map(move |&b| distance(a, b)));
            pairs.min().unwrap()
        };
        // 64 points on 1600 cells: a square lattice has distance 5.
        assert!(nearest(16) >= 9, "{}", nearest(16));
        assert!(nearest(1) <= 2, "{}", nearest(1));
    }
}
