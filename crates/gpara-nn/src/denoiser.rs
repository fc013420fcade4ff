//! The two roles of a network: a diffusion prior and a mean predictor.

use std::path::Path;
use std::sync::Arc;

use gpara::{Context, Denoiser, DenoiserInput, MeanPredictor, NoiseSchedule, Observations, Parameterization, Result};

use crate::card::Role;
use crate::network::Network;

/// A network of role `prior` as a [`Denoiser`].
///
/// # Example
/// ```no_run
/// use gpara::Denoiser;
/// use gpara_nn::OnnxDenoiser;
///
/// let prior = OnnxDenoiser::from_file("models/radio_prior.onnx".as_ref(), 2)?;
/// prior.network().card().require_task("radio")?;
/// println!("{}, sees measurements: {}", prior.name(), prior.sees_observations());
/// # Ok::<(), gpara::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct OnnxDenoiser {
    network: Arc<Network>,
    schedule: NoiseSchedule,
    parameterization: Parameterization,
}

impl OnnxDenoiser {
    /// The denoiser of a loaded network.
    ///
    /// # Errors
    /// `Incompatible` if its role is not `prior`.
    pub fn new(network: Arc<Network>) -> Result<Self> {
        network.card().require_role(Role::Prior)?;
        let (schedule, output) = (network.card().noise_schedule(), network.card().parameterization);
        let parameterization = output.parameterization().expect("a card of role prior names a field output");
        Ok(Self { network, schedule, parameterization })
    }

    /// From the bytes of the two files; see [`Network::from_bytes`].
    ///
    /// # Errors
    /// Those of [`Network::from_bytes`] and [`OnnxDenoiser::new`].
    pub fn from_bytes(onnx: &[u8], card: &str, threads: usize) -> Result<Self> {
        Self::new(Arc::new(Network::from_bytes(onnx, card, threads)?))
    }

    /// From `NAME.onnx` with `NAME.toml` beside it; see [`Network::from_file`].
    ///
    /// # Errors
    /// Those of [`Network::from_file`] and [`OnnxDenoiser::new`].
    pub fn from_file(onnx: &Path, threads: usize) -> Result<Self> {
        Self::new(Arc::new(Network::from_file(onnx, threads)?))
    }

    /// The network with its card.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The schedule its timesteps belong to.
    pub fn schedule(&self) -> &NoiseSchedule {
        &self.schedule
    }
}

impl Denoiser for OnnxDenoiser {
    fn name(&self) -> &str {
        &self.network.card().name
    }

    fn sees_observations(&self) -> bool {
        self.network.card().sees_measurements
    }

    fn clean_estimates(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<()> {
        assert_eq!(clean.len(), input.noisy.len(), "one clean estimate a noisy value");
        let outputs = self.network.outputs(input.noisy, input.timestep, input.context, input.observations)?;
        let alpha_bar = self.schedule.alpha_bar(input.timestep);
        for ((clean, &noisy), &output) in clean.iter_mut().zip(input.noisy).zip(&outputs) {
            *clean = self.parameterization.clean_estimate(noisy, f64::from(output), alpha_bar);
        }
        Ok(())
    }
}

/// A network of role `mean` as a [`MeanPredictor`]: one evaluation with a zero state at the last timestep.
#[derive(Debug, Clone)]
pub struct OnnxMean {
    network: Arc<Network>,
}

impl OnnxMean {
    /// The predictor of a loaded network.
    ///
    /// # Errors
    /// `Incompatible` if its role is not `mean`.
    pub fn new(network: Arc<Network>) -> Result<Self> {
        network.card().require_role(Role::Mean)?;
        Ok(Self { network })
    }

    /// From the bytes of the two files; see [`Network::from_bytes`].
    ///
    /// # Errors
    /// Those of [`Network::from_bytes`] and [`OnnxMean::new`].
    pub fn from_bytes(onnx: &[u8], card: &str, threads: usize) -> Result<Self> {
        Self::new(Arc::new(Network::from_bytes(onnx, card, threads)?))
    }

    /// From `NAME.onnx` with `NAME.toml` beside it; see [`Network::from_file`].
    ///
    /// # Errors
    /// Those of [`Network::from_file`] and [`OnnxMean::new`].
    pub fn from_file(onnx: &Path, threads: usize) -> Result<Self> {
        Self::new(Arc::new(Network::from_file(onnx, threads)?))
    }

    /// The network with its card.
    pub fn network(&self) -> &Network {
        &self.network
    }
}

impl MeanPredictor for OnnxMean {
    fn name(&self) -> &str {
        &self.network.card().name
    }

    fn predict(&self, context: &Context, observations: &Observations) -> Result<Vec<f64>> {
        let zero = vec![0.0; context.grid().num_nodes()];
        let outputs = self.network.outputs(&zero, self.network.card().num_timesteps() - 1, context, observations)?;
        let measured: Vec<f64> = observations.iter().map(|observation| observation.value).collect();
        let scale = self.network.card().target.scale(&measured);
        Ok(outputs.into_iter().map(|value| scale.inverse(f64::from(value))).collect())
    }
}
