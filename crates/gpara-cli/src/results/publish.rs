//! The end of a run: report and summary beside the maps, and what the caller asked to see.

use super::page::{ReportInput, report};
use super::scene::SceneOutcome;
use super::summary::{json, text};
use crate::console::Console;
use crate::failure::Outcome;
use crate::output_folder::OutputFolder;
use crate::report::report_page;

/// Writes `report.html` and `summary.json` for fields whose maps are in the folder already, and prints the result.
pub(crate) fn publish(
    input: &ReportInput<'_>,
    outcomes: &[SceneOutcome],
    folder: &mut OutputFolder,
    console: Console,
) -> Outcome {
    let page = report(input, folder.written(), outcomes);
    folder.write("report.html", report_page(&page).as_bytes())?;
    let summary = format!("{:#}\n", json(input.settings, outcomes, folder));
    folder.write("summary.json", summary.as_bytes())?;
    if console.json {
        console.data(&summary);
    } else if !console.quiet {
        console.data(&text(input.settings, outcomes));
        console.data(&format!("\nreport: {}\n", folder.path().join("report.html").display()));
    }
    Ok(())
}
