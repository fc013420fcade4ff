//! Random measurement layouts of one map, for a network that has to cope with any of them.

use std::sync::OnceLock;

use gpara::{Grid, Stream, ValidMask};

use crate::config::{CountDraw, MaskConfig};

/// Points of a precomputed farthest-point order.
const FARTHEST_POINTS: usize = 1024;

/// How measured cells are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Uniformly random cells.
    Random,
    /// A prefix of a farthest-point order.
    FarthestPoint,
    /// Around one to eight centres.
    Clustered,
    /// More where the field is steep.
    GradientWeighted,
}

/// What layouts of one map are drawn from.
#[derive(Debug, Clone)]
pub(crate) struct MapLayouts {
    grid: Grid,
    nodes: Vec<u32>,
    farthest: [FarthestOrder; 2],
    steepness: Vec<f32>,
}

/// A farthest-point order, made when it is first asked for: an augmented sample needs one of two in a third of all draws.
#[derive(Debug, Clone)]
struct FarthestOrder {
    /// Index of the first among the valid nodes.
    start: usize,
    order: OnceLock<Vec<u32>>,
}

impl FarthestOrder {
    fn from(start: usize) -> Self {
        Self { start, order: OnceLock::new() }
    }
}

impl MapLayouts {
    /// Finds where the farthest-point orders begin (one at the cell nearest the centroid, one at a random cell) and the steepness
    /// of the field.
    pub(crate) fn new(valid: &ValidMask, field: &[f32], stream: &mut Stream) -> Self {
        let grid = valid.grid();
        let nodes: Vec<u32> = valid.nodes().map(|node| node as u32).collect();
        let first = nearest_to_centroid(grid, &nodes);
        let second = stream.index(nodes.len());
        let farthest = [first, second].map(FarthestOrder::from);
        let steepness = steepness(valid, field);
        Self { grid, nodes, farthest, steepness }
    }

    /// The first `count` cells of the farthest-point order that starts at the centroid (all of it, if it is shorter).
    pub(crate) fn farthest(&self, count: usize) -> &[u32] {
        let order = self.farthest_order(0);
        &order[..count.min(order.len())]
    }

    fn farthest_order(&self, which: usize) -> &[u32] {
        let FarthestOrder { start, order } = &self.farthest[which];
        order.get_or_init(|| farthest_order(self.grid, &self.nodes, *start))
    }

    /// `count` distinct valid cells; all valid cells of a map that has fewer.
    pub(crate) fn draw(&self, layout: Layout, count: usize, stream: &mut Stream) -> Vec<u32> {
        let count = count.min(self.nodes.len());
        match layout {
            Layout::FarthestPoint => {
                let order = self.farthest_order(stream.index(2));
                order[..count.min(order.len())].to_vec()
            }
            Layout::Random => self.weighted(count, stream, |_| 1.0),
            Layout::GradientWeighted => self.weighted(count, stream, |index| f64::from(self.steepness[index])),
            Layout::Clustered => {
                let weights = self.cluster_weights(stream);
                self.weighted(count, stream, |index| weights[index])
            }
        }
    }

    /// A mask as a configuration asks for: empty, or a random layout of a log-uniform count.
    pub(crate) fn draw_any(&self, config: &MaskConfig, stream: &mut Stream) -> Vec<u32> {
        if stream.uniform() < config.empty_share {
            return Vec::new();
        }
        let count = match config.count {
            CountDraw::LogUniform => {
                let (low, high) = ((config.min_count as f64).ln(), (config.max_count as f64).ln());
                (low + (high - low) * stream.uniform()).exp().round() as usize
            }
            CountDraw::Uniform => config.min_count + stream.index(config.max_count - config.min_count + 1),
        };
        let draw = stream.uniform();
        let layout = if draw < config.random_share {
            Layout::Random
        } else if draw < config.random_share + config.farthest_share {
            Layout::FarthestPoint
        } else if draw < config.random_share + config.farthest_share + config.clustered_share {
            Layout::Clustered
        } else {
            Layout::GradientWeighted
        };
        self.draw(layout, count, stream)
    }

    /// Weighted sampling without replacement: the `count` smallest of exponential clocks of rate `weight`.
    fn weighted(&self, count: usize, stream: &mut Stream, weight: impl Fn(usize) -> f64) -> Vec<u32> {
        if count == 0 {
            return Vec::new();
        }
        let clock = |(index, &node): (usize, &u32)| (-(1.0 - stream.uniform()).ln() / weight(index), node);
        let mut clocks: Vec<(f64, u32)> = self.nodes.iter().enumerate().map(clock).collect();
        if count < clocks.len() {
            clocks
                .select_nth_unstable_by(count - 1, |left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
            clocks.truncate(count);
        }
        clocks.into_iter().map(|(_, node)| node).collect()
    }

    /// Gaussian bumps around random centres; a small floor keeps every cell possible.
    fn cluster_weights(&self, stream: &mut Stream) -> Vec<f64> {
        let num_centres = 1 + stream.index(8);
        let centres: Vec<(f64, f64, f64)> = (0..num_centres)
            .map(|_| {
                let (row, col) = self.grid.row_col(self.nodes[stream.index(self.nodes.len())] as usize);
                let spread = 3.0 + 13.0 * stream.uniform();
                (row as f64, col as f64, -0.5 / (spread * spread))
            })
            .collect();
        let weight = |&node: &u32| {
            let (row, col) = self.grid.row_col(node as usize);
            let bump = |&(centre_row, centre_col, factor): &(f64, f64, f64)| {
                (factor * ((row as f64 - centre_row).powi(2) + (col as f64 - centre_col).powi(2))).exp()
            };
            1e-6 + centres.iter().map(bump).sum::<f64>()
        };
        self.nodes.iter().map(weight).collect()
    }
}

/// Index of the node nearest to the centroid of `nodes`, the first of equals.
fn nearest_to_centroid(grid: Grid, nodes: &[u32]) -> usize {
    let cell = |&node: &u32| {
        let (row, col) = grid.row_col(node as usize);
        (row as f64, col as f64)
    };
    let (rows, cols) = nodes.iter().map(cell).fold((0.0, 0.0), |sum, at| (sum.0 + at.0, sum.1 + at.1));
    let centre = (rows / nodes.len() as f64, cols / nodes.len() as f64);
    let distance = |index: &usize| {
        let (row, col) = cell(&nodes[*index]);
        (row - centre.0).powi(2) + (col - centre.1).powi(2)
    };
    (0..nodes.len()).min_by(|left, right| distance(left).total_cmp(&distance(right))).expect("a mask has a valid cell")
}

/// Up to [`FARTHEST_POINTS`] nodes, each farthest from those before it (Euclidean, in cells), the first of equals.
///
/// No cell is farther from the points before than the next point is, so that one changes distances only within its own
/// distance: a window that shrinks as the order grows. Only the farthest cells of the rows it touches are found anew.
fn farthest_order(grid: Grid, nodes: &[u32], start: usize) -> Vec<u32> {
    const INVALID: i32 = -1;
    let (rows, cols) = (grid.rows(), grid.cols());
    let mut squared = vec![INVALID; grid.num_nodes()];
    nodes.iter().for_each(|&node| squared[node as usize] = i32::MAX);
    let mut row_farthest = vec![i32::MAX; rows];
    let count = FARTHEST_POINTS.min(nodes.len());
    let mut order = Vec::with_capacity(count);
    let mut next = nodes[start] as usize;
    while order.len() < count {
        order.push(next as u32);
        let (row, col) = grid.row_col(next);
        let reach = f64::from(squared[next]).sqrt().ceil() as usize;
        let touched = row.saturating_sub(reach)..rows.min(row.saturating_add(reach + 1));
        let (first, end) = (col.saturating_sub(reach), cols.min(col.saturating_add(reach + 1)));
        for touched in touched {
            let line = &mut squared[touched * cols..][..cols];
            let down = row.abs_diff(touched) as i32;
            let mut right = col as i32 - first as i32;
            for distance in &mut line[first..end] {
                *distance = (*distance).min(down * down + right * right);
                right -= 1;
            }
            row_farthest[touched] = line.iter().fold(INVALID, |most, &distance| most.max(distance));
        }
        let farthest = row_farthest.iter().fold(INVALID, |most, &distance| most.max(distance));
        let row = row_farthest.iter().position(|&distance| distance == farthest).expect("a grid has rows");
        let line = &squared[row * cols..][..cols];
        let col = line.iter().position(|&distance| distance == farthest).expect("the row has its own maximum");
        next = grid.node(row, col);
    }
    order
}

/// Length of the field's gradient at each valid node (differences to valid neighbours), plus a quarter of its mean so
/// that flat parts are measured too.
fn steepness(valid: &ValidMask, field: &[f32]) -> Vec<f32> {
    let grid = valid.grid();
    let slope = |node: usize, offset: (isize, isize)| {
        let steps = [offset, (-offset.0, -offset.1)];
        let differences = steps.into_iter().filter_map(|offset| {
            let other = grid.neighbor(node, offset).filter(|&other| valid.is_valid(other))?;
            Some((field[other] - field[node]).abs())
        });
        differences.fold(0.0f32, f32::max)
    };
    let mut steepness: Vec<f32> = valid.nodes().map(|node| slope(node, (1, 0)).hypot(slope(node, (0, 1)))).collect();
    let mean = steepness.iter().sum::<f32>() / steepness.len() as f32;
    steepness.iter_mut().for_each(|value| *value += 0.25 * mean + 1e-6);
    steepness
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpara::SeedTree;

    fn layouts() -> (ValidMask, MapLayouts) {
        let grid = Grid::new(20, 24).unwrap();
        let valid = (0..grid.num_nodes()).map(|node| node % 5 != 2).collect();
        let valid = ValidMask::new(grid, valid).unwrap();
        let field: Vec<f32> = (0..grid.num_nodes()).map(|node| (node as f32 * 0.01).sin()).collect();
        let layouts = MapLayouts::new(&valid, &field, &mut SeedTree::new(1).stream("layouts"));
        (valid, layouts)
    }

    #[test]
    fn every_layout_has_its_count_of_distinct_valid_cells() {
        let (valid, layouts) = layouts();
        let tree = SeedTree::new(2);
        for layout in [Layout::Random, Layout::FarthestPoint, Layout::Clustered, Layout::GradientWeighted] {
            for count in [1, 8, 100, valid.num_valid(), valid.num_valid() + 50] {
                let mut nodes = layouts.draw(layout, count, &mut tree.stream(&format!("{layout:?}/{count}")));
                assert_eq!(nodes.len(), count.min(valid.num_valid()), "{layout:?} {count}");
                assert!(nodes.iter().all(|&node| valid.is_valid(node as usize)), "{layout:?} {count}");
                nodes.sort_unstable();
                nodes.dedup();
                assert_eq!(nodes.len(), count.min(valid.num_valid()), "{layout:?} {count} has doubles");
            }
        }
    }

    #[test]
    fn share_of_empty_masks_is_as_configured() {
        let (_, layouts) = layouts();
        let config = MaskConfig {
            empty_share: 0.3,
            random_share: 0.4,
            farthest_share: 0.3,
            clustered_share: 0.2,
            gradient_share: 0.1,
            min_count: 8,
            max_count: 64,
            count: CountDraw::LogUniform,
        };
        let tree = SeedTree::new(5);
        let counts: Vec<usize> = (0..1000)
            .map(|index| layouts.draw_any(&config, &mut tree.stream(&format!("mask/{index}"))).len())
            .collect();
        let empty = counts.iter().filter(|&&count| count == 0).count();
        // 300 expected, standard deviation 14.5.
        assert!((240..360).contains(&empty), "{empty}");
        assert!(counts.iter().all(|&count| count == 0 || (8..=64).contains(&count)));
        let median = {
            let mut sorted: Vec<usize> = counts.iter().copied().filter(|&count| count > 0).collect();
            sorted.sort_unstable();
            sorted[sorted.len() / 2]
        };
        // The median of a log-uniform count is the geometric mean, 22.6.
        assert!((19..=27).contains(&median), "{median}");
    }

    #[test]
    fn clusters_are_tighter_than_random_cells() {
        let (_, layouts) = layouts();
        let tree = SeedTree::new(6);
        let nearest = |layout: Layout| -> f64 {
            (0..20)
                .map(|index| {
                    let nodes = layouts.draw(layout, 12, &mut tree.stream(&format!("{layout:?}/{index}")));
                    let cells: Vec<(f64, f64)> =
                        nodes.iter().map(|&node| ((node / 24) as f64, (node % 24) as f64)).collect();
                    let (row, col) =
                        cells.iter().fold((0.0, 0.0), |sum, at| (sum.0 + at.0 / 12.0, sum.1 + at.1 / 12.0));
                    cells.iter().map(|at| (at.0 - row).hypot(at.1 - col)).sum::<f64>()
                })
                .sum()
        };
        assert!(nearest(Layout::Clustered) < nearest(Layout::Random));
    }

    /// Every distance again after every point.
    fn plain_farthest_order(grid: Grid, nodes: &[u32], start: usize) -> Vec<u32> {
        let cell = |node: u32| ((node as usize / grid.cols()) as i64, (node as usize % grid.cols()) as i64);
        let mut order = vec![nodes[start]];
        while order.len() < FARTHEST_POINTS.min(nodes.len()) {
            let distance = |node: u32| {
                let ((row, col), squared) = (cell(node), |(left, right): (i64, i64)| left * left + right * right);
                order.iter().map(|&other| squared((cell(other).0 - row, cell(other).1 - col))).min().unwrap()
            };
            let mut best = (nodes[0], -1);
            for &node in nodes {
                let distance = distance(node);
                if distance > best.1 {
                    best = (node, distance);
                }
            }
            order.push(best.0);
        }
        order
    }

    #[test]
    fn farthest_order_equals_the_plain_search_on_random_masks() {
        for (seed, share) in [(1, 0.0), (2, 0.2), (3, 0.6), (4, 0.95)] {
            let mut stream = SeedTree::new(seed).stream("mask");
            let grid = Grid::new(19, 31).unwrap();
            let mut nodes: Vec<u32> = (0..grid.num_nodes() as u32).filter(|_| stream.uniform() >= share).collect();
            // A block far from the rest: distances stay long.
            nodes.retain(|&node| share < 0.5 || node % 31 < 6 || node % 31 > 24);
            let start = stream.index(nodes.len());
            assert_eq!(farthest_order(grid, &nodes, start), plain_farthest_order(grid, &nodes, start), "share {share}");
        }
    }

    #[test]
    fn farthest_order_begins_at_the_centre_and_keeps_its_distance() {
        let (_, layouts) = layouts();
        let points = layouts.farthest(8);
        let cells: Vec<(i64, i64)> = points.iter().map(|&node| ((node / 24) as i64, (node % 24) as i64)).collect();
        assert!((8..=11).contains(&cells[0].0) && (10..=13).contains(&cells[0].1), "{:?}", cells[0]);
        for (index, left) in cells.iter().enumerate() {
            for right in &cells[..index] {
                assert!((left.0 - right.0).pow(2) + (left.1 - right.1).pow(2) >= 36);
            }
        }
    }
}
