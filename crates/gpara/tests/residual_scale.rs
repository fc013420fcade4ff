//! The scale of the residual that is fitted to the measurements, against dense formulas and fields of known scale.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod dense_oracle;

use std::sync::Arc;

use dense_oracle::matrix::Dense;
use gpara::{
    Conductances, Context, Correction, Drift, ErrorKind, GaussianReconstructor, GaussianSettings, Grid, MeanPredictor,
    MeanReconstructor, MeanSettings, MeanSolver, Observation, Observations, Posterior, PriorMean, Reconstruction,
    ReconstructionInput, Reconstructor, ResidualPrecision, Result, ScaleOutcome, ScaledPosterior, SeedTree, StdScale,
    StdSource, Stream, SymmetrySet, ValidMask, sample_residual,
};

/// Means by 64-bit factorisation against dense inverses, relative to the largest entry.
const CLOSE: f64 = 1e-8;

fn valid() -> ValidMask {
    let grid = Grid::new(14, 15).unwrap();
    ValidMask::new(grid, (0..grid.num_nodes()).map(|node| node % 23 != 7).collect()).unwrap()
}

/// A first-order or a smooth second-order field.
fn prior(order: usize) -> ResidualPrecision {
    let (valid, mut stream) = (valid(), SeedTree::new(5).stream("graph"));
    let logits: Vec<f64> = (0..4 * valid.grid().num_nodes()).map(|_| stream.normal()).collect();
    let graph = Conductances::from_logits(&logits, &valid).unwrap();
    match order {
        1 => ResidualPrecision::new(graph, 0.0625, 0.8).unwrap(),
        _ => ResidualPrecision::second_order(graph, 1e-4, 1.0, 0.05).unwrap(),
    }
}

/// Values of `level + scale * z` at every `stride`-th valid cell, z ~ N(0, Q^-1); the field itself comes along.
fn drawn(
    prior: &ResidualPrecision,
    (level, scale, noise_std): (f64, f64, f64),
    stride: usize,
    stream: &mut Stream,
) -> (Vec<f64>, Observations) {
    let unmeasured = Posterior::new(prior, &Observations::none(prior.grid())).unwrap();
    let field: Vec<f64> =
        sample_residual(&unmeasured, stream).unwrap().iter().map(|value| level + scale * value).collect();
    let mut observations = Observations::none(prior.grid());
    let rows: Vec<Observation> = valid()
        .nodes()
        .step_by(stride)
        .map(|node| Observation { node, value: field[node] + noise_std * stream.normal(), noise_std })
        .collect();
    observations.add(&valid(), &rows).unwrap();
    (field, observations)
}

fn level(grid: Grid) -> Drift {
    Drift::constant(grid)
}

/// Root mean square error over the valid cells.
fn rmse(found: &[f64], truth: &[f64]) -> f64 {
    let squares: Vec<f64> = valid().nodes().map(|node| (found[node] - truth[node]).powi(2)).collect();
    (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Q^-1, dense, by applying Q to unit fields.
fn prior_covariance(prior: &ResidualPrecision) -> Dense {
    let size = prior.grid().num_nodes();
    let mut precision = Dense::zeros(size);
    for col in 0..size {
        let mut unit = vec![0.0; size];
        unit[col] = 1.0;
        prior.apply(&unit).into_iter().enumerate().for_each(|(row, value)| *precision.at_mut(row, col) = value);
    }
    precision.inverse()
}

/// Mean and std of a field of unknown level under the prior s^2 Q^-1 by dense kriging, and (y - b)' K^-1 (y - b).
fn kriging(covariance: &Dense, scale: f64, observations: &Observations) -> (Vec<f64>, Vec<f64>, f64) {
    let entries: Vec<Observation> = observations.iter().copied().collect();
    let square = scale * scale;
    let mut gram = Dense::zeros(entries.len());
    for (row, first) in entries.iter().enumerate() {
        for (col, second) in entries.iter().enumerate() {
            let noise = if row == col { first.noise_std.powi(2) } else { 0.0 };
            *gram.at_mut(row, col) = square * covariance.at(first.node, second.node) + noise;
        }
    }
    let inverse = gram.inverse();
    let (values, ones): (Vec<f64>, Vec<f64>) = entries.iter().map(|entry| (entry.value, 1.0)).unzip();
    let precision = dot(&ones, &inverse.times(&ones));
    let level = dot(&ones, &inverse.times(&values)) / precision;
    let residual: Vec<f64> = values.iter().map(|value| value - level).collect();
    let (mut mean, mut std) = (Vec::new(), Vec::new());
    for node in 0..covariance.size() {
        let column: Vec<f64> = entries.iter().map(|entry| square * covariance.at(entry.node, node)).collect();
        let weights = inverse.times(&column);
        mean.push(level + dot(&weights, &residual));
        let kept = 1.0 - dot(&weights, &ones);
        std.push((square * covariance.at(node, node) - dot(&weights, &column) + kept * kept / precision).sqrt());
    }
    (mean, std, dot(&residual, &inverse.times(&residual)))
}

fn gaussian(scale: StdScale) -> GaussianReconstructor {
    let mean = PriorMean::Fitted { without_measurements: 0.0 };
    GaussianReconstructor::new(GaussianSettings { mean, scale, num_samples: 0 })
}

fn reconstruct(
    prior: &ResidualPrecision,
    observations: &Observations,
    reconstructor: &dyn Reconstructor,
) -> Result<Reconstruction> {
    let context = Context::new(valid(), Vec::new()).unwrap();
    let seeds = SeedTree::new(3);
    reconstructor.reconstruct(&ReconstructionInput {
        context: &context,
        observations,
        precision: prior,
        ensemble: None,
        seeds,
    })
}

#[track_caller]
fn assert_close(name: &str, found: &[f64], expected: &[f64]) {
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    for node in valid().nodes() {
        let (found, expected) = (found[node], expected[node]);
        assert!((found - expected).abs() <= CLOSE * largest, "{name}, node {node}: {found} instead of {expected}");
    }
}

/// E[(y - b)' K^-1 (y - b)] = n - 1 at the true scale.
#[test]
fn theory_fitted_scale_is_that_of_the_drawn_fields_g14() {
    const DRAWS: usize = 60;
    for order in [1, 2] {
        let prior = prior(order);
        let (scale, noise_std) = (0.02, if order == 1 { 0.01 } else { 0.02 });
        let (mut logs, mut most) = (Vec::new(), 0);
        for seed in 0..DRAWS {
            let mut stream = SeedTree::new(seed as u64).stream("field");
            let (_, observations) = drawn(&prior, (0.7, scale, noise_std), 2, &mut stream);
            let nothing = vec![0.0; prior.grid().num_nodes()];
            let fitted = ScaledPosterior::fit(&prior, &observations, &nothing, Some(&level(prior.grid()))).unwrap();
            assert!(
                matches!(fitted.outcome(), ScaleOutcome::Matched | ScaleOutcome::FitCap),
                "order {order}, seed {seed}: {:?}",
                fitted.outcome()
            );
            most = most.max(fitted.num_fits());
            logs.push((fitted.scale() / scale).ln());
        }
        let mean = logs.iter().sum::<f64>() / DRAWS as f64;
        let spread = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (DRAWS - 1) as f64).sqrt();
        let standard_error = spread / (DRAWS as f64).sqrt();
        println!("order {order}: mean log {mean:.4} +- {standard_error:.4}, spread {spread:.3}, fits at most {most}");
        // Monte Carlo, and the tolerance of the search.
        assert!(mean.abs() < 2.5 * standard_error + 0.02, "order {order}: {mean}");
        assert!(most <= 5);
    }
}

#[test]
fn theory_mean_and_std_are_dense_kriging_under_the_scaled_prior_g14() {
    for order in [1, 2] {
        let prior = prior(order);
        let covariance = prior_covariance(&prior);
        let mut stream = SeedTree::new(8).stream("field");
        let (_, mut observations) = drawn(&prior, (0.7, 0.02, 0.02), 3, &mut stream);
        // Noise of its own and a value without any.
        let other = [
            Observation { node: 1, value: 0.7, noise_std: 0.005 },
            Observation { node: 20, value: 0.71, noise_std: 0.0 },
        ];
        observations.add(&valid(), &other).unwrap();
        let grid = prior.grid();
        let fitted =
            ScaledPosterior::fit(&prior, &observations, &vec![0.0; grid.num_nodes()], Some(&level(grid))).unwrap();
        assert_eq!(fitted.outcome(), ScaleOutcome::Matched, "order {order}");
        let (mean, std, misfit) = kriging(&covariance, fitted.scale(), &observations);
        let free = (observations.len() - 1) as f64;
        // 2 % of s move chi-square by at most 4 %, a tenth of the standard error by at most a tenth of sqrt(2 / free).
        let tolerance = 0.05_f64.max(0.15 * (2.0 / free).sqrt());
        assert!((misfit / free - 1.0).abs() < tolerance, "order {order}: {misfit} of {free}");
        let found = reconstruct(&prior, &observations, &gaussian(StdScale::Fitted)).unwrap();
        assert_close("mean", &found.mean, &mean);
        for (node, (found, expected)) in found.std.unwrap().iter().zip(&std).enumerate() {
            // The dense formula subtracts variances of the prior.
            let prior_variance = fitted.scale().powi(2) * covariance.at(node, node);
            assert!(
                (found * found - expected * expected).abs() < CLOSE * prior_variance || expected.is_nan(),
                "order {order}, node {node}: {found} {expected}"
            );
        }
    }
}

#[test]
fn answers_without_noise_are_those_at_the_unit_scale() {
    for order in [1, 2] {
        let prior = prior(order);
        for noise_std in [0.0, 1e-5] {
            let mut stream = SeedTree::new(2).stream("field");
            let (_, observations) = drawn(&prior, (0.7, 0.02, noise_std), 3, &mut stream);
            let grid = prior.grid();
            let fitted =
                ScaledPosterior::fit(&prior, &observations, &vec![0.0; grid.num_nodes()], Some(&level(grid))).unwrap();
            assert_eq!((fitted.outcome(), fitted.num_fits()), (ScaleOutcome::NoiseNegligible, 1));
            let found = reconstruct(&prior, &observations, &gaussian(StdScale::Fitted)).unwrap();
            let unit = reconstruct(&prior, &observations, &gaussian(StdScale::Fixed(1.0))).unwrap();
            assert_eq!(found.mean, unit.mean, "order {order}, noise {noise_std}");
            let std: Vec<f64> = unit.std.unwrap().iter().map(|std| fitted.scale() * std).collect();
            assert_eq!(found.std.unwrap(), std);
            let (_, _, misfit) = kriging(&prior_covariance(&prior), 1.0, &observations);
            let expected = (misfit / (observations.len() - 1) as f64).sqrt();
            assert!((fitted.scale() / expected - 1.0).abs() < 1e-8, "order {order}: {} {expected}", fitted.scale());
        }
    }
}

#[test]
fn noise_alone_leaves_the_fitted_level() {
    let mut num_flat = 0;
    for order in [1, 2] {
        let prior = prior(order);
        for seed in 0..10 {
            let mut stream = SeedTree::new(seed).stream("noise");
            let (_, observations) = drawn(&prior, (0.7, 0.0, 0.3), 2, &mut stream);
            let count = observations.len() as f64;
            let average = observations.iter().map(|entry| entry.value).sum::<f64>() / count;
            let found = reconstruct(&prior, &observations, &gaussian(StdScale::Fitted)).unwrap();
            let unit = reconstruct(&prior, &observations, &gaussian(StdScale::Fixed(1.0))).unwrap();
            let truth = vec![0.7; found.mean.len()];
            assert!(rmse(&found.mean, &truth) < rmse(&unit.mean, &truth), "order {order}, seed {seed}");
            let misfit: f64 = observations.iter().map(|entry| ((entry.value - average) / 0.3).powi(2)).sum();
            let nothing = vec![0.0; found.mean.len()];
            let drift = level(prior.grid());
            let fitted = ScaledPosterior::fit(&prior, &observations, &nothing, Some(&drift)).unwrap();
            assert_eq!(fitted.outcome() == ScaleOutcome::NoSignal, misfit <= count - 1.0, "order {order}, seed {seed}");
            if fitted.outcome() == ScaleOutcome::NoSignal {
                num_flat += 1;
                assert_eq!(fitted.num_fits(), 2);
                let std = found.std.unwrap();
                for node in valid().nodes() {
                    assert!((found.mean[node] - average).abs() < 1e-3 * 0.3, "order {order}, seed {seed}, node {node}");
                    // The level is known to noise / sqrt(n), and nothing else varies.
                    assert!((std[node] / (0.3 / count.sqrt()) - 1.0).abs() < 1e-2, "{}", std[node]);
                }
            }
        }
    }
    assert!(num_flat >= 6, "about half of the draws are explained by noise: {num_flat}");
}

/// Predicts 0 everywhere.
struct Nothing;

impl MeanPredictor for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn predict(&self, context: &Context, _: &Observations) -> Result<Vec<f64>> {
        Ok(vec![0.0; context.grid().num_nodes()])
    }
}

fn network(fitted_scale: bool, network_share: f64) -> MeanReconstructor {
    let settings = MeanSettings {
        symmetries: SymmetrySet::Identity,
        affine: false,
        network_share,
        fitted_scale,
        uneven_kappa_squared: None,
        dense: None,
        correction: Correction { solver: MeanSolver::Exact, strength: 1.0, range: None },
        invalid_value: None,
        std: StdSource::Posterior { scale: 1.0 },
    };
    MeanReconstructor::new(Arc::new(Nothing), settings)
}

#[test]
fn fitted_scale_beats_interpolation_where_noise_is_large() {
    for order in [1, 2] {
        let prior = prior(order);
        let (mut fitted, mut unit) = (0.0, 0.0);
        for seed in 0..10 {
            let mut stream = SeedTree::new(seed).stream("field");
            let (truth, observations) = drawn(&prior, (0.0, 0.01, 0.1), 2, &mut stream);
            for share in [1.0, 0.5] {
                let run = |fit| rmse(&reconstruct(&prior, &observations, &network(fit, share)).unwrap().mean, &truth);
                let (with, without) = (run(true), run(false));
                fitted += with / 20.0;
                unit += without / 20.0;
            }
        }
        println!("order {order}: {fitted} against {unit}");
        assert!(fitted < 0.7 * unit, "order {order}: {fitted} against {unit}");
    }
}

#[test]
fn network_and_graph_alone_have_each_a_scale_of_their_own() {
    let prior = prior(1);
    let mut stream = SeedTree::new(4).stream("field");
    let (_, observations) = drawn(&prior, (0.3, 0.02, 0.02), 2, &mut stream);
    let nothing = vec![0.0; prior.grid().num_nodes()];
    let mean = |drift: Option<&Drift>| {
        let fitted = ScaledPosterior::fit(&prior, &observations, &nothing, drift).unwrap();
        (fitted.posterior().mean_correction(&nothing, MeanSolver::Exact).unwrap().0, fitted.scale())
    };
    // Without a level the residual has to carry .3: a far larger scale.
    let ((whole, of_whole), (alone, of_alone)) = (mean(None), mean(Some(&level(prior.grid()))));
    assert!(of_whole > 2.0 * of_alone, "{of_whole} {of_alone}");
    let expected: Vec<f64> = whole.iter().zip(&alone).map(|(whole, alone)| 0.25 * whole + 0.75 * alone).collect();
    let found = reconstruct(&prior, &observations, &network(true, 0.25)).unwrap();
    assert_close("share", &found.mean, &expected);
}

#[test]
fn fewer_than_sixteen_values_are_conditioned_at_the_unit_scale() {
    let prior = prior(1);
    let mut stream = SeedTree::new(4).stream("field");
    let (_, observations) = drawn(&prior, (0.3, 0.02, 0.02), 14, &mut stream);
    assert!(observations.len() < 16);
    let run = |reconstructor: &dyn Reconstructor| reconstruct(&prior, &observations, reconstructor).unwrap();
    assert_eq!(run(&network(true, 1.0)), run(&network(false, 1.0)));
    let (fitted, unit) = (run(&gaussian(StdScale::Fitted)), run(&gaussian(StdScale::Fixed(1.0))));
    assert_eq!(fitted.mean, unit.mean);
    let drift = level(prior.grid());
    let scaled = ScaledPosterior::fit(&prior, &observations, &vec![0.0; fitted.mean.len()], Some(&drift)).unwrap();
    assert_eq!((scaled.outcome(), scaled.num_fits()), (ScaleOutcome::TooFew, 1));
}

#[test]
fn drift_with_a_prior_is_refused_by_kind() {
    let prior = prior(1);
    let grid = prior.grid();
    let drift = Drift::independent(grid, vec![vec![1.0; grid.num_nodes()]], &[2.0]).unwrap();
    let none = Observations::none(grid);
    let error = ScaledPosterior::fit(&prior, &none, &vec![0.0; grid.num_nodes()], Some(&drift)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.hint().is_some());
}
