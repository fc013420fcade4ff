//! DiffPIR: half-quadratic splitting; every clean estimate is replaced by a proximal step towards the measurements.

use gpara::{Reconstruction, ReconstructionInput, Reconstructor, Result};
use serde::{Deserialize, Serialize};

use super::Variant;
use super::chain::{Chain, Level, States};
use super::error::require;

/// The settings of [`DiffPir`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiffPirSettings {
    /// `official` asks the network at the last level and does not use the answer; `aligned` does.
    pub variant: Variant,
    /// lambda, the weight of the prior in the proximal step.
    pub lambda: f64,
    /// zeta, the share of fresh noise: 1 is all, 0 is a deterministic chain.
    pub zeta: f64,
    /// The smallest noise a measurement is taken to have.
    pub min_noise_std: f64,
    /// Whether measured cells are set to their values at the end; in `official` this comes too late and changes nothing.
    pub overwrite: bool,
}

impl Default for DiffPirSettings {
    /// The published values for inpainting.
    fn default() -> Self {
        Self { variant: Variant::Aligned, lambda: 1.0, zeta: 1.0, min_noise_std: 1e-3, overwrite: false }
    }
}

/// Plug-and-play restoration with a diffusion prior, for measured cells.
#[derive(Clone)]
pub struct DiffPir {
    chain: Chain,
    settings: DiffPirSettings,
}

impl DiffPir {
    /// DiffPIR over a chain.
    ///
    /// # Errors
    /// `InvalidInput` unless lambda and the smallest noise are positive and zeta lies in [0, 1].
    pub fn new(chain: Chain, settings: DiffPirSettings) -> Result<Self> {
        let DiffPirSettings { lambda, zeta, min_noise_std, .. } = settings;
        require(lambda.is_finite() && lambda > 0.0, "lambda", lambda, "a finite number > 0")?;
        require((0.0..=1.0).contains(&zeta), "zeta", zeta, "0 to 1")?;
        let is_noise = min_noise_std.is_finite() && min_noise_std > 0.0;
        require(is_noise, "min_noise_std", min_noise_std, "a finite number > 0")?;
        Ok(Self { chain, settings })
    }

    /// rho = lambda sigma_n^2 a / (1 - a), the weight of the prior's estimate against a measurement of weight 1.
    fn prior_weight(&self, level: &Level, noise_std: f64) -> f64 {
        let noise = noise_std.max(self.settings.min_noise_std);
        self.settings.lambda * noise * noise * level.alpha_bar / (1.0 - level.alpha_bar)
    }
}

impl Reconstructor for DiffPir {
    fn name(&self) -> &str {
        match self.settings.variant {
            Variant::Official => "diffpir-official",
            Variant::Aligned => "diffpir",
        }
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let DiffPirSettings { variant, zeta, overwrite, .. } = self.settings;
        let scene = self.chain.on(input.context);
        let measured = scene.measured(input.observations)?;
        let mut states = States::samples(input.seeds, self.chain.num_samples(), scene.num_nodes());
        for level in scene.levels() {
            let is_last = level.alpha_bar_next == 1.0;
            let estimates = scene.estimates(level, &states.values)?;
            if is_last && variant == Variant::Official {
                break;
            }
            let (signal, spread) = level.next_scales();
            states.update(|at, node, noisy, normal| {
                let mut clean = estimates.clean[at];
                if let Some(entry) = measured[node] {
                    let rho = self.prior_weight(level, entry.noise_std);
                    clean = (entry.value + rho * clean) / (1.0 + rho);
                }
                if is_last {
                    return clean;
                }
                let noise = (1.0 - zeta).sqrt() * level.noise(noisy, clean) + zeta.sqrt() * normal();
                signal * clean + spread * noise
            });
            scene.require_finite(level, &states.values)?;
        }
        if overwrite && variant == Variant::Aligned {
            states.update(|_, node, value, _| measured[node].map_or(value, |entry| entry.value));
        }
        scene.reconstruction(states.values)
    }
}
