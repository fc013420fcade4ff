//! DPS: ancestral sampling that steps down the gradient of the data misfit, through the network.

use gpara::{Observation, Reconstruction, ReconstructionInput, Reconstructor, Result};
use serde::{Deserialize, Serialize};

use super::chain::{Chain, Estimates, States};
use super::error::require;

/// Over what the misfit's norm is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MisfitNorm {
    /// Each sample has its own norm.
    #[default]
    PerSample,
    /// One norm of the whole batch, as in the published code: samples depend on each other, and each moves less the more
    /// there are.
    Batch,
}

/// The settings of [`Dps`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DpsSettings {
    /// zeta, the length of the step along the gradient of the un-squared norm.
    pub zeta: f64,
    /// Over what that norm is taken.
    pub norm: MisfitNorm,
}

impl Default for DpsSettings {
    /// The published value for inpainting, which belongs to 1000 steps.
    fn default() -> Self {
        Self { zeta: 0.5, norm: MisfitNorm::PerSample }
    }
}

/// Diffusion posterior sampling: x_next = ancestral step - zeta grad ||y - m x0(x_t)||.
///
/// The gradient goes through the network; a prior without one is refused as `Unsupported`.
#[derive(Clone)]
pub struct Dps {
    chain: Chain,
    settings: DpsSettings,
}

impl Dps {
    /// DPS over a chain.
    ///
    /// # Errors
    /// `InvalidInput` if zeta is negative or not finite.
    pub fn new(chain: Chain, settings: DpsSettings) -> Result<Self> {
        let zeta = settings.zeta;
        require(zeta.is_finite() && zeta >= 0.0, "zeta", zeta, "a finite number >= 0")?;
        Ok(Self { chain, settings })
    }
}

impl Reconstructor for Dps {
    fn name(&self) -> &str {
        "dps"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let scene = self.chain.on(input.context);
        let measured = scene.measured(input.observations)?;
        let mut states = States::samples(input.seeds, self.chain.num_samples(), scene.num_nodes());
        for level in scene.levels() {
            let (estimates, pullback) = scene.linearized(level, &states.values)?;
            let gradient = pullback.pull_back(&misfit_cotangent(&estimates, &measured, self.settings.norm))?;
            let coefficients = level.coefficients;
            let noise_std = coefficients.noise_variance.sqrt();
            states.update(|at, _, noisy, normal| {
                let mean = coefficients.clean * estimates.clean[at] + coefficients.noisy * noisy;
                let drawn = if noise_std > 0.0 { mean + noise_std * normal() } else { mean };
                drawn - self.settings.zeta * gradient[at]
            });
            scene.require_finite(level, &states.values)?;
        }
        scene.reconstruction(states.values)
    }
}

/// The derivative of r = ||y - m x0|| by the network's own x0: -m (y - x0) / r, 0 where x0 is clipped or held.
///
/// # Shapes
/// * `measured` - `num_nodes`
/// * returns `[batch, num_nodes]`
pub(crate) fn misfit_cotangent(estimates: &Estimates, measured: &[Option<Observation>], norm: MisfitNorm) -> Vec<f64> {
    let num_nodes = measured.len();
    let misfits = estimates.clean.iter().zip(measured.iter().cycle());
    let mut cotangent: Vec<f64> =
        misfits.map(|(clean, entry)| entry.map_or(0.0, |entry| clean - entry.value)).collect();
    let together = match norm {
        MisfitNorm::PerSample => num_nodes,
        MisfitNorm::Batch => cotangent.len(),
    };
    for misfits in cotangent.chunks_mut(together) {
        let norm = misfits.iter().map(|misfit| misfit * misfit).sum::<f64>().sqrt();
        // A misfit of 0 is the minimum: nothing to follow, and nothing to divide by.
        if norm > 0.0 {
            misfits.iter_mut().for_each(|misfit| *misfit /= norm);
        }
    }
    estimates.stop_held(&mut cotangent);
    cotangent
}
