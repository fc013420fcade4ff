//! Means with 95 % intervals over scenes, paired differences, and the Markdown table.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::harness::SceneResults;

/// Mean over scenes and the half-width of its 95 % interval (normal approximation, 1.96 standard errors).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of scenes.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Half-width of the 95 % interval; NaN-free: 0 for a single scene.
    pub half_width: f64,
}

impl Summary {
    /// Summary of values, `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half_width = if count > 1 { 1.96 * (squares / (count - 1) as f64 / count as f64).sqrt() } else { 0.0 };
        Some(Self { count, mean, half_width })
    }
}

/// The values of one number of one method, in scene order.
fn values(results: &[SceneResults], method: &str, number: &str) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    for result in results {
        for entry in result.methods.iter().filter(|entry| entry.method == method) {
            if let Some(&value) = entry.values.get(number) {
                found.push((result.scene.clone(), value));
            }
        }
    }
    found
}

/// Mean over the common scenes of `method - rival` for one number, with its 95 % interval.
pub fn paired_difference(results: &[SceneResults], method: &str, rival: &str, number: &str) -> Option<Summary> {
    let rivals = values(results, rival, number);
    let differences: Vec<f64> = values(results, method, number)
        .into_iter()
        .filter_map(|(scene, value)| rivals.iter().find(|(other, _)| *other == scene).map(|(_, rival)| value - rival))
        .collect();
    Summary::of(&differences)
}

/// One row of a results table, as written in a config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRow {
    /// What the reader sees.
    pub label: String,
    /// The method's name in the results.
    pub method: String,
    /// The number compared; `rmse` where left out.
    #[serde(default = "rmse")]
    pub number: String,
    /// A reference figure to stand beside it, as text.
    #[serde(default)]
    pub reference: String,
    /// The figure to reach (at most), if there is one.
    #[serde(default)]
    pub reach: Option<f64>,
    /// A method to compare with, scene by scene.
    #[serde(default)]
    pub rival: Option<String>,
}

fn rmse() -> String {
    "rmse".into()
}

/// A Markdown table over results.
pub struct ResultTable<'a> {
    /// The results, one entry a scene and experiment.
    pub results: &'a [SceneResults],
    /// The rows.
    pub rows: &'a [TableRow],
}

impl ResultTable<'_> {
    /// The table as Markdown. A row without results says so instead of a number.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| method | mean, 95 % interval | maps | MAE | reference | reach | reached | paired difference to the rival | network calls | seconds |\n|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for row in self.rows {
            let number = |name: &str| {
                Summary::of(&values(self.results, &row.method, name).into_iter().map(|(_, v)| v).collect::<Vec<_>>())
            };
            let Some(summary) = number(&row.number) else {
                writeln!(text, "| {} | not run | 0 | | {} | | | | | |", row.label, row.reference).expect("to a string");
                continue;
            };
            let plain = |summary: Option<Summary>, digits: usize| {
                summary.map_or_else(String::new, |summary| format!("{:.digits$}", summary.mean))
            };
            let reach = row.reach.map_or_else(String::new, |reach| format!("{reach}"));
            let reached = row.reach.map_or("", |reach| if summary.mean <= reach { "yes" } else { "**no**" });
            let paired = row.rival.as_ref().map_or_else(String::new, |rival| {
                paired_difference(self.results, &row.method, rival, &row.number).map_or_else(
                    || format!("{rival}: not run"),
                    |difference| format!("{:+.4} ± {:.4} ({rival})", difference.mean, difference.half_width),
                )
            });
            writeln!(
                text,
                "| {} | {:.4} ± {:.4} | {} | {} | {} | {reach} | {reached} | {paired} | {} | {} |",
                row.label,
                summary.mean,
                summary.half_width,
                summary.count,
                plain(number("mae"), 4),
                row.reference,
                plain(number("network_calls"), 0),
                plain(number("seconds"), 2),
            )
            .expect("to a string");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::harness::MethodResult;

    fn results() -> Vec<SceneResults> {
        let scene = |scene: &str, ours: f64, theirs: f64| SceneResults {
            experiment: "e".into(),
            scene: scene.into(),
            seed: 0,
            methods: [("ours", ours), ("theirs", theirs)]
                .map(|(method, rmse)| MethodResult {
                    method: method.into(),
                    values: BTreeMap::from([("rmse".into(), rmse)]),
                })
                .into(),
        };
        vec![scene("a", 1.0, 2.0), scene("b", 3.0, 5.0)]
    }

    #[test]
    fn summary_and_paired_difference_match_hand_computation() {
        let summary = Summary::of(&[1.0, 3.0]).unwrap();
        assert_eq!(summary.mean, 2.0);
        // Sample standard deviation sqrt(2), standard error 1.
        assert!((summary.half_width - 1.96).abs() < 1e-12);
        let difference = paired_difference(&results(), "ours", "theirs", "rmse").unwrap();
        assert_eq!(difference.mean, -1.5);
        assert!((difference.half_width - 1.96 * 0.5).abs() < 1e-12);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn markdown_says_reached_and_not_reached_and_not_run() {
        let row = |method: &str, reach: f64| TableRow {
            label: method.into(),
            method: method.into(),
            number: "rmse".into(),
            reference: String::new(),
            reach: Some(reach),
            rival: None,
        };
        let results = results();
        let rows = [row("ours", 2.0), row("theirs", 3.4), row("nobody", 1.0)];
        let text = ResultTable { results: &results, rows: &rows }.markdown();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines[0].contains("| yes |") && lines[0].contains("2.0000"));
        assert!(lines[1].contains("| **no** |"));
        assert!(lines[2].contains("not run"));
    }
}
