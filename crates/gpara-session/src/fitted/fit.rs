//! The covariance that the measurements speak for: most probable under the likelihood and wide priors.

use gpara::{Grid, NORMAL_INTERVALS, Observations, ValidMask};

use super::design::Design;
use super::intervals::{interval_factors, reference_stds};
use super::is_large;
use super::likelihood::{Covariance, Likelihood};
use super::matern::Shape;
use super::robust::{Robust, inflated_noise};
use super::search::highest;

/// What was fitted to the measurements.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fit {
    /// The family of the covariance.
    pub(crate) shape: Shape,
    pub(crate) covariance: Covariance,
    /// Noise variance of each measurement, larger than it was told where a robust fit takes it for an outlier.
    pub(crate) noise_variance: Vec<f64>,
    /// The drift's coefficients.
    pub(crate) coefficients: Vec<f64>,
    /// Half widths of the intervals of [`gpara::COVERAGE_LEVELS`] in predicted standard deviations.
    pub(crate) interval_factors: [f64; 3],
    /// Cells with the standard deviation under which these intervals hold.
    pub(crate) interval_references: Vec<(usize, f64)>,
}

/// Prior of each logarithm: a normal density around the typical value of its scale.
#[derive(Debug, Clone, Copy)]
struct Prior {
    center: f64,
    width: f64,
    lowest: f64,
    highest: f64,
}

/// Spread of a field of which nothing is known, normalised: two of them reach from the middle to the end of the range.
pub(super) const UNKNOWN_STD: f64 = 0.5;

/// Number of imagined values of that spread.
const IMAGINED: f64 = 3.0;

/// The shortest range in cells that a grid can hold.
const SHORTEST_RANGE: f64 = 2.5;

/// Measurements from which on they are asked which family of covariances they speak for.
const FEWEST_FOR_SHAPE: usize = 30;

/// Log prior odds against the smooth family.
const SMOOTH_PENALTY: f64 = 0.5;

/// How often a robust fit weighs its measurements anew.
const ROBUST_ROUNDS: usize = 3;

/// The spread of values around their mean, with a few imagined ones of the spread that is expected among them.
pub(super) fn spread(observations: &Observations, expected: f64) -> f64 {
    let count = observations.len() as f64;
    let mean = observations.iter().map(|entry| entry.value).sum::<f64>() / count.max(1.0);
    let squares: f64 = observations.iter().map(|entry| (entry.value - mean).powi(2)).sum();
    let imagined = IMAGINED * expected * expected;
    ((squares + imagined) / ((count - 1.0).max(0.0) + IMAGINED)).sqrt()
}

/// Fits range, spread and nugget, and with `robust` the noise of outliers.
///
/// # Shapes
/// * `valid` - the cells that are to be predicted
/// * `drift` - the columns of the drift and the prior precision of each coefficient
/// * `scale` - the spread that the field is expected to have
pub(super) fn fit(
    observations: &Observations,
    valid: &ValidMask,
    drift: (&[Vec<f64>], &[f64]),
    scale: f64,
    robust: Option<Robust>,
) -> Fit {
    let grid = observations.grid();
    let design = Design::new(observations);
    let told: Vec<f64> = observations.iter().map(|entry| entry.noise_std.powi(2)).collect();
    let priors = priors(grid, scale);
    let fit_with = |shape: Shape, noise: Vec<f64>| {
        let likelihood = Likelihood::new(shape, &design, observations, &noise, drift);
        let (covariance, log_posterior) = most_probable(&likelihood, &priors);
        let coefficients = likelihood.coefficients(&covariance);
        let (interval_factors, interval_references) = (NORMAL_INTERVALS, Vec::new());
        (
            Fit { shape, covariance, coefficients, noise_variance: noise, interval_factors, interval_references },
            log_posterior,
        )
    };
    let (mut fit, log_posterior) = fit_with(Shape::of(grid), told.clone());
    let tells_shapes = observations.len() >= FEWEST_FOR_SHAPE && !is_large(grid);
    if fit.shape == Shape::Surface && tells_shapes {
        let (smooth, of_smooth) = fit_with(Shape::SmoothSurface, told.clone());
        if of_smooth - SMOOTH_PENALTY > log_posterior {
            fit = smooth;
        }
    }
    if let Some(robust) = robust {
        for _ in 0..ROBUST_ROUNDS {
            let noise = inflated_noise(robust, observations, &told, &fit, drift.0);
            fit = fit_with(fit.shape, noise).0;
        }
    }
    fit.interval_factors = interval_factors(observations, valid, &fit, drift.0);
    if fit.interval_factors != NORMAL_INTERVALS && !is_large(grid) {
        fit.interval_references = reference_stds(observations, valid, &fit);
    }
    fit
}

/// Priors of log range, log spread and log nugget.
fn priors(grid: Grid, scale: f64) -> [Prior; 3] {
    let diagonal = (grid.rows() as f64).hypot(grid.cols() as f64);
    let around = |center: f64, width: f64, lowest: f64, highest: f64| {
        let center = center.clamp(lowest, highest).ln();
        Prior { center, width, lowest: lowest.ln(), highest: highest.ln() }
    };
    [
        around(0.3 * diagonal, 1.5, SHORTEST_RANGE, (2.0 * diagonal).max(2.0 * SHORTEST_RANGE)),
        around(scale, 1.0, 0.02 * scale, 20.0 * scale),
        around(0.1 * scale, 1.5, 1e-3 * scale, 2.0 * scale),
    ]
}

/// The most probable covariance and the logarithm of its density, up to a constant.
fn most_probable(likelihood: &Likelihood<'_>, priors: &[Prior; 3]) -> (Covariance, f64) {
    let inside =
        |point: &[f64]| -> [f64; 3] { std::array::from_fn(|k| point[k].clamp(priors[k].lowest, priors[k].highest)) };
    let covariance = |point: &[f64]| {
        let [range, std, nugget_std] = inside(point).map(f64::exp);
        Covariance { range, std, nugget_std }
    };
    let log_posterior = |point: &[f64]| {
        // Beyond the bounds the likelihood is that at the bound, and the prior still falls.
        let log_prior: f64 =
            point.iter().zip(priors).map(|(value, prior)| -0.5 * ((value - prior.center) / prior.width).powi(2)).sum();
        log_prior + likelihood.log_density(&covariance(point))
    };
    // The likelihood may have two tops, one where the nugget explains all: the best of a coarse net begins.
    let mut start = (f64::NEG_INFINITY, priors.map(|prior| prior.center));
    for range in [-1.6, -0.8, 0.0, 0.8] {
        for nugget in [-1.0, 0.8, 1.8] {
            let point = [priors[0].center + range, priors[1].center, priors[2].center + nugget];
            let point = inside(&point);
            let value = log_posterior(&point);
            if value > start.0 {
                start = (value, point);
            }
        }
    }
    let (point, value) = highest(log_posterior, &start.1, 0.4, 90, 2e-3);
    (covariance(&point), value)
}
