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
    // The factor on the model's spread is the same everywhere; the widest cell tells it with the least rounding.
    let valid_widest =
        (0..variance.len()).filter(|&node| std[node].is_finite()).max_by(|&a, &b| variance[a].total_cmp(&variance[b]));
    let factor = valid_widest.map_or(1.0, |node| std[node] / variance[node].sqrt());
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

/// Coverage of `(value, predicted, std)` triples; `None` without any.
pub fn coverage(predictions: impl IntoIterator<Item = (f64, f64, f64)>) -> Option<Coverage> {
    /// Half-widths of central normal intervals, in standard deviations.
    const HALF: f64 = 0.674_489_750_196_081_7;
    const MOST: f64 = 1.959_963_984_540_054;
    let (mut count, mut half, mut most, mut squares, mut sum) = (0, 0, 0, 0.0, 0.0);
    for (value, predicted, std) in predictions {
        let error = value - predicted;
        count += 1;
        half += usize::from(error.abs() <= HALF * std);
        most += usize::from(error.abs() <= MOST * std);
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
