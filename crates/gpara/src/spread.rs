//! The seam to a network that knows how wrong a mean estimate is, cell by cell.

use std::sync::Arc;

use thiserror::Error as ThisError;

use crate::calibration::NORMAL_INTERVALS;
use crate::context::Context;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::observations::Observations;

/// Predicts the standard deviation of a mean estimate's error.
///
/// It is the spread of each cell alone; how the errors of cells go together is the graph's
/// [`ResidualPrecision`](crate::ResidualPrecision).
pub trait SpreadPredictor: Send + Sync {
    /// A name for reports, e.g. the model's file name.
    fn name(&self) -> &str;

    /// The standard deviation of truth - `mean`, normalised units; same inputs, same bits, for any number of threads.
    ///
    /// # Shapes
    /// * `mean` - `num_nodes` values, the estimate given `observations`
    /// * returns `num_nodes` values > 0
    ///
    /// # Errors
    /// `ShapeMismatch` or `Incompatible` if the scene does not fit the network, `NonFinite` if it returns a NaN or
    /// infinity.
    fn predict_std(&self, context: &Context, observations: &Observations, mean: &[f64]) -> Result<Vec<f64>>;

    /// The factor that [`predict_std`](Self::predict_std) applies because of errors on validation data; 1 if it applies none.
    fn std_factor(&self, context: &Context, observations: &Observations) -> f64 {
        let _ = (context, observations);
        1.0
    }

    /// Half widths of the central intervals of [`COVERAGE_LEVELS`](crate::COVERAGE_LEVELS) around the mean, in those
    /// standard deviations; a normal distribution's unless errors were found to have other tails.
    fn interval_factors(&self, context: &Context, observations: &Observations) -> [f64; 3] {
        let _ = (context, observations);
        NORMAL_INTERVALS
    }
}

/// A spread network that has seen the errors of one instrument only, told of the noise of another (Eq. G.20):
///
/// ```text
/// s'_i^2 = s_i^2 + gamma max(0, mean_k sigma_k^2 - sigma_0^2)
/// ```
///
/// The networks neither see the noise nor were trained with it. An estimate that follows noisy measurements has their noise in it, less
/// what neighbours average out of it: `gamma` of its variance, the same in all cells, on top of what the network states for an
/// instrument of `sigma_0`.
pub struct NoiseAwareSpread {
    network: Arc<dyn SpreadPredictor>,
    noise_gain: f64,
    nominal_noise_std: f64,
}

impl NoiseAwareSpread {
    /// `network` with gamma and sigma_0, the noise its spread is right for, in normalised units.
    ///
    /// # Errors
    /// `InvalidInput` unless both are finite and >= 0.
    pub fn new(network: Arc<dyn SpreadPredictor>, noise_gain: f64, nominal_noise_std: f64) -> Result<Self> {
        for (name, value) in [("noise gain", noise_gain), ("nominal noise std", nominal_noise_std)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(SpreadError::Number { name, value }.into());
            }
        }
        Ok(Self { network, noise_gain, nominal_noise_std })
    }

    /// The variance that the noise of these measurements adds; 0 where there is no more of it than the network knows.
    fn added_variance(&self, observations: &Observations) -> f64 {
        let count = observations.len().max(1) as f64;
        let mean = observations.iter().map(|observation| observation.noise_std.powi(2)).sum::<f64>() / count;
        self.noise_gain * (mean - self.nominal_noise_std.powi(2)).max(0.0)
    }
}

impl SpreadPredictor for NoiseAwareSpread {
    fn name(&self) -> &str {
        self.network.name()
    }

    fn predict_std(&self, context: &Context, observations: &Observations, mean: &[f64]) -> Result<Vec<f64>> {
        let mut std = self.network.predict_std(context, observations, mean)?;
        let added = self.added_variance(observations);
        // Squares and roots of unchanged values would move their last digit.
        if added > 0.0 {
            std.iter_mut().for_each(|std| *std = (*std * *std + added).sqrt());
        }
        Ok(std)
    }

    fn std_factor(&self, context: &Context, observations: &Observations) -> f64 {
        self.network.std_factor(context, observations)
    }

    fn interval_factors(&self, context: &Context, observations: &Observations) -> [f64; 3] {
        self.network.interval_factors(context, observations)
    }
}

#[derive(Debug, ThisError)]
enum SpreadError {
    #[error("{name} {value} is not allowed: a finite number >= 0")]
    Number { name: &'static str, value: f64 },
}

impl ErrorDetail for SpreadError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::observations::Observation;

    /// .3 everywhere, with factors of its own.
    struct Fixed;

    impl SpreadPredictor for Fixed {
        fn name(&self) -> &str {
            "fixed"
        }

        fn predict_std(&self, context: &Context, _: &Observations, _: &[f64]) -> Result<Vec<f64>> {
            Ok(vec![0.3; context.grid().num_nodes()])
        }

        fn std_factor(&self, _: &Context, _: &Observations) -> f64 {
            1.25
        }

        fn interval_factors(&self, _: &Context, _: &Observations) -> [f64; 3] {
            [0.5, 1.0, 2.0]
        }
    }

    fn measured(noise: &[f64]) -> (Context, Observations) {
        let context = Context::empty(Grid::new(4, 5).unwrap());
        let mut observations = Observations::none(context.grid());
        let all = noise.iter().enumerate().map(|(node, &noise_std)| Observation { node, value: 0.1, noise_std });
        observations.add(context.valid(), &all.collect::<Vec<_>>()).unwrap();
        (context, observations)
    }

    fn std(noise_gain: f64, noise: &[f64]) -> f64 {
        let spread = NoiseAwareSpread::new(Arc::new(Fixed), noise_gain, 0.2).unwrap();
        let (context, observations) = measured(noise);
        let std = spread.predict_std(&context, &observations, &[0.0; 20]).unwrap();
        assert!(std.iter().all(|value| *value == std[0]), "the same in all cells");
        std[0]
    }

    #[test]
    fn variance_beyond_the_nominal_noise_is_added_by_its_gain_g20() {
        // Mean of the variances (.36 + .64) / 2 = .5, less .04; a quarter of .46 on .09.
        assert!((std(0.25, &[0.6, 0.8]) - (0.09_f64 + 0.115).sqrt()).abs() < 1e-15);
        // One noisy instrument among exact ones counts by its share.
        assert!((std(1.0, &[0.6, 0.0, 0.0]) - (0.09_f64 + 0.08).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn nominal_noise_less_noise_no_measurement_and_no_gain_keep_the_bits() {
        for (noise_gain, noise) in [(0.25, &[0.2, 0.2][..]), (0.25, &[0.0, 0.1]), (0.25, &[]), (0.0, &[0.9])] {
            assert_eq!(std(noise_gain, noise), 0.3);
        }
    }

    #[test]
    fn factors_are_those_of_the_network_and_bad_numbers_are_refused() {
        let spread = NoiseAwareSpread::new(Arc::new(Fixed), 0.25, 0.0).unwrap();
        let (context, observations) = measured(&[0.5]);
        assert_eq!(spread.name(), "fixed");
        assert_eq!(spread.std_factor(&context, &observations), 1.25);
        assert_eq!(spread.interval_factors(&context, &observations), [0.5, 1.0, 2.0]);
        for (noise_gain, nominal) in [(-0.1, 0.0), (f64::NAN, 0.0), (0.1, f64::INFINITY), (0.1, -1.0)] {
            let error = NoiseAwareSpread::new(Arc::new(Fixed), noise_gain, nominal).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }
}
