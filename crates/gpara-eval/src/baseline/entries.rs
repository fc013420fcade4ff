//! The sampling methods as a configuration names them.

use std::sync::Arc;

use gpara::Result;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{
    AdaSense, AdaSenseSettings, Ads, AdsSettings, Chain, ChainSettings, Ddnm, DdnmSettings, Ddpm, DiffPir,
    DiffPirSettings, Dps, DpsSettings, Fps, FpsSettings,
};
use crate::networks::Networks;
use crate::registry::{MethodScene, PolicyEntry, ReconstructorEntry, Settings};

/// Every sampling method that reconstructs.
pub(crate) const RECONSTRUCTORS: [ReconstructorEntry; 6] = [
    ReconstructorEntry {
        name: "ddpm",
        about: "the prior's ancestral sampler, blind to the measurements",
        build: |scene, settings| {
            let (chain, NoSettings {}) = chain(scene, settings, "ddpm")?;
            Ok(Box::new(Ddpm::new(chain)))
        },
    },
    ReconstructorEntry {
        name: "dps",
        about: "diffusion posterior sampling; needs the network's input gradient (libtorch)",
        build: |scene, settings| {
            let (chain, method): (_, DpsSettings) = chain(scene, settings, "dps")?;
            Ok(Box::new(Dps::new(chain, method)?))
        },
    },
    ReconstructorEntry {
        name: "ddnm",
        about: "DDNM and DDNM+: measured cells of every clean estimate are replaced",
        build: |scene, settings| {
            let (chain, method): (_, DdnmSettings) = chain(scene, settings, "ddnm")?;
            Ok(Box::new(Ddnm::new(chain, method)?))
        },
    },
    ReconstructorEntry {
        name: "fps",
        about: "filtering posterior sampling with particles",
        build: |scene, settings| {
            let (chain, method): (_, FpsSettings) = chain(scene, settings, "fps")?;
            Ok(Box::new(Fps::new(chain, method)?))
        },
    },
    ReconstructorEntry {
        name: "diffpir",
        about: "plug-and-play restoration with a closed-form data step",
        build: |scene, settings| {
            let (chain, method): (_, DiffPirSettings) = chain(scene, settings, "diffpir")?;
            Ok(Box::new(DiffPir::new(chain, method)?))
        },
    },
    ReconstructorEntry {
        name: "ads",
        about: "the end of the trajectory that policy `ads` chose its points on",
        build: |scene, settings| Ok(ads(scene, settings)?.reconstructor()),
    },
];

/// Every sampling method that chooses points.
pub(crate) const POLICIES: [PolicyEntry; 2] = [
    PolicyEntry {
        name: "ads",
        about: "active diffusion subsampling: points are chosen along one guided trajectory",
        build: |scene, settings| {
            let settings = if settings.0.is_empty() { scene.reconstructor_settings } else { settings };
            scene.plain_model(ads(scene, settings)?.policy())
        },
    },
    PolicyEntry {
        name: "adasense",
        about: "AdaSense: where new samples of a backend differ; the backend is the method's reconstructor unless named",
        build: |scene, settings| {
            let AdaSenseChoice { backend, method } = settings.parse("adasense")?;
            let backend = match backend {
                Some(Backend { reconstructor, settings }) => {
                    scene.build_reconstructor(&reconstructor, &Settings(settings))?
                }
                None => scene.build_reconstructor(scene.reconstructor, scene.reconstructor_settings)?,
            };
            scene.plain_model(Box::new(AdaSense::new(backend, method)))
        },
    },
];

/// Settings of a sampling method: which prior, which chain, and its own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SamplingSettings<S> {
    /// Name of the denoiser.
    network: String,
    #[serde(default)]
    chain: ChainSettings,
    #[serde(default)]
    method: S,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoSettings {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdaSenseChoice {
    #[serde(default)]
    backend: Option<Backend>,
    #[serde(default)]
    method: AdaSenseSettings,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backend {
    reconstructor: String,
    #[serde(default)]
    settings: toml::Table,
}

fn chain<S: DeserializeOwned + Default>(
    scene: &MethodScene<'_>,
    settings: &Settings,
    name: &str,
) -> Result<(Chain, S)> {
    let SamplingSettings { network, chain, method } = settings.parse::<SamplingSettings<S>>(name)?;
    let (denoiser, schedule) = scene.networks.denoiser(&network, scene.context)?;
    Ok((Chain::new(denoiser, &schedule, chain, scene.task.invalid_value())?, method))
}

/// The one trajectory that policy and reconstructor of a method share.
fn ads(scene: &MethodScene<'_>, settings: &Settings) -> Result<Arc<Ads>> {
    scene.own.get("ads", scene.networks, || {
        let (chain, method): (_, AdsSettings) = chain(scene, settings, "ads")?;
        Ads::new(chain, method)
    })
}
