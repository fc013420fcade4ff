//! Where a campaign stands, and whether going on is worth it.

use gpara::Result;

use super::Campaign;
use crate::forecast::{ForecastInput, diminishing_return, reaches, variance_curve};
use crate::leave_one_out::{Coverage, PredictedValue, coverage};
use crate::method::{FieldModel, Method};
use crate::state::State;

/// Where a campaign stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Cells of the field.
    pub num_valid: usize,
    /// Measurements that may be made in all.
    pub budget: usize,
    /// Cells measured.
    pub num_observed: usize,
    /// Values told; more than cells if some were measured more than once.
    pub num_values: usize,
    /// Cells asked for and not told yet.
    pub pending: Vec<(usize, usize)>,
    /// Cells told as failed.
    pub num_failed: usize,
    /// Cells that may still be asked for.
    pub num_open: usize,
    /// Measurements that may still be asked for.
    pub remaining: usize,
    /// How well values were predicted before they were told.
    pub coverage: Option<Coverage>,
    /// What more measurements would bring; `None` if it was not asked for.
    pub forecast: Option<Forecast>,
}

/// What more measurements would bring, all errors in the session's unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Predicted root mean square error over the valid cells against the number of measured cells, pending ones taken as
    /// measured; `None` as long as the spread of the field is not known (a Gaussian prior before two measurements).
    pub rmse: Option<Vec<(usize, f64)>>,
    /// Root mean square of the standard deviation at this moment, without what is pending: the risk left.
    pub risk_left: Option<f64>,
    /// Share of the present mean variance that is left at the same numbers of measurements.
    pub variance_share: Vec<(usize, f64)>,
    /// Number of measurements after which each brings less than before on average: the knee of the curve.
    pub diminishing_return: Option<usize>,
    /// The error at which one may stop.
    pub stop_at: Option<f64>,
    /// Whether that error is reached with what is measured at this moment.
    pub stop_reached: Option<bool>,
    /// Number of measurements at which it will be, if it is within the budget.
    pub stop_after: Option<usize>,
}

impl Campaign {
    /// Where the campaign stands, from the file alone.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn status(&self) -> Result<Status> {
        let told = self.file.told()?;
        let (pending, failed) = (self.file.pending()?, self.file.failed()?);
        let state = State::new(&self.settings, self.valid(), &told, &pending, &failed)?;
        let askable = self.scene.askable();
        let predictions = told.iter().filter_map(|value| {
            let (predicted, std) = value.predicted?;
            let (std, interval_factors) = (std.hypot(value.sigma), value.interval_factors);
            Some(PredictedValue { value: value.value, predicted, std, interval_factors })
        });
        Ok(Status {
            num_valid: self.valid().num_valid(),
            budget: self.settings.budget,
            num_observed: state.observations.len(),
            num_values: told.len(),
            pending,
            num_failed: state.failed.len(),
            num_open: (0..askable.len()).filter(|&node| askable[node] && !state.is_taken(node)).count(),
            remaining: state.remaining(self.settings.budget),
            coverage: coverage(predictions),
            forecast: None,
        })
    }

    /// What the rest of the budget would bring. `stop_at` overrides the session's own.
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare) and of the linear algebra.
    pub fn forecast(&mut self, method: &dyn Method, stop_at: Option<f64>) -> Result<Forecast> {
        self.prepare(method)?;
        let state = self.state()?;
        let prepared = self.prepared();
        let model = self.model(method, &state)?;
        let input = self.reconstruction_input(&prepared.context, &model);
        let noise_std = self.settings.noise_std(self.settings.sigma).hypot(model.nugget_std);
        let flat = vec![0.0; self.scene.grid().num_nodes()];
        let observations = state.with_pending(self.valid(), &model.observations, &flat, noise_std)?;
        let askable = self.scene.askable();
        let candidates: Vec<usize> =
            (0..askable.len()).filter(|&node| askable[node] && !state.is_taken(node)).collect();
        let remaining = state.remaining(self.settings.budget);
        let weights = self.error_weights(&model)?;
        let curve = variance_curve(&ForecastInput {
            context: &prepared.context,
            model: &model,
            observations: &observations,
            candidates: &candidates,
            noise_std,
            weights: weights.as_deref(),
            remaining,
        })?;
        let now = match state.pending.is_empty() {
            true => curve[0].1,
            false => self.mean_variance(&model, weights.as_deref())?,
        };
        let variance_share: Vec<(usize, f64)> =
            curve.iter().map(|&(count, variance)| (count, variance / now)).collect();
        let std = method.error_std(&input, &model)?;
        let risk_left = std.map(|std| self.settings.scale.factor() * self.root_mean_square(&std));
        // The spread's scale stays, so the error falls as the root of the exact variances.
        let rmse = risk_left
            .map(|left| variance_share.iter().map(|&(count, share)| (count, left * share.sqrt())).collect::<Vec<_>>());
        let stop_at = stop_at.or(self.settings.stop_at);
        let errors: Vec<(usize, f64)> = variance_share.iter().map(|&(count, share)| (count, share.sqrt())).collect();
        Ok(Forecast {
            diminishing_return: diminishing_return(&errors),
            stop_reached: stop_at.zip(risk_left).map(|(target, left)| left <= target),
            stop_after: stop_at.zip(rmse.as_ref()).and_then(|(target, rmse)| reaches(rmse, target)),
            stop_at,
            rmse,
            risk_left,
            variance_share,
        })
    }

    fn mean_variance(&self, model: &FieldModel, weights: Option<&[f64]>) -> Result<f64> {
        let variances = model.posterior()?.variances()?;
        let nugget = model.nugget_std * model.nugget_std;
        let weighted = |node: usize| weights.map_or(1.0, |weights| weights[node]) * variances[node];
        Ok(nugget + self.valid().nodes().map(weighted).sum::<f64>() / self.valid().num_valid() as f64)
    }

    fn root_mean_square(&self, std: &[f64]) -> f64 {
        let sum: f64 = self.valid().nodes().map(|node| std[node] * std[node]).sum();
        (sum / self.valid().num_valid() as f64).sqrt()
    }
}
