//! Mean and Gaussian reconstruction against dense formulas, and the edge cases of Stage II.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod dense_oracle;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dense_oracle::Oracle;
use dense_oracle::cases::{self, Case};
use dense_oracle::matrix::Dense;
use gpara::{
    Channel, Conductances, Context, Correction, CorrectionSchedule, DenseSettings, Drift, EnsembleMoments, ErrorKind,
    GaussianDenoiser, GaussianReconstructor, GaussianSettings, Grid, Guided, MeanPredictor, MeanReconstructor,
    MeanSettings, MeanSolver, NoiseSchedule, Observation, Observations, Posterior, PriorEnsemble, PriorMean,
    Reconstruction, ReconstructionInput, Reconstructor, ResidualPrecision, Result, SamplerSettings, SeedTree, StdScale,
    StdSource, Stop, SymmetrySet, TrajectoryReconstructor, TrajectorySettings, ValidMask, ValueRange, sample_residual,
};

/// Direct methods, relative to the largest entry.
const CLOSE: f64 = 1e-10;

#[track_caller]
fn assert_close(name: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    for (node, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= CLOSE * largest, "{name}, node {node}: {found} instead of {expected}");
    }
}

fn exact() -> Correction {
    Correction { solver: MeanSolver::Exact, strength: 1.0, range: None }
}

fn reconstruct(
    case: &Case,
    observations: &Observations,
    ensemble: Option<&PriorEnsemble>,
    reconstructor: &dyn Reconstructor,
) -> Result<Reconstruction> {
    let context = Context::new(case.valid.clone(), vec![row_channel(case.grid())]).unwrap();
    let (precision, seeds) = (case.prior(), SeedTree::new(3));
    reconstructor.reconstruct(&ReconstructionInput {
        context: &context,
        observations,
        precision: &precision,
        ensemble,
        seeds,
    })
}

/// A scene map that no symmetry leaves as it is.
fn row_channel(grid: Grid) -> Channel {
    let values = (0..grid.num_nodes()).map(|node| (node as f32 * 0.37).sin()).collect();
    Channel { name: "map".into(), values }
}

/// Predicts from the scene's map and the measurements, cell by cell plus a term that sees directions.
struct Toy {
    /// Weight of a term that depends on the cell's position, which no symmetry moves with the scene.
    position: f64,
    calls: AtomicUsize,
}

impl Toy {
    fn new(position: f64) -> Arc<Self> {
        Arc::new(Self { position, calls: AtomicUsize::new(0) })
    }
}

impl MeanPredictor for Toy {
    fn name(&self) -> &str {
        "toy"
    }

    fn predict(&self, context: &Context, observations: &Observations) -> Result<Vec<f64>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let grid = context.grid();
        let map = context.channel("map").unwrap();
        let mut mean: Vec<f64> = map.iter().map(|&value| 0.5 * f64::from(value)).collect();
        observations.iter().for_each(|entry| mean[entry.node] += 0.25 * entry.value);
        for (node, value) in mean.iter_mut().enumerate() {
            *value += self.position * grid.row_col(node).1 as f64;
        }
        Ok(mean)
    }
}

fn mean_settings(symmetries: SymmetrySet, std: StdSource) -> MeanSettings {
    MeanSettings {
        symmetries,
        affine: false,
        network_share: 1.0,
        fitted_scale: false,
        uneven_kappa_squared: None,
        dense: None,
        correction: exact(),
        invalid_value: None,
        std,
    }
}

#[test]
fn theory_mean_reconstruction_is_prediction_plus_exact_posterior_mean_eq10() {
    for case in cases::all() {
        let toy = Toy::new(0.1);
        let reconstructor = MeanReconstructor::new(
            toy.clone(),
            mean_settings(SymmetrySet::Identity, StdSource::Posterior { scale: 0.5 }),
        );
        let found = reconstruct(&case, &case.observations, None, &reconstructor).unwrap();
        let context = Context::new(case.valid.clone(), vec![row_channel(case.grid())]).unwrap();
        let prediction = toy.predict(&context, &case.observations).unwrap();
        let oracle = Oracle::new(&case);
        let expected: Vec<f64> =
            prediction.iter().zip(oracle.mean(&case, &prediction)).map(|(mean, delta)| mean + delta).collect();
        assert_close(case.name, &found.mean, &expected);
        let std: Vec<f64> = oracle.covariance.diagonal().into_iter().map(|variance| 0.5 * variance.sqrt()).collect();
        assert_close(case.name, &found.std.unwrap(), &std);
        assert_eq!((found.network_calls, found.worst_solve.unwrap().stop), (1, Stop::Direct));
    }
}

#[test]
fn share_of_the_network_averages_two_posterior_means_and_a_bad_share_is_refused() {
    let case = cases::named("masked 7x8");
    // More measurements than the level needs, one in every other valid cell.
    let nodes = case.valid.nodes().step_by(2).take(20);
    let values: Vec<Observation> =
        nodes.map(|node| Observation { node, value: 0.3 - 0.01 * node as f64, noise_std: 0.05 }).collect();
    let mut observations = Observations::none(case.grid());
    observations.add(&case.valid, &values).unwrap();
    assert!(observations.len() >= 16);
    let run = |network_share, observations: &Observations| {
        let settings = mean_settings(SymmetrySet::Identity, StdSource::Posterior { scale: 1.0 });
        let settings = MeanSettings { network_share, ..settings };
        reconstruct(&case, observations, None, &MeanReconstructor::new(Toy::new(0.1), settings)).map(|made| made.mean)
    };
    // The field of the graph alone: a network of nothing, whose level is fitted.
    let drift = Drift::flat(case.grid(), vec![vec![1.0; case.grid().num_nodes()]]).unwrap();
    let alone = Posterior::with_drift(&case.prior(), &observations, &drift).unwrap();
    let (alone, _) = exact().refine(&alone, &vec![0.0; case.grid().num_nodes()]).unwrap();
    let (whole, half) = (run(1.0, &observations).unwrap(), run(0.25, &observations).unwrap());
    for node in case.valid.nodes() {
        let expected = 0.25 * whole[node] + 0.75 * alone[node];
        assert!((half[node] - expected).abs() < 1e-12, "{node}: {} {expected}", half[node]);
    }
    assert!(case.valid.nodes().any(|node| (half[node] - whole[node]).abs() > 1e-3));
    let few = Observations::none(case.grid());
    assert_eq!(run(0.25, &few).unwrap(), run(1.0, &few).unwrap());
    for share in [0.0, 1.5, f64::NAN] {
        assert_eq!(run(share, &observations).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn theory_residual_of_an_uneven_layout_has_the_shorter_reach_g19() {
    let grid = Grid::new(16, 16).unwrap();
    let valid = ValidMask::all(grid);
    let graph = Conductances::from_logits(&[0.0; 1024], &valid).unwrap();
    let graph_of = |kappa_squared| ResidualPrecision::second_order(graph.clone(), 1e-6, 1.0, kappa_squared).unwrap();
    let context = Context::new(valid.clone(), vec![row_channel(grid)]).unwrap();
    let at = |nodes: Vec<usize>| {
        let value = |node| Observation { node, value: 0.1 + 0.01 * node as f64, noise_std: 0.05 };
        let mut observations = Observations::none(grid);
        observations.add(&valid, &nodes.into_iter().map(value).collect::<Vec<_>>()).unwrap();
        observations
    };
    let run = |precision: &ResidualPrecision, uneven_kappa_squared, observations: &Observations| {
        let settings = mean_settings(SymmetrySet::Identity, StdSource::Posterior { scale: 1.0 });
        let reconstructor = MeanReconstructor::new(Toy::new(0.1), MeanSettings { uneven_kappa_squared, ..settings });
        let (context, seeds) = (&context, SeedTree::new(3));
        let input = ReconstructionInput { context, observations, precision, ensemble: None, seeds };
        reconstructor.reconstruct(&input)
    };
    // A corner: the mean distance to it is some 12 cells, the spacing of 8 points 5.3.
    let corner = at((0..8).map(|at| 16 * (at / 4) + at % 4).collect());
    let even = at((0..16).map(|at| 16 * (2 + 4 * (at / 4)) + 2 + 4 * (at % 4)).collect());
    let found = run(&graph_of(1e-3), Some(0.2), &corner).unwrap();
    let expected = run(&graph_of(0.2), None, &corner).unwrap();
    assert_close("mean", &found.mean, &expected.mean);
    assert_close("std", found.std.as_ref().unwrap(), expected.std.as_ref().unwrap());
    assert!((found.mean[255] - run(&graph_of(1e-3), None, &corner).unwrap().mean[255]).abs() > 1e-3);
    assert_eq!(run(&graph_of(1e-3), Some(0.2), &even).unwrap(), run(&graph_of(1e-3), None, &even).unwrap());
    // A graph of first order has no kappa; it is not asked for one where the layout is even.
    let first = ResidualPrecision::new(graph.clone(), 0.1, 1.0).unwrap();
    let error = run(&first, Some(0.2), &corner).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains("first order"), "{error}");
    assert!(run(&first, Some(0.2), &even).is_ok());
    assert_eq!(run(&graph_of(1e-3), Some(f64::NAN), &corner).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn theory_above_what_the_network_was_trained_with_a_guided_field_stands_beside_it_g21() {
    let grid = Grid::new(8, 9).unwrap();
    let valid = ValidMask::all(grid);
    let color = |name: &str, slope: f32| Channel {
        name: name.into(),
        values: (0..72).map(|node| slope * ((node * 7) % 11) as f32 - 0.5).collect(),
    };
    let picture = vec![color("red", 0.09), color("green", 0.05), color("blue", 0.02), row_channel(grid)];
    let context = Context::new(valid.clone(), picture).unwrap();
    let guided = |scale| {
        let graph = Guided::new(context.luminance().unwrap(), scale).unwrap().conductances(&valid).unwrap();
        ResidualPrecision::second_order(graph, 1e-6, 1.0, 1e-2).unwrap()
    };
    let run = |context: &Context, count: usize, precision: ResidualPrecision, network_share, dense| {
        let value = |at| Observation { node: 3 * at, value: 0.3 - 0.02 * at as f64, noise_std: 0.05 };
        let mut observations = Observations::none(grid);
        observations.add(&valid, &(0..count).map(value).collect::<Vec<_>>()).unwrap();
        let settings = mean_settings(SymmetrySet::Identity, StdSource::Posterior { scale: 1.0 });
        let settings = MeanSettings { network_share, dense, ..settings };
        let (observations, precision, seeds) = (&observations, &precision, SeedTree::new(3));
        let input = ReconstructionInput { context, observations, precision, ensemble: None, seeds };
        MeanReconstructor::new(Toy::new(0.1), settings).reconstruct(&input)
    };
    let dense = |above| Some(DenseSettings { above, network_share: 0.5, guide_scale: 0.1 });
    let found = run(&context, 20, guided(0.02), 1.0, dense(19)).unwrap();
    assert_eq!(found, run(&context, 20, guided(0.1), 0.5, None).unwrap());
    let as_trained = run(&context, 20, guided(0.02), 1.0, None).unwrap();
    assert_ne!(found.mean, as_trained.mean);
    assert_eq!(run(&context, 20, guided(0.02), 1.0, dense(20)).unwrap(), as_trained);
    let plain = Context::new(valid.clone(), vec![row_channel(grid)]).unwrap();
    assert!(run(&plain, 20, guided(0.02), 1.0, dense(20)).is_ok());
    assert_eq!(run(&plain, 20, guided(0.02), 1.0, dense(19)).unwrap_err().kind(), ErrorKind::Incompatible);
    let no_scale = Some(DenseSettings { above: 19, network_share: 0.5, guide_scale: 0.0 });
    assert_eq!(run(&context, 20, guided(0.02), 1.0, no_scale).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn averaging_leaves_an_equivariant_network_and_cancels_a_directional_one() {
    let case = cases::named("prior only 5x5");
    let none = Observations::none(case.grid());
    let run = |position: f64, symmetries| {
        let toy = Toy::new(position);
        let settings = mean_settings(symmetries, StdSource::Posterior { scale: 1.0 });
        let found = reconstruct(&case, &none, None, &MeanReconstructor::new(toy.clone(), settings)).unwrap();
        assert_eq!(found.network_calls as usize, toy.calls.load(Ordering::Relaxed));
        found
    };
    let plain = run(0.0, SymmetrySet::Identity);
    for (symmetries, calls) in [(SymmetrySet::LeftRight, 2), (SymmetrySet::All, 8)] {
        let averaged = run(0.0, symmetries);
        assert_close("equivariant", &averaged.mean, &plain.mean);
        assert_eq!(averaged.network_calls, calls);
        // The mean column of five is 2: what depends on the position averages to a constant.
        let directional: Vec<f64> = plain.mean.iter().map(|value| value + 2.0).collect();
        assert_close("directional", &run(1.0, symmetries).mean, &directional);
    }
}

#[test]
fn mean_std_from_the_ensemble_is_that_of_its_conditioned_samples() {
    let mut case = cases::named("masked 7x8");
    let samples: Vec<f64> = (0..4).flat_map(|_| case.field()).collect();
    let ensemble = PriorEnsemble::new(samples, case.grid().num_nodes()).unwrap();
    let reconstructor =
        MeanReconstructor::new(Toy::new(0.0), mean_settings(SymmetrySet::Identity, StdSource::Ensemble));
    let found = reconstruct(&case, &case.observations, Some(&ensemble), &reconstructor).unwrap();
    let oracle = Oracle::new(&case);
    let refined = ensemble.iter().flat_map(|sample| {
        let delta = oracle.mean(&case, sample);
        sample.iter().zip(delta).map(|(value, delta)| value + delta).collect::<Vec<_>>()
    });
    let moments = EnsembleMoments::of(&refined.collect::<Vec<_>>(), case.grid()).unwrap();
    let std: Vec<f64> = moments.variance.into_iter().map(f64::sqrt).collect();
    assert_close(case.name, &found.std.unwrap(), &std);
    let error = reconstruct(&case, &case.observations, None, &reconstructor).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn known_invalid_value_and_range_hold_in_the_mean() {
    let case = cases::named("masked 7x8");
    let settings = MeanSettings {
        correction: Correction { range: Some(ValueRange::UNIT), ..exact() },
        invalid_value: Some(-1.0),
        ..mean_settings(SymmetrySet::All, StdSource::Posterior { scale: 1.0 })
    };
    let found = reconstruct(&case, &case.observations, None, &MeanReconstructor::new(Toy::new(0.5), settings)).unwrap();
    for (value, &valid) in found.mean.iter().zip(case.valid.as_slice()) {
        assert!((-1.0..=1.0).contains(value) && (valid || *value == -1.0));
    }
}

/// A network of another size, or one that returns a NaN.
struct BrokenMean(Vec<f64>);

impl MeanPredictor for BrokenMean {
    fn name(&self) -> &str {
        "broken"
    }

    fn predict(&self, _: &Context, _: &Observations) -> Result<Vec<f64>> {
        Ok(self.0.clone())
    }
}

#[test]
fn broken_mean_network_is_refused_by_kind() {
    let case = cases::named("full 6x5");
    for (values, kind) in [(vec![0.0; 29], ErrorKind::ShapeMismatch), (vec![f64::NAN; 30], ErrorKind::NonFinite)] {
        let settings = mean_settings(SymmetrySet::Identity, StdSource::Posterior { scale: 1.0 });
        let reconstructor = MeanReconstructor::new(Arc::new(BrokenMean(values)), settings);
        assert_eq!(reconstruct(&case, &case.observations, None, &reconstructor).unwrap_err().kind(), kind);
    }
    let settings = mean_settings(SymmetrySet::Identity, StdSource::Posterior { scale: 0.0 });
    let error = reconstruct(&case, &case.observations, None, &MeanReconstructor::new(Toy::new(0.0), settings));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// K = H Q^-1 H' + R, its inverse, and H Q^-1 (measurements by nodes), all dense.
fn kriging_matrices(case: &Case) -> (Dense, Vec<Vec<f64>>, Dense) {
    let covariance = Oracle::new(case).prior_precision.inverse();
    let entries: Vec<Observation> = case.observations.iter().copied().collect();
    let mut gram = Dense::zeros(entries.len());
    for (i, first) in entries.iter().enumerate() {
        for (j, second) in entries.iter().enumerate() {
            let noise = if i == j { first.noise_std.powi(2) } else { 0.0 };
            *gram.at_mut(i, j) = covariance.at(first.node, second.node) + noise;
        }
    }
    let cross = entries.iter().map(|entry| covariance.row(entry.node).to_vec()).collect();
    (gram.inverse(), cross, covariance)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn parity_gaussian_with_fitted_level_is_ordinary_kriging() {
    for name in ["full 6x5", "masked 7x8", "row 1x24", "larger 11x12", "no coupling 4x5"] {
        let case = cases::named(name);
        let settings = GaussianSettings {
            mean: PriorMean::Fitted { without_measurements: 0.0 },
            scale: StdScale::Fitted,
            num_samples: 0,
        };
        let found = reconstruct(&case, &case.observations, None, &GaussianReconstructor::new(settings)).unwrap();

        let (inverse, cross, covariance) = kriging_matrices(&case);
        let values: Vec<f64> = case.observations.iter().map(|entry| entry.value).collect();
        let ones = vec![1.0; values.len()];
        let level_precision = dot(&ones, &inverse.times(&ones));
        let level = dot(&ones, &inverse.times(&values)) / level_precision;
        let residual: Vec<f64> = values.iter().map(|value| value - level).collect();
        let scale = dot(&residual, &inverse.times(&residual)) / (values.len() - 1) as f64;
        let (mut mean, mut std) = (Vec::new(), Vec::new());
        for node in 0..case.grid().num_nodes() {
            let column: Vec<f64> = cross.iter().map(|row| row[node]).collect();
            let weights = inverse.times(&column);
            mean.push(level + dot(&weights, &residual));
            let kept = 1.0 - dot(&weights, &ones);
            let variance = covariance.at(node, node) - dot(&weights, &column) + kept * kept / level_precision;
            std.push((scale * variance).sqrt());
        }
        assert_close(name, &found.mean, &mean);
        // The dense formula subtracts two variances of 1/tau, so small ones at measured cells are lost to rounding.
        for (node, (found, expected)) in found.std.unwrap().iter().zip(&std).enumerate() {
            assert!((found * found - expected * expected).abs() < 1e-10 * scale / case.tau, "{name}, node {node}");
        }
    }
}

#[test]
fn gaussian_without_measurements_is_the_prior() {
    let case = cases::named("prior only 5x5");
    let none = Observations::none(case.grid());
    let run = |mean, scale| {
        let settings = GaussianSettings { mean, scale, num_samples: 0 };
        reconstruct(&case, &none, None, &GaussianReconstructor::new(settings)).unwrap()
    };
    let field: Vec<f64> = (0..25).map(f64::from).collect();
    let prior_std: Vec<f64> =
        Oracle::new(&case).covariance.diagonal().into_iter().map(|variance| 2.0 * variance.sqrt()).collect();
    let fitted = PriorMean::Fitted { without_measurements: 0.5 };
    for (mean, expected) in [
        (PriorMean::Constant(0.25), vec![0.25; 25]),
        (PriorMean::Field(field.clone()), field),
        (fitted.clone(), vec![0.5; 25]),
    ] {
        let found = run(mean, StdScale::Fixed(2.0));
        assert_eq!(found.mean, expected);
        assert_close("std", &found.std.unwrap(), &prior_std);
    }
    assert_eq!(run(fitted, StdScale::Fitted).std, None, "nothing to fit a scale to");
    for settings in [
        GaussianSettings { mean: PriorMean::Field(vec![0.0; 24]), scale: StdScale::Fitted, num_samples: 0 },
        GaussianSettings { mean: PriorMean::Constant(0.0), scale: StdScale::Fixed(0.0), num_samples: 0 },
    ] {
        assert!(reconstruct(&case, &none, None, &GaussianReconstructor::new(settings)).is_err());
    }
}

#[test]
fn gaussian_samples_have_the_reported_mean_and_std() {
    let case = cases::named("full 6x5");
    let count = 4000;
    let settings = GaussianSettings {
        mean: PriorMean::Fitted { without_measurements: 0.0 },
        scale: StdScale::Fixed(0.5),
        num_samples: count,
    };
    let found = reconstruct(&case, &case.observations, None, &GaussianReconstructor::new(settings)).unwrap();
    let moments = found.samples.unwrap().moments(case.grid()).unwrap();
    let std = found.std.unwrap();
    for node in 0..std.len() {
        // Five standard errors of a mean and of a variance.
        let variance = std[node] * std[node];
        assert!((moments.mean[node] - found.mean[node]).abs() < 5.0 * std[node] / (count as f64).sqrt());
        assert!((moments.variance[node] - variance).abs() < 5.0 * variance * (2.0 / count as f64).sqrt(), "{node}");
    }
}

#[test]
fn theory_residual_draws_have_the_posterior_covariance() {
    for name in ["full 6x5", "two halves 6x7"] {
        let case = cases::named(name);
        let (oracle, posterior) = (Oracle::new(&case), case.posterior());
        let count = 4000;
        let mut stream = SeedTree::new(12).stream("draws");
        let draws: Vec<Vec<f64>> = (0..count).map(|_| sample_residual(&posterior, &mut stream).unwrap()).collect();
        let exact = |i: usize, j: usize| oracle.covariance.at(i, j);
        for i in 0..case.grid().num_nodes() {
            for j in 0..=i {
                let found = draws.iter().map(|draw| draw[i] * draw[j]).sum::<f64>() / f64::from(count);
                let error = 5.0 * ((exact(i, i) * exact(j, j) + exact(i, j).powi(2)) / f64::from(count)).sqrt();
                assert!((found - exact(i, j)).abs() < error, "{name} {i} {j}: {found}, exact {}", exact(i, j));
            }
        }
    }
}

#[test]
fn stage_two_reports_the_worst_solve_and_no_std_for_one_trajectory() {
    let case = cases::named("full 6x5");
    let schedule = NoiseSchedule::ddpm();
    let toy = Arc::new(GaussianDenoiser::new(vec![0.0; 30], case.prior(), schedule.clone()).unwrap());
    let run = |num_trajectories, schedule_kind, solver| {
        let settings = TrajectorySettings {
            sampler: SamplerSettings::clipped(schedule.respace(&[999, 500, 0]).unwrap()),
            num_trajectories,
            schedule: schedule_kind,
            correction: Correction { solver, strength: 1.4, range: Some(ValueRange::UNIT) },
        };
        reconstruct(&case, &case.observations, None, &TrajectoryReconstructor::new(toy.clone(), settings)).unwrap()
    };
    let (jacobi, capped) =
        (MeanSolver::Jacobi { iterations: 24 }, MeanSolver::Pcg { max_iterations: 1, rel_tolerance: 1e-12 });
    let one = run(1, CorrectionSchedule::StepWise, jacobi);
    assert_eq!((one.std, one.network_calls, one.worst_solve.unwrap().stop), (None, 3, Stop::FixedDepth));
    let several = run(5, CorrectionSchedule::StepWise, capped);
    assert_eq!((several.network_calls, several.worst_solve.unwrap().stop), (15, Stop::IterationCap));
    assert!(several.mean.iter().all(|value| (-1.0..=1.0).contains(value)));
    assert_eq!(run(2, CorrectionSchedule::None, jacobi).worst_solve, None);
}

#[test]
fn stage_two_clips_before_the_correction_and_projects_after_it_eq13() {
    // The prior mean 2 lies outside [-1, 1]: the innovation is taken from the clipped 1, and rho = 1.4 overshoots -0.9.
    let case = cases::named("prior only 5x5");
    let schedule = NoiseSchedule::linear(0.1, 0.9, 100).unwrap();
    let toy = GaussianDenoiser::new(vec![2.0; 25], case.prior(), schedule.clone()).unwrap();
    let observations = case.with_measurement(Observation { node: 7, value: -0.9, noise_std: 1e-3 });
    let correction = Correction { solver: MeanSolver::Exact, strength: 1.4, range: Some(ValueRange::UNIT) };
    let settings = TrajectorySettings {
        sampler: SamplerSettings::clipped(schedule.respace(&[99]).unwrap()),
        num_trajectories: 1,
        schedule: CorrectionSchedule::StepWise,
        correction,
    };
    let reconstructor = TrajectoryReconstructor::new(Arc::new(toy), settings);
    let found = reconstruct(&case, &observations, None, &reconstructor).unwrap().mean;
    let posterior = Posterior::new(&case.prior(), &observations).unwrap();
    let (delta, _) = posterior.mean_correction(&[1.0; 25], MeanSolver::Exact).unwrap();
    let expected: Vec<f64> = delta.iter().map(|delta| (1.0 + 1.4 * delta).clamp(-1.0, 1.0)).collect();
    assert_close("clipped", &found, &expected);
    assert_eq!(found[7], -1.0);
    assert!(found.iter().any(|value| (-0.99..0.99).contains(value)), "some cells are not clipped");
}

#[test]
fn parts_of_different_grids_are_refused() {
    let case = cases::named("full 6x5");
    let grid = Grid::new(5, 6).unwrap();
    let other = ValidMask::all(grid);
    let conductances = Conductances::from_logits(&vec![0.0; 120], &other).unwrap();
    let precision = ResidualPrecision::new(conductances, 1.0, 1.0).unwrap();
    assert_eq!(Posterior::new(&precision, &case.observations).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    let context = Context::new(other, Vec::new()).unwrap();
    let toy = GaussianDenoiser::new(vec![0.0; 30], case.prior(), NoiseSchedule::ddpm()).unwrap();
    let sampler = SamplerSettings::clipped(NoiseSchedule::ddpm().respace(&[999]).unwrap());
    let none = Observations::none(grid);
    let error = gpara::sample_prior(&toy, &context, &none, &sampler, 1, SeedTree::new(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
    let wrong_mean = GaussianDenoiser::new(vec![0.0; 29], case.prior(), NoiseSchedule::ddpm());
    assert_eq!(wrong_mean.err().unwrap().kind(), ErrorKind::ShapeMismatch);
}
