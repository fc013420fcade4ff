//! The page of a session: one file, no script, no outside link.

use std::fmt::Write;

use gpara::ValidMask;

use super::html::{STYLE, escaped, pairs, table};
use super::scatter::{self, Scatter};
use super::viewer::{BaseMap, PointLayer, viewer};
use super::{Chart, Table, chart};

const SESSION_STYLE: &str = include_str!("session_style.css");

/// Everything the page of a session shows.
pub(crate) struct SessionReport {
    /// Heading of the page.
    pub(crate) title: String,
    /// A few sentences on where the session stands.
    pub(crate) summary: Vec<String>,
    /// The cells of the field.
    pub(crate) valid: ValidMask,
    /// What other cells are, e.g. `building`.
    pub(crate) invalid_name: String,
    /// The maps.
    pub(crate) maps: Vec<BaseMap>,
    /// The points over them.
    pub(crate) layers: Vec<PointLayer>,
    /// How well the field is known.
    pub(crate) charts: Vec<Chart>,
    /// Predicted against measured values.
    pub(crate) scatters: Vec<Scatter>,
    /// How often values fell inside predicted intervals.
    pub(crate) coverage: Table,
    /// What a reader must know about the predictions.
    pub(crate) remarks: Vec<String>,
    /// What happened, in order.
    pub(crate) history: Table,
    /// Name and value of every setting.
    pub(crate) settings: Vec<(String, String)>,
    /// Name and SHA-256 of inputs, method and outputs.
    pub(crate) hashes: Vec<(String, String)>,
}

/// The report of a session as one HTML page.
pub(crate) fn session_page(report: &SessionReport) -> String {
    let title = escaped(&report.title);
    let mut html = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    let _ = write!(
        html,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light \
         dark\"><title>{title}</title><link rel=\"icon\" href=\"data:,\"><style>{STYLE}{SESSION_STYLE}</style></head><body>\
         <main><h1>{title}</h1>"
    );
    report.summary.iter().for_each(|line| html.push_str(&format!("<p>{}</p>", escaped(line))));
    html.push_str("<h2>Maps</h2>");
    html.push_str(&viewer(&report.valid, &report.invalid_name, &report.maps, &report.layers));
    html.push_str("<h2>How well the field is known</h2><div class=\"charts\">");
    report.charts.iter().for_each(|chart| html.push_str(&chart::figure(chart)));
    report.scatters.iter().for_each(|scatter| html.push_str(&scatter::figure(scatter)));
    html.push_str("</div><h3>Values inside predicted intervals</h3>");
    html.push_str(&table(&report.coverage));
    report.remarks.iter().for_each(|line| html.push_str(&format!("<p class=\"remark\">{}</p>", escaped(line))));
    html.push_str("<h2>History</h2>");
    html.push_str(&table(&report.history));
    html.push_str("<h2>Settings</h2>");
    html.push_str(&pairs(&report.settings));
    html.push_str("<h2>Hashes (SHA-256)</h2>");
    html.push_str(&pairs(&report.hashes));
    html.push_str("</main></body></html>\n");
    html
}
