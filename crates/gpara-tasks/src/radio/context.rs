//! The six context channels of a radio scene, all computed from its mask and transmitter.

use gpara::{Channel, Context};

use super::detour::{euclidean_distance, outdoor_distance};
use super::diffraction::{MAX_ORDER, diffraction_order};
use super::scene::RadioScene;
use super::visibility::visible_from;

/// Names of the context channels, in the order networks read them; all values are in 0..=1 on a square of 256 m.
///
/// * `building` - built share of the cell
/// * `transmitter` - `exp(-d^2 / (2 * 2^2))`, d = distance from the transmitter in cells
/// * `log_distance` - `log10(max(d, 1)) / log10(362)`, d in metres; 362 m is the diagonal of 256 x 256 m
/// * `line_of_sight` - share of the cell's pixels that the transmitter sees
/// * `detour` - outdoor distance over straight distance, minus 1, at most 1; 1 for unreachable pixels and buildings
/// * `diffraction_order` - corners between transmitter and pixel, over 3; 1 for three or more, unreachable, buildings
///
/// The last three are means over the pixels of the cell.
pub const CHANNELS: [&str; 6] =
    ["building", "transmitter", "log_distance", "line_of_sight", "detour", "diffraction_order"];

/// Standard deviation of the transmitter's blob, in cells.
const TRANSMITTER_WIDTH: f64 = 2.0;

/// Distance in metres at which `log_distance` is 1.
const FAR_METERS: f64 = 362.0;

/// Distances below this many metres count as this: the field near the antenna is flat at the scale of a cell.
const NEAR_METERS: f64 = 1.0;

/// Largest detour told apart: a way twice as long as the straight line.
const MAX_DETOUR: f64 = 1.0;

pub(super) fn context(scene: &RadioScene) -> Context {
    let pixels = &scene.pixels;
    let source = pixels.transmitter_node();
    let visible = visible_from(pixels.grid, &pixels.built, source);
    let distance = outdoor_distance(pixels.grid, &pixels.built, source, &visible);
    let order = diffraction_order(pixels.grid, &pixels.built, source, &visible);

    let detour = |pixel: usize| {
        let straight = euclidean_distance(pixels.grid, source, pixel);
        if distance[pixel].is_infinite() {
            MAX_DETOUR
        } else if visible[pixel] {
            0.0
        } else {
            // Fast marching may undershoot by rounding; a way is never shorter than the straight line.
            (distance[pixel] / straight - 1.0).clamp(0.0, MAX_DETOUR)
        }
    };
    let values = [
        scene.built().to_vec(),
        over_distance(scene, |cells| (-cells * cells / (2.0 * TRANSMITTER_WIDTH * TRANSMITTER_WIDTH)).exp()),
        over_distance(scene, |cells| (cells * scene.meters_per_cell()).max(NEAR_METERS).log10() / FAR_METERS.log10()),
        pixels.cell_means(|pixel| f64::from(u8::from(visible[pixel]))),
        pixels.cell_means(detour),
        pixels.cell_means(|pixel| f64::from(order[pixel]) / f64::from(MAX_ORDER)),
    ];
    let channels = CHANNELS.iter().zip(values).map(|(&name, values)| Channel { name: name.into(), values });
    Context::new(scene.valid().clone(), channels.collect()).expect("every channel is finite and of the grid's size")
}

/// A function of the distance between cell centre and transmitter, in cells.
fn over_distance(scene: &RadioScene, value: impl Fn(f64) -> f64) -> Vec<f32> {
    let (grid, (row, col)) = (scene.grid(), scene.transmitter());
    let at = |node: usize| {
        let (cell_row, cell_col) = grid.row_col(node);
        let (rows, cols) = (cell_row as f64 - row, cell_col as f64 - col);
        value((rows * rows + cols * cols).sqrt()) as f32
    };
    (0..grid.num_nodes()).map(at).collect()
}

#[cfg(test)]
mod tests {
    use gpara::Grid;

    use super::*;
    use crate::radio::sample_scene;
    use crate::radio::test_masks::{Symmetry, mask};

    /// Asserts that moving the mask by each of the eight symmetries moves every channel, bit by bit.
    fn assert_symmetric(grid: Grid, built: &[bool], transmitter: (usize, usize), per_cell: usize, name: &str) {
        let scene = |grid, built, transmitter| match per_cell {
            1 => RadioScene::from_mask(grid, built, transmitter, 1.0).unwrap(),
            _ => RadioScene::from_halved_mask(grid, built, transmitter, 1.0).unwrap(),
        };
        let original = scene(grid, built.to_vec(), transmitter);
        let context = original.context();
        for symmetry in Symmetry::all() {
            let transmitter = symmetry.cell(grid, transmitter);
            let moved = scene(symmetry.grid(grid), symmetry.map(grid, built), transmitter).context();
            for (channel, moved) in context.channels().iter().zip(moved.channels()) {
                let expected = symmetry.map(original.grid(), &channel.values);
                assert_eq!(moved.values, expected, "{name}: {} under {symmetry:?}", channel.name);
            }
        }
    }

    #[test]
    fn channels_move_with_the_mask_under_all_eight_symmetries() {
        for seed in 0..6 {
            let mut stream = gpara::SeedTree::new(seed).stream("mask");
            let grid = Grid::new(36, 52).unwrap();
            // Blocks of 3 x 4 pixels make corners, alleys and courtyards.
            let mut built = vec![false; grid.num_nodes()];
            for block in 0..12 * 13 {
                if stream.uniform() < 0.4 {
                    for node in (0..12).map(|k| grid.node(3 * (block / 13) + k / 4, 4 * (block % 13) + k % 4)) {
                        built[node] = true;
                    }
                }
            }
            let source = (0..grid.num_nodes()).filter(|&node| !built[node]).nth(200).unwrap();
            for per_cell in [1, 2] {
                assert_symmetric(grid, &built, grid.row_col(source), per_cell, &format!("seed {seed}"));
            }
        }
        let scene = sample_scene(0).unwrap().scene;
        assert_symmetric(scene.pixels.grid, &scene.pixels.built, scene.pixels.transmitter, 2, "sample 0");
    }

    #[test]
    fn channels_have_their_names_order_and_range() {
        let context = sample_scene(3).unwrap().scene.context();
        let names: Vec<&str> = context.channels().iter().map(|channel| channel.name.as_str()).collect();
        assert_eq!(names, CHANNELS);
        for channel in context.channels() {
            assert!(channel.values.iter().all(|value| (0.0..=1.0).contains(value)), "{}", channel.name);
        }
    }

    #[test]
    fn wall_shadow_has_no_sight_one_corner_and_a_detour() {
        let rows = ["........", "........", "..####..", "........", "........"];
        let (grid, built) = mask(&rows);
        let context = RadioScene::from_mask(grid, built, (0, 3), 1.0).unwrap().context();
        let at = |name: &str, row: usize, col: usize| context.channel(name).unwrap()[grid.node(row, col)];
        let (third, two_thirds) = ((1.0f64 / 3.0) as f32, (2.0f64 / 3.0) as f32);
        // The wall is one pixel thick: the first corner lights the sides of its shadow, the second the middle.
        assert_eq!((at("line_of_sight", 3, 1), at("diffraction_order", 3, 1)), (0.0, third));
        assert_eq!((at("line_of_sight", 4, 3), at("diffraction_order", 4, 3)), (0.0, two_thirds));
        assert_eq!((at("line_of_sight", 1, 0), at("diffraction_order", 1, 0)), (1.0, 0.0));
        assert_eq!((at("line_of_sight", 2, 3), at("diffraction_order", 2, 3), at("detour", 2, 3)), (0.0, 1.0, 1.0));
        assert_eq!(at("detour", 1, 0), 0.0);
        // Straight 4; around the left end about 2.1 + 2.1 + 2.2.
        assert!((0.2..0.6).contains(&at("detour", 4, 3)), "{}", at("detour", 4, 3));
        assert_eq!(at("transmitter", 0, 3), 1.0);
        assert_eq!(at("transmitter", 0, 5), (-0.5f64).exp() as f32);
        assert_eq!(at("log_distance", 0, 3), 0.0);
        assert_eq!(at("log_distance", 4, 3), (4f64.log10() / 362f64.log10()) as f32);
    }

    #[test]
    fn closed_courtyard_is_unreachable_in_every_channel() {
        let (grid, built) = mask(&["......", ".####.", ".#..#.", ".####.", "......"]);
        let context = RadioScene::from_mask(grid, built, (0, 0), 1.0).unwrap().context();
        let node = grid.node(2, 2);
        let value = |name: &str| context.channel(name).unwrap()[node];
        assert_eq!((value("line_of_sight"), value("detour"), value("diffraction_order")), (0.0, 1.0, 1.0));
        assert!(context.valid().is_valid(node));
    }
}
