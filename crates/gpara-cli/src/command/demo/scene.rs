//! One square: prior, then each policy.

use gpara::{Observations, SeedTree, SessionSettings};
use gpara_tasks::radio::{INVALID_VALUE, RadioMap};
use indicatif::ProgressBar;

use crate::closed_loop::{LoopInput, PolicyRun, Scored, reconstruct_scored, run_policy};
use crate::failure::Outcome;
use crate::preset::{MethodParts, PolicyChoice, Preset, Task};

const RADIO: Task = Task { name: "radio", invalid_value: Some(INVALID_VALUE as f64) };

/// What the demo was asked for.
pub(super) struct DemoSettings {
    /// The method.
    pub(super) preset: Preset,
    /// Policies in the order of the table.
    pub(super) policies: Vec<PolicyChoice>,
    /// Measurements of each policy.
    pub(super) budget: usize,
    /// Root seed.
    pub(super) seed: u64,
}

/// What came of one square.
pub(super) struct SceneOutcome {
    /// The square and its field.
    pub(super) map: RadioMap,
    /// The field in f64.
    pub(super) truth: Vec<f64>,
    /// The reconstruction without measurements.
    pub(super) prior: Scored,
    /// One run a policy.
    pub(super) runs: Vec<PolicyRun>,
}

/// Runs every policy on one square.
pub(super) fn run_scene(settings: &DemoSettings, map: RadioMap, progress: &ProgressBar) -> Outcome<SceneOutcome> {
    let context = map.scene.context();
    let truth: Vec<f64> = map.field.iter().map(|&value| f64::from(value)).collect();
    let seeds = SeedTree::new(settings.seed);
    progress.set_message(format!("{} prior", map.id));
    progress.tick();
    let parts = MethodParts::new(&settings.preset, RADIO, &context, seeds)?;
    let acquisition = &settings.preset.acquisition;
    let session =
        SessionSettings { budget: settings.budget, max_batch: acquisition.max_batch, noise_std: acquisition.noise_std };
    let input = LoopInput { parts: &parts, context: &context, truth: &truth, settings: session, seeds };
    let mut prior = reconstruct_scored(&input, &Observations::none(context.grid()))?;
    // Drawing the ensemble is part of the prior's price.
    prior.score.seconds += parts.seconds;
    prior.score.network_calls += parts.network_calls;
    let mut runs = Vec::new();
    for &policy in &settings.policies {
        progress.set_message(format!("{} {}", map.id, policy.name()));
        let run = run_policy(&input, policy, &[], &mut |round| {
            progress.inc(round.points.len() as u64);
            Ok(())
        })?;
        runs.push(run);
    }
    Ok(SceneOutcome { map, truth, prior, runs })
}

impl SceneOutcome {
    /// Name in tables and files of each reconstruction, and the reconstruction: the prior first.
    pub(super) fn results(&self) -> impl Iterator<Item = (&'static str, &Scored)> {
        let runs = self.runs.iter().map(|run| (run.policy.name(), &run.result));
        std::iter::once(("prior", &self.prior)).chain(runs)
    }
}
