//! The prior without measurements: the mean of ancestral samples.

use gpara::{Reconstruction, ReconstructionInput, Reconstructor, Result};

use super::chain::{Chain, States};

/// The mean of N samples of the prior; measurements are not read.
#[derive(Clone)]
pub struct Ddpm {
    chain: Chain,
}

impl Ddpm {
    /// The prior's samples over a chain.
    pub fn new(chain: Chain) -> Self {
        Self { chain }
    }
}

impl Reconstructor for Ddpm {
    fn name(&self) -> &str {
        "ddpm"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let scene = self.chain.on(input.context);
        let mut states = States::samples(input.seeds, self.chain.num_samples(), scene.num_nodes());
        for level in scene.levels() {
            let clean = scene.estimates(level, &states.values)?.clean;
            let coefficients = level.coefficients;
            let noise_std = coefficients.noise_variance.sqrt();
            states.update(|at, _, noisy, normal| {
                let mean = coefficients.clean * clean[at] + coefficients.noisy * noisy;
                // The last transition has no noise and draws none.
                if noise_std > 0.0 { mean + noise_std * normal() } else { mean }
            });
            scene.require_finite(level, &states.values)?;
        }
        scene.reconstruction(states.values)
    }
}
