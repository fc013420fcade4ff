//! One training state of the scorer: a set of measurements, what the policy then knows, what the teacher says.

use gpara::{
    AcquisitionState, Channel, Conductances, Context, Correction, EnsembleMoments, MeanSolver, Observation,
    Observations, Posterior, ResidualPrecision, Result, RiskSettings, RiskWeights, UtilityMoments, ValidMask,
    ValueRange, normalized_utility,
};
use gpara_nn::ScorerInput;
use tch::Tensor;

use crate::config::TrainConfig;
use crate::config_stages::{ConditionerConfig, ScorerConfig};
use crate::data::Maps;
use crate::error::TrainError;
use crate::teacher::{TeacherInput, linear_response_benefit, teacher_score};

/// A scene as the core sees it.
pub(crate) struct ScorerScene {
    pub(crate) context: Context,
    pub(crate) precision: ResidualPrecision,
    pub(crate) truth: Vec<f64>,
    /// `[L, num_nodes]`, and its mean.
    pub(crate) ensemble: Vec<f64>,
    pub(crate) prior_mean: Vec<f64>,
}

/// How the ensemble is conditioned on the measurements (Eq. 13).
pub(crate) fn correction(conditioner: &ConditionerConfig) -> Correction {
    let solver = MeanSolver::Jacobi { iterations: conditioner.sweeps };
    Correction { solver, strength: conditioner.strength, range: Some(ValueRange::UNIT) }
}

/// What a network reads and learns from one state; `num_nodes` values a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScorerSample {
    pub(crate) input: ScorerInput,
    /// U_bar at candidates, 0 elsewhere.
    pub(crate) anchor: Vec<f64>,
    /// h at candidates, 0 elsewhere.
    pub(crate) teacher: Vec<f64>,
    /// 1 at candidates.
    pub(crate) candidates: Vec<f64>,
}

/// The scenes of all maps; `ensembles` is `[n, L, H, W]`, `conductances` `[n, 4, H, W]`.
///
/// # Errors
/// Those of the core for values that are not finite.
pub(crate) fn scenes(
    config: &TrainConfig,
    maps: &Maps,
    ensembles: &Tensor,
    conductances: &Tensor,
) -> Result<Vec<ScorerScene>> {
    let conditioner = config.conditioner.as_ref().expect("checked with the role");
    let (names, grid) = (config.data.channels(), maps.grid);
    let num_nodes = grid.num_nodes();
    let values = |tensor: &Tensor, map: usize| -> Result<Vec<f64>> {
        let row = tensor.get(map as i64).to_device(tch::Device::Cpu).to_kind(tch::Kind::Double).contiguous();
        Ok(Vec::try_from(row.view(-1)).map_err(TrainError::Torch)?)
    };
    let scene = |map: usize| -> Result<ScorerScene> {
        let valid = ValidMask::new(grid, values(&maps.valid, map)?.iter().map(|&value| value > 0.5).collect())?;
        let context = values(&maps.contexts, map)?;
        let channels = names.iter().zip(context.chunks_exact(num_nodes)).map(|(name, values)| Channel {
            name: name.to_string(),
            values: values.iter().map(|&value| value as f32).collect(),
        });
        let context = Context::new(valid, channels.collect())?;
        let edges = values(conductances, map)?;
        let edges = std::array::from_fn(|direction| edges[direction * num_nodes..][..num_nodes].to_vec());
        let graph = Conductances::from_edges(edges, context.valid())?;
        let precision = ResidualPrecision::new(graph, conditioner.residual_precision, conditioner.graph_coupling)?;
        let ensemble = values(ensembles, map)?;
        let prior_mean = EnsembleMoments::of(&ensemble, grid)?.mean;
        Ok(ScorerScene { context, precision, truth: values(&maps.fields, map)?, ensemble, prior_mean })
    };
    (0..maps.ids.len()).map(scene).collect()
}

/// The state after the given nodes are measured.
///
/// # Errors
/// `InvalidInput` if every valid node is measured; those of the core.
pub(crate) fn sample(
    conditioner: &ConditionerConfig,
    scorer: &ScorerConfig,
    scene: &ScorerScene,
    measured: &[usize],
) -> Result<ScorerSample> {
    let ScorerScene { context, precision, truth, ensemble, prior_mean } = scene;
    let (valid, grid, noise_std) = (context.valid(), context.grid(), conditioner.noise_std);
    let mut observations = Observations::none(grid);
    let entries: Vec<Observation> =
        measured.iter().map(|&node| Observation { node, value: truth[node], noise_std }).collect();
    observations.add(valid, &entries)?;
    let posterior = Posterior::new(precision, &observations)?;
    let correction = correction(conditioner);
    let (refined, _) = correction.refine(&posterior, ensemble)?;
    let moments = EnsembleMoments::of(&refined, grid)?;
    let candidates: Vec<usize> = valid.nodes().filter(|&node| !observations.contains(node)).collect();
    let weights = RiskWeights::from_variance(&moments.variance, &candidates, &RiskSettings::default())?;
    let utilities = UtilityMoments::exact(&posterior, &weights, noise_std)?;
    let anchor = normalized_utility(&utilities.utility, &candidates);
    let state = AcquisitionState {
        context,
        posterior: &posterior,
        ensemble: &moments,
        weights: &weights,
        moments: &utilities,
        candidates: &candidates,
        normalized_utility: &anchor,
        budget: scorer.budget,
        remaining: scorer.budget.saturating_sub(observations.len()),
    };
    let input = ScorerInput::of(&state);
    let (unscaled, _) = posterior.mean_correction(prior_mean, correction.solver)?;
    let predicted: Vec<f64> = prior_mean.iter().zip(&unscaled).map(|(mean, m)| mean + m).collect();
    let benefit = linear_response_benefit(&TeacherInput {
        posterior: &posterior,
        valid,
        truth,
        estimate: &moments.mean,
        predicted: &predicted,
        noise_std,
        strength: conditioner.strength,
    })?;
    let of_candidates: Vec<f64> = candidates.iter().map(|&node| benefit[node]).collect();
    let teacher = teacher_score(&anchor, &of_candidates, scorer.anchor_share);
    let scattered = |values: &[f64]| {
        let mut map = vec![0.0; grid.num_nodes()];
        candidates.iter().zip(values).for_each(|(&node, &value)| map[node] = value);
        map
    };
    let (anchor, teacher) = (scattered(&anchor), scattered(&teacher));
    let candidates = scattered(&vec![1.0; candidates.len()]);
    Ok(ScorerSample { input, anchor, teacher, candidates })
}
