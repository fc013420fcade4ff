//! The gradient of clean estimates by the noisy states, by libtorch's automatic differentiation.

use std::sync::PoisonError;

use gpara::{DenoiserInput, Pullback, Result};
use tch::{Kind, Tensor};

use super::TorchNetwork;
use crate::config::Role;
use crate::error::TrainError;

/// The graph of one evaluation: clean = direct * noisy + through * output(noisy).
struct TorchPullback {
    name: String,
    timestep: usize,
    noisy: Tensor,
    output: Tensor,
    direct: f64,
    through: f64,
}

impl TorchNetwork {
    /// The clean estimates, and the derivative that the graph of this evaluation holds.
    pub(super) fn linearized(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<Box<dyn Pullback>> {
        let DenoiserInput { noisy, timestep, context, observations } = input;
        assert_eq!(clean.len(), noisy.len(), "one clean estimate a noisy value");
        self.require(Role::Prior)?;
        let grid = context.grid();
        assert!(noisy.len().is_multiple_of(grid.num_nodes()), "states of {} values on {grid}", noisy.len());
        self.check(grid, observations, timestep)?;
        let parameterization = self.facts.config.parameterization.parameterization();
        let parameterization = parameterization.expect("a prior's configuration names a field output");
        // In f64, as without a gradient; linear in both, so two values of it give the two factors.
        let alpha_bar = self.schedule.alpha_bar(timestep);
        let direct = parameterization.clean_estimate(1.0, 0.0, alpha_bar);
        let through = parameterization.clean_estimate(0.0, 1.0, alpha_bar);

        let batch = (noisy.len() / grid.num_nodes()) as i64;
        let (rows, cols) = (grid.rows() as i64, grid.cols() as i64);
        let channels = self.context_values(context, observations)?;
        let states: Vec<f32> = noisy.iter().map(|&value| value as f32).collect();
        let states = Tensor::from_slice(&states).view([batch, 1, rows, cols]).to_device(self.device);
        let states = states.set_requires_grad(true);
        let channels = Tensor::from_slice(&channels).view([1, -1, rows, cols]).to_device(self.device);
        let channels = channels.expand([batch, -1, -1, -1], false);
        let time = Tensor::full([batch], timestep as f64, (Kind::Float, self.device));
        let weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        let output = tch::with_grad(|| weights.network.forward(&states, &time, &channels, false)).reshape([-1]);
        drop(weights);

        let values: Vec<f32> = Vec::try_from(output.detach().to_device(tch::Device::Cpu)).map_err(TrainError::Torch)?;
        let name = self.facts.config.name.clone();
        if values.iter().any(|value| !value.is_finite()) {
            return Err(TrainError::Output { name, timestep }.into());
        }
        for ((clean, &noisy), &value) in clean.iter_mut().zip(noisy).zip(&values) {
            *clean = parameterization.clean_estimate(noisy, f64::from(value), alpha_bar);
        }
        Ok(Box::new(TorchPullback { name, timestep, noisy: states, output, direct, through }))
    }
}

impl Pullback for TorchPullback {
    fn pull_back(&self, cotangent: &[f64]) -> Result<Vec<f64>> {
        assert_eq!(cotangent.len(), self.output.numel(), "one cotangent a clean estimate");
        let of_output: Vec<f32> = cotangent.iter().map(|value| (self.through * value) as f32).collect();
        let of_output = Tensor::from_slice(&of_output).to_device(self.output.device());
        let value = (&self.output * of_output).sum(Kind::Float);
        // The graph is kept: a caller may ask again with another cotangent.
        let gradient = Tensor::f_run_backward(&[&value], &[&self.noisy], true, false).map_err(TrainError::Torch)?;
        let gradient = gradient[0].reshape([-1]).to_device(tch::Device::Cpu);
        let gradient: Vec<f32> = Vec::try_from(gradient).map_err(TrainError::Torch)?;
        if gradient.iter().any(|value| !value.is_finite()) {
            return Err(TrainError::Output { name: self.name.clone(), timestep: self.timestep }.into());
        }
        let both = gradient.into_iter().zip(cotangent);
        Ok(both.map(|(network, cotangent)| f64::from(network) + self.direct * cotangent).collect())
    }
}

#[cfg(test)]
mod tests {
    use gpara::{Denoiser, ErrorKind, Grid};

    use super::super::tests::{config, network, random, scene};
    use super::*;
    use crate::config::Output;

    #[test]
    fn pullback_matches_central_differences_and_the_estimate_without_it() {
        let grid = Grid::new(8, 12).unwrap();
        let (context, observations) = scene(grid);
        let (noisy, direction) = (random("noisy", 2 * 96), random("direction", 2 * 96));
        let cotangent = random("cotangent", 2 * 96);
        for output in [Output::Noise, Output::Velocity, Output::Clean] {
            let (torch, _, _store) = network(config(Role::Prior, output), |_, _| {});
            let estimates = |noisy: &[f64]| {
                let mut clean = vec![0.0; noisy.len()];
                let input = DenoiserInput { noisy, timestep: 400, context: &context, observations: &observations };
                torch.clean_estimates(input, &mut clean).unwrap();
                clean
            };
            let mut clean = vec![0.0; noisy.len()];
            let input = DenoiserInput { noisy: &noisy, timestep: 400, context: &context, observations: &observations };
            let pullback = torch.linearize(input, &mut clean).unwrap();
            for (found, expected) in clean.iter().zip(estimates(&noisy)) {
                assert!((found - expected).abs() < 1e-5, "{output:?}: {found} {expected}");
            }

            let gradient = pullback.pull_back(&cotangent).unwrap();
            let again = pullback.pull_back(&cotangent).unwrap();
            assert_eq!(gradient, again);
            let dot = |first: &[f64], second: &[f64]| first.iter().zip(second).map(|(a, b)| a * b).sum::<f64>();
            // The network rounds to 32 bits: a step of 1e-2 leaves about 1e-4 of the difference in doubt.
            let moved = |step: f64| noisy.iter().zip(&direction).map(|(x, d)| x + step * d).collect::<Vec<_>>();
            let difference =
                (dot(&cotangent, &estimates(&moved(1e-2))) - dot(&cotangent, &estimates(&moved(-1e-2)))) / 2e-2;
            let found = dot(&gradient, &direction);
            let scale = dot(&gradient, &gradient).sqrt() * dot(&direction, &direction).sqrt();
            assert!((found - difference).abs() < 2e-3 * scale, "{output:?}: {found} {difference} {scale}");
            assert!(scale > 1.0, "{output:?}: the gradient is next to nothing");
        }
    }

    #[test]
    fn network_for_means_has_no_pullback() {
        let grid = Grid::new(8, 12).unwrap();
        let (context, observations) = scene(grid);
        let (torch, _, _store) = network(config(Role::Mean, Output::Clean), |_, _| {});
        let noisy = random("noisy", 96);
        let input = DenoiserInput { noisy: &noisy, timestep: 400, context: &context, observations: &observations };
        let error = torch.linearize(input, &mut noisy.clone()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
    }
}
