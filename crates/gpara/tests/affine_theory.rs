//! Prior sampler and Stage II with a Gaussian denoiser and a known graph, against dense propagation of their moments.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod affine_chain;
mod dense_oracle;

use std::sync::Arc;

use affine_chain::{Affine, AffineChain, assert_moments, corrected, correction, denoiser, identity};
use dense_oracle::Oracle;
use dense_oracle::cases::{self, Case};
use gpara::{
    Context, Correction, CorrectionSchedule, CountingDenoiser, Denoiser, DenoiserInput, GaussianDenoiser, MeanSolver,
    NoiseSchedule, Observations, Reconstruction, ReconstructionInput, Reconstructor, ReverseStep, SamplerSettings,
    SeedTree, TrajectoryReconstructor, TrajectorySettings, sample_prior,
};

/// Direct methods, relative to the largest entry.
const CLOSE: f64 = 1e-10;
/// Standard errors a Monte-Carlo entry may be off; a wrong program is off by far more at these sample counts.
const DEVIATIONS: f64 = 5.0;
const NUM_SAMPLES: usize = 3000;

#[track_caller]
fn assert_close(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    for (node, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs() / largest;
        assert!(difference <= tolerance, "{name}, node {node}: {found} instead of {expected}");
    }
}

/// A smooth field of order 1 that is not the prior's mean of zero.
fn mean_field(case: &Case) -> Vec<f64> {
    (0..case.grid().num_nodes()).map(|node| (0.7 * node as f64).cos()).collect()
}

fn paper_steps() -> Vec<ReverseStep> {
    NoiseSchedule::ddpm().respace(&[999, 749, 500, 250, 0]).unwrap()
}

fn free_sampler(steps: Vec<ReverseStep>) -> SamplerSettings {
    SamplerSettings { steps, clip: None, invalid_value: None, max_states: 500 }
}

fn toy_denoiser(case: &Case, schedule: NoiseSchedule) -> GaussianDenoiser {
    GaussianDenoiser::new(mean_field(case), case.prior(), schedule).unwrap()
}

fn context(case: &Case) -> Context {
    Context::new(case.valid.clone(), Vec::new()).unwrap()
}

fn scenes() -> Vec<Case> {
    ["full 6x5", "masked 7x8", "row 1x24"].map(cases::named).into()
}

#[test]
fn theory_prior_moments_match_the_analytic_respaced_chain_eq3() {
    for case in scenes() {
        for sees_observations in [false, true] {
            let toy = toy_denoiser(&case, NoiseSchedule::ddpm());
            let toy = if sees_observations { toy.seeing_observations() } else { toy };
            let (settings, seeds) = (free_sampler(paper_steps()), SeedTree::new(5));
            let scene = context(&case);
            let ensemble = sample_prior(&toy, &scene, &case.observations, &settings, NUM_SAMPLES, seeds).unwrap();

            let mean = mean_field(&case);
            let chain =
                AffineChain::new(&settings.steps, |_, step| denoiser(&case, &mean, step.alpha_bar, sees_observations));
            let (mean, covariance) = chain.moments();
            assert_moments(ensemble.as_slice(), &mean, &covariance, DEVIATIONS);
            for sample in [0, 1, NUM_SAMPLES - 1] {
                let expected = chain.sample(&mut seeds.stream(&format!("prior/{sample}")));
                assert_close(case.name, ensemble.sample(sample), &expected, CLOSE);
            }
        }
    }
}

#[test]
fn theory_many_steps_approach_the_gaussian_prior_itself() {
    // What the chain should converge to is N(mean, Q^-1): the distance falls with the number of steps.
    let case = cases::named("full 6x5");
    let (mean, prior) = (mean_field(&case), Oracle::new(&case).prior_precision.inverse());
    let schedule = NoiseSchedule::ddpm();
    let distance = |count: usize| {
        let steps = schedule.respace(&schedule.spaced_timesteps(count).unwrap()).unwrap();
        let chain = AffineChain::new(&steps, |_, step| denoiser(&case, &mean, step.alpha_bar, false));
        let difference = |(found, exact): (f64, f64)| (found - exact).abs();
        chain.moments().1.diagonal().into_iter().zip(prior.diagonal()).map(difference).fold(0.0, f64::max)
    };
    let distances = [5, 20, 100].map(distance);
    assert!(distances.is_sorted_by(|first, second| first > second), "{distances:?}");
    // The discretisation error is of first order in the step.
    assert!(distances[2] < 0.15 * distances[0], "{distances:?}");
}

fn reconstruct(
    case: &Case,
    observations: &Observations,
    toy: GaussianDenoiser,
    settings: TrajectorySettings,
    seeds: SeedTree,
) -> Reconstruction {
    let (scene, precision) = (context(case), case.prior());
    let input = ReconstructionInput { context: &scene, observations, precision: &precision, ensemble: None, seeds };
    TrajectoryReconstructor::new(Arc::new(toy), settings).reconstruct(&input).unwrap()
}

#[test]
fn theory_stage_two_moments_match_dense_propagation() {
    let jacobi = Correction { solver: MeanSolver::Jacobi { iterations: 24 }, strength: 1.4, range: None };
    let exact = Correction { solver: MeanSolver::Exact, strength: 1.0, range: None };
    for (schedule, refinement) in [
        (CorrectionSchedule::StepWise, jacobi),
        (CorrectionSchedule::StepWise, exact),
        (CorrectionSchedule::FinalOnly, jacobi),
        (CorrectionSchedule::PointWise, jacobi),
        (CorrectionSchedule::None, jacobi),
    ] {
        for case in scenes() {
            let seeds = SeedTree::new(6);
            let sampler = free_sampler(paper_steps());
            let steps = sampler.steps.clone();
            let settings =
                TrajectorySettings { sampler, num_trajectories: NUM_SAMPLES, schedule, correction: refinement };
            let toy = toy_denoiser(&case, NoiseSchedule::ddpm());
            let found = reconstruct(&case, &case.observations, toy, settings, seeds);

            let (mean, size) = (mean_field(&case), case.grid().num_nodes());
            let uncorrected = Affine { matrix: identity(size), offset: vec![0.0; size] };
            let graph = correction(&case, refinement.solver, refinement.strength);
            let mut uncoupled = cases::named(case.name);
            uncoupled.lambda = 0.0;
            let points = correction(&uncoupled, refinement.solver, refinement.strength);
            let chain = AffineChain::new(&steps, |index, step| {
                let refine = match schedule {
                    CorrectionSchedule::StepWise => &graph,
                    CorrectionSchedule::FinalOnly if index + 1 == steps.len() => &graph,
                    CorrectionSchedule::PointWise => &points,
                    CorrectionSchedule::FinalOnly | CorrectionSchedule::None => &uncorrected,
                };
                corrected(&denoiser(&case, &mean, step.alpha_bar, false), refine)
            });
            let (mean, covariance) = chain.moments();
            let samples = found.samples.unwrap();
            assert_moments(samples.as_slice(), &mean, &covariance, DEVIATIONS);
            assert_close(case.name, &found.mean, &samples.mean(), CLOSE);
            let std: Vec<f64> = samples.moments(case.grid()).unwrap().variance.into_iter().map(f64::sqrt).collect();
            assert_close(case.name, &found.std.unwrap(), &std, CLOSE);
            for sample in [0, NUM_SAMPLES - 1] {
                let expected = chain.sample(&mut seeds.stream(&format!("reconstruct/{sample}")));
                assert_close(case.name, samples.sample(sample), &expected, CLOSE);
            }
            assert_eq!(found.network_calls, (NUM_SAMPLES * steps.len()) as u64);
        }
    }
}

#[test]
fn theory_one_step_from_pure_noise_gives_the_closed_form_posterior_prop1() {
    // abar is below 1e-30 at the top: the noisy state says nothing, the clean estimate is the prior mean, and one exact
    // correction of strength 1 is E[x0 | y] of the Gaussian field.
    let schedule = NoiseSchedule::linear(0.1, 0.9, 100).unwrap();
    assert!(schedule.alpha_bar(99) < 1e-30);
    for case in cases::all() {
        let correction = Correction { solver: MeanSolver::Exact, strength: 1.0, range: None };
        let sampler = free_sampler(schedule.respace(&[99]).unwrap());
        let settings =
            TrajectorySettings { sampler, num_trajectories: 1, schedule: CorrectionSchedule::StepWise, correction };
        let toy = toy_denoiser(&case, schedule.clone());
        let found = reconstruct(&case, &case.observations, toy, settings.clone(), SeedTree::new(7));

        let mean = mean_field(&case);
        let delta = Oracle::new(&case).mean(&case, &mean);
        let expected: Vec<f64> = mean.iter().zip(delta).map(|(mean, delta)| mean + delta).collect();
        assert_close(case.name, &found.mean, &expected, CLOSE);
        assert_eq!(found.std, None, "one trajectory has no spread");

        // A denoiser that sees the measurements needs no correction to say the same.
        let settings = TrajectorySettings { schedule: CorrectionSchedule::None, ..settings };
        let toy = toy_denoiser(&case, schedule.clone()).seeing_observations();
        let found = reconstruct(&case, &case.observations, toy, settings, SeedTree::new(7));
        assert_close(case.name, &found.mean, &expected, CLOSE);
    }
}

#[test]
fn theory_pullback_is_the_transposed_jacobian_of_the_clean_estimates() {
    let schedule = NoiseSchedule::ddpm();
    for mut case in scenes() {
        for (timestep, sees_observations) in [(0, false), (500, false), (999, false), (250, true)] {
            let toy = toy_denoiser(&case, schedule.clone());
            let counting =
                CountingDenoiser::new(Arc::new(if sees_observations { toy.seeing_observations() } else { toy }));
            let scene = context(&case);
            let (noisy, cotangent) = ([case.field(), case.field()].concat(), [case.field(), case.field()].concat());
            let input = DenoiserInput { noisy: &noisy, timestep, context: &scene, observations: &case.observations };
            let (mut plain, mut clean) = (vec![0.0; noisy.len()], vec![0.0; noisy.len()]);
            counting.clean_estimates(input, &mut plain).unwrap();
            let gradient = counting.linearize(input, &mut clean).unwrap().pull_back(&cotangent).unwrap();

            assert_eq!(clean, plain, "{}: the derivative changes no bit of the estimate", case.name);
            assert_eq!(counting.network_calls(), 4, "two states twice, a pullback is no evaluation");
            // The Jacobian of the oracle is symmetric.
            let jacobian = denoiser(&case, &mean_field(&case), schedule.alpha_bar(timestep), sees_observations).matrix;
            let size = case.grid().num_nodes();
            let expected: Vec<f64> = cotangent.chunks(size).flat_map(|cotangent| jacobian.times(cotangent)).collect();
            assert_close(case.name, &gradient, &expected, CLOSE);
        }
    }
}
