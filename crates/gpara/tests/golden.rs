//! The numbers of `data/golden.json` (made by our own dense numpy reference, seed 20261128) come out of the library.
//!
//! Every key of the file is either an input or an expectation; the test fails if one is not read.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

use std::cell::RefCell;
use std::collections::BTreeSet;

use gpara::{
    BatchInput, BatchRule, Conductances, Correction, EnsembleMoments, Grid, MeanSolver, Observation, Observations,
    Posterior, ResidualPrecision, RiskSettings, RiskWeights, UtilityMoments, ValidMask, ValueRange, edge_mask,
    mean_variance, normalized_utility, select_batch,
};
use serde_json::Value;

/// The file stores 12 decimals, so half of the last one plus rounding in the arithmetic.
const STORED: f64 = 2e-12;
/// Conjugate gradients stopped at 24 iterations amplify rounding; measured 1e-13 on values near 1.
const TRUNCATED: f64 = 1e-10;

struct Golden {
    file: Value,
    read: RefCell<BTreeSet<String>>,
}

impl Golden {
    fn load() -> Self {
        let text = include_str!("data/golden.json");
        Self { file: serde_json::from_str(text).unwrap(), read: RefCell::default() }
    }

    fn get(&self, path: &str) -> &Value {
        self.read.borrow_mut().insert(path.into());
        path.split('/').fold(&self.file, |value, key| &value[key])
    }

    fn number(&self, path: &str) -> f64 {
        self.get(path).as_f64().unwrap_or_else(|| panic!("{path} is not a number"))
    }

    fn count(&self, path: &str) -> usize {
        self.get(path).as_u64().unwrap_or_else(|| panic!("{path} is not a count")) as usize
    }

    fn numbers(&self, path: &str) -> Vec<f64> {
        let values = self.get(path).as_array().unwrap_or_else(|| panic!("{path} is not a list"));
        values.iter().map(|value| value.as_f64().unwrap()).collect()
    }

    fn nodes(&self, path: &str) -> Vec<usize> {
        self.numbers(path).iter().map(|&value| value as usize).collect()
    }

    fn flags(&self, path: &str) -> Vec<bool> {
        self.numbers(path).iter().map(|&value| value == 1.0).collect()
    }

    fn unread(&self) -> Vec<String> {
        let mut leaves = Vec::new();
        collect_leaves(&self.file, "", &mut leaves);
        leaves.retain(|leaf| !self.read.borrow().contains(leaf));
        leaves
    }
}

fn collect_leaves(value: &Value, path: &str, leaves: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}/{key}") };
                collect_leaves(value, &path, leaves);
            }
        }
        _ => leaves.push(path.into()),
    }
}

/// Largest absolute difference; values of the file are of order 1 or say so with a scale.
#[track_caller]
fn assert_close(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let differences = found.iter().zip(expected).map(|(found, expected)| (found - expected).abs());
    let worst = differences.fold(
        0.0,
        |worst: f64, difference| {
            if difference.is_nan() { f64::INFINITY } else { worst.max(difference) }
        },
    );
    assert!(worst <= tolerance, "{name}: differs by {worst:e}, allowed {tolerance:e}");
}

/// The scene of the file: graph, posterior, weights.
struct Scene {
    posterior: Posterior,
    candidates: Vec<usize>,
    weights: RiskWeights,
    ensemble: Vec<f64>,
    noise_std: f64,
}

fn check_graph(golden: &Golden) -> (ValidMask, Conductances) {
    assert!(golden.get("layout").as_str().unwrap().contains("right, down, down-right, down-left [4,H,W]"));
    assert_eq!(golden.count("seed"), 20_261_128);
    let grid = Grid::new(golden.count("shape/H"), golden.count("shape/W")).unwrap();
    assert_eq!(grid.num_nodes(), golden.count("shape/M"));
    let valid = ValidMask::new(grid, golden.flags("valid")).unwrap();
    assert_eq!(edge_mask(&valid).concat(), golden.flags("edge_mask"));
    let conductances = Conductances::from_logits(&golden.numbers("logits"), &valid).unwrap();
    assert_close("edges", &conductances.edges().concat(), &golden.numbers("edges"), STORED);
    assert_close("degree", &conductances.degree(), &golden.numbers("degree"), STORED);
    (valid, conductances)
}

fn check_constants(golden: &Golden) {
    let RiskSettings { risk_floor, risk_span, variance_ratio_cap, variance_floor } = RiskSettings::default();
    let names = ["varsig", "dw", "r", "eps_v"];
    for (name, value) in names.iter().zip([risk_floor, risk_span, variance_ratio_cap, variance_floor]) {
        assert_eq!(golden.number(&format!("constants/{name}")), value, "{name}");
    }
    // Fixed inside the utility, so the file must agree with it.
    assert_eq!(golden.number("constants/eps_d"), 1e-12);
    let range = [ValueRange::UNIT.min(), ValueRange::UNIT.max()];
    assert_eq!(golden.numbers("constants/clip"), range);
}

fn check_means(golden: &Golden) -> Scene {
    let (valid, conductances) = check_graph(golden);
    let noise_std = golden.number("constants/sigma");
    let observed = golden.nodes("observed");
    let mut observations = Observations::none(valid.grid());
    let values = golden.numbers("y");
    let measured: Vec<_> =
        observed.iter().zip(&values).map(|(&node, &value)| Observation { node, value, noise_std }).collect();
    observations.add(&valid, &measured).unwrap();
    // The file's measurements are its target without noise.
    let target = golden.numbers("x0");
    assert!(measured.iter().all(|entry| entry.value == target[entry.node]));

    let prior =
        ResidualPrecision::new(conductances, golden.number("constants/tau"), golden.number("constants/lam")).unwrap();
    let posterior = Posterior::new(&prior, &observations).unwrap();
    let ensemble = golden.numbers("ensemble");
    let num_nodes = valid.grid().num_nodes();
    assert_eq!(ensemble.len(), golden.count("shape/L") * num_nodes);
    let first = &ensemble[..num_nodes];
    assert_close(
        "innovation_of_sample0",
        &posterior.innovation(first).unwrap(),
        &golden.numbers("innovation_of_sample0"),
        STORED,
    );
    let jacobi = MeanSolver::Jacobi { iterations: golden.count("constants/jacobi_iters") };
    let (mean, _) = posterior.mean_correction(first, jacobi).unwrap();
    assert_close("jacobi24", &mean, &golden.numbers("jacobi24"), STORED);
    let (mean, _) = posterior.mean_correction(first, MeanSolver::Exact).unwrap();
    assert_close("exact_mean", &mean, &golden.numbers("exact_mean"), STORED);

    let correction =
        Correction { solver: jacobi, strength: golden.number("constants/rho"), range: Some(ValueRange::UNIT) };
    let (conditioned, _) = correction.refine(&posterior, &ensemble).unwrap();
    assert_close("conditioned_ensemble", &conditioned, &golden.numbers("conditioned_ensemble"), STORED);
    let candidates = golden.flags("candidates");
    let candidates: Vec<usize> = (0..num_nodes).filter(|&node| candidates[node]).collect();
    assert!(candidates.iter().all(|node| valid.is_valid(*node) && !observations.contains(*node)));
    assert_eq!(candidates.len(), valid.num_valid() - observed.len());
    let weights = RiskWeights::uniform(valid.grid(), &candidates).unwrap();
    Scene { posterior, candidates, weights, ensemble: conditioned, noise_std }
}

fn check_risk(golden: &Golden, mut scene: Scene) -> Scene {
    let moments = EnsembleMoments::of(&scene.ensemble, scene.posterior.grid()).unwrap();
    assert_close("ensemble_mean", &moments.mean, &golden.numbers("ensemble_mean"), STORED);
    assert_close("ensemble_var", &moments.variance, &golden.numbers("ensemble_var"), STORED);
    let mean = mean_variance(&moments.variance, &scene.candidates);
    assert_close("vbar", &[mean], &[golden.number("vbar")], STORED);
    scene.weights = RiskWeights::from_variance(&moments.variance, &scene.candidates, &RiskSettings::default()).unwrap();
    assert_close("w", scene.weights.as_slice(), &golden.numbers("w"), STORED);
    scene
}

fn check_exact_acquisition(golden: &Golden, scene: &Scene) {
    let Scene { posterior, candidates, weights, noise_std, .. } = scene;
    let moments = UtilityMoments::exact(posterior, weights, *noise_std).unwrap();
    // Invalid cells have variance 1/tau = 16, the others at most 1.
    assert_close("sigma_diag", &moments.variance_estimate, &golden.numbers("sigma_diag"), 16.0 * STORED);
    assert_close("sigma_diag", &posterior.variances().unwrap(), &golden.numbers("sigma_diag"), 16.0 * STORED);
    assert_close("sws_diag", &moments.numerator_estimate, &golden.numbers("sws_diag"), 4.0 * STORED);
    let utility = golden.numbers("utility");
    assert_close("utility", &moments.utility, &utility, 4.0 * STORED);
    let risk = weights.weighted_risk(&moments.variance_estimate);
    assert_close("risk", &[risk], &[golden.number("risk")], 1e-10);
    let node = golden.count("sigma_column/node");
    let column = posterior.covariance_column(node).unwrap();
    // The node is measured, so its column is of order noise_std^2 = 1e-8; the reference gets it as a difference of numbers
    // of order 1, so it holds no more than 1e-15.
    assert_close("sigma_column", &column, &golden.numbers("sigma_column/values"), 1e-15);

    let anchor = normalized_utility(&moments.utility, candidates);
    let stored = golden.numbers("utility_zscore_log");
    let expected: Vec<f64> = candidates.iter().map(|&node| stored[node]).collect();
    assert_close("utility_zscore_log", &anchor, &expected, 1e-11);
    for (rule, key) in
        [(BatchRule::ExactKappa, "batch_exact_kappa"), (BatchRule::ExactSequential, "batch_exact_sequential")]
    {
        assert_eq!(batch(golden, scene, &moments, rule), golden.nodes(key), "{key}");
    }
}

fn batch(golden: &Golden, scene: &Scene, moments: &UtilityMoments, rule: BatchRule) -> Vec<usize> {
    let anchor = normalized_utility(&moments.utility, &scene.candidates);
    let input = BatchInput {
        posterior: &scene.posterior,
        weights: &scene.weights,
        moments,
        candidates: &scene.candidates,
        normalized_utility: &anchor,
        calibrated_score: &anchor,
        noise_std: scene.noise_std,
    };
    select_batch(rule, &input, golden.count("shape/B")).unwrap()
}

fn check_probing(golden: &Golden, scene: &Scene) {
    let num_nodes = scene.posterior.grid().num_nodes();
    let probes: Vec<Vec<f64>> = golden.numbers("probes").chunks(num_nodes).map(<[f64]>::to_vec).collect();
    assert_eq!(probes.len(), golden.count("shape/P"));
    let cap = golden.count("constants/pcg_iters");
    let tolerance = golden.number("constants/pcg_rtol");
    for (key, max_iterations, rel_tolerance, close) in
        [("probe_pcg24", cap, tolerance, TRUNCATED), ("probe_exact", 2000, 1e-14, TRUNCATED)]
    {
        let moments = UtilityMoments::from_probes(
            &scene.posterior,
            &scene.weights,
            scene.noise_std,
            &probes,
            max_iterations,
            rel_tolerance,
        )
        .unwrap();
        let expected = |name: &str| golden.numbers(&format!("{key}/{name}"));
        // Estimates at invalid cells are 16.
        assert_close(key, &moments.variance_estimate, &expected("d_hat"), 16.0 * close);
        assert_close(key, &moments.numerator_estimate, &expected("n_hat"), close);
        assert_close(key, &moments.utility, &expected("u_hat"), 16.0 * close);
        let chosen = batch(golden, scene, &moments, BatchRule::PaperKappa);
        assert_eq!(chosen, golden.nodes(&format!("{key}/batch")), "{key}/batch");
    }
}

#[test]
fn golden_file_is_reproduced_and_every_key_is_read() {
    let golden = Golden::load();
    check_constants(&golden);
    let scene = check_risk(&golden, check_means(&golden));
    check_exact_acquisition(&golden, &scene);
    check_probing(&golden, &scene);
    assert_eq!(golden.unread(), Vec::<String>::new(), "keys of golden.json that no check reads");
}

#[test]
fn golden_check_notices_an_unread_key_and_a_wrong_number() {
    let golden = Golden::load();
    golden.number("vbar");
    assert!(golden.unread().contains(&"probe_exact/batch".into()) && !golden.unread().contains(&"vbar".into()));
    let wrong = std::panic::catch_unwind(|| assert_close("test", &[1.0, f64::NAN], &[1.0, 1.0], 1e-3));
    assert!(wrong.is_err());
}
