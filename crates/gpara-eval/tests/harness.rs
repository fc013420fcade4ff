//! The harness from outside: pairing, resuming, refusing, counting.

#![allow(clippy::unwrap_used, reason = "a test may panic, and helpers of tests are not marked as tests")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpara::{
    Context, ErrorKind, GaussianDenoiser, GraphDescriptor, GraphPredictor, Grid, MeanPredictor, NoiseSchedule,
    ResidualPrecision, Result, Scorer, UniformGraph,
};
use gpara_eval::standard;
use gpara_eval::{Case, FailedCase, Harness, Method, MethodConfig, Networks, Plan, Scene, ScheduledDenoiser, Task};

/// One network, `toy`: the exact denoiser of a Gaussian field.
struct Toy {
    fingerprint: &'static str,
}

impl Networks for Toy {
    fn denoiser(&self, _name: &str, context: &Context) -> Result<ScheduledDenoiser> {
        let flat = vec![0.0; context.grid().num_nodes()];
        let descriptor = GraphDescriptor { context, prior_mean: &flat, prior_std: &flat, num_measured: 0 };
        let precision = ResidualPrecision::new(UniformGraph.predict(&descriptor)?, 0.5, 10.0)?;
        let schedule = NoiseSchedule::ddpm();
        Ok((Arc::new(GaussianDenoiser::new(flat, precision, schedule.clone())?), schedule))
    }

    fn mean(&self, name: &str) -> Result<Arc<dyn MeanPredictor>> {
        gpara_eval::NoNetworks.mean(name)
    }

    fn spread(&self, name: &str) -> Result<Arc<dyn gpara::SpreadPredictor>> {
        gpara_eval::NoNetworks.spread(name)
    }

    fn graph(&self, name: &str) -> Result<Arc<dyn GraphPredictor>> {
        gpara_eval::NoNetworks.graph(name)
    }

    fn scorer(&self, name: &str) -> Result<Arc<dyn Scorer>> {
        gpara_eval::NoNetworks.scorer(name)
    }

    fn fingerprint(&self, _name: &str) -> Result<String> {
        Ok(self.fingerprint.to_owned())
    }
}

fn scenes() -> Vec<Scene> {
    let grid = Grid::new(12, 14).unwrap();
    let truth = |shift: f64| -> Vec<f64> {
        (0..grid.num_nodes())
            .map(|node| {
                let (row, col) = grid.row_col(node);
                0.5 * (0.3 * row as f64 + shift).sin() * (0.25 * col as f64).cos()
            })
            .collect()
    };
    let scene = |id: &str, shift| Scene::new(id.into(), Context::empty(grid), truth(shift), 1e-3);
    vec![scene("a", 0.0), scene("b", 1.0), scene("c", 2.0)]
}

fn methods(text: &str) -> Vec<Method> {
    #[derive(serde::Deserialize)]
    struct File {
        method: Vec<MethodConfig>,
    }
    let file: File = toml::from_str(text).unwrap();
    file.method.iter().flat_map(|config| config.methods().unwrap()).collect()
}

const LINEAR: &str =
    "[[method]]\nname = \"linear\"\nreconstructor = \"linear\"\npolicy = [\"random\", \"sobol\"]\nbudget = 9\n";

fn run(path: &Path, seed: u64, methods: &[Method], networks: &dyn Networks, data: &str) -> Result<Outcome> {
    run_until(path, seed, methods, networks, data, None)
}

fn run_until(
    path: &Path,
    seed: u64,
    methods: &[Method],
    networks: &dyn Networks,
    data: &str,
    deadline: Option<Instant>,
) -> Result<Outcome> {
    let (scenes, registry) = (scenes(), standard());
    let plan =
        Plan { registry: &registry, networks, task: Task::Depth, methods, data, scenes: &scenes, jobs: 2, deadline };
    let mut harness = Harness::open(path, seed)?;
    let runs = AtomicUsize::new(0);
    let failed = harness.run(&plan, &|_, _| {
        runs.fetch_add(1, Ordering::Relaxed);
    })?;
    Ok(Outcome { cases: harness.cases(&scenes), failed, runs: runs.into_inner() })
}

struct Outcome {
    cases: Vec<Case>,
    failed: Vec<FailedCase>,
    runs: usize,
}

impl Outcome {
    /// The cases without what clock and memory decide; memory is measured only where one case runs at a time.
    fn timeless(&self) -> Vec<Case> {
        let mut cases = self.cases.clone();
        let repeats = |name: &str| !name.starts_with("seconds") && !name.starts_with("peak_memory");
        cases.iter_mut().for_each(|case| case.values.retain(|name, _| repeats(name)));
        cases
    }
}

#[test]
fn run_killed_in_a_line_resumes_to_the_same_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.jsonl");
    let methods = methods(LINEAR);
    let whole = run(&path, 3, &methods, &Toy { fingerprint: "1" }, "d").unwrap();
    assert_eq!((whole.runs, whole.cases.len()), (6, 6));

    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 10]).unwrap();
    let resumed = run(&path, 3, &methods, &Toy { fingerprint: "1" }, "d").unwrap();
    assert_eq!(resumed.runs, 1);
    assert_eq!(resumed.timeless(), whole.timeless());
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 6);
}

#[test]
fn nothing_begins_after_the_deadline_and_the_next_call_runs_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.jsonl");
    let (methods, toy) = (methods(LINEAR), Toy { fingerprint: "1" });
    let over = run_until(&path, 3, &methods, &toy, "d", Some(Instant::now())).unwrap();
    assert_eq!((over.runs, over.cases.len(), over.failed.len()), (0, 0, 0));
    let in_time = run_until(&path, 3, &methods, &toy, "d", Some(Instant::now() + Duration::from_secs(3600))).unwrap();
    assert_eq!((in_time.runs, in_time.cases.len()), (6, 6));
}

#[test]
fn results_of_another_seed_settings_data_or_weights_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.jsonl");
    let text =
        "[[method]]\nname = \"prior\"\nreconstructor = \"prior\"\nsettings = { network = \"toy\", num_steps = 2 }\n";
    let first = methods(text);
    run(&path, 3, &first, &Toy { fingerprint: "1" }, "d").unwrap();
    let refused = |seed, methods: &[Method], fingerprint, data, named: &str| {
        let error = run(&path, seed, methods, &Toy { fingerprint }, data).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.to_string().contains(named) && error.hint().is_some(), "{error}");
    };
    refused(4, &first, "1", "d", "seed 3");
    refused(3, &first, "2", "d", "weights `toy` 1");
    refused(3, &first, "1", "e", "settings");
    refused(3, &methods(&text.replace("num_steps = 2", "num_steps = 3")), "1", "d", "settings");
    let code = std::fs::read_to_string(&path).unwrap().replace(gpara_eval::CODE_VERSION, "000000000000");
    std::fs::write(&path, code).unwrap();
    refused(3, &first, "1", "d", "code version 000000000000");
}

#[test]
fn points_are_the_same_for_every_reconstructor_and_differ_between_policies() {
    let folder = tempfile::tempdir().unwrap();
    let text = LINEAR.to_owned() + &LINEAR.replace("linear", "natural-neighbor");
    let outcome = run(&folder.path().join("r.jsonl"), 3, &methods(&text), &Toy { fingerprint: "1" }, "d").unwrap();
    let points = |method: &str, scene: &str| {
        outcome.cases.iter().find(|case| case.method == method && case.scene == scene).unwrap().points.clone()
    };
    for scene in ["a", "b", "c"] {
        assert_eq!(points("linear/random-9", scene), points("natural-neighbor/random-9", scene));
        assert_ne!(points("linear/random-9", scene), points("linear/sobol-9", scene));
    }
    assert_ne!(points("linear/random-9", "a"), points("linear/random-9", "b"));
}

#[test]
fn network_calls_are_counted_where_networks_are_called_and_another_number_fails() {
    let folder = tempfile::tempdir().unwrap();
    // 4 particles x 5 levels, every round anew: 3 rounds of 8, 8 and 4 points.
    let text = |calls: u64| {
        format!(
            "[[method]]\nname = \"ddnm\"\nreconstructor = \"ddnm\"\nsettings = {{ network = \"toy\" }}\n\
             policy = \"adasense\"\nbudget = 20\nacquisition_calls = {calls}\n"
        )
    };
    let toy = Toy { fingerprint: "1" };
    let outcome = run(&folder.path().join("r.jsonl"), 3, &methods(&text(60)), &toy, "d").unwrap();
    assert_eq!(outcome.failed, []);
    let values = &outcome.cases[0].values;
    assert_eq!((values["network_calls_acquire"], values["network_calls_reconstruct"]), (60.0, 20.0));
    let outcome = run(&folder.path().join("s.jsonl"), 3, &methods(&text(61)), &toy, "d").unwrap();
    assert!(outcome.cases.is_empty() && outcome.failed.len() == 3);
    assert!(outcome.failed[0].reason.contains("60 network evaluations") && outcome.failed[0].reason.contains("61"));
    assert_eq!(outcome.failed[0].kind, ErrorKind::Incompatible);
}

#[test]
fn ads_shares_one_trajectory_between_choice_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[[method]]\nname = \"ads\"\nreconstructor = \"ads\"\n\
        settings = { network = \"toy\", chain = { steps = 6, samples = 4 } }\npolicy = \"ads\"\nbudget = 40\n\
        total_calls = 24\n";
    let outcome = run(&folder.path().join("r.jsonl"), 3, &methods(text), &Toy { fingerprint: "1" }, "d").unwrap();
    assert_eq!(outcome.failed, []);
    assert_eq!(outcome.cases[0].values["num_points"], 40.0);
}

#[test]
fn missing_network_is_told_and_the_other_methods_run() {
    let folder = tempfile::tempdir().unwrap();
    let text = LINEAR.to_owned()
        + "[[method]]\nname = \"net\"\nreconstructor = \"one-shot\"\nsettings = { network = \"none\" }\npolicy = \"random\"\nbudget = 9\n";
    let outcome = run(&folder.path().join("r.jsonl"), 3, &methods(&text), &Toy { fingerprint: "1" }, "d").unwrap();
    assert_eq!((outcome.cases.len(), outcome.failed.len()), (6, 3));
    assert!(outcome.failed.iter().all(|case| case.kind == ErrorKind::Unsupported && case.method == "net/random-9"));
}
