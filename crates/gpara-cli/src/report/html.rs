//! The page around figures and tables. One file, opens offline, light and dark.

use std::fmt::Write;

use super::{Report, SceneReport, Table, chart, map_figure};

pub(super) const STYLE: &str = include_str!("style.css");

/// The report as one HTML page.
pub(crate) fn report_page(report: &Report) -> String {
    let mut html = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    let _ = write!(
        html,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light \
         dark\"><title>{}</title><style>{STYLE}</style></head><body><main><h1>{}</h1><p>{}</p>",
        escaped(&report.title),
        escaped(&report.title),
        escaped(&report.summary)
    );
    for scene in &report.scenes {
        html.push_str(&scene_section(scene));
    }
    html.push_str("<h2>Settings</h2>");
    html.push_str(&pairs(&report.settings));
    html.push_str("<h2>Hashes (SHA-256)</h2>");
    html.push_str(&pairs(&report.hashes));
    html.push_str("</main></body></html>\n");
    html
}

fn scene_section(scene: &SceneReport) -> String {
    let mut html = format!("<h2>{}</h2>", escaped(&scene.title));
    html.push_str(&table(&scene.table));
    html.push_str(&map_figure::legend(scene));
    for row in &scene.rows {
        html.push_str(&map_figure::row_section(scene, row));
    }
    html.push_str("<div class=\"charts\">");
    scene.charts.iter().for_each(|chart| html.push_str(&chart::figure(chart)));
    html.push_str("</div>");
    html
}

/// A table in a box that scrolls by itself.
pub(super) fn table(table: &Table) -> String {
    let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
    table.columns.iter().for_each(|name| html.push_str(&format!("<th scope=\"col\">{}</th>", escaped(name))));
    html.push_str("</tr></thead><tbody>");
    for (place, row) in table.rows.iter().enumerate() {
        html.push_str(if table.best_row == Some(place) { "<tr class=\"best\">" } else { "<tr>" });
        for (column, cell) in row.iter().enumerate() {
            let text = escaped(cell);
            html.push_str(&if column == 0 {
                format!("<th scope=\"row\">{text}</th>")
            } else {
                format!("<td>{text}</td>")
            });
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}

/// Names and values.
pub(super) fn pairs(pairs: &[(String, String)]) -> String {
    let mut html = String::from("<dl>");
    for (name, value) in pairs {
        let _ = write!(html, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
    }
    html.push_str("</dl>");
    html
}

/// Text as HTML: the five characters with a meaning are written as entities.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use gpara::{Grid, ValidMask};

    use super::*;
    use crate::picture::{ColorMap, Mark, MarkKind, ValueScale};
    use crate::report::{Chart, Curve, MapPanel, MapRow};

    /// A small report with every kind of part.
    fn sample() -> Report {
        let grid = Grid::new(24, 32).unwrap();
        let flags = (0..grid.num_nodes()).map(|node| node % 32 > 3 || node / 32 > 6).collect();
        let valid = ValidMask::new(grid, flags).unwrap();
        let wave = |phase: f64| -> Vec<f64> {
            (0..grid.num_nodes()).map(|node| -90.0 + 40.0 * (node as f64 / 97.0 + phase).sin()).collect()
        };
        let marks = vec![
            Mark { kind: MarkKind::Measured, row: 10, col: 10 },
            Mark { kind: MarkKind::Measured, row: 20, col: 30 },
            Mark { kind: MarkKind::Transmitter, row: 3, col: 20 },
        ];
        let panel =
            |title: &str, phase| MapPanel { title: title.to_string(), values: wave(phase), marks: marks.clone() };
        let curve = |name: &str, rate: f64| Curve {
            name: name.to_string(),
            points: (0..60).map(|k| (f64::from(k) * 8.0, (-f64::from(k) * rate).exp() * 12.0)).collect(),
        };
        let scene = SceneReport {
            title: "Scene <3>".to_string(),
            valid,
            invalid_name: "building".to_string(),
            rows: vec![MapRow {
                title: "Field".to_string(),
                scale: ValueScale { color_map: ColorMap::Field, low: -147.0, high: -47.84, unit: "dB".to_string() },
                maps: vec![panel("truth", 0.0), panel("random", 0.2), panel("active", 0.1)],
            }],
            charts: vec![Chart {
                title: "Error against budget".to_string(),
                x_label: "measurements".to_string(),
                y_label: "RMSE, dB".to_string(),
                curves: vec![curve("random", 0.02), curve("active", 0.04)],
            }],
            table: Table {
                columns: vec!["method".to_string(), "RMSE".to_string()],
                rows: vec![
                    vec!["random".to_string(), "0.05".to_string()],
                    vec!["active".to_string(), "0.04".to_string()],
                ],
                best_row: Some(1),
            },
        };
        Report {
            title: "gpara \"report\"".to_string(),
            summary: "Synthetic & small.".to_string(),
            scenes: vec![scene],
            settings: vec![("seed".to_string(), "0".to_string())],
            hashes: vec![("scene".to_string(), "ab".repeat(32))],
        }
    }

    #[test]
    fn page_holds_every_part_once_and_no_outside_link() {
        let page = report_page(&sample());
        assert!(
            !page.contains("http:") && !page.contains("https:") && !page.contains("<script"),
            "outside link or script"
        );
        assert!(page.contains("Scene &lt;3&gt;") && page.contains("Synthetic &amp; small."));
        assert_eq!(page.matches("<figure class=\"map\">").count(), 3);
        // One colour bar a row, so that maps of a row cannot differ in scale.
        assert_eq!(page.matches("<figure class=\"bar\">").count(), 1);
        assert_eq!(page.matches("class=\"curve c").count(), 4);
        assert_eq!(page.matches("<tr class=\"best\">").count(), 1);
        assert_eq!(page.matches("class=\"transmitter\"").count(), 4);
    }

    #[test]
    fn tags_are_balanced() {
        let page = report_page(&sample());
        for tag in
            ["section", "figure", "svg", "table", "tr", "td", "dl", "ul", "li", "div", "main", "body", "html", "g"]
        {
            let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
