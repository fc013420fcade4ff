//! The equations of the posterior and of the utility, each side computed on its own, on small random grids.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod dense_oracle;

use dense_oracle::Oracle;
use dense_oracle::cases::{self, Case};
use gpara::{
    Correction, EnsembleMoments, ErrorKind, Grid, MeanSolver, Observation, Observations, Posterior, PosteriorPrecision,
    RiskWeights, SeedTree, Stop, UtilityMoments, ValueRange,
};

/// Direct methods, relative to the largest entry.
const CLOSE: f64 = 1e-10;
/// Iterative methods run to 1e-13 in their own norm.
const ITERATIVE: f64 = 1e-9;

#[track_caller]
fn assert_close(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    for (node, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs() / largest;
        assert!(difference <= tolerance, "{name}, node {node}: {found} instead of {expected}");
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn parity_precision_operators_match_the_dense_matrices() {
    for mut case in cases::all() {
        let (oracle, x) = (Oracle::new(&case), case.field());
        let prior = case.prior();
        let precision = PosteriorPrecision::new(&prior, &case.observations).unwrap();
        assert_close(case.name, &prior.apply(&x), &oracle.prior_precision.times(&x), CLOSE);
        assert_close(case.name, &precision.apply(&x), &oracle.precision.times(&x), CLOSE);
        assert_close(case.name, precision.precision_diagonal(), &oracle.precision.diagonal(), CLOSE);
    }
}

#[test]
fn prop_precision_is_symmetric_positive_definite_b2() {
    for mut case in cases::all() {
        let precision = PosteriorPrecision::new(&case.prior(), &case.observations).unwrap();
        for _ in 0..20 {
            let (x, y) = (case.field(), case.field());
            let (ax, ay) = (precision.apply(&x), precision.apply(&y));
            assert!((dot(&y, &ax) - dot(&x, &ay)).abs() <= 1e-9 * dot(&x, &ax).max(dot(&y, &ay)), "{}", case.name);
            assert!(dot(&x, &ax) >= case.tau * dot(&x, &x) * (1.0 - 1e-12), "{}", case.name);
        }
    }
}

#[test]
fn parity_exact_and_pcg_means_match_the_dense_solve_eq10() {
    for mut case in cases::all() {
        let (oracle, prediction) = (Oracle::new(&case), case.field());
        let (posterior, expected) = (case.posterior(), oracle.mean(&case, &prediction));
        let (mean, info) = posterior.mean_correction(&prediction, MeanSolver::Exact).unwrap();
        assert_close(case.name, &mean, &expected, CLOSE);
        assert_eq!((info.iterations, info.stop), (0, Stop::Direct));
        let solver = MeanSolver::Pcg { max_iterations: 1000, rel_tolerance: 1e-13 };
        let (mean, info) = posterior.mean_correction(&prediction, solver).unwrap();
        assert_close(case.name, &mean, &expected, ITERATIVE);
        // Where all cells are measured, 1e-13 of what is left can lie below rounding: then the direct solve answers.
        let rounding = case.name.starts_with("all measured") && info.stop == Stop::DirectAfterStall;
        assert!(info.stop == Stop::Converged || rounding, "{}: {info:?}", case.name);
    }
}

#[test]
fn theory_jacobi_of_fixed_depth_is_the_stated_sweep_b26() {
    for mut case in cases::all() {
        let (oracle, prediction) = (Oracle::new(&case), case.field());
        let (rhs, diagonal) = (oracle.right_hand_side(&case, &prediction), oracle.precision.diagonal());
        let mut expected = vec![0.0; rhs.len()];
        for _ in 0..24 {
            let coupled = oracle.adjacency.times(&expected);
            expected = (0..rhs.len()).map(|i| (rhs[i] + case.lambda * coupled[i]) / diagonal[i]).collect();
        }
        let (mean, info) =
            case.posterior().mean_correction(&prediction, MeanSolver::Jacobi { iterations: 24 }).unwrap();
        assert_close(case.name, &mean, &expected, CLOSE);
        assert_eq!((info.iterations, info.stop), (24, Stop::FixedDepth));
    }
}

#[test]
fn theory_jacobi_error_shrinks_by_the_contraction_bound_b27() {
    for mut case in cases::all() {
        let (oracle, prediction) = (Oracle::new(&case), case.field());
        let (posterior, exact) = (case.posterior(), oracle.mean(&case, &prediction));
        let bound = posterior.precision().contraction_bound();
        assert!((0.0..1.0).contains(&bound), "{}", case.name);
        let error = |mean: &[f64]| mean.iter().zip(&exact).fold(0.0, |worst: f64, (m, e)| worst.max((m - e).abs()));
        let rounding = 1e-12 * error(&vec![0.0; exact.len()]);
        let mut before = error(&vec![0.0; exact.len()]);
        for iterations in 1..40 {
            let (mean, _) = posterior.mean_correction(&prediction, MeanSolver::Jacobi { iterations }).unwrap();
            assert!(error(&mean) <= bound * before + rounding, "{} at {iterations}", case.name);
            before = error(&mean);
        }
    }
}

#[test]
fn theory_mean_minimises_the_variational_objective_eq12() {
    for mut case in cases::all() {
        let (oracle, prediction) = (Oracle::new(&case), case.field());
        let (mean, _) = case.posterior().mean_correction(&prediction, MeanSolver::Exact).unwrap();
        let objective = |delta: &[f64]| {
            let mut value = 0.5 * case.tau * dot(delta, delta);
            for i in 0..delta.len() {
                for j in 0..i {
                    value += 0.5 * case.lambda * oracle.adjacency.at(i, j) * (delta[i] - delta[j]).powi(2);
                }
            }
            for entry in case.observations.iter() {
                let misfit = prediction[entry.node] + delta[entry.node] - entry.value;
                value += 0.5 * (misfit / entry.noise_std).powi(2);
            }
            value
        };
        let least = objective(&mean);
        for node in 0..mean.len() {
            // The step is as long as the objective's own curvature asks for, so both sides must rise by 1/2.
            let step = oracle.precision.at(node, node).sqrt().recip();
            let at = |sign: f64| {
                let mut moved = mean.clone();
                moved[node] += sign * step;
                objective(&moved) - least
            };
            assert!((at(1.0) - 0.5).abs() < 1e-6 && (at(-1.0) - 0.5).abs() < 1e-6, "{} node {node}", case.name);
        }
    }
}

#[test]
fn parity_exact_moments_match_the_dense_covariance() {
    for mut case in cases::all() {
        let (oracle, posterior, weights) = (Oracle::new(&case), case.posterior(), case.weights());
        let size = case.grid().num_nodes();
        let moments = UtilityMoments::exact(&posterior, &weights, 0.01).unwrap();
        let numerators: Vec<f64> = (0..size).map(|i| oracle.weighted_square(weights.as_slice(), i, i)).collect();
        assert_close(case.name, &moments.variance_estimate, &oracle.covariance.diagonal(), CLOSE);
        assert_close(case.name, &moments.numerator_estimate, &numerators, CLOSE);
        assert_close(case.name, &posterior.variances().unwrap(), &oracle.covariance.diagonal(), CLOSE);
        for node in [0, size / 2, size - 1] {
            assert_close(case.name, &posterior.covariance_column(node).unwrap(), oracle.covariance.row(node), CLOSE);
        }
    }
}

#[test]
fn theory_utility_is_risk_drop_ratio_and_response_norm_eq15_prop2() {
    let noise_std = 0.03;
    for mut case in cases::all() {
        let (posterior, weights) = (case.posterior(), case.weights());
        let moments = UtilityMoments::exact(&posterior, &weights, noise_std).unwrap();
        let risk = weights.weighted_risk(&posterior.variances().unwrap());
        let (local, reach) = (moments.local_reducibility(noise_std), moments.response_reach());
        for node in case.candidates() {
            let after = case.with_measurement(Observation { node, value: 0.0, noise_std });
            let after = Posterior::new(&case.prior(), &after).unwrap();
            let drop = risk - weights.weighted_risk(&after.variances().unwrap());
            let response = posterior.response(node, noise_std).unwrap();
            let norm: f64 = response.iter().zip(weights.as_slice()).map(|(u, w)| w * u * u).sum();
            let scale = noise_std * noise_std + moments.variance_estimate[node];
            for (way, value) in
                [("trace drop", drop), ("local x reach", local[node] * reach[node]), ("response norm", scale * norm)]
            {
                let found = moments.utility[node];
                assert!((value - found).abs() <= 1e-9 * risk, "{} {way}: {value} against {found}", case.name);
            }
        }
    }
}

#[test]
fn theory_one_more_measurement_is_a_rank_one_update_b15_b12() {
    let noise_std = 0.02;
    for mut case in cases::all() {
        let (mut oracle, posterior, prediction) = (Oracle::new(&case), case.posterior(), case.field());
        let Some(&node) = case.candidates().first() else { continue };
        let observation = Observation { node, value: 0.7, noise_std };
        let after = Posterior::new(&case.prior(), &case.with_measurement(observation)).unwrap();
        let (mean, _) = posterior.mean_correction(&prediction, MeanSolver::Exact).unwrap();
        let innovation = observation.value - prediction[node] - mean[node];
        let response = posterior.response(node, noise_std).unwrap();
        let updated: Vec<f64> = mean.iter().zip(&response).map(|(m, u)| m + u * innovation).collect();
        let (expected, _) = after.mean_correction(&prediction, MeanSolver::Exact).unwrap();
        assert_close(case.name, &updated, &expected, CLOSE);
        oracle.measure(node, noise_std);
        for column in [0, node] {
            let found = after.covariance_column(column).unwrap();
            let scale = oracle.covariance.at(column, column).max(1.0);
            let difference = found.iter().zip(oracle.covariance.row(column)).map(|(a, b)| (a - b).abs());
            assert!(difference.fold(0.0, f64::max) <= CLOSE * scale, "{}", case.name);
        }
    }
}

#[test]
fn theory_variance_is_at_least_the_inverse_precision_diagonal_b31() {
    for case in cases::all() {
        let posterior = case.posterior();
        let variances = posterior.variances().unwrap();
        for (variance, diagonal) in variances.iter().zip(posterior.precision().precision_diagonal()) {
            assert!(*variance >= (1.0 - 1e-12) / diagonal, "{}", case.name);
            assert!(*variance <= (1.0 + 1e-12) / case.tau, "{}", case.name);
        }
    }
}

#[test]
fn theory_unit_weights_without_noise_give_the_lmmse_criterion() {
    let case = cases::named("full 6x5");
    let all: Vec<usize> = (0..case.grid().num_nodes()).collect();
    let weights = RiskWeights::uniform(case.grid(), &all).unwrap();
    let noise_std = 1e-9;
    let moments = UtilityMoments::exact(&case.posterior(), &weights, noise_std).unwrap();
    let oracle = Oracle::new(&case);
    let lmmse: Vec<f64> = all
        .iter()
        .map(|&i| dot(oracle.covariance.row(i), oracle.covariance.row(i)) / oracle.covariance.at(i, i))
        .collect();
    assert_close(case.name, &moments.utility, &lmmse, 1e-9);
}

/// All 2^M sign vectors.
fn every_probe(num_nodes: usize) -> Vec<Vec<f64>> {
    let sign = |bits: usize, node: usize| if bits >> node & 1 == 1 { 1.0 } else { -1.0 };
    (0..1 << num_nodes).map(|bits| (0..num_nodes).map(|node| sign(bits, node)).collect()).collect()
}

#[test]
fn theory_average_over_all_sign_probes_is_exact_b30() {
    for mut case in cases::all().into_iter().filter(|case| case.grid().num_nodes() <= 10).chain([nine_cells()]) {
        let (oracle, posterior, weights) = (Oracle::new(&case), case.posterior(), case.weights());
        let size = case.grid().num_nodes();
        let probes = every_probe(size);
        let moments = UtilityMoments::from_probes(&posterior, &weights, 0.01, &probes, 500, 1e-14).unwrap();
        let numerators: Vec<f64> = (0..size).map(|i| oracle.weighted_square(weights.as_slice(), i, i)).collect();
        assert_close(case.name, &moments.variance_estimate, &oracle.covariance.diagonal(), ITERATIVE);
        assert_close(case.name, &moments.numerator_estimate, &numerators, ITERATIVE);
    }
}

/// A 3x3 grid with one measurement and one isolated cell.
fn nine_cells() -> Case {
    let mut case = cases::named("all measured 3x3");
    case.observations = Observations::none(case.grid());
    case.observations = case.with_measurement(Observation { node: 4, value: 0.0, noise_std: 0.1 });
    let mut edges = case.conductances.edges().clone();
    edges[1][5] = 0.0;
    edges[0][7] = 0.0;
    edges[2][4] = 0.0;
    case.conductances = gpara::Conductances::from_edges(edges, &case.valid).unwrap();
    case
}

#[test]
fn floor_of_the_estimated_variance_is_active_exactly_where_b31_says() {
    let (mut case, noise_std) = (cases::named("full 6x5"), 0.01);
    let (posterior, weights) = (case.posterior(), case.weights());
    let probes = vec![(0..30).map(|node| if node % 3 == 0 { 1.0 } else { -1.0 }).collect::<Vec<f64>>()];
    let moments = UtilityMoments::from_probes(&posterior, &weights, noise_std, &probes, 500, 1e-14).unwrap();
    let mut num_floored = 0;
    for (node, diagonal) in posterior.precision().precision_diagonal().iter().enumerate() {
        let estimate = moments.variance_estimate[node];
        num_floored += usize::from(estimate < 1.0 / diagonal);
        let expected = moments.numerator_estimate[node] / (noise_std * noise_std + estimate.max(1.0 / diagonal));
        assert!((moments.utility[node] - expected).abs() <= 1e-14 * expected);
    }
    // The probe must exercise both branches, or the test says nothing.
    assert!(num_floored > 0 && num_floored < 30);
}

#[test]
fn theory_expected_improvement_is_the_scaled_utility_b22() {
    let mut case = cases::named("full 6x5");
    let (oracle, posterior, weights) = (Oracle::new(&case), case.posterior(), case.weights());
    let (prediction, noise_std, strength) = (case.field(), 0.1, 1.4);
    let node = case.candidates()[7];
    let utility = UtilityMoments::exact(&posterior, &weights, noise_std).unwrap().utility[node];
    let (mean, _) = posterior.mean_correction(&prediction, MeanSolver::Exact).unwrap();
    let response = posterior.response(node, noise_std).unwrap();
    let root = oracle.covariance.cholesky();
    let loss = |error: &[f64]| error.iter().zip(weights.as_slice()).map(|(e, w)| w * e * e).sum::<f64>();
    let mut stream = SeedTree::new(2).stream("improvement");
    let (count, mut sum, mut square) = (20_000, 0.0, 0.0);
    for _ in 0..count {
        let normal: Vec<f64> = mean.iter().map(|_| stream.normal()).collect();
        let residual: Vec<f64> = root.times(&normal).iter().zip(&mean).map(|(z, m)| z + m).collect();
        let innovation = residual[node] - mean[node] + noise_std * stream.normal();
        let before: Vec<f64> = residual.iter().zip(&mean).map(|(d, m)| d - strength * m).collect();
        let after: Vec<f64> = before.iter().zip(&response).map(|(e, u)| e - strength * u * innovation).collect();
        let improvement = loss(&before) - loss(&after);
        sum += improvement;
        square += improvement * improvement;
    }
    let average = sum / f64::from(count);
    let error = ((square / f64::from(count) - average * average) / f64::from(count)).sqrt();
    let expected = (2.0 * strength - strength * strength) * utility;
    assert!((average - expected).abs() < 4.0 * error, "{average} +- {error} against {expected}");
    // The statement would be empty if the error were as large as the value.
    assert!(error < 0.1 * expected);
}

#[test]
fn pcg_mean_does_not_stop_at_the_measured_cells_alone() {
    // With noise 1e-4 the right-hand side is of order 1e8, and setting the measured cells alone already leaves a residual
    // of 1e-8 relative to it, while the correction of all other cells is still missing.
    let mut case = cases::named("larger 11x12");
    case.observations = Observations::none(case.grid());
    for node in [18, 60, 100] {
        case.observations = case.with_measurement(Observation { node, value: 1.0, noise_std: 1e-4 });
    }
    let (oracle, prediction) = (Oracle::new(&case), vec![0.0; case.grid().num_nodes()]);
    let (posterior, exact) = (case.posterior(), oracle.mean(&case, &prediction));
    let norm = |x: &[f64]| dot(x, x).sqrt();
    let distance = |x: &[f64]| norm(&x.iter().zip(&exact).map(|(x, e)| x - e).collect::<Vec<_>>()) / norm(&exact);

    let rhs = oracle.right_hand_side(&case, &prediction);
    let diagonal = oracle.precision.diagonal();
    let measured_alone: Vec<f64> = rhs.iter().zip(&diagonal).map(|(f, d)| f / d).collect();
    let left = oracle.precision.times(&measured_alone).iter().zip(&rhs).map(|(a, f)| a - f).collect::<Vec<_>>();
    assert!(norm(&left) < 1e-6 * norm(&rhs) && distance(&measured_alone) > 0.5, "the trap is not in this case");

    let solver = MeanSolver::Pcg { max_iterations: 500, rel_tolerance: 1e-5 };
    let (mean, info) = posterior.mean_correction(&prediction, solver).unwrap();
    assert_eq!(info.stop, Stop::Converged);
    assert!(distance(&mean) < 1e-3, "{}", distance(&mean));
    let (_, info) =
        posterior.mean_correction(&prediction, MeanSolver::Pcg { max_iterations: 4, rel_tolerance: 1e-5 }).unwrap();
    assert_eq!((info.iterations, info.stop), (4, Stop::IterationCap));
}

#[test]
fn theory_unclipped_ensemble_variance_ignores_the_measured_values_b34() {
    let mut case = cases::named("masked 7x8");
    let correction = Correction { solver: MeanSolver::Jacobi { iterations: 24 }, strength: 1.4, range: None };
    let ensemble: Vec<f64> = (0..4).flat_map(|_| case.field()).collect();
    let variance = |observations: &Observations| {
        let posterior = Posterior::new(&case.prior(), observations).unwrap();
        let (refined, _) = correction.refine(&posterior, &ensemble).unwrap();
        EnsembleMoments::of(&refined, case.grid()).unwrap().variance
    };
    let mut moved = Observations::none(case.grid());
    let shifted: Vec<_> =
        case.observations.iter().map(|entry| Observation { value: entry.value + 2.0, ..*entry }).collect();
    moved.add(&case.valid, &shifted).unwrap();
    assert_close(case.name, &variance(&moved), &variance(&case.observations), CLOSE);
}

#[test]
fn refined_estimate_is_clipped_and_one_by_one_gives_the_same_bits() {
    let mut case = cases::named("masked 7x8");
    let (posterior, size) = (case.posterior(), case.grid().num_nodes());
    let ensemble: Vec<f64> = (0..3).flat_map(|_| case.field()).collect();
    for solver in [
        MeanSolver::Jacobi { iterations: 24 },
        MeanSolver::Pcg { max_iterations: 24, rel_tolerance: 1e-5 },
        MeanSolver::Exact,
    ] {
        let correction = Correction { solver, strength: 1.4, range: Some(ValueRange::UNIT) };
        let (together, infos) = correction.refine(&posterior, &ensemble).unwrap();
        assert_eq!(infos.len(), 3);
        assert!(together.iter().all(|value| value.abs() <= 1.0));
        let apart = ensemble.chunks(size).flat_map(|one| correction.refine(&posterior, one).unwrap().0);
        assert!(apart.map(f64::to_bits).eq(together.iter().map(|value| value.to_bits())));
    }
}

#[test]
fn bad_predictions_solvers_and_nodes_are_refused_by_kind() {
    let case = cases::named("full 6x5");
    let posterior = case.posterior();
    let field = vec![0.0; 30];
    let mean = |prediction: &[f64], solver| posterior.mean_correction(prediction, solver).unwrap_err().kind();
    assert_eq!(mean(&field[1..], MeanSolver::Exact), ErrorKind::ShapeMismatch);
    assert_eq!(mean(&[f64::NAN; 30], MeanSolver::Exact), ErrorKind::NonFinite);
    assert_eq!(mean(&field, MeanSolver::Jacobi { iterations: 0 }), ErrorKind::InvalidInput);
    let solver = MeanSolver::Pcg { max_iterations: 5, rel_tolerance: f64::NAN };
    assert_eq!(mean(&field, solver), ErrorKind::InvalidInput);
    assert_eq!(
        posterior.mean_corrections(&field[1..], MeanSolver::Exact).unwrap_err().kind(),
        ErrorKind::ShapeMismatch
    );
    assert_eq!(posterior.covariance_column(30).unwrap_err().kind(), ErrorKind::InvalidInput);
    let correction = Correction { solver: MeanSolver::Exact, strength: -1.0, range: None };
    assert_eq!(correction.refine(&posterior, &field).unwrap_err().kind(), ErrorKind::InvalidInput);
    let weights = RiskWeights::uniform(Grid::new(2, 2).unwrap(), &[0]).unwrap();
    assert_eq!(UtilityMoments::exact(&posterior, &weights, 0.1).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    let weights = RiskWeights::from_values(vec![1.0; 30]).unwrap();
    assert_eq!(UtilityMoments::exact(&posterior, &weights, -0.1).unwrap_err().kind(), ErrorKind::InvalidInput);
    let probing = |probes: &[Vec<f64>]| UtilityMoments::from_probes(&posterior, &weights, 0.1, probes, 5, 0.1);
    assert_eq!(probing(&[]).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(probing(&[vec![1.0; 29]]).unwrap_err().kind(), ErrorKind::ShapeMismatch);
}
