//! From a predicted spread to intervals that hold what they promise: factors fitted on validation data.

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::ValidMask;
use crate::layout::MeasurementLayout;
use crate::observations::Observations;

/// Probabilities of the central intervals that are calibrated.
pub const COVERAGE_LEVELS: [f64; 3] = [0.5, 0.8, 0.95];

/// Half widths of those intervals in standard deviations, of a normal distribution.
pub const NORMAL_INTERVALS: [f64; 3] = [0.674_489_750_196_081_7, 1.281_551_565_544_600_4, 1.959_963_984_540_054];

/// The factors at one layout of measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationPoint {
    /// Where they were fitted.
    pub layout: MeasurementLayout,
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
    pub fn fit(layout: MeasurementLayout, mut ratios: Vec<f64>) -> Result<Self> {
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
        Ok(Self { layout, std_factor, interval_factors })
    }
}

/// The factors of one kind of layout, by increasing spacing.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationCurve {
    /// The policy that chose such points, where it has a name: [`Observations::chosen_by`](crate::Observations::chosen_by).
    pub chosen_by: Option<String>,
    /// The factors.
    pub points: Vec<CalibrationPoint>,
}

/// Factors over layouts of measurements: one curve over densities for each kind of layout they were fitted on, such as random points
/// and points that a policy chose.
///
/// Points of a policy that has a curve take that curve, all others what lies between the curves.
///
/// A curve is interpolated linearly in the logarithm of the spacing; between the curves, ordered by their dispersion there, factors
/// are interpolated linearly in the dispersion. Outside they are those of the nearest end.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration(Vec<CalibrationCurve>);

impl Calibration {
    /// A table of at least one curve of at least one point.
    ///
    /// # Errors
    /// `InvalidInput` unless the spacings of each curve increase strictly, all numbers are finite and > 0, and the intervals widen.
    pub fn new(curves: Vec<CalibrationCurve>) -> Result<Self> {
        if curves.is_empty() || curves.iter().any(|curve| curve.points.is_empty()) {
            return Err(CalibrationError::Empty.into());
        }
        for CalibrationCurve { points, .. } in &curves {
            for (at, point) in points.iter().enumerate() {
                let [half, four_fifths, most] = point.interval_factors;
                let MeasurementLayout { spacing, dispersion } = point.layout;
                let numbers = [spacing, dispersion, point.std_factor, half, four_fifths, most];
                let positive = numbers.iter().all(|number| number.is_finite() && *number > 0.0);
                let after = at == 0 || points[at - 1].layout.spacing < spacing;
                if !(positive && after && half < four_fifths && four_fifths < most) {
                    return Err(CalibrationError::Point { at, point: *point }.into());
                }
            }
        }
        Ok(Self(curves))
    }

    /// The curves.
    pub fn curves(&self) -> &[CalibrationCurve] {
        &self.0
    }

    /// The factors for these measurements among the valid cells.
    pub fn of(&self, valid: &ValidMask, observations: &Observations) -> CalibrationPoint {
        self.at(MeasurementLayout::of(valid, observations), observations.chosen_by())
    }

    /// The factors at a layout, by the curve of its policy if there is one.
    pub fn at(&self, layout: MeasurementLayout, chosen_by: Option<&str>) -> CalibrationPoint {
        let own = self.0.iter().find(|curve| chosen_by.is_some() && curve.chosen_by.as_deref() == chosen_by);
        if let Some(curve) = own {
            return CalibrationPoint { layout, ..along(&curve.points, layout.spacing) };
        }
        let mut across: Vec<CalibrationPoint> =
            self.0.iter().map(|curve| along(&curve.points, layout.spacing)).collect();
        across.sort_by(|first, second| first.layout.dispersion.total_cmp(&second.layout.dispersion));
        let found = between(&across, layout.dispersion, |point| point.layout.dispersion);
        CalibrationPoint { layout, ..found }
    }
}

/// The factors, and the dispersion, of one curve at a spacing.
fn along(curve: &[CalibrationPoint], spacing: f64) -> CalibrationPoint {
    between(curve, spacing.ln(), |point| point.layout.spacing.ln())
}

/// Linear interpolation over points whose `coordinate` does not fall, held at the ends.
fn between(points: &[CalibrationPoint], at: f64, coordinate: impl Fn(&CalibrationPoint) -> f64) -> CalibrationPoint {
    let above = points.partition_point(|point| coordinate(point) < at);
    let (Some(lower), Some(upper)) = (above.checked_sub(1).map(|before| points[before]), points.get(above)) else {
        return points[above.min(points.len() - 1)];
    };
    let share = (at - coordinate(&lower)) / (coordinate(upper) - coordinate(&lower));
    let mix = |from: f64, to: f64| from + share * (to - from);
    CalibrationPoint {
        layout: MeasurementLayout {
            spacing: mix(lower.layout.spacing, upper.layout.spacing),
            dispersion: mix(lower.layout.dispersion, upper.layout.dispersion),
        },
        std_factor: mix(lower.std_factor, upper.std_factor),
        interval_factors: std::array::from_fn(|level| {
            mix(lower.interval_factors[level], upper.interval_factors[level])
        }),
    }
}

#[derive(Debug, ThisError)]
enum CalibrationError {
    #[error("{found} errors are too few to calibrate on, 20 are needed")]
    TooFew { found: usize },
    #[error("a ratio of error to standard deviation is {ratio}, it must be finite and >= 0")]
    Ratio { ratio: f64 },
    #[error("a calibration needs at least one point a layout")]
    Empty,
    #[error(
        "calibration point {at} is not allowed: {point:?}; spacings of a layout increase, numbers are finite and > 0, intervals widen"
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

    fn layout(spacing: f64, dispersion: f64) -> MeasurementLayout {
        MeasurementLayout { spacing, dispersion }
    }

    fn curve(points: Vec<CalibrationPoint>) -> CalibrationCurve {
        CalibrationCurve { chosen_by: None, points }
    }

    fn point(spacing: f64, std_factor: f64) -> CalibrationPoint {
        CalibrationPoint { layout: layout(spacing, 0.5), std_factor, interval_factors: NORMAL_INTERVALS }
    }

    #[test]
    fn fit_finds_the_factors_of_normal_errors_that_are_three_times_too_large() {
        let mut stream = SeedTree::new(1).stream("errors");
        let ratios: Vec<f64> = (0..200_000).map(|_| 3.0 * stream.normal().abs()).collect();
        let fitted = CalibrationPoint::fit(layout(5.0, 0.5), ratios).unwrap();
        assert!((fitted.std_factor - 3.0).abs() < 0.02, "{fitted:?}");
        for (found, expected) in fitted.interval_factors.iter().zip(NORMAL_INTERVALS) {
            assert!((found - expected).abs() < 0.01, "{fitted:?}");
        }
    }

    #[test]
    fn fitted_intervals_hold_exactly_their_share_of_the_errors_they_were_fitted_to() {
        let ratios: Vec<f64> = (1..=100).map(f64::from).collect();
        let fitted = CalibrationPoint::fit(layout(5.0, 0.5), ratios.clone()).unwrap();
        for (level, factor) in COVERAGE_LEVELS.iter().zip(fitted.interval_factors) {
            let half_width = factor * fitted.std_factor + 1e-9;
            assert_eq!(ratios.iter().filter(|ratio| **ratio <= half_width).count() as f64, level * 100.0);
        }
    }

    #[test]
    fn factors_are_interpolated_in_the_logarithm_and_held_at_the_ends() {
        let table = Calibration::new(vec![curve(vec![point(4.0, 1.0), point(16.0, 3.0)])]).unwrap();
        let factor = |spacing| table.at(layout(spacing, 0.9), None).std_factor;
        assert_eq!((factor(1.0), factor(4.0), factor(16.0), factor(99.0)), (1.0, 1.0, 3.0, 3.0));
        assert!((factor(8.0) - 2.0).abs() < 1e-12);
        assert_eq!(
            Calibration::new(vec![curve(vec![point(4.0, 2.0)])]).unwrap().at(layout(7.0, 0.1), None).std_factor,
            2.0
        );
    }

    #[test]
    fn between_two_kinds_of_layout_factors_follow_the_dispersion() {
        let crowded =
            |spacing, std_factor| CalibrationPoint { layout: layout(spacing, 0.7), ..point(spacing, std_factor) };
        // Given out of order; at spacing 8, half way of both curves, they have 2 at .5 and 4 at .7.
        let curves =
            vec![curve(vec![crowded(4.0, 3.0), crowded(16.0, 5.0)]), curve(vec![point(4.0, 1.0), point(16.0, 3.0)])];
        let table = Calibration::new(curves).unwrap();
        let factor = |dispersion| table.at(layout(8.0, dispersion), None).std_factor;
        for (dispersion, expected) in [(0.3, 2.0), (0.5, 2.0), (0.55, 2.5), (0.6, 3.0), (0.7, 4.0), (1.5, 4.0)] {
            assert!((factor(dispersion) - expected).abs() < 1e-12, "{dispersion}: {}", factor(dispersion));
        }
        assert_eq!(table.at(layout(8.0, 0.6), None).layout, layout(8.0, 0.6));
    }

    #[test]
    fn points_of_a_policy_take_its_curve_whatever_their_dispersion() {
        let named = |name: &str, std_factor| CalibrationCurve {
            chosen_by: Some(name.into()),
            points: vec![CalibrationPoint { layout: layout(4.0, std_factor), ..point(4.0, std_factor) }],
        };
        let table = Calibration::new(vec![named("random", 1.0), named("gpara", 3.0)]).unwrap();
        let factor = |chosen_by| table.at(layout(4.0, 2.0), chosen_by).std_factor;
        assert_eq!((factor(Some("gpara")), factor(Some("random"))), (3.0, 1.0));
        assert_eq!((factor(Some("sobol")), factor(None)), (2.0, 2.0));
    }

    #[test]
    fn curves_that_meet_give_one_of_them() {
        let curves = vec![curve(vec![point(4.0, 1.0)]), curve(vec![point(4.0, 3.0)])];
        let factor = Calibration::new(curves).unwrap().at(layout(4.0, 0.5), None).std_factor;
        assert!((1.0..=3.0).contains(&factor));
    }

    #[test]
    fn bad_tables_and_ratios_are_refused() {
        let refused = |points| Calibration::new(vec![curve(points)]).unwrap_err().kind();
        assert_eq!(Calibration::new(vec![]).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(refused(vec![]), ErrorKind::InvalidInput);
        assert_eq!(refused(vec![point(4.0, 1.0), point(4.0, 1.0)]), ErrorKind::InvalidInput);
        assert_eq!(refused(vec![point(4.0, 0.0)]), ErrorKind::InvalidInput);
        let narrowing = CalibrationPoint { interval_factors: [1.0, 0.9, 2.0], ..point(4.0, 1.0) };
        assert_eq!(refused(vec![narrowing]), ErrorKind::InvalidInput);
        assert_eq!(CalibrationPoint::fit(layout(4.0, 0.5), vec![1.0; 19]).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(
            CalibrationPoint::fit(layout(4.0, 0.5), vec![f64::NAN; 40]).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
}
