//! A trained network behind the traits of the core, on libtorch: for evaluations of many maps on a GPU.

mod gather;
mod linearize;
mod spread;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use gpara::{Context, Denoiser, DenoiserInput, Grid, MeanPredictor, NoiseSchedule, Observations, Pullback, Result};
use gpara_nn::{ContextReader, TargetScale};
use tch::{Device, nn};

use self::gather::{Gather, Request};
use crate::config::{Role, TrainConfig};
use crate::error::TrainError;
use crate::unet::UNet;
use crate::weights::{self, RunFacts};

/// A weights file, `NAME.safetensors`, as a [`Denoiser`] (role `prior`), a [`MeanPredictor`] (role `mean`) or a
/// [`SpreadPredictor`](gpara::SpreadPredictor) (role `spread`).
///
/// All states of a call go through the device in one batch, which may change the last bits of an answer; where the same
/// bits are needed for any batch, use the exported network with `gpara-nn`. Convolutions on a GPU round to TF32 unless
/// the environment has `NVIDIA_TF32_OVERRIDE=0`. Calls from several threads wait for each other; on a GPU those that wait go
/// through it together.
#[derive(Debug)]
pub struct TorchNetwork {
    facts: RunFacts,
    channels: Vec<String>,
    schedule: NoiseSchedule,
    device: Device,
    weights: Mutex<Weights>,
    gather: Gather,
    /// Whether calls that wait are run in one batch. Not on a CPU: it gains nothing there, and an answer would depend on the
    /// calls beside it.
    together: bool,
}

/// The network and the variables it reads.
#[derive(Debug)]
struct Weights {
    network: UNet,
    _store: nn::VarStore,
}

impl TorchNetwork {
    /// Reads a weights file and moves it to a device; [`best_device`](crate::best_device) finds a GPU.
    ///
    /// # Errors
    /// Those of [`read_weights`](crate::read_weights).
    pub fn load(path: &Path, device: Device) -> Result<Self> {
        let (network, store, facts) = weights::read(path, device)?;
        let (channels, schedule) = (facts.config.channels(), NoiseSchedule::ddpm());
        let (gather, together) = (Gather::default(), device.is_cuda());
        let weights = Mutex::new(Weights { network, _store: store });
        Ok(Self { facts, channels, schedule, device, weights, gather, together })
    }

    /// What is known of its training.
    pub fn facts(&self) -> &RunFacts {
        &self.facts
    }

    /// Where it runs.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The raw output of the network: noise, velocity or clean field, as the configuration of the run says.
    ///
    /// # Shapes
    /// * `noisy` - `[batch, num_nodes]`
    /// * returns `[batch, num_nodes]`
    fn outputs(
        &self,
        noisy: &[f64],
        timestep: usize,
        context: &Context,
        observations: &Observations,
    ) -> Result<Vec<f32>> {
        let grid = context.grid();
        assert!(noisy.len().is_multiple_of(grid.num_nodes()), "states of {} values on {grid}", noisy.len());
        self.check(grid, observations, timestep)?;
        if noisy.is_empty() {
            return Ok(Vec::new());
        }
        // The boundary of f64 and f32: the only cast of a state.
        let request = Request {
            noisy: noisy.iter().map(|&value| value as f32).collect(),
            context: self.context_values(context, observations)?,
            timestep,
            sides: (grid.rows(), grid.cols()),
        };
        let output = if self.together {
            self.gather.run(request, &self.weights, self.device)?
        } else {
            let weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
            gather::forward(&weights, &[request], self.device).map_err(TrainError::Torch)?.remove(0)
        };
        if output.iter().all(|value| value.is_finite()) {
            return Ok(output);
        }
        Err(TrainError::Output { name: self.facts.config.name.clone(), timestep }.into())
    }

    fn check(&self, grid: Grid, observations: &Observations, timestep: usize) -> Result<()> {
        let name = || self.facts.config.name.clone();
        let (multiple, num_steps) = (self.facts.config.network.side_multiple(), self.schedule.num_steps());
        if observations.grid() != grid {
            let reason = format!("measurements are on a {} grid, the scene on {grid}", observations.grid());
            return Err(TrainError::Scene { name: name(), reason }.into());
        }
        if !grid.rows().is_multiple_of(multiple) || !grid.cols().is_multiple_of(multiple) {
            let reason = format!("the sides of a {grid} grid are no multiples of {multiple}");
            return Err(TrainError::Scene { name: name(), reason }.into());
        }
        if timestep >= num_steps {
            return Err(TrainError::Timestep { name: name(), timestep, last: num_steps - 1 }.into());
        }
        Ok(())
    }

    /// `[channels, num_nodes]` in the order of training.
    fn context_values(&self, context: &Context, observations: &Observations) -> Result<Vec<f32>> {
        let TrainConfig { name, target, .. } = &self.facts.config;
        let reader = ContextReader { network: name, channels: &self.channels, target: *target, extra: &[] };
        reader.read(context, observations)
    }

    /// The network's scale given the measurements.
    fn scale(&self, observations: &Observations) -> TargetScale {
        let measured: Vec<f64> = observations.iter().map(|observation| observation.value).collect();
        self.facts.config.target.scale(&measured)
    }

    fn require(&self, role: Role) -> Result<()> {
        let found = self.facts.config.role;
        if found == role {
            return Ok(());
        }
        Err(TrainError::Role { name: self.facts.config.name.clone(), found, expected: role }.into())
    }
}

impl Denoiser for TorchNetwork {
    fn name(&self) -> &str {
        &self.facts.config.name
    }

    fn sees_observations(&self) -> bool {
        self.facts.config.measurements
    }

    fn clean_estimates(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<()> {
        assert_eq!(clean.len(), input.noisy.len(), "one clean estimate a noisy value");
        self.require(Role::Prior)?;
        let outputs = self.outputs(input.noisy, input.timestep, input.context, input.observations)?;
        let parameterization = self.facts.config.parameterization.parameterization();
        let parameterization = parameterization.expect("a prior's configuration names a field output");
        // In f64: the noise form divides by sqrt(alpha_bar), 0.006 at the last timestep.
        let alpha_bar = self.schedule.alpha_bar(input.timestep);
        for ((clean, &noisy), &output) in clean.iter_mut().zip(input.noisy).zip(&outputs) {
            *clean = parameterization.clean_estimate(noisy, f64::from(output), alpha_bar);
        }
        Ok(())
    }

    fn linearize(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<Box<dyn Pullback>> {
        self.linearized(input, clean)
    }
}

impl MeanPredictor for TorchNetwork {
    fn name(&self) -> &str {
        &self.facts.config.name
    }

    /// One evaluation with a zero state at the last timestep.
    fn predict(&self, context: &Context, observations: &Observations) -> Result<Vec<f64>> {
        self.require(Role::Mean)?;
        let zero = vec![0.0; context.grid().num_nodes()];
        let outputs = self.outputs(&zero, self.schedule.num_steps() - 1, context, observations)?;
        let scale = self.scale(observations);
        Ok(outputs.into_iter().map(|value| scale.inverse(f64::from(value))).collect())
    }
}

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use super::*;
    use crate::config::{Keep, Output};
    use crate::flat::FlatParameters;
    use crate::unet::UNetConfig;
    use gpara::{Channel, ErrorKind, Observation, SeedTree, ValidMask};

    pub(super) fn config(role: Role, parameterization: Output) -> TrainConfig {
        let smoke = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/smoke_prior.toml");
        let mut config = TrainConfig::read(&smoke).unwrap();
        config.network = UNetConfig { widths: vec![4, 6], blocks: 1, groups: 2, time_dim: 16, ..config.network };
        (config.role, config.parameterization) = (role, parameterization);
        config
    }

    /// A random network as a weights file, loaded; `spoil` sees the variables before they are written.
    pub(super) fn network(
        config: TrainConfig,
        spoil: impl Fn(&str, &mut Tensor),
    ) -> (TorchNetwork, UNet, nn::VarStore) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.safetensors");
        let store = nn::VarStore::new(Device::Cpu);
        let _network = UNet::new(&store.root(), &config.network).unwrap();
        for (name, mut variable) in store.variables() {
            let mut stream = SeedTree::new(4).stream(&name);
            let values: Vec<f64> = (0..variable.numel()).map(|_| 0.3 * stream.normal()).collect();
            tch::no_grad(|| variable.copy_(&Tensor::from_slice(&values).view(variable.size().as_slice())));
            spoil(&name, &mut variable);
        }
        let facts = RunFacts {
            config,
            steps: 1,
            total_steps: None,
            kept: Keep::Last,
            seconds: 0.0,
            device: "none".into(),
            num_maps: 1,
            grid: [8, 12],
            validation: vec![],
        };
        weights::write(&path, &FlatParameters::new(&store), &facts).unwrap();
        let (expected, store, _) = weights::read(&path, Device::Cpu).unwrap();
        (TorchNetwork::load(&path, Device::Cpu).unwrap(), expected, store)
    }

    pub(super) fn random(name: &str, count: usize) -> Vec<f64> {
        let mut stream = SeedTree::new(9).stream(name);
        (0..count).map(|_| stream.normal()).collect()
    }

    pub(super) fn scene(grid: Grid) -> (Context, Observations) {
        let channels = gpara_tasks::radio::CHANNELS
            .iter()
            .map(|name| Channel {
                name: name.to_string(),
                values: random(name, grid.num_nodes()).into_iter().map(|value| value as f32).collect(),
            })
            // The network asks for channels by name: another one in front must not shift them.
            .rev()
            .collect();
        let context = Context::new(ValidMask::all(grid), channels).unwrap();
        let mut observations = Observations::none(grid);
        let measured = [3, 40, 77].map(|node| Observation { node, value: 0.01 * node as f64, noise_std: 1e-4 });
        observations.add(context.valid(), &measured).unwrap();
        (context, observations)
    }

    pub(super) fn forward(
        network: &UNet,
        noisy: &[f64],
        t: usize,
        context: &Context,
        observations: &Observations,
    ) -> Vec<f32> {
        let grid = context.grid();
        let image = |values: Vec<f32>| Tensor::from_slice(&values).view([1, 1, grid.rows() as i64, grid.cols() as i64]);
        let mut channels: Vec<Tensor> =
            gpara_tasks::radio::CHANNELS.iter().map(|name| image(context.channel(name).unwrap().to_vec())).collect();
        let mut measured = [vec![0f32; grid.num_nodes()], vec![0f32; grid.num_nodes()]];
        for observation in observations.iter() {
            measured[0][observation.node] = 1.0;
            measured[1][observation.node] = observation.value as f32;
        }
        channels.extend(measured.map(image));
        let noisy = image(noisy.iter().map(|&value| value as f32).collect());
        let output = tch::no_grad(|| {
            network.forward(&noisy, &Tensor::from_slice(&[t as f32]), &Tensor::cat(&channels, 1), false)
        });
        Vec::try_from(output.reshape([-1])).unwrap()
    }

    #[test]
    fn parity_clean_estimates_are_those_of_the_network_for_every_parameterization() {
        let (grid, timestep) = (Grid::new(8, 12).unwrap(), 700);
        let (context, observations) = scene(grid);
        let noisy = random("noisy", grid.num_nodes());
        let alpha_bar = NoiseSchedule::ddpm().alpha_bar(timestep);
        for output in [Output::Noise, Output::Velocity, Output::Clean] {
            let (torch, network, _store) = network(config(Role::Prior, output), |_, _| {});
            let mut clean = vec![0.0; grid.num_nodes()];
            let input = DenoiserInput { noisy: &noisy, timestep, context: &context, observations: &observations };
            torch.clean_estimates(input, &mut clean).unwrap();
            let raw = forward(&network, &noisy, timestep, &context, &observations);
            assert!(raw.iter().any(|value| value.abs() > 0.1), "{output:?}: the network returns next to nothing");
            for ((&clean, &noisy), &raw) in clean.iter().zip(&noisy).zip(&raw) {
                let expected = output.parameterization().unwrap().clean_estimate(noisy, f64::from(raw), alpha_bar);
                assert!((clean - expected).abs() < 1e-6, "{output:?}: {clean} for {expected}");
            }
        }
    }

    #[test]
    fn batch_of_four_equals_four_single_states() {
        let grid = Grid::new(8, 12).unwrap();
        let (context, observations) = scene(grid);
        let (torch, _, _store) = network(config(Role::Prior, Output::Velocity), |_, _| {});
        let noisy = random("noisy", 4 * grid.num_nodes());
        let estimate = |noisy: &[f64]| {
            let mut clean = vec![0.0; noisy.len()];
            let input = DenoiserInput { noisy, timestep: 250, context: &context, observations: &observations };
            torch.clean_estimates(input, &mut clean).unwrap();
            clean
        };
        let together = estimate(&noisy);
        let single: Vec<f64> = noisy.chunks(grid.num_nodes()).flat_map(estimate).collect();
        for (together, single) in together.iter().zip(&single) {
            assert!((together - single).abs() < 1e-5, "{together} {single}");
        }
    }

    #[test]
    fn prediction_is_one_evaluation_of_zero_at_the_last_timestep() {
        let grid = Grid::new(8, 12).unwrap();
        let (context, observations) = scene(grid);
        let (torch, network, _store) = network(config(Role::Mean, Output::Clean), |_, _| {});
        let expected = forward(&network, &vec![0.0; grid.num_nodes()], 999, &context, &observations);
        let found = torch.predict(&context, &observations).unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - f64::from(*expected)).abs() < 1e-6);
        }
        let empty = torch.predict(&context, &Observations::none(grid)).unwrap();
        assert_ne!(found, empty, "the measurements reach the network");
    }

    #[test]
    fn bad_role_scene_channel_and_timestep_are_told_apart() {
        let grid = Grid::new(8, 12).unwrap();
        let (context, observations) = scene(grid);
        let (torch, _, _store) = network(config(Role::Prior, Output::Velocity), |_, _| {});
        assert_eq!(torch.predict(&context, &observations).unwrap_err().kind(), ErrorKind::Incompatible);
        let ask = |context: &Context, observations: &Observations, timestep| {
            let noisy = vec![0.0; context.grid().num_nodes()];
            let input = DenoiserInput { noisy: &noisy, timestep, context, observations };
            torch.clean_estimates(input, &mut noisy.clone()).unwrap_err()
        };
        let error = ask(&Context::empty(grid), &observations, 5);
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.to_string().contains("`building`"), "{error}");
        let other = Grid::new(8, 8).unwrap();
        assert_eq!(ask(&context, &Observations::none(other), 5).kind(), ErrorKind::ShapeMismatch);
        let odd = Grid::new(8, 11).unwrap();
        let (odd_context, _) = scene(odd);
        assert_eq!(ask(&odd_context, &Observations::none(odd), 5).kind(), ErrorKind::ShapeMismatch);
        assert_eq!(ask(&context, &observations, 1000).kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn output_that_is_no_number_names_the_timestep() {
        let grid = Grid::new(8, 12).unwrap();
        let (context, observations) = scene(grid);
        let spoil = |name: &str, variable: &mut Tensor| {
            if name == "conv_out.bias" {
                let _ = tch::no_grad(|| variable.fill_(f64::NAN));
            }
        };
        let (torch, _, _store) = network(config(Role::Prior, Output::Velocity), spoil);
        let mut clean = vec![0.0; grid.num_nodes()];
        let noisy = clean.clone();
        let input = DenoiserInput { noisy: &noisy, timestep: 749, context: &context, observations: &observations };
        let error = torch.clean_estimates(input, &mut clean).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NonFinite);
        assert!(error.to_string().contains("749"), "{error}");
    }

    #[test]
    fn network_can_be_shared_by_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<TorchNetwork>();
    }
}
