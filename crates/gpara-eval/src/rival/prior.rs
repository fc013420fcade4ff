//! The diffusion prior alone: the mean of samples that see no measurement.

use std::sync::Arc;

use gpara::{PriorEnsemble, Reconstruction, ReconstructionInput, Reconstructor, Result, SamplerSettings, sample_prior};
use serde::Deserialize;

use super::scattered::mean_only;
use crate::networks::Networks;
use crate::registry::{MethodScene, ReconstructorEntry};

pub(crate) const ENTRY: ReconstructorEntry = ReconstructorEntry {
    name: "prior",
    about: "mean of prior samples without measurements (the paper's DDPM row)",
    build: |scene, settings| {
        let ensemble = prior_ensemble(scene, &settings.parse("prior")?)?;
        Ok(Box::new(Prior { ensemble }))
    },
};

/// Which samples.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriorSettings {
    /// Name of the denoiser.
    pub(crate) network: String,
    /// Reverse steps; one step is the clean estimate at the last timestep.
    #[serde(default = "five")]
    pub(crate) num_steps: usize,
    /// Samples averaged.
    #[serde(default = "four")]
    pub(crate) num_samples: usize,
}

fn five() -> usize {
    5
}

fn four() -> usize {
    4
}

/// The samples, drawn once a scene for all methods that name the same.
pub(crate) fn prior_ensemble(scene: &MethodScene<'_>, settings: &PriorSettings) -> Result<Arc<PriorEnsemble>> {
    let PriorSettings { network, num_steps, num_samples } = settings;
    let key = format!("prior/{network}/{num_steps}/{num_samples}");
    scene.common.get(&key, scene.networks, || {
        let (denoiser, schedule) = scene.networks.denoiser(network, scene.context)?;
        let steps = schedule.respace(&schedule.spaced_timesteps(*num_steps)?)?;
        let invalid_value = scene.task.invalid_value();
        let sampler = SamplerSettings { invalid_value, ..SamplerSettings::clipped(steps) };
        sample_prior(&*denoiser, scene.context, &scene.no_observations(), &sampler, *num_samples, scene.seeds)
    })
}

struct Prior {
    ensemble: Arc<PriorEnsemble>,
}

impl Reconstructor for Prior {
    fn name(&self) -> &str {
        "prior"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let moments = self.ensemble.moments(input.context.grid())?;
        let std = moments.variance.into_iter().map(f64::sqrt).collect();
        let network_calls = 0;
        Ok(Reconstruction { std: Some(std), network_calls, ..mean_only(moments.mean) })
    }
}
