//! A short way through a batch of points around obstacles.
//!
//! Exact: the length of the shortest way between two points over valid cells (Dijkstra; straight and diagonal steps, no
//! diagonal step past a corner). Heuristic: the order of the points, an open tour from the start by nearest neighbour,
//! then 2-opt and Or-opt until neither shortens it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use gpara::{Grid, Result, ValidMask};

use crate::error::SessionError;

const STEPS: [(isize, isize); 8] = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)];

/// Length of the shortest way from `start` to every cell, in cells; infinite where there is none.
///
/// # Errors
/// `InvalidInput` if `start` is outside the valid mask.
pub fn distances(valid: &ValidMask, start: usize) -> Result<Vec<f64>> {
    let grid = valid.grid();
    if start >= grid.num_nodes() || !valid.is_valid(start) {
        let (row, col) = grid.row_col(start);
        return Err(SessionError::RouteStart { row, col }.into());
    }
    let mut distance = vec![f64::INFINITY; grid.num_nodes()];
    let mut open = BinaryHeap::from([Reached { distance: 0.0, node: start }]);
    distance[start] = 0.0;
    while let Some(Reached { distance: so_far, node }) = open.pop() {
        if so_far > distance[node] {
            continue;
        }
        for step in STEPS {
            let Some(next) = free_step(grid, valid, node, step) else { continue };
            let length = so_far + if step.0 != 0 && step.1 != 0 { std::f64::consts::SQRT_2 } else { 1.0 };
            if length < distance[next] {
                distance[next] = length;
                open.push(Reached { distance: length, node: next });
            }
        }
    }
    Ok(distance)
}

/// The cell a step leads to, if one may go there: a diagonal step needs both cells beside it.
fn free_step(grid: Grid, valid: &ValidMask, node: usize, step: (isize, isize)) -> Option<usize> {
    let to = |step| grid.neighbor(node, step).filter(|&next| valid.is_valid(next));
    let next = to(step)?;
    if step.0 != 0 && step.1 != 0 {
        to((step.0, 0))?;
        to((0, step.1))?;
    }
    Some(next)
}

#[derive(PartialEq)]
struct Reached {
    distance: f64,
    node: usize,
}

impl Eq for Reached {}

impl Ord for Reached {
    /// The nearest cell is the greatest, as the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.distance.total_cmp(&self.distance).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Reached {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A tour: the order in which points are visited, and its length in cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Tour {
    /// Places in the list of points.
    pub order: Vec<usize>,
    /// Length from the start through all points, in cells.
    pub length: f64,
}

/// Orders points into a short open tour that begins at `start`.
///
/// # Errors
/// `InvalidInput` if the start or a point is outside the valid mask, or a point cannot be reached.
pub fn order(valid: &ValidMask, start: usize, points: &[usize]) -> Result<Tour> {
    let stops: Vec<usize> = std::iter::once(start).chain(points.iter().copied()).collect();
    let mut table = Vec::with_capacity(stops.len());
    for &stop in &stops {
        let from = distances(valid, stop)?;
        table.push(stops.iter().map(|&other| from[other]).collect::<Vec<f64>>());
    }
    if let Some(at) = table[0].iter().position(|length| length.is_infinite()) {
        let (row, col) = valid.grid().row_col(stops[at]);
        let reason = format!("row {row}, col {col} cannot be reached from the start of the route");
        return Err(SessionError::NothingLeft { reason }.into());
    }
    let mut tour = nearest_neighbor(&table);
    while two_opt(&table, &mut tour) || or_opt(&table, &mut tour) {}
    let length = length(&table, &tour);
    Ok(Tour { order: tour[1..].iter().map(|stop| stop - 1).collect(), length })
}

/// Length of a tour over the stops.
fn length(table: &[Vec<f64>], tour: &[usize]) -> f64 {
    tour.windows(2).map(|leg| table[leg[0]][leg[1]]).sum()
}

fn nearest_neighbor(table: &[Vec<f64>]) -> Vec<usize> {
    let mut tour = vec![0];
    let mut open: Vec<usize> = (1..table.len()).collect();
    while !open.is_empty() {
        let here = tour[tour.len() - 1];
        let nearest = (0..open.len()).min_by(|&a, &b| table[here][open[a]].total_cmp(&table[here][open[b]]));
        tour.push(open.remove(nearest.expect("a stop is open")));
    }
    tour
}

/// Gains below this are rounding.
const GAIN: f64 = 1e-9;

/// Reverses the first part found whose reversal shortens the tour; the start stays where it is.
fn two_opt(table: &[Vec<f64>], tour: &mut [usize]) -> bool {
    let before = length(table, tour);
    for from in 1..tour.len() {
        for to in from + 1..tour.len() {
            tour[from..=to].reverse();
            if length(table, tour) < before - GAIN {
                return true;
            }
            tour[from..=to].reverse();
        }
    }
    false
}

/// Moves the first part of one to three stops found whose move shortens the tour.
fn or_opt(table: &[Vec<f64>], tour: &mut Vec<usize>) -> bool {
    let before = length(table, tour);
    for size in 1..=3.min(tour.len() - 1) {
        for from in 1..=tour.len() - size {
            let part: Vec<usize> = tour[from..from + size].to_vec();
            let rest: Vec<usize> = tour[..from].iter().chain(&tour[from + size..]).copied().collect();
            for at in 1..=rest.len() {
                let moved: Vec<usize> = rest[..at].iter().chain(&part).chain(&rest[at..]).copied().collect();
                if length(table, &moved) < before - GAIN {
                    *tour = moved;
                    return true;
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    /// A wall in column 2 with a gap in the last row.
    fn walled() -> ValidMask {
        let grid = Grid::new(4, 5).unwrap();
        ValidMask::new(grid, (0..20).map(|node| node % 5 != 2 || node / 5 == 3).collect()).unwrap()
    }

    #[test]
    fn way_around_a_wall_takes_no_corner() {
        let distance = distances(&walled(), 0).unwrap();
        // (0,0) to (0,4): down to row 3, through the gap straight, up again; diagonals where no wall is beside them.
        let expected = 2.0 * (2.0 + std::f64::consts::SQRT_2) + 2.0;
        assert!((distance[4] - expected).abs() < 1e-12, "{} against {expected}", distance[4]);
        assert!(distance[2].is_infinite());
        assert_eq!(distances(&walled(), 2).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn tour_of_seven_points_is_within_five_percent_of_the_best_order() {
        let valid = ValidMask::all(Grid::new(20, 30).unwrap());
        let points = [7, 113, 250, 599, 301, 420, 33];
        let tour = order(&valid, 0, &points).unwrap();
        let stops: Vec<usize> = std::iter::once(0).chain(points).collect();
        let table: Vec<Vec<f64>> = stops
            .iter()
            .map(|&stop| {
                let from = distances(&valid, stop).unwrap();
                stops.iter().map(|&other| from[other]).collect()
            })
            .collect();
        let mut best = f64::INFINITY;
        permutations(&mut (1..=7).collect::<Vec<_>>(), 0, &mut |order| {
            let tour: Vec<usize> = std::iter::once(0).chain(order.iter().copied()).collect();
            best = best.min(length(&table, &tour));
        });
        assert!(tour.length <= 1.05 * best, "{} against {best}", tour.length);
        let mut sorted = tour.order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
    }

    fn permutations(items: &mut Vec<usize>, from: usize, visit: &mut dyn FnMut(&[usize])) {
        if from == items.len() {
            return visit(items);
        }
        for at in from..items.len() {
            items.swap(from, at);
            permutations(items, from + 1, visit);
            items.swap(from, at);
        }
    }

    #[test]
    fn point_behind_a_closed_wall_is_refused() {
        let grid = Grid::new(2, 3).unwrap();
        let valid = ValidMask::new(grid, vec![true, false, true, true, false, true]).unwrap();
        assert_eq!(order(&valid, 0, &[2]).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
