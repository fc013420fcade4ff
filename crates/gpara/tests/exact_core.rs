//! Precisions of both orders, exact measurements, drift, likelihoods and in-batch updates against dense kriging, on random
//! grids to 12 x 17 with holes, lines and isolated cells.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod dense_oracle;
mod kriging_oracle;

use gpara::{
    BatchMoments, Drift, ErrorKind, Grid, MeanSolver, Observation, Observations, Posterior, PosteriorPrecision,
    PrecisionGradient, RiskWeights, Stop, UtilityMoments, ValidMask, log_marginal_likelihood,
    marginal_likelihood_gradient, residual_likelihood_gradient, residual_log_likelihood,
};
use kriging_oracle::{Kriging, Model, Parameters, assert_close, change_of_precision, dot, log_det, model, models};

/// Direct methods in f64, relative to the largest entry.
const DIRECT: f64 = 1e-11;
/// Gradients of the likelihood, in which terms of opposite sign nearly cancel.
const GRADIENT: f64 = 1e-9;

fn weights(model: &mut Model) -> RiskWeights {
    let candidates = model.candidates();
    let mut weights = vec![0.0; model.grid().num_nodes()];
    candidates.iter().for_each(|&node| weights[node] = 0.25 + 0.75 * model.stream.uniform());
    RiskWeights::from_values(weights).unwrap()
}

#[test]
fn parity_operators_match_the_dense_precision_g1() {
    for mut model in models() {
        let precision = model.parameters.precision(&model.valid);
        let dense = model.parameters.dense(model.grid());
        let x: Vec<f64> = (0..model.grid().num_nodes()).map(|_| model.stream.normal()).collect();
        assert_close(&model.name, &precision.apply(&x), &dense.times(&x), DIRECT);
        assert_close(&model.name, precision.diagonal(), &dense.diagonal(), DIRECT);
        assert!((precision.log_det().unwrap() - log_det(&dense)).abs() < 1e-10 * x.len() as f64, "{}", model.name);
        // The eliminated system: rows of exact nodes are those of the identity, noise enters the others' diagonal.
        let posterior = PosteriorPrecision::new(&precision, &model.observations).unwrap();
        let mut expected = dense.clone();
        for entry in model.observations.iter() {
            if entry.noise_std == 0.0 {
                for other in 0..x.len() {
                    *expected.at_mut(entry.node, other) = 0.0;
                    *expected.at_mut(other, entry.node) = 0.0;
                }
                *expected.at_mut(entry.node, entry.node) = 1.0;
            } else {
                *expected.at_mut(entry.node, entry.node) += entry.noise_std.powi(-2);
            }
        }
        assert_close(&model.name, &posterior.apply(&x), &expected.times(&x), DIRECT);
    }
}

#[test]
fn prop_moments_of_the_field_match_dense_kriging_g2_g6() {
    let (mut with_drift, mut with_exact) = (0, 0);
    for mut model in models() {
        let (kriging, posterior, weights) = (Kriging::new(&model), model.posterior(), weights(&mut model));
        let nodes = 0..model.grid().num_nodes();
        with_drift += usize::from(model.drift.is_some());
        with_exact += usize::from(model.observations.iter().any(Observation::is_exact));
        let (mean, info) = posterior.mean_correction(&model.prediction, MeanSolver::Exact).unwrap();
        assert_close(&model.name, &mean, &kriging.mean, DIRECT);
        assert_eq!(info.stop, Stop::Direct);
        let (variances, numerators) = posterior.variances_and_numerators(&weights).unwrap();
        assert_close(&model.name, &variances, &kriging.covariance.diagonal(), DIRECT);
        assert_close(&model.name, &posterior.variances().unwrap(), &kriging.covariance.diagonal(), DIRECT);
        let expected: Vec<f64> = nodes.clone().map(|node| kriging.numerator(weights.as_slice(), node)).collect();
        assert_close(&model.name, &numerators, &expected, DIRECT);
        for node in nodes.clone().step_by(5) {
            let found = posterior.covariance_column(node).unwrap();
            let largest = kriging.covariance.diagonal().into_iter().fold(0.0, f64::max);
            for (found, expected) in found.iter().zip(kriging.covariance.row(node)) {
                assert!((found - expected).abs() <= DIRECT * largest, "{}", model.name);
            }
        }
        let moments = UtilityMoments::exact(&posterior, &weights, 0.1).unwrap();
        for entry in model.observations.iter() {
            if entry.is_exact() {
                assert!((mean[entry.node] - (entry.value - model.prediction[entry.node])).abs() < 1e-12);
                let found = (variances[entry.node], numerators[entry.node], moments.utility[entry.node]);
                assert_eq!(found, (0.0, 0.0, 0.0), "{}", model.name);
            }
        }
        for node in model.candidates() {
            let expected = expected[node] / (0.01 + kriging.covariance.at(node, node));
            assert!((moments.utility[node] - expected).abs() <= 1e-10 * expected, "{}", model.name);
        }
    }
    assert!(with_drift >= 12 && with_exact >= 12, "{with_drift} {with_exact}");
}

#[test]
fn prop_conjugate_gradients_reach_the_exact_mean_of_either_order() {
    for model in models() {
        let posterior = model.posterior();
        let solver = MeanSolver::Pcg { max_iterations: 5000, rel_tolerance: 1e-13 };
        let (found, info) = posterior.mean_correction(&model.prediction, solver).unwrap();
        assert_eq!(info.stop, Stop::Converged, "{}", model.name);
        assert_close(&model.name, &found, &Kriging::new(&model).mean, 1e-9);
    }
}

#[test]
fn theory_one_more_measurement_moves_mean_and_covariance_along_the_response_b9_b15() {
    for model in models() {
        let Some(&node) = model.candidates().get(1) else { continue };
        let posterior = model.posterior();
        let (mean, _) = posterior.mean_correction(&model.prediction, MeanSolver::Exact).unwrap();
        for noise_std in [0.2, 0.0] {
            let observation = Observation { node, value: 0.4, noise_std };
            let after = Kriging::of(&model, &model.parameters, &model.with_measurement(observation));
            // B.9: innovation; B.13: response; B.12: mean; B.15: covariance.
            let innovation = observation.value - model.prediction[node] - mean[node];
            let response = posterior.response(node, noise_std).unwrap();
            let moved: Vec<f64> = mean.iter().zip(&response).map(|(mean, u)| mean + u * innovation).collect();
            assert_close(&model.name, &moved, &after.mean, 1e-10);
            let before = Kriging::new(&model);
            // B.10: the innovation's variance; B.11: its covariance with the field.
            let predictive = noise_std * noise_std + before.covariance.at(node, node);
            let fallen: Vec<f64> = (0..response.len())
                .map(|other| before.covariance.at(other, other) - response[other] * response[other] * predictive)
                .collect();
            assert_close(&model.name, &fallen, &after.covariance.diagonal(), 1e-10);
            let cross: Vec<f64> = response.iter().map(|u| u * predictive).collect();
            assert_close(&model.name, &cross, before.covariance.row(node), 1e-10);
        }
    }
}

#[test]
fn parity_batch_moments_match_recomputing_after_each_pick_g12() {
    for mut model in models() {
        let (posterior, weights) = (model.posterior(), weights(&mut model));
        let noise_std = if model.grid().num_nodes() % 2 == 0 { 0.05 } else { 0.0 };
        let moments = UtilityMoments::exact(&posterior, &weights, noise_std).unwrap();
        let mut batch = BatchMoments::new(&posterior, &weights, &moments, noise_std);
        let candidates = model.candidates();
        // Some picks will be among the prepared ones, some not.
        let half: Vec<usize> = candidates.iter().copied().step_by(2).collect();
        batch.prepare(&half).unwrap();
        let mut picks = Vec::new();
        for pick in 0..candidates.len().min(6) {
            let free = candidates.iter().filter(|node| !model.observations.contains(**node));
            let best = *free.max_by(|a, b| batch.utility()[**a].total_cmp(&batch.utility()[**b])).unwrap();
            batch.measure(best).unwrap();
            picks.push(best);
            model.observations = model.with_measurement(Observation { node: best, value: 0.3, noise_std });
            let after = model.posterior();
            let (variances, numerators) = after.variances_and_numerators(&weights).unwrap();
            // Relative to the moments before the batch: a difference of two numbers keeps no more digits.
            let close = |found: &[f64], expected: &[f64], before: &[f64]| {
                let largest = before.iter().fold(f64::MIN_POSITIVE, |largest: f64, value| largest.max(value.abs()));
                let worst = found.iter().zip(expected).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs()));
                assert!(worst <= 1e-10 * largest, "{} pick {pick}: {worst:e} of {largest}", model.name);
            };
            close(batch.variance(), &variances, &moments.variance_estimate);
            close(batch.numerator(), &numerators, &moments.numerator_estimate);
            let kriging = Kriging::new(&model);
            let other: Vec<usize> =
                candidates.iter().copied().filter(|node| !model.observations.contains(*node)).collect();
            if let [node, ..] = other[..] {
                let square = |i: usize, j: usize| {
                    let rows = kriging.covariance.row(i).iter().zip(kriging.covariance.row(j)).zip(weights.as_slice());
                    rows.map(|((a, b), w)| a * b * w).sum::<f64>()
                };
                let found = batch.overlap(&other, node).unwrap();
                for (found, &candidate) in found.iter().zip(&other) {
                    let (left, right) = (square(node, node), square(candidate, candidate));
                    if left.min(right) > 1e-4 {
                        let expected = square(node, candidate).powi(2) / (left * right);
                        assert!((found - expected).abs() < 1e-8, "{}: {found} {expected}", model.name);
                    }
                }
            }
        }
        let mut values = weights.as_slice().to_vec();
        picks.iter().for_each(|&node| values[node] = 0.0);
        let later = RiskWeights::from_values(values).unwrap();
        assert!(batch.disagreement() < 1e-6, "{}: {:e}", model.name, batch.disagreement());
        let carried = batch.into_moments(&later).unwrap();
        let (variances, numerators) = model.posterior().variances_and_numerators(&later).unwrap();
        let close = |found: &[f64], expected: &[f64], before: &[f64]| {
            let largest = before.iter().fold(f64::MIN_POSITIVE, |largest: f64, value| largest.max(value.abs()));
            let worst = found.iter().zip(expected).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs()));
            assert!(worst <= 1e-10 * largest, "{} carried: {worst:e} of {largest}", model.name);
        };
        close(&carried.variance_estimate, &variances, &moments.variance_estimate);
        close(&carried.numerator_estimate, &numerators, &moments.numerator_estimate);
        assert_eq!((carried.solves[0].iterations, carried.solves[0].stop), (picks.len(), Stop::Direct));
        // Weights that change where nothing was measured cannot be carried.
        if let Some(&node) = candidates.first() {
            let mut values = weights.as_slice().to_vec();
            values[node] += 1.0;
            let batch = BatchMoments::new(&posterior, &weights, &moments, noise_std);
            assert!(batch.into_moments(&RiskWeights::from_values(values).unwrap()).is_none());
        }
    }
}

#[test]
fn parity_marginal_likelihood_matches_the_dense_density_g9_g11() {
    for model in models() {
        let found = log_marginal_likelihood(&model.posterior(), &model.prediction).unwrap();
        let expected = Kriging::new(&model).log_density;
        assert!((found - expected).abs() <= 1e-10 * (1.0 + expected.abs()), "{}: {found} {expected}", model.name);
    }
}

/// (name, derivative found, shift of the parameter by a step), a few edges among them.
type Derivative = (&'static str, f64, Box<dyn Fn(&mut Parameters, f64)>);

fn derivatives(model: &mut Model, gradient: &PrecisionGradient) -> Vec<Derivative> {
    let mut all: Vec<Derivative> = vec![("lambda", gradient.graph_coupling, Box::new(|p, step| p.lambda += step))];
    // The clamp of tau to the smallest allowed value has no derivative.
    if model.parameters.tau > 0.05 {
        all.push(("tau", gradient.residual_precision, Box::new(|p, step| p.tau += step)));
    }
    match model.parameters.kappa_squared {
        Some(_) => all.push((
            "kappa^2",
            gradient.kappa_squared,
            Box::new(|p, step| *p.kappa_squared.as_mut().unwrap() += step),
        )),
        None => assert_eq!(gradient.kappa_squared, 0.0),
    }
    let edges: Vec<(usize, usize)> = (0..4)
        .flat_map(|direction| (0..model.grid().num_nodes()).map(move |node| (direction, node)))
        .filter(|&(direction, node)| model.parameters.edges[direction][node] > 0.2)
        .collect();
    for _ in 0..edges.len().min(8) {
        let (direction, node) = edges[model.stream.index(edges.len())];
        let shift = move |p: &mut Parameters, step: f64| p.edges[direction][node] += step;
        all.push(("edge", gradient.conductances[direction][node], Box::new(shift)));
    }
    all
}

#[test]
fn parity_marginal_gradients_match_the_dense_derivative_and_finite_differences_g10() {
    for mut model in models().filter(|model| !model.observations.is_empty()) {
        let (_, gradient) = marginal_likelihood_gradient(&model.posterior(), &model.prediction).unwrap();
        let kriging = Kriging::new(&model);
        for (name, found, shift) in derivatives(&mut model, &gradient.precision) {
            let change = change_of_precision(model.grid(), &model.parameters, &shift);
            let expected = kriging.derivative(&model.observations, &change);
            let scale = 1.0 + expected.abs();
            assert!((found - expected).abs() <= GRADIENT * scale, "{} {name}: {found} {expected}", model.name);
            let value = |step: f64| {
                let mut moved = model.parameters.clone();
                shift(&mut moved, step);
                let posterior = model.posterior_after(&moved, &model.observations);
                log_marginal_likelihood(&posterior, &model.prediction).unwrap()
            };
            let difference = (value(1e-4) - value(-1e-4)) / 2e-4;
            assert!((found - difference).abs() <= 1e-5 * scale, "{} {name}: {found} {difference}", model.name);
        }
        let diagonal = |at: usize| 0.5 * (kriging.weights[at].powi(2) - kriging.projector[at][at]);
        let expected: Vec<f64> = (0..model.observations.len()).map(diagonal).collect();
        assert_close(&model.name, &gradient.noise_variance, &expected, GRADIENT);
    }
}

#[test]
fn parity_log_determinants_and_their_gradients_match_the_dense_traces_g7() {
    for mut model in models() {
        model.drift = None;
        let (posterior, kriging) = (model.posterior(), Kriging::new(&model));
        let (of_posterior, posterior_gradient) = posterior.log_det_gradient().unwrap();
        let (of_prior, prior_gradient) = posterior.precision().prior().log_det_gradient().unwrap();
        // log det A = log det K + log det Q - log det R, the exact nodes left out of A and R.
        let noise: f64 =
            model.observations.iter().filter(|entry| !entry.is_exact()).map(|entry| 2.0 * entry.noise_std.ln()).sum();
        let expected = kriging.log_det_of_values + log_det(&model.parameters.dense(model.grid())) - noise;
        assert!((of_posterior - expected).abs() <= 1e-10 * (1.0 + expected.abs()), "{}", model.name);
        assert!((of_prior - posterior.precision().prior().log_det().unwrap()).abs() == 0.0);
        for (gradient, covariance) in
            [(posterior_gradient, &kriging.covariance), (prior_gradient, &kriging.prior_covariance)]
        {
            for (name, found, shift) in derivatives(&mut model_copy(&model), &gradient) {
                let change = change_of_precision(model.grid(), &model.parameters, &shift);
                let size = change.size();
                let expected: f64 = (0..size).map(|i| dot(covariance.row(i), change.row(i))).sum();
                let scale = 1.0 + expected.abs();
                assert!((found - expected).abs() <= GRADIENT * scale, "{} {name}: {found} {expected}", model.name);
            }
        }
    }
}

#[test]
fn parity_residual_likelihood_matches_the_density_of_the_valid_cells_g8() {
    for mut model in models().step_by(2).chain(models().skip(1).step_by(6)) {
        let size = model.grid().num_nodes();
        let residuals: Vec<f64> = (0..2 * size).map(|_| model.stream.normal()).collect();
        let precision = model.parameters.precision(&model.valid);
        // The valid cells alone, as a matrix of their own: the others are not coupled to them.
        let nodes: Vec<usize> = model.valid.nodes().collect();
        let expected = |parameters: &Parameters| {
            let (full, mut own) = (parameters.dense(model.grid()), dense_oracle::matrix::Dense::zeros(nodes.len()));
            for (i, &row) in nodes.iter().enumerate() {
                nodes.iter().enumerate().for_each(|(j, &col)| *own.at_mut(i, j) = full.at(row, col));
            }
            let density = |residual: &[f64]| {
                let x: Vec<f64> = nodes.iter().map(|&node| residual[node]).collect();
                let constant = x.len() as f64 * (2.0 * std::f64::consts::PI).ln();
                -0.5 * (constant - log_det(&own) + dot(&x, &own.times(&x)))
            };
            residuals.chunks(size).map(density).sum::<f64>()
        };
        let (value, gradient) = residual_likelihood_gradient(&precision, &model.valid, &residuals).unwrap();
        assert_eq!(value, residual_log_likelihood(&precision, &model.valid, &residuals).unwrap());
        let dense = expected(&model.parameters);
        assert!((value - dense).abs() <= 1e-10 * dense.abs(), "{}: {value} {dense}", model.name);
        let parameters = model.parameters.clone();
        let checks: Vec<(&str, f64, f64)> = derivatives(&mut model_copy(&model), &gradient)
            .into_iter()
            .map(|(name, found, shift)| {
                let at = |step: f64| {
                    let mut moved = parameters.clone();
                    shift(&mut moved, step);
                    expected(&moved)
                };
                (name, found, (at(1e-4) - at(-1e-4)) / 2e-4)
            })
            .collect();
        for (name, found, difference) in checks {
            let scale = 1.0 + difference.abs();
            assert!((found - difference).abs() <= 1e-5 * scale, "{} {name}: {found} {difference}", model.name);
        }
        for (map, allowed) in gradient.conductances.iter().zip(gpara::edge_mask(&model.valid)) {
            assert!(map.iter().zip(allowed).all(|(entry, allowed)| allowed || *entry == 0.0));
        }
    }
}

/// The same model with a stream of its own.
fn model_copy(source: &Model) -> Model {
    Model {
        name: source.name.clone(),
        valid: source.valid.clone(),
        parameters: source.parameters.clone(),
        observations: source.observations.clone(),
        drift: source.drift.clone(),
        prediction: source.prediction.clone(),
        stream: source.stream.clone(),
    }
}

#[test]
fn drift_that_the_measurements_do_not_determine_is_refused_with_a_hint() {
    let model = model(0);
    let (grid, prior) = (model.grid(), model.parameters.precision(&model.valid));
    let line: Vec<f64> = (0..grid.num_nodes()).map(|node| node as f64).collect();
    let drift = Drift::flat(grid, vec![vec![1.0; grid.num_nodes()], line.clone()]).unwrap();
    let measured = |nodes: &[usize]| {
        let mut observations = Observations::none(grid);
        let rows: Vec<_> = nodes.iter().map(|&node| Observation { node, value: 1.0, noise_std: 0.1 }).collect();
        observations.add(&ValidMask::all(grid), &rows).unwrap();
        observations
    };
    for nodes in [&[][..], &[3]] {
        let error = Posterior::with_drift(&prior, &measured(nodes), &drift).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.hint().unwrap().contains("measure more cells"), "{error}");
    }
    Posterior::with_drift(&prior, &measured(&[1, 3]), &drift).unwrap();
    // Two columns that differ by a factor say the same thing, whatever is measured.
    let doubled = Drift::flat(grid, vec![line.clone(), line.iter().map(|value| 2.0 * value).collect()]).unwrap();
    let error = Posterior::with_drift(&prior, &measured(&[1, 3, 5]), &doubled).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    // With a prior nothing needs to be measured.
    let informed = Drift::independent(grid, vec![line], &[4.0]).unwrap();
    let posterior = Posterior::with_drift(&prior, &measured(&[]), &informed).unwrap();
    let (mean, covariance) = posterior.drift_coefficients(&vec![0.0; grid.num_nodes()]).unwrap().unwrap();
    assert_eq!((mean, covariance), (vec![0.0], vec![0.25]));
    let other = Drift::constant(Grid::new(3, 3).unwrap());
    let error = Posterior::with_drift(&prior, &measured(&[1]), &other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
}

#[test]
fn gaussian_drift_of_correlated_coefficients_equals_the_rotated_independent_one() {
    let model = model(2);
    let (grid, prior) = (model.grid(), model.parameters.precision(&model.valid));
    let wave = |rate: f64| (0..grid.num_nodes()).map(|node| (rate * node as f64).sin()).collect::<Vec<f64>>();
    let (first, second) = (wave(0.3), wave(1.1));
    // b' P b = 2 (b_1 + b_2)^2 + 3 (b_1 - b_2)^2 / 2 with F b = (b_1 + b_2) (F_1 + F_2) / 2 + (b_1 - b_2) (F_1 - F_2) / 2.
    let correlated = Drift::gaussian(grid, vec![first.clone(), second.clone()], vec![3.5, 0.5, 0.5, 3.5]).unwrap();
    let half = |sign: f64| first.iter().zip(&second).map(|(a, b)| 0.5 * (a + sign * b)).collect::<Vec<f64>>();
    let rotated = Drift::independent(grid, vec![half(1.0), half(-1.0)], &[2.0, 1.5]).unwrap();
    let answer = |drift: &Drift| {
        let posterior = Posterior::with_drift(&prior, &model.observations, drift).unwrap();
        let (mean, _) = posterior.mean_correction(&model.prediction, MeanSolver::Exact).unwrap();
        (mean, posterior.variances().unwrap(), log_marginal_likelihood(&posterior, &model.prediction).unwrap())
    };
    let (found, expected) = (answer(&correlated), answer(&rotated));
    assert_close("mean", &found.0, &expected.0, DIRECT);
    assert_close("variance", &found.1, &expected.1, DIRECT);
    // The density of the data does not depend on how the coefficients are named.
    assert!((found.2 - expected.2).abs() < 1e-11 * expected.2.abs());
}
