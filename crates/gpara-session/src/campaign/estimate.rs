//! The whole field from what was told.

use std::time::Instant;

use gpara::{Drift, Posterior, PriorEnsemble, Result};

use super::Campaign;
use crate::leave_one_out::{LeftOut, leave_one_out};
use crate::method::{FieldModel, Method};
use crate::store::ReconstructionRecord;

/// The field in the session's unit, `num_nodes` values each; invalid cells are NaN.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: Vec<f64>,
    /// The standard deviation of its error; `None` as long as there is no basis for one.
    pub std: Option<Vec<f64>>,
    /// Samples of the field, as many as were wanted.
    pub samples: Vec<Vec<f64>>,
    /// Half widths of the 50, 80 and 95 % intervals around the mean, in its standard deviation.
    pub interval_factors: [f64; 3],
    /// Cells measured.
    pub num_observed: usize,
    /// The measured cell with the largest |estimate - value|; `None` without measurements.
    pub largest_misfit: Option<Misfit>,
    /// What the method fitted to the measurements, `(name, value)`: lengths in cells, spreads in the unit.
    pub parameters: Vec<(&'static str, f64)>,
    /// Measured cells whose values a robust fit takes for outliers, `(row, col)`.
    pub outliers: Vec<(usize, usize)>,
    /// Network evaluations made.
    pub network_calls: u64,
    /// How long it took.
    pub seconds: f64,
}

/// What is left between the estimate and a measured value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Misfit {
    /// Row of the cell.
    pub row: usize,
    /// Column of the cell.
    pub col: usize,
    /// |estimate - value| in the unit.
    pub size: f64,
}

impl Campaign {
    /// The field as well as the method can tell. With `hard_consistency` measured cells take their (merged) value.
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare) and of the method; `Unsupported` if it makes no samples and some are wanted.
    pub fn estimate(&mut self, method: &dyn Method, num_samples: usize, hard_consistency: bool) -> Result<Estimate> {
        let started = Instant::now();
        self.prepare(method)?;
        if num_samples > 0 {
            self.draw(method)?;
        }
        let state = self.state()?;
        let context = self.scene.context()?;
        let model = self.model(method, &state)?;
        let made = method.reconstruct(&self.reconstruction_input(context, &model), &model, num_samples)?;
        let (grid, scale) = (self.scene.grid(), &self.settings.scale);
        let mut mean = self.in_unit(&made.mean);
        if hard_consistency {
            state.observations.iter().for_each(|entry| mean[entry.node] = scale.value(entry.value));
        }
        let at_references: Vec<f64> = match &made.std {
            Some(std) => model.interval_references.iter().map(|&(node, _)| std[node]).collect(),
            None => Vec::new(),
        };
        let misfits = state.observations.iter().map(|entry| {
            let (row, col) = grid.row_col(entry.node);
            Misfit { row, col, size: (mean[entry.node] - scale.value(entry.value)).abs() }
        });
        let largest_misfit = misfits.max_by(|first, second| first.size.total_cmp(&second.size));
        let samples = match &made.samples {
            Some(samples) if num_samples > 0 => {
                samples.iter().take(num_samples).map(|sample| self.in_unit(sample)).collect()
            }
            _ => Vec::new(),
        };
        Ok(Estimate {
            mean,
            std: made.std.as_deref().map(|std| self.spread_in_unit(std)),
            samples,
            interval_factors: model.intervals_in(&at_references),
            num_observed: state.observations.len(),
            largest_misfit,
            parameters: self.parameters_in_unit(&model),
            outliers: model.outliers.iter().map(|&node| grid.row_col(node)).collect(),
            network_calls: made.network_calls,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Notes in the file that an estimate was written to `outputs` (`NAME sha256`, one a line).
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub fn record_estimate(&mut self, estimate: &Estimate, outputs: &str) -> Result<()> {
        let record = ReconstructionRecord {
            at: String::new(),
            num_observed: estimate.num_observed,
            seconds: estimate.seconds,
            network_calls: estimate.network_calls,
            largest_misfit: estimate.largest_misfit.map(|misfit| misfit.size),
            outputs: outputs.to_owned(),
        };
        self.file.change(|transaction| crate::store::insert_reconstruction(transaction, &record))
    }

    /// Each measured cell predicted from all others, in the unit; empty as long as there is no basis for a spread.
    ///
    /// `estimate` is the field of the present measurements without hard consistency.
    ///
    /// # Errors
    /// Those of the linear algebra.
    pub fn left_out(&mut self, method: &dyn Method, estimate: &Estimate) -> Result<Vec<LeftOut>> {
        self.prepare(method)?;
        let Some(std) = &estimate.std else { return Ok(Vec::new()) };
        let (state, scale) = (self.state()?, &self.settings.scale);
        let model = self.model(method, &state)?;
        let left_out = if model.drift.is_some() {
            // The smooth field alone: the model's own posterior, whose spread is known.
            let posterior = model.posterior()?;
            let mean = model.smooth_mean(&posterior)?;
            let std: Vec<f64> = posterior.variances()?.into_iter().map(f64::sqrt).collect();
            leave_one_out(&posterior, &mean, &std)?
        } else {
            let posterior = match method.fits_level() {
                true => {
                    Posterior::with_drift(&model.precision, &model.observations, &Drift::constant(self.scene.grid()))?
                }
                false => model.posterior()?,
            };
            let mean: Vec<f64> = estimate.mean.iter().map(|&value| scale.normalized(value)).collect();
            let std: Vec<f64> = std.iter().map(|std| std / scale.factor()).collect();
            leave_one_out(&posterior, &mean, &std)?
        };
        let in_unit = |entry: LeftOut| LeftOut {
            value: scale.value(entry.value),
            predicted: scale.value(entry.predicted),
            std: scale.factor() * entry.std,
            ..entry
        };
        Ok(left_out.into_iter().map(in_unit).collect())
    }

    fn parameters_in_unit(&self, model: &FieldModel) -> Vec<(&'static str, f64)> {
        let factor = self.settings.scale.factor();
        let shown = |parameter: &crate::method::Parameter| match parameter.is_spread {
            true => (parameter.name, factor * parameter.value),
            false => (parameter.name, parameter.value),
        };
        model.parameters.iter().map(shown).collect()
    }

    fn in_unit(&self, normalized: &[f64]) -> Vec<f64> {
        let value = |node: usize| match self.valid().is_valid(node) {
            true => self.settings.scale.value(normalized[node]),
            false => f64::NAN,
        };
        (0..normalized.len()).map(value).collect()
    }

    fn spread_in_unit(&self, normalized: &[f64]) -> Vec<f64> {
        let value = |node: usize| match self.valid().is_valid(node) {
            true => self.settings.scale.factor() * normalized[node],
            false => f64::NAN,
        };
        (0..normalized.len()).map(value).collect()
    }

    /// The samples of the prior that asks are weighed by, once they are drawn.
    pub fn prior_samples(&self) -> Option<&PriorEnsemble> {
        self.prepared.as_ref()?.ensemble.as_ref()
    }
}
