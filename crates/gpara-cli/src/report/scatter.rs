//! Predicted against measured values as inline SVG.

use std::fmt::Write;

use super::html::escaped;
use crate::picture::tick_values;

/// One value and what was predicted for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScatterPoint {
    /// The measured value.
    pub(crate) measured: f64,
    /// The prediction.
    pub(crate) predicted: f64,
    /// Its standard deviation.
    pub(crate) std: f64,
}

/// Predicted against measured values.
pub(crate) struct Scatter {
    /// What is shown.
    pub(crate) title: String,
    /// The unit of both axes.
    pub(crate) unit: String,
    /// The values.
    pub(crate) points: Vec<ScatterPoint>,
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;

/// The plot as a `<figure>`: one dot a value, a bar of two standard deviations to each side, the diagonal.
pub(super) fn figure(scatter: &Scatter) -> String {
    let title = escaped(&scatter.title);
    let mut html = format!("<figure class=\"chart\"><figcaption>{title}</figcaption>");
    let values = || scatter.points.iter().flat_map(|point| [point.measured, point.predicted]);
    let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if !(low.is_finite() && high.is_finite()) {
        html.push_str("<p>no data</p></figure>");
        return html;
    }
    let margin = if high > low { 0.05 * (high - low) } else { 1.0 };
    let (low, high) = (low - margin, high + margin);
    let along = |value: f64| ((value - low) / (high - low)).clamp(0.0, 1.0);
    let x = |value: f64| LEFT + along(value) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - along(value) * (HEIGHT - TOP - BOTTOM);
    let _ = write!(html, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">");
    let (ticks, decimals) = tick_values(low, high);
    for tick in ticks {
        let (across, up) = (x(tick), y(tick));
        let _ = write!(
            html,
            "<line class=\"grid\" x1=\"{across:.1}\" y1=\"{TOP}\" x2=\"{across:.1}\" y2=\"{:.1}\"/><text x=\"{across:.1}\" \
             y=\"{:.1}\" text-anchor=\"middle\">{tick:.decimals$}</text><line class=\"grid\" x1=\"{LEFT}\" y1=\"{up:.1}\" \
             x2=\"{:.1}\" y2=\"{up:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick:.decimals$}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 16.0,
            WIDTH - RIGHT,
            LEFT - 6.0,
            up + 4.0
        );
    }
    let _ = write!(
        html,
        "<line class=\"curve c1\" stroke-dasharray=\"6 4\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        x(low),
        y(low),
        x(high),
        y(high)
    );
    for ScatterPoint { measured, predicted, std } in &scatter.points {
        let (across, up) = (x(*measured), y(*predicted));
        let (bottom, top) = (y(predicted - 2.0 * std), y(predicted + 2.0 * std));
        let _ = write!(
            html,
            "<line class=\"whisker\" x1=\"{across:.1}\" y1=\"{bottom:.1}\" x2=\"{across:.1}\" y2=\"{top:.1}\"/><circle \
             class=\"dot\" cx=\"{across:.1}\" cy=\"{up:.1}\" r=\"2.5\"/>"
        );
    }
    let unit = if scatter.unit.is_empty() { String::new() } else { format!(", {}", escaped(&scatter.unit)) };
    let (x_middle, y_middle) = ((LEFT + WIDTH - RIGHT) / 2.0, (TOP + HEIGHT - BOTTOM) / 2.0);
    let _ = write!(
        html,
        "<text x=\"{x_middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">measured{unit}</text><text transform=\"translate(14 \
         {y_middle:.1}) rotate(-90)\" text-anchor=\"middle\">predicted{unit}</text></svg></figure>",
        HEIGHT - 10.0
    );
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_lie_on_the_diagonal_and_every_point_is_drawn() {
        let at = |measured, predicted| ScatterPoint { measured, predicted, std: 0.5 };
        let points = vec![at(-90.0, -90.0), at(-80.0, -85.0)];
        let html = figure(&Scatter { title: "a <b>".into(), unit: "dB".into(), points });
        assert_eq!(html.matches("<circle").count(), 2);
        assert!(html.contains("a &lt;b&gt;") && !html.contains("NaN"));
        // The diagonal's lower end and the first point keep the same distance to the left as to the bottom, in shares.
        let share = 0.5 / 11.0;
        let (x, y) = (LEFT + share * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM));
        assert!(html.contains(&format!("cx=\"{x:.1}\" cy=\"{y:.1}\"")), "{html}");
    }

    #[test]
    fn plot_without_points_says_so() {
        assert!(figure(&Scatter { title: "t".into(), unit: String::new(), points: vec![] }).contains("no data"));
    }
}
