//! gpara itself as a method of an evaluation: reconstructor `preset`, policies `active` and `max-variance`.

use std::sync::Arc;

use gpara::{AcquisitionModel, Reconstruction, ReconstructionInput, Reconstructor, Result};
use gpara_eval::{MethodScene, PolicyEntry, ReconstructorEntry, Registry, Settings, standard};
use serde::Deserialize;

use super::networks::CountedSource;
use crate::failure::{Failure, Outcome};
use crate::preset::{MethodParts, PolicyChoice, Preset, Task};

const PRESET: ReconstructorEntry = ReconstructorEntry {
    name: "preset",
    about: "gpara with a preset; `replace` changes keys of it",
    build: |scene, settings| {
        let settings: PresetSettings = settings.parse("preset")?;
        let parts = parts(scene, &settings, Use::Reconstruct)?;
        Ok(Box::new(PresetReconstructor { parts }))
    },
};

const ACTIVE: PolicyEntry = PolicyEntry {
    name: "active",
    about: "the paper's policy with the graph, ensemble and weights of a preset",
    build: |scene, settings| acquisition_model(scene, settings, PolicyChoice::Active),
};

const MAX_VARIANCE: PolicyEntry = PolicyEntry {
    name: "max-variance",
    about: "largest variance of a preset's ensemble, conditioned on the measurements",
    build: |scene, settings| acquisition_model(scene, settings, PolicyChoice::MaxVariance),
};

/// Every method of gpara.
pub(crate) fn registry() -> Registry {
    standard().with_reconstructor(PRESET).with_policy(ACTIVE).with_policy(MAX_VARIANCE)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetSettings {
    /// Name of an embedded preset.
    preset: String,
    /// Preset keys that replace the preset's; a table with another `kind` replaces the whole table.
    #[serde(default)]
    replace: toml::Table,
}

impl PresetSettings {
    fn preset(&self, task: &str) -> Outcome<Preset> {
        Preset::for_task(&self.preset, task)?.replaced(&self.replace)
    }
}

/// What the parts of a preset are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Acquire,
    Reconstruct,
}

/// The parts of a preset for a scene, made once for all methods that name the same.
fn parts(scene: &MethodScene<'_>, settings: &PresetSettings, purpose: Use) -> Result<Arc<MethodParts>> {
    let task = Task { name: scene.task.name(), invalid_value: scene.task.invalid_value() };
    let preset = settings.preset(task.name).map_err(Failure::into_library_error)?;
    let whole = format!("preset/{}", preset.text);
    // What chose the points also reconstructs; where nothing did, samples that nobody reads are not drawn, nor counted.
    let plain = purpose == Use::Reconstruct && !scene.common.is_used(&whole);
    let key = if plain { format!("{whole}/plain") } else { whole };
    scene.common.get(&key, scene.networks, || {
        let source = CountedSource { networks: scene.networks, context: scene.context };
        let build = if plain { MethodParts::for_reconstruction } else { MethodParts::new };
        build(&preset, &source, task, scene.context, scene.seeds).map_err(Failure::into_library_error)
    })
}

/// The policy of a preset: the one that its settings name, else the one that reconstructs.
fn acquisition_model(scene: &MethodScene<'_>, settings: &Settings, choice: PolicyChoice) -> Result<AcquisitionModel> {
    let settings = if settings.0.contains_key("preset") { settings } else { scene.reconstructor_settings };
    let settings: PresetSettings = settings.parse(choice.name())?;
    let parts = parts(scene, &settings, Use::Acquire)?;
    parts.acquisition_model(choice).map_err(Failure::into_library_error)
}

struct PresetReconstructor {
    parts: Arc<MethodParts>,
}

impl Reconstructor for PresetReconstructor {
    fn name(&self) -> &str {
        "preset"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let made = self.parts.reconstruct(input.context, input.observations, input.seeds);
        made.map_err(Failure::into_library_error)
    }
}
