//! The columns of a trend: an unknown level, and context channels by name.

use gpara::{Context, ErrorDetail, ErrorKind, Result};
use thiserror::Error as ThisError;

/// A constant column and one a channel, `num_nodes` values each.
pub(super) struct Trend(Vec<Vec<f64>>);

/// A channel whose values at the measured cells spread less than this says nothing there.
const LEAST_SPREAD: f64 = 1e-6;

impl Trend {
    /// The trend in `terms`: a channel, or the product of some, e.g. `log_distance*line_of_sight`.
    ///
    /// # Errors
    /// `InvalidInput` if the context has no such channel.
    pub(super) fn new(context: &Context, terms: &[String]) -> Result<Self> {
        let constant = vec![1.0; context.grid().num_nodes()];
        let mut columns = vec![constant.clone()];
        for term in terms {
            let mut column = constant.clone();
            for name in term.split('*').map(str::trim) {
                let channel = context.channel(name).ok_or_else(|| {
                    let names = context.channels().iter().map(|channel| channel.name.as_str());
                    TrendError { name: name.to_owned(), known: names.collect::<Vec<_>>().join(", ") }
                })?;
                column.iter_mut().zip(channel).for_each(|(value, &factor)| *value *= f64::from(factor));
            }
            columns.push(column);
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

#[cfg(test)]
mod tests {
    use gpara::{Channel, Grid, ValidMask};

    use super::*;

    #[test]
    fn product_of_channels_is_a_column_and_an_unknown_channel_is_refused() {
        let grid = Grid::new(1, 3).unwrap();
        let channel = |name: &str, values: [f32; 3]| Channel { name: name.into(), values: values.to_vec() };
        let channels = vec![channel("a", [1.0, 2.0, 3.0]), channel("b", [0.0, 1.0, 2.0])];
        let context = Context::new(ValidMask::all(grid), channels).unwrap();
        let trend = Trend::new(&context, &["a*b".to_owned()]).unwrap();
        assert_eq!(trend.0, [vec![1.0; 3], vec![0.0, 2.0, 6.0]]);
        // Four cells or more tell two columns apart; the product is constant over the first cell alone.
        assert_eq!(trend.told_apart_by(&[0, 1]).len(), 1);
        assert_eq!(trend.told_apart_by(&[0, 1, 2, 2]).len(), 2);
        let error = Trend::new(&context, &["a*c".to_owned()]).err().unwrap();
        assert!(error.to_string().contains("`c`") && error.to_string().contains("a, b"), "{error}");
    }
}
