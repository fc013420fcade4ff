//! What an evaluation leaves to read: Markdown, CSV and JSON from its cases.

use std::collections::BTreeSet;

use gpara_eval::{CSV_HEADER, Case, FailedCase, Method, Pivot, PivotConfig, ResultTable, Summary, TableConfig};

use super::config::EvalConfig;

/// The method that a page must say is beaten, where it is.
const OURS: &str = "best";

/// The results of one configuration.
pub(crate) struct Page<'a> {
    /// What was asked.
    pub(crate) config: &'a EvalConfig,
    /// What was reached.
    pub(crate) cases: &'a [Case],
    /// What could not be run in this call.
    pub(crate) failed: &'a [FailedCase],
}

impl Page<'_> {
    /// Title, text, tables and links to the figures in `folder`, as the page sees it.
    pub(crate) fn markdown(&self, folder: &str) -> String {
        let mut text = format!("# {}\n\n{}\n", self.config.title, self.config.about.trim());
        for table in &self.config.tables {
            text += &format!("\n## {}\n\n", table.title);
            if !table.about.trim().is_empty() {
                text += &format!("{}\n\n", table.about.trim());
            }
            text += &ResultTable { cases: self.cases, config: table }.markdown();
        }
        for config in &self.config.pivots {
            text += &format!("\n## {}\n\n", config.title);
            if !config.about.trim().is_empty() {
                text += &format!("{}\n\n", config.about.trim());
            }
            text += &Pivot { cases: self.cases, config }.markdown();
            if let Some(name) = &config.chart {
                text += &format!("\n![{}]({folder}/{name}.svg)\n", config.title);
            }
        }
        for config in &self.config.scatters {
            text += &format!("\n## {}\n\n![{}]({folder}/{}.svg)\n", config.title, config.title, config.chart);
        }
        text += &self.closing_note();
        let failures = failures(self.failed);
        if !failures.is_empty() {
            text += "\n## Cases that failed\n\n";
            text += &failures.iter().map(|line| format!("- {line}\n")).collect::<String>();
        }
        text
    }

    /// Every row and cell that is ahead of `best` by an error: where the next work is. Empty if `best` was not run.
    fn closing_note(&self) -> String {
        let tables: Vec<&TableConfig> =
            self.config.tables.iter().filter(|table| table.numbers[0].starts_with("rmse")).collect();
        let pivots: Vec<&PivotConfig> =
            self.config.pivots.iter().filter(|config| config.number.starts_with("rmse")).collect();
        let is_ours = |case: &Case| case.method.split('/').next() == Some(OURS);
        if (tables.is_empty() && pivots.is_empty()) || !self.cases.iter().any(is_ours) {
            return String::new();
        }
        let mut found = Vec::new();
        for config in tables {
            found.extend(ResultTable { cases: self.cases, config }.ahead_of(OURS));
        }
        for config in pivots {
            found.extend(Pivot { cases: self.cases, config }.ahead_of(OURS));
        }
        let mut text = format!("\n## Where `{OURS}` is beaten\n\n");
        if found.is_empty() {
            text += &format!("Nowhere above: no row is better than `{OURS}` by an interval that excludes 0.\n");
        }
        let mut told = BTreeSet::new();
        for ahead in found.iter().filter(|ahead| told.insert(ahead.method.clone())) {
            text += &format!("- {}\n", ahead.line());
        }
        text
    }

    /// All tables, one line a row and number.
    pub(crate) fn csv(&self) -> String {
        let tables = self.config.tables.iter().map(|table| ResultTable { cases: self.cases, config: table }.csv());
        let pivots = self.config.pivots.iter().map(|config| Pivot { cases: self.cases, config }.csv());
        CSV_HEADER.to_owned() + &tables.chain(pivots).collect::<String>()
    }

    /// Name and SVG text of every figure.
    pub(crate) fn figures(&self) -> Vec<(String, String)> {
        let pivots = self.config.pivots.iter().filter_map(|config| {
            let chart = Pivot { cases: self.cases, config }.chart()?;
            Some((format!("{}.svg", config.chart.as_ref()?), chart.svg()))
        });
        let scatters = self.config.scatters.iter();
        pivots.chain(scatters.map(|config| (format!("{}.svg", config.chart), config.chart(self.cases).svg()))).collect()
    }
}

/// One line a method and reason, with the number of scenes.
pub(crate) fn failures(failed: &[FailedCase]) -> Vec<String> {
    let kinds: BTreeSet<(&str, &str)> =
        failed.iter().map(|case| (case.method.as_str(), case.reason.as_str())).collect();
    let line = |(method, reason): (&str, &str)| {
        let scenes = failed.iter().filter(|case| case.method == method && case.reason == reason);
        format!("`{method}` on {} scenes: {reason}", scenes.count())
    };
    kinds.into_iter().map(line).collect()
}

/// One entry a method and number: what programs read.
pub(crate) fn summary_json(methods: &[Method], cases: &[Case]) -> serde_json::Value {
    let mut entries = Vec::new();
    for method in methods {
        let own: Vec<&Case> = cases.iter().filter(|case| case.method == method.name).collect();
        let numbers: BTreeSet<&str> = own.iter().flat_map(|case| case.values.keys().map(String::as_str)).collect();
        for number in numbers {
            let values: Vec<f64> = own.iter().filter_map(|case| case.values.get(number).copied()).collect();
            let Some(summary) = Summary::of(&values) else { continue };
            entries.push(serde_json::json!({
                "method": method.name,
                "reconstructor": method.reconstructor,
                "policy": method.policy.as_ref().map(|policy| policy.name.as_str()),
                "points": method.policy.as_ref().map_or(0, |policy| policy.budget),
                "metric": number,
                "mean": summary.mean,
                "interval": [summary.low, summary.high],
                "cases": summary.count,
            }));
        }
    }
    serde_json::Value::Array(entries)
}
