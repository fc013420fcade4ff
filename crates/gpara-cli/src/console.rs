//! Where output goes: data to stdout, log to stderr, a progress bar on a terminal only.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What a program or a person asked to see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Console {
    /// Nothing but errors and the data that were asked for.
    pub(crate) quiet: bool,
    /// Data as JSON.
    pub(crate) json: bool,
}

impl Console {
    /// Prints data to stdout. A closed pipe (`gpara ... | head`) is the reader's choice and no failure.
    pub(crate) fn data(self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Prints a line for people to stderr unless they asked for quiet.
    pub(crate) fn log(self, text: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// The failure a command ends with, to stderr.
    pub(crate) fn error(self, text: &str) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// A bar of `length` steps; invisible unless stderr is a terminal.
    pub(crate) fn progress(self, length: u64, unit: &str) -> ProgressBar {
        let visible = !self.quiet && std::io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template(&format!("{{msg:28}} {{bar:32}} {{pos}}/{{len}} {unit} {{elapsed}}"))
            .expect("the template is constant");
        ProgressBar::with_draw_target(Some(length), target).with_style(style)
    }
}

/// Columns aligned by spaces: the first to the left, the others to the right.
pub(crate) fn aligned(columns: &[String], rows: &[Vec<String>]) -> String {
    let width = |place: usize| {
        let cells = rows.iter().map(|row| row[place].chars().count());
        cells.chain([columns[place].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(place, (cell, &width))| match place {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    std::iter::once(columns).chain(rows.iter().map(Vec::as_slice)).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_to_the_widest_cell() {
        let text = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let table = aligned(&text(["method", "RMSE"]), &[text(["random", "0.0479"]), text(["farthest-point", "0.04"])]);
        assert_eq!(table, "method            RMSE\nrandom          0.0479\nfarthest-point    0.04\n");
    }
}
