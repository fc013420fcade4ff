//! Networks that are not trained any more: the prior's ensembles and clean estimates, the graph's conductances.

use std::path::Path;

use gpara::{NoiseSchedule, Result, SeedTree};
use gpara_nn::SPREAD_GAIN;
use tch::{Device, Kind, Tensor, nn};

use crate::batches::with_measurements;
use crate::conditioner::conductances;
use crate::config::{Role, TrainConfig};
use crate::config_stages::ConditionerConfig;
use crate::data::Maps;
use crate::error::TrainError;
use crate::guided::batch_fields;
use crate::measured_maps::MeasuredMaps;
use crate::objective::clean_estimate;
use crate::spread_stage::log_scales;
use crate::target::BatchScale;
use crate::unet::UNet;
use crate::validation::timestep;
use crate::weights;

/// Maps sampled at once.
const BATCH: i64 = 32;

/// A network read from the folder of the run.
pub(crate) struct Frozen {
    network: UNet,
    config: TrainConfig,
    schedule: NoiseSchedule,
    _store: nn::VarStore,
}

impl Frozen {
    /// Reads `NAME.safetensors`.
    ///
    /// # Errors
    /// Those of reading weights; `Incompatible` if it has another role or is of another task.
    pub(crate) fn read(folder: &Path, name: &str, role: Role, like: &TrainConfig, device: Device) -> Result<Self> {
        let path = folder.join(format!("{name}.safetensors"));
        let (network, store, facts) = weights::read(&path, device)?;
        let config = facts.config;
        require(&config, &path, name, role, like)?;
        Ok(Self { network, config, schedule: NoiseSchedule::ddpm(), _store: store })
    }

    /// Whether it is a mean that corrects the guided field.
    pub(crate) fn reads_guided_field(&self) -> bool {
        self.config.guided_field
    }

    /// The guided fields of a batch, if the network reads them; shapes of [`batch_fields`].
    ///
    /// # Errors
    /// Those of [`batch_fields`].
    pub(crate) fn guided_fields(
        &self,
        context: &Tensor,
        valid: &Tensor,
        clean: &Tensor,
        measured: &Tensor,
    ) -> Result<Option<Tensor>> {
        let fields = self.reads_guided_field().then(|| batch_fields(self.config.data, context, valid, clean, measured));
        fields.transpose()
    }

    /// Samples of the prior without measurements, `[n, L, H, W]`: the cached ensembles of the method.
    ///
    /// # Errors
    /// `InvalidInput` if the grid of reverse steps does not fit the schedule.
    pub(crate) fn ensembles(&self, maps: &Maps, conditioner: &ConditionerConfig, seeds: SeedTree) -> Result<Tensor> {
        let steps = self.schedule.respace(&self.schedule.spaced_timesteps(conditioner.num_steps)?)?;
        tch::manual_seed(seeds.stream("ensembles").index(1 << 31) as i64);
        tch::no_grad(|| {
            let mut pieces = Vec::new();
            let num_maps = maps.ids.len() as i64;
            for first in (0..num_maps).step_by(BATCH as usize) {
                let count = BATCH.min(num_maps - first);
                let like = maps.fields.narrow(0, first, count);
                let context = self.context(&maps.contexts.narrow(0, first, count), None, &like);
                let samples: Vec<Tensor> = (0..conditioner.ensemble_size)
                    .map(|_| {
                        let mut noisy = like.randn_like();
                        for step in &steps {
                            let output = self.network.forward(&noisy, &timestep(step.timestep, &like), &context, false);
                            let clean = clean_estimate(self.config.parameterization, &noisy, &output, step.alpha_bar);
                            let coefficients = step.coefficients;
                            noisy = clean * coefficients.clean
                                + &noisy * coefficients.noisy
                                + like.randn_like() * coefficients.noise_variance.sqrt();
                        }
                        noisy
                    })
                    .collect();
                pieces.push(Tensor::cat(&samples, 1));
            }
            Ok(Tensor::cat(&pieces, 0))
        })
    }

    /// Clean estimates, clipped to [-1, 1], of fields diffused to one timestep each; `[B, 1, H, W]`.
    ///
    /// # Shapes
    /// * `clean`, `measured` - `[B, 1, H, W]`; `context` - `[B, C, H, W]`; `timesteps` - `[B]`
    pub(crate) fn clean_estimates(
        &self,
        clean: &Tensor,
        context: &Tensor,
        measured: &Tensor,
        timesteps: &Tensor,
    ) -> Tensor {
        tch::no_grad(|| {
            let steps: Vec<i64> = Vec::try_from(timesteps).expect("timesteps are integers");
            let of = |value: fn(f64) -> f64| {
                let values: Vec<f32> =
                    steps.iter().map(|&step| value(self.schedule.alpha_bar(step as usize)) as f32).collect();
                Tensor::from_slice(&values).to_device(clean.device()).view([-1, 1, 1, 1])
            };
            let (signal, noise) = (of(f64::sqrt), of(|alpha_bar| (1.0 - alpha_bar).sqrt()));
            let noisy = &signal * clean + &noise * clean.randn_like();
            let context = self.context(context, Some(measured), clean);
            let output = self.network.forward(&noisy, &timesteps.to_kind(Kind::Float), &context, false);
            let estimates: Vec<Tensor> = steps
                .iter()
                .enumerate()
                .map(|(sample, &step)| {
                    let row = |tensor: &Tensor| tensor.narrow(0, sample as i64, 1);
                    let alpha_bar = self.schedule.alpha_bar(step as usize);
                    clean_estimate(self.config.parameterization, &row(&noisy), &row(&output), alpha_bar)
                })
                .collect();
            Tensor::cat(&estimates, 0)
        })
    }

    /// The estimate of a mean network given the measured cells; `[B, 1, H, W]`.
    pub(crate) fn mean_estimates(&self, maps: &MeasuredMaps) -> Tensor {
        let MeasuredMaps { clean, context, guided, measured, .. } = maps;
        tch::no_grad(|| {
            let scale = BatchScale::of(self.config.target, Some(measured), clean);
            let context = match self.config.measurements {
                true => with_measurements(context, guided.as_ref(), measured, clean, &scale),
                false => context.shallow_clone(),
            };
            let last = timestep(self.schedule.num_steps() - 1, clean);
            scale.inverse(&self.network.forward(&clean.zeros_like(), &last, &context, false))
        })
    }

    /// The standard deviation `[B, 1, H, W]` that a spread network expects of `clean - mean`.
    pub(crate) fn spreads(&self, mean: &Tensor, maps: &MeasuredMaps) -> Tensor {
        tch::no_grad(|| log_scales(&self.network, mean, maps, false).exp() * std::f64::consts::SQRT_2)
    }

    /// Conductances `[n, 4, H, W]` of a graph network from the cached ensembles.
    pub(crate) fn conductances(&self, maps: &Maps, ensembles: &Tensor) -> Tensor {
        tch::no_grad(|| {
            let logits: Vec<Tensor> = (0..maps.ids.len() as i64)
                .map(|map| {
                    let row = |tensor: &Tensor| tensor.narrow(0, map, 1);
                    let (mean, spread) = moments(&row(ensembles));
                    logits(&self.network, &mean, &spread, &row(&maps.contexts), false)
                })
                .collect();
            conductances(&Tensor::cat(&logits, 0), &maps.valid)
        })
    }

    /// The context as this network was trained on it.
    fn context(&self, context: &Tensor, measured: Option<&Tensor>, clean: &Tensor) -> Tensor {
        if !self.config.measurements {
            return context.shallow_clone();
        }
        let none = clean.zeros_like();
        with_measurements(context, None, measured.unwrap_or(&none), clean, &BatchScale::Identity)
    }
}

/// Refuses the weights of a run of another role or task.
///
/// # Errors
/// `Incompatible`.
pub(crate) fn require(config: &TrainConfig, path: &Path, name: &str, role: Role, like: &TrainConfig) -> Result<()> {
    if config.role != role {
        return Err(TrainError::Role { name: name.into(), found: config.role, expected: role }.into());
    }
    if config.data.task() != like.data.task() {
        let reason = format!("it is of task {}, {} is needed", config.data.task(), like.data.task());
        return Err(TrainError::File { path: path.into(), reason }.into());
    }
    Ok(())
}

/// Mean and standard deviation (divisor L - 1) of ensembles `[B, L, H, W]`, each `[B, 1, H, W]`.
pub(crate) fn moments(ensembles: &Tensor) -> (Tensor, Tensor) {
    let mean = ensembles.mean_dim([1].as_slice(), true, Kind::Float);
    let std = ensembles.std_dim([1].as_slice(), true, true);
    (mean, std)
}

/// Edge logits `[B, 4, H, W]` of a graph network from c_g: context, ensemble mean, 5 x ensemble std.
pub(crate) fn logits(network: &UNet, mean: &Tensor, std: &Tensor, context: &Tensor, train: bool) -> Tensor {
    let context = Tensor::cat(&[context, &(std * SPREAD_GAIN)], 1);
    network.forward(mean, &timestep(0, mean), &context, train)
}
