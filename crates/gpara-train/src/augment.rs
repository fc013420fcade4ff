//! Random changes of a picture with depth: mirror, crop and enlarge with the depth scaled alike, rotate, scale the depth
//! alone, jitter colours.

use gpara::{Result, Stream, ValidMask};
use gpara_tasks::depth::{DEPTH_RANGE_METERS, DepthScene, meters_from_normalized, normalized_from_meters};

use crate::config_stages::AugmentConfig;
use crate::data::Picture;

/// One augmented sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Augmented {
    /// `num_nodes` normalised depths.
    pub(crate) field: Vec<f32>,
    /// `[channels, num_nodes]`.
    pub(crate) context: Vec<f32>,
    /// The cells that have a depth.
    pub(crate) valid: ValidMask,
}

/// Where a cell of the sample comes from, and what happens to its depth and colours.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Change {
    flip: bool,
    zoom: f64,
    angle: f64,
    /// Centre of the crop, in cells.
    centre: (f64, f64),
    brightness: f64,
    contrast: f64,
    colors: [f64; 3],
    /// Factor on the depth besides that of the enlargement.
    depth_scale: f64,
}

impl Change {
    fn draw(config: &AugmentConfig, (rows, cols): (usize, usize), stream: &mut Stream) -> Self {
        let mut between = |low: f64, high: f64| low + (high - low) * stream.uniform();
        let flip = between(0.0, 1.0) < config.flip_share;
        let zoom = between(0.0, config.zoom_max.ln()).exp();
        let angle = between(-1.0, 1.0) * config.rotation_degrees.to_radians();
        // The crop lies inside the picture before it is turned.
        let mut centre = |side: usize| {
            let (half, whole) = (0.5 * (side as f64 - 1.0), side as f64 - 1.0);
            between(half / zoom, whole - half / zoom)
        };
        let centre = (centre(rows), centre(cols));
        let mut factor = || 1.0 + config.color_jitter * between(-1.0, 1.0);
        let (brightness, contrast) = (factor(), factor());
        let colors = [factor(), factor(), factor()];
        let depth_scale = between(-1.0, 1.0) * config.depth_scale_max.ln();
        let (zoom, angle, centre) = match between(0.0, 1.0) < config.whole_share {
            true => (1.0, 0.0, (0.5 * (rows as f64 - 1.0), 0.5 * (cols as f64 - 1.0))),
            false => (zoom, angle, centre),
        };
        Self { flip, zoom, angle, centre, brightness, contrast, colors, depth_scale: depth_scale.exp() }
    }

    /// Row and column in the picture of a cell of the sample.
    fn source(&self, (rows, cols): (usize, usize), row: usize, col: usize) -> (f64, f64) {
        let down = (row as f64 - 0.5 * (rows as f64 - 1.0)) / self.zoom;
        let right = (col as f64 - 0.5 * (cols as f64 - 1.0)) / self.zoom;
        let right = if self.flip { -right } else { right };
        let (sin, cos) = self.angle.sin_cos();
        (self.centre.0 + cos * down - sin * right, self.centre.1 + sin * down + cos * right)
    }

    fn color(&self, value: f64, place: usize) -> u8 {
        let jittered = (value * self.colors[place] * self.brightness - 127.5) * self.contrast + 127.5;
        jittered.round().clamp(0.0, 255.0) as u8
    }
}

/// A random change of a picture; outside of it the border is repeated.
///
/// A crop enlarged by z shows the scene as a camera does that is z times nearer: its depth is divided by z.
///
/// # Errors
/// None for a picture of the data set.
pub(crate) fn augment(picture: &Picture, config: &AugmentConfig, stream: &mut Stream) -> Result<Augmented> {
    let grid = picture.scene.grid();
    let sides = (grid.rows(), grid.cols());
    let change = Change::draw(config, sides, stream);
    let rgb = picture.scene.rgb();
    let farthest = picture.field.iter().fold(-1.0f32, |most, &value| most.max(value));
    let farthest = meters_from_normalized(f64::from(farthest)) / change.zoom;
    let depth_scale = change.depth_scale.min(DEPTH_RANGE_METERS / farthest.max(f64::MIN_POSITIVE)) / change.zoom;
    let mut pixels = Vec::with_capacity(grid.num_nodes());
    let mut field = Vec::with_capacity(grid.num_nodes());
    let mut flags = Vec::with_capacity(grid.num_nodes());
    for row in 0..sides.0 {
        for col in 0..sides.1 {
            let (at_row, at_col) = change.source(sides, row, col);
            let (top, down) = cell_and_rest(at_row, sides.0);
            let (left, right) = cell_and_rest(at_col, sides.1);
            let nodes = [
                (grid.node(top, left), (1.0 - down) * (1.0 - right)),
                (grid.node(top, (left + 1).min(sides.1 - 1)), (1.0 - down) * right),
                (grid.node((top + 1).min(sides.0 - 1), left), down * (1.0 - right)),
                (grid.node((top + 1).min(sides.0 - 1), (left + 1).min(sides.1 - 1)), down * right),
            ];
            let mixed =
                |value: &dyn Fn(usize) -> f64| nodes.iter().map(|&(node, share)| share * value(node)).sum::<f64>();
            pixels.push([0, 1, 2].map(|place| change.color(mixed(&|node| f64::from(rgb[node][place])), place)));
            // A depth is a mixture of depths only: a cell without one must not pull its neighbours to 0.
            let known = |node: usize| picture.whole || picture.field[node] > -1.0;
            let valid = nodes.iter().all(|&(node, share)| share == 0.0 || known(node));
            flags.push(valid);
            let depth = meters_from_normalized(mixed(&|node| f64::from(picture.field[node]))) * depth_scale;
            field.push(if valid { normalized_from_meters(depth) as f32 } else { -1.0 });
        }
    }
    let valid = ValidMask::new(grid, flags)?;
    let context = DepthScene::new(grid, pixels)?.context(&valid)?;
    let context = context.channels().iter().flat_map(|channel| channel.values.iter().copied()).collect();
    Ok(Augmented { field, context, valid })
}

/// The cell before a position along a side, and how far the position is beyond it.
fn cell_and_rest(at: f64, side: usize) -> (usize, f64) {
    let at = at.clamp(0.0, (side - 1) as f64);
    (at.floor() as usize, at - at.floor())
}

#[cfg(test)]
mod tests {
    use gpara::{Grid, SeedTree};

    use super::*;

    fn picture() -> Picture {
        let grid = Grid::new(6, 8).unwrap();
        let rgb = (0..48).map(|node| [(5 * node) as u8, 100, (255 - 5 * node) as u8]).collect();
        let field = (0..48).map(|node| -0.8 + 0.02 * node as f32).collect();
        Picture { scene: DepthScene::new(grid, rgb).unwrap(), field, whole: true }
    }

    fn none() -> AugmentConfig {
        AugmentConfig {
            flip_share: 0.0,
            zoom_max: 1.0,
            rotation_degrees: 0.0,
            color_jitter: 0.0,
            whole_share: 0.0,
            depth_scale_max: 1.0,
        }
    }

    fn sample(config: &AugmentConfig, seed: u64) -> Augmented {
        augment(&picture(), config, &mut SeedTree::new(seed).stream("augment")).unwrap()
    }

    #[test]
    fn without_changes_the_sample_is_the_picture() {
        let (picture, sample) = (picture(), sample(&none(), 1));
        for (found, expected) in sample.field.iter().zip(&picture.field) {
            assert!((found - expected).abs() < 1e-6);
        }
        let context = picture.scene.context(&sample.valid).unwrap();
        assert_eq!(sample.context[..48], *context.channels()[0].values);
    }

    #[test]
    fn mirror_swaps_columns_of_picture_and_depth_alike() {
        let sample = sample(&AugmentConfig { flip_share: 1.0, ..none() }, 1);
        let picture = picture();
        for node in 0..48 {
            let mirrored = node / 8 * 8 + 7 - node % 8;
            assert!((sample.field[node] - picture.field[mirrored]).abs() < 1e-6);
            assert!((sample.context[node] - (f32::from(picture.scene.rgb()[mirrored][0]) / 127.5 - 1.0)).abs() < 1e-6);
        }
    }

    #[test]
    fn enlarged_crop_has_its_depth_divided_by_the_enlargement() {
        let config = AugmentConfig { zoom_max: 2.0, ..none() };
        let picture = picture();
        for seed in 0..5 {
            let mut stream = SeedTree::new(seed).stream("augment");
            let change = Change::draw(&config, (6, 8), &mut stream);
            assert!((1.0..=2.0).contains(&change.zoom));
            let sample = sample(&config, seed);
            // The depth of the picture is linear in row and column, so bilinear sampling is exact.
            for (row, col) in [(0, 0), (2, 5), (5, 7)] {
                let (at_row, at_col) = change.source((6, 8), row, col);
                let meters = 5.0 * (0.2 + 0.02 * (8.0 * at_row + at_col)) / change.zoom;
                let found = meters_from_normalized(f64::from(sample.field[8 * row + col]));
                assert!((found - meters).abs() < 1e-5, "seed {seed}: {found} for {meters}");
            }
        }
        assert!(picture.whole);
    }

    #[test]
    fn whole_picture_keeps_its_cells_whatever_the_enlargement_and_rotation_may_be() {
        let config = AugmentConfig { zoom_max: 3.0, rotation_degrees: 40.0, whole_share: 1.0, ..none() };
        for seed in 0..5 {
            let sample = sample(&config, seed);
            for (found, expected) in sample.field.iter().zip(&picture().field) {
                assert!((found - expected).abs() < 1e-6, "seed {seed}");
            }
        }
    }

    #[test]
    fn depth_alone_is_scaled_by_one_factor_that_keeps_the_farthest_cell_in_range() {
        let config = AugmentConfig { depth_scale_max: 3.0, ..none() };
        let meters = |value: f32| meters_from_normalized(f64::from(value));
        let unchanged = sample(&none(), 1).context;
        let mut factors = Vec::new();
        for seed in 0..20 {
            let sample = sample(&config, seed);
            let factor = meters(sample.field[0]) / meters(picture().field[0]);
            for (&found, &before) in sample.field.iter().zip(&picture().field) {
                assert!((meters(found) - factor * meters(before)).abs() < 1e-5, "seed {seed}");
            }
            assert!(
                (1.0 / 3.0..=3.0).contains(&factor) && meters(sample.field[47]) < 10.0 + 1e-5,
                "seed {seed}: {factor}"
            );
            assert_eq!(sample.context, unchanged);
            factors.push(factor);
        }
        // The farthest cell is at 5.7 m: factors beyond 10 / 5.7 are cut, smaller ones are not.
        assert!(factors.iter().any(|&factor| factor < 0.6) && factors.iter().any(|&factor| factor > 1.2));
    }

    #[test]
    fn cells_without_depth_stay_without_and_pull_nothing_to_zero() {
        let mut picture = picture();
        (picture.field[20], picture.whole) = (-1.0, false);
        let config = AugmentConfig { zoom_max: 1.3, rotation_degrees: 5.0, ..none() };
        let sample = augment(&picture, &config, &mut SeedTree::new(3).stream("augment")).unwrap();
        let lowest = sample.valid.nodes().map(|node| sample.field[node]).fold(f32::MAX, f32::min);
        let least = normalized_from_meters(meters_from_normalized(-0.8) / 1.3) as f32;
        assert!(lowest >= least - 1e-6, "{lowest}");
        assert!(sample.valid.num_valid() < 48 && sample.valid.num_valid() > 30);
    }
}
