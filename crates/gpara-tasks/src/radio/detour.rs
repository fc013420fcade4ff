//! How much longer the way around the buildings is than the straight line.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gpara::Grid;

/// Outdoor distance of every pixel from the source, in pixels; infinite where no outdoor way leads.
///
/// Visible pixels have their Euclidean distance. From them a first-order fast-marching front (|grad d| = 1, four
/// neighbours, so it never passes between two buildings that meet at a vertex) enters the shadows. An accepted
/// distance never depends on one accepted later, and the update is symmetric in its two axes: mirrored scenes give
/// mirrored distances.
pub(super) fn outdoor_distance(grid: Grid, built: &[bool], source: usize, visible: &[bool]) -> Vec<f64> {
    let mut distance: Vec<f64> = (0..grid.num_nodes())
        .map(|pixel| if visible[pixel] { euclidean_distance(grid, source, pixel) } else { f64::INFINITY })
        .collect();
    let mut accepted = visible.to_vec();
    // Positive floats order like their bits; the node makes the order total.
    let mut front = BinaryHeap::new();
    let offer = |pixel: usize, distance: &mut [f64], accepted: &[bool], front: &mut BinaryHeap<_>| {
        for neighbor in grid.sides(pixel) {
            if built[neighbor] || accepted[neighbor] {
                continue;
            }
            let value = marched_distance(grid, distance, accepted, neighbor);
            if value < distance[neighbor] {
                distance[neighbor] = value;
                front.push(Reverse((value.to_bits(), neighbor)));
            }
        }
    };
    for pixel in (0..grid.num_nodes()).filter(|&pixel| visible[pixel]) {
        offer(pixel, &mut distance, &accepted, &mut front);
    }
    while let Some(Reverse((bits, pixel))) = front.pop() {
        if accepted[pixel] || bits != distance[pixel].to_bits() {
            continue;
        }
        accepted[pixel] = true;
        offer(pixel, &mut distance, &accepted, &mut front);
    }
    distance
}

/// Euclidean distance between the centres of two pixels.
pub(super) fn euclidean_distance(grid: Grid, from: usize, to: usize) -> f64 {
    let ((from_row, from_col), (to_row, to_col)) = (grid.row_col(from), grid.row_col(to));
    let (rows, cols) = (from_row.abs_diff(to_row) as f64, from_col.abs_diff(to_col) as f64);
    (rows * rows + cols * cols).sqrt()
}

/// Godunov update of |grad d| = 1 from the accepted neighbours.
fn marched_distance(grid: Grid, distance: &[f64], accepted: &[bool], pixel: usize) -> f64 {
    let nearest = |sides: [(isize, isize); 2]| {
        let neighbors = sides.into_iter().filter_map(|side| grid.neighbor(pixel, side));
        neighbors.filter(|&neighbor| accepted[neighbor]).fold(f64::INFINITY, |least, node| least.min(distance[node]))
    };
    let vertical = nearest([(-1, 0), (1, 0)]);
    let horizontal = nearest([(0, -1), (0, 1)]);
    let difference = (vertical - horizontal).abs();
    // Also taken when one of the two is infinite (a front from one side only); both never are.
    if difference >= 1.0 {
        return vertical.min(horizontal) + 1.0;
    }
    (vertical + horizontal + (2.0 - difference * difference).sqrt()) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radio::test_masks::mask;
    use crate::radio::visibility::visible_from;

    fn distances(rows: &[&str], source: usize) -> Vec<f64> {
        let (grid, built) = mask(rows);
        let visible = visible_from(grid, &built, source);
        outdoor_distance(grid, &built, source, &visible)
    }

    #[test]
    fn open_ground_has_euclidean_distances() {
        let distance = distances(&["....", "....", "...."], 0);
        assert_eq!(distance[11], 13f64.sqrt());
        assert_eq!(distance[0], 0.0);
    }

    #[test]
    fn closed_courtyard_is_unreachable_even_when_its_walls_meet_only_at_vertices() {
        let distance = distances(&[".......", "...#...", "..#.#..", "...#...", "......."], 0);
        assert_eq!(distance[17], f64::INFINITY);
        assert!(distance[34].is_finite());
    }

    #[test]
    fn way_around_a_wall_is_close_to_the_taut_string() {
        // A wall of 40 pixels with its end at column 20; from (20, 30) to (20 + 12, 30) the way leads around the end.
        let (rows, cols) = (50, 60);
        let grid = Grid::new(rows, cols).unwrap();
        let built: Vec<bool> =
            (0..grid.num_nodes()).map(|node| grid.row_col(node).0 == 26 && grid.row_col(node).1 >= 20).collect();
        let source = grid.node(20, 30);
        let visible = visible_from(grid, &built, source);
        let distance = outdoor_distance(grid, &built, source, &visible);
        // Through the centres of the corner pixels (25, 19) and (27, 19): no way over pixel centres is shorter.
        let taut = 2.0 * (5f64 * 5.0 + 11.0 * 11.0).sqrt() + 2.0;
        let found = distance[grid.node(32, 30)];
        assert!((taut..1.03 * taut).contains(&found), "found {found}, taut string {taut}");
    }
}
