//! What an evaluation leaves to read: Markdown, CSV and JSON from its cases.

use std::collections::BTreeSet;

use gpara_eval::{CSV_HEADER, Case, FailedCase, Method, ResultTable, Summary};

use super::config::EvalConfig;

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
    /// Title, text and tables.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n", self.config.title, self.config.about.trim());
        for table in &self.config.tables {
            text += &format!("\n## {}\n\n", table.title);
            if !table.about.trim().is_empty() {
                text += &format!("{}\n\n", table.about.trim());
            }
            text += &ResultTable { cases: self.cases, config: table }.markdown();
        }
        let failures = failures(self.failed);
        if !failures.is_empty() {
            text += "\n## Cases that failed\n\n";
            text += &failures.iter().map(|line| format!("- {line}\n")).collect::<String>();
        }
        text
    }

    /// All tables, one line a row and number.
    pub(crate) fn csv(&self) -> String {
        let tables = self.config.tables.iter().map(|table| ResultTable { cases: self.cases, config: table }.csv());
        CSV_HEADER.to_owned() + &tables.collect::<String>()
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
