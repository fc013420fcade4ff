//! `gpara report`: the session as one page.

use std::path::PathBuf;

use clap::Args;
use gpara_session::{
    Campaign, Coverage, Estimate, Forecast, LeftOut, Method, PredictedValue, Scale, SessionFile, Settings, Status,
    Task, coverage,
};
use gpara_tasks::field::write_whole;
use serde_json::{Value, json};

use crate::console::Console;
use crate::failure::Outcome;
use crate::picture::{ColorMap, ValueScale};
use crate::quantity::unit_suffix;
use crate::report::{BaseMap, Chart, Curve, PointLayer, Scatter, ScatterPoint, SessionReport, Table, session_page};
use crate::session_method::method_of;

/// Write the session as one HTML page: maps, predictions against measurements, history, settings, hashes
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gpara report S.gpara -o report.html

The page holds everything it shows and no script; it opens without a network.")]
pub(crate) struct ReportArguments {
    /// The session
    session: PathBuf,
    /// The page
    #[arg(short = 'o', long = "out", default_value = "report.html")]
    out: PathBuf,
}

/// Runs the command.
pub(crate) fn run(arguments: &ReportArguments, console: Console) -> Outcome {
    let mut campaign = Campaign::open_read_only(&arguments.session)?;
    let method = method_of(campaign.settings())?;
    let page = session_page(&report(&mut campaign, &*method)?);
    write_whole(&arguments.out, page.as_bytes())?;
    if console.json {
        console.data(&format!("{:#}\n", json!({ "report": arguments.out.display().to_string() })));
    } else {
        console.log(&format!("wrote {}", arguments.out.display()));
    }
    Ok(())
}

fn report(campaign: &mut Campaign, method: &dyn Method) -> Outcome<SessionReport> {
    let status = campaign.status()?;
    let forecast = campaign.forecast(method, None)?;
    let estimate = campaign.estimate(method, 0, false)?;
    let left_out = campaign.left_out(method, &estimate)?;
    let settings = campaign.settings().clone();
    let state = campaign.state()?;
    let grid = campaign.scene().grid();
    let measured = state.observations.iter().map(|entry| grid.row_col(entry.node)).collect();
    let failed = state.failed.iter().map(|&node| grid.row_col(node)).collect();
    let told = campaign.file().told()?;
    let before: Vec<ScatterPoint> = told
        .iter()
        .filter_map(|told| {
            let (predicted, std) = told.predicted?;
            Some(ScatterPoint { measured: told.value, predicted, std: std.hypot(told.sigma) })
        })
        .collect();
    let name = campaign.file().path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unit = settings.scale.unit.clone();
    let error_unit = settings.scale.difference_unit();
    Ok(SessionReport {
        title: format!("gpara session {name}"),
        summary: summary(&status, &forecast, error_unit),
        valid: campaign.valid().clone(),
        invalid_name: if campaign.scene().radio().is_some() { "building" } else { "outside" }.to_string(),
        maps: maps(&estimate, &settings.scale),
        layers: vec![
            PointLayer { name: "measured", cells: measured },
            PointLayer { name: "pending", cells: status.pending.clone() },
            PointLayer { name: "failed", cells: failed },
        ],
        charts: charts(campaign.file(), &forecast, status.num_valid, error_unit)?,
        scatters: vec![
            scatter("Leave-one-out: each value predicted from all others", &unit, left_out_points(&left_out)),
            scatter("Each value as predicted when it was asked for", &unit, before),
        ],
        coverage: coverage_table(&left_out, estimate.interval_factors, status.coverage, error_unit),
        remarks: remarks(method, &estimate, error_unit),
        history: history(campaign.file())?,
        settings: setting_pairs(&settings),
        hashes: hashes(campaign.file(), method)?,
    })
}

fn summary(status: &Status, forecast: &Forecast, unit: &str) -> Vec<String> {
    let unit = unit_suffix(unit);
    let mut lines = vec![format!(
        "{} cells measured of a budget of {} ({} values), {} pending, {} failed; {} valid cells.",
        status.num_observed,
        status.budget,
        status.num_values,
        status.pending.len(),
        status.num_failed,
        status.num_valid
    )];
    if let Some(left) = forecast.risk_left {
        lines.push(format!("Predicted root mean square error of the map: {left:.3}{unit}."));
    }
    if let Some(knee) = forecast.diminishing_return {
        lines.push(format!("Each further measurement brings less from {knee} measurements on."));
    }
    if let (Some(target), Some(reached)) = (forecast.stop_at, forecast.stop_reached) {
        let stands = if reached { "reached" } else { "not reached" };
        lines.push(format!("The target of {target}{unit} is {stands}."));
    }
    lines
}

fn maps(estimate: &Estimate, scale: &Scale) -> Vec<BaseMap> {
    let map = |title: &str, values: &[f64], color_map, from_zero: bool| {
        let unit = if from_zero { scale.difference_unit() } else { &scale.unit };
        let finite = values.iter().copied().filter(|value| value.is_finite());
        let (low, high) =
            finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let low = if from_zero { 0.0 } else { low };
        let scale = ValueScale { color_map, low, high, unit: unit.to_string() };
        BaseMap { title: title.to_string(), values: values.to_vec(), scale }
    };
    let mean = map("mean", &estimate.mean, ColorMap::Field, false);
    let std = estimate.std.as_ref().map(|std| map("standard deviation", std, ColorMap::Magnitude, true));
    std::iter::once(mean).chain(std).collect()
}

fn charts(file: &SessionFile, forecast: &Forecast, num_valid: usize, unit: &str) -> Outcome<Vec<Chart>> {
    let as_points =
        |curve: &[(usize, f64)]| curve.iter().map(|&(count, value)| (count as f64, value)).collect::<Vec<_>>();
    let x_label = "measurements".to_string();
    let axis = |what: &str| if unit.is_empty() { what.to_string() } else { format!("{what}, {unit}") };
    let mut charts = Vec::new();
    if let Some(rmse) = &forecast.rmse {
        let curves = vec![Curve { name: "if the rest of the budget is spent".to_string(), points: as_points(rmse) }];
        let title = "Predicted error against the number of measurements".to_string();
        charts.push(Chart { title, x_label: x_label.clone(), y_label: axis("RMSE"), curves });
    }
    let per_cell = |risk: f64| (risk / num_valid as f64).sqrt();
    let risk = file.asks()?.iter().map(|ask| (ask.num_observed as f64, per_cell(ask.risk))).collect();
    let curves = vec![Curve { name: "before each ask, in the model's own scale".to_string(), points: risk }];
    let title = "Root of the weighted risk a cell so far".to_string();
    charts.push(Chart { title, x_label, y_label: axis("weighted spread"), curves });
    Ok(charts)
}

fn scatter(title: &str, unit: &str, points: Vec<ScatterPoint>) -> Scatter {
    Scatter { title: title.to_string(), unit: unit.to_string(), points }
}

fn left_out_points(left_out: &[LeftOut]) -> Vec<ScatterPoint> {
    let point = |entry: &LeftOut| ScatterPoint { measured: entry.value, predicted: entry.predicted, std: entry.std };
    left_out.iter().map(point).collect()
}

fn coverage_table(left_out: &[LeftOut], interval_factors: [f64; 3], before: Option<Coverage>, unit: &str) -> Table {
    let unit = unit_suffix(unit);
    let row = |name: &str, found: Option<Coverage>| match found {
        Some(Coverage { num_values, half, most, rmse, bias }) => vec![
            name.to_string(),
            num_values.to_string(),
            format!("{:.0} %", 100.0 * half),
            format!("{:.0} %", 100.0 * most),
            format!("{rmse:.3}{unit}"),
            format!("{bias:+.3}{unit}"),
        ],
        None => [name, "0", "", "", "", ""].map(String::from).to_vec(),
    };
    let columns = ["prediction", "values", "in the 50 % interval", "in the 95 % interval", "RMSE", "bias"];
    let held = coverage(left_out.iter().map(|entry| {
        let LeftOut { value, predicted, std, .. } = *entry;
        PredictedValue { value, predicted, std, interval_factors }
    }));
    Table {
        columns: columns.map(String::from).to_vec(),
        rows: vec![row("leave-one-out", held), row("when it was asked for", before)],
        best_row: None,
    }
}

fn remarks(method: &dyn Method, estimate: &Estimate, unit: &str) -> Vec<String> {
    let remarks: &[&str] = match method.fits_level() {
        true => &[
            "Leave-one-out is exact for the Gaussian model: level and field are fitted anew without the value.",
            "A prediction when asked for stands in the session before the value came.",
        ],
        false => &[
            "Leave-one-out repeats the correction by the graph without the value; the network's prediction, which saw the \
             value, is held, so these errors are too small.",
            "A prediction when asked for stands in the session before the value came.",
        ],
    };
    let mut remarks: Vec<String> = remarks.iter().copied().map(String::from).collect();
    remarks.extend(super::reconstruct::fitted(estimate, unit).map(|text| format!("{text}.")));
    if let Some(misfit) = estimate.largest_misfit {
        let suffix = unit_suffix(unit);
        remarks.push(format!(
            "Largest |estimate - value| at a measured cell: {:.3e}{suffix} (row {}, col {}).",
            misfit.size, misfit.row, misfit.col
        ));
    }
    remarks
}

fn history(file: &SessionFile) -> Outcome<Table> {
    let mut rows = Vec::new();
    for ask in file.asks()? {
        let route = ask.route_length.map(|length| format!(", route of {length:.1} cells")).unwrap_or_default();
        let what = format!("{} points after {} measurements{route}", ask.points.len(), ask.num_observed);
        rows.push(vec![ask.at, "ask".to_string(), what, format!("{:.3} s", ask.seconds)]);
    }
    for tell in file.tells()? {
        let skipped = match tell.num_skipped {
            0 => String::new(),
            count => format!(", {count} lines skipped"),
        };
        let what = format!("{} values from {}{skipped}", tell.num_values, tell.source);
        rows.push(vec![tell.at, "tell".to_string(), what, String::new()]);
    }
    for made in file.reconstructions()? {
        let what = format!("from {} cells", made.num_observed);
        rows.push(vec![made.at, "reconstruct".to_string(), what, format!("{:.3} s", made.seconds)]);
    }
    // Times are ISO 8601 in UTC, so text order is time order.
    rows.sort();
    let columns = ["time", "what", "", "took"].map(String::from).to_vec();
    Ok(Table { columns, rows, best_row: None })
}

fn setting_pairs(settings: &Settings) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let Value::Object(object) = json!(settings) else { return pairs };
    for (name, value) in object {
        match (&value, &settings.task) {
            // The text of a preset is long; its hash is among the hashes.
            (Value::Object(prior), _) if name == "prior" => pairs.extend(
                prior
                    .iter()
                    .filter(|(key, _)| *key != "text")
                    .map(|(key, value)| (format!("prior.{key}"), plain(value))),
            ),
            (Value::Object(inner), Task::Radio { .. } | Task::Depth | Task::Field) => {
                pairs.extend(inner.iter().map(|(key, value)| (format!("{name}.{key}"), plain(value))));
            }
            _ => pairs.push((name, plain(&value))),
        }
    }
    pairs
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_string(),
        other => other.to_string(),
    }
}

fn hashes(file: &SessionFile, method: &dyn Method) -> Outcome<Vec<(String, String)>> {
    let mut hashes: Vec<(String, String)> = file
        .inputs()?
        .into_iter()
        .map(|input| (format!("{} ({}, {} bytes)", input.role, input.path, input.num_bytes), input.sha256))
        .collect();
    hashes.push(("method".to_string(), method.identity()));
    if let Some(last) = file.reconstructions()?.last() {
        for line in last.outputs.lines() {
            if let Some((path, hash)) = line.rsplit_once(' ') {
                hashes.push((path.to_string(), hash.to_string()));
            }
        }
    }
    hashes.push(("made by".to_string(), file.meta("made_by")?));
    Ok(hashes)
}
