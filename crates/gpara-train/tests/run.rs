//! Whole training runs of a tiny network on the embedded squares, on the CPU.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpara::ErrorKind;
use gpara_train::{Keep, RunOptions, RunSummary, TrainConfig, read_weights, train};
use tch::Device;

/// libtorch has one generator a process: two runs at once would draw from each other's seeds.
fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn smoke(name: &str) -> TrainConfig {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../configs/{name}.toml"));
    let mut config = TrainConfig::read(&path).expect("the configuration is right");
    config.network.widths = vec![8, 8, 8];
    config.network.blocks = 1;
    config
}

fn run(config: &TrainConfig, out: &Path, max_steps: Option<u64>) -> RunSummary {
    let options =
        RunOptions { data: None, out: out.into(), resume: true, max_seconds: None, max_steps, device: Device::Cpu };
    train(config, &options).expect("the run ends well")
}

fn file(out: &Path, config: &TrainConfig, ending: &str) -> PathBuf {
    out.join(format!("{}.{ending}", config.name))
}

/// Rows of the curve without the column `seconds`: step, loss, errors.
fn curve(out: &Path, config: &TrainConfig) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(file(out, config, "csv")).expect("the run wrote its curve");
    let row = |line: &str| {
        let mut row: Vec<f64> = line.split(',').map(|value| value.parse().expect("a curve holds numbers")).collect();
        row.remove(1);
        row
    };
    text.lines().skip(1).map(row).collect()
}

/// The tensors of a file, as bytes in the order of their names.
fn tensors(path: &Path) -> Vec<(String, Vec<u8>)> {
    let bytes = std::fs::read(path).expect("the run wrote the file");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("it is safetensors");
    let mut tensors: Vec<(String, Vec<u8>)> =
        file.iter().map(|(name, view)| (name.to_string(), view.data().to_vec())).collect();
    tensors.sort();
    tensors
}

#[test]
fn loss_of_both_roles_falls_within_a_few_steps() {
    let _alone = alone();
    for name in ["smoke_prior", "smoke_mean"] {
        let out = tempfile::tempdir().unwrap();
        let mut config = smoke(name);
        config.budget.steps = Some(32);
        config.log.validate_every = 32;
        let (start, end) = (run(&config, out.path(), Some(3)), run(&config, out.path(), None));
        assert_eq!((start.step, start.finished, end.step, end.finished), (3, false, 32, true));
        assert!(end.loss < 0.6 * start.loss, "{name}: loss {} at first, {} at the end", start.loss, end.loss);
        let (first, last) = (start.validation[0].1, end.validation[0].1);
        assert!(last < 0.9 * first, "{name}: validation error {first} at first, {last} at the end");
    }
}

#[test]
fn run_in_three_pieces_has_the_bits_of_one_without_a_break() {
    let _alone = alone();
    for name in ["smoke_prior", "smoke_mean"] {
        let (whole, pieces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let config = smoke(name);
        run(&config, whole.path(), None);
        for (max_steps, expected) in [(Some(7), 7), (Some(15), 15), (None, 24)] {
            let summary = run(&config, pieces.path(), max_steps);
            assert_eq!((summary.step, summary.finished), (expected, expected == 24));
        }
        for ending in ["checkpoint", "safetensors"] {
            let [whole, pieces] = [whole.path(), pieces.path()].map(|out| tensors(&file(out, &config, ending)));
            assert!(!whole.is_empty() && whole == pieces, "{name}.{ending} differs");
        }
        // A piece ends with a validation of its own; the rows of the whole run are all there.
        let pieces = curve(pieces.path(), &config);
        for mut row in curve(whole.path(), &config) {
            let found = pieces.iter().find(|found| found[0] == row[0]).expect("the step is in the curve");
            // The loss is a mean since the last reading, which comes at other steps in a run with breaks.
            row[1] = found[1];
            assert_eq!(*found, row, "{name}");
        }
    }
}

#[test]
fn weights_written_are_those_of_the_best_validation() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let mut config = smoke("smoke_mean");
    // A rate that is good for a few steps and then destroys what was learnt.
    config.optimizer.learning_rate = 0.3;
    config.optimizer.warmup_steps = 60;
    config.optimizer.decay_share = 0.0;
    config.log.validate_every = 2;
    config.log.watch = vec!["random_491".into(), "farthest_491".into()];
    let summary = run(&config, out.path(), None);
    let curve = curve(out.path(), &config);
    // Columns: step, loss, farthest_491, farthest_164, random_491, empty.
    let watched = |row: &[f64]| (row[2] + row[4]) / 2.0;
    let best = curve.iter().min_by(|left, right| watched(left).total_cmp(&watched(right))).unwrap();
    assert!(best[0] < 24.0, "the last validation is the best: the test shows nothing");
    let (_, _store, facts) = read_weights(&file(out.path(), &config, "safetensors"), Device::Cpu).unwrap();
    assert_eq!((facts.steps, facts.total_steps, facts.kept), (best[0] as u64, Some(24), Keep::Best));
    assert_eq!((summary.kept_step, summary.step), (facts.steps, 24));
    for ((_, stored), expected) in facts.validation.iter().zip(&best[2..]) {
        assert!((stored - expected).abs() < 1e-6);
    }

    let other = tempfile::tempdir().unwrap();
    config.log.keep = Keep::Last;
    let summary = run(&config, other.path(), None);
    let (_, _store, facts) = read_weights(&file(other.path(), &config, "safetensors"), Device::Cpu).unwrap();
    assert_eq!((facts.steps, facts.kept, summary.kept_step), (24, Keep::Last, 24));
}

#[test]
fn checkpoint_of_another_configuration_and_unknown_watched_error_are_refused() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let mut config = smoke("smoke_mean");
    run(&config, out.path(), Some(1));
    let attempt = |config: &TrainConfig| {
        let (out, device) = (out.path().into(), Device::Cpu);
        let options = RunOptions { data: None, out, resume: true, max_seconds: None, max_steps: Some(1), device };
        train(config, &options).unwrap_err()
    };
    config.seed += 1;
    assert_eq!(attempt(&config).kind(), ErrorKind::Incompatible);
    config.log.watch = vec!["farthest_5".into()];
    let error = attempt(&config);
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("farthest_5") && error.to_string().contains("random_491"), "{error}");
}
