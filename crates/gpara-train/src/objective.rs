//! The loss of each role, and the clean estimate of a network's output.

use gpara::NoiseSchedule;
use gpara_nn::Target;
use tch::{Device, Kind, Reduction, Tensor};

use crate::batches::{Batch, with_measurements};
use crate::config::{MapError, Output, Role, TrainConfig};
use crate::target::BatchScale;
use crate::unet::UNet;

/// Added to the mean squared error of a map before its root is taken; an error of 1e-4, 0.5 mm of depth.
const LEAST_MEAN_SQUARE: f64 = 1e-8;

/// The forward process on the device.
#[derive(Debug)]
pub(crate) struct Objective {
    role: Role,
    output: Output,
    measurements: bool,
    target: Target,
    map_error: MapError,
    /// `[T]` sqrt(alpha_bar).
    signal: Tensor,
    /// `[T]` sqrt(1 - alpha_bar).
    noise: Tensor,
}

impl Objective {
    /// The objective of a configuration.
    pub(crate) fn new(config: &TrainConfig, schedule: &NoiseSchedule, device: Device) -> Self {
        let of = |value: fn(f64) -> f64| {
            let values: Vec<f32> =
                (0..schedule.num_steps()).map(|timestep| value(schedule.alpha_bar(timestep)) as f32).collect();
            Tensor::from_slice(&values).to_device(device)
        };
        let (signal, noise) = (of(f64::sqrt), of(|alpha_bar| (1.0 - alpha_bar).sqrt()));
        let TrainConfig { role, parameterization: output, measurements, target, map_error, .. } = *config;
        Self { role, output, measurements, target, map_error, signal, noise }
    }

    /// The mean loss of a batch.
    ///
    /// Prior: x_t = sqrt(alpha_bar) x0 + sqrt(1 - alpha_bar) eps (Eq. 1), mean squared error of the output over all cells.
    /// Mean: x = 0, the output taken out of the network's scale, mean squared error or its root over the valid cells of each map,
    /// then the mean over maps.
    pub(crate) fn loss(&self, network: &UNet, batch: &Batch) -> Tensor {
        let t = batch.timesteps.to_kind(Kind::Float);
        let scale = BatchScale::of(self.target, batch.measured.as_ref(), &batch.clean);
        let context = match &batch.measured {
            Some(measured) if self.measurements => {
                with_measurements(&batch.context, batch.guided.as_ref(), measured, &batch.clean, &scale)
            }
            _ => batch.context.shallow_clone(),
        };
        match self.role {
            Role::Mean => {
                let output = scale.inverse(&network.forward(&batch.clean.zeros_like(), &t, &context, true));
                let squares = (output - &batch.clean).square() * &batch.valid;
                let sum = |tensor: Tensor| tensor.sum_dim_intlist([1, 2, 3].as_slice(), false, Kind::Float);
                let mean_square = sum(squares) / sum(batch.valid.shallow_clone());
                match self.map_error {
                    MapError::MeanSquare => mean_square.mean(Kind::Float),
                    // The root has no slope at 0.
                    MapError::RootMeanSquare => (mean_square + LEAST_MEAN_SQUARE).sqrt().mean(Kind::Float),
                }
            }
            // The other roles have a stage of their own.
            Role::Prior | Role::Graph | Role::Scorer | Role::Spread => {
                let clean = &batch.clean;
                let of = |values: &Tensor| values.index_select(0, &batch.timesteps).view([-1, 1, 1, 1]);
                let (signal, noise) = (of(&self.signal), of(&self.noise));
                let eps = clean.randn_like();
                let noisy = &signal * clean + &noise * &eps;
                let output = network.forward(&noisy, &t, &context, true);
                let target = match self.output {
                    Output::Noise => eps,
                    Output::Velocity => signal * eps - noise * clean,
                    _ => clean.shallow_clone(),
                };
                output.mse_loss(&target, Reduction::Mean)
            }
        }
    }
}

/// The clean estimate (Eq. 2) of an output at one timestep, clipped to [-1, 1].
pub(crate) fn clean_estimate(output: Output, noisy: &Tensor, value: &Tensor, alpha_bar: f64) -> Tensor {
    let (signal, noise) = (alpha_bar.sqrt(), (1.0 - alpha_bar).sqrt());
    let clean = match output {
        Output::Noise => (noisy - value * noise) / signal,
        Output::Velocity => noisy * signal - value * noise,
        _ => value.shallow_clone(),
    };
    clean.clamp(-1.0, 1.0)
}
