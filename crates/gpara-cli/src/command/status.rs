//! `gpara status`: where a session stands, and whether going on is worth it.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use gpara_session::{Campaign, Coverage, Forecast, Status};
use serde_json::{Value, json};

use crate::console::Console;
use crate::failure::Outcome;
use crate::quantity::{Quantity, unit_suffix};
use crate::session_method::method_of;

/// Say what is measured, pending and left, and what more measurements would bring
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gpara status S.gpara --stop-at 2dB

The forecast is exact in the variances of a planned layout of the coming points; the layout is a heuristic.")]
pub(crate) struct StatusArguments {
    /// The session
    session: PathBuf,
    /// Predicted error at which one may stop [default: that of `gpara new`]
    #[arg(long)]
    stop_at: Option<Quantity>,
    /// Counts only, without the forecast
    #[arg(long)]
    no_forecast: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &StatusArguments, console: Console) -> Outcome {
    let mut campaign = Campaign::open_read_only(&arguments.session)?;
    let mut status = campaign.status()?;
    let scale = campaign.settings().scale.clone();
    let (unit, error_unit) = (&scale.unit, scale.difference_unit());
    let stop_at = arguments.stop_at.as_ref().map(|target| target.difference_in_unit("stop-at", unit)).transpose()?;
    if !arguments.no_forecast {
        let method = method_of(campaign.settings())?;
        status.forecast = Some(campaign.forecast(&*method, stop_at)?);
    }
    if console.json {
        console.data(&format!("{:#}\n", object(&status, unit, error_unit)));
    } else {
        console.data(&described(&status, error_unit));
    }
    Ok(())
}

fn object(status: &Status, unit: &str, error_unit: &str) -> Value {
    let cells =
        |cells: &[(usize, usize)]| cells.iter().map(|(row, col)| json!({ "row": row, "col": col })).collect::<Vec<_>>();
    let curve = |points: &[(usize, f64)], name: &str| {
        points.iter().map(|(count, value)| json!({ "measurements": count, name: value })).collect::<Vec<_>>()
    };
    json!({
        "unit": unit,
        "error_unit": error_unit,
        "valid_cells": status.num_valid,
        "budget": status.budget,
        "num_observed": status.num_observed,
        "num_values": status.num_values,
        "pending": cells(&status.pending),
        "num_failed": status.num_failed,
        "open_cells": status.num_open,
        "remaining": status.remaining,
        "coverage": status.coverage.map(|coverage| json!({
            "num_values": coverage.num_values,
            "inside_50": coverage.half,
            "inside_95": coverage.most,
            "rmse": coverage.rmse,
            "bias": coverage.bias,
        })),
        "forecast": status.forecast.as_ref().map(|forecast| json!({
            "risk_left": forecast.risk_left,
            "rmse": forecast.rmse.as_deref().map(|rmse| curve(rmse, "rmse")),
            "variance_share": curve(&forecast.variance_share, "share"),
            "diminishing_return": forecast.diminishing_return,
            "stop_at": forecast.stop_at,
            "stop_reached": forecast.stop_reached,
            "stop_after": forecast.stop_after,
        })),
    })
}

fn described(status: &Status, unit: &str) -> String {
    let unit = &unit_suffix(unit);
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name:<22}{value}").expect("writing to a String succeeds");
    };
    let values = match status.num_values == status.num_observed {
        true => String::new(),
        false => format!(" ({} values)", status.num_values),
    };
    line("measured", format!("{} of {} in the budget{values}", status.num_observed, status.budget));
    line("pending", status.pending.len().to_string());
    line("failed", status.num_failed.to_string());
    line("may still be asked", format!("{} points, {} open cells", status.remaining, status.num_open));
    if let Some(Coverage { num_values, half, most, rmse, .. }) = status.coverage {
        let shares = format!("{:.0} % of {num_values} values in the 50 % interval", 100.0 * half);
        line("predicted before", format!("{shares}, {:.0} % in the 95 % one, RMSE {rmse:.3}{unit}", 100.0 * most));
    }
    if let Some(forecast) = &status.forecast {
        describe_forecast(forecast, unit, &mut line);
    }
    text
}

fn describe_forecast(forecast: &Forecast, unit: &str, line: &mut dyn FnMut(&str, String)) {
    match forecast.risk_left {
        Some(left) => line("risk left", format!("predicted RMSE {left:.3}{unit}")),
        None => line("risk left", "not known before two measurements".to_string()),
    }
    let numbers: Vec<String> = match &forecast.rmse {
        Some(rmse) => rmse.iter().map(|(count, error)| format!("{error:.3}{unit} at {count}")).collect(),
        None => {
            let share = |&(count, share): &(usize, f64)| format!("{:.0} % at {count}", 100.0 * share.sqrt());
            forecast.variance_share.iter().map(share).collect()
        }
    };
    line("predicted RMSE", numbers.join(", "));
    if let Some(knee) = forecast.diminishing_return {
        line("diminishing return", format!("from {knee} measurements on"));
    }
    if let (Some(target), Some(reached)) = (forecast.stop_at, forecast.stop_reached) {
        let when = match (reached, forecast.stop_after) {
            (true, _) => "reached: you may stop".to_string(),
            (false, Some(count)) => format!("expected at {count} measurements"),
            (false, None) => "not within the budget".to_string(),
        };
        line("stop at", format!("{target}{unit}: {when}"));
    }
}
