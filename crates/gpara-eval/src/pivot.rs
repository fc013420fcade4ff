//! Tables of one number of many methods: rows are methods, columns what is varied, with a chart where the columns are numbers.

use std::fmt::Write;

use serde::Deserialize;

use crate::case::Case;
use crate::chart::{Chart, Curve};
use crate::statistics::{Summary, smaller_is_better, summary};
use crate::table::{digits, heading, line};

/// One `[[pivot]]` of a configuration.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PivotConfig {
    /// Heading.
    pub title: String,
    /// What a reader must know, Markdown.
    #[serde(default)]
    pub about: String,
    /// The number shown.
    #[serde(default = "rmse")]
    pub number: String,
    /// What the columns vary, e.g. `points`.
    pub varied: String,
    /// The columns.
    pub columns: Vec<PivotColumn>,
    /// The rows.
    #[serde(rename = "row")]
    pub rows: Vec<PivotRow>,
    /// Name of an SVG file to draw, without its ending; the columns' labels must be numbers.
    #[serde(default)]
    pub chart: Option<String>,
}

fn rmse() -> String {
    "rmse".into()
}

/// A column: its heading, and what stands for `{}` in the rows' methods.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum PivotColumn {
    /// The same text for both.
    Same(String),
    /// Heading and text.
    Named {
        /// Heading.
        label: String,
        /// What stands for `{}`.
        text: String,
    },
}

impl PivotColumn {
    /// The heading.
    pub fn label(&self) -> &str {
        match self {
            Self::Same(text) => text,
            Self::Named { label, .. } => label,
        }
    }

    /// What stands for `{}`.
    pub fn text(&self) -> &str {
        match self {
            Self::Same(text) | Self::Named { text, .. } => text,
        }
    }
}

/// A row of a pivot table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PivotRow {
    /// What the reader sees.
    pub label: String,
    /// The methods' name with `{}` where the column's text goes.
    pub method: String,
    /// The paper's figures, on other data: one text a column.
    #[serde(default)]
    pub paper: Vec<String>,
    /// Why cells are empty, where they are.
    #[serde(default)]
    pub reason: String,
}

/// A pivot table over results.
pub struct Pivot<'a> {
    /// The cases.
    pub cases: &'a [Case],
    /// What the table shows.
    pub config: &'a PivotConfig,
}

impl Pivot<'_> {
    fn found(&self, row: &PivotRow, column: &PivotColumn) -> Option<Summary> {
        summary(self.cases, &row.method.replace("{}", column.text()), &self.config.number)
    }

    /// The table as Markdown: the best of each column with several is bold; below a row the paper's figures, where there are any. After it
    /// how many scenes the means are of.
    pub fn markdown(&self) -> String {
        let PivotConfig { number, varied, columns, rows, .. } = self.config;
        let mut head = vec![format!("{}, {varied}:", heading(number))];
        head.extend(columns.iter().map(|column| column.label().to_owned()));
        let mut text = line(&head) + &line(&vec!["---".to_owned(); head.len()]);
        let badness = |mean: f64| match number.as_str() {
            // A ratio that should be 1.
            "standardized_error" => mean.ln().abs(),
            number if smaller_is_better(number) => mean,
            _ => -mean,
        };
        let mut counts: Vec<usize> = Vec::new();
        let best: Vec<f64> = columns
            .iter()
            .map(|column| {
                let found: Vec<Summary> = rows.iter().filter_map(|row| self.found(row, column)).collect();
                counts.extend(found.iter().map(|found| found.count));
                match found.len() {
                    // What stands alone is the best of nothing.
                    0 | 1 => f64::NEG_INFINITY,
                    _ => found.iter().map(|found| badness(found.mean)).fold(f64::INFINITY, f64::min),
                }
            })
            .collect();
        for row in rows {
            let cells = columns.iter().zip(&best).map(|(column, best)| match self.found(row, column) {
                Some(found) if badness(found.mean) <= *best => format!("**{}**", with_interval(&found)),
                Some(found) => with_interval(&found),
                None if row.reason.is_empty() => "not run".to_owned(),
                None => format!("not run: {}", row.reason),
            });
            text += &line(&std::iter::once(row.label.clone()).chain(cells).collect::<Vec<_>>());
            if !row.paper.is_empty() {
                let cells = (0..columns.len()).map(|place| row.paper.get(place).cloned().unwrap_or_default());
                let label = "the paper, other data".to_owned();
                text += &line(&std::iter::once(label).chain(cells).collect::<Vec<_>>());
            }
        }
        match (counts.iter().min(), counts.iter().max()) {
            (Some(least), Some(most)) if least == most => text += &format!("\nMeans of {least} scenes.\n"),
            (Some(least), Some(most)) => text += &format!("\nMeans of {least} to {most} scenes.\n"),
            _ => {}
        }
        text
    }

    /// One line a cell, as [`ResultTable::csv`](crate::ResultTable::csv) has it.
    pub fn csv(&self) -> String {
        let mut text = String::new();
        for row in &self.config.rows {
            for column in &self.config.columns {
                if let Some(found) = self.found(row, column) {
                    let (title, method) = (&self.config.title, row.method.replace("{}", column.text()));
                    let Summary { count, mean, low, high } = found;
                    let number = &self.config.number;
                    writeln!(text, "\"{title}\",\"{}\",{method},{number},{count},{mean},{low},{high}", row.label)
                        .expect("to a string");
                }
            }
        }
        text
    }

    /// The chart, if one is wanted: a curve a row over the columns whose heading is a number.
    pub fn chart(&self) -> Option<Chart> {
        self.config.chart.as_ref()?;
        let curve = |row: &PivotRow| {
            let at = |column: &PivotColumn| {
                Some((column.label().trim_end_matches('%').trim().parse().ok()?, self.found(row, column)?.mean))
            };
            Curve { name: row.label.clone(), points: self.config.columns.iter().filter_map(at).collect() }
        };
        Some(Chart {
            title: self.config.title.clone(),
            x_label: self.config.varied.clone(),
            y_label: heading(&self.config.number).to_owned(),
            log_x: true,
            connected: true,
            curves: self.config.rows.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect(),
        })
    }
}

fn with_interval(found: &Summary) -> String {
    format!("{} ± {}", digits(found.mean), digits(found.half_width()))
}

/// One `[[scatter]]` of a configuration: a point a method, e.g. quality against seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScatterConfig {
    /// Heading.
    pub title: String,
    /// The number along the axis, drawn with equal ratios at equal distances.
    pub x: String,
    /// The number upwards.
    pub y: String,
    /// The points: label and method.
    #[serde(rename = "point")]
    pub points: Vec<ScatterPoint>,
    /// Name of the SVG file, without its ending.
    pub chart: String,
}

/// A point of a scatter plot.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScatterPoint {
    /// What the reader sees.
    pub label: String,
    /// The method's name in the results.
    pub method: String,
}

impl ScatterConfig {
    /// The plot of the methods that were run.
    pub fn chart(&self, cases: &[Case]) -> Chart {
        let point = |point: &ScatterPoint| {
            let (x, y) = (summary(cases, &point.method, &self.x)?, summary(cases, &point.method, &self.y)?);
            Some(Curve { name: point.label.clone(), points: vec![(x.mean, y.mean)] })
        };
        Chart {
            title: self.title.clone(),
            x_label: heading(&self.x).to_owned(),
            y_label: heading(&self.y).to_owned(),
            log_x: true,
            connected: false,
            curves: self.points.iter().filter_map(point).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::case;

    #[test]
    fn cells_are_means_the_best_is_bold_and_the_chart_has_a_point_a_column() {
        let cases = [
            case("a/random-50", "s", "rmse", 0.5),
            case("a/random-90", "s", "rmse", 0.3),
            case("b/random-50", "s", "rmse", 0.4),
        ];
        let config: PivotConfig = toml::from_str(
            "title = \"T\"\nvaried = \"points\"\ncolumns = [\"50\", { label = \"90\", text = \"90\" }]\nchart = \"t\"\n\
             [[row]]\nlabel = \"A\"\nmethod = \"a/random-{}\"\npaper = [\".1\"]\n\
             [[row]]\nlabel = \"B\"\nmethod = \"b/random-{}\"\nreason = \"too slow\"\n",
        )
        .unwrap();
        let pivot = Pivot { cases: &cases, config: &config };
        let text = pivot.markdown();
        assert!(text.contains("| A | 0.5000 ± 0.0000 | 0.3000 ± 0.0000 |"), "{text}");
        assert!(text.contains("| B | **0.4000 ± 0.0000** | not run: too slow |"), "{text}");
        assert!(text.contains("| the paper, other data | .1 |  |"), "{text}");
        assert!(text.ends_with("\nMeans of 1 scenes.\n"), "{text}");
        let chart = pivot.chart().unwrap();
        assert_eq!(chart.curves[0].points, [(50.0, 0.5), (90.0, 0.3)]);
        assert_eq!(chart.curves[1].points, [(50.0, 0.4)]);
        assert_eq!(pivot.csv().lines().count(), 3);
    }

    #[test]
    fn of_ratios_that_should_be_1_the_nearest_is_the_best() {
        let cases = [
            case("a/random-50", "s", "standardized_error", 0.5),
            case("b/random-50", "s", "standardized_error", 1.6),
            case("b/random-50", "t", "standardized_error", 1.6),
        ];
        let config: PivotConfig = toml::from_str(
            "title = \"T\"\nnumber = \"standardized_error\"\nvaried = \"points\"\ncolumns = [\"50\"]\n\
             [[row]]\nlabel = \"A\"\nmethod = \"a/random-{}\"\n[[row]]\nlabel = \"B\"\nmethod = \"b/random-{}\"\n",
        )
        .unwrap();
        let text = Pivot { cases: &cases, config: &config }.markdown();
        assert!(text.contains("| B | **1.600 ± 0.0000** |") && text.contains("| A | 0.5000"), "{text}");
        assert!(text.ends_with("Means of 1 to 2 scenes.\n"), "{text}");
    }
}
