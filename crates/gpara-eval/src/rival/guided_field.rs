//! A Gaussian field on the grid without training: first or second order, coupled across the mask or along a picture, with an
//! unknown level or a trend, and a scale fitted to the measurements and their noise.

use gpara::{
    Conductances, Drift, ErrorDetail, ErrorKind, GraphDescriptor, GraphPredictor, Guided, MeanSolver, Reconstruction,
    ReconstructionInput, Reconstructor, ResidualPrecision, Result, ScaledPosterior, UniformGraph,
};
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
        Ok(Box::new(GuidedField { precision, trend }))
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
    /// Context channels, or products of them (`a*b`), whose coefficients are unknown, besides the level.
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
            let luminance = scene.context.luminance().ok_or(FieldError::NoPicture)?;
            Guided::new(luminance, scale)?.predict(&descriptor)
        }
        None => UniformGraph.predict(&descriptor),
    }
}

struct GuidedField {
    precision: ResidualPrecision,
    trend: Trend,
}

impl Reconstructor for GuidedField {
    fn name(&self) -> &str {
        "guided-field"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let nodes: Vec<usize> = measured("guided-field", input, 2)?.iter().map(|point| point.node).collect();
        let columns = self.trend.told_apart_by(&nodes);
        let drift = Drift::flat(input.context.grid(), columns)?;
        let flat = vec![0.0; input.context.grid().num_nodes()];
        let fitted = ScaledPosterior::fit(&self.precision, input.observations, &flat, Some(&drift))?;
        let (mean, solve) = fitted.posterior().mean_correction(&flat, MeanSolver::Exact)?;
        let std = fitted.posterior().variances()?.iter().map(|variance| fitted.scale() * variance.sqrt()).collect();
        Ok(Reconstruction { std: Some(std), worst_solve: Some(solve), ..mean_only(mean) })
    }
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
