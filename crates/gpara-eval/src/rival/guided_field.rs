//! A Gaussian field on the grid without training: first or second order, coupled across the mask or along a picture, with an
//! unknown level or a trend.

use gpara::{
    Conductances, Drift, ErrorDetail, ErrorKind, GraphDescriptor, GraphPredictor, Guided, MeanSolver, Posterior,
    Reconstruction, ReconstructionInput, Reconstructor, ResidualPrecision, Result, UniformGraph,
};
use gpara_tasks::depth::luminance;
use serde::Deserialize;
use thiserror::Error as ThisError;

use super::scattered::{mean_only, measured};
use super::trend::Trend;
use crate::registry::{MethodScene, ReconstructorEntry};

pub(crate) const ENTRY: ReconstructorEntry = ReconstructorEntry {
    name: "guided-field",
    about: "Gaussian Markov field of first or second order; conductances 1, or exp(-|difference of luminance| / scale)",
    build: |scene, settings| {
        let settings: FieldSettings = settings.parse("guided-field")?;
        let conductances = conductances(scene, settings.picture_scale)?;
        let FieldSettings { residual_precision, graph_coupling, .. } = settings;
        let precision = match settings.kappa_squared {
            Some(kappa_squared) => {
                ResidualPrecision::second_order(conductances, residual_precision, graph_coupling, kappa_squared)?
            }
            None => ResidualPrecision::new(conductances, residual_precision, graph_coupling)?,
        };
        let trend = Trend::new(scene.context, &settings.trend)?;
        Ok(Box::new(GuidedField { precision, trend, invalid_value: scene.task.invalid_value() }))
    },
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FieldSettings {
    /// Difference of luminance, of 1, that weakens an edge by 1/e; left out: every allowed edge alike.
    picture_scale: Option<f64>,
    /// Makes the field one of second order; left out: first order.
    kappa_squared: Option<f64>,
    residual_precision: f64,
    graph_coupling: f64,
    /// Context channels whose coefficients are unknown, besides the level.
    trend: Vec<String>,
}

impl Default for FieldSettings {
    fn default() -> Self {
        let trend = Vec::new();
        Self { picture_scale: None, kappa_squared: None, residual_precision: 1e-6, graph_coupling: 1.0, trend }
    }
}

fn conductances(scene: &MethodScene<'_>, picture_scale: Option<f64>) -> Result<Conductances> {
    let flat = vec![0.0; scene.context.grid().num_nodes()];
    let descriptor = GraphDescriptor { context: scene.context, prior_mean: &flat, prior_std: &flat, num_measured: 0 };
    match picture_scale {
        Some(scale) => {
            let luminance = luminance(scene.context).ok_or(FieldError::NoPicture)?;
            Guided::new(luminance, scale)?.predict(&descriptor)
        }
        None => UniformGraph.predict(&descriptor),
    }
}

struct GuidedField {
    precision: ResidualPrecision,
    trend: Trend,
    invalid_value: Option<f64>,
}

impl Reconstructor for GuidedField {
    fn name(&self) -> &str {
        "guided-field"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let nodes: Vec<usize> = measured("guided-field", input, 2)?.iter().map(|point| point.node).collect();
        let columns = self.trend.told_apart_by(&nodes);
        let drift = Drift::flat(input.context.grid(), columns)?;
        let posterior = Posterior::with_drift(&self.precision, input.observations, &drift)?;
        let flat = vec![0.0; input.context.grid().num_nodes()];
        let (mut mean, solve) = posterior.mean_correction(&flat, MeanSolver::Exact)?;
        let misfit = misfit(&self.precision, &posterior, &drift, &mean)?;
        let free = nodes.len().saturating_sub(drift.columns().len()).max(1) as f64;
        let scale = (misfit / free).sqrt();
        let std = posterior.variances()?.iter().map(|variance| scale * variance.sqrt()).collect();
        if let Some(known) = self.invalid_value {
            let cells = mean.iter_mut().zip(input.context.valid().as_slice());
            cells.filter(|(_, valid)| !**valid).for_each(|(value, _)| *value = known);
        }
        Ok(Reconstruction { std: Some(std), worst_solve: Some(solve), ..mean_only(mean) })
    }
}

/// delta' Q delta + (y - x)' R^-1 (y - x) of the mean x and its residual delta = x - F b.
fn misfit(prior: &ResidualPrecision, posterior: &Posterior, drift: &Drift, mean: &[f64]) -> Result<f64> {
    let flat = vec![0.0; mean.len()];
    let coefficients = posterior.drift_coefficients(&flat)?.map(|(coefficients, _)| coefficients).unwrap_or_default();
    let mut residual = mean.to_vec();
    for (column, coefficient) in drift.columns().iter().zip(&coefficients) {
        residual.iter_mut().zip(column).for_each(|(value, entry)| *value -= coefficient * entry);
    }
    let rough: f64 = prior.apply(&residual).iter().zip(&residual).map(|(a, b)| a * b).sum();
    let noisy = posterior.observations().iter().filter(|entry| !entry.is_exact());
    let missed: f64 = noisy.map(|entry| ((entry.value - mean[entry.node]) / entry.noise_std).powi(2)).sum();
    Ok(rough + missed)
}

#[derive(Debug, ThisError)]
enum FieldError {
    #[error("`picture_scale` needs the context channels red, green and blue")]
    NoPicture,
}

impl ErrorDetail for FieldError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}
