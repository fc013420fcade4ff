//! Runs experiments over scenes, resumable.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use gpara::{Context, ErrorDetail, ErrorKind, Result, SeedTree};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error as ThisError;

/// One scene of a test set.
pub struct Scene {
    /// Its name in the data set.
    pub id: String,
    /// What is known before measuring.
    pub context: Context,
    /// The true field, `num_nodes` normalised values.
    pub truth: Vec<f64>,
}

/// The numbers of one method on one scene, by name (`rmse`, `mae`, `seconds`, `network_calls`, ...).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodResult {
    /// The method, e.g. `paper/random`.
    pub method: String,
    /// Its numbers.
    pub values: BTreeMap<String, f64>,
}

/// All methods of one experiment on one scene: one line of the JSONL file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SceneResults {
    /// The experiment's name.
    pub experiment: String,
    /// The scene's id.
    pub scene: String,
    /// The root seed of the run.
    pub seed: u64,
    /// One entry a method.
    pub methods: Vec<MethodResult>,
}

/// Methods that share work on a scene.
pub trait Experiment: Sync {
    /// What a failed scene reports.
    type Error: From<gpara::Error> + Send;

    /// A name that identifies the methods and all their settings in the results file.
    fn name(&self) -> &str;

    /// Runs every method on `scene`. `seeds` depends on the root seed and the scene alone, so methods are paired.
    ///
    /// # Errors
    /// Whatever a method reports; the scene is then not recorded.
    fn run(&self, scene: &Scene, seeds: SeedTree) -> Result<Vec<MethodResult>, Self::Error>;
}

/// Runs experiments over scenes and keeps what is done in a JSONL file.
pub struct Harness {
    path: PathBuf,
    seed: u64,
    done: Vec<SceneResults>,
}

impl Harness {
    /// Opens or continues the results file at `path`.
    ///
    /// A torn last line (the process was killed while writing) is dropped.
    ///
    /// # Errors
    /// `Io` if the file cannot be read or written, `Incompatible` if a complete line is not a result or has another seed.
    pub fn open(path: &Path, seed: u64) -> Result<Self> {
        let mut done = Vec::new();
        let mut kept = String::new();
        if path.exists() {
            let file = File::open(path).map_err(|source| HarnessError::io(path, source))?;
            let mut reader = BufReader::new(file);
            let mut line = String::new();
            let mut number = 0;
            while reader.read_line(&mut line).map_err(|source| HarnessError::io(path, source))? > 0 {
                number += 1;
                if !line.ends_with('\n') {
                    break;
                }
                let result: SceneResults = serde_json::from_str(&line).map_err(|source| HarnessError::Line {
                    path: path.into(),
                    number,
                    source,
                })?;
                if result.seed != seed {
                    return Err(HarnessError::Seed { path: path.into(), found: result.seed, wanted: seed }.into());
                }
                kept.push_str(&line);
                done.push(result);
                line.clear();
            }
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| HarnessError::io(folder, source))?;
        }
        std::fs::write(path, kept).map_err(|source| HarnessError::io(path, source))?;
        Ok(Self { path: path.into(), seed, done })
    }

    /// Runs `experiment` on the scenes that are not recorded yet; `on_scene` is called after each.
    ///
    /// # Errors
    /// The first failure of a scene, or `Io`; every scene that finished is recorded.
    pub fn run<E: Experiment>(
        &mut self,
        experiment: &E,
        scenes: &[Scene],
        on_scene: &(dyn Fn(&SceneResults) + Sync),
    ) -> Result<(), E::Error> {
        let finished: HashSet<String> = self
            .done
            .iter()
            .filter(|result| result.experiment == experiment.name())
            .map(|result| result.scene.clone())
            .collect();
        let missing: Vec<&Scene> = scenes.iter().filter(|scene| !finished.contains(&scene.id)).collect();
        let file = OpenOptions::new().append(true).open(&self.path);
        let file = Mutex::new(file.map_err(|source| self.io(source))?);
        // A scene is parallel inside, and a worker that waits there takes up another scene: without chunks every scene would
        // be begun before the first is done, each with its memory and nothing recorded.
        for chunk in missing.chunks(rayon::current_num_threads()) {
            let outcomes: Vec<Result<SceneResults, E::Error>> =
                chunk.par_iter().map(|scene| self.run_scene(experiment, scene, &file, on_scene)).collect();
            for outcome in outcomes {
                self.done.push(outcome?);
            }
        }
        Ok(())
    }

    /// Runs one scene and records it.
    fn run_scene<E: Experiment>(
        &self,
        experiment: &E,
        scene: &Scene,
        file: &Mutex<File>,
        on_scene: &(dyn Fn(&SceneResults) + Sync),
    ) -> Result<SceneResults, E::Error> {
        let seeds = SeedTree::new(self.seed).subtree(&format!("scene/{}", scene.id));
        let methods = experiment.run(scene, seeds)?;
        let (experiment, scene) = (experiment.name().to_owned(), scene.id.clone());
        let result = SceneResults { experiment, scene, seed: self.seed, methods };
        let mut line = serde_json::to_string(&result).expect("results are plain numbers and strings");
        line.push('\n');
        let mut file = file.lock().expect("a writer does not panic");
        file.write_all(line.as_bytes()).map_err(|source| self.io(source))?;
        drop(file);
        on_scene(&result);
        Ok(result)
    }

    fn io(&self, source: std::io::Error) -> gpara::Error {
        HarnessError::io(&self.path, source).into()
    }

    /// Every recorded result of the given scenes, sorted by scene and experiment: the order does not depend on threads.
    pub fn results(&self, scenes: &[Scene]) -> Vec<SceneResults> {
        let wanted: HashSet<&str> = scenes.iter().map(|scene| scene.id.as_str()).collect();
        let mut results: Vec<SceneResults> =
            self.done.iter().filter(|result| wanted.contains(result.scene.as_str())).cloned().collect();
        results.sort_by(|a, b| (&a.scene, &a.experiment).cmp(&(&b.scene, &b.experiment)));
        results
    }
}

#[derive(Debug, ThisError)]
enum HarnessError {
    #[error("cannot use results file {path}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("line {number} of results file {path} is not a result")]
    Line { path: PathBuf, number: usize, source: serde_json::Error },
    #[error("results file {path} was made with seed {found}, this run has seed {wanted}")]
    Seed { path: PathBuf, found: u64, wanted: u64 },
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
            Self::Line { .. } | Self::Seed { .. } => ErrorKind::Incompatible,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } => None,
            Self::Line { .. } | Self::Seed { .. } => Some("give another --out folder, or remove the file".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use gpara::Grid;

    use super::*;

    struct Draw {
        runs: AtomicUsize,
    }

    impl Experiment for Draw {
        type Error = gpara::Error;

        fn name(&self) -> &str {
            "draw"
        }

        fn run(&self, _scene: &Scene, seeds: SeedTree) -> Result<Vec<MethodResult>> {
            self.runs.fetch_add(1, Ordering::Relaxed);
            let values = BTreeMap::from([("rmse".to_owned(), seeds.stream("draw").normal())]);
            Ok(vec![MethodResult { method: "draw".into(), values }])
        }
    }

    fn scenes() -> Vec<Scene> {
        let grid = Grid::new(1, 2).unwrap();
        let scene = |id: &str| Scene { id: id.into(), context: Context::empty(grid), truth: vec![0.0; 2] };
        vec![scene("a"), scene("b"), scene("c")]
    }

    #[test]
    fn harness_killed_in_a_line_resumes_to_the_same_results() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let scenes = scenes();
        let mut whole = Harness::open(&path, 3).unwrap();
        let draw = Draw { runs: AtomicUsize::new(0) };
        whole.run(&draw, &scenes, &|_| ()).unwrap();
        let expected = whole.results(&scenes);

        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 10]).unwrap();
        let mut resumed = Harness::open(&path, 3).unwrap();
        let draw = Draw { runs: AtomicUsize::new(0) };
        resumed.run(&draw, &scenes, &|_| ()).unwrap();
        assert_eq!(draw.runs.load(Ordering::Relaxed), 1);
        assert_eq!(resumed.results(&scenes), expected);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
    }

    #[test]
    fn harness_refuses_a_file_of_another_seed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let draw = Draw { runs: AtomicUsize::new(0) };
        Harness::open(&path, 3).unwrap().run(&draw, &scenes(), &|_| ()).unwrap();
        let error = Harness::open(&path, 4).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
    }
}
