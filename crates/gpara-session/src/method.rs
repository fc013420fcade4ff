//! The seam between a session and the method that serves it: a prior, a graph, a reconstruction.

use std::borrow::Cow;

use gpara::{
    Conductances, Context, Correction, Drift, GaussianReconstructor, GaussianSettings, GraphDescriptor, GraphPredictor,
    MeanSolver, NORMAL_INTERVALS, Observations, Posterior, PriorEnsemble, PriorMean, Reconstruction,
    ReconstructionInput, Reconstructor, ResidualPrecision, Result, RiskRule, SeedTree, StdScale, UniformGraph,
};

use crate::belief::BelievedField;
use crate::error::SessionError;
use crate::fitted::{FittedMethod, is_large};
use crate::scene::Scene;
use crate::settings::SessionPrior;

/// What a model of the field is made from.
#[derive(Debug, Clone, Copy)]
pub struct ModelInput<'a> {
    /// The scene with its maps.
    pub scene: &'a Scene,
    /// Its valid cells, without the channels of networks.
    pub context: &'a Context,
    /// The measurements, as they were told.
    pub observations: &'a Observations,
    /// Samples of the prior, if the method has some.
    pub ensemble: Option<&'a PriorEnsemble>,
}

/// The linear model that a method has of the field at a state of the measurements.
#[derive(Debug, Clone)]
pub struct FieldModel {
    /// Q_g.
    pub precision: ResidualPrecision,
    /// The mean before the measurements and the drift, `num_nodes` values; 0 where `None`.
    pub prior_mean: Option<Vec<f64>>,
    /// What the field follows on the whole, with unknown factors.
    pub drift: Option<Drift>,
    /// The measurements as the model sees them: their noise holds the nugget, and that of outliers is larger than told.
    pub observations: Observations,
    /// Standard deviation of what varies from cell to cell, normalised.
    pub nugget_std: f64,
    /// Nodes whose values are taken for outliers, increasing.
    pub outliers: Vec<usize>,
    /// What was fitted, for people.
    pub parameters: Vec<Parameter>,
    /// Half widths of the intervals of [`gpara::COVERAGE_LEVELS`] around a prediction, in its standard deviation.
    pub interval_factors: [f64; 3],
    /// Cells with the standard deviation under which those intervals hold, if that is not the one that is predicted.
    pub interval_references: Vec<(usize, f64)>,
    /// What networks say of the field, where the method has some that see the measurements.
    pub believed: Option<BelievedField>,
}

/// A fitted number of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its value; a spread is normalised.
    pub value: f64,
    /// Whether it is a standard deviation of the field, to be shown in the session's unit; otherwise cells or a count.
    pub is_spread: bool,
}

impl FieldModel {
    /// A model of fixed precision that takes the measurements as they were told.
    pub fn plain(precision: ResidualPrecision, observations: &Observations) -> Self {
        Self {
            precision,
            prior_mean: None,
            drift: None,
            observations: observations.clone(),
            nugget_std: 0.0,
            outliers: Vec::new(),
            parameters: Vec::new(),
            interval_factors: NORMAL_INTERVALS,
            interval_references: Vec::new(),
            believed: None,
        }
    }

    /// The mean before the measurements and the drift, `num_nodes` values.
    pub fn prior_mean(&self) -> Cow<'_, [f64]> {
        match &self.prior_mean {
            Some(mean) => Cow::Borrowed(mean),
            None => Cow::Owned(vec![0.0; self.precision.grid().num_nodes()]),
        }
    }

    /// The mean of the smooth field, drift included; exact, on large grids iterated to a residual of 1e-6.
    ///
    /// # Errors
    /// Those of [`Posterior::mean_correction`].
    pub fn smooth_mean(&self, posterior: &Posterior) -> Result<Vec<f64>> {
        let prior = self.prior_mean();
        let solver = match is_large(posterior.grid()) {
            true => MeanSolver::Multigrid { max_iterations: 400, rel_tolerance: 1e-6 },
            false => MeanSolver::Exact,
        };
        let (mut mean, _) = posterior.mean_correction(&prior, solver)?;
        mean.iter_mut().zip(prior.iter()).for_each(|(mean, prior)| *mean += prior);
        Ok(mean)
    }

    /// The half widths of intervals in the standard deviation that is predicted, so that intervals are on the whole as wide as
    /// under the one of the references.
    ///
    /// # Shapes
    /// * `predicted` - the standard deviation that is predicted at each of the references
    pub fn intervals_in(&self, predicted: &[f64]) -> [f64; 3] {
        // The noise as it was told: that of the model's observations holds the nugget, which both deviations have already.
        let nugget = self.nugget_std * self.nugget_std;
        let told = |entry: &gpara::Observation| (entry.noise_std * entry.noise_std - nugget).max(0.0);
        let noise = median(self.observations.iter().map(told).collect());
        let log_ratio = |(&(_, reference), predicted): (&(usize, f64), &f64)| {
            0.5 * ((reference * reference + noise) / (predicted * predicted + noise)).ln()
        };
        let ratios: Vec<f64> = self.interval_references.iter().zip(predicted).map(log_ratio).collect();
        let count = ratios.len();
        let factor = if count == 0 { 1.0 } else { (ratios.into_iter().sum::<f64>() / count as f64).exp() };
        self.interval_factors.map(|width| factor * width)
    }

    /// The posterior of the smooth field.
    ///
    /// # Errors
    /// Those of [`Posterior::with_drift`].
    pub fn posterior(&self) -> Result<Posterior> {
        self.posterior_of(&self.observations)
    }

    /// The posterior of the smooth field after other measurements.
    ///
    /// # Errors
    /// Those of [`Posterior::with_drift`].
    pub fn posterior_of(&self, observations: &Observations) -> Result<Posterior> {
        match &self.drift {
            Some(drift) => Posterior::with_drift(&self.precision, observations, drift),
            None => Posterior::new(&self.precision, observations),
        }
    }
}

/// The middle of some values; 0 without any.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// What is predicted of the field, normalised.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The mean, `num_nodes` values.
    pub mean: Vec<f64>,
    /// The standard deviation of the prediction's error at cells that are not measured.
    pub std: PredictedStd,
}

/// Where a standard deviation comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum PredictedStd {
    /// There is no basis for one yet.
    Unknown,
    /// A map, `num_nodes` values.
    Map(Vec<f64>),
    /// That of the model's posterior: the root of `spread + scale^2 variance + nugget_std^2`.
    Posterior {
        /// Factor on the posterior's own standard deviation.
        scale: f64,
        /// A variance to add, `num_nodes` values.
        spread: Option<Vec<f64>>,
        /// The nugget.
        nugget_std: f64,
    },
}

impl PredictedStd {
    /// The standard deviation at some nodes; `None` without a basis for one.
    ///
    /// # Errors
    /// Those of the linear algebra.
    pub fn at(&self, posterior: &Posterior, nodes: &[usize]) -> Result<Option<Vec<f64>>> {
        /// Above this number one pass over all variances is cheaper than a solve a node.
        const FEW: usize = 24;
        match self {
            Self::Unknown => Ok(None),
            Self::Map(map) => Ok(Some(nodes.iter().map(|&node| map[node]).collect())),
            Self::Posterior { scale, spread, nugget_std } => {
                let variances: Vec<f64> = if nodes.len() > FEW {
                    let all = posterior.variances()?;
                    nodes.iter().map(|&node| all[node]).collect()
                } else {
                    let one = |&node: &usize| posterior.covariance_column(node).map(|column| column[node]);
                    nodes.iter().map(one).collect::<Result<_>>()?
                };
                let std = nodes.iter().zip(variances).map(|(&node, variance)| {
                    let beside = spread.as_ref().map_or(0.0, |spread| spread[node]);
                    (beside + scale * scale * variance + nugget_std * nugget_std).sqrt()
                });
                Ok(Some(std.collect()))
            }
        }
    }
}

/// What a session asks of a method. Its answers depend on nothing but its inputs and what it was made with.
pub trait Method: Send + Sync {
    /// Says what the answers depend on, e.g. a preset's and its networks' hashes; a session refuses another one.
    fn identity(&self) -> String;

    /// Whether the level of the field is fitted to the measurements (ordinary kriging), which leave-one-out must know.
    fn fits_level(&self) -> bool {
        true
    }

    /// How samples are conditioned on measurements (Eq. 13).
    fn correction(&self) -> Correction {
        Correction { solver: MeanSolver::Exact, strength: 1.0, range: None }
    }

    /// Which cells' uncertainty counts (B.32-B.34).
    fn risk(&self) -> RiskRule {
        RiskRule::Uniform
    }

    /// Whether an ask reads samples of the prior, which take seconds to draw.
    fn draws_prior(&self) -> bool {
        false
    }

    /// Draws the samples the session keeps; `None` for a prior without samples.
    ///
    /// # Errors
    /// Those of the network.
    fn draw_prior(&self, context: &Context, seeds: SeedTree) -> Result<Option<PriorEnsemble>> {
        let _ = (context, seeds);
        Ok(None)
    }

    /// Whether [`believe`](Self::believe) asks networks.
    fn believes(&self) -> bool {
        false
    }

    /// What networks say of the field after the measurements; `None` for a method without such networks.
    ///
    /// # Errors
    /// Those of the networks.
    fn believe(&self, context: &Context, observations: &Observations) -> Result<Option<BelievedField>> {
        let _ = (context, observations);
        Ok(None)
    }

    /// The model of the field at a state of the measurements.
    ///
    /// # Errors
    /// Those of the graph and of the fit.
    fn model(&self, input: &ModelInput<'_>) -> Result<FieldModel>;

    /// The field as far as it is known, by no network but those of the model's belief: fast enough for every ask. `posterior` is
    /// that of `model`.
    ///
    /// # Errors
    /// Those of the linear algebra.
    fn predict(&self, input: &ReconstructionInput<'_>, model: &FieldModel, posterior: &Posterior)
    -> Result<Prediction>;

    /// The field as well as the method can tell, with `num_samples` samples of it (0: none).
    ///
    /// # Errors
    /// Those of the network and of the linear algebra; `Unsupported` if samples are wanted and the method makes none.
    fn reconstruct(
        &self,
        input: &ReconstructionInput<'_>,
        model: &FieldModel,
        num_samples: usize,
    ) -> Result<Reconstruction>;

    /// Standard deviation of the error of [`reconstruct`](Self::reconstruct), without its cost; `None` as long as there is
    /// no basis for one.
    ///
    /// # Errors
    /// Those of the linear algebra.
    fn error_std(&self, input: &ReconstructionInput<'_>, model: &FieldModel) -> Result<Option<Vec<f64>>>;
}

/// The method of a session whose prior is Gaussian, fitted or fixed; `None` for another prior.
pub fn gaussian_method(prior: &SessionPrior) -> Option<Box<dyn Method>> {
    match prior {
        SessionPrior::Fitted(prior) => Some(Box::new(FittedMethod::new(prior.clone()))),
        SessionPrior::Gaussian { .. } => Some(Box::new(GaussianMethod::of(prior)?)),
        SessionPrior::Preset { .. } => None,
    }
}

/// A Gaussian field of fixed first-order precision with a fitted level and spread: no network, any field.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianMethod {
    level: f64,
    residual_precision: f64,
    graph_coupling: f64,
}

impl GaussianMethod {
    /// The method of a session whose prior is Gaussian; `None` for another prior.
    pub fn of(prior: &SessionPrior) -> Option<Self> {
        match *prior {
            SessionPrior::Gaussian { level, residual_precision, graph_coupling } => {
                Some(Self { level, residual_precision, graph_coupling })
            }
            _ => None,
        }
    }

    fn reconstructor(&self, num_samples: usize) -> GaussianReconstructor {
        let mean = PriorMean::Fitted { without_measurements: self.level };
        GaussianReconstructor::new(GaussianSettings { mean, scale: StdScale::Fitted, num_samples })
    }
}

impl Method for GaussianMethod {
    fn identity(&self) -> String {
        let Self { level, residual_precision, graph_coupling } = self;
        format!("gaussian 1, level {level}, residual_precision {residual_precision}, graph_coupling {graph_coupling}")
    }

    fn model(&self, input: &ModelInput<'_>) -> Result<FieldModel> {
        let flat = vec![0.0; input.context.grid().num_nodes()];
        let descriptor =
            GraphDescriptor { context: input.context, prior_mean: &flat, prior_std: &flat, num_measured: 0 };
        let conductances: Conductances = UniformGraph.predict(&descriptor)?;
        let precision = ResidualPrecision::new(conductances, self.residual_precision, self.graph_coupling)?;
        Ok(FieldModel::plain(precision, input.observations))
    }

    fn predict(&self, input: &ReconstructionInput<'_>, _: &FieldModel, _: &Posterior) -> Result<Prediction> {
        let Reconstruction { mean, std, .. } = self.reconstructor(0).reconstruct(input)?;
        Ok(Prediction { mean, std: std.map_or(PredictedStd::Unknown, PredictedStd::Map) })
    }

    fn reconstruct(
        &self,
        input: &ReconstructionInput<'_>,
        _: &FieldModel,
        num_samples: usize,
    ) -> Result<Reconstruction> {
        let made = self.reconstructor(num_samples).reconstruct(input)?;
        if num_samples > 0 && made.samples.is_none() {
            let method = "gaussian (with fewer than two measurements)".into();
            return Err(SessionError::NoSamples { method }.into());
        }
        Ok(made)
    }

    fn error_std(&self, input: &ReconstructionInput<'_>, _: &FieldModel) -> Result<Option<Vec<f64>>> {
        Ok(self.reconstructor(0).reconstruct(input)?.std)
    }
}
