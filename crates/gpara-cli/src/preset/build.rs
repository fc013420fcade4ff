//! From a preset and a scene to the parts of the method.

use std::sync::Arc;
use std::time::Instant;

use clap::ValueEnum;
use gpara::{
    AcquisitionModel, AcquisitionState, BeliefCache, BeliefModel, BeyondMask, Context, Denoiser, EdgeAware,
    EnsembleCache, ErrorCoupling, FarthestPoint, FirstPoint, GaussianReconstructor, GaussianSettings, Gpara,
    GparaSettings, GraphDescriptor, GraphPredictor, Guided, MaxVariance, NetworkBelief, NoiseSchedule, Observations,
    Policy, Posterior, PrecisionScale, PriorEnsemble, PriorMean, Random, Reconstruction, ReconstructionInput,
    Reconstructor, ResidualPrecision, RiskRule, SamplerSettings, Scorer, SeedTree, StdScale, StdSource,
    TrajectoryReconstructor, TrajectorySettings, UniformGraph, ZeroScorer, sample_prior,
};

use super::mean_network::MeanNetwork;
use super::{BeliefRefresh, Graph, Preset, Prior, Reconstruct};
use crate::embedded_models::EmbeddedModel;
use crate::failure::{Failure, Outcome};
use crate::model_source::ModelSource;

/// A policy as it is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyChoice {
    /// Uniformly random cells
    Random,
    /// Each point as far as possible from all before it
    FarthestPoint,
    /// The paper's policy: largest expected drop of the weighted posterior risk
    Active,
    /// Largest variance of the conditioned ensemble
    MaxVariance,
}

impl PolicyChoice {
    /// The name as it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::FarthestPoint => "farthest-point",
            Self::Active => "active",
            Self::MaxVariance => "max-variance",
        }
    }
}

/// What kind of scene the method is built for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Task {
    /// Its name in model cards.
    pub(crate) name: &'static str,
    /// Normalised value of invalid cells, where it is known.
    pub(crate) invalid_value: Option<f64>,
}

impl Task {
    /// The clipped sampler of this task over `num_steps` evenly spaced timesteps.
    pub(crate) fn sampler(self, schedule: &NoiseSchedule, num_steps: usize) -> Outcome<SamplerSettings> {
        let steps = schedule.respace(&schedule.spaced_timesteps(num_steps)?)?;
        Ok(SamplerSettings { invalid_value: self.invalid_value, ..SamplerSettings::clipped(steps) })
    }
}

/// The parts of the method for one scene.
pub(crate) struct MethodParts {
    /// Q_g.
    pub(crate) precision: ResidualPrecision,
    /// Seconds it took to draw the ensemble and the graph.
    pub(crate) seconds: f64,
    /// Network evaluations of the ensemble.
    pub(crate) network_calls: u64,
    preset: Preset,
    sampled: Option<SampledPrior>,
    scorer: Option<Arc<dyn Scorer>>,
    belief: Option<Arc<dyn BeliefModel>>,
    reconstructor: Box<dyn Reconstructor>,
}

/// A scorer that several policies of a scene share.
struct SharedScorer(Arc<dyn Scorer>);

impl Scorer for SharedScorer {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn replaces_anchor(&self) -> bool {
        self.0.replaces_anchor()
    }

    fn residual_score(&self, state: &AcquisitionState<'_>) -> gpara::Result<Vec<f64>> {
        self.0.residual_score(state)
    }
}

/// A prior that samples are drawn from.
struct SampledPrior {
    denoiser: Arc<dyn Denoiser>,
    sampler: SamplerSettings,
    ensemble_size: usize,
    refresh_at: Vec<usize>,
    /// Samples without measurements; `None` where nothing reads them.
    ensemble: Option<PriorEnsemble>,
}

impl MethodParts {
    /// Loads what the preset names, draws the prior ensemble, predicts the graph.
    pub(crate) fn new(
        preset: &Preset,
        models: &dyn ModelSource,
        task: Task,
        context: &Context,
        seeds: SeedTree,
    ) -> Outcome<Self> {
        let weighed = matches!(preset.acquisition.risk, RiskRule::EnsembleSpread(_));
        let conditioned = matches!(preset.reconstruct, Reconstruct::Trajectories { .. });
        Self::build(preset, models, task, context, seeds, weighed || conditioned || described(preset))
    }

    /// The parts that a reconstruction reads: an ensemble without measurements only where it describes the prior to the graph.
    pub(crate) fn for_reconstruction(
        preset: &Preset,
        models: &dyn ModelSource,
        task: Task,
        context: &Context,
        seeds: SeedTree,
    ) -> Outcome<Self> {
        Self::build(preset, models, task, context, seeds, described(preset))
    }

    fn build(
        preset: &Preset,
        models: &dyn ModelSource,
        task: Task,
        context: &Context,
        seeds: SeedTree,
        with_ensemble: bool,
    ) -> Outcome<Self> {
        let started = Instant::now();
        let mut sampled = SampledPrior::new(preset, models, task)?;
        if with_ensemble && let Some(sampled) = &mut sampled {
            let none = Observations::none(context.grid());
            sampled.ensemble = Some(sampled.draw(context, &none, seeds)?);
        }
        let ensemble = sampled.as_ref().and_then(|sampled| sampled.ensemble.as_ref());
        let belief = belief_model(preset, models, task, context, ensemble)?;
        let precision = match (&preset.graph, &belief) {
            (Graph::Believed { .. }, Some(belief)) => {
                belief.believe(context, &Observations::none(context.grid()))?.precision
            }
            _ => residual_precision(preset, models, task, context, ensemble)?,
        };
        let scorer = preset.acquisition.scorer.as_ref().map(|name| models.scorer(name, task.name)).transpose()?;
        let reconstructor = reconstructor(preset, models, task, sampled.as_ref())?;
        let drawn = sampled.as_ref().filter(|sampled| sampled.ensemble.is_some());
        let network_calls = drawn.map_or(0, SampledPrior::calls_a_draw);
        let seconds = started.elapsed().as_secs_f64();
        Ok(Self { precision, seconds, network_calls, preset: preset.clone(), sampled, scorer, belief, reconstructor })
    }

    /// The policy with what it reads.
    pub(crate) fn acquisition_model(&self, choice: PolicyChoice) -> Outcome<AcquisitionModel> {
        let policy = self.policy(choice)?;
        let ensemble = match &self.sampled {
            Some(sampled) if policy.needs_ensemble() => sampled.cache()?,
            None if policy.needs_ensemble() => return Err(no_ensemble(&self.preset, choice)),
            _ => EnsembleCache::nothing(),
        };
        Ok(AcquisitionModel { policy, precision: self.precision.clone(), ensemble })
    }

    fn policy(&self, choice: PolicyChoice) -> Outcome<Box<dyn Policy>> {
        let acquisition = &self.preset.acquisition;
        Ok(match choice {
            PolicyChoice::Random => Box::new(Random::new()),
            PolicyChoice::FarthestPoint => Box::new(FarthestPoint::new(FirstPoint::Centroid)),
            PolicyChoice::MaxVariance => Box::new(MaxVariance::new(self.preset.correction)),
            PolicyChoice::Active => {
                let settings = GparaSettings {
                    correction: self.preset.correction,
                    risk: acquisition.risk,
                    utility: acquisition.utility,
                    score_bound: acquisition.score_bound,
                    batch_rule: acquisition.batch_rule,
                };
                let scorer: Box<dyn Scorer> = match &self.scorer {
                    Some(scorer) => Box::new(SharedScorer(Arc::clone(scorer))),
                    None => Box::new(ZeroScorer),
                };
                let policy = Gpara::new(settings, scorer);
                match &self.belief {
                    Some(belief) => {
                        let BeliefRefresh { spacing_ratio, crowd } = acquisition.refresh;
                        let cache = BeliefCache::new(Arc::clone(belief), spacing_ratio)?;
                        Box::new(policy.believing(crowd.into_iter().fold(cache, BeliefCache::watching_crowds)))
                    }
                    None => Box::new(policy),
                }
            }
        })
    }

    /// See [`Reconstructor::interval_factors`].
    pub(crate) fn interval_factors(&self, context: &Context, observations: &Observations) -> [f64; 3] {
        self.reconstructor.interval_factors(context, observations)
    }

    /// The field given the measurements.
    pub(crate) fn reconstruct(
        &self,
        context: &Context,
        observations: &Observations,
        seeds: SeedTree,
    ) -> Outcome<Reconstruction> {
        let network = self.preset.mean_network();
        let std_from_ensemble = network.is_some_and(|network| network.settings.std == StdSource::Ensemble);
        let (ensemble, calls) = match &self.sampled {
            Some(sampled) if std_from_ensemble => {
                (Some(sampled.draw(context, observations, seeds)?), sampled.calls_a_draw())
            }
            _ => (None, 0),
        };
        let believed = match (&self.preset.graph, &self.belief) {
            (Graph::Believed { .. }, Some(belief)) => Some(belief.believe(context, observations)?.precision),
            _ => None,
        };
        let (precision, ensemble) = (believed.as_ref().unwrap_or(&self.precision), ensemble.as_ref());
        let input = ReconstructionInput { context, observations, precision, ensemble, seeds };
        let mut made = self.reconstructor.reconstruct(&input)?;
        made.network_calls += calls;
        Ok(made)
    }

    /// The mean of the field without the cost of trajectories: those are replaced by the conditioned prior ensemble.
    pub(crate) fn quick_estimate(
        &self,
        context: &Context,
        observations: &Observations,
        seeds: SeedTree,
    ) -> Outcome<Vec<f64>> {
        let ensemble = self.sampled.as_ref().and_then(|sampled| sampled.ensemble.as_ref());
        let (Reconstruct::Trajectories { .. }, Some(ensemble)) = (&self.preset.reconstruct, ensemble) else {
            return Ok(self.reconstruct(context, observations, seeds)?.mean);
        };
        let posterior = Posterior::new(&self.precision, observations)?;
        let (refined, _) = self.preset.correction.refine(&posterior, ensemble.as_slice())?;
        Ok(PriorEnsemble::new(refined, context.grid().num_nodes())?.mean())
    }
}

/// Whether samples without measurements describe the scene to the graph.
fn described(preset: &Preset) -> bool {
    matches!(preset.graph, Graph::EdgeAware | Graph::Network { .. })
}

/// Refuses a policy that the preset cannot serve, and a preset whose networks are not in this build, before any work.
pub(crate) fn check_available(preset: &Preset, policies: &[PolicyChoice]) -> Outcome {
    for name in preset.model_names() {
        EmbeddedModel::named(name).map_err(|failure| failure.within(format!("preset `{}`", preset.name)))?;
    }
    let sampled = matches!(preset.prior, Prior::Network { .. });
    match policies.iter().find(|&&policy| policy == PolicyChoice::MaxVariance && !sampled) {
        Some(&policy) => Err(no_ensemble(preset, policy)),
        None => Ok(()),
    }
}

fn no_ensemble(preset: &Preset, policy: PolicyChoice) -> Failure {
    Failure::input(
        format!("policy `{}` needs a prior ensemble, preset `{}` has none", policy.name(), preset.name),
        "take the policy `active`, or a preset with a network",
    )
}

/// Draws the samples of a preset's prior without measurements; `None` for a prior without samples.
pub(crate) fn draw_prior(
    preset: &Preset,
    models: &dyn ModelSource,
    task: Task,
    context: &Context,
    seeds: SeedTree,
) -> Outcome<Option<PriorEnsemble>> {
    let none = Observations::none(context.grid());
    let sampled = SampledPrior::new(preset, models, task)?;
    sampled.map(|sampled| sampled.draw(context, &none, seeds)).transpose()
}

/// The reconstructor of a preset whose mean is one network evaluation; `None` for any other preset.
pub(crate) fn mean_reconstructor(
    preset: &Preset,
    models: &dyn ModelSource,
    task: Task,
) -> Outcome<Option<Box<dyn Reconstructor>>> {
    let network = preset.mean_network();
    network.map(|network| network.reconstructor(models, task, preset.acquisition.noise_std)).transpose()
}

impl SampledPrior {
    /// Loads the preset's network and draws nothing yet; `None` for a prior without samples.
    fn new(preset: &Preset, models: &dyn ModelSource, task: Task) -> Outcome<Option<Self>> {
        let Prior::Network { model, ensemble_size, num_steps, refresh_at } = &preset.prior else { return Ok(None) };
        let (denoiser, schedule) = models.prior(model, task.name)?;
        let sampler = task.sampler(&schedule, *num_steps)?;
        let (ensemble_size, refresh_at) = (*ensemble_size, refresh_at.clone());
        Ok(Some(Self { denoiser, sampler, ensemble_size, refresh_at, ensemble: None }))
    }

    /// Network evaluations of one draw of the ensemble.
    fn calls_a_draw(&self) -> u64 {
        (self.ensemble_size * self.sampler.steps.len()) as u64
    }

    fn draw(&self, context: &Context, observations: &Observations, seeds: SeedTree) -> Outcome<PriorEnsemble> {
        Ok(sample_prior(&*self.denoiser, context, observations, &self.sampler, self.ensemble_size, seeds)?)
    }

    /// The ensemble for a policy. One that is drawn once is the one that is here already.
    fn cache(&self) -> Outcome<EnsembleCache> {
        if let (true, Some(ensemble)) = (self.refresh_at.is_empty(), &self.ensemble) {
            return Ok(EnsembleCache::given(ensemble.clone()));
        }
        let (denoiser, sampler) = (Arc::clone(&self.denoiser), self.sampler.clone());
        Ok(EnsembleCache::drawn(denoiser, sampler, self.ensemble_size, self.refresh_at.clone())?)
    }
}

/// What a preset believes after measurements, for its acquisition or its graph; `None` if neither looks at it.
fn belief_model(
    preset: &Preset,
    models: &dyn ModelSource,
    task: Task,
    context: &Context,
    ensemble: Option<&PriorEnsemble>,
) -> Outcome<Option<Arc<dyn BeliefModel>>> {
    let (true, Some(MeanNetwork { model, spread: Some(spread), .. })) = (preset.believes(), preset.mean_network())
    else {
        return Ok(None);
    };
    let coupling = match &preset.graph {
        Graph::Believed { model } => ErrorCoupling::Predicted(models.graph(model, task.name)?, scale_of(preset)),
        _ => ErrorCoupling::Fixed(residual_precision(preset, models, task, context, ensemble)?),
    };
    let mean = models.mean(model, task.name)?;
    let spread = spread.predictor(models, task, preset.acquisition.noise_std)?;
    Ok(Some(Arc::new(NetworkBelief::new(mean, spread, coupling))))
}

/// Q_g of a scene; samples of the prior, where there are any, describe it to the graph.
pub(crate) fn residual_precision(
    preset: &Preset,
    models: &dyn ModelSource,
    task: Task,
    context: &Context,
    ensemble: Option<&PriorEnsemble>,
) -> Outcome<ResidualPrecision> {
    let num_nodes = context.grid().num_nodes();
    // Without samples the descriptor says that the prior is flat.
    let (prior_mean, prior_std) = match ensemble {
        Some(ensemble) => {
            let moments = ensemble.moments(context.grid())?;
            (moments.mean, moments.variance.into_iter().map(f64::sqrt).collect())
        }
        None => (vec![0.0; num_nodes], vec![0.0; num_nodes]),
    };
    let descriptor = GraphDescriptor { context, prior_mean: &prior_mean, prior_std: &prior_std, num_measured: 0 };
    let conductances = match &preset.graph {
        Graph::Uniform => UniformGraph.predict(&descriptor)?,
        Graph::EdgeAware => EdgeAware::default().predict(&descriptor)?,
        Graph::Guided { scale } => {
            let luminance = context.luminance().ok_or_else(|| {
                Failure::input(
                    format!("preset `{}`: a guided graph needs the context channels red, green and blue", preset.name),
                    "it is made for scenes with a picture, such as `gpara demo depth`",
                )
            })?;
            Guided::new(luminance, *scale)?.predict(&descriptor)?
        }
        Graph::Network { model } | Graph::Believed { model } => models.graph(model, task.name)?.predict(&descriptor)?,
    };
    Ok(scale_of(preset).precision(conductances)?)
}

fn scale_of(preset: &Preset) -> PrecisionScale {
    PrecisionScale {
        residual_precision: preset.residual_precision,
        graph_coupling: preset.graph_coupling,
        kappa_squared: preset.kappa_squared,
    }
}

fn reconstructor(
    preset: &Preset,
    models: &dyn ModelSource,
    task: Task,
    sampled: Option<&SampledPrior>,
) -> Outcome<Box<dyn Reconstructor>> {
    Ok(match (&preset.reconstruct, &preset.prior, sampled) {
        (Reconstruct::Trajectories { num_trajectories, schedule }, _, Some(sampled)) => {
            let settings = TrajectorySettings {
                sampler: sampled.sampler.clone(),
                num_trajectories: *num_trajectories,
                schedule: *schedule,
                correction: preset.correction,
            };
            Box::new(TrajectoryReconstructor::new(Arc::clone(&sampled.denoiser), settings))
        }
        (Reconstruct::MeanNetwork(network), _, _) => {
            network.reconstructor(models, task, preset.acquisition.noise_std)?
        }
        (Reconstruct::Gaussian, Prior::Gaussian { mean }, _) => {
            let mean = PriorMean::Fitted { without_measurements: *mean };
            let settings = GaussianSettings { mean, scale: StdScale::Fitted, num_samples: 0 };
            Box::new(BeyondMask::new(GaussianReconstructor::new(settings)))
        }
        _ => unreachable!("a checked preset pairs its reconstruction with its prior"),
    })
}
