//! The context channels of a depth scene, all computed from its picture.

use gpara::{Channel, Context, Grid, ValidMask};

/// Names of the context channels, in the order networks read them.
///
/// * `red`, `green`, `blue` - `2 value / 255 - 1`, in [-1, 1]
/// * `luminance_gradient` - length of the gradient of the luminance (0..=1) a cell, times 4, at most 1: edges of the
///   picture, where depth may jump
pub const CHANNELS: [&str; 4] = ["red", "green", "blue", "luminance_gradient"];

/// A luminance step of a quarter of the range between the two neighbours of a cell counts as a full edge.
const GRADIENT_GAIN: f32 = 4.0;

pub(super) fn channels(grid: Grid, rgb: &[[u8; 3]]) -> Vec<Channel> {
    let color = |place: usize| rgb.iter().map(|pixel| f32::from(pixel[place]) / 127.5 - 1.0).collect::<Vec<f32>>();
    let mut channels: Vec<Channel> =
        CHANNELS.iter().zip(0..3).map(|(&name, place)| Channel { name: name.into(), values: color(place) }).collect();
    let colors = Context::new(ValidMask::all(grid), channels.clone()).expect("a finite value a pixel");
    let luminance: Vec<f32> =
        colors.luminance().expect("the three colours").into_iter().map(|value| value as f32).collect();
    channels.push(Channel { name: CHANNELS[3].into(), values: luminance_gradient(grid, &luminance) });
    channels
}

/// Central differences, one-sided at the border.
fn luminance_gradient(grid: Grid, luminance: &[f32]) -> Vec<f32> {
    let (rows, cols) = (grid.rows(), grid.cols());
    let gradient = |node: usize| {
        let (row, col) = grid.row_col(node);
        let at = |row: usize, col: usize| luminance[grid.node(row, col)];
        let down = at((row + 1).min(rows - 1), col) - at(row.saturating_sub(1), col);
        let right = at(row, (col + 1).min(cols - 1)) - at(row, col.saturating_sub(1));
        (GRADIENT_GAIN * 0.5 * down.hypot(right)).min(1.0)
    };
    (0..grid.num_nodes()).map(gradient).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depth::DepthScene;

    fn context(grid: Grid, rgb: Vec<[u8; 3]>) -> Context {
        DepthScene::new(grid, rgb).unwrap().context(&ValidMask::all(grid)).unwrap()
    }

    #[test]
    fn colours_are_normalised_and_named_in_order() {
        let context = context(Grid::new(1, 2).unwrap(), vec![[0, 255, 0], [255, 0, 51]]);
        let names: Vec<&str> = context.channels().iter().map(|channel| channel.name.as_str()).collect();
        assert_eq!(names, CHANNELS);
        assert_eq!(context.channel("red").unwrap(), [-1.0, 1.0]);
        assert_eq!(context.channel("green").unwrap(), [1.0, -1.0]);
        assert!((context.channel("blue").unwrap()[1] + 0.6).abs() < 1e-6);
        let luminance = context.luminance().unwrap();
        assert!((luminance[0] - 0.587).abs() < 1e-6 && (luminance[1] - (0.299 + 0.2 * 0.114)).abs() < 1e-6);
    }

    #[test]
    fn gradient_is_four_times_the_slope_and_ends_at_one() {
        // Columns of 0, 0, 51 (a fifth), 255: central differences of .1, .5 of it.
        let gray = [0u8, 0, 51, 255];
        let rgb = gray.iter().cycle().take(8).map(|&value| [value; 3]).collect();
        let context = context(Grid::new(2, 4).unwrap(), rgb);
        let gradient = context.channel("luminance_gradient").unwrap();
        for (found, expected) in gradient.iter().zip([0.0, 0.4, 1.0, 1.0].iter().cycle()) {
            assert!((found - expected).abs() < 1e-6, "{gradient:?}");
        }
    }

    #[test]
    fn luminance_needs_the_three_colours() {
        assert_eq!(Context::empty(Grid::new(1, 1).unwrap()).luminance(), None);
    }
}
