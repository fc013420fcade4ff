//! Tables of results as a configuration asks for them: Markdown for people, CSV for programs.

use std::fmt::Write;

use serde::Deserialize;

use crate::case::Case;
use crate::statistics::{Comparison, compare, summary};

/// One `[[table]]` of a configuration.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableConfig {
    /// Heading.
    pub title: String,
    /// What a reader must know, Markdown.
    #[serde(default)]
    pub about: String,
    /// The numbers shown; the first is the one that is compared.
    #[serde(default = "rmse")]
    pub numbers: Vec<String>,
    /// The method that every row is compared with where the row names no `rival`.
    #[serde(default)]
    pub against: Option<String>,
    /// The rows.
    #[serde(rename = "row")]
    pub rows: Vec<TableRow>,
}

fn rmse() -> Vec<String> {
    vec!["rmse".into()]
}

/// One row of a table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRow {
    /// What the reader sees.
    pub label: String,
    /// The method's name in the results.
    pub method: String,
    /// The paper's figures for the same row, on other data: one text a number, in order.
    #[serde(default)]
    pub paper: Vec<String>,
    /// A figure of ours to stand beside the first number, as text.
    #[serde(default)]
    pub reference: String,
    /// The figure to reach (at most) by the first number, if there is one.
    #[serde(default)]
    pub reach: Option<f64>,
    /// A method to compare with, scene by scene.
    #[serde(default)]
    pub rival: Option<String>,
    /// Why the row is empty, where it is.
    #[serde(default)]
    pub reason: String,
}

/// A table over results.
pub struct ResultTable<'a> {
    /// The cases.
    pub cases: &'a [Case],
    /// What the table shows.
    pub config: &'a TableConfig,
}

impl ResultTable<'_> {
    fn comparison(&self, row: &TableRow) -> Option<(String, Option<Comparison>)> {
        let rival = row.rival.as_ref().or(self.config.against.as_ref()).filter(|rival| **rival != row.method)?;
        Some((rival.clone(), compare(self.cases, &row.method, rival, &self.config.numbers[0])))
    }

    /// The table as Markdown. A row without results gives its reason instead of numbers; the mean of a row that is better
    /// than `against` is bold.
    pub fn markdown(&self) -> String {
        let TableConfig { numbers, rows, .. } = self.config;
        let num_paper = rows.iter().map(|row| row.paper.len()).max().unwrap_or(0);
        let with_reference = rows.iter().any(|row| !row.reference.is_empty());
        let with_reach = rows.iter().any(|row| row.reach.is_some());
        let with_rival = rows.iter().any(|row| self.comparison(row).is_some());
        let mut head = vec!["method".to_owned(), "scenes".to_owned()];
        head.extend(numbers.iter().map(|number| heading(number).to_owned()));
        head.extend(numbers.iter().take(num_paper).map(|number| format!("paper, other data: {}", heading(number))));
        head.extend(with_reference.then(|| "our reference".to_owned()));
        head.extend(with_reach.then(|| "goal".to_owned()));
        head.extend(with_rival.then(|| "difference, 95 % interval, wins".to_owned()));
        head.extend(["calls", "seconds"].map(String::from));
        let mut text = line(&head) + &line(&vec!["---".to_owned(); head.len()]);
        for row in rows {
            let mut cells = vec![row.label.clone()];
            let compared = self.comparison(row);
            let better = row.rival.is_none()
                && compared.as_ref().is_some_and(|(_, compared)| compared.is_some_and(|c| c.is_better()));
            let first = summary(self.cases, &row.method, &numbers[0]);
            cells.push(first.map_or(0, |first| first.count).to_string());
            for (place, number) in numbers.iter().enumerate() {
                cells.push(match summary(self.cases, &row.method, number) {
                    Some(found) if place == 0 => {
                        let shown = format!("{} ± {}", digits(found.mean), digits(found.half_width()));
                        if better { format!("**{shown}**") } else { shown }
                    }
                    Some(found) => digits(found.mean),
                    None if place == 0 && row.reason.is_empty() => "not run".to_owned(),
                    None if place == 0 => format!("not run: {}", row.reason),
                    None => String::new(),
                });
            }
            cells.extend((0..num_paper).map(|place| row.paper.get(place).cloned().unwrap_or_default()));
            if with_reference {
                cells.push(row.reference.clone());
            }
            if with_reach {
                cells.push(match (row.reach, first) {
                    (Some(reach), Some(first)) if first.mean <= reach => format!("{reach}: reached"),
                    (Some(reach), Some(_)) => format!("{reach}: **missed**"),
                    (Some(reach), None) => reach.to_string(),
                    (None, _) => String::new(),
                });
            }
            if with_rival {
                let shown = compared.filter(|_| first.is_some());
                cells.push(shown.map_or_else(String::new, |(rival, compared)| difference(&rival, compared)));
            }
            let mean = |number: &str| summary(self.cases, &row.method, number).map(|found| found.mean);
            cells.push(mean("network_calls").map_or_else(String::new, |calls| format!("{calls:.0}")));
            cells.push(mean("seconds").map_or_else(String::new, digits));
            text += &line(&cells);
        }
        text
    }

    /// One line a row and number: `table,label,method,number,scenes,mean,low,high`.
    pub fn csv(&self) -> String {
        let mut text = String::new();
        for row in &self.config.rows {
            for number in &self.config.numbers {
                if let Some(found) = summary(self.cases, &row.method, number) {
                    let (count, mean, low, high) = (found.count, found.mean, found.low, found.high);
                    let (title, label) = (quoted(&self.config.title), quoted(&row.label));
                    writeln!(text, "{title},{label},{},{number},{count},{mean},{low},{high}", row.method)
                        .expect("to a string");
                }
            }
        }
        text
    }
}

/// The first line of [`ResultTable::csv`].
pub const CSV_HEADER: &str = "table,label,method,number,scenes,mean,low,high\n";

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

pub(crate) fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A paired difference with its interval, the wins and what follows, in words.
pub(crate) fn difference(rival: &str, compared: Option<Comparison>) -> String {
    let Some(compared) = compared else { return format!("`{rival}`: not run") };
    let found = compared.difference;
    let signed = |value: f64| format!("{}{}", if value < 0.0 { "−" } else { "+" }, digits(value.abs()));
    let (mean, low, high) = (signed(found.mean), signed(found.low), signed(found.high));
    let verdict = compared.verdict();
    format!("{mean} [{low}, {high}], {}/{} wins: {verdict} than `{rival}`", compared.wins, found.count)
        .replace("no difference than", "no difference to")
}

/// Four significant decimals for errors, fewer for large numbers.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        middle if middle >= 1.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

pub(crate) fn heading(number: &str) -> &str {
    match number {
        "rmse" => "RMSE",
        "mae" => "MAE",
        "ssim" => "SSIM",
        "psnr" => "PSNR",
        "abs_rel" => "AbsRel",
        "delta1" => "δ1",
        "rmse_all" => "RMSE, all cells",
        "rmse_unobserved" => "RMSE, unobserved",
        "seconds_acquire" => "stage I s",
        "seconds_reconstruct" => "stage II s",
        "network_calls_acquire" => "stage I calls",
        "network_calls_reconstruct" => "stage II calls",
        "peak_memory_acquire" => "stage I MiB",
        "peak_memory_reconstruct" => "stage II MiB",
        "standardized_error" => "error / std",
        "coverage_50" => "50 % coverage",
        "coverage_80" => "80 % coverage",
        "coverage_95" => "95 % coverage",
        "sharpness_95" => "width of 95 %",
        "crps" => "CRPS",
        "spearman" => "Spearman",
        "regret" => "regret, 1e-5 of a squared unit",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::case;

    #[test]
    fn better_rival_is_bold_goals_are_judged_and_empty_rows_say_why() {
        let mut cases = Vec::new();
        for scene in 0..12 {
            let (name, noise) = (format!("{scene}"), 0.001 * f64::from(scene));
            cases.push(case("best", &name, "rmse", 2.0 + noise));
            cases.push(case("rival", &name, "rmse", 1.0 + noise));
            cases.push(case("poor", &name, "rmse", 3.0 + noise));
        }
        let config: TableConfig = toml::from_str(
            r#"
            title = "T"
            against = "best"
            [[row]]
            label = "ours"
            method = "best"
            paper = [".014"]
            reach = 2.5
            [[row]]
            label = "theirs"
            method = "rival"
            [[row]]
            label = "weak"
            method = "poor"
            reach = 2.5
            [[row]]
            label = "DPS"
            method = "dps"
            reason = "needs the network's gradient"
            "#,
        )
        .unwrap();
        let table = ResultTable { cases: &cases, config: &config };
        let text = table.markdown();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(
            lines[0].contains("2.006 ±") && lines[0].contains(".014") && lines[0].contains("2.5: reached"),
            "{text}"
        );
        assert!(lines[1].contains("**1.006 ±") && lines[1].contains("12/12 wins: better than `best`"), "{text}");
        assert!(
            lines[2].contains("| 3.006 ±") && lines[2].contains("worse than") && lines[2].contains("missed"),
            "{text}"
        );
        assert!(lines[3].contains("not run: needs the network's gradient"), "{text}");
        assert_eq!(table.csv().lines().count(), 3);
    }
}
