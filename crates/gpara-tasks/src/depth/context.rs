//! The context channels of a depth scene, all computed from its picture.

use gpara::{Channel, Context, Grid};

/// Names of the context channels, in the order networks read them.
///
/// * `red`, `green`, `blue` - `2 value / 255 - 1`, in [-1, 1]
/// * `luminance_gradient` - length of the gradient of the luminance (0..=1) a cell, times 4, at most 1: edges of the
///   picture, where depth may jump
pub const CHANNELS: [&str; 4] = ["red", "green", "blue", "luminance_gradient"];

/// Weights of red, green and blue in the luminance (Rec. 601).
const LUMINANCE: [f32; 3] = [0.299, 0.587, 0.114];

/// A luminance step of a quarter of the range between the two neighbours of a cell counts as a full edge.
const GRADIENT_GAIN: f32 = 4.0;

pub(super) fn channels(grid: Grid, rgb: &[[u8; 3]]) -> Vec<Channel> {
    let color = |place: usize| rgb.iter().map(|pixel| f32::from(pixel[place]) / 127.5 - 1.0).collect::<Vec<f32>>();
    let colors = [color(0), color(1), color(2)];
    let gradient = luminance_gradient(grid, &luminance_of(&colors[0], &colors[1], &colors[2]));
    let values = colors.into_iter().chain([gradient]);
    CHANNELS.iter().zip(values).map(|(&name, values)| Channel { name: name.into(), values }).collect()
}

/// The luminance of a scene's picture, 0..=1, one value a node; `None` without the channels `red`, `green`, `blue`.
pub fn luminance(context: &Context) -> Option<Vec<f64>> {
    let channel = |name| context.channel(name);
    let values = luminance_of(channel("red")?, channel("green")?, channel("blue")?);
    Some(values.into_iter().map(f64::from).collect())
}

/// From colours in [-1, 1] to luminance in 0..=1.
fn luminance_of(red: &[f32], green: &[f32], blue: &[f32]) -> Vec<f32> {
    let [r, g, b] = LUMINANCE;
    let mixed = red.iter().zip(green).zip(blue).map(|((red, green), blue)| r * red + g * green + b * blue);
    mixed.map(|value| 0.5 * (value + 1.0)).collect()
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
    use gpara::ValidMask;

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
        let luminance = luminance(&context).unwrap();
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
        assert_eq!(luminance(&Context::empty(Grid::new(1, 1).unwrap())), None);
    }
}
