//! A row of maps: each an inline PNG of one pixel a cell with vector marks over it, and one colour bar for the row.

use std::fmt::Write;
use std::io::Cursor;

use image::{ImageFormat, RgbImage};

use super::base64::encode;
use super::html::escaped;
use super::{MapPanel, MapRow, SceneReport};
use crate::picture::{INVALID_COLOR, MapPicture, MarkKind, ValueScale, tick_values};

/// The row as a `<section>`.
pub(super) fn row_section(scene: &SceneReport, row: &MapRow) -> String {
    let mut html = String::from("<section class=\"row\">");
    // All rows of a scene are laid out for the longest, so that their maps have one size.
    let columns = scene.rows.iter().map(|row| row.maps.len()).max().unwrap_or(1);
    let _ = write!(html, "<h3>{}</h3><div class=\"maps\" style=\"--columns:{columns}\">", escaped(&row.title));
    for panel in &row.maps {
        html.push_str(&map_figure(scene, row, panel));
    }
    html.push_str(&color_bar(&row.scale));
    html.push_str("</div></section>");
    html
}

fn map_figure(scene: &SceneReport, row: &MapRow, panel: &MapPanel) -> String {
    let picture = MapPicture {
        title: &panel.title,
        values: &panel.values,
        valid: &scene.valid,
        invalid_name: &scene.invalid_name,
        scale: &row.scale,
        marks: &panel.marks,
    };
    let (rows, cols) = (scene.valid.grid().rows(), scene.valid.grid().cols());
    // Marks are sized in cells of a map about 128 cells wide, and grow with the grid so that they look the same.
    let unit = rows.max(cols) as f64 / 128.0;
    let mut html = String::from("<figure class=\"map\">");
    let _ = write!(
        html,
        "<figcaption>{}</figcaption><svg viewBox=\"0 0 {cols} {rows}\" role=\"img\" aria-label=\"{}\"><image width=\"{cols}\" \
         height=\"{rows}\" style=\"image-rendering:pixelated\" href=\"{}\"/><g \
         style=\"stroke-width:{:.3}\">",
        escaped(&panel.title),
        escaped(&panel.title),
        data_address(&picture.cells()),
        0.35 * unit
    );
    for kind in [MarkKind::Measured, MarkKind::Transmitter] {
        for mark in panel.marks.iter().filter(|mark| mark.kind == kind) {
            let (x, y) = (mark.col as f64 + 0.5, mark.row as f64 + 0.5);
            let _ = match kind {
                MarkKind::Measured => {
                    write!(html, "<circle class=\"measured\" cx=\"{x}\" cy=\"{y}\" r=\"{:.3}\"/>", 0.62 * unit)
                }
                MarkKind::Transmitter => write!(
                    html,
                    "<path class=\"transmitter\" d=\"M{:.2} {:.2}L{:.2} {:.2}L{:.2} {:.2}Z\"/>",
                    x,
                    y - 2.6 * unit,
                    x + 2.3 * unit,
                    y + 1.4 * unit,
                    x - 2.3 * unit,
                    y + 1.4 * unit
                ),
            };
        }
    }
    html.push_str("</g></svg></figure>");
    html
}

/// The colour bar of a scale, with ticks and unit.
pub(super) fn color_bar(scale: &ValueScale) -> String {
    const STEPS: u32 = 128;
    let bar = RgbImage::from_fn(1, STEPS, |_, y| {
        image::Rgb(scale.color_map.color(1.0 - (f64::from(y) + 0.5) / f64::from(STEPS)))
    });
    let (ticks, decimals) =
        if scale.high > scale.low { tick_values(scale.low, scale.high) } else { (vec![scale.low], 3) };
    let mut html = String::from("<figure class=\"bar\">");
    let _ = write!(
        html,
        "<figcaption>{}</figcaption><svg viewBox=\"0 0 64 256\" role=\"img\" aria-label=\"colour scale\"><image x=\"0\" y=\"8\" \
         width=\"16\" height=\"240\" preserveAspectRatio=\"none\" href=\"{}\"/>",
        if scale.unit.is_empty() { "value" } else { &scale.unit },
        data_address(&bar)
    );
    for tick in ticks {
        let position = if scale.high > scale.low { (tick - scale.low) / (scale.high - scale.low) } else { 0.5 };
        let y = 248.0 - 240.0 * position;
        let _ = write!(
            html,
            "<line class=\"tick\" x1=\"16\" x2=\"20\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"23\" y=\"{:.1}\">{tick:.decimals$}</text>",
            y + 4.0
        );
    }
    html.push_str("</svg></figure>");
    html
}

/// The line that says what the marks and the grey cells are.
pub(super) fn legend(scene: &SceneReport) -> String {
    let panels = || scene.rows.iter().flat_map(|row| &row.maps);
    let shows = |kind| panels().any(|panel| panel.marks.iter().any(|mark| mark.kind == kind));
    let mut html = String::from("<ul class=\"legend\">");
    if shows(MarkKind::Measured) {
        html.push_str(
            "<li><svg viewBox=\"0 0 10 10\" class=\"swatch\"><circle class=\"measured\" stroke-width=\"1.5\" cx=\"5\" cy=\"5\" \
             r=\"3.4\"/></svg>measured cell</li>",
        );
    }
    if shows(MarkKind::Transmitter) {
        html.push_str(
            "<li><svg viewBox=\"0 0 10 10\" class=\"swatch\"><path class=\"transmitter\" d=\"M5 1L9 8L1 8Z\"/></svg>transmitter</li>",
        );
    }
    if scene.valid.num_valid() < scene.valid.grid().num_nodes() {
        let [red, green, blue] = INVALID_COLOR;
        let _ = write!(
            html,
            "<li><svg viewBox=\"0 0 10 10\" class=\"swatch\"><rect width=\"10\" height=\"10\" fill=\"rgb({red},{green},{blue})\"/></svg>{}</li>",
            escaped(&scene.invalid_name)
        );
    }
    html.push_str("</ul>");
    html
}

/// The picture as a `data:` address.
pub(super) fn data_address(image: &RgbImage) -> String {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png).expect("a PNG of a small image fits in memory");
    format!("data:image/png;base64,{}", encode(&bytes.into_inner()))
}
