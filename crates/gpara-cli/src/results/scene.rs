//! One field: prior, then each policy.

use gpara::{Context, Observations, RoundRecord, SeedTree, SessionSettings, ValidMask};
use indicatif::ProgressBar;

use super::units::FieldUnits;
use crate::closed_loop::{LoopInput, PolicyRun, Scored, reconstruct_scored, run_policy};
use crate::failure::Outcome;
use crate::model_source::EmbeddedSource;
use crate::preset::{MethodParts, PolicyChoice, Preset, Task};

/// What was asked for, the same for every field.
#[derive(Debug, Clone)]
pub(crate) struct RunSettings {
    /// The method.
    pub(crate) preset: Preset,
    /// Policies in the order of the table.
    pub(crate) policies: Vec<PolicyChoice>,
    /// Measurements of each policy.
    pub(crate) budget: usize,
    /// Noise of the measurements, normalised units.
    pub(crate) noise_std: f64,
    /// Root seed.
    pub(crate) seed: u64,
}

/// A field that is known, and how it is shown.
#[derive(Debug, Clone)]
pub(crate) struct SceneInput {
    /// Name in files and tables.
    pub(crate) id: String,
    /// What kind of scene it is.
    pub(crate) task: Task,
    /// Channels and valid cells.
    pub(crate) context: Context,
    /// The field, `num_nodes` normalised values.
    pub(crate) truth: Vec<f64>,
    /// The user's units.
    pub(crate) units: FieldUnits,
    /// What invalid cells are, e.g. `building`.
    pub(crate) invalid_name: String,
    /// Row and column of the transmitter, if there is one.
    pub(crate) transmitter: Option<(usize, usize)>,
}

/// What came of one field.
pub(crate) struct SceneOutcome {
    /// The field.
    pub(crate) input: SceneInput,
    /// The reconstruction without measurements.
    pub(crate) prior: Scored,
    /// One run a policy.
    pub(crate) runs: Vec<PolicyRun>,
}

/// Runs every policy on one field. The first policy goes on after the rounds in `recorded`; `after_round` sees each new
/// round.
pub(crate) fn run_scene(
    settings: &RunSettings,
    input: SceneInput,
    recorded: &[RoundRecord],
    progress: &ProgressBar,
    after_round: &mut dyn FnMut(&RoundRecord) -> Outcome,
) -> Outcome<SceneOutcome> {
    let SceneInput { id, context, truth, .. } = &input;
    let seeds = SeedTree::new(settings.seed);
    progress.set_message(format!("{id} prior"));
    progress.tick();
    let parts = MethodParts::new(&settings.preset, &EmbeddedSource, input.task, context, seeds)?;
    let session = SessionSettings {
        budget: settings.budget,
        max_batch: settings.preset.acquisition.max_batch,
        noise_std: settings.noise_std,
    };
    let loop_input = LoopInput { parts: &parts, context, truth, zero: input.units.zero(), settings: session, seeds };
    let mut prior = reconstruct_scored(&loop_input, &Observations::none(context.grid()))?;
    // Drawing the ensemble is part of the prior's price.
    prior.score.seconds += parts.seconds;
    prior.score.network_calls += parts.network_calls;
    let mut runs = Vec::new();
    for &policy in &settings.policies {
        progress.set_message(format!("{id} {}", policy.name()));
        let recorded = if runs.is_empty() { recorded } else { &[] };
        progress.inc(recorded.iter().map(|round| round.points.len() as u64).sum());
        let run = run_policy(&loop_input, policy, recorded, &mut |round| {
            progress.inc(round.points.len() as u64);
            after_round(round)
        })?;
        runs.push(run);
    }
    Ok(SceneOutcome { input, prior, runs })
}

impl SceneOutcome {
    /// Name in tables and files of each reconstruction, and the reconstruction: the prior first.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&'static str, &Scored)> {
        let runs = self.runs.iter().map(|run| (run.policy.name(), &run.result));
        std::iter::once(("prior", &self.prior)).chain(runs)
    }

    /// The valid cells.
    pub(crate) fn valid(&self) -> &ValidMask {
        self.input.context.valid()
    }

    /// The run whose result has this name; the prior has none.
    pub(super) fn run_named(&self, name: &str) -> Option<&PolicyRun> {
        self.runs.iter().find(|run| run.policy.name() == name)
    }
}
