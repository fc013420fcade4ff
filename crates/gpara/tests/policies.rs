//! Each policy against a brute-force or hand-computed choice, and what all of them must keep.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod dense_oracle;

use dense_oracle::cases::{self, Case};
use gpara::{
    AcquisitionInput, BatchRule, Context, Correction, EdgeAware, EnsembleMoments, ErrorKind, FarthestPoint, FirstPoint,
    Gpara, GparaSettings, GraphDescriptor, GraphPredictor, Grid, MaxVariance, MeanSolver, Observation, Observations,
    Policy, Posterior, PriorEnsemble, ProbeKind, Random, ResidualPrecision, RiskRule, RiskSettings, RiskWeights,
    SeedTree, Selection, Symmetry, UtilityMethod, UtilityMoments, ValidMask, ZeroScorer,
};

const NOISE_STD: f64 = 0.01;

/// A session's state, owned.
struct State {
    context: Context,
    observations: Observations,
    pending: Vec<usize>,
    precision: ResidualPrecision,
    ensemble: PriorEnsemble,
    seeds: SeedTree,
}

impl State {
    fn of(mut case: Case) -> Self {
        let samples: Vec<f64> = (0..5).flat_map(|_| case.field()).collect();
        Self {
            context: Context::new(case.valid.clone(), Vec::new()).unwrap(),
            precision: case.prior(),
            ensemble: PriorEnsemble::new(samples, case.grid().num_nodes()).unwrap(),
            observations: case.observations,
            pending: Vec::new(),
            seeds: SeedTree::new(9),
        }
    }

    /// Every cell of `valid` open, all conductances equal.
    fn empty(valid: ValidMask) -> Self {
        let grid = valid.grid();
        let conductances = gpara::Conductances::from_logits(&vec![0.0; 4 * grid.num_nodes()], &valid).unwrap();
        Self {
            context: Context::new(valid, Vec::new()).unwrap(),
            observations: Observations::none(grid),
            pending: Vec::new(),
            precision: ResidualPrecision::new(conductances, 0.0625, 0.8).unwrap(),
            ensemble: PriorEnsemble::new(vec![0.0; 2 * grid.num_nodes()], grid.num_nodes()).unwrap(),
            seeds: SeedTree::new(9),
        }
    }

    fn candidates(&self) -> Vec<usize> {
        let open = |node: &usize| !self.observations.contains(*node) && !self.pending.contains(node);
        self.context.valid().nodes().filter(open).collect()
    }

    fn select(&self, policy: &mut dyn Policy, count: usize) -> gpara::Result<Selection> {
        let candidates = self.candidates();
        policy.select(
            &AcquisitionInput {
                context: &self.context,
                candidates: &candidates,
                observations: &self.observations,
                pending: &self.pending,
                ensemble: Some(&self.ensemble),
                precision: &self.precision,
                noise_std: NOISE_STD,
                round: 0,
                budget: candidates.len(),
                seeds: self.seeds,
            },
            count,
        )
    }

    fn nodes(&self, policy: &mut dyn Policy, count: usize) -> Vec<usize> {
        self.select(policy, count).unwrap().points.into_iter().map(|point| point.node).collect()
    }

    fn measure(&mut self, nodes: &[usize]) {
        let rows: Vec<_> = nodes.iter().map(|&node| Observation { node, value: 0.3, noise_std: NOISE_STD }).collect();
        self.observations.add(self.context.valid(), &rows).unwrap();
    }
}

fn exact_correction() -> Correction {
    Correction { solver: MeanSolver::Exact, strength: 1.0, range: None }
}

fn exact_settings(batch_rule: BatchRule) -> GparaSettings {
    GparaSettings {
        correction: exact_correction(),
        risk: RiskRule::EnsembleSpread(RiskSettings::default()),
        utility: UtilityMethod::Exact,
        score_bound: 2.0,
        batch_rule,
    }
}

fn gpara(settings: GparaSettings) -> Gpara {
    Gpara::new(settings, Box::new(ZeroScorer))
}

fn all_policies() -> Vec<Box<dyn Policy>> {
    let probing =
        UtilityMethod::Probing { kind: ProbeKind::Rademacher, num_probes: 16, max_iterations: 24, rel_tolerance: 1e-5 };
    let paper = GparaSettings { utility: probing, ..exact_settings(BatchRule::PaperKappa) };
    vec![
        Box::new(Random::new()),
        Box::new(FarthestPoint::new(FirstPoint::Centroid)),
        Box::new(FarthestPoint::new(FirstPoint::Random)),
        Box::new(MaxVariance::new(exact_correction())),
        Box::new(gpara(exact_settings(BatchRule::ExactSequential))),
        Box::new(gpara(exact_settings(BatchRule::ExactKappa))),
        Box::new(gpara(paper)),
    ]
}

#[test]
fn prop_every_policy_chooses_distinct_admissible_nodes_until_none_is_left() {
    for name in ["masked 7x8", "two halves 6x7", "row 1x24", "isolated 4x4"] {
        for mut policy in all_policies() {
            let mut state = State::of(cases::named(name));
            loop {
                let candidates = state.candidates();
                if candidates.is_empty() {
                    break;
                }
                let count = candidates.len().min(5);
                let mut nodes = state.nodes(policy.as_mut(), count);
                assert!(nodes.iter().all(|node| candidates.contains(node)), "{name} {}", policy.name());
                nodes.sort_unstable();
                nodes.dedup();
                assert_eq!(nodes.len(), count, "{name} {}", policy.name());
                // Half of them stay pending for a round.
                let (told, open) = nodes.split_at(count.div_ceil(2));
                let late = std::mem::replace(&mut state.pending, open.to_vec());
                state.measure(&late);
                state.measure(told);
            }
        }
    }
}

#[test]
fn every_policy_refuses_more_points_than_candidates_and_none() {
    let state = State::of(cases::named("full 6x5"));
    for mut policy in all_policies() {
        for count in [0, state.candidates().len() + 1] {
            let error = state.select(policy.as_mut(), count).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", policy.name());
        }
    }
}

#[test]
fn random_points_of_a_small_budget_are_the_first_of_a_larger_one() {
    let mut state = State::empty(ValidMask::all(Grid::new(9, 7).unwrap()));
    let all = state.nodes(&mut Random::new(), 40);
    let mut in_batches = Vec::new();
    let mut policy = Random::new();
    for count in [8, 8, 1, 3] {
        let nodes = state.nodes(&mut policy, count);
        state.measure(&nodes);
        in_batches.extend(nodes);
    }
    assert_eq!(in_batches, all[..20]);
    state.observations = Observations::none(state.context.grid());
    state.seeds = SeedTree::new(10);
    assert_ne!(state.nodes(&mut policy, 20), all[..20], "another seed, another order");
}

#[test]
fn random_visits_every_valid_cell_equally_often() {
    let mut state = State::empty(ValidMask::new(Grid::new(2, 5).unwrap(), (0..10).map(|n| n != 4).collect()).unwrap());
    let (mut counts, runs) = ([0u32; 10], 4000);
    for seed in 0..runs {
        state.seeds = SeedTree::new(seed);
        state.nodes(&mut Random::new(), 2).into_iter().for_each(|node| counts[node] += 1);
    }
    let (expected, share) = (runs as f64 * 2.0 / 9.0, 2.0 / 9.0f64);
    let standard_error = (runs as f64 * share * (1.0 - share)).sqrt();
    assert_eq!(counts[4], 0);
    for node in (0..10).filter(|&node| node != 4) {
        assert!((f64::from(counts[node]) - expected).abs() < 5.0 * standard_error, "{counts:?}");
    }
}

/// Farthest-point sampling from its definition, all distances anew for every point.
fn brute_force_farthest(grid: Grid, candidates: &[usize], occupied: &mut Vec<usize>) -> usize {
    let squared = |a: usize, b: usize| {
        let ((row_a, col_a), (row_b, col_b)) = (grid.row_col(a), grid.row_col(b));
        row_a.abs_diff(row_b).pow(2) + col_a.abs_diff(col_b).pow(2)
    };
    let nearest = |node: usize| occupied.iter().map(|&other| squared(node, other)).min().unwrap();
    let open = candidates.iter().copied().filter(|node| !occupied.contains(node));
    let best = open.reduce(|best, node| if nearest(node) > nearest(best) { node } else { best }).unwrap();
    occupied.push(best);
    best
}

#[test]
fn farthest_point_matches_brute_force_across_batches_and_failures() {
    let grid = Grid::new(11, 8).unwrap();
    let valid = ValidMask::new(grid, (0..88).map(|node| node % 7 != 3).collect()).unwrap();
    let mut state = State::empty(valid.clone());
    let mut policy = FarthestPoint::new(FirstPoint::Centroid);
    // Sum of rows and columns over the valid cells; the first point is the valid cell nearest to their mean.
    let mean = |part: &dyn Fn(usize) -> usize| valid.nodes().map(part).sum::<usize>() as f64 / valid.num_valid() as f64;
    let (row, col) = (mean(&|node| node / 8), mean(&|node| node % 8));
    let distance = |node: &usize| (((node / 8) as f64 - row).powi(2) + ((node % 8) as f64 - col).powi(2)).sqrt();
    let first = valid.nodes().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap();

    let candidates = state.candidates();
    let mut occupied = vec![first];
    let mut expected = vec![first];
    expected.extend((0..23).map(|_| brute_force_farthest(grid, &candidates, &mut occupied)));
    let mut found = Vec::new();
    for count in [8, 8, 8] {
        let nodes = state.nodes(&mut policy, count);
        state.measure(&nodes);
        found.extend(nodes);
    }
    assert_eq!(found, expected);

    // A chosen point that is not measured after all must not keep its surroundings closed.
    let lost = state.nodes(&mut policy, 1);
    assert_eq!(state.nodes(&mut policy, 1), lost);
    state.pending = lost;
    let next = state.nodes(&mut policy, 1);
    occupied.extend(&state.pending);
    assert_eq!(next[0], brute_force_farthest(grid, &candidates, &mut occupied));
}

#[test]
fn farthest_point_on_a_strip_is_hand_computed() {
    // Nine cells in a row: the middle, then both ends (the lower first), then the quarters.
    let state = State::empty(ValidMask::all(Grid::new(1, 9).unwrap()));
    let selection = state.select(&mut FarthestPoint::new(FirstPoint::Centroid), 5).unwrap();
    let found: Vec<_> = selection.points.iter().map(|point| (point.node, point.score)).collect();
    assert_eq!(found, [(4, f64::INFINITY), (0, 4.0), (8, 4.0), (2, 2.0), (6, 2.0)]);
}

/// Variance of the ensemble conditioned on the state's measurements and on `assumed` cells at the conditioned mean.
fn conditioned_variance(state: &State, assumed: &[usize]) -> Vec<f64> {
    let mut observations = state.observations.clone();
    let mut moments = None;
    for step in 0..=assumed.len() {
        let posterior = Posterior::new(&state.precision, &observations).unwrap();
        let (refined, _) = exact_correction().refine(&posterior, state.ensemble.as_slice()).unwrap();
        let of_step = EnsembleMoments::of(&refined, state.context.grid()).unwrap();
        if let Some(&node) = assumed.get(step) {
            let value = of_step.mean[node];
            observations.add(state.context.valid(), &[Observation { node, value, noise_std: NOISE_STD }]).unwrap();
        }
        moments = Some(of_step);
    }
    moments.unwrap().variance
}

#[test]
fn parity_max_variance_batch_equals_conditioning_anew_after_every_point() {
    for name in ["full 6x5", "masked 7x8", "prior only 5x5"] {
        let mut state = State::of(cases::named(name));
        state.pending = state.candidates()[3..5].to_vec();
        let candidates = state.candidates();
        let pending = state.pending.clone();
        let selection = state.select(&mut MaxVariance::new(exact_correction()), 6).unwrap();
        let mut assumed = pending;
        for point in &selection.points {
            let variance = conditioned_variance(&state, &assumed);
            let open = candidates.iter().copied().filter(|node| !assumed.contains(node));
            let best = open.reduce(|best, node| if variance[node] > variance[best] { node } else { best }).unwrap();
            assert_eq!(point.node, best, "{name}");
            assert!((point.score - variance[best]).abs() < 1e-9 * variance[best], "{name}");
            assumed.push(best);
        }
    }
}

#[test]
fn gpara_scores_and_risk_follow_from_the_dense_utility() {
    for name in ["full 6x5", "masked 7x8", "prior only 5x5"] {
        let state = State::of(cases::named(name));
        let candidates = state.candidates();
        let posterior = Posterior::new(&state.precision, &state.observations).unwrap();
        let variance = conditioned_variance(&state, &[]);
        let weights = RiskWeights::from_variance(&variance, &candidates, &RiskSettings::default()).unwrap();
        let dense = dense_oracle::Oracle::new(&cases::named(name));
        let utility = |node: usize| dense.utility(weights.as_slice(), NOISE_STD, node);
        let best = candidates.iter().copied().max_by(|a, b| utility(*a).total_cmp(&utility(*b))).unwrap();
        for rule in [BatchRule::ExactKappa, BatchRule::ExactSequential] {
            let selection = state.select(&mut gpara(exact_settings(rule)), 4).unwrap();
            assert_eq!(selection.points[0].node, best, "{name} {rule:?}");
            for point in &selection.points {
                let drop = point.expected_risk_drop.unwrap();
                assert!((drop - utility(point.node)).abs() < 1e-9 * utility(best), "{name}");
            }
            let risk = weights.weighted_risk(&posterior.variances().unwrap());
            assert!((selection.risk.unwrap() - risk).abs() < 1e-9 * risk, "{name}");
        }
    }
}

#[test]
fn mirrored_and_transposed_scenes_give_mirrored_and_transposed_points() {
    let grid = Grid::new(7, 9).unwrap();
    let mut stream = SeedTree::new(17).stream("scene");
    let valid = ValidMask::new(grid, (0..63).map(|node| node % 10 != 6).collect()).unwrap();
    let samples: Vec<Vec<f64>> = (0..4).map(|_| (0..63).map(|_| 0.3 * stream.normal()).collect()).collect();
    let scene = |symmetry: Symmetry| {
        let context = symmetry.context(&Context::new(valid.clone(), Vec::new()).unwrap()).unwrap();
        let samples = samples.iter().flat_map(|sample| symmetry.apply(grid, sample)).collect();
        let ensemble = PriorEnsemble::new(samples, 63).unwrap();
        let moments = ensemble.moments(context.grid()).unwrap();
        let prior_std: Vec<f64> = moments.variance.iter().map(|variance| variance.sqrt()).collect();
        let descriptor =
            GraphDescriptor { context: &context, prior_mean: &moments.mean, prior_std: &prior_std, num_measured: 0 };
        let conductances = EdgeAware::default().predict(&descriptor).unwrap();
        State {
            precision: ResidualPrecision::new(conductances, 0.0625, 0.8).unwrap(),
            observations: Observations::none(context.grid()),
            context,
            pending: Vec::new(),
            ensemble,
            seeds: SeedTree::new(9),
        }
    };
    for policy in [&|| Box::new(gpara(exact_settings(BatchRule::ExactSequential))) as Box<dyn Policy>, &|| {
        Box::new(MaxVariance::new(exact_correction())) as Box<dyn Policy>
    }] as [&dyn Fn() -> Box<dyn Policy>; 2]
    {
        let plain = scene(Symmetry::IDENTITY).nodes(policy().as_mut(), 8);
        for (transpose, flip_rows, flip_cols) in
            [(false, true, false), (false, false, true), (true, false, false), (true, true, false)]
        {
            let symmetry = Symmetry { transpose, flip_rows, flip_cols };
            let expected: Vec<usize> = plain.iter().map(|&node| symmetry.node(grid, node)).collect();
            let mut policy = policy();
            assert_eq!(scene(symmetry).nodes(policy.as_mut(), 8), expected, "{} {symmetry:?}", policy.name());
        }
    }
}

#[test]
fn gpara_counts_pending_points_as_measured() {
    // Utilities do not depend on values, so pending points give the same choice as measured ones when W = I.
    let settings = GparaSettings { risk: RiskRule::Uniform, ..exact_settings(BatchRule::ExactSequential) };
    let mut state = State::of(cases::named("masked 7x8"));
    let asked = state.nodes(&mut gpara(settings), 4);
    state.pending = asked.clone();
    state.pending.sort_unstable();
    let while_pending = state.select(&mut gpara(settings), 4).unwrap();
    state.pending.clear();
    state.measure(&asked);
    let when_measured = state.select(&mut gpara(settings), 4).unwrap();
    assert_eq!(while_pending, when_measured);
}

#[test]
fn gpara_without_samples_needs_uniform_weights() {
    let state = State::of(cases::named("full 6x5"));
    let candidates = state.candidates();
    let input = AcquisitionInput {
        context: &state.context,
        candidates: &candidates,
        observations: &state.observations,
        pending: &[],
        ensemble: None,
        precision: &state.precision,
        noise_std: NOISE_STD,
        round: 0,
        budget: 10,
        seeds: state.seeds,
    };
    let mut adaptive = gpara(exact_settings(BatchRule::ExactSequential));
    assert_eq!(adaptive.select(&input, 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    let settings = GparaSettings { risk: RiskRule::Uniform, ..exact_settings(BatchRule::ExactSequential) };
    let weights = RiskWeights::uniform(state.context.grid(), &candidates).unwrap();
    let posterior = Posterior::new(&state.precision, &state.observations).unwrap();
    let utility = UtilityMoments::exact(&posterior, &weights, NOISE_STD).unwrap().utility;
    let best = candidates.iter().copied().max_by(|a, b| utility[*a].total_cmp(&utility[*b])).unwrap();
    assert_eq!(gpara(settings).select(&input, 1).unwrap().points[0].node, best);
}
