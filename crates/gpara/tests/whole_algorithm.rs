//! Algorithm 1 from end to end with the toy parts, and what must not change its bits.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

use std::sync::Arc;

use gpara::{
    AcquisitionModel, AcquisitionSession, BatchRule, Conductances, Context, Correction, CorrectionSchedule, Denoiser,
    DenoiserInput, EnsembleCache, ErrorKind, FieldSource, GaussianDenoiser, Gpara, GparaSettings, Grid, MeanSolver,
    NoiseSchedule, Observations, Posterior, ProbeKind, Random, Reconstruction, ReconstructionInput, Reconstructor,
    ResidualPrecision, Result, RiskRule, RiskSettings, SamplerSettings, SeedTree, SessionSettings,
    TrajectoryReconstructor, TrajectorySettings, UtilityMethod, ValidMask, ValueRange, ZeroScorer,
    errors_over_unobserved, errors_over_valid, run_to_end, sample_prior, sample_residual,
};

const BUDGET: usize = 43;

/// A scene whose field is drawn from the very model the algorithm assumes.
struct World {
    context: Context,
    precision: ResidualPrecision,
    mean: Vec<f64>,
    truth: Vec<f64>,
    denoiser: Arc<dyn Denoiser>,
}

/// Field units: standard deviations of a few tenths, so that [-1, 1] clips rarely.
fn world() -> World {
    let grid = Grid::new(17, 22).unwrap();
    let valid = ValidMask::new(grid, (0..grid.num_nodes()).map(|node| node * 7 % 23 > 3).collect()).unwrap();
    let mut stream = SeedTree::new(31).stream("world");
    let logits: Vec<f64> = (0..4 * grid.num_nodes()).map(|_| 1.5 * stream.normal()).collect();
    let conductances = Conductances::from_logits(&logits, &valid).unwrap();
    let precision = ResidualPrecision::new(conductances, 3.0, 40.0).unwrap();
    let mean: Vec<f64> = (0..grid.num_nodes()).map(|node| 0.3 * (0.05 * node as f64).cos()).collect();
    let prior = Posterior::new(&precision, &Observations::none(grid)).unwrap();
    let residual = sample_residual(&prior, &mut stream).unwrap();
    let truth = mean.iter().zip(residual).map(|(mean, residual)| mean + residual).collect();
    let denoiser = GaussianDenoiser::new(mean.clone(), precision.clone(), NoiseSchedule::ddpm()).unwrap();
    World { context: Context::new(valid, Vec::new()).unwrap(), precision, mean, truth, denoiser: Arc::new(denoiser) }
}

fn sampler(max_states: usize) -> SamplerSettings {
    let steps = NoiseSchedule::ddpm().respace(&[999, 749, 500, 250, 0]).unwrap();
    SamplerSettings { steps, clip: Some(ValueRange::UNIT), invalid_value: None, max_states }
}

fn paper_correction() -> Correction {
    Correction { solver: MeanSolver::Jacobi { iterations: 24 }, strength: 1.0, range: Some(ValueRange::UNIT) }
}

fn gpara(utility: UtilityMethod, batch_rule: BatchRule) -> Gpara {
    let risk = RiskRule::EnsembleSpread(RiskSettings::default());
    let settings = GparaSettings { correction: paper_correction(), risk, utility, score_bound: 2.0, batch_rule };
    Gpara::new(settings, Box::new(ZeroScorer))
}

fn probing() -> Gpara {
    let method =
        UtilityMethod::Probing { kind: ProbeKind::Rademacher, num_probes: 16, max_iterations: 24, rel_tolerance: 1e-5 };
    gpara(method, BatchRule::PaperKappa)
}

/// Stage I with a policy; returns the measurements.
fn acquire(world: &World, policy: Box<dyn gpara::Policy>, max_states: usize, seeds: SeedTree) -> Observations {
    let settings = SessionSettings { budget: BUDGET, max_batch: 8, noise_std: 1e-3 };
    let mut session = AcquisitionSession::new(world.context.clone(), settings, seeds).unwrap();
    let ensemble = EnsembleCache::drawn(Arc::clone(&world.denoiser), sampler(max_states), 4, Vec::new()).unwrap();
    let mut model = AcquisitionModel { policy, precision: world.precision.clone(), ensemble };
    let mut source = FieldSource::new(world.truth.clone(), 1e-3, seeds).unwrap();
    run_to_end(&mut session, &mut model, &mut source, &mut |_| Ok(())).unwrap();
    session.observations().clone()
}

/// Stage II.
fn reconstruct(world: &World, observations: &Observations, max_states: usize, seeds: SeedTree) -> Reconstruction {
    let settings = TrajectorySettings {
        sampler: sampler(max_states),
        num_trajectories: 4,
        schedule: CorrectionSchedule::StepWise,
        correction: paper_correction(),
    };
    let input = ReconstructionInput {
        context: &world.context,
        observations,
        precision: &world.precision,
        ensemble: None,
        seeds,
    };
    TrajectoryReconstructor::new(Arc::clone(&world.denoiser), settings).reconstruct(&input).unwrap()
}

fn rmse(world: &World, observations: &Observations, seeds: SeedTree) -> f64 {
    let estimate = reconstruct(world, observations, 4, seeds).mean;
    errors_over_unobserved(&estimate, &world.truth, world.context.valid(), observations).unwrap().rmse
}

#[test]
fn measuring_beats_the_prior_and_active_beats_random() {
    let world = world();
    let prior = errors_over_valid(&world.mean, &world.truth, world.context.valid()).unwrap().rmse;
    let exact = || Box::new(gpara(UtilityMethod::Exact, BatchRule::ExactSequential));
    let mean_rmse = |policy: &dyn Fn() -> Box<dyn gpara::Policy>| {
        let of_seed = |seed| {
            let seeds = SeedTree::new(seed);
            rmse(&world, &acquire(&world, policy(), 4, seeds), seeds)
        };
        (0..5).map(of_seed).sum::<f64>() / 5.0
    };
    let random = mean_rmse(&|| Box::new(Random::new()));
    let active = mean_rmse(&|| exact());
    let probed = mean_rmse(&|| Box::new(probing()));
    assert!(random < 0.9 * prior, "random {random}, prior {prior}");
    assert!(active < random && probed < random, "active {active}, probed {probed}, random {random}");
}

#[test]
fn users_27_threads_and_chunks_do_not_change_a_bit_of_stage_one_and_two() {
    let world = world();
    let run = |threads: usize, max_states: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let seeds = SeedTree::new(4);
            let probed = acquire(&world, Box::new(probing()), max_states, seeds);
            let exact = gpara(UtilityMethod::Exact, BatchRule::ExactSequential);
            let exact = acquire(&world, Box::new(exact), max_states, seeds);
            let result = reconstruct(&world, &probed, max_states, seeds);
            (probed, exact, result)
        })
    };
    let reference = run(1, 4);
    for (threads, max_states) in [(1, 1), (2, 4), (2, 1), (3, 3)] {
        let found = run(threads, max_states);
        // Equality of f64 is equality of bits here: no value is NaN, and a zero of the other sign would be harmless.
        assert_eq!(found.0, reference.0, "{threads} threads, {max_states} states: probed points");
        assert_eq!(found.1, reference.1, "{threads} threads, {max_states} states: exact points");
        assert_eq!(found.2, reference.2, "{threads} threads, {max_states} states: reconstruction");
    }
}

#[test]
fn users_27_sample_k_is_the_same_in_ensembles_of_1_4_and_8() {
    let world = world();
    let none = Observations::none(world.context.grid());
    let draw = |size, max_states| {
        let seeds = SeedTree::new(8);
        sample_prior(world.denoiser.as_ref(), &world.context, &none, &sampler(max_states), size, seeds).unwrap()
    };
    let eight = draw(8, 8);
    for (size, max_states) in [(1, 1), (4, 4), (4, 3), (8, 1)] {
        for (sample, found) in draw(size, max_states).iter().enumerate() {
            assert_eq!(found, eight.sample(sample), "sample {sample} of {size}");
        }
    }
    assert_ne!(eight.sample(0), eight.sample(1));
}

#[test]
fn known_value_of_invalid_cells_is_kept_to_the_end() {
    let world = world();
    let settings = SamplerSettings { invalid_value: Some(-1.0), ..sampler(4) };
    let none = Observations::none(world.context.grid());
    let seeds = SeedTree::new(8);
    let held = sample_prior(world.denoiser.as_ref(), &world.context, &none, &settings, 2, seeds).unwrap();
    for sample in held.iter() {
        for (value, &valid) in sample.iter().zip(world.context.valid().as_slice()) {
            // The last transition returns the clean estimate up to rounding of its coefficient 1.
            assert!(valid || (value + 1.0).abs() < 1e-12);
        }
    }
}

/// Returns a NaN at one timestep.
struct Broken;

impl Denoiser for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn sees_observations(&self) -> bool {
        false
    }

    fn clean_estimates(&self, input: DenoiserInput<'_>, clean: &mut [f64]) -> Result<()> {
        clean.fill(0.0);
        if input.timestep == 500 {
            clean[7] = f64::NAN;
        }
        Ok(())
    }
}

#[test]
fn users_28_nan_of_a_denoiser_stops_with_the_timestep() {
    let world = world();
    let none = Observations::none(world.context.grid());
    let error = sample_prior(&Broken, &world.context, &none, &sampler(4), 2, SeedTree::new(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NonFinite);
    assert!(error.to_string().contains("timestep 500"), "{error}");
}

#[test]
fn denoiser_without_input_gradient_says_so_by_its_name() {
    let context = world().context;
    let (noisy, none) = (vec![0.0; context.grid().num_nodes()], Observations::none(context.grid()));
    let input = DenoiserInput { noisy: &noisy, timestep: 3, context: &context, observations: &none };
    let error = Broken.linearize(input, &mut noisy.clone()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`broken`") && error.hint().is_some(), "{error}");
}

#[test]
fn sampler_without_steps_states_or_samples_is_refused() {
    let world = world();
    let none = Observations::none(world.context.grid());
    let draw = |settings: &SamplerSettings, size| {
        sample_prior(world.denoiser.as_ref(), &world.context, &none, settings, size, SeedTree::new(0))
    };
    let no_step = SamplerSettings { steps: Vec::new(), ..sampler(4) };
    let no_value = SamplerSettings { invalid_value: Some(f64::NAN), ..sampler(4) };
    for (settings, size) in [(no_step, 1), (sampler(0), 1), (no_value, 1), (sampler(4), 0)] {
        assert_eq!(draw(&settings, size).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
