//! A Gaussian field whose range, spread and nugget are fitted to what is measured: no network, any field.
//!
//! The field is `F b + smooth + nugget`: a drift F b with unknown b, a smooth part of second-order precision
//! `tau I + lambda K K`, `K = kappa^2 I + L` (one of two families, by the likelihood of the measurements) with conductances that
//! stop at the mask and weaken across the edges of a guide picture, and what varies from cell to cell. Parameters are the most
//! probable ones given the measurements (nearest-neighbour likelihood of the field that the precision stands for,
//! `fitted/likelihood.rs`); then everything is exact: mean, variances and utilities are those of the precision on the grid,
//! drift included. Only the widths of intervals are found otherwise (`fitted/intervals.rs`).
//!
//! Heuristic: ranges are fitted by straight distances, also around obstacles and across a guide's edges; the fitted values
//! are taken as known.

mod design;
mod drift_terms;
mod fit;
mod intervals;
mod likelihood;
mod maps;
mod matern;
mod robust;
mod search;
mod smooth;

use gpara::{
    Context, Drift, GraphDescriptor, GraphPredictor, Guided, MAX_DRIFT_COLUMNS, Observation, Observations, Posterior,
    PriorEnsemble, Reconstruction, ReconstructionInput, ResidualPrecision, Result, SeedTree, UniformGraph,
    sample_fields,
};
use serde::{Deserialize, Serialize};

pub use drift_terms::DriftTerm;
pub(crate) use drift_terms::check_terms;
pub use robust::Robust;

use crate::error::SessionError;
use crate::method::{FieldModel, Method, ModelInput, Parameter, PredictedStd, Prediction};
use crate::scene::Scene;
use fit::{Fit, UNKNOWN_STD, fit, spread};
use maps::{MOST_PATTERNS, patterns};
use matern::GridPrecision;

/// What is fixed of a fitted prior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedPrior {
    /// The drift; the constant comes first.
    pub drift: Vec<DriftTerm>,
    /// How outliers are weighed; `None` takes every value as it is told.
    pub robust: Option<Robust>,
    /// Difference of the guide picture (0 to 1) that weakens an edge by 1/e, if the session has a guide.
    pub guide_scale: Option<f64>,
    /// Where the session's maps of the field come from, if it has some: their mean and the patterns in which they differ are
    /// the prior, the fitted field is what they leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maps: Option<MapsOrigin>,
}

/// Where maps of a field come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapsOrigin {
    /// The file of the maps, or of the network that drew them.
    pub file: String,
    /// Its SHA-256.
    pub sha256: String,
    /// Number of maps.
    pub count: usize,
}

impl Default for FittedPrior {
    fn default() -> Self {
        Self { drift: vec![DriftTerm::Constant], robust: None, guide_scale: None, maps: None }
    }
}

/// The method of a session with a fitted prior.
#[derive(Debug, Clone)]
pub struct FittedMethod {
    prior: FittedPrior,
}

/// What is known of a field before its covariance is fitted.
struct Base {
    /// The mean, `num_nodes` values.
    mean: Vec<f64>,
    /// The drift's columns, patterns of maps included, and the prior precision of each coefficient; a level without maps is
    /// flat once anything is measured.
    columns: Vec<Vec<f64>>,
    precisions: Vec<f64>,
    /// The measurements less the mean.
    residual: Observations,
    /// The spread that the residual is expected to have.
    scale: f64,
}

/// A measurement whose noise a robust fit takes as larger by this factor (in variance, nugget included) is named an outlier.
const OUTLIER_FACTOR: f64 = 4.0;

/// Nugget variance that is left at least, as a share of the smooth one, so that the algebra keeps its digits.
const SMALLEST_NUGGET: f64 = 1e-6;

impl FittedMethod {
    /// The method of a prior.
    pub fn new(prior: FittedPrior) -> Self {
        Self { prior }
    }

    fn precision(&self, scene: &Scene, context: &Context, fit: &Fit) -> Result<ResidualPrecision> {
        let grid = scene.grid();
        let flat = vec![0.0; grid.num_nodes()];
        let descriptor = GraphDescriptor { context, prior_mean: &flat, prior_std: &flat, num_measured: 0 };
        let uniform = UniformGraph.predict(&descriptor)?;
        let GridPrecision { kappa_squared, lambda, tau } =
            fit.shape.precision_of(fit.covariance.range, fit.covariance.std * fit.covariance.std);
        let (conductances, stiffness) = match (scene.guide(), self.prior.guide_scale) {
            (Some(guide), Some(scale)) => {
                let guided = Guided::new(guide.to_vec(), scale)?.predict(&descriptor)?;
                let sum = |degree: Vec<f64>| degree.iter().sum::<f64>();
                let share = sum(guided.degree().to_vec()) / sum(uniform.degree().to_vec());
                (guided, if share > 0.0 { share } else { 1.0 })
            }
            _ => (uniform, 1.0),
        };
        // Weaker edges on the whole mean a shorter range: kappa^2 and lambda take that back on average.
        let lambda = lambda / (stiffness * stiffness);
        let mut absorption = fit.shape.absorption(grid, fit.covariance.range);
        absorption.iter_mut().for_each(|outflow| *outflow *= stiffness);
        ResidualPrecision::second_order_absorbing(conductances, tau, lambda, kappa_squared * stiffness, absorption)
    }

    /// What is known of the field before it is fitted.
    fn base(&self, scene: &Scene, observations: &Observations) -> Result<Base> {
        let mut columns = drift_terms::columns(&self.prior.drift, scene)?;
        let num_nodes = scene.grid().num_nodes();
        if scene.maps().is_empty() {
            let scale = spread(observations, UNKNOWN_STD);
            let mut precisions = vec![(2.0 * scale).powi(-2); columns.len()];
            if !observations.is_empty() {
                precisions[0] = 0.0;
            }
            let residual = observations.clone();
            return Ok(Base { mean: vec![0.0; num_nodes], columns, precisions, residual, scale });
        }
        let free = MAX_DRIFT_COLUMNS - columns.len();
        let found = patterns(scene.maps(), scene.valid(), free.min(MOST_PATTERNS));
        let around_mean: Vec<Observation> = observations
            .iter()
            .map(|entry| Observation { value: entry.value - found.mean[entry.node], ..*entry })
            .collect();
        let mut residual = Observations::none(scene.grid());
        residual.add(scene.valid(), &around_mean)?;
        // What the patterns explain is no spread of the residual, so the maps' own rest is what is expected.
        let scale = found.left_std.max(f64::MIN_POSITIVE.sqrt());
        let mut precisions = vec![(2.0 * scale).powi(-2); columns.len()];
        precisions.extend(vec![1.0; found.columns.len()]);
        columns.extend(found.columns);
        Ok(Base { mean: found.mean, columns, precisions, residual, scale })
    }

    fn parameters(&self, fit: &Fit, outliers: usize) -> Vec<Parameter> {
        let Fit { covariance, .. } = fit;
        let mut parameters = vec![
            Parameter { name: "range", value: covariance.range, is_spread: false },
            Parameter { name: "spread", value: covariance.std, is_spread: true },
            Parameter { name: "nugget", value: covariance.nugget_std, is_spread: true },
        ];
        if self.prior.robust.is_some() {
            parameters.push(Parameter { name: "outliers", value: outliers as f64, is_spread: false });
        }
        parameters
    }
}

impl Method for FittedMethod {
    fn identity(&self) -> String {
        let drift: Vec<String> = self.prior.drift.iter().map(DriftTerm::label).collect();
        let robust = match self.prior.robust {
            None => "off",
            Some(Robust::StudentT) => "student-t",
            Some(Robust::Huber) => "huber",
        };
        let guide = self.prior.guide_scale.map_or("none".into(), |scale| scale.to_string());
        let maps = self.prior.maps.as_ref().map_or("none".into(), |maps| format!("{} {}", maps.count, maps.sha256));
        format!("gaussian, fitted 3, drift {}, robust {robust}, guide {guide}, maps {maps}", drift.join(" "))
    }

    fn model(&self, input: &ModelInput<'_>) -> Result<FieldModel> {
        let ModelInput { scene, context, observations, .. } = *input;
        let Base { mean, columns, precisions, residual, scale } = self.base(scene, observations)?;
        let fit = fit(&residual, scene.valid(), (&columns, &precisions), scale, self.prior.robust);
        // What the lattice adds from cell to cell is in the smooth part already.
        let excess = fit.shape.lattice_excess(fit.covariance.range) * fit.covariance.std.powi(2);
        let nugget = (fit.covariance.nugget_std.powi(2) - excess).max(SMALLEST_NUGGET * fit.covariance.std.powi(2));
        let (mut noisy, mut outliers) = (Vec::with_capacity(observations.len()), Vec::new());
        for (entry, &noise) in observations.iter().zip(&fit.noise_variance) {
            if noise + nugget > OUTLIER_FACTOR * (entry.noise_std.powi(2) + nugget) {
                outliers.push(entry.node);
            }
            noisy.push(Observation { noise_std: (noise + nugget).sqrt(), ..*entry });
        }
        let mut seen = Observations::none(scene.grid());
        seen.add(scene.valid(), &noisy)?;
        let parameters = self.parameters(&fit, outliers.len());
        let (prior_mean, drift) = if is_large(scene.grid()) {
            // A drift takes exact solves, which a large grid does not afford: its coefficients are taken as known.
            let mut mean = mean;
            for (column, coefficient) in columns.iter().zip(&fit.coefficients) {
                mean.iter_mut().zip(column).for_each(|(mean, value)| *mean += coefficient * value);
            }
            (mean, None)
        } else {
            (mean, Some(Drift::independent(scene.grid(), columns, &precisions)?))
        };
        Ok(FieldModel {
            precision: self.precision(scene, context, &fit)?,
            prior_mean: Some(prior_mean),
            drift,
            observations: seen,
            nugget_std: nugget.sqrt(),
            outliers,
            parameters,
            interval_factors: fit.interval_factors,
            interval_references: fit.interval_references,
            believed: None,
        })
    }

    fn predict(
        &self,
        _input: &ReconstructionInput<'_>,
        model: &FieldModel,
        posterior: &Posterior,
    ) -> Result<Prediction> {
        let mean = model.smooth_mean(posterior)?;
        let std = PredictedStd::Posterior { scale: 1.0, spread: None, nugget_std: model.nugget_std };
        Ok(Prediction { mean, std })
    }

    fn reconstruct(
        &self,
        input: &ReconstructionInput<'_>,
        model: &FieldModel,
        num_samples: usize,
    ) -> Result<Reconstruction> {
        let posterior = model.posterior()?;
        let mut mean = model.smooth_mean(&posterior)?;
        if is_large(posterior.grid()) {
            return large_grid(mean, model, num_samples);
        }
        let variances = posterior.variances()?;
        let nugget = model.nugget_std * model.nugget_std;
        let mut std: Vec<f64> = variances.iter().map(|variance| (variance + nugget).sqrt()).collect();
        let samples = match num_samples {
            0 => None,
            _ => {
                let drawn = sample_fields(&posterior, &model.prior_mean(), num_samples, input.seeds)?;
                Some(with_nugget(&drawn, model, input.seeds)?)
            }
        };
        // A measured cell's own deviation from the smooth field is known but for its noise.
        for entry in model.observations.iter() {
            let share = nugget / (entry.noise_std * entry.noise_std);
            let node = entry.node;
            std[node] = ((1.0 - share).powi(2) * variances[node] + nugget * (1.0 - share)).max(0.0).sqrt();
            mean[node] += share * (entry.value - mean[node]);
        }
        Ok(Reconstruction { mean, std: Some(std), samples, network_calls: 0, worst_solve: None })
    }

    fn error_std(&self, input: &ReconstructionInput<'_>, model: &FieldModel) -> Result<Option<Vec<f64>>> {
        Ok(self.reconstruct(input, model, 0)?.std)
    }
}

/// Cells from which on means are iterated and there are neither standard deviations nor samples.
const LARGE_GRID: usize = 1 << 19;

pub(crate) fn is_large(grid: gpara::Grid) -> bool {
    grid.num_nodes() >= LARGE_GRID
}

/// The reconstruction of a large grid: the mean alone, the nugget of measured cells included.
fn large_grid(mut mean: Vec<f64>, model: &FieldModel, num_samples: usize) -> Result<Reconstruction> {
    if num_samples > 0 {
        let method = format!("gaussian (on grids from {LARGE_GRID} cells)");
        return Err(SessionError::NoSamples { method }.into());
    }
    let nugget = model.nugget_std * model.nugget_std;
    for entry in model.observations.iter() {
        mean[entry.node] += nugget / (entry.noise_std * entry.noise_std) * (entry.value - mean[entry.node]);
    }
    Ok(Reconstruction { mean, std: None, samples: None, network_calls: 0, worst_solve: None })
}

/// Adds what varies from cell to cell to samples of the smooth field; at a measured cell it is drawn given the value.
fn with_nugget(samples: &PriorEnsemble, model: &FieldModel, seeds: SeedTree) -> Result<PriorEnsemble> {
    let num_nodes = samples.num_nodes();
    let nugget = model.nugget_std * model.nugget_std;
    let mut values = samples.as_slice().to_vec();
    for (sample, field) in values.chunks_mut(num_nodes).enumerate() {
        let mut normals = vec![0.0; num_nodes];
        seeds.stream(&format!("nugget/{sample}")).fill_normal(&mut normals);
        for entry in model.observations.iter() {
            let share = nugget / (entry.noise_std * entry.noise_std);
            normals[entry.node] *= (1.0 - share).max(0.0).sqrt();
            field[entry.node] += share * (entry.value - field[entry.node]);
        }
        field.iter_mut().zip(&normals).for_each(|(value, normal)| *value += model.nugget_std * normal);
    }
    PriorEnsemble::new(values, num_nodes)
}
