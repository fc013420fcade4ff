//! Which pixels a point sees: exact shadow casting from the centre of one pixel.

use gpara::Grid;

/// Visits every outdoor pixel whose centre is visible from the centre of the outdoor pixel `source`, some of them twice.
///
/// A straight segment is blocked by the open square of any built pixel it enters. Touching corners on one side of the
/// segment does not block; touching corners on both sides does (a gap of width zero lets nothing through). Each of
/// the four quadrants is swept row by row away from the source with the set of slopes that are still open.
///
/// Slopes are quotients of integers below 2^16: two different ones differ by more than 2^-33, so comparing them as f64
/// is exact, and mirrored scenes give mirrored answers bit by bit.
pub(super) fn visit_visible(grid: Grid, built: &[bool], source: usize, mut visit: impl FnMut(usize)) {
    visit(source);
    for quadrant in [Quadrant::Down, Quadrant::Up, Quadrant::Right, Quadrant::Left] {
        sweep_quadrant(grid, built, source, quadrant, &mut visit);
    }
}

/// One flag a pixel: whether the centre of `source` sees it.
pub(super) fn visible_from(grid: Grid, built: &[bool], source: usize) -> Vec<bool> {
    let mut visible = vec![false; grid.num_nodes()];
    visit_visible(grid, built, source, |pixel| visible[pixel] = true);
    visible
}

#[derive(Clone, Copy)]
enum Quadrant {
    Down,
    Up,
    Right,
    Left,
}

impl Quadrant {
    /// Row and column of a step of `depth` away from the source and `aside` across.
    fn offset(self, depth: isize, aside: isize) -> (isize, isize) {
        match self {
            Self::Down => (depth, aside),
            Self::Up => (-depth, aside),
            Self::Right => (aside, depth),
            Self::Left => (aside, -depth),
        }
    }

    /// Rows (or columns) between the source and the border in this direction.
    fn num_depths(self, grid: Grid, (row, col): (usize, usize)) -> usize {
        match self {
            Self::Down => grid.rows() - 1 - row,
            Self::Up => row,
            Self::Right => grid.cols() - 1 - col,
            Self::Left => col,
        }
    }

    /// Pixels on the negative and the positive side of the axis.
    fn num_aside(self, grid: Grid, (row, col): (usize, usize)) -> (isize, isize) {
        let (before, after) = match self {
            Self::Down | Self::Up => (col, grid.cols() - 1 - col),
            Self::Right | Self::Left => (row, grid.rows() - 1 - row),
        };
        (before as isize, after as isize)
    }
}

fn sweep_quadrant(grid: Grid, built: &[bool], source: usize, quadrant: Quadrant, visit: &mut impl FnMut(usize)) {
    let center = grid.row_col(source);
    let (before, after) = quadrant.num_aside(grid, center);
    // Open slopes (aside / depth) as closed intervals of positive length, ascending.
    let mut open = vec![(-1.0, 1.0)];
    let mut next = Vec::new();
    for depth in 1..=quadrant.num_depths(grid, center) as isize {
        let pixel_at = |aside: isize| {
            let (down, right) = quadrant.offset(depth, aside);
            (center.0.wrapping_add_signed(down)) * grid.cols() + center.1.wrapping_add_signed(right)
        };
        next.clear();
        for &(low, high) in &open {
            sweep_interval(depth, (low, high), (before, after), pixel_at, built, visit, &mut next);
        }
        std::mem::swap(&mut open, &mut next);
        if open.is_empty() {
            break;
        }
    }
}

/// Visits the visible pixels of one row within one open interval and appends what stays open behind the row.
fn sweep_interval(
    depth: isize,
    (low, high): (f64, f64),
    (before, after): (isize, isize),
    pixel_at: impl Fn(isize) -> usize,
    built: &[bool],
    visit: &mut impl FnMut(usize),
    next: &mut Vec<(f64, f64)>,
) {
    // The pixels whose square can meet the interval, with one to spare at each end against rounding.
    let reach = |slope: f64, depth: f64| slope * depth;
    let near = depth as f64 - 0.5;
    let far = depth as f64 + 0.5;
    let first = (reach(low, near).min(reach(low, far)) - 0.5).floor() as isize - 1;
    let last = (reach(high, near).max(reach(high, far)) + 0.5).ceil() as isize + 1;
    let mut from = low;
    for aside in first.max(-before).max(-depth)..=last.min(after).min(depth) {
        let pixel = pixel_at(aside);
        if built[pixel] {
            let (shadow_low, shadow_high) = shadow(aside, depth);
            if shadow_high <= from || shadow_low >= high {
                continue;
            }
            if shadow_low > from {
                next.push((from, shadow_low));
            }
            from = shadow_high;
        } else {
            let slope = aside as f64 / depth as f64;
            // A diagonal ray touches the pixel beside its end; no other ray meets the end's row before the end.
            let touches_beside = aside.abs() == depth && built[pixel_at(aside - aside.signum())];
            if low <= slope && slope <= high && !touches_beside {
                visit(pixel);
            }
        }
    }
    if from < high {
        next.push((from, high));
    }
}

/// Slopes of the rays that enter the square of a pixel, as an open interval.
fn shadow(aside: isize, depth: isize) -> (f64, f64) {
    let quotient = |aside: isize, depth: isize| aside as f64 / depth as f64;
    // Doubled coordinates keep numerators and denominators integers.
    let (left, right) = (2 * aside - 1, 2 * aside + 1);
    let (near, far) = (2 * depth - 1, 2 * depth + 1);
    let low = if left >= 0 { quotient(left, far) } else { quotient(left, near) };
    let high = if right >= 0 { quotient(right, near) } else { quotient(right, far) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radio::test_masks::mask;

    /// Walks the segment pixel by pixel in integers: an independent answer to the same question.
    fn segment_is_clear(grid: Grid, built: &[bool], from: usize, to: usize) -> bool {
        let ((r0, c0), (r1, c1)) = (grid.row_col(from), grid.row_col(to));
        let (rows, cols) = (r1.abs_diff(r0) as i64, c1.abs_diff(c0) as i64);
        let (step_row, step_col) = ((r1 as i64 - r0 as i64).signum(), (c1 as i64 - c0 as i64).signum());
        let at = |row: i64, col: i64| built[grid.node(row as usize, col as usize)];
        let (mut row, mut col) = (r0 as i64, c0 as i64);
        // Crossings of the next horizontal and vertical pixel border, as (2 k + 1) / (2 n) along the segment.
        let (mut crossed_rows, mut crossed_cols) = (0, 0);
        let mut touched = (false, false);
        while (row, col) != (r1 as i64, c1 as i64) {
            let row_time = (2 * crossed_rows + 1) * cols;
            let col_time = (2 * crossed_cols + 1) * rows;
            let down = crossed_rows < rows && (crossed_cols == cols || row_time <= col_time);
            let right = crossed_cols < cols && (crossed_rows == rows || col_time <= row_time);
            if down && right {
                touched.0 |= at(row + step_row, col);
                touched.1 |= at(row, col + step_col);
                if touched == (true, true) {
                    return false;
                }
            }
            if down {
                row += step_row;
                crossed_rows += 1;
            }
            if right {
                col += step_col;
                crossed_cols += 1;
            }
            if at(row, col) {
                return false;
            }
        }
        true
    }

    #[test]
    fn wall_shadows_the_pixels_behind_it_only() {
        let (grid, built) = mask(&["......", "..##..", "......", "......"]);
        let seen = visible_from(grid, &built, 2);
        let rows: Vec<String> =
            seen.chunks(6).map(|row| row.iter().map(|&seen| if seen { '+' } else { '-' }).collect()).collect();
        assert_eq!(rows, ["++++++", "++---+", "+-----", "------"]);
    }

    #[test]
    fn two_buildings_that_meet_at_a_vertex_block_and_one_does_not() {
        for (rows, expected) in [([".#.", "#..", "..."], false), (["...", "#..", "..."], true)] {
            let (grid, built) = mask(&rows);
            let seen = visible_from(grid, &built, 0);
            assert_eq!(seen[8], expected, "{rows:?}");
        }
    }

    #[test]
    fn shadow_casting_agrees_with_walking_each_segment_on_random_masks() {
        for (seed, share) in [(1, 0.05), (2, 0.1), (3, 0.2), (4, 0.35)] {
            let mut stream = gpara::SeedTree::new(seed).stream("mask");
            let grid = Grid::new(31, 43).unwrap();
            let built: Vec<bool> = (0..grid.num_nodes()).map(|_| stream.uniform() < share).collect();
            for source in (0..grid.num_nodes()).filter(|&node| !built[node]).step_by(37) {
                let seen = visible_from(grid, &built, source);
                for target in (0..grid.num_nodes()).filter(|&node| !built[node]) {
                    let clear = segment_is_clear(grid, &built, source, target);
                    assert_eq!(seen[target], clear, "share {share}: {source} to {target}");
                }
            }
        }
    }
}
