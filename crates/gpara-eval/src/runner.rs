//! One method on one scene: acquisition, reconstruction, score, and what each stage cost.

use std::collections::BTreeMap;
use std::time::Instant;

use gpara::{
    AcquisitionSession, ErrorDetail, ErrorKind, FieldSource, Observations, Reconstruction, ReconstructionInput, Result,
    SeedTree, SessionSettings, extend_beyond_mask, run_to_end,
};
use sha2::{Digest, Sha256};
use thiserror::Error as ThisError;

use crate::method::Method;
use crate::networks::{CountedNetworks, Networks};
use crate::one_step::Prefix;
use crate::peak_memory::PeakMemory;
use crate::registry::{MethodScene, Registry, Settings};
use crate::scene::Scene;
use crate::score::score;
use crate::shelf::Shelf;
use crate::task::Task;

/// Largest number of points of a round; the paper's B.
pub const MAX_BATCH: usize = 8;

/// What one method made of one scene.
#[derive(Debug, Clone)]
pub struct MethodRun {
    /// The measurements.
    pub observations: Observations,
    /// The reconstruction.
    pub reconstruction: Reconstruction,
    /// Its numbers by name: errors, network calls and seconds of both stages.
    pub values: BTreeMap<String, f64>,
    /// Names of the networks that were asked for, sorted.
    pub networks: Vec<String>,
}

impl MethodRun {
    /// A hash of the measured nodes, the same for the same points in any order.
    pub fn points(&self) -> String {
        let mut hash = Sha256::new();
        self.observations.iter().for_each(|entry| hash.update((entry.node as u64).to_le_bytes()));
        hash.finalize()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Runs methods on one scene, one after the other; what they have in common is made once.
pub struct SceneRunner<'a> {
    registry: &'a Registry,
    task: Task,
    scene: &'a Scene,
    seeds: SeedTree,
    networks: CountedNetworks<'a>,
    common: Shelf,
    memory: PeakMemory,
}

/// What a stage has cost when it ends.
struct Stage {
    started: Instant,
    calls: u64,
}

impl<'a> SceneRunner<'a> {
    /// A runner whose randomness is that of `seeds`. Peak memory is told where no other scene runs beside.
    pub fn new(
        registry: &'a Registry,
        networks: &'a dyn Networks,
        task: Task,
        scene: &'a Scene,
        seeds: SeedTree,
        memory: PeakMemory,
    ) -> Self {
        let (networks, common) = (CountedNetworks::new(networks), Shelf::default());
        Self { registry, task, scene, seeds, networks, common, memory }
    }

    /// Runs one method from the first point to the score.
    ///
    /// # Errors
    /// Whatever policy, reconstructor and their networks raise; `Incompatible` if the acquisition made another number of
    /// network evaluations than the method declares.
    pub fn run(&self, method: &Method) -> Result<MethodRun> {
        self.common.begin_method();
        let _ = self.networks.take_names();
        let own = Shelf::default();
        let settings = method.reconstructor_settings();
        let build = MethodScene {
            task: self.task,
            context: &self.scene.context,
            noise_std: self.scene.noise_std,
            budget: method.policy.as_ref().map_or(0, |policy| policy.budget),
            max_batch: MAX_BATCH,
            seeds: self.seeds,
            networks: &self.networks,
            common: &self.common,
            own: &own,
            reconstructor: &method.reconstructor,
            reconstructor_settings: &settings,
            registry: self.registry,
        };
        let mut values = BTreeMap::new();

        let stage = self.begin();
        let observations = self.acquire(method, &build)?;
        let acquisition_calls = self.end(&stage, "acquire", &mut values);
        method.require_calls("acquisition", method.acquisition_calls, acquisition_calls)?;

        let stage = self.begin();
        let reconstructor = build.build_reconstructor(&method.reconstructor, &settings)?;
        let precision = build.plain_precision()?;
        let input = ReconstructionInput {
            context: &self.scene.context,
            observations: &observations,
            precision: &precision,
            ensemble: None,
            seeds: self.seeds,
        };
        let mut reconstruction = reconstructor.reconstruct(&input)?;
        let calls = acquisition_calls + self.end(&stage, "reconstruct", &mut values);
        // Where the mask is wrong, cells beyond it are scored: all methods are made to answer there alike.
        let Reconstruction { mean, std, .. } = &mut reconstruction;
        extend_beyond_mask(self.scene.context.valid(), mean, std.as_deref_mut())?;
        method.require_calls("whole run", method.total_calls, calls)?;

        for total in ["seconds", "network_calls"] {
            let sum = values[&format!("{total}_acquire")] + values[&format!("{total}_reconstruct")];
            values.insert(total.to_owned(), sum);
        }
        let intervals = reconstructor.interval_factors(&self.scene.context, &observations);
        values.extend(score(self.task, self.scene, &observations, &reconstruction, intervals)?);
        if let Some(config) = &method.one_step {
            let (scene, seeds, reconstructor) = (self.scene, self.seeds, &*reconstructor);
            let prefix = Prefix { scene, observations: &observations, precision: &precision, reconstructor, seeds };
            let found = config.diagnose(&prefix, &build, self.registry)?;
            values.extend([("spearman".to_owned(), found.spearman), ("regret".to_owned(), 1e5 * found.regret)]);
        }
        Ok(MethodRun { observations, reconstruction, values, networks: self.networks.take_names() })
    }

    fn acquire(&self, method: &Method, build: &MethodScene<'_>) -> Result<Observations> {
        let Some(choice) = &method.policy else { return Ok(build.no_observations()) };
        let mut model = (self.registry.policy(&choice.name)?.build)(build, &Settings(choice.settings.clone()))?;
        let Scene { context, truth, noise_std, candidates, .. } = self.scene;
        let settings = SessionSettings { budget: choice.budget, max_batch: MAX_BATCH, noise_std: *noise_std };
        let mut session = AcquisitionSession::new(context.clone(), settings, self.seeds)?;
        if let Some(nodes) = candidates {
            session.restrict_candidates(nodes)?;
        }
        let mut source = FieldSource::new(truth.clone(), *noise_std, self.seeds)?;
        run_to_end(&mut session, &mut model, &mut source, &mut |_| Ok(()))?;
        Ok(session.observations().clone())
    }

    fn begin(&self) -> Stage {
        self.memory.reset();
        Stage { started: Instant::now(), calls: self.networks.network_calls() }
    }

    /// Notes what a stage took and returns its network evaluations.
    fn end(&self, stage: &Stage, name: &str, values: &mut BTreeMap<String, f64>) -> u64 {
        let owed = self.common.take_owed();
        let calls = self.networks.network_calls() - stage.calls + owed.network_calls;
        values.insert(format!("seconds_{name}"), stage.started.elapsed().as_secs_f64() + owed.seconds);
        values.insert(format!("network_calls_{name}"), calls as f64);
        if let Some(mebibytes) = self.memory.peak() {
            values.insert(format!("peak_memory_{name}"), mebibytes);
        }
        calls
    }
}

impl Method {
    /// # Errors
    /// `Incompatible` if the configuration says another number.
    fn require_calls(&self, stage: &'static str, wanted: Option<u64>, found: u64) -> Result<()> {
        match wanted.filter(|&wanted| wanted != found) {
            None => Ok(()),
            Some(wanted) => Err(RunError::Calls { stage, method: self.name.clone(), found, wanted }.into()),
        }
    }
}

#[derive(Debug, ThisError)]
enum RunError {
    #[error("{stage} of `{method}` made {found} network evaluations, its configuration says {wanted}")]
    Calls { stage: &'static str, method: String, found: u64, wanted: u64 },
}

impl ErrorDetail for RunError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Incompatible
    }

    fn hint(&self) -> Option<String> {
        Some("correct `acquisition_calls` or `total_calls`, or the settings that decide them".into())
    }
}
