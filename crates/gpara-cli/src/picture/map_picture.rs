//! One map as a picture for people: title, cells, marks, colour bar with units, legend.

use gpara::ValidMask;
use image::RgbImage;

use super::canvas::{Canvas, text_height, text_width};
use super::color_map::{ColorMap, INVALID_COLOR, Rgb};

pub(super) const BACKGROUND: Rgb = [255, 255, 255];
pub(super) const INK: Rgb = [20, 20, 24];
pub(super) const MARGIN: u32 = 16;
pub(super) const TEXT_SCALE: u32 = 2;
const BAR_WIDTH: u32 = 24;
const LEGEND_GAP: u32 = 6;
/// Maps are enlarged by a whole number of pixels a cell to about this size, so that points and text are readable.
const TARGET_SIDE: u32 = 512;

/// The range of values that the colours of a row of maps share.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueScale {
    /// How values are coloured.
    pub(crate) color_map: ColorMap,
    /// Value of the first colour.
    pub(crate) low: f64,
    /// Value of the last colour.
    pub(crate) high: f64,
    /// Unit, e.g. `dB`; empty if none.
    pub(crate) unit: String,
}

impl ValueScale {
    /// The colour of a value; values outside the range take the nearest end, as the colour bar shows.
    pub(crate) fn color(&self, value: f64) -> Rgb {
        // A constant field has no range; the middle colour says "neither low nor high".
        let position = if self.high > self.low { (value - self.low) / (self.high - self.low) } else { 0.5 };
        self.color_map.color(position)
    }
}

/// What a mark on a map stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkKind {
    /// A measured cell: a dot.
    Measured,
    /// The transmitter: a triangle.
    Transmitter,
}

/// A mark on a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mark {
    /// What it stands for.
    pub(crate) kind: MarkKind,
    /// Row of the cell.
    pub(crate) row: usize,
    /// Column of the cell.
    pub(crate) col: usize,
}

/// A map to draw.
pub(crate) struct MapPicture<'a> {
    /// One line above the map.
    pub(crate) title: &'a str,
    /// `num_nodes` values; those of invalid cells are not looked at.
    pub(crate) values: &'a [f64],
    /// The valid cells.
    pub(crate) valid: &'a ValidMask,
    /// What invalid cells are, for the legend, e.g. `building`.
    pub(crate) invalid_name: &'a str,
    /// Colours and unit.
    pub(crate) scale: &'a ValueScale,
    /// Points drawn on the map.
    pub(crate) marks: &'a [Mark],
}

impl MapPicture<'_> {
    /// The cells alone, one pixel each.
    pub(crate) fn cells(&self) -> RgbImage {
        let grid = self.valid.grid();
        RgbImage::from_fn(grid.cols() as u32, grid.rows() as u32, |x, y| {
            let node = grid.node(y as usize, x as usize);
            image::Rgb(if self.valid.is_valid(node) { self.scale.color(self.values[node]) } else { INVALID_COLOR })
        })
    }

    /// The picture with title, colour bar, units, legend and marks.
    pub(crate) fn draw(&self) -> RgbImage {
        let grid = self.valid.grid();
        let (rows, cols) = (grid.rows() as u32, grid.cols() as u32);
        let cell = (TARGET_SIDE / rows.max(cols)).max(1);
        let (map_width, map_height) = (cols * cell, rows * cell);
        let line = text_height(TEXT_SCALE);
        // A colour bar needs room for its ticks even beside a map of one row.
        let body_height = map_height.max(6 * line);
        let legend = self.legend();
        let legend_width = legend.iter().map(|(_, label)| 2 * line + text_width(label, TEXT_SCALE)).max().unwrap_or(0);
        let bar_left = MARGIN + map_width + MARGIN;
        let width = (bar_left + bar_width(self.scale) + MARGIN)
            .max(text_width(self.title, TEXT_SCALE) + 2 * MARGIN)
            .max(legend_width + 2 * MARGIN);
        let map_top = MARGIN + 2 * line;
        let legend_top = map_top + body_height + MARGIN;
        let height = legend_top + legend_height(&legend) + MARGIN;

        let mut canvas = Canvas::new(width, height, BACKGROUND);
        canvas.text(MARGIN, MARGIN, TEXT_SCALE, INK, self.title);
        self.draw_map(&mut canvas, (MARGIN, map_top), cell);
        draw_bar(&mut canvas, self.scale, (bar_left, map_top), body_height);
        draw_legend(&mut canvas, &legend, legend_top);
        canvas.into_image()
    }

    /// Cells, frame and marks at a place, `cell` pixels a cell.
    pub(super) fn draw_map(&self, canvas: &mut Canvas, (left, top): (u32, u32), cell: u32) {
        for (x, y, pixel) in self.cells().enumerate_pixels() {
            canvas.rectangle(left + x * cell, top + y * cell, cell, cell, pixel.0);
        }
        let grid = self.valid.grid();
        canvas.frame(left, top, grid.cols() as u32 * cell, grid.rows() as u32 * cell, INK);
        // Dots first, so that the transmitter stays visible among them.
        for kind in [MarkKind::Measured, MarkKind::Transmitter] {
            for mark in self.marks.iter().filter(|mark| mark.kind == kind) {
                let x = f64::from(left) + (mark.col as f64 + 0.5) * f64::from(cell);
                let y = f64::from(top) + (mark.row as f64 + 0.5) * f64::from(cell);
                let radius = match kind {
                    MarkKind::Measured => (f64::from(cell) * 0.75).clamp(1.5, 6.0),
                    MarkKind::Transmitter => (f64::from(cell) * 2.25).clamp(6.0, 9.0),
                };
                draw_mark(canvas, kind, (x, y), radius);
            }
        }
    }

    /// What the marks and the grey cells are.
    pub(super) fn legend(&self) -> Vec<(LegendKind, String)> {
        let count = |kind| self.marks.iter().filter(|mark| mark.kind == kind).count();
        let mut legend = Vec::new();
        let measured = count(MarkKind::Measured);
        if measured > 0 {
            legend.push((LegendKind::Mark(MarkKind::Measured), format!("{measured} measured cells")));
        }
        if count(MarkKind::Transmitter) > 0 {
            legend.push((LegendKind::Mark(MarkKind::Transmitter), "transmitter".to_string()));
        }
        if self.valid.num_valid() < self.valid.grid().num_nodes() {
            legend.push((LegendKind::Invalid, self.invalid_name.to_string()));
        }
        legend
    }
}

/// Width of a colour bar with its ticks and labels.
pub(super) fn bar_width(scale: &ValueScale) -> u32 {
    let labels = tick_labels(scale);
    BAR_WIDTH + 10 + labels.iter().map(|(_, label)| text_width(label, TEXT_SCALE)).max().unwrap_or(0)
}

/// A colour bar with ticks and units.
pub(super) fn draw_bar(canvas: &mut Canvas, scale: &ValueScale, (left, top): (u32, u32), height: u32) {
    for y in 0..height {
        let position = 1.0 - (f64::from(y) + 0.5) / f64::from(height);
        canvas.rectangle(left, top + y, BAR_WIDTH, 1, scale.color_map.color(position));
    }
    canvas.frame(left, top, BAR_WIDTH, height, INK);
    let line = text_height(TEXT_SCALE);
    for (position, label) in tick_labels(scale) {
        let y = top + ((1.0 - position) * f64::from(height - 1)).round() as u32;
        canvas.rectangle(left + BAR_WIDTH, y, 6, 2, INK);
        canvas.text(left + BAR_WIDTH + 10, (y + 1).saturating_sub(line / 2), TEXT_SCALE, INK, &label);
    }
}

/// Position in [0, 1] and label with unit of each tick of a colour bar.
fn tick_labels(scale: &ValueScale) -> Vec<(f64, String)> {
    let ValueScale { low, high, unit, .. } = scale;
    if high <= low {
        return vec![(0.5, label(*low, 3, unit))];
    }
    let (values, decimals) = tick_values(*low, *high);
    values.into_iter().map(|value| ((value - low) / (high - low), label(value, decimals, unit))).collect()
}

/// Height of a legend.
pub(super) fn legend_height(legend: &[(LegendKind, String)]) -> u32 {
    legend.len() as u32 * (text_height(TEXT_SCALE) + LEGEND_GAP)
}

/// Mark or swatch and name, one a line.
pub(super) fn draw_legend(canvas: &mut Canvas, legend: &[(LegendKind, String)], top: u32) {
    let line = text_height(TEXT_SCALE);
    for (place, (kind, label)) in legend.iter().enumerate() {
        let top = top + place as u32 * (line + LEGEND_GAP);
        let center = (f64::from(MARGIN) + f64::from(line) * 0.5, f64::from(top) + f64::from(line) * 0.5);
        match kind {
            LegendKind::Mark(kind) => draw_mark(canvas, *kind, center, 6.0),
            LegendKind::Invalid => canvas.rectangle(MARGIN, top, line, line, INVALID_COLOR),
        }
        canvas.text(MARGIN + line + line / 2, top, TEXT_SCALE, INK, label);
    }
}

/// What a line of a legend explains.
pub(super) enum LegendKind {
    Mark(MarkKind),
    Invalid,
}

/// A mark with a light core and a dark rim, visible on every colour of a map.
fn draw_mark(canvas: &mut Canvas, kind: MarkKind, center: (f64, f64), radius: f64) {
    match kind {
        MarkKind::Measured => {
            canvas.disc(center, radius, INK);
            canvas.disc(center, radius * 0.6, BACKGROUND);
        }
        MarkKind::Transmitter => {
            canvas.triangle(center, radius + 3.0, BACKGROUND);
            canvas.triangle(center, radius, [214, 40, 40]);
        }
    }
}

fn label(value: f64, decimals: usize, unit: &str) -> String {
    // A rounded zero must not print as "-0".
    let value = if value.abs() < 0.5 * 10f64.powi(-(decimals as i32)) { 0.0 } else { value };
    format!("{value:.decimals$} {unit}").trim_end().to_string()
}

/// Four to eight round values inside [low, high] and the decimals that print them exactly.
pub(crate) fn tick_values(low: f64, high: f64) -> (Vec<f64>, usize) {
    let rough = (high - low) / 5.0;
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * magnitude).find(|&step| step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * magnitude);
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    // Half a millionth of a step forgives the rounding of ends that are themselves ticks.
    let first = (low / step - 5e-7).ceil() as i64;
    let last = (high / step + 5e-7).floor() as i64;
    ((first..=last).map(|index| index as f64 * step).collect(), decimals)
}

#[cfg(test)]
mod tests {
    use gpara::Grid;

    use super::*;

    fn scale() -> ValueScale {
        ValueScale { color_map: ColorMap::Field, low: -1.0, high: 3.0, unit: "dB".to_string() }
    }

    #[test]
    fn ticks_are_round_and_inside_the_range() {
        struct Case {
            low: f64,
            high: f64,
            ticks: &'static [f64],
            decimals: usize,
        }
        for case in [
            Case { low: 0.0, high: 1.0, ticks: &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0], decimals: 1 },
            Case { low: -147.0, high: -47.84, ticks: &[-140.0, -120.0, -100.0, -80.0, -60.0], decimals: 0 },
            Case { low: 0.0, high: 0.05, ticks: &[0.0, 0.01, 0.02, 0.03, 0.04, 0.05], decimals: 2 },
        ] {
            let (ticks, decimals) = tick_values(case.low, case.high);
            assert_eq!(decimals, case.decimals);
            assert_eq!(ticks.len(), case.ticks.len(), "{ticks:?}");
            assert!(ticks.iter().zip(case.ticks).all(|(found, wanted)| (found - wanted).abs() < 1e-9), "{ticks:?}");
        }
    }

    #[test]
    fn cells_show_values_and_the_invalid_color() {
        let grid = Grid::new(1, 3).unwrap();
        let valid = ValidMask::new(grid, vec![true, false, true]).unwrap();
        let scale = scale();
        let picture = MapPicture {
            title: "t",
            values: &[-1.0, f64::NAN, 3.0],
            valid: &valid,
            invalid_name: "building",
            scale: &scale,
            marks: &[],
        };
        let cells = picture.cells();
        assert_eq!(cells.get_pixel(0, 0).0, ColorMap::Field.color(0.0));
        assert_eq!(cells.get_pixel(1, 0).0, INVALID_COLOR);
        assert_eq!(cells.get_pixel(2, 0).0, ColorMap::Field.color(1.0));
    }

    #[test]
    fn nothing_is_drawn_on_the_outer_margin() {
        // Cut text or marks would put ink on the border.
        for (rows, cols, title) in
            [(128, 128, "a title that is much longer than the map is wide, by far"), (1, 9, "t"), (300, 2, "t")]
        {
            let grid = Grid::new(rows, cols).unwrap();
            let valid = ValidMask::all(grid);
            let values = vec![0.5; grid.num_nodes()];
            let marks = [Mark { kind: MarkKind::Measured, row: 0, col: 1 }];
            let scale = scale();
            let picture =
                MapPicture { title, values: &values, valid: &valid, invalid_name: "-", scale: &scale, marks: &marks };
            let image = picture.draw();
            let (width, height) = image.dimensions();
            for (x, y, pixel) in image.enumerate_pixels() {
                let on_border = x < 4 || y < 4 || x >= width - 4 || y >= height - 4;
                assert!(!on_border || pixel.0 == BACKGROUND, "ink at ({x}, {y}) of {width}x{height}");
            }
        }
    }
}
