//! The two-dimensional Sobol sequence, shifted at random: low discrepancy, the same density everywhere.

use std::collections::HashSet;

use gpara::{Context, SeedTree};

use super::order::FixedOrder;
use crate::registry::PolicyEntry;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "sobol",
    about: "Sobol sequence on the grid with a random shift; points on invalid cells are passed over",
    build: |scene, settings| {
        settings.none("sobol")?;
        scene.plain_model(Box::new(FixedOrder::new("sobol", order(scene.context, scene.seeds))))
    },
};

/// Every valid node, in the order in which the shifted sequence first hits it; what it never hits comes last.
fn order(context: &Context, seeds: SeedTree) -> Vec<usize> {
    let (grid, valid) = (context.grid(), context.valid());
    let mut stream = seeds.stream("policy/sobol");
    let shift = (stream.uniform(), stream.uniform());
    let mut seen = HashSet::new();
    let mut nodes = Vec::with_capacity(valid.num_valid());
    // A sequence that fills every elementary box hits each cell of a grid soon; the cap is far beyond that.
    let attempts = 8 * grid.num_nodes() as u32;
    for index in 0..attempts {
        let (first, second) = sobol_point(index);
        let row = (((first + shift.0) % 1.0) * grid.rows() as f64) as usize;
        let col = (((second + shift.1) % 1.0) * grid.cols() as f64) as usize;
        let node = grid.node(row.min(grid.rows() - 1), col.min(grid.cols() - 1));
        if valid.is_valid(node) && seen.insert(node) {
            nodes.push(node);
        }
    }
    nodes.extend(valid.nodes().filter(|node| !seen.contains(node)));
    nodes
}

/// Point `index` of the sequence: the van der Corput sequence, and the one of the polynomial x + 1.
fn sobol_point(index: u32) -> (f64, f64) {
    let scale = 1.0 / (1u64 << 32) as f64;
    let mut second = 0u32;
    let mut direction = 1u32 << 31;
    let mut rest = index;
    while rest != 0 {
        if rest & 1 == 1 {
            second ^= direction;
        }
        direction ^= direction >> 1;
        rest >>= 1;
    }
    (f64::from(index.reverse_bits()) * scale, f64::from(second) * scale)
}

#[cfg(test)]
mod tests {
    use gpara::Grid;

    use super::*;

    #[test]
    fn first_points_are_the_published_ones_and_each_box_gets_one() {
        let points: Vec<(f64, f64)> = (0..4).map(sobol_point).collect();
        assert_eq!(points, [(0.0, 0.0), (0.5, 0.5), (0.25, 0.75), (0.75, 0.25)]);
        // 64 points: one in every box of 1/8 x 1/8.
        let boxes: HashSet<(u32, u32)> =
            (0..64).map(sobol_point).map(|(a, b)| ((a * 8.0) as u32, (b * 8.0) as u32)).collect();
        assert_eq!(boxes.len(), 64);
    }

    #[test]
    fn order_is_a_permutation_of_the_valid_nodes() {
        let context = Context::empty(Grid::new(9, 13).unwrap());
        let mut nodes = order(&context, SeedTree::new(1));
        assert_ne!(nodes, order(&context, SeedTree::new(2)));
        nodes.sort_unstable();
        assert_eq!(nodes, (0..117).collect::<Vec<_>>());
    }
}
