//! A trained scorer behind the trait of the core, on libtorch: campaigns of a training run follow it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use gpara::{AcquisitionState, Observations, Result, Scorer};
use gpara_nn::{ContextReader, ScorerInput};
use tch::{Device, Tensor, nn};

use crate::config::{Output, Role, TrainConfig};
use crate::error::TrainError;
use crate::frozen;
use crate::scorer_net::ScorerNet;
use crate::weights;

/// A weights file of role `scorer` as a [`Scorer`]; clones share the network, which answers one call at a time.
#[derive(Clone)]
pub(crate) struct TorchScorer(Arc<Shared>);

struct Shared {
    config: TrainConfig,
    device: Device,
    weights: Mutex<Weights>,
}

/// The network and the variables it reads.
struct Weights {
    network: ScorerNet,
    _store: nn::VarStore,
}

impl TorchScorer {
    /// Reads `NAME.safetensors`.
    ///
    /// # Errors
    /// Those of reading weights; `Incompatible` if it has another role or is of another task.
    pub(crate) fn read(folder: &Path, name: &str, like: &TrainConfig, device: Device) -> Result<Self> {
        let path = folder.join(format!("{name}.safetensors"));
        frozen::require(&weights::read_facts(&path)?.config, &path, name, Role::Scorer, like)?;
        let (network, store, facts) = weights::read_scorer(&path, device)?;
        Ok(Self::new(network, store, facts.config, device))
    }

    /// A network with its variables, of a run of that configuration.
    pub(crate) fn new(network: ScorerNet, store: nn::VarStore, config: TrainConfig, device: Device) -> Self {
        Self(Arc::new(Shared { config, device, weights: Mutex::new(Weights { network, _store: store }) }))
    }

    /// beta_acq that it was trained with.
    pub(crate) fn score_bound(&self) -> f64 {
        self.0.config.scorer.as_ref().expect("checked with the role").score_bound
    }

    /// The scene's channels in the order of training, then those of the state; `[C, num_nodes]`.
    fn channels(&self, state: &AcquisitionState<'_>, input: &ScorerInput) -> Result<Vec<f32>> {
        let TrainConfig { name, target, .. } = &self.0.config;
        let channels = self.0.config.channels();
        let reader = ContextReader { network: name, channels: &channels, target: *target, extra: &input.channels };
        reader.read(state.context, &Observations::none(state.context.grid()))
    }
}

impl Scorer for TorchScorer {
    fn name(&self) -> &str {
        &self.0.config.name
    }

    fn replaces_anchor(&self) -> bool {
        self.0.config.parameterization == Output::DirectScore
    }

    fn residual_score(&self, state: &AcquisitionState<'_>) -> Result<Vec<f64>> {
        let grid = state.context.grid();
        let input = ScorerInput::of(state);
        let image = |values: &[f32]| {
            let tensor = Tensor::from_slice(values).view([1, -1, grid.rows() as i64, grid.cols() as i64]);
            tensor.to_device(self.0.device)
        };
        let utility: Vec<f32> = input.utility.iter().map(|&value| value as f32).collect();
        let (utility, context) = (image(&utility), image(&self.channels(state, &input)?));
        let budget = Tensor::from_slice(&[input.budget]).to_device(self.0.device);
        let scores = {
            let weights = self.0.weights.lock().unwrap_or_else(PoisonError::into_inner);
            tch::no_grad(|| weights.network.forward(&utility, &budget, &context, false))
        };
        let scores = Vec::<f32>::try_from(scores.reshape([-1]).to_device(Device::Cpu)).map_err(TrainError::Torch)?;
        Ok(state.candidates.iter().map(|&node| f64::from(scores[node])).collect())
    }
}

#[cfg(test)]
mod tests {
    use gpara::{
        AcquisitionInput, BatchRule, Gpara, GparaSettings, Grid, Observation, Policy, PriorEnsemble, RiskRule,
        RiskSettings, SeedTree, UtilityMethod,
    };

    use super::*;
    use crate::scorer_rollout::tests::{config, scene};
    use crate::scorer_state::{correction, sample};

    /// The score of a training state, by the network alone.
    fn raw_score(network: &ScorerNet, input: &ScorerInput, scene: &[Vec<f32>], grid: Grid) -> Vec<f64> {
        let image = |values: &[f32]| Tensor::from_slice(values).view([1, 1, grid.rows() as i64, grid.cols() as i64]);
        let utility: Vec<f32> = input.utility.iter().map(|&value| value as f32).collect();
        let state = input.channels.iter().map(|channel| image(&channel.values));
        let context: Vec<Tensor> = scene.iter().map(|values| image(values)).chain(state).collect();
        let budget = Tensor::from_slice(&[input.budget]);
        let score = tch::no_grad(|| network.forward(&image(&utility), &budget, &Tensor::cat(&context, 1), false));
        Vec::<f32>::try_from(score.reshape([-1])).unwrap().into_iter().map(f64::from).collect()
    }

    #[test]
    fn parity_policy_scores_a_state_as_training_does_residual_and_direct() {
        let grid = Grid::new(8, 12).unwrap();
        let scene = scene(grid, "a");
        let channels: Vec<Vec<f32>> = scene.context.channels().iter().map(|channel| channel.values.clone()).collect();
        for output in [Output::ResidualScore, Output::DirectScore] {
            let mut config = config();
            config.parameterization = output;
            let store = nn::VarStore::new(Device::Cpu);
            let network = ScorerNet::new(&store.root(), &config).unwrap();
            for (name, mut variable) in store.variables() {
                let mut stream = SeedTree::new(3).stream(&name);
                let values: Vec<f64> = (0..variable.numel()).map(|_| 0.2 * stream.normal()).collect();
                tch::no_grad(|| variable.copy_(&Tensor::from_slice(&values).view(variable.size().as_slice())));
            }
            let (conditioner, table) = (config.conditioner.clone().unwrap(), config.scorer.clone().unwrap());
            let measured = [5, 40, 41, 90];
            let state = sample(&conditioner, &table, &scene, &measured).unwrap();
            let raw = raw_score(&network, &state.input, &channels, grid);

            let scorer = TorchScorer::new(network, store, config, Device::Cpu);
            let settings = GparaSettings {
                correction: correction(&conditioner),
                risk: RiskRule::EnsembleSpread(RiskSettings::default()),
                utility: UtilityMethod::Exact,
                score_bound: scorer.score_bound(),
                batch_rule: BatchRule::ExactKappa,
            };
            let noise_std = conditioner.noise_std;
            let mut observations = Observations::none(grid);
            let entries = measured.map(|node| Observation { node, value: scene.truth[node], noise_std });
            observations.add(scene.context.valid(), &entries).unwrap();
            let candidates: Vec<usize> =
                scene.context.valid().nodes().filter(|node| !measured.contains(node)).collect();
            let ensemble = PriorEnsemble::new(scene.ensemble.clone(), grid.num_nodes()).unwrap();
            let input = AcquisitionInput {
                context: &scene.context,
                candidates: &candidates,
                observations: &observations,
                pending: &[],
                ensemble: Some(&ensemble),
                precision: &scene.precision,
                noise_std,
                round: 0,
                budget: table.budget,
                seeds: SeedTree::new(1),
            };
            let scores = Gpara::new(settings, Box::new(scorer)).scores(&input).unwrap();
            assert!(raw.iter().any(|score| score.abs() > 0.1), "{output:?}: the network returns next to nothing");
            for (&node, &found) in candidates.iter().zip(&scores) {
                let expected = match output {
                    Output::DirectScore => raw[node],
                    _ => state.anchor[node] + 2.0 * raw[node].tanh(),
                };
                assert!((found - expected).abs() < 1e-5, "{output:?}, node {node}: {found} for {expected}");
            }
        }
    }
}
