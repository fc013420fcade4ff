//! Runs methods over scenes; what is done stands in a JSONL file, one line a case.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use gpara::{ErrorDetail, ErrorKind, Result, SeedTree};
use thiserror::Error as ThisError;

use crate::case::{Case, read_cases, settings_hash};
use crate::method::Method;
use crate::networks::Networks;
use crate::peak_memory::PeakMemory;
use crate::registry::Registry;
use crate::runner::{MethodRun, SceneRunner};
use crate::scene::Scene;
use crate::task::Task;
use crate::workers::in_threads;

/// A hash of the sources that decide numbers.
pub const CODE_VERSION: &str = env!("GPARA_CODE_VERSION");

/// A case that could not be run, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedCase {
    /// Name of the method.
    pub method: String,
    /// Id of the scene.
    pub scene: String,
    /// The message of the error.
    pub reason: String,
    /// Its class.
    pub kind: ErrorKind,
}

/// Sees each case as it is done, with all that the method made.
pub type OnCase<'a> = dyn Fn(&Case, &MethodRun) + Sync + 'a;

/// What an evaluation runs.
pub struct Plan<'a> {
    /// Methods by name.
    pub registry: &'a Registry,
    /// The networks.
    pub networks: &'a dyn Networks,
    /// What the scenes hold.
    pub task: Task,
    /// The methods, paired: all get the same scenes, seeds and measurement noise.
    pub methods: &'a [Method],
    /// The settings of the data that decide numbers, as text; part of each line's hash.
    pub data: &'a str,
    /// The scenes.
    pub scenes: &'a [Scene],
    /// Scenes that run at once.
    pub jobs: usize,
    /// No case begins after this moment; those that are left are run by the next call.
    pub deadline: Option<Instant>,
}

impl Plan<'_> {
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Keeps what is done in a file and runs what is missing.
pub struct Harness {
    path: PathBuf,
    seed: u64,
    done: Vec<Case>,
}

impl Harness {
    /// Opens or continues the results file at `path`. A torn last line (the process was killed while writing) is dropped.
    ///
    /// # Errors
    /// `Io` if the file cannot be read or written, `Incompatible` if a line is no case, or of another seed or code version.
    pub fn open(path: &Path, seed: u64) -> Result<Self> {
        let mut done = Vec::new();
        if path.exists() {
            done = read_cases(path)?;
            for case in &done {
                check("seed", case, &case.seed.to_string(), &seed.to_string(), path)?;
                check("code version", case, &case.code, CODE_VERSION, path)?;
            }
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| HarnessError::io(folder, source))?;
        }
        let kept: String = done.iter().map(Case::line).collect();
        std::fs::write(path, kept).map_err(|source| HarnessError::io(path, source))?;
        Ok(Self { path: path.into(), seed, done })
    }

    /// Runs every case of the plan that the file does not hold, until its deadline; a case that fails is returned and not
    /// recorded.
    ///
    /// # Errors
    /// `Incompatible` if the file holds a case of the plan with other settings or weights, `Io` if it cannot be written.
    pub fn run(&mut self, plan: &Plan<'_>, on_case: &OnCase<'_>) -> Result<Vec<FailedCase>> {
        self.check_done(plan)?;
        let done: HashSet<(&str, &str, u32)> = self.done.iter().map(Case::key).collect();
        let missing = |place: usize, scene: &Scene| -> Vec<(&Method, u32)> {
            let methods = plan.methods.iter().filter(|method| method.first.is_none_or(|first| place < first));
            let cases = methods.flat_map(|method| (0..method.repeats).map(move |repeat| (method, repeat)));
            cases.filter(|(method, repeat)| !done.contains(&(&method.name, &scene.id, *repeat))).collect()
        };
        let scenes = plan.scenes.iter().enumerate();
        let work: Vec<(&Scene, Vec<(&Method, u32)>)> = scenes
            .map(|(place, scene)| (scene, missing(place, scene)))
            .filter(|(_, cases)| !cases.is_empty())
            .collect();
        let file = OpenOptions::new().append(true).open(&self.path);
        let sink = Sink {
            path: &self.path,
            file: Mutex::new(file.map_err(|source| HarnessError::io(&self.path, source))?),
            done: Mutex::default(),
            failed: Mutex::default(),
        };
        let memory = if plan.jobs == 1 { PeakMemory::Measured } else { PeakMemory::Unknown };
        let (seed, task) = (self.seed, plan.task);
        let outcome: Result<Vec<()>> = in_threads(&work, plan.jobs, |(scene, cases)| {
            let root = SeedTree::new(seed).subtree(&format!("scene/{}", scene.id));
            for repeat in 0..=cases.iter().map(|(_, repeat)| *repeat).max().unwrap_or(0) {
                let seeds = if repeat == 0 { root } else { root.subtree(&format!("repeat/{repeat}")) };
                let runner = SceneRunner::new(plan.registry, plan.networks, task, scene, seeds, memory);
                for (method, _) in cases.iter().filter(|(_, of)| *of == repeat) {
                    if plan.is_over() {
                        return Ok(());
                    }
                    sink.run_case(&runner, plan, method, scene, repeat, seed, on_case)?;
                }
            }
            Ok(())
        });
        let Sink { done, failed, .. } = sink;
        self.done.extend(done.into_inner().expect("a writer does not panic"));
        outcome?;
        let mut failed = failed.into_inner().expect("a writer does not panic");
        failed.sort_by(|a, b| (&a.method, &a.scene).cmp(&(&b.method, &b.scene)));
        Ok(failed)
    }

    /// Refuses to go on from cases that other settings or other weights made.
    fn check_done(&self, plan: &Plan<'_>) -> Result<()> {
        let methods: HashMap<&str, &Method> =
            plan.methods.iter().map(|method| (method.name.as_str(), method)).collect();
        let mut weights: HashMap<&str, String> = HashMap::new();
        for case in &self.done {
            let Some(method) = methods.get(case.method.as_str()) else { continue };
            check("settings", case, &case.settings, &settings_hash(method, plan.task, plan.data), &self.path)?;
            for (name, found) in &case.weights {
                let wanted = match weights.get(name.as_str()) {
                    Some(wanted) => wanted.clone(),
                    None => plan.networks.fingerprint(name)?,
                };
                check(&format!("weights `{name}`"), case, found, &wanted, &self.path)?;
                weights.insert(name, wanted);
            }
        }
        Ok(())
    }

    /// Every recorded case of the given scenes, sorted by method, scene and repeat: the order does not depend on threads.
    pub fn cases(&self, scenes: &[Scene]) -> Vec<Case> {
        let wanted: HashSet<&str> = scenes.iter().map(|scene| scene.id.as_str()).collect();
        let mut cases: Vec<Case> =
            self.done.iter().filter(|case| wanted.contains(case.scene.as_str())).cloned().collect();
        cases.sort_by(|a, b| a.key().cmp(&b.key()));
        cases
    }
}

/// Where finished cases go.
struct Sink<'a> {
    path: &'a Path,
    file: Mutex<File>,
    done: Mutex<Vec<Case>>,
    failed: Mutex<Vec<FailedCase>>,
}

impl Sink<'_> {
    fn run_case(
        &self,
        runner: &SceneRunner<'_>,
        plan: &Plan<'_>,
        method: &Method,
        scene: &Scene,
        repeat: u32,
        seed: u64,
        on_case: &OnCase<'_>,
    ) -> Result<()> {
        let run = match runner.run(method) {
            Ok(run) => run,
            Err(error) => {
                let (method, scene) = (method.name.clone(), scene.id.clone());
                let failed = FailedCase { method, scene, reason: error.to_string(), kind: error.kind() };
                self.failed.lock().expect("a writer does not panic").push(failed);
                return Ok(());
            }
        };
        let mut weights = BTreeMap::new();
        for name in &run.networks {
            weights.insert(name.clone(), plan.networks.fingerprint(name)?);
        }
        let case = Case {
            method: method.name.clone(),
            scene: scene.id.clone(),
            repeat,
            seed,
            settings: settings_hash(method, plan.task, plan.data),
            code: CODE_VERSION.to_owned(),
            weights,
            points: run.points(),
            values: run.values.clone(),
        };
        let mut file = self.file.lock().expect("a writer does not panic");
        file.write_all(case.line().as_bytes()).map_err(|source| HarnessError::io(self.path, source))?;
        drop(file);
        on_case(&case, &run);
        self.done.lock().expect("a writer does not panic").push(case);
        Ok(())
    }
}

fn check(what: &str, case: &Case, found: &str, wanted: &str, path: &Path) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(HarnessError::Other {
        what: what.to_owned(),
        method: case.method.clone(),
        scene: case.scene.clone(),
        found: found.to_owned(),
        wanted: wanted.to_owned(),
        path: path.into(),
    }
    .into())
}

#[derive(Debug, ThisError)]
enum HarnessError {
    #[error("cannot use results file {path}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("results file {path} holds `{method}` on `{scene}` with {what} {found}, this run has {wanted}")]
    Other { what: String, method: String, scene: String, found: String, wanted: String, path: PathBuf },
}

impl HarnessError {
    fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}

impl ErrorDetail for HarnessError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::Io,
            Self::Other { .. } => ErrorKind::Incompatible,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } => None,
            Self::Other { .. } => {
                Some("results of different runs are never mixed: give another --out folder, or remove the file".into())
            }
        }
    }
}
