//! Curves as inline SVG; colours come from the page's style, so that they fit a light and a dark page.

use std::fmt::Write;

use super::Chart;
use super::html::escaped;
use crate::picture::tick_values;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;

/// Dash patterns tell curves apart without colour.
const DASHES: [&str; 6] = ["none", "6 4", "2 3", "10 4 2 4", "12 4", "4 2"];

/// The chart as a `<figure>` with an SVG and a legend.
pub(super) fn figure(chart: &Chart) -> String {
    let points = || chart.curves.iter().flat_map(|curve| &curve.points);
    let x_high = points().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
    let y_high = points().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    let mut html = String::from("<figure class=\"chart\">");
    let _ = write!(html, "<figcaption>{}</figcaption>", escaped(&chart.title));
    if !(x_high.is_finite() && y_high.is_finite()) {
        html.push_str("<p>no data</p></figure>");
        return html;
    }
    // Axes begin at zero: the curves are errors and risks, and their ratio is what matters.
    let axes = Axes { x_high: positive(x_high), y_high: positive(y_high) * 1.05 };
    let _ =
        write!(html, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escaped(&chart.title));
    draw_grid(&mut html, chart, &axes);
    for (place, curve) in chart.curves.iter().enumerate() {
        let path: Vec<String> =
            curve.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", axes.x(x), axes.y(y))).collect();
        let (color, dash) = (place % DASHES.len(), DASHES[place % DASHES.len()]);
        let _ = write!(
            html,
            "<polyline class=\"curve c{color}\" stroke-dasharray=\"{dash}\" points=\"{}\"/>",
            path.join(" ")
        );
    }
    html.push_str("</svg><ul class=\"legend\">");
    for (place, curve) in chart.curves.iter().enumerate() {
        let (color, dash) = (place % DASHES.len(), DASHES[place % DASHES.len()]);
        let _ = write!(
            html,
            "<li><svg viewBox=\"0 0 36 8\" class=\"key\"><line class=\"curve c{color}\" stroke-dasharray=\"{dash}\" x1=\"0\" \
             y1=\"4\" x2=\"36\" y2=\"4\"/></svg>{}</li>",
            escaped(&curve.name)
        );
    }
    html.push_str("</ul></figure>");
    html
}

struct Axes {
    x_high: f64,
    y_high: f64,
}

impl Axes {
    fn x(&self, value: f64) -> f64 {
        LEFT + value / self.x_high * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value / self.y_high * (HEIGHT - TOP - BOTTOM)
    }
}

/// An axis needs a length even where every value is zero.
fn positive(high: f64) -> f64 {
    if high > 0.0 { high } else { 1.0 }
}

fn draw_grid(html: &mut String, chart: &Chart, axes: &Axes) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let (x_ticks, x_decimals) = tick_values(0.0, axes.x_high);
    for tick in x_ticks {
        let x = axes.x(tick);
        let _ = write!(
            html,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/><text x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{tick:.x_decimals$}</text>",
            bottom + 16.0
        );
    }
    let (y_ticks, y_decimals) = tick_values(0.0, axes.y_high);
    for tick in y_ticks {
        let y = axes.y(tick);
        let _ = write!(
            html,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{tick:.y_decimals$}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    let (x_middle, y_middle) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
    let _ = write!(
        html,
        "<text x=\"{x_middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text transform=\"translate(14 \
         {y_middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        HEIGHT - 10.0,
        escaped(&chart.x_label),
        escaped(&chart.y_label)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Curve;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let (title, x_label, y_label) = ("Error <&>".to_string(), "measurements".to_string(), "RMSE, dB".to_string());
        Chart { title, x_label, y_label, curves: vec![Curve { name: "active".to_string(), points }] }
    }

    #[test]
    fn curve_ends_lie_on_the_axes_they_belong_to() {
        let html = figure(&chart(vec![(0.0, 2.0), (100.0, 0.0)]));
        // y = 2.0 of an axis up to 2.1; x = 100 is the right end, y = 0 the bottom.
        assert!(
            html.contains(&format!("points=\"{LEFT:.1},27.2 {:.1},{:.1}\"", WIDTH - RIGHT, HEIGHT - BOTTOM)),
            "{html}"
        );
        assert!(html.contains("Error &lt;&amp;&gt;"));
    }

    #[test]
    fn chart_without_points_says_so() {
        assert!(figure(&chart(Vec::new())).contains("no data"));
    }

    #[test]
    fn constant_zero_curve_has_finite_coordinates() {
        assert!(!figure(&chart(vec![(0.0, 0.0), (0.0, 0.0)])).contains("NaN"));
    }
}
