//! AdaSense and ADS in whole sessions: their points, and the network evaluations the paper counts.

use std::sync::Arc;

use gpara::{
    AcquisitionInput, AcquisitionModel, AcquisitionSession, Conductances, Context, Correction, CorrectionSchedule,
    CountingDenoiser, EnsembleCache, ErrorKind, FieldSource, GaussianReconstructor, GaussianSettings, Grid, MeanSolver,
    MeasurementSource, NoiseSchedule, Observations, Policy, PriorMean, ReconstructionInput, Reconstructor,
    ResidualPrecision, SamplerSettings, SeedTree, SessionSettings, StdScale, TrajectoryReconstructor,
    TrajectorySettings, sample_prior,
};
use gpara_eval::baseline::{
    AdaSense, AdaSenseSettings, Ads, AdsScore, AdsSettings, Chain, ChainSettings, Ddnm, DdnmSettings, DiffPir,
    DiffPirSettings, Dps, DpsSettings, Fps, FpsSettings, SpreadScore,
};

use crate::dense_oracle::Oracle;
use crate::dense_oracle::cases::{self, Case};
use crate::toys::Constant;
use crate::world::{chain, context, free, mean_field, toy_denoiser};

const BUDGET: usize = 491;

/// A scene of 576 cells whose prior costs nothing, its evaluations counted.
struct Large {
    context: Context,
    precision: ResidualPrecision,
    denoiser: Arc<CountingDenoiser>,
    seeds: SeedTree,
}

impl Large {
    fn new() -> Self {
        let context = Context::empty(Grid::new(24, 24).unwrap());
        let graph = Conductances::from_logits(&[0.0; 4 * 576], context.valid()).unwrap();
        let precision = ResidualPrecision::new(graph, 0.0625, 0.8).unwrap();
        let constant = Constant { value: 0.25, exception: None };
        Self {
            context,
            precision,
            denoiser: Arc::new(CountingDenoiser::new(Arc::new(constant))),
            seeds: SeedTree::new(2),
        }
    }

    fn chain(&self, steps: usize) -> Chain {
        let settings = ChainSettings { steps, ..ChainSettings::default() };
        let denoiser = Arc::<CountingDenoiser>::clone(&self.denoiser);
        Chain::new(denoiser, &NoiseSchedule::ddpm(), settings, None).unwrap()
    }

    /// Runs a policy to the end of the budget in rounds of 8.
    fn acquire(&self, policy: Box<dyn Policy>) -> Observations {
        let mut model =
            AcquisitionModel { policy, precision: self.precision.clone(), ensemble: EnsembleCache::nothing() };
        let settings = SessionSettings { budget: BUDGET, max_batch: 8, noise_std: 1e-4 };
        let mut session = AcquisitionSession::new(self.context.clone(), settings, self.seeds).unwrap();
        let mut source = FieldSource::new(vec![0.1; 576], 1e-4, self.seeds).unwrap();
        while session.next_batch() > 0 {
            let nodes = session.ask(&mut model, session.next_batch()).unwrap().nodes();
            session.tell(&source.measure(&nodes).unwrap()).unwrap();
        }
        assert_eq!((session.rounds().len(), session.rounds()[61].nodes().len()), (62, 3));
        session.observations().clone()
    }

    fn input<'a>(&'a self, observations: &'a Observations) -> ReconstructionInput<'a> {
        let Self { context, precision, seeds, .. } = self;
        ReconstructionInput { context, observations, precision, ensemble: None, seeds: *seeds }
    }
}

#[test]
fn paper_gpara_draws_its_ensemble_in_20_evaluations() {
    let large = Large::new();
    let schedule = NoiseSchedule::ddpm();
    let steps = schedule.respace(&schedule.spaced_timesteps(5).unwrap()).unwrap();
    let none = Observations::none(large.context.grid());
    let settings = SamplerSettings::clipped(steps);
    sample_prior(large.denoiser.as_ref(), &large.context, &none, &settings, 4, large.seeds).unwrap();
    assert_eq!(large.denoiser.network_calls(), 20);
}

#[test]
fn paper_adasense_makes_1240_evaluations() {
    let large = Large::new();
    let backend = Ddnm::new(large.chain(5), DdnmSettings::default()).unwrap();
    let observations = large.acquire(Box::new(AdaSense::new(Box::new(backend), AdaSenseSettings::default())));
    assert_eq!((observations.len(), large.denoiser.network_calls()), (BUDGET, 1240));
}

#[test]
fn paper_ads_makes_252_evaluations_for_points_and_field() {
    for score in [AdsScore::Variance, AdsScore::Entropy] {
        let large = Large::new();
        let ads = Ads::new(large.chain(63), AdsSettings { score, ..AdsSettings::default() }).unwrap();
        let observations = large.acquire(ads.policy());
        assert_eq!((observations.len(), large.denoiser.network_calls()), (BUDGET, 248));
        let found = ads.reconstructor().reconstruct(&large.input(&observations)).unwrap();
        assert_eq!((found.network_calls, large.denoiser.network_calls()), (4, 252));
        assert_eq!(found.samples.unwrap().ensemble_size(), 4);
    }
}

#[test]
fn ads_refuses_more_rounds_than_steps_and_a_session_it_did_not_begin() {
    let case = cases::named("full 6x5");
    let (scene, precision, candidates) = (context(&case), case.prior(), case.candidates());
    let none = Observations::none(case.grid());
    let mut input = AcquisitionInput {
        context: &scene,
        candidates: &candidates,
        observations: &none,
        pending: &[],
        ensemble: None,
        precision: &precision,
        noise_std: 0.01,
        round: 0,
        budget: 10,
        seeds: SeedTree::new(1),
    };
    let mut policy = Ads::new(chain(&case, free(5, 4)), AdsSettings::default()).unwrap().policy();
    let error = policy.select(&input, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("5 rounds") && error.to_string().contains("room for 4"), "{error}");
    input.round = 1;
    let error = policy.select(&input, 5).unwrap_err();
    assert!(error.to_string().contains("round 1"), "{error}");
    assert_eq!(policy.select(&input, 0).unwrap_err().kind(), ErrorKind::InvalidInput);
    input.round = 0;
    assert_eq!(policy.select(&input, 5).unwrap().points.len(), 5);
}

#[test]
fn ads_points_are_the_cells_where_its_particles_differ_most() {
    let case = cases::named("full 6x5");
    let (scene, precision, seeds) = (context(&case), case.prior(), SeedTree::new(1));
    let candidates = case.candidates();
    let none = Observations::none(case.grid());
    let ads = Ads::new(chain(&case, free(6, 4)), AdsSettings { first_step: 2, ..AdsSettings::default() }).unwrap();
    let input = AcquisitionInput {
        context: &scene,
        candidates: &candidates,
        observations: &none,
        pending: &[],
        ensemble: None,
        precision: &precision,
        noise_std: 0.01,
        round: 0,
        budget: 3,
        seeds,
    };
    let points = ads.policy().select(&input, 3).unwrap().points;
    // The same trajectory by itself, two unguided steps down: DDNM with eta = 0 and no measurements.
    let three = Chain::new(toy_denoiser(&case), &NoiseSchedule::ddpm(), free(6, 4), None).unwrap();
    let states: Vec<Vec<f64>> = (0..4)
        .map(|k| {
            let mut stream = seeds.stream(&format!("reconstruct/{k}"));
            let mut state: Vec<f64> = (0..case.grid().num_nodes()).map(|_| stream.normal()).collect();
            let mut clean = Vec::new();
            for level in &three.levels()[..3] {
                let prior = crate::affine_chain::denoiser(&case, &mean_field(&case), level.alpha_bar, false);
                clean = prior.apply(&state);
                let (a, next) = (level.alpha_bar, level.alpha_bar_next);
                for (value, clean) in state.iter_mut().zip(&clean) {
                    let noise = (*value - a.sqrt() * clean) / (1.0 - a).sqrt();
                    *value = next.sqrt() * clean + (1.0 - next).sqrt() * noise;
                }
            }
            clean
        })
        .collect();
    let variance = |node: usize| {
        let mean = states.iter().map(|state| state[node]).sum::<f64>() / 4.0;
        states.iter().map(|state| (state[node] - mean).powi(2)).sum::<f64>() / 4.0
    };
    let mut expected = candidates.clone();
    expected.sort_by(|&a, &b| variance(b).total_cmp(&variance(a)));
    assert_eq!(points.iter().map(|point| point.node).collect::<Vec<_>>(), expected[..3]);
    assert!((points[0].score / variance(expected[0]) - 1.0).abs() < 1e-9);
}

/// One AdaSense round on a scene with its measurements.
fn adasense_points(case: &Case, backend: Box<dyn Reconstructor>, settings: AdaSenseSettings) -> Vec<(usize, f64)> {
    let (scene, precision, candidates) = (context(case), case.prior(), case.candidates());
    let input = AcquisitionInput {
        context: &scene,
        candidates: &candidates,
        observations: &case.observations,
        pending: &[],
        ensemble: None,
        precision: &precision,
        noise_std: 0.01,
        round: 3,
        budget: 20,
        seeds: SeedTree::new(1),
    };
    let selection = AdaSense::new(backend, settings).select(&input, 4).unwrap();
    selection.points.into_iter().map(|point| (point.node, point.score)).collect()
}

#[test]
fn theory_scores_of_many_exact_samples_approach_the_exact_criteria() {
    let case = cases::named("full 6x5");
    let oracle = Oracle::new(&case);
    let (variances, size) = (oracle.covariance.diagonal(), case.grid().num_nodes());
    let exact = |score: SpreadScore, node: usize| match score {
        SpreadScore::Variance => variances[node],
        SpreadScore::Lmmse => (0..size).map(|k| oracle.covariance.at(node, k).powi(2)).sum::<f64>() / variances[node],
    };
    for score in [SpreadScore::Variance, SpreadScore::Lmmse] {
        let backend = GaussianReconstructor::new(GaussianSettings {
            mean: PriorMean::Field(mean_field(&case)),
            scale: StdScale::Fixed(1.0),
            num_samples: 3000,
        });
        let points =
            adasense_points(&case, Box::new(backend), AdaSenseSettings { score, ..AdaSenseSettings::default() });
        for (node, found) in &points {
            // Five standard errors of a variance from 3000 samples.
            assert!(
                (found / exact(score, *node) - 1.0).abs() < 0.05,
                "{score:?} {node}: {found} {}",
                exact(score, *node)
            );
        }
        let best = case.candidates().into_iter().map(|node| exact(score, node)).fold(0.0, f64::max);
        assert!(exact(score, points[0].0) > 0.9 * best, "{score:?}");
    }
}

#[test]
fn adasense_runs_on_all_five_backends_and_names_them() {
    let case = cases::named("full 6x5");
    let schedule = NoiseSchedule::ddpm();
    let chain = || chain(&case, free(5, 4));
    let steps = schedule.respace(&schedule.spaced_timesteps(5).unwrap()).unwrap();
    let graph = TrajectorySettings {
        sampler: SamplerSettings { clip: None, ..SamplerSettings::clipped(steps) },
        num_trajectories: 4,
        schedule: CorrectionSchedule::StepWise,
        correction: Correction { solver: MeanSolver::Exact, strength: 1.0, range: None },
    };
    let backends: [(&str, Box<dyn Reconstructor>); 5] = [
        ("adasense-dps", Box::new(Dps::new(chain(), DpsSettings::default()).unwrap())),
        ("adasense-ddnm-plus", Box::new(Ddnm::new(chain(), DdnmSettings::default()).unwrap())),
        ("adasense-fps", Box::new(Fps::new(chain(), FpsSettings::default()).unwrap())),
        ("adasense-diffpir", Box::new(DiffPir::new(chain(), DiffPirSettings::default()).unwrap())),
        ("adasense-trajectory", Box::new(TrajectoryReconstructor::new(toy_denoiser(&case), graph))),
    ];
    for (name, backend) in backends {
        let found = AdaSense::new(backend, AdaSenseSettings::default());
        assert_eq!(found.name(), name);
        assert!(!found.needs_ensemble());
    }
    let ddnm = || Box::new(Ddnm::new(chain(), DdnmSettings::default()).unwrap());
    let points = adasense_points(&case, ddnm(), AdaSenseSettings::default());
    assert_eq!(points, adasense_points(&case, ddnm(), AdaSenseSettings::default()));
    assert!(points.iter().all(|(node, score)| *score > 0.0 && !case.observations.contains(*node)), "{points:?}");
}

#[test]
fn adasense_refuses_a_backend_without_at_least_two_samples() {
    let case = cases::named("full 6x5");
    let (scene, precision, candidates) = (context(&case), case.prior(), case.candidates());
    let backend = Ddnm::new(chain(&case, free(5, 1)), DdnmSettings::default()).unwrap();
    let input = AcquisitionInput {
        context: &scene,
        candidates: &candidates,
        observations: &case.observations,
        pending: &[],
        ensemble: None,
        precision: &precision,
        noise_std: 0.01,
        round: 0,
        budget: 8,
        seeds: SeedTree::new(1),
    };
    let error = AdaSense::new(Box::new(backend), AdaSenseSettings::default()).select(&input, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("`ddnm-plus` gave 1 samples"), "{error}");
}
