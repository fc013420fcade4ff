//! The physical scale of the residual: Q_g says how the field varies from cell to cell, the measurements say by how much (G.14).

use thiserror::Error as ThisError;

use crate::drift::{CoefficientCholesky, Drift, dot};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::observations::{Observation, Observations};
use crate::posterior::{Posterior, ResidualFit};
use crate::precision::ResidualPrecision;

/// Fewest measurements that a scale is fitted to before the field is conditioned: below, a chi-square says less than a factor
/// of two about it.
pub(crate) const SCALE_FROM: usize = 16;

/// Most factorisations of a fit, that of the unit scale included.
const MAX_FITS: usize = 5;

/// Relative error of the scale that is small enough for any use of a std.
const TOLERANCE: f64 = 0.02;

/// Share of the noise in the chi-square up to which it is left at the unit scale: s, whose square it enters, is then within the
/// tolerance, and a value keeps all but that share of a noise which is itself that share of the residual.
const NEGLIGIBLE_SHARE: f64 = 2.0 * TOLERANCE;

/// A scale known to this part of its standard error is as good as one known exactly.
const ERROR_SHARE: f64 = 0.1;

/// Largest variance of the residual, in noise variances and whatever the direction, that counts as none: some thousand values
/// that share it see a thousandth of their noise.
const NO_SIGNAL: f64 = 1e-6;

/// How the scale was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleOutcome {
    /// Fewer than 16 measurements: the field is conditioned at the unit scale, as if noise were stated in its units.
    TooFew,
    /// The noise is nil against the residual; the field is conditioned at the unit scale, where it is nil too.
    NoiseNegligible,
    /// The chi-square of the measurements is what it should be, to 2 % of the scale or a tenth of its standard error.
    Matched,
    /// The noise alone explains what drift and prediction leave; the residual is all but 0.
    NoSignal,
    /// The last of five factorisations was not yet there; its scale is used as it is.
    FitCap,
}

/// The posterior of a field `prediction + F b + s z`, z ~ N(0, Q_g^-1), whose scale s is fitted to the measurements before it
/// is conditioned on them (G.14).
///
/// Q_g is stated up to a factor in most models, the noise of an instrument is not: at the unit scale a field of 1e-2 would be
/// drawn through every value, noise and all. s is where the chi-square of the measurements under s^2 H Q_g^-1 H' + R equals
/// their number less that of the drift's coefficients.
#[derive(Debug)]
pub struct ScaledPosterior {
    posterior: Posterior,
    scale: f64,
    outcome: ScaleOutcome,
    num_fits: usize,
}

impl ScaledPosterior {
    /// Fits the scale: one factorisation where noise is negligible, at most five.
    ///
    /// # Shapes
    /// * `prediction` - `num_nodes` values, only measured nodes are read
    ///
    /// # Errors
    /// Those of [`Posterior::with_drift`] and [`Posterior::innovation`]; `Unsupported` if coefficients of the drift have a prior,
    /// which would have to be stated in units of s.
    ///
    /// # Example
    /// Values of a flat field, alternately .09 too high and too low by noise of .1: the mean stays near 0, not at the values.
    /// ```
    /// use gpara::{
    ///     Conductances, Grid, MeanSolver, Observation, Observations, ResidualPrecision, ScaleOutcome, ScaledPosterior, ValidMask,
    /// };
    ///
    /// let valid = ValidMask::all(Grid::new(1, 40)?);
    /// let prior = ResidualPrecision::new(Conductances::from_logits(&[0.0; 160], &valid)?, 0.01, 1.0)?;
    /// let value = |node: usize| if node % 4 == 0 { 0.09 } else { -0.09 };
    /// let mut observations = Observations::none(valid.grid());
    /// for node in (0..40).step_by(2) {
    ///     observations.add(&valid, &[Observation { node, value: value(node), noise_std: 0.1 }])?;
    /// }
    /// let scaled = ScaledPosterior::fit(&prior, &observations, &[0.0; 40], None)?;
    /// assert_eq!(scaled.outcome(), ScaleOutcome::NoSignal);
    /// let (mean, _) = scaled.posterior().mean_correction(&[0.0; 40], MeanSolver::Exact)?;
    /// assert!(mean.iter().all(|value| value.abs() < 1e-3));
    /// # Ok::<(), gpara::Error>(())
    /// ```
    pub fn fit(
        prior: &ResidualPrecision,
        observations: &Observations,
        prediction: &[f64],
        drift: Option<&Drift>,
    ) -> Result<Self> {
        let model = Model { prior, observations, prediction, drift };
        model.check()?;
        let unit = model.at(1.0)?;
        let free = model.num_free();
        let without_noise = (unit.misfit / free).sqrt();
        let at_unit =
            |outcome, unit: Trial| Ok(Self { posterior: unit.posterior, scale: without_noise, outcome, num_fits: 1 });
        if observations.len() < SCALE_FROM {
            return at_unit(ScaleOutcome::TooFew, unit);
        }
        // In units of z the noise variance is R / s^2, and its share grows with it.
        if unit.noise_share <= NEGLIGIBLE_SHARE * without_noise * without_noise {
            return at_unit(ScaleOutcome::NoiseNegligible, unit);
        }
        let smallest = model.smallest_scale();
        if model.noise_misfit() <= free {
            let Trial { posterior, .. } = model.at(smallest)?;
            return Ok(Self { posterior, scale: smallest, outcome: ScaleOutcome::NoSignal, num_fits: 2 });
        }
        model.search(unit, (smallest.ln(), f64::INFINITY))
    }

    /// The posterior of z with noise / s: its mean correction is that of the field, its covariance times s^2 that of the field.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// [`posterior`](Self::posterior) by value.
    pub fn into_posterior(self) -> Posterior {
        self.posterior
    }

    /// s, the factor on the standard deviations of [`posterior`](Self::posterior).
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// How s was found.
    pub fn outcome(&self) -> ScaleOutcome {
        self.outcome
    }

    /// Factorisations made, 1 to 5.
    pub fn num_fits(&self) -> usize {
        self.num_fits
    }
}

/// What is fitted to the measurements.
struct Model<'a> {
    prior: &'a ResidualPrecision,
    observations: &'a Observations,
    prediction: &'a [f64],
    drift: Option<&'a Drift>,
}

/// The posterior at one scale.
struct Trial {
    posterior: Posterior,
    /// In units of z.
    misfit: f64,
    /// w' R w / (v' w) with w = K^-1 v: the part of the chi-square that is noise.
    noise_share: f64,
}

impl Model<'_> {
    fn check(&self) -> Result<()> {
        match self.drift {
            Some(drift) if drift.num_flat() < drift.columns().len() => Err(ScaleError.into()),
            _ => Ok(()),
        }
    }

    /// Conditions z on the values with noise / scale.
    fn at(&self, scale: f64) -> Result<Trial> {
        let observations = self.observations.with_noise_over(scale);
        let posterior = match self.drift {
            Some(drift) => Posterior::with_drift(self.prior, &observations, drift)?,
            None => Posterior::new(self.prior, &observations)?,
        };
        let ResidualFit { weights, misfit, .. } = posterior.residual_fit(self.prediction)?;
        let of_noise: f64 =
            weights.iter().zip(observations.iter()).map(|(weight, entry)| (weight * entry.noise_std).powi(2)).sum();
        let noise_share = if misfit > 0.0 { (of_noise / misfit).min(1.0) } else { 0.0 };
        Ok(Trial { posterior, misfit, noise_share })
    }

    /// Newton steps in log s inside a bracket of it.
    fn search(&self, unit: Trial, (mut lower, mut upper): (f64, f64)) -> Result<ScaledPosterior> {
        let (free, mut log_scale, mut trial) = (self.num_free(), 0.0_f64, unit);
        let mut num_fits = 1;
        loop {
            let excess = (trial.misfit / free).ln() - 2.0 * log_scale;
            let (step, slope) = newton_step(excess, trial.noise_share);
            let standard_error = (2.0 / free).sqrt() / slope;
            let matched = step.abs() <= TOLERANCE.max(ERROR_SHARE * standard_error);
            if matched || num_fits == MAX_FITS {
                let outcome = if matched { ScaleOutcome::Matched } else { ScaleOutcome::FitCap };
                return Ok(ScaledPosterior { posterior: trial.posterior, scale: log_scale.exp(), outcome, num_fits });
            }
            *if excess > 0.0 { &mut lower } else { &mut upper } = log_scale;
            let next = log_scale + step;
            log_scale = if lower < next && next < upper { next } else { 0.5 * (lower + upper) };
            // The arenas of one factorisation serve the next.
            drop(trial);
            trial = self.at(log_scale.exp())?;
            num_fits += 1;
        }
    }

    /// The number of values less that of the flat coefficients; 1 where nothing is left.
    fn num_free(&self) -> f64 {
        let num_flat = self.drift.map_or(0, Drift::num_flat);
        self.observations.len().saturating_sub(num_flat).max(1) as f64
    }

    /// The scale at which no direction of the residual has more than a negligible part of the noise's variance.
    fn smallest_scale(&self) -> f64 {
        let noisy = self.observations.iter().filter(|entry| !entry.is_exact());
        let noise = noisy.map(|entry| entry.noise_std).fold(f64::INFINITY, f64::min);
        noise * (NO_SIGNAL * self.prior.smallest_eigenvalue_bound()).sqrt()
    }

    /// The chi-square of the values about prediction and drift, by noise alone; infinite if some have none.
    fn noise_misfit(&self) -> f64 {
        if self.observations.iter().any(Observation::is_exact) {
            return f64::INFINITY;
        }
        let whitened = |value: &dyn Fn(&Observation) -> f64| -> Vec<f64> {
            self.observations.iter().map(|entry| value(entry) / entry.noise_std).collect()
        };
        let values = whitened(&|entry| entry.value - self.prediction[entry.node]);
        let columns: Vec<Vec<f64>> = match self.drift {
            Some(drift) => drift.columns().iter().map(|column| whitened(&|entry| column[entry.node])).collect(),
            None => Vec::new(),
        };
        let gram: Vec<f64> = columns.iter().flat_map(|left| columns.iter().map(|right| dot(left, right))).collect();
        // Columns that rounding cannot tell apart explain nothing: the search finds the scale then.
        let Ok(root) = CoefficientCholesky::new(&gram, columns.len()) else { return f64::INFINITY };
        let projections: Vec<f64> = columns.iter().map(|column| dot(column, &values)).collect();
        dot(&values, &values) - dot(&projections, &root.solve(&projections))
    }
}

/// The step in log s towards chi-square = free, and minus the slope of log chi-square there.
///
/// d log chi^2 / d log s = -2 (1 - noise share), exactly (G.14). Newton's step of log chi^2 is exact without noise, that of
/// chi^2 nearly so where noise is all but everything; a mixture by the share is good at both ends. The slope is nowhere below
/// -2, so excess / 2 never goes too far; steps beyond that end at a factor of e^2.
fn newton_step(excess: f64, noise_share: f64) -> (f64, f64) {
    const LONGEST: f64 = 2.0;
    let slope = (2.0 * (1.0 - noise_share)).max(f64::MIN_POSITIVE);
    let step = ((1.0 - noise_share) * excess + noise_share * (1.0 - (-excess).exp())) / slope;
    let longest = LONGEST.max(0.5 * excess.abs());
    (step.clamp(-longest, longest), slope)
}

#[derive(Debug, ThisError)]
#[error("the scale of a residual is fitted beside drift coefficients without a prior only")]
struct ScaleError;

impl ErrorDetail for ScaleError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Unsupported
    }

    fn hint(&self) -> Option<String> {
        Some("make the drift by `Drift::flat`".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Conductances;
    use crate::grid::{Grid, ValidMask};

    /// 20 values of a 6 x 7 field, noise of .05 to .3, one without.
    fn with_model(check: impl Fn(&Model<'_>)) {
        let valid = ValidMask::all(Grid::new(6, 7).unwrap());
        let graph = Conductances::from_logits(&[0.0; 168], &valid).unwrap();
        let prior = ResidualPrecision::second_order(graph, 0.01, 1.0, 0.2).unwrap();
        let mut observations = Observations::none(valid.grid());
        let rows: Vec<Observation> = (0..20)
            .map(|k| {
                let noise_std = if k == 3 { 0.0 } else { 0.05 + 0.013 * f64::from(k) };
                Observation { node: 2 * k as usize, value: (f64::from(k) * 1.7).sin(), noise_std }
            })
            .collect();
        observations.add(&valid, &rows).unwrap();
        let drift = Drift::constant(valid.grid());
        for drift in [None, Some(&drift)] {
            check(&Model { prior: &prior, observations: &observations, prediction: &[0.1; 42], drift });
        }
    }

    #[test]
    fn theory_noise_share_is_the_slope_of_the_chi_square_g14() {
        with_model(|model| {
            for log_scale in [-4.0_f64, -2.0, -0.5, 0.0, 1.0, 3.0] {
                let at = |log_scale: f64| (model.at(log_scale.exp()).unwrap().misfit.ln()) - 2.0 * log_scale;
                let slope = (at(log_scale + 1e-4) - at(log_scale - 1e-4)) / 2e-4;
                let share = model.at(log_scale.exp()).unwrap().noise_share;
                assert!((slope + 2.0 * (1.0 - share)).abs() < 1e-6, "{log_scale}: {slope}, share {share}");
                assert!((0.0..=1.0).contains(&share));
            }
        });
    }

    #[test]
    fn step_is_newtons_at_both_ends_and_bounded() {
        assert_eq!(newton_step(-9.0, 0.0), (-4.5, 2.0));
        let (step, slope) = newton_step(1e-3, 1.0 - 1e-2);
        assert!((step * slope - 1e-3).abs() < 1e-6, "{step}");
        assert_eq!(newton_step(1.0, 1.0).0, 2.0);
        assert_eq!(newton_step(-1.0, 1.0).0, -2.0);
    }

    #[test]
    fn noise_misfit_is_that_of_the_smallest_scale_and_infinite_beside_an_exact_value() {
        with_model(|model| {
            assert_eq!(model.noise_misfit(), f64::INFINITY);
            let noisy: Vec<Observation> =
                model.observations.iter().copied().filter(|entry| !entry.is_exact()).collect();
            let mut observations = Observations::none(model.prior.grid());
            observations.add(&ValidMask::all(model.prior.grid()), &noisy).unwrap();
            let model = Model { observations: &observations, ..*model };
            let smallest = model.smallest_scale();
            let expected = model.at(smallest).unwrap().misfit / (smallest * smallest);
            assert!((model.noise_misfit() / expected - 1.0).abs() < 1e-4, "{} {expected}", model.noise_misfit());
        });
    }
}
