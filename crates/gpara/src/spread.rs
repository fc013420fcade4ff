//! The seam to a network that knows how wrong a mean estimate is, cell by cell.

use std::sync::Arc;

use thiserror::Error as ThisError;

use crate::calibration::NORMAL_INTERVALS;
use crate::context::Context;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::layout::squared_distance;
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

/// A spread network that knows the errors of one instrument, told of the noise of others (Eq. G.20):
///
/// ```text
/// s'_i^2 = s_i^2 + gamma max(0, sigma_k^2 - sigma_0^2),   k the measurement nearest to i
/// ```
///
/// The networks neither see the noise nor were trained with it. An estimate that follows noisy measurements has their noise in it, less
/// what neighbours average out of it: `gamma` of the variance of the one nearby, on top of what the network states for an instrument of
/// `sigma_0`.
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

    /// The variance that the noise of these measurements adds in each cell; `None` where there is no more of it than the network knows.
    fn added_variance(&self, observations: &Observations) -> Option<Vec<f64>> {
        let grid = observations.grid();
        let nominal = self.nominal_noise_std.powi(2);
        let added = |noise_std: f64| self.noise_gain * (noise_std.powi(2) - nominal).max(0.0);
        let noisy: Vec<((usize, usize), f64)> =
            observations.iter().map(|entry| (grid.row_col(entry.node), added(entry.noise_std))).collect();
        let &(_, first) = noisy.first()?;
        if noisy.iter().all(|&(_, added)| added == first) {
            return (first > 0.0).then(|| vec![first; grid.num_nodes()]);
        }
        let nearest = |node: usize| {
            let cell = grid.row_col(node);
            // Of measurements as near, the noisiest: their order must not decide.
            let nearer = |one: &&((usize, usize), f64), other: &&((usize, usize), f64)| {
                let distance = squared_distance(cell, one.0).cmp(&squared_distance(cell, other.0));
                distance.then(other.1.total_cmp(&one.1))
            };
            noisy.iter().min_by(nearer).expect("there is a first one").1
        };
        Some((0..grid.num_nodes()).map(nearest).collect())
    }
}

impl SpreadPredictor for NoiseAwareSpread {
    fn name(&self) -> &str {
        self.network.name()
    }

    fn predict_std(&self, context: &Context, observations: &Observations, mean: &[f64]) -> Result<Vec<f64>> {
        let mut std = self.network.predict_std(context, observations, mean)?;
        // Squares and roots of unchanged values would move their last digit.
        if let Some(added) = self.added_variance(observations) {
            let cells = std.iter_mut().zip(added).filter(|(_, added)| *added > 0.0);
            cells.for_each(|(std, added)| *std = std.hypot(added.sqrt()));
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

    /// Measurements of the given noise at nodes of a grid without a mask.
    fn measured(grid: Grid, noise: &[(usize, f64)]) -> (Context, Observations) {
        let context = Context::empty(grid);
        let mut observations = Observations::none(grid);
        let all = noise.iter().map(|&(node, noise_std)| Observation { node, value: 0.1, noise_std });
        observations.add(context.valid(), &all.collect::<Vec<_>>()).unwrap();
        (context, observations)
    }

    /// The std under a nominal noise of .2.
    fn std(noise_gain: f64, rows: usize, cols: usize, noise: &[(usize, f64)]) -> Vec<f64> {
        let spread = NoiseAwareSpread::new(Arc::new(Fixed), noise_gain, 0.2).unwrap();
        let (context, observations) = measured(Grid::new(rows, cols).unwrap(), noise);
        spread.predict_std(&context, &observations, &vec![0.0; rows * cols]).unwrap()
    }

    #[test]
    fn variance_beyond_the_nominal_noise_is_added_by_its_gain_g20() {
        // A quarter of .36 - .04 on .09.
        let expected = (0.09_f64 + 0.08).sqrt();
        let found = std(0.25, 4, 5, &[(0, 0.6), (1, 0.6)]);
        assert!(found.iter().all(|std| (std - expected).abs() < 1e-15), "{found:?}");
    }

    #[test]
    fn noise_counts_where_its_measurement_is_the_nearest_g20() {
        // Three measurements in the first of four rows; what is nearest to a cell depends on its column alone.
        let found = std(0.25, 4, 5, &[(0, 0.6), (3, 1.0), (4, 0.1)]);
        let (less, more) = ((0.09_f64 + 0.08).sqrt(), (0.09_f64 + 0.24).sqrt());
        for row in found.chunks(5) {
            for (std, expected) in row.iter().zip([less, less, more, more, 0.3]) {
                assert!((std - expected).abs() < 1e-15, "{found:?}");
            }
        }
        // Half way between two measurements the noisier one counts.
        for (first, second) in [(0.6, 1.0), (1.0, 0.6)] {
            assert!((std(0.25, 1, 3, &[(0, first), (2, second)])[1] - more).abs() < 1e-15);
        }
    }

    #[test]
    fn nominal_noise_less_noise_no_measurement_and_no_gain_keep_the_bits() {
        let nominal: Vec<(usize, f64)> = (0..19).map(|node| (node, 0.2)).collect();
        for (noise_gain, noise) in
            [(0.25, &nominal[..]), (0.25, &[(0, 0.0), (1, 0.1)]), (0.25, &[]), (0.0, &[(0, 0.9)])]
        {
            assert_eq!(std(noise_gain, 4, 5, noise), [0.3; 20]);
        }
        // A rounded mean of so many equal variances would differ from one of them.
        let many: Vec<(usize, f64)> = (0..491).map(|node| (node, 2e-3)).collect();
        let (context, observations) = measured(Grid::new(20, 30).unwrap(), &many);
        let spread = NoiseAwareSpread::new(Arc::new(Fixed), 0.25, 2e-3).unwrap();
        assert_eq!(spread.predict_std(&context, &observations, &[0.0; 600]).unwrap(), [0.3; 600]);
    }

    #[test]
    fn factors_are_those_of_the_network_and_bad_numbers_are_refused() {
        let spread = NoiseAwareSpread::new(Arc::new(Fixed), 0.25, 0.0).unwrap();
        let (context, observations) = measured(Grid::new(4, 5).unwrap(), &[(0, 0.5)]);
        assert_eq!(spread.name(), "fixed");
        assert_eq!(spread.std_factor(&context, &observations), 1.25);
        assert_eq!(spread.interval_factors(&context, &observations), [0.5, 1.0, 2.0]);
        for (noise_gain, nominal) in [(-0.1, 0.0), (f64::NAN, 0.0), (0.1, f64::INFINITY), (0.1, -1.0)] {
            let error = NoiseAwareSpread::new(Arc::new(Fixed), noise_gain, nominal).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }
}
