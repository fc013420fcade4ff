//! Around how many building corners a ray must bend to reach a pixel.

use gpara::Grid;

use super::visibility::visit_visible;

/// Number of corners at which the order stops counting: "three or more, or unreachable".
pub(super) const MAX_ORDER: u8 = 3;

/// The four diagonal neighbours.
const DIAGONALS: [(isize, isize); 4] = [(-1, -1), (-1, 1), (1, -1), (1, 1)];

/// A convex corner of a building: an outdoor pixel that meets a built one only at the vertex towards `toward`.
#[derive(Debug, Clone, Copy)]
struct Corner {
    pixel: usize,
    toward: (isize, isize),
}

/// The smallest number of corners between the source and each pixel, at most [`MAX_ORDER`] (also for buildings).
///
/// `visible` are the pixels of order 0. A corner that bends rays of order k lights what it sees with order k + 1. A
/// corner bends the rays of a point if the point sees it and sees only one of its two faces, so that the edge of a
/// shadow starts there. All such corners are used: the rule commutes with flips and transposes, which a cap on their
/// number would not.
pub(super) fn diffraction_order(grid: Grid, built: &[bool], source: usize, visible: &[bool]) -> Vec<u8> {
    let mut order: Vec<u8> = visible.iter().map(|&visible| if visible { 0 } else { MAX_ORDER }).collect();
    let mut idle = corners(grid, built);
    let mut bending = take_bending(grid, &mut idle, source, visible);
    let mut seen = vec![false; grid.num_nodes()];
    let mut visited = Vec::new();
    for next in 1..MAX_ORDER {
        let mut bending_next = Vec::new();
        for corner in bending {
            visit_visible(grid, built, corner.pixel, |pixel| {
                order[pixel] = order[pixel].min(next);
                seen[pixel] = true;
                visited.push(pixel);
            });
            bending_next.extend(take_bending(grid, &mut idle, corner.pixel, &seen));
            // Undoing only what was visited: most corners see a small part of the square.
            visited.drain(..).for_each(|pixel| seen[pixel] = false);
        }
        bending = bending_next;
    }
    order
}

/// All corners of a mask.
fn corners(grid: Grid, built: &[bool]) -> Vec<Corner> {
    let outdoors = (0..grid.num_nodes()).filter(|&pixel| !built[pixel]);
    let corners = outdoors.flat_map(|pixel| DIAGONALS.map(|toward| Corner { pixel, toward }));
    corners.filter(|corner| corner.is_convex(grid, built)).collect()
}

/// Removes from `idle` and returns the corners that bend the rays of `source`, which sees the pixels `seen`.
fn take_bending(grid: Grid, idle: &mut Vec<Corner>, source: usize, seen: &[bool]) -> Vec<Corner> {
    let mut bending = Vec::new();
    idle.retain(|corner| {
        let bends = seen[corner.pixel] && corner.hides_a_face_from(grid, source);
        if bends {
            bending.push(*corner);
        }
        !bends
    });
    bending
}

impl Corner {
    fn is_convex(self, grid: Grid, built: &[bool]) -> bool {
        let is_built = |offset| grid.neighbor(self.pixel, offset).is_some_and(|neighbor| built[neighbor]);
        is_built(self.toward) && !is_built((self.toward.0, 0)) && !is_built((0, self.toward.1))
    }

    /// Whether a point that sees the corner is on the hidden side of one of the two faces.
    fn hides_a_face_from(self, grid: Grid, point: usize) -> bool {
        let ((row, col), (point_row, point_col)) = (grid.row_col(self.pixel), grid.row_col(point));
        // The faces lie half a pixel from the corner pixel's centre, so a centre is never on the line of one.
        let beyond = |point: usize, own: usize, toward: isize| (point as isize - own as isize) * toward > 0;
        beyond(point_row, row, self.toward.0) || beyond(point_col, col, self.toward.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radio::test_masks::mask;
    use crate::radio::visibility::visible_from;

    fn orders(rows: &[&str], source: (usize, usize)) -> Vec<String> {
        let (grid, built) = mask(rows);
        let source = grid.node(source.0, source.1);
        let visible = visible_from(grid, &built, source);
        let order = diffraction_order(grid, &built, source, &visible);
        let symbol = |node: usize| if built[node] { '#' } else { char::from(b'0' + order[node]) };
        (0..grid.rows()).map(|row| (0..grid.cols()).map(|col| symbol(grid.node(row, col))).collect()).collect()
    }

    #[test]
    fn order_grows_by_one_at_each_corner_of_a_corridor_and_stays_three_in_a_courtyard() {
        let rows = [
            "............", //
            ".###########",
            ".#.#......#.",
            ".###.####.#.",
            "......###...",
        ];
        let expected = [
            "011111111111", //
            "0###########",
            "0#3#122222#3",
            "0###1####3#3",
            "000000###333",
        ];
        assert_eq!(orders(&rows, (4, 0)), expected);
    }

    #[test]
    fn thick_wall_bends_at_each_of_its_vertices() {
        let rows = ["........", "........", "..####..", "........", "........"];
        let expected = ["00000000", "00000000", "00####10", "01222211", "11122111"];
        assert_eq!(orders(&rows, (0, 3)), expected);
    }

    #[test]
    fn corner_with_both_faces_lit_bends_nothing() {
        let (grid, built) = mask(&["....", "....", "..##", "..##"]);
        let seen: Vec<bool> = built.iter().map(|built| !built).collect();
        let mut idle = corners(grid, &built);
        assert_eq!(idle.len(), 1);
        assert!(take_bending(grid, &mut idle, grid.node(0, 0), &seen).is_empty());
        for hidden in [(0, 3), (3, 1)] {
            assert_eq!(take_bending(grid, &mut idle.clone(), grid.node(hidden.0, hidden.1), &seen).len(), 1);
        }
    }
}
