//! Maps with layers that can be switched and enlarged without any script: radio buttons and check boxes, which keyboards
//! reach by themselves, and style rules that look at them.

use std::fmt::Write;

use gpara::ValidMask;

use super::html::escaped;
use super::map_figure::{color_bar, data_address};
use crate::picture::{MapPicture, ValueScale};

/// A map that can be looked at.
pub(crate) struct BaseMap {
    /// Its name.
    pub(crate) title: String,
    /// `num_nodes` values in the scale's unit.
    pub(crate) values: Vec<f64>,
    /// Colours and unit.
    pub(crate) scale: ValueScale,
}

/// Points that can be laid over the map.
pub(crate) struct PointLayer {
    /// What they are, e.g. `measured`; also their style class.
    pub(crate) name: &'static str,
    /// Their cells, row and column.
    pub(crate) cells: Vec<(usize, usize)>,
}

/// Enlargements, in per cent of the box.
const ZOOMS: [u32; 4] = [100, 200, 400, 800];

/// The viewer; the first map and every layer are shown at first.
pub(super) fn viewer(valid: &ValidMask, invalid_name: &str, maps: &[BaseMap], layers: &[PointLayer]) -> String {
    let mut html = String::from("<div class=\"viewer\"><fieldset><legend>Map</legend>");
    let mut controls = String::new();
    let mut rules = String::new();
    for (place, map) in maps.iter().enumerate() {
        let checked = if place == 0 { " checked" } else { "" };
        let _ = write!(
            html,
            "<label><input type=\"radio\" name=\"base\" id=\"base-{place}\"{checked}> {}</label>",
            escaped(&map.title)
        );
        let _ = write!(rules, ".viewer:has(#base-{place}:checked) .base-{place}{{display:block}}");
    }
    html.push_str("</fieldset><fieldset><legend>Points</legend>");
    for PointLayer { name, cells } in layers {
        let _ = write!(
            html,
            "<label><input type=\"checkbox\" id=\"layer-{name}\" checked> {name} ({})</label>",
            cells.len()
        );
        let _ = write!(rules, ".viewer:has(#layer-{name}:not(:checked)) g.{name}{{display:none}}");
    }
    html.push_str("</fieldset><fieldset><legend>Zoom</legend>");
    for zoom in ZOOMS {
        let checked = if zoom == 100 { " checked" } else { "" };
        let _ =
            write!(html, "<label><input type=\"radio\" name=\"zoom\" id=\"zoom-{zoom}\"{checked}> {zoom} %</label>");
        let _ = write!(rules, ".viewer:has(#zoom-{zoom}:checked) .sheet{{width:{zoom}%}}");
    }
    html.push_str("</fieldset>");
    let _ = write!(controls, "<style>{rules}</style>");
    html.push_str(&controls);
    html.push_str("<div class=\"viewer-body\"><div class=\"stage\" tabindex=\"0\" role=\"region\" aria-label=\"map, scrolls when enlarged\">");
    html.push_str(&sheet(valid, invalid_name, maps, layers));
    html.push_str("</div>");
    for (place, map) in maps.iter().enumerate() {
        let _ = write!(html, "<div class=\"base base-{place}\">{}</div>", color_bar(&map.scale));
    }
    html.push_str("</div></div>");
    html
}

/// The maps over each other and the points over them, one unit a cell.
fn sheet(valid: &ValidMask, invalid_name: &str, maps: &[BaseMap], layers: &[PointLayer]) -> String {
    let (rows, cols) = (valid.grid().rows(), valid.grid().cols());
    let mut html =
        format!("<svg class=\"sheet\" viewBox=\"0 0 {cols} {rows}\" role=\"img\" aria-label=\"map of the field\">");
    for (place, map) in maps.iter().enumerate() {
        let picture =
            MapPicture { title: &map.title, values: &map.values, valid, invalid_name, scale: &map.scale, marks: &[] };
        let _ = write!(
            html,
            "<image class=\"base base-{place}\" width=\"{cols}\" height=\"{rows}\" style=\"image-rendering:pixelated\" \
             href=\"{}\"/>",
            data_address(&picture.cells())
        );
    }
    // Points keep their size in cells of a map about 128 cells wide.
    let unit = rows.max(cols) as f64 / 128.0;
    for PointLayer { name, cells } in layers {
        let _ = write!(html, "<g class=\"{name}\" style=\"stroke-width:{:.3}\">", 0.35 * unit);
        for (row, col) in cells {
            let _ = write!(
                html,
                "<circle cx=\"{}\" cy=\"{}\" r=\"{:.3}\"><title>row {row}, col {col}</title></circle>",
                *col as f64 + 0.5,
                *row as f64 + 0.5,
                0.7 * unit
            );
        }
        html.push_str("</g>");
    }
    html.push_str("</svg>");
    html
}
