//! Batch rules against brute force on dense covariances, the zero scorer, and thread independence.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod dense_oracle;

use dense_oracle::Oracle;
use dense_oracle::cases::{self, Case};
use gpara::{
    AcquisitionState, BatchInput, BatchRule, Conductances, Context, EnsembleMoments, ErrorKind, Grid, MeanSolver,
    Observations, Posterior, ProbeKind, ResidualPrecision, RiskWeights, Scorer, SeedTree, UtilityMethod,
    UtilityMoments, ValidMask, ZeroScorer, calibrated_score, normalized_utility, probe_overlap, select_batch,
};

const NOISE_STD: f64 = 0.02;
const PROBING: UtilityMethod =
    UtilityMethod::Probing { kind: ProbeKind::Rademacher, num_probes: 16, max_iterations: 24, rel_tolerance: 1e-5 };

/// One case with its moments and the analytic scores.
struct Scene {
    case: Case,
    posterior: Posterior,
    weights: RiskWeights,
    moments: UtilityMoments,
    candidates: Vec<usize>,
    scores: Vec<f64>,
}

impl Scene {
    fn new(mut case: Case, method: UtilityMethod) -> Self {
        let (posterior, weights, candidates) = (case.posterior(), case.weights(), case.candidates());
        let moments = UtilityMoments::compute(&posterior, &weights, NOISE_STD, method, SeedTree::new(5), 0).unwrap();
        let scores = normalized_utility(&moments.utility, &candidates);
        Self { case, posterior, weights, moments, candidates, scores }
    }

    fn input<'a>(&'a self, calibrated_score: &'a [f64]) -> BatchInput<'a> {
        BatchInput {
            posterior: &self.posterior,
            weights: &self.weights,
            moments: &self.moments,
            candidates: &self.candidates,
            normalized_utility: &self.scores,
            calibrated_score,
            noise_std: NOISE_STD,
        }
    }

    fn batch(&self, rule: BatchRule, count: usize) -> Vec<usize> {
        select_batch(rule, &self.input(&self.scores), count).unwrap()
    }
}

fn exact_scenes() -> impl Iterator<Item = Scene> {
    cases::all().into_iter().map(|case| Scene::new(case, UtilityMethod::Exact))
}

/// B.36-B.37 written out, for a symmetric table of overlaps over the candidates.
fn brute_force(scores: &[f64], overlap: impl Fn(usize, usize) -> f64, count: usize) -> Vec<usize> {
    let range = scores.iter().fold(f64::MIN, |a, &b| a.max(b)) - scores.iter().fold(f64::MAX, |a, &b| a.min(b));
    let mut chosen: Vec<usize> = Vec::new();
    for _ in 0..count.min(scores.len()) {
        let value = |i: usize| scores[i] - 0.5 * range.max(1.0) * chosen.iter().map(|&j| overlap(i, j)).sum::<f64>();
        let free: Vec<usize> = (0..scores.len()).filter(|i| !chosen.contains(i)).collect();
        let best = free.iter().map(|&i| value(i)).fold(f64::MIN, f64::max);
        chosen.push(*free.iter().find(|&&i| value(i) == best).unwrap());
    }
    chosen
}

#[test]
fn parity_exact_overlap_batch_matches_brute_force_b37() {
    for scene in exact_scenes() {
        let oracle = Oracle::new(&scene.case);
        let square = |i: usize, j: usize| {
            oracle.weighted_square(scene.weights.as_slice(), scene.candidates[i], scene.candidates[j])
        };
        let overlap = |i: usize, j: usize| square(i, j).powi(2) / (square(i, i) * square(j, j));
        let expected: Vec<usize> =
            brute_force(&scene.scores, overlap, 8).iter().map(|&at| scene.candidates[at]).collect();
        assert_eq!(scene.batch(BatchRule::ExactKappa, 8), expected, "{}", scene.case.name);
    }
}

#[test]
fn parity_sequential_batch_matches_recomputing_everything_b15() {
    for scene in exact_scenes() {
        let mut oracle = Oracle::new(&scene.case);
        let mut expected = Vec::new();
        for _ in 0..scene.candidates.len().min(8) {
            let utility = |node: &usize| oracle.utility(scene.weights.as_slice(), NOISE_STD, *node);
            let free = scene.candidates.iter().filter(|node| !expected.contains(*node));
            let best = *free.max_by(|a, b| utility(a).total_cmp(&utility(b))).unwrap();
            expected.push(best);
            oracle.measure(best, NOISE_STD);
        }
        assert_eq!(scene.batch(BatchRule::ExactSequential, 8), expected, "{}", scene.case.name);
    }
}

#[test]
fn parity_paper_batch_matches_brute_force_on_the_probe_overlap_b35() {
    for case in cases::all() {
        let scene = Scene::new(case, PROBING);
        let (moments, candidates) = (&scene.moments, &scene.candidates);
        let count = moments.weighted_probes.len() as f64;
        let norm = |node: usize| (count * moments.numerator_estimate[node]).max(1e-12);
        let overlap = |i: usize, j: usize| {
            let (i, j) = (candidates[i], candidates[j]);
            let product: f64 = moments.weighted_probes.iter().map(|s| s[i] * s[j]).sum();
            (product * product / (norm(i) * norm(j)).max(1e-12)).clamp(0.0, 1.0)
        };
        for (at, &node) in candidates.iter().enumerate().step_by(3) {
            for (other, found) in probe_overlap(moments, candidates, node).into_iter().enumerate() {
                assert!((found - overlap(other, at)).abs() < 1e-12, "{}", scene.case.name);
            }
        }
        let expected: Vec<usize> = brute_force(&scene.scores, overlap, 8).iter().map(|&at| candidates[at]).collect();
        assert_eq!(scene.batch(BatchRule::PaperKappa, 8), expected, "{}", scene.case.name);
    }
}

#[test]
fn prop_overlap_is_in_the_unit_interval_and_one_with_itself_b35() {
    for case in cases::all() {
        let scene = Scene::new(case, PROBING);
        for (at, &node) in scene.candidates.iter().enumerate() {
            let overlap = probe_overlap(&scene.moments, &scene.candidates, node);
            assert!(overlap.iter().all(|value| (0.0..=1.0).contains(value)), "{}", scene.case.name);
            // A response so small that the floors of B.35 act has no overlap with itself either.
            if scene.moments.numerator_estimate[node] > 1e-6 {
                assert!((overlap[at] - 1.0).abs() < 1e-12, "{} node {node}", scene.case.name);
            }
        }
    }
}

#[test]
fn batch_has_distinct_candidates_and_stops_when_they_run_out() {
    for case in cases::all() {
        let scene = Scene::new(case, UtilityMethod::Exact);
        for rule in [BatchRule::ExactKappa, BatchRule::ExactSequential] {
            for count in [0, 1, 8, 1000] {
                let mut batch = scene.batch(rule, count);
                assert_eq!(batch.len(), count.min(scene.candidates.len()), "{} {rule:?}", scene.case.name);
                assert!(batch.iter().all(|node| scene.candidates.contains(node)));
                batch.sort_unstable();
                batch.dedup();
                assert_eq!(batch.len(), count.min(scene.candidates.len()));
            }
        }
    }
}

#[test]
fn lowest_node_wins_a_tie() {
    let grid = Grid::new(3, 4).unwrap();
    let valid = ValidMask::all(grid);
    let conductances = Conductances::from_edges(std::array::from_fn(|_| vec![0.0; 12]), &valid).unwrap();
    let prior = ResidualPrecision::new(conductances, 0.5, 1.0).unwrap();
    let posterior = Posterior::new(&prior, &Observations::none(grid)).unwrap();
    let candidates = [1, 4, 5, 6, 9, 11];
    let weights = RiskWeights::uniform(grid, &candidates).unwrap();
    let exact = UtilityMoments::exact(&posterior, &weights, NOISE_STD).unwrap();
    // Without edges the solves are exact, so the probes give every cell the same moments too.
    let probed = UtilityMoments::compute(&posterior, &weights, NOISE_STD, PROBING, SeedTree::new(1), 0).unwrap();
    for (rule, moments) in
        [(BatchRule::ExactKappa, &exact), (BatchRule::ExactSequential, &exact), (BatchRule::PaperKappa, &probed)]
    {
        let scores = normalized_utility(&moments.utility, &candidates);
        let input = BatchInput {
            posterior: &posterior,
            weights: &weights,
            moments,
            candidates: &candidates,
            normalized_utility: &scores,
            calibrated_score: &scores,
            noise_std: NOISE_STD,
        };
        let batch = select_batch(rule, &input, 3).unwrap();
        assert_eq!(batch[0], 1, "{rule:?}");
        if rule != BatchRule::PaperKappa {
            assert_eq!(batch, [1, 4, 5], "{rule:?}");
        }
    }
}

#[test]
fn zero_scorer_chooses_the_largest_utility_first() {
    for scene in exact_scenes().filter(|scene| !scene.candidates.is_empty()) {
        let context = Context::new(scene.case.valid.clone(), Vec::new()).unwrap();
        let size = scene.case.grid().num_nodes();
        let ensemble = EnsembleMoments { mean: vec![0.0; size], variance: vec![1.0; size] };
        let state = AcquisitionState {
            context: &context,
            posterior: &scene.posterior,
            ensemble: &ensemble,
            weights: &scene.weights,
            moments: &scene.moments,
            candidates: &scene.candidates,
            normalized_utility: &scene.scores,
            budget: 8,
            remaining: 8,
        };
        let raw = ZeroScorer.residual_score(&state).unwrap();
        let score = calibrated_score(&scene.scores, &raw, 0.5).unwrap();
        assert_eq!(score, scene.scores);
        let first = select_batch(BatchRule::ExactKappa, &scene.input(&score), 1).unwrap()[0];
        let utility = &scene.moments.utility;
        assert!(scene.candidates.iter().all(|&node| utility[node] <= utility[first] * (1.0 + 1e-12)));
    }
}

#[test]
fn score_shift_of_a_scorer_reaches_every_rule() {
    let scene = Scene::new(cases::named("full 6x5"), UtilityMethod::Exact);
    let favourite = scene.candidates.len() - 2;
    let mut shifted = scene.scores.clone();
    shifted[favourite] += 100.0;
    for rule in [BatchRule::ExactKappa, BatchRule::ExactSequential] {
        assert_ne!(scene.batch(rule, 1), [scene.candidates[favourite]]);
        let batch = select_batch(rule, &scene.input(&shifted), 1).unwrap();
        assert_eq!(batch, [scene.candidates[favourite]], "{rule:?}");
    }
}

#[test]
fn bad_batch_input_is_refused_by_kind() {
    let exact = Scene::new(cases::named("full 6x5"), UtilityMethod::Exact);
    let probed = Scene::new(cases::named("full 6x5"), PROBING);
    let refused = |rule, input: &BatchInput<'_>| select_batch(rule, input, 2).unwrap_err().kind();
    assert_eq!(refused(BatchRule::PaperKappa, &exact.input(&exact.scores)), ErrorKind::Unsupported);
    assert_eq!(refused(BatchRule::ExactKappa, &probed.input(&probed.scores)), ErrorKind::Unsupported);
    assert_eq!(refused(BatchRule::ExactKappa, &exact.input(&exact.scores[1..])), ErrorKind::ShapeMismatch);
    let mut scores = exact.scores.clone();
    scores[3] = f64::NAN;
    assert_eq!(refused(BatchRule::ExactKappa, &exact.input(&scores)), ErrorKind::NonFinite);
    let mut reversed = exact.candidates.clone();
    reversed.reverse();
    let input = BatchInput { candidates: &reversed, ..exact.input(&exact.scores) };
    assert_eq!(refused(BatchRule::ExactKappa, &input), ErrorKind::InvalidInput);
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    // Larger than the size from which the exact factor works in parallel.
    let grid = Grid::new(70, 60).unwrap();
    let valid = ValidMask::all(grid);
    let mut stream = SeedTree::new(8).stream("threads");
    let logits: Vec<f64> = (0..4 * grid.num_nodes()).map(|_| stream.normal()).collect();
    let prior = ResidualPrecision::new(Conductances::from_logits(&logits, &valid).unwrap(), 0.0625, 0.8).unwrap();
    let mut observations = Observations::none(grid);
    let measured = (0..20).map(|k| gpara::Observation { node: 200 * k + 7, value: stream.normal(), noise_std: 1e-4 });
    observations.add(&valid, &measured.collect::<Vec<_>>()).unwrap();
    let weights = RiskWeights::from_values((0..grid.num_nodes()).map(|_| stream.uniform()).collect()).unwrap();
    let predictions: Vec<f64> = (0..3 * grid.num_nodes()).map(|_| stream.normal()).collect();
    let bits = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let posterior = Posterior::new(&prior, &observations).unwrap();
            let mut all = Vec::new();
            for method in [UtilityMethod::Exact, PROBING] {
                let moments = UtilityMoments::compute(&posterior, &weights, 1e-4, method, SeedTree::new(1), 3).unwrap();
                all.extend([moments.variance_estimate, moments.numerator_estimate, moments.utility]);
                all.extend(moments.weighted_probes);
            }
            all.push(posterior.mean_corrections(&predictions, MeanSolver::Exact).unwrap().0);
            all.concat().into_iter().map(f64::to_bits).collect::<Vec<_>>()
        })
    };
    assert!(bits(1) == bits(2));
}
