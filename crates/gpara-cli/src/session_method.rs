//! The method of a session: the Gaussian one of the library, or a preset with networks of this binary.

use gpara::{
    Context, Correction, EnsembleMoments, Posterior, PriorEnsemble, Reconstruction, ReconstructionInput, RiskRule,
    RiskSettings, SeedTree, StdSource, UtilityMethod,
};
use gpara_nn::Card;
use gpara_session::{
    FieldModel, Method, ModelInput, PredictedStd, Prediction, SessionPrior, Settings, Task as SessionTask,
    gaussian_method, sha256_hex,
};
use gpara_tasks::radio::INVALID_VALUE;

use crate::embedded_models::EmbeddedModel;
use crate::failure::{Failure, Outcome};
use crate::model_source::EmbeddedSource;
use crate::preset::{Graph, Preset, Prior, Reconstruct, Task, draw_prior, mean_reconstructor, residual_precision};

/// The method that the settings of a session name.
pub(crate) fn method_of(settings: &Settings) -> Outcome<Box<dyn Method>> {
    match &settings.prior {
        SessionPrior::Preset { name, text } => {
            let task = match settings.task {
                SessionTask::Radio { .. } => "radio",
                SessionTask::Field => "field",
            };
            Ok(Box::new(PresetMethod::new(Preset::parse(name, text)?, task)?))
        }
        SessionPrior::Fitted(_) | SessionPrior::Gaussian { .. } => {
            Ok(gaussian_method(&settings.prior).expect("the prior is Gaussian"))
        }
    }
}

/// The prior of a session from the preset's name: networks stay a preset, a Gaussian prior is taken out of it.
pub(crate) fn prior_of(preset: &Preset) -> Outcome<SessionPrior> {
    let Prior::Gaussian { mean } = preset.prior else {
        PresetMethod::new(preset.clone(), "radio")?;
        return Ok(SessionPrior::Preset { name: preset.name.clone(), text: preset.text.clone() });
    };
    if preset.graph != Graph::Uniform || preset.kappa_squared.is_some() || preset.reconstruct != Reconstruct::Gaussian {
        return Err(Failure::input(
            format!("preset `{}` cannot serve a session: its graph or its mean is not that of `gaussian`", preset.name),
            "`--preset best` and `--preset gaussian` can",
        ));
    }
    let (residual_precision, graph_coupling) = (preset.residual_precision, preset.graph_coupling);
    Ok(SessionPrior::Gaussian { level: mean, residual_precision, graph_coupling })
}

/// A preset with a sampled prior and a mean network.
struct PresetMethod {
    preset: Preset,
    task: Task,
    identity: String,
    std_scale: f64,
}

impl PresetMethod {
    fn new(preset: Preset, task: &'static str) -> Outcome<Self> {
        let refused = |what: &str| {
            Failure::input(
                format!("preset `{}` cannot serve a session: {what}", preset.name),
                "`--preset best` and `--preset gaussian` can",
            )
        };
        if preset.acquisition.utility != UtilityMethod::Exact {
            return Err(refused("its utilities are estimated, an answer could not be repeated in another order"));
        }
        let std_scale = match preset.reconstruct {
            Reconstruct::MeanNetwork { std: StdSource::Posterior { scale }, .. } => scale,
            Reconstruct::MeanNetwork { std: StdSource::Network, quick_std_scale: Some(scale), .. } => scale,
            _ => return Err(refused("it has no mean network with a std that is known without a network")),
        };
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
        let task = Task { name: task, invalid_value: Some(f64::from(INVALID_VALUE)) };
        Ok(Self { preset, task, identity, std_scale })
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

    /// A belief costs two network evaluations a round, so a session weighs by its samples, or all cells alike, in its place.
    fn risk(&self) -> RiskRule {
        match (self.preset.acquisition.risk, &self.preset.prior) {
            (RiskRule::PredictedSpread, Prior::Network { .. }) => RiskRule::EnsembleSpread(RiskSettings::default()),
            (RiskRule::PredictedSpread, Prior::Gaussian { .. }) => RiskRule::Uniform,
            (risk, _) => risk,
        }
    }

    fn draw_prior(&self, context: &Context, seeds: SeedTree) -> gpara::Result<Option<PriorEnsemble>> {
        let drawn = draw_prior(&self.preset, &EmbeddedSource, self.task, context, seeds);
        drawn.map_err(Failure::into_library_error)
    }

    fn draws_prior(&self) -> bool {
        matches!(self.preset.prior, Prior::Network { .. })
    }

    fn model(&self, input: &ModelInput<'_>) -> gpara::Result<FieldModel> {
        let precision = residual_precision(&self.preset, &EmbeddedSource, self.task, input.context, input.ensemble);
        Ok(FieldModel::plain(precision.map_err(Failure::into_library_error)?, input.observations))
    }

    /// The samples conditioned by the graph: their mean, and their spread beside that of the graph.
    fn predict(
        &self,
        input: &ReconstructionInput<'_>,
        _: &FieldModel,
        posterior: &Posterior,
    ) -> gpara::Result<Prediction> {
        let std = |spread| PredictedStd::Posterior { scale: self.std_scale, spread, nugget_std: 0.0 };
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
        let variances = model.posterior()?.variances()?;
        Ok(Some(variances.into_iter().map(|variance| self.std_scale * variance.sqrt()).collect()))
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
