//! From a predicted spread to intervals that hold what they promise: factors fitted on validation data.

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};

/// Probabilities of the central intervals that are calibrated.
pub const COVERAGE_LEVELS: [f64; 3] = [0.5, 0.8, 0.95];

/// Half widths of those intervals in standard deviations, of a normal distribution.
pub const NORMAL_INTERVALS: [f64; 3] = [0.674_489_750_196_081_7, 1.281_551_565_544_600_4, 1.959_963_984_540_054];

/// Mean distance of measured cells, in cells: `sqrt(num_valid / (num_measured + 1))`.
pub fn measurement_spacing(num_valid: usize, num_measured: usize) -> f64 {
    (num_valid as f64 / (num_measured as f64 + 1.0)).sqrt()
}

/// The factors at one density of measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationPoint {
    /// Where they were fitted: [`measurement_spacing`].
    pub spacing: f64,
    /// The predicted standard deviation is multiplied by this.
    pub std_factor: f64,
    /// Half widths of the central intervals of [`COVERAGE_LEVELS`], in calibrated standard deviations.
    pub interval_factors: [f64; 3],
}

impl CalibrationPoint {
    /// The factors under which the root mean square of error / std is 1 and the intervals hold their share of `ratios`,
    /// which are |error| / predicted std.
    ///
    /// # Errors
    /// `InvalidInput` for fewer than 20 ratios (the 95 % interval needs them) or a ratio that is not a number >= 0.
    pub fn fit(spacing: f64, mut ratios: Vec<f64>) -> Result<Self> {
        if ratios.len() < 20 {
            return Err(CalibrationError::TooFew { found: ratios.len() }.into());
        }
        if let Some(&ratio) = ratios.iter().find(|ratio| !(ratio.is_finite() && **ratio >= 0.0)) {
            return Err(CalibrationError::Ratio { ratio }.into());
        }
        ratios.sort_by(f64::total_cmp);
        let mean_square = ratios.iter().map(|ratio| ratio * ratio).sum::<f64>() / ratios.len() as f64;
        let std_factor = mean_square.sqrt();
        let interval_factors = COVERAGE_LEVELS.map(|level| {
            let rank = (level * ratios.len() as f64).ceil() as usize;
            ratios[rank.clamp(1, ratios.len()) - 1] / std_factor
        });
        Ok(Self { spacing, std_factor, interval_factors })
    }
}

/// Factors over densities of measurements, interpolated linearly in the logarithm of the spacing.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration(Vec<CalibrationPoint>);

impl Calibration {
    /// A table of at least one point.
    ///
    /// # Errors
    /// `InvalidInput` unless spacings increase strictly, all numbers are finite and > 0, and the intervals widen.
    pub fn new(points: Vec<CalibrationPoint>) -> Result<Self> {
        if points.is_empty() {
            return Err(CalibrationError::Empty.into());
        }
        for (at, point) in points.iter().enumerate() {
            let [half, four_fifths, most] = point.interval_factors;
            let numbers = [point.spacing, point.std_factor, half, four_fifths, most];
            let positive = numbers.iter().all(|number| number.is_finite() && *number > 0.0);
            let after = at == 0 || points[at - 1].spacing < point.spacing;
            if !(positive && after && half < four_fifths && four_fifths < most) {
                return Err(CalibrationError::Point { at, point: *point }.into());
            }
        }
        Ok(Self(points))
    }

    /// The table.
    pub fn points(&self) -> &[CalibrationPoint] {
        &self.0
    }

    /// The factors at a spacing; outside the table those of its nearest end.
    pub fn at(&self, spacing: f64) -> CalibrationPoint {
        let above = self.0.partition_point(|point| point.spacing < spacing);
        let (Some(lower), Some(upper)) = (above.checked_sub(1).map(|at| self.0[at]), self.0.get(above)) else {
            return CalibrationPoint { spacing, ..self.0[above.min(self.0.len() - 1)] };
        };
        let share = (spacing / lower.spacing).ln() / (upper.spacing / lower.spacing).ln();
        let between = |from: f64, to: f64| from + share * (to - from);
        CalibrationPoint {
            spacing,
            std_factor: between(lower.std_factor, upper.std_factor),
            interval_factors: std::array::from_fn(|level| {
                between(lower.interval_factors[level], upper.interval_factors[level])
            }),
        }
    }
}

#[derive(Debug, ThisError)]
enum CalibrationError {
    #[error("{found} errors are too few to calibrate on, 20 are needed")]
    TooFew { found: usize },
    #[error("a ratio of error to standard deviation is {ratio}, it must be finite and >= 0")]
    Ratio { ratio: f64 },
    #[error("a calibration needs at least one point")]
    Empty,
    #[error(
        "calibration point {at} is not allowed: {point:?}; spacings increase, numbers are finite and > 0, intervals widen"
    )]
    Point { at: usize, point: CalibrationPoint },
}

impl ErrorDetail for CalibrationError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::SeedTree;

    fn point(spacing: f64, std_factor: f64) -> CalibrationPoint {
        CalibrationPoint { spacing, std_factor, interval_factors: NORMAL_INTERVALS }
    }

    #[test]
    fn fit_finds_the_factors_of_normal_errors_that_are_three_times_too_large() {
        let mut stream = SeedTree::new(1).stream("errors");
        let ratios: Vec<f64> = (0..200_000).map(|_| 3.0 * stream.normal().abs()).collect();
        let fitted = CalibrationPoint::fit(5.0, ratios).unwrap();
        assert!((fitted.std_factor - 3.0).abs() < 0.02, "{fitted:?}");
        for (found, expected) in fitted.interval_factors.iter().zip(NORMAL_INTERVALS) {
            assert!((found - expected).abs() < 0.01, "{fitted:?}");
        }
    }

    #[test]
    fn fitted_intervals_hold_exactly_their_share_of_the_errors_they_were_fitted_to() {
        let ratios: Vec<f64> = (1..=100).map(f64::from).collect();
        let fitted = CalibrationPoint::fit(5.0, ratios.clone()).unwrap();
        for (level, factor) in COVERAGE_LEVELS.iter().zip(fitted.interval_factors) {
            let half_width = factor * fitted.std_factor + 1e-9;
            assert_eq!(ratios.iter().filter(|ratio| **ratio <= half_width).count() as f64, level * 100.0);
        }
    }

    #[test]
    fn factors_are_interpolated_in_the_logarithm_and_held_at_the_ends() {
        let table = Calibration::new(vec![point(4.0, 1.0), point(16.0, 3.0)]).unwrap();
        let factor = |spacing| table.at(spacing).std_factor;
        assert_eq!((factor(1.0), factor(4.0), factor(16.0), factor(99.0)), (1.0, 1.0, 3.0, 3.0));
        assert!((factor(8.0) - 2.0).abs() < 1e-12);
        assert_eq!(Calibration::new(vec![point(4.0, 2.0)]).unwrap().at(7.0).std_factor, 2.0);
    }

    #[test]
    fn bad_tables_and_ratios_are_refused() {
        let refused = |points| Calibration::new(points).unwrap_err().kind();
        assert_eq!(refused(vec![]), ErrorKind::InvalidInput);
        assert_eq!(refused(vec![point(4.0, 1.0), point(4.0, 1.0)]), ErrorKind::InvalidInput);
        assert_eq!(refused(vec![point(4.0, 0.0)]), ErrorKind::InvalidInput);
        let narrowing = CalibrationPoint { interval_factors: [1.0, 0.9, 2.0], ..point(4.0, 1.0) };
        assert_eq!(refused(vec![narrowing]), ErrorKind::InvalidInput);
        assert_eq!(CalibrationPoint::fit(4.0, vec![1.0; 19]).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(CalibrationPoint::fit(4.0, vec![f64::NAN; 40]).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
