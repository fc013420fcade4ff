//! What the exact core must satisfy in theory: limits, bounds, and what is not true of it.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod dense_oracle;
mod kriging_oracle;

use gpara::{
    Conductances, Drift, ErrorKind, Grid, MeanSolver, Observation, Observations, Posterior, ResidualPrecision,
    RiskWeights, UtilityMoments, ValidMask,
};
use kriging_oracle::{assert_close, model, models};

/// A line of unit conductances.
fn line(length: usize) -> (ValidMask, Conductances) {
    let valid = ValidMask::all(Grid::new(1, length).unwrap());
    let right = (0..length).map(|node| if node + 1 < length { 1.0 } else { 0.0 }).collect();
    let none = || vec![0.0; length];
    let graph = Conductances::from_edges([right, none(), none(), none()], &valid).unwrap();
    (valid, graph)
}

fn measured(valid: &ValidMask, nodes: &[usize], noise_std: f64) -> Observations {
    let rows: Vec<_> = nodes.iter().map(|&node| Observation { node, value: 1.0, noise_std }).collect();
    let mut observations = Observations::none(valid.grid());
    observations.add(valid, &rows).unwrap();
    observations
}

/// The greedy guarantee 1 - 1/e needs diminishing returns. On this line of the second order node 0 is worth more once node
/// 4 is known, so the library claims no such bound.
#[test]
fn theory_risk_drop_of_the_second_order_is_not_submodular() {
    let (valid, graph) = line(5);
    let prior = ResidualPrecision::second_order(graph, 0.5, 1.0, 0.05).unwrap();
    let noise_std = 0.1;
    let gain = |known: &[usize], weights: &RiskWeights, node: usize| {
        let posterior = Posterior::new(&prior, &measured(&valid, known, noise_std)).unwrap();
        UtilityMoments::exact(&posterior, weights, noise_std).unwrap().utility[node]
    };
    let all_alike = RiskWeights::uniform(valid.grid(), &[0, 1, 2, 3, 4]).unwrap();
    let (alone, after) = (gain(&[], &all_alike, 0), gain(&[4], &all_alike, 0));
    assert!((alone - 1.513_830_775).abs() < 1e-8 && (after - 1.523_206_288).abs() < 1e-8, "{alone} {after}");
    // With the risk at one end alone the gain of a node grows twelvefold.
    let one_end = RiskWeights::uniform(valid.grid(), &[0]).unwrap();
    let (alone, after) = (gain(&[], &one_end, 3), gain(&[2], &one_end, 3));
    assert!((alone - 0.004_430_614).abs() < 1e-8 && (after - 0.053_633_819).abs() < 1e-8, "{alone} {after}");
}

#[test]
fn theory_jacobi_of_24_sweeps_is_not_the_exact_mean_b27() {
    let (valid, graph) = line(40);
    let prior = ResidualPrecision::new(graph, 0.01, 1.0).unwrap();
    let posterior = Posterior::new(&prior, &measured(&valid, &[0], 1e-3)).unwrap();
    let mean = |solver| posterior.mean_correction(&[0.0; 40], solver).unwrap().0;
    let (jacobi, exact) = (mean(MeanSolver::Jacobi { iterations: 24 }), mean(MeanSolver::Exact));
    // Sweep k reaches k cells from the measurement; the exact mean reaches all.
    assert!(jacobi[25..].iter().all(|value| *value == 0.0) && exact[25] > 0.05, "{}", exact[25]);
    let error = |mean: &[f64]| mean.iter().zip(&exact).fold(0.0, |worst: f64, (m, e)| worst.max((m - e).abs()));
    let bound = posterior.precision().contraction_bound().powi(24) * error(&[0.0; 40]);
    assert!(error(&jacobi) > 0.1 && error(&jacobi) <= bound, "{} of {bound}", error(&jacobi));
}

#[test]
fn theory_jacobi_bound_of_the_second_order_exceeds_one_and_the_sweeps_are_refused() {
    let (valid, graph) = line(8);
    let prior = ResidualPrecision::second_order(graph, 0.0, 1.0, 0.1).unwrap();
    let posterior = Posterior::new(&prior, &measured(&valid, &[2], 0.1)).unwrap();
    assert!(posterior.precision().contraction_bound() > 1.0);
    let error = posterior.mean_correction(&[0.0; 8], MeanSolver::Jacobi { iterations: 24 }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.hint().is_some());
}

#[test]
fn theory_noise_towards_zero_gives_the_exact_measurement_g2() {
    for model in models().filter(|model| model.observations.iter().any(Observation::is_exact)) {
        let mut nearly = Observations::none(model.grid());
        let blurred = |entry: &Observation| Observation { noise_std: entry.noise_std.max(1e-7), ..*entry };
        nearly.add(&model.valid, &model.observations.iter().map(blurred).collect::<Vec<_>>()).unwrap();
        let answer = |observations: &Observations| {
            let posterior = model.posterior_after(&model.parameters, observations);
            let (mean, _) = posterior.mean_correction(&model.prediction, MeanSolver::Exact).unwrap();
            (mean, posterior.variances().unwrap())
        };
        let (found, limit) = (answer(&model.observations), answer(&nearly));
        assert_close(&model.name, &found.0, &limit.0, 1e-9);
        assert_close(&model.name, &found.1, &limit.1, 1e-9);
    }
}

#[test]
fn theory_cell_outside_the_mask_keeps_its_own_precision_and_moves_nothing_g1() {
    let grid = Grid::new(3, 3).unwrap();
    let valid = ValidMask::new(grid, (0..9).map(|node| node != 4).collect()).unwrap();
    let graph = Conductances::from_logits(&[0.5; 36], &valid).unwrap();
    let first = ResidualPrecision::new(graph.clone(), 0.4, 2.0).unwrap();
    let second = ResidualPrecision::second_order(graph, 0.4, 2.0, 0.5).unwrap();
    for (prior, precision) in [(first, 0.4), (second, 0.4 + 2.0 * 0.25)] {
        let posterior = Posterior::new(&prior, &measured(&valid, &[1, 6], 0.1)).unwrap();
        let column = posterior.covariance_column(4).unwrap();
        for (node, value) in column.iter().enumerate() {
            let expected = if node == 4 { 1.0 / precision } else { 0.0 };
            assert!((value - expected).abs() < 1e-14, "node {node}: {value}");
        }
    }
}

#[test]
fn settings_of_the_second_order_are_checked() {
    let (_, graph) = line(3);
    let refused = |tau, lambda, kappa_squared| {
        ResidualPrecision::second_order(graph.clone(), tau, lambda, kappa_squared).unwrap_err().kind()
    };
    for (tau, lambda, kappa_squared) in [
        (0.0, 1.0, 0.0),
        (0.0, 0.0, 1.0),
        (-0.1, 1.0, 1.0),
        (0.0, 1.0, -0.1),
        (0.1, -1.0, 1.0),
        (f64::NAN, 1.0, 1.0),
        (0.1, 1.0, f64::INFINITY),
    ] {
        assert_eq!(refused(tau, lambda, kappa_squared), ErrorKind::InvalidInput, "{tau} {lambda} {kappa_squared}");
    }
    ResidualPrecision::second_order(graph.clone(), 0.1, 1.0, 0.0).unwrap();
    ResidualPrecision::second_order(graph.clone(), 0.0, 1.0, 0.1).unwrap();
    ResidualPrecision::second_order(graph, 0.1, 1.0, -0.1).unwrap();
}

#[test]
fn theory_average_over_all_sign_probes_is_exact_with_drift_and_exact_values_b30() {
    let grid = Grid::new(3, 3).unwrap();
    let valid = ValidMask::all(grid);
    let graph = Conductances::from_logits(&[0.2; 36], &valid).unwrap();
    let prior = ResidualPrecision::second_order(graph, 0.1, 1.0, 0.7).unwrap();
    let mut observations = measured(&valid, &[2, 3], 0.2);
    observations.add(&valid, &[Observation { node: 7, value: 0.5, noise_std: 0.0 }]).unwrap();
    let posterior = Posterior::with_drift(&prior, &observations, &Drift::constant(grid)).unwrap();
    let weights = RiskWeights::from_values((0..9).map(|node| 0.2 + 0.1 * f64::from(node)).collect()).unwrap();
    let sign = |bits: usize, node: usize| if bits >> node & 1 == 1 { 1.0 } else { -1.0 };
    let probes: Vec<Vec<f64>> = (0..512).map(|bits| (0..9).map(|node| sign(bits, node)).collect()).collect();
    let probed = UtilityMoments::from_probes(&posterior, &weights, 0.1, &probes, 200, 1e-14).unwrap();
    let exact = UtilityMoments::exact(&posterior, &weights, 0.1).unwrap();
    assert_close("d", &probed.variance_estimate, &exact.variance_estimate, 1e-10);
    assert_close("n", &probed.numerator_estimate, &exact.numerator_estimate, 1e-10);
    assert_eq!((exact.utility[7], probed.utility[7]), (0.0, 0.0));
}

/// With a flat level nothing depends on the level of prediction and values together.
#[test]
fn theory_flat_level_makes_the_mean_follow_a_shift_of_all_values_g4() {
    let model = model(6);
    let drift = Drift::constant(model.grid());
    let prior = model.parameters.precision(&model.valid);
    let answer = |shift: f64| {
        let mut observations = Observations::none(model.grid());
        let rows = model.observations.iter().map(|entry| Observation { value: entry.value + shift, ..*entry });
        observations.add(&model.valid, &rows.collect::<Vec<_>>()).unwrap();
        let posterior = Posterior::with_drift(&prior, &observations, &drift).unwrap();
        let (mean, _) = posterior.mean_correction(&model.prediction, MeanSolver::Exact).unwrap();
        let likelihood = gpara::log_marginal_likelihood(&posterior, &model.prediction).unwrap();
        (mean, posterior.variances().unwrap(), likelihood)
    };
    let (before, after) = (answer(0.0), answer(100.0));
    let shifted: Vec<f64> = before.0.iter().map(|mean| mean + 100.0).collect();
    assert_close(&model.name, &after.0, &shifted, 1e-11);
    assert_eq!(before.1, after.1);
    assert!((before.2 - after.2).abs() < 1e-9 * before.2.abs());
}
