//! A network of role `spread`: the scale of a mean estimate's error in every cell.

use std::path::Path;
use std::sync::Arc;

use gpara::{Calibration, CalibrationPoint, Context, NORMAL_INTERVALS, Observations, Result, SpreadPredictor};

use crate::card::Role;
use crate::network::Network;

/// Added to the network's output, so that a fresh network starts at a scale of 0.05.
pub const SPREAD_LOG_OFFSET: f64 = -3.0;

/// Range of the logarithm of the scale: beyond it a normalised error means nothing.
pub const SPREAD_LOG_RANGE: [f64; 2] = [-9.0, 1.0];

/// The standard deviation that an output value stands for: the output is the logarithm of the scale b of a Laplace
/// distribution, less [`SPREAD_LOG_OFFSET`]; its standard deviation is sqrt(2) b.
pub fn spread_of_output(output: f64) -> f64 {
    let log_scale = (output + SPREAD_LOG_OFFSET).clamp(SPREAD_LOG_RANGE[0], SPREAD_LOG_RANGE[1]);
    std::f64::consts::SQRT_2 * log_scale.exp()
}

/// A [`SpreadPredictor`] that asks a network: the state is the mean estimate, the timestep is 0. Where its card has a
/// calibration, that applies.
#[derive(Debug, Clone)]
pub struct OnnxSpread {
    network: Arc<Network>,
    calibration: Option<Calibration>,
}

impl OnnxSpread {
    /// The predictor of a loaded network.
    ///
    /// # Errors
    /// `Incompatible` if its role is not `spread`.
    pub fn new(network: Arc<Network>) -> Result<Self> {
        network.card().require_role(Role::Spread)?;
        let calibration = network.card().calibration()?;
        Ok(Self { network, calibration })
    }

    /// From `NAME.onnx` with `NAME.toml` beside it; see [`Network::from_file`].
    ///
    /// # Errors
    /// Those of [`Network::from_file`] and [`OnnxSpread::new`].
    pub fn from_file(onnx: &Path, threads: usize) -> Result<Self> {
        Self::new(Arc::new(Network::from_file(onnx, threads)?))
    }

    /// The network with its card.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The factors of the card at these measurements; `None` if none were fitted.
    fn calibrated(&self, context: &Context, observations: &Observations) -> Option<CalibrationPoint> {
        self.calibration.as_ref().map(|table| table.of(context.valid(), observations))
    }
}

impl SpreadPredictor for OnnxSpread {
    fn name(&self) -> &str {
        &self.network.card().name
    }

    fn predict_std(&self, context: &Context, observations: &Observations, mean: &[f64]) -> Result<Vec<f64>> {
        let outputs = self.network.maps(mean, 0.0, context, observations, &[])?;
        let factor = self.std_factor(context, observations);
        Ok(outputs.into_iter().map(|output| factor * spread_of_output(output)).collect())
    }

    fn std_factor(&self, context: &Context, observations: &Observations) -> f64 {
        self.calibrated(context, observations).map_or(1.0, |point| point.std_factor)
    }

    fn interval_factors(&self, context: &Context, observations: &Observations) -> [f64; 3] {
        self.calibrated(context, observations).map_or(NORMAL_INTERVALS, |point| point.interval_factors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_zero_is_the_scale_of_a_fresh_network_and_extremes_stay_in_range() {
        let root = std::f64::consts::SQRT_2;
        assert!((spread_of_output(0.0) - root * (-3.0f64).exp()).abs() < 1e-15);
        assert!((spread_of_output(1e9) - root * 1.0f64.exp()).abs() < 1e-12);
        assert!((spread_of_output(-1e9) - root * (-9.0f64).exp()).abs() < 1e-15);
    }
}
