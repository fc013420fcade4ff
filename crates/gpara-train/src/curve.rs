//! The validation curve of a run as CSV and as a picture.

use std::fmt::Write as _;
use std::path::Path;

use gpara::Result;

use crate::error::TrainError;
use crate::files::write_whole;

/// One validation.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    step: u64,
    seconds: f64,
    loss: f64,
    errors: Vec<f64>,
}

/// All validations of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Curve {
    names: Vec<String>,
    rows: Vec<Row>,
}

impl Curve {
    /// Reads the rows up to `step` of an earlier piece of the run; an empty curve if there is no file.
    ///
    /// # Errors
    /// `Io` if the file cannot be read, `Incompatible` if it is not a curve.
    pub(crate) fn read(path: &Path, step: u64) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(path).map_err(|source| TrainError::Io {
            action: "read",
            path: path.into(),
            source,
        })?;
        let mut lines = text.lines();
        let names: Vec<String> = lines.next().unwrap_or_default().split(',').skip(3).map(String::from).collect();
        let mut rows = Vec::new();
        for line in lines {
            let values: Vec<f64> = line.split(',').filter_map(|value| value.parse().ok()).collect();
            if values.len() != names.len() + 3 {
                let reason = format!("line `{line}` has not {} numbers", names.len() + 3);
                return Err(TrainError::File { path: path.into(), reason }.into());
            }
            if values[0] as u64 <= step {
                let errors = values[3..].to_vec();
                rows.push(Row { step: values[0] as u64, seconds: values[1], loss: values[2], errors });
            }
        }
        Ok(Self { names, rows })
    }

    /// Adds one validation.
    pub(crate) fn push(&mut self, step: u64, seconds: f64, loss: f64, errors: &[(&'static str, f64)]) {
        self.names = errors.iter().map(|(name, _)| name.to_string()).collect();
        self.rows.push(Row { step, seconds, loss, errors: errors.iter().map(|(_, value)| *value).collect() });
    }

    /// The errors of the last validation.
    pub(crate) fn last(&self) -> Vec<(String, f64)> {
        let row = self.rows.last();
        self.names.iter().cloned().zip(row.into_iter().flat_map(|row| row.errors.iter().copied())).collect()
    }

    /// Step of the last validation.
    pub(crate) fn last_step(&self) -> Option<u64> {
        self.rows.last().map(|row| row.step)
    }

    /// Writes `PATH.csv` and `PATH.svg`.
    ///
    /// # Errors
    /// `Io` if a file cannot be written.
    pub(crate) fn write(&self, csv: &Path, svg: &Path, title: &str) -> Result<()> {
        write_whole(csv, self.csv().as_bytes())?;
        write_whole(svg, self.svg(title).as_bytes())
    }

    fn csv(&self) -> String {
        let mut text = format!("step,seconds,loss,{}\n", self.names.join(","));
        for Row { step, seconds, loss, errors } in &self.rows {
            let errors: Vec<String> = errors.iter().map(|value| format!("{value:.6}")).collect();
            let _ = writeln!(text, "{step},{seconds:.1},{loss:.6},{}", errors.join(","));
        }
        text
    }

    /// Errors against steps, logarithmic upwards.
    fn svg(&self, title: &str) -> String {
        const COLOURS: [&str; 4] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd"];
        let (left, top, width, height) = (60.0, 40.0, 560.0, 300.0);
        let values = || self.rows.iter().flat_map(|row| row.errors.iter().copied()).filter(|value| *value > 0.0);
        let low = values().fold(f64::INFINITY, f64::min) * 0.95;
        let high = values().fold(0.0, f64::max) * 1.05;
        let last = self.rows.last().map_or(1, |row| row.step.max(1)) as f64;
        let x = |step: u64| left + width * step as f64 / last;
        let y = |value: f64| top + height * (1.0 - (value / low).ln() / (high / low).ln());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 440\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"640\" height=\"440\" fill=\"white\"/>\n\
             <text x=\"{left}\" y=\"22\" font-size=\"14\">{title}: validation errors against steps</text>\n\
             <rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#888\"/>\n"
        );
        if low.is_finite() && high > low {
            for mark in [0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0] {
                if mark > low && mark < high {
                    let at = y(mark);
                    let _ = writeln!(
                        svg,
                        "<line x1=\"{left}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
                         <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{mark}</text>",
                        left + width,
                        left - 6.0,
                        at + 4.0
                    );
                }
            }
            for (index, name) in self.names.iter().enumerate() {
                let colour = COLOURS[index % COLOURS.len()];
                let points: Vec<String> =
                    self.rows.iter().map(|row| format!("{:.1},{:.1}", x(row.step), y(row.errors[index]))).collect();
                let label = top + height + 36.0 + 16.0 * index as f64;
                let _ = writeln!(
                    svg,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\
                     <text x=\"{left}\" y=\"{label}\" fill=\"{colour}\">{name}</text>",
                    points.join(" ")
                );
            }
        }
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"{:.1}\">0</text><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{last} steps</text>\n</svg>",
            top + height + 16.0,
            left + width,
            top + height + 16.0
        );
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_read_again_keeps_the_rows_up_to_the_step() {
        let folder = tempfile::tempdir().unwrap();
        let (csv, svg) = (folder.path().join("a.csv"), folder.path().join("a.svg"));
        let mut curve = Curve::default();
        for step in [10, 20, 30] {
            curve.push(step, step as f64, 0.5, &[("empty", 0.1), ("random_491", 0.05)]);
        }
        curve.write(&csv, &svg, "a").unwrap();
        let again = Curve::read(&csv, 20).unwrap();
        assert_eq!(again.last_step(), Some(20));
        assert_eq!(again.last(), [("empty".to_string(), 0.1), ("random_491".to_string(), 0.05)]);
        assert!(std::fs::read_to_string(&svg).unwrap().contains("random_491"));
    }
}
