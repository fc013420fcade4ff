//! The columns of a trend: an unknown level, and context channels by name.

use gpara::{Context, ErrorDetail, ErrorKind, Result};
use thiserror::Error as ThisError;

/// A constant column and one a channel, `num_nodes` values each.
pub(super) struct Trend(Vec<Vec<f64>>);

/// A channel whose values at the measured cells spread less than this says nothing there.
const LEAST_SPREAD: f64 = 1e-6;

impl Trend {
    /// The trend in `channels`.
    ///
    /// # Errors
    /// `InvalidInput` if the context has no such channel.
    pub(super) fn new(context: &Context, channels: &[String]) -> Result<Self> {
        let mut columns = vec![vec![1.0; context.grid().num_nodes()]];
        for name in channels {
            let values = context.channel(name).ok_or_else(|| {
                let known =
                    context.channels().iter().map(|channel| channel.name.as_str()).collect::<Vec<_>>().join(", ");
                TrendError { name: name.clone(), known }
            })?;
            columns.push(values.iter().map(|&value| f64::from(value)).collect());
        }
        Ok(Self(columns))
    }

    /// The columns that take more than one value at `nodes`, the constant one always; only that one if the measurements
    /// are hardly more than the columns.
    pub(super) fn told_apart_by(&self, nodes: &[usize]) -> Vec<Vec<f64>> {
        let (constant, channels) = self.0.split_first().expect("the constant column is there");
        let mut columns = vec![constant.clone()];
        if nodes.len() >= 2 * self.0.len() {
            let spread = |column: &&Vec<f64>| {
                let values = nodes.iter().map(|&node| column[node]);
                let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
                high - low > LEAST_SPREAD
            };
            columns.extend(channels.iter().filter(spread).cloned());
        }
        columns
    }
}

#[derive(Debug, ThisError)]
#[error("context has no channel `{name}`, it has {known}")]
struct TrendError {
    name: String,
    known: String,
}

impl ErrorDetail for TrendError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}
