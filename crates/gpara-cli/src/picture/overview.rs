//! Maps of one field side by side: each row under one colour scale, with its bar at the end.

use image::RgbImage;

use super::canvas::{Canvas, text_height, text_width};
use super::map_picture::{
    BACKGROUND, INK, MARGIN, MapPicture, TEXT_SCALE, bar_width, draw_bar, draw_legend, legend_height,
};

/// Side that a map of an overview has at least, in pixels, as far as whole pixels a cell allow.
const TARGET_SIDE: u32 = 256;

/// Draws rows of maps of one grid, `None` leaves a place empty; all maps of a row must have the same scale. No map, no
/// picture.
pub(crate) fn overview(rows: &[Vec<Option<MapPicture<'_>>>]) -> Option<RgbImage> {
    let maps = || rows.iter().flatten().flatten();
    let grid = maps().next()?.valid.grid();
    let (grid_rows, grid_cols) = (grid.rows() as u32, grid.cols() as u32);
    let cell = (TARGET_SIDE / grid_rows.max(grid_cols)).max(1);
    let line = text_height(TEXT_SCALE);
    let title_width = maps().map(|map| text_width(map.title, TEXT_SCALE)).max()?;
    let column = (grid_cols * cell).max(title_width) + MARGIN;
    // A bar needs room for its ticks even beside a low map.
    let body = (grid_rows * cell).max(6 * line);
    let row_height = line + MARGIN / 2 + body + MARGIN;
    // The map with the most marks explains all kinds of them.
    let legend = maps().max_by_key(|map| map.marks.len())?.legend();
    let row_width = |row: &Vec<Option<MapPicture<'_>>>| {
        row.iter().flatten().next().map_or(0, |map| row.len() as u32 * column + bar_width(map.scale))
    };
    let legend_width = legend.iter().map(|(_, label)| 2 * line + text_width(label, TEXT_SCALE)).max().unwrap_or(0);
    let width = rows.iter().map(row_width).max()?.max(legend_width) + 2 * MARGIN;
    let height = MARGIN + rows.len() as u32 * row_height + legend_height(&legend) + MARGIN;

    let mut canvas = Canvas::new(width, height, BACKGROUND);
    for (place, row) in rows.iter().enumerate() {
        let top = MARGIN + place as u32 * row_height;
        let map_top = top + line + MARGIN / 2;
        for (place, map) in row.iter().enumerate() {
            let Some(map) = map else { continue };
            let left = MARGIN + place as u32 * column;
            canvas.text(left, top, TEXT_SCALE, INK, map.title);
            map.draw_map(&mut canvas, (left, map_top), cell);
        }
        if let Some(map) = row.iter().flatten().next() {
            draw_bar(&mut canvas, map.scale, (MARGIN + row.len() as u32 * column, map_top), body);
        }
    }
    draw_legend(&mut canvas, &legend, MARGIN + rows.len() as u32 * row_height);
    Some(canvas.into_image())
}

#[cfg(test)]
mod tests {
    use gpara::{Grid, ValidMask};

    use super::*;
    use crate::picture::{ColorMap, Mark, MarkKind, ValueScale};

    #[test]
    fn nothing_is_drawn_on_the_outer_margin() {
        for (rows, cols) in [(128, 128), (1, 40), (37, 53)] {
            let valid = ValidMask::all(Grid::new(rows, cols).unwrap());
            let values = vec![-9.0; rows * cols];
            let scale = ValueScale { color_map: ColorMap::Field, low: -12.5, high: 1000.0, unit: "dBm".to_string() };
            let marks = [Mark { kind: MarkKind::Measured, row: 0, col: 0 }];
            let map = |title| MapPicture {
                title,
                values: &values,
                valid: &valid,
                invalid_name: "-",
                scale: &scale,
                marks: &marks,
            };
            let image = overview(&[
                vec![Some(map("truth")), Some(map("a long title of a map"))],
                vec![None, Some(map("error"))],
            ])
            .unwrap();
            let (width, height) = image.dimensions();
            for (x, y, pixel) in image.enumerate_pixels() {
                let on_border = x < 4 || y < 4 || x >= width - 4 || y >= height - 4;
                assert!(!on_border || pixel.0 == BACKGROUND, "ink at ({x}, {y}) of {width}x{height}");
            }
        }
    }

    #[test]
    fn overview_of_nothing_is_no_picture() {
        assert!(overview(&[]).is_none() && overview(&[Vec::new()]).is_none());
    }
}
