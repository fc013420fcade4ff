//! The method of a session: the Gaussian one of the library, or a preset with networks of this binary.

use gpara::{
    Calibration, Context, Correction, EnsembleMoments, Observations, Posterior, PriorEnsemble, Reconstruction,
    ReconstructionInput, RiskRule, SeedTree, StdSource, UtilityMethod,
};
use gpara_nn::Card;
use gpara_session::{
    BelievedField, FieldModel, Method, ModelInput, PredictedStd, Prediction, SessionPrior, Settings,
    Task as SessionTask, gaussian_method, sha256_hex,
};
use gpara_tasks::radio::INVALID_VALUE;

use crate::embedded_models::EmbeddedModel;
use crate::failure::{Failure, Outcome};
use crate::model_source::{EmbeddedSource, ModelSource};
use crate::preset::{
    Graph, MeanNetwork, Preset, Prior, Reconstruct, Task, draw_prior, mean_reconstructor, residual_precision,
};

/// The method that the settings of a session name.
pub(crate) fn method_of(settings: &Settings) -> Outcome<Box<dyn Method>> {
    match &settings.prior {
        SessionPrior::Preset { name, text } => {
            Ok(Box::new(PresetMethod::new(Preset::parse(name, text)?, network_task(&settings.task))?))
        }
        SessionPrior::Fitted(_) | SessionPrior::Gaussian { .. } => {
            Ok(gaussian_method(&settings.prior).expect("the prior is Gaussian"))
        }
    }
}

/// What networks know of the kind of a scene.
pub(crate) fn network_task(task: &SessionTask) -> Task {
    match task {
        SessionTask::Radio { .. } => Task { name: "radio", invalid_value: Some(f64::from(INVALID_VALUE)) },
        SessionTask::Depth => Task { name: "depth", invalid_value: None },
        SessionTask::Field => Task { name: "field", invalid_value: None },
    }
}

/// The prior of a session from the preset's name: networks stay a preset, a Gaussian prior is taken out of it.
pub(crate) fn prior_of(preset: &Preset, task: &SessionTask) -> Outcome<SessionPrior> {
    if !preset.model_names().is_empty() {
        PresetMethod::new(preset.clone(), network_task(task))?;
        return Ok(SessionPrior::Preset { name: preset.name.clone(), text: preset.text.clone() });
    }
    let Prior::Gaussian { mean } = preset.prior else { unreachable!("a preset without networks is Gaussian") };
    if preset.graph != Graph::Uniform || preset.kappa_squared.is_some() || preset.reconstruct != Reconstruct::Gaussian {
        return Err(Failure::input(
            format!("preset `{}` cannot serve a session: its graph or its mean is not that of `gaussian`", preset.name),
            "`--preset best` and `--preset gaussian` can",
        ));
    }
    let (residual_precision, graph_coupling) = (preset.residual_precision, preset.graph_coupling);
    Ok(SessionPrior::Gaussian { level: mean, residual_precision, graph_coupling })
}

/// A preset with a mean network. Where it has a spread network, asks are weighed and predictions made by what both say of the
/// present measurements; otherwise by samples of its prior.
struct PresetMethod {
    preset: Preset,
    task: Task,
    identity: String,
    spread: SpreadOfMean,
}

/// Where the standard deviation of the mean's error comes from.
enum SpreadOfMean {
    /// The graph posterior's, times this.
    Posterior(f64),
    /// A network, with the calibration of its card.
    Network(Option<Calibration>),
}

impl PresetMethod {
    fn new(preset: Preset, task: Task) -> Outcome<Self> {
        let refused = |what: &str| {
            Failure::input(
                format!("preset `{}` cannot serve a session: {what}", preset.name),
                "`--preset best` and `--preset gaussian` can",
            )
        };
        if preset.acquisition.utility != UtilityMethod::Exact {
            return Err(refused("its utilities are estimated, an answer could not be repeated in another order"));
        }
        let spread = match preset.mean_network().map(|network| (network.settings.std, &network.spread)) {
            Some((StdSource::Posterior { scale }, _)) => SpreadOfMean::Posterior(scale),
            Some((StdSource::Network, Some(spread))) => {
                SpreadOfMean::Network(Card::parse(EmbeddedModel::named(&spread.model)?.card)?.calibration()?)
            }
            _ => return Err(refused("it has no mean network with a std of its own")),
        };
        if matches!(preset.graph, Graph::Believed { .. }) {
            return Err(refused("its graph is predicted anew from what is measured"));
        }
        if matches!(&preset.prior, Prior::Network { refresh_at, .. } if !refresh_at.is_empty()) {
            return Err(refused("its prior is drawn again as measurements come"));
        }
        if preset.acquisition.scorer.is_some() {
            return Err(refused("it has a scorer network"));
        }
        let mut identity = format!("preset {} {}", preset.name, sha256_hex(preset.text.as_bytes()));
        for name in preset.model_names() {
            let card = Card::parse(EmbeddedModel::named(name)?.card)?;
            identity.push_str(&format!(", {name} {}", card.sha256));
        }
        Ok(Self { preset, task, identity, spread })
    }
}

impl Method for PresetMethod {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn fits_level(&self) -> bool {
        false
    }

    fn correction(&self) -> Correction {
        self.preset.correction
    }

    fn risk(&self) -> RiskRule {
        self.preset.acquisition.risk
    }

    fn draw_prior(&self, context: &Context, seeds: SeedTree) -> gpara::Result<Option<PriorEnsemble>> {
        let drawn = draw_prior(&self.preset, &EmbeddedSource, self.task, context, seeds);
        drawn.map_err(Failure::into_library_error)
    }

    /// Samples weigh the asks of a preset that says so, and predict where no spread network does.
    fn draws_prior(&self) -> bool {
        let weighed = matches!(self.preset.acquisition.risk, RiskRule::EnsembleSpread(_));
        matches!(self.preset.prior, Prior::Network { .. }) && (weighed || !self.believes())
    }

    fn believes(&self) -> bool {
        matches!(self.spread, SpreadOfMean::Network(_))
    }

    fn believe(&self, context: &Context, observations: &Observations) -> gpara::Result<Option<BelievedField>> {
        let Some(MeanNetwork { model, spread: Some(spread), .. }) = self.preset.mean_network() else {
            return Ok(None);
        };
        let (models, task, nominal) = (&EmbeddedSource, self.task.name, self.preset.acquisition.noise_std);
        // Loading takes as long as a third of an evaluation.
        let (mean, spread) = rayon::join(
            || models.mean(model, task).map_err(Failure::into_library_error),
            || spread.predictor(models, self.task, nominal).map_err(Failure::into_library_error),
        );
        let (mean, spread) = (mean?, spread?);
        let mean = mean.predict(context, observations)?;
        let std = spread.predict_std(context, observations, &mean)?;
        Ok(Some(BelievedField { mean, std }))
    }

    fn model(&self, input: &ModelInput<'_>) -> gpara::Result<FieldModel> {
        let precision = residual_precision(&self.preset, &EmbeddedSource, self.task, input.context, input.ensemble);
        let mut model = FieldModel::plain(precision.map_err(Failure::into_library_error)?, input.observations);
        if let SpreadOfMean::Network(Some(calibration)) = &self.spread {
            model.interval_factors = calibration.of(input.context.valid(), input.observations).interval_factors;
        }
        Ok(model)
    }

    /// What the networks believe, corrected by the graph; without a spread network the samples conditioned by the graph: their
    /// mean, and their spread beside that of the graph.
    fn predict(
        &self,
        input: &ReconstructionInput<'_>,
        model: &FieldModel,
        posterior: &Posterior,
    ) -> gpara::Result<Prediction> {
        let scale = match (&self.spread, &model.believed) {
            (_, Some(believed)) => {
                let (mean, _) = self.preset.correction.refine(posterior, &believed.mean)?;
                let std = PredictedStd::Map(believed.std_given(input.observations));
                return Ok(Prediction { mean, std });
            }
            (SpreadOfMean::Posterior(scale), None) => *scale,
            (SpreadOfMean::Network(_), None) => {
                let mean = vec![0.0; posterior.grid().num_nodes()];
                return Ok(Prediction { mean, std: PredictedStd::Unknown });
            }
        };
        let std = |spread| PredictedStd::Posterior { scale, spread, nugget_std: 0.0 };
        let Some(ensemble) = input.ensemble else {
            return Ok(Prediction { mean: vec![0.0; posterior.grid().num_nodes()], std: std(None) });
        };
        let (refined, _) = self.preset.correction.refine(posterior, ensemble.as_slice())?;
        let EnsembleMoments { mean, variance } = EnsembleMoments::of(&refined, input.context.grid())?;
        Ok(Prediction { mean, std: std(Some(variance)) })
    }

    fn reconstruct(
        &self,
        input: &ReconstructionInput<'_>,
        _: &FieldModel,
        num_samples: usize,
    ) -> gpara::Result<Reconstruction> {
        let reconstructor = mean_reconstructor(&self.preset, &EmbeddedSource, self.task)
            .map_err(Failure::into_library_error)?
            .expect("the preset was checked to have a mean network");
        let mut made = reconstructor.reconstruct(input)?;
        if num_samples > 0 {
            made.samples = Some(self.conditioned_samples(input, num_samples)?);
        }
        Ok(made)
    }

    fn error_std(&self, _: &ReconstructionInput<'_>, model: &FieldModel) -> gpara::Result<Option<Vec<f64>>> {
        match (&self.spread, &model.believed) {
            (_, Some(believed)) => Ok(Some(believed.std_given(&model.observations))),
            (SpreadOfMean::Posterior(scale), None) => {
                let variances = model.posterior()?.variances()?;
                Ok(Some(variances.into_iter().map(|variance| scale * variance.sqrt()).collect()))
            }
            (SpreadOfMean::Network(_), None) => Ok(None),
        }
    }
}

impl PresetMethod {
    /// The session's prior samples after the measurements.
    fn conditioned_samples(&self, input: &ReconstructionInput<'_>, num_samples: usize) -> gpara::Result<PriorEnsemble> {
        let ensemble = input.ensemble.filter(|ensemble| ensemble.ensemble_size() >= num_samples).ok_or_else(|| {
            let drawn = input.ensemble.map_or(0, PriorEnsemble::ensemble_size);
            let message = format!("{num_samples} samples are wanted, the session's prior has {drawn}");
            Failure::input(message, format!("`--num-samples {drawn}` gives all of them")).into_library_error()
        })?;
        let posterior = Posterior::new(input.precision, input.observations)?;
        let (refined, _) = self.preset.correction.refine(&posterior, ensemble.as_slice())?;
        PriorEnsemble::new(refined, ensemble.num_nodes())
    }
}
