//! Curves and scatter plots as SVG files that stand alone, dark ink on white.

use std::fmt::Write;

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Heading.
    pub title: String,
    /// Name of the axis.
    pub x_label: String,
    /// Name of the upward axis.
    pub y_label: String,
    /// Whether equal ratios of x have equal lengths. Those of y have where the values span a factor of ten: from zero on, the better
    /// curves would all lie on the axis.
    pub log_x: bool,
    /// Whether the points of a curve are joined.
    pub connected: bool,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One curve, or one group of points.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// (x, y), in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

const LEFT: f64 = 70.0;
/// Where the plot ends and the legend begins.
const PLOT_END: f64 = 550.0;
/// Least room for the legend.
const LEGEND: f64 = 310.0;
/// Room before a name of the legend.
const LEGEND_KEY: f64 = 30.0;
/// Room for a character of a name, ample: a renderer may have another font.
const CHARACTER: f64 = 6.8;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const LEGEND_LINE: f64 = 18.0;
const COLORS: [&str; 10] =
    ["#1f4e9c", "#c1272d", "#2e8540", "#8a4f9e", "#d98200", "#008b8b", "#6b4423", "#d6006c", "#5a5a5a", "#9a9a00"];
const DASHES: [&str; 3] = ["none", "6 3", "2 3"];

impl Chart {
    /// The SVG file.
    pub fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let longest = self.curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or(0);
        let width = PLOT_END + LEGEND.max(LEGEND_KEY + CHARACTER * longest as f64);
        let height = (TOP + BOTTOM + 320.0).max(TOP + LEGEND_LINE * self.curves.len() as f64 + 20.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"22\" \
             font-size=\"15\">{}</text>\n",
            escaped(&self.title)
        );
        if points().next().is_none() {
            let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"60\">nothing was run</text>\n</svg>");
            return svg;
        }
        let x = Axis::new(points().map(|point| point.0), self.log_x, LEFT, PLOT_END);
        let log_y = spans_a_decade(points().map(|point| point.1));
        let y = Axis::new(points().map(|point| point.1), log_y, height - BOTTOM, TOP);
        self.draw_axes(&mut svg, &x, &y, height);
        for (place, curve) in self.curves.iter().enumerate() {
            let color = COLORS[place % COLORS.len()];
            let dash = DASHES[place / COLORS.len() % DASHES.len()];
            let marker = marker(place);
            let at: Vec<(f64, f64)> = curve.points.iter().map(|&(px, py)| (x.at(px), y.at(py))).collect();
            if self.connected {
                let path: Vec<String> = at.iter().map(|(px, py)| format!("{px:.1},{py:.1}")).collect();
                let _ = writeln!(
                    svg,
                    "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"1.6\" stroke-dasharray=\"{dash}\" \
                     points=\"{}\"/>",
                    path.join(" ")
                );
            }
            for (px, py) in at {
                let _ = writeln!(svg, "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.2\" {marker}/>");
            }
            let (key, line) = (PLOT_END + 16.0, TOP + LEGEND_LINE * (place as f64 + 0.5));
            let _ = writeln!(
                svg,
                "<circle cx=\"{key}\" cy=\"{:.1}\" r=\"4\" {marker}/><text x=\"{}\" y=\"{line:.1}\">{}</text>",
                line - 4.0,
                key + 10.0,
                escaped(&curve.name)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_axes(&self, svg: &mut String, x: &Axis, y: &Axis, height: f64) {
        let bottom = height - BOTTOM;
        for tick in x.ticks() {
            let at = x.at(tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#dddddd\"/><text \
                 x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
                bottom + 16.0
            );
        }
        for tick in y.ticks() {
            let at = y.at(tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/><text x=\"{}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
                PLOT_END,
                LEFT - 6.0,
                at + 4.0
            );
        }
        let (x_middle, y_middle) = ((LEFT + PLOT_END) / 2.0, (TOP + bottom) / 2.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x_middle}\" y=\"{}\" text-anchor=\"middle\">{}</text><text transform=\"translate(16 {y_middle}) \
             rotate(-90)\" text-anchor=\"middle\">{}</text>",
            height - 12.0,
            escaped(&self.x_label),
            escaped(&self.y_label)
        );
    }
}

/// How the points of a curve are filled: after as many curves as there are colours, only their rims are drawn.
fn marker(place: usize) -> String {
    let color = COLORS[place % COLORS.len()];
    if (place / COLORS.len()).is_multiple_of(2) {
        format!("fill=\"{color}\"")
    } else {
        format!("fill=\"white\" stroke=\"{color}\" stroke-width=\"1.6\"")
    }
}

/// The smallest and the largest value.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
}

/// Whether the largest value is ten times the smallest, which is above 0.
fn spans_a_decade(values: impl Iterator<Item = f64>) -> bool {
    let (low, high) = extent(values);
    low > 0.0 && high >= 10.0 * low
}

/// From values to places.
struct Axis {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, log: bool, from: f64, to: f64) -> Self {
        let (mut low, mut high) = extent(values);
        if log {
            // A method may take no time that a clock sees.
            low = low.max(1e-4);
            high = high.max(low);
            (low, high) = (low / 1.15, high * 1.15);
        } else {
            // Errors begin at zero: their ratio is what matters.
            low = low.min(0.0);
            high = if high > low { low + 1.05 * (high - low) } else { low + 1.0 };
        }
        Self { low, high, log, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + share * (self.to - self.from)
    }

    /// 1, 2 and 5 times powers of ten: all of them on a logarithmic axis, one step of them on a plain one.
    fn ticks(&self) -> Vec<f64> {
        let rounded = |value: f64| format!("{value:.6}").parse::<f64>().unwrap_or(value);
        if self.log {
            let powers = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
            let values = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| rounded(digit * 10f64.powi(power))));
            return values.filter(|tick| (self.low..=self.high).contains(tick)).collect();
        }
        let span = self.high - self.low;
        let power = 10f64.powf((span / 6.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| span / step <= 8.0);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.low / step).ceil() as i64;
        (first..).map(|place| rounded(place as f64 * step)).take_while(|tick| *tick <= self.high).collect()
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(name: &str, points: Vec<(f64, f64)>, log_x: bool) -> String {
        let curves = vec![Curve { name: name.into(), points }];
        let text = || "x".to_owned();
        Chart { title: text(), x_label: text(), y_label: text(), log_x, connected: true, curves }.svg()
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let axis = Axis::new([10.0, 1000.0].into_iter(), true, 0.0, 1.0);
        assert!((axis.at(100.0) - 0.5).abs() < 1e-12);
        assert_eq!(axis.ticks(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        let axis = Axis::new([0.1, 0.4].into_iter(), false, 10.0, 0.0);
        assert!((axis.at(0.21) - 5.0).abs() < 1e-12);
        assert_eq!(axis.ticks(), [0.0, 0.1, 0.2, 0.3, 0.4]);
    }

    #[test]
    fn errors_of_a_decade_are_drawn_by_their_ratios() {
        for (values, expected) in [([0.1, 0.99], false), ([0.1, 1.0], true), ([0.0, 1.0], false)] {
            assert_eq!(spans_a_decade(values.into_iter()), expected, "{values:?}");
        }
        // .2 is between .1 and 2, at log 2 / log 20 of the way, each end 15 % away.
        let svg = chart("a", vec![(1.0, 0.1), (2.0, 0.2), (3.0, 2.0)], false);
        let share = (0.2f64 / 0.1 * 1.15).ln() / (20.0f64 * 1.15 * 1.15).ln();
        assert!(svg.contains(&format!("cy=\"{:.1}\"", 360.0 + share * (TOP - 360.0))), "{svg}");
    }

    #[test]
    fn more_curves_than_colors_still_differ() {
        let markers: std::collections::BTreeSet<String> = (0..2 * COLORS.len()).map(marker).collect();
        assert_eq!(markers.len(), 2 * COLORS.len());
    }

    #[test]
    fn long_names_widen_the_file_and_not_the_plot() {
        let with = |name: &str| chart(name, vec![(1.0, 1.0)], false);
        assert!(with("short").contains("viewBox=\"0 0 860 "));
        // 550 + 30 + 6.8 * 50.
        let long = with(&"n".repeat(50));
        assert!(long.contains("viewBox=\"0 0 920 ") && long.contains("x2=\"550\""), "{}", &long[..200]);
    }

    #[test]
    fn file_names_its_curves_and_has_no_bad_number() {
        for log_x in [false, true] {
            let svg = chart("a <b>", vec![(50.0, 0.1), (491.0, 0.04)], log_x);
            assert!(svg.contains("a &lt;b&gt;") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
            assert!(!chart("a <b>", vec![(0.0, 0.0)], log_x).contains("NaN"));
        }
        assert!(chart("a <b>", Vec::new(), true).contains("nothing was run"));
    }
}
