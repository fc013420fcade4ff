//! How well each measurement is predicted from all the others, without computing the posterior once for each.

use gpara::{Posterior, Result};

/// The prediction of one measurement from all others, normalised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeftOut {
    /// The measured cell.
    pub node: usize,
    /// The measured value.
    pub value: f64,
    /// What the others predict for it.
    pub predicted: f64,
    /// Standard deviation of `value - predicted` under the model, noise included.
    pub std: f64,
}

/// Predicts every measurement from all others: with posterior variance v and noise variance s2 of a measurement y,
/// `y - predicted = (y - mean) / (1 - v / s2)` and `std^2 = s2 / (1 - v / s2)`.
///
/// Exact where `mean` is linear in the measurements: the Gaussian model, with a level that is the posterior's drift fitted anew
/// without the left-out value. Where a network that sees the measurements made `mean`, its prediction is held and only the
/// correction by the graph is repeated.
///
/// # Shapes
/// * `mean` - the posterior mean, `num_nodes` values
/// * `std` - the standard deviation that goes with it, which may be scaled as a whole; its factor scales the result
///
/// # Errors
/// Those of the linear algebra.
pub fn leave_one_out(posterior: &Posterior, mean: &[f64], std: &[f64]) -> Result<Vec<LeftOut>> {
    let variance = posterior.variances()?;
    // Where the factor on the model's spread is not the same everywhere, that of the mean squares stands for it.
    let known = (0..variance.len()).filter(|&node| std[node].is_finite());
    let (squares, variances) =
        known.fold((0.0, 0.0), |(squares, sum), node| (squares + std[node] * std[node], sum + variance[node]));
    let factor = if variances > 0.0 { (squares / variances).sqrt() } else { 1.0 };
    let left_out = posterior.observations().iter().map(|entry| {
        let noise_variance = entry.noise_std * entry.noise_std;
        let share = 1.0 - variance[entry.node] / noise_variance;
        LeftOut {
            node: entry.node,
            value: entry.value,
            predicted: entry.value - (entry.value - mean[entry.node]) / share,
            std: factor * (noise_variance / share).sqrt(),
        }
    });
    Ok(left_out.collect())
}

/// A value with what was predicted for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedValue {
    /// The value.
    pub value: f64,
    /// What was predicted.
    pub predicted: f64,
    /// The standard deviation that was predicted, noise included.
    pub std: f64,
    /// Half widths of the intervals of [`gpara::COVERAGE_LEVELS`], in that standard deviation.
    pub interval_factors: [f64; 3],
}

/// How often values fell inside intervals of predictions made before they were told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coverage {
    /// Values with a prediction.
    pub num_values: usize,
    /// Share inside the 50 % interval.
    pub half: f64,
    /// Share inside the 95 % interval.
    pub most: f64,
    /// Root mean square of value minus prediction, in the unit of the values.
    pub rmse: f64,
    /// Mean of value minus prediction.
    pub bias: f64,
}

/// Coverage of predictions; `None` without any.
pub fn coverage(predictions: impl IntoIterator<Item = PredictedValue>) -> Option<Coverage> {
    let (mut count, mut half, mut most, mut squares, mut sum) = (0, 0, 0, 0.0, 0.0);
    for PredictedValue { value, predicted, std, interval_factors: [half_width, _, most_width] } in predictions {
        let error = value - predicted;
        count += 1;
        half += usize::from(error.abs() <= half_width * std);
        most += usize::from(error.abs() <= most_width * std);
        squares += error * error;
        sum += error;
    }
    let total = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    (count > 0).then(|| Coverage {
        num_values: count as usize,
        half: half as f64 / total,
        most: most as f64 / total,
        rmse: (squares / total).sqrt(),
        bias: sum / total,
    })
}
