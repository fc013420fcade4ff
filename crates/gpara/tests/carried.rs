//! Moments carried from round to round against moments computed anew, on random grids of both orders with holes, lines and exact
//! values; and the policy that carries them against one that refreshes.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

mod dense_oracle;
mod kriging_oracle;

use gpara::{
    AcquisitionInput, Arithmetic, BatchInput, BatchRule, CarriedMoments, Conductances, Context, Correction, ErrorKind,
    Gpara, GparaSettings, Grid, MeanSolver, Observation, Observations, Policy, Posterior, ResidualPrecision, RiskRule,
    RiskWeights, SeedTree, Selection, UtilityMethod, UtilityMoments, ValidMask, ZeroScorer, normalized_utility,
    select_batch,
};
use kriging_oracle::{Model, model, models};

/// Cells that are valid and not measured.
fn open(valid: &ValidMask, observations: &Observations) -> Vec<usize> {
    valid.nodes().filter(|&node| !observations.contains(node)).collect()
}

/// Random weights, 0 at measured cells.
fn weights(values: &[f64], observations: &Observations) -> RiskWeights {
    let weight = |(node, value): (usize, &f64)| if observations.contains(node) { 0.0 } else { *value };
    RiskWeights::from_values(values.iter().enumerate().map(weight).collect()).unwrap()
}

fn measure(valid: &ValidMask, observations: &mut Observations, nodes: &[usize], noise_std: f64) {
    let rows: Vec<_> = nodes.iter().map(|&node| Observation { node, value: 0.3, noise_std }).collect();
    observations.add(valid, &rows).unwrap();
}

fn worst(found: &[f64], expected: &[f64], scale: &[f64]) -> f64 {
    let largest = scale.iter().fold(f64::MIN_POSITIVE, |largest: f64, value| largest.max(value.abs()));
    found.iter().zip(expected).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs())) / largest
}

#[test]
fn parity_carried_moments_match_a_refresh_after_every_batch_g12() {
    let mut rounds = 0;
    for mut model in models() {
        let Model { name, valid, parameters, observations, stream, .. } = &mut model;
        let prior = parameters.precision(valid);
        let values: Vec<f64> = (0..valid.grid().num_nodes()).map(|_| 0.25 + stream.uniform()).collect();
        for noise_std in [0.05, 1e-4, 0.0] {
            let mut observations = observations.clone();
            let first = weights(&values, &observations);
            let mut carried = CarriedMoments::new(&prior, &observations, &first, noise_std).unwrap();
            let start = carried.moments().clone();
            // More picks than are kept between two factorisations.
            for _ in 0..9 {
                let candidates = open(valid, &observations);
                if candidates.is_empty() {
                    break;
                }
                let anchor = normalized_utility(&carried.moments().utility, &candidates);
                let nodes = carried.select(&candidates, &anchor, &anchor, 5).unwrap();
                measure(valid, &mut observations, &nodes, noise_std);
                let weights = weights(&values, &observations);
                carried.follow(&prior, &observations, &weights, noise_std).unwrap();
                let posterior = Posterior::new(&prior, &observations).unwrap();
                let (variances, numerators) = posterior.variances_and_numerators(&weights).unwrap();
                let moments = carried.moments();
                let of_d = worst(&moments.variance_estimate, &variances, &start.variance_estimate);
                let of_n = worst(&moments.numerator_estimate, &numerators, &start.numerator_estimate);
                assert!(of_d < 1e-10 && of_n < 1e-10, "{name}, noise {noise_std}: {of_d:e} {of_n:e}");
                rounds += 1;
            }
            assert!(carried.disagreement() < 1e-7 && carried.num_refreshes() == 1, "{name}, noise {noise_std}");
        }
    }
    assert!(rounds > 300, "{rounds}");
}

#[test]
fn measured_cells_keep_their_digits_where_the_noise_is_small() {
    // d is 1e-8 and n 1e-16 there, of columns of order 1: a plain difference would leave nothing.
    let model = model(0);
    let (valid, prior) = (&model.valid, model.parameters.precision(&model.valid));
    let values = vec![1.0; valid.grid().num_nodes()];
    let mut observations = Observations::none(valid.grid());
    let noise_std = 1e-4;
    let mut carried = CarriedMoments::new(&prior, &observations, &weights(&values, &observations), noise_std).unwrap();
    for _ in 0..4 {
        let candidates = open(valid, &observations);
        let anchor = normalized_utility(&carried.moments().utility, &candidates);
        let nodes = carried.select(&candidates, &anchor, &anchor, 8).unwrap();
        measure(valid, &mut observations, &nodes, noise_std);
        let weights = weights(&values, &observations);
        carried.follow(&prior, &observations, &weights, noise_std).unwrap();
        let posterior = Posterior::new(&prior, &observations).unwrap();
        let fresh = UtilityMoments::exact(&posterior, &weights, noise_std).unwrap();
        for node in 0..values.len() {
            let of_d = carried.moments().variance_estimate[node] / fresh.variance_estimate[node] - 1.0;
            // Where all around is measured, n is what rounding leaves of noise^4.
            let (found, expected) = (carried.moments().numerator_estimate[node], fresh.numerator_estimate[node]);
            let of_n = (found - expected) / (expected + noise_std.powi(4));
            assert!(of_d.abs() < 1e-9 && of_n.abs() < 1e-9, "{node}: {of_d:e} {of_n:e}");
        }
    }
    assert_eq!(observations.len(), 32);
}

#[test]
fn moments_are_computed_anew_where_they_cannot_be_carried() {
    let model = model(2);
    let (valid, prior) = (&model.valid, model.parameters.precision(&model.valid));
    let values = vec![1.0; valid.grid().num_nodes()];
    let none = Observations::none(valid.grid());
    let (noise_std, start) = (0.1, weights(&values, &none));
    let candidates = open(valid, &none);
    let after_a_batch = || {
        let mut carried = CarriedMoments::new(&prior, &none, &start, noise_std).unwrap();
        let anchor = normalized_utility(&carried.moments().utility, &candidates);
        let nodes = carried.select(&candidates, &anchor, &anchor, 3).unwrap();
        let mut observations = none.clone();
        measure(valid, &mut observations, &nodes, noise_std);
        (carried, observations)
    };
    let refreshes = |change: &dyn Fn(&mut Observations, &mut Vec<f64>), prior: &ResidualPrecision, noise_std: f64| {
        let (mut carried, mut observations) = after_a_batch();
        let mut values = values.clone();
        change(&mut observations, &mut values);
        let weights = weights(&values, &observations);
        carried.follow(prior, &observations, &weights, noise_std).unwrap();
        let posterior = Posterior::new(prior, &observations).unwrap();
        let fresh = UtilityMoments::exact(&posterior, &weights, noise_std).unwrap();
        let found = &carried.moments().numerator_estimate;
        assert!(worst(found, &fresh.numerator_estimate, &fresh.numerator_estimate) < 1e-10);
        carried.num_refreshes()
    };
    let unchanged = |_: &mut Observations, _: &mut Vec<f64>| ();
    assert_eq!(refreshes(&unchanged, &prior, noise_std), 1);
    let last = *candidates.last().unwrap();
    let told = |observations: &mut Observations, _: &mut Vec<f64>| measure(valid, observations, &[last], noise_std);
    assert_eq!(refreshes(&told, &prior, noise_std), 2, "a cell that was not chosen is measured");
    let failed = |observations: &mut Observations, _: &mut Vec<f64>| *observations = none.clone();
    assert_eq!(refreshes(&failed, &prior, noise_std), 2, "the chosen cells were not measured");
    let heavier = |_: &mut Observations, values: &mut Vec<f64>| values[last] = 2.0;
    assert_eq!(refreshes(&heavier, &prior, noise_std), 2, "another weight where nothing was measured");
    assert_eq!(refreshes(&unchanged, &model.parameters.precision(valid), noise_std), 2, "another precision");
    assert_eq!(refreshes(&unchanged, &prior, 0.2), 2, "another noise");

    let (mut carried, observations) = after_a_batch();
    let refused = carried.select(&candidates, &[0.0], &[0.0], 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ShapeMismatch);
    carried.follow(&prior, &observations, &weights(&values, &observations), noise_std).unwrap();
    assert_eq!(carried.num_refreshes(), 1, "a refused choice changes nothing");
}

/// A scene that a policy is asked about.
struct State {
    context: Context,
    prior: ResidualPrecision,
    observations: Observations,
    pending: Vec<usize>,
    noise_std: f64,
}

impl State {
    fn candidates(&self) -> Vec<usize> {
        let candidates = open(self.context.valid(), &self.observations);
        candidates.into_iter().filter(|node| !self.pending.contains(node)).collect()
    }

    fn select(&self, policy: &mut Gpara, count: usize) -> Selection {
        let candidates = self.candidates();
        let input = AcquisitionInput {
            context: &self.context,
            candidates: &candidates,
            observations: &self.observations,
            pending: &self.pending,
            ensemble: None,
            precision: &self.prior,
            noise_std: self.noise_std,
            round: 0,
            budget: 1000,
            seeds: SeedTree::new(3),
        };
        policy.select(&input, count).unwrap()
    }

    /// The batch and the risk from a refresh, pending cells measured.
    fn refreshed(&self, count: usize) -> (Vec<usize>, f64) {
        let candidates = self.candidates();
        let mut observations = self.observations.clone();
        measure(self.context.valid(), &mut observations, &self.pending, self.noise_std);
        let posterior = Posterior::new(&self.prior, &observations).unwrap();
        let weights = RiskWeights::uniform(self.context.grid(), &candidates).unwrap();
        let moments = UtilityMoments::exact(&posterior, &weights, self.noise_std).unwrap();
        let anchor = normalized_utility(&moments.utility, &candidates);
        let input = BatchInput {
            posterior: &posterior,
            weights: &weights,
            moments: &moments,
            candidates: &candidates,
            normalized_utility: &anchor,
            calibrated_score: &anchor,
            noise_std: self.noise_std,
        };
        let nodes = select_batch(BatchRule::ExactSequential, &input, count).unwrap();
        (nodes, weights.weighted_risk(&moments.variance_estimate))
    }
}

fn carrying_policy() -> Gpara {
    let correction = Correction { solver: MeanSolver::Exact, strength: 1.0, range: None };
    let (utility, batch_rule) = (UtilityMethod::Exact, BatchRule::ExactSequential);
    let settings = GparaSettings { correction, risk: RiskRule::Uniform, utility, score_bound: 0.5, batch_rule };
    Gpara::new(settings, Box::new(ZeroScorer))
}

#[test]
fn prop_policy_that_carries_chooses_what_one_that_refreshes_does() {
    for model in models().filter(|model| model.valid.num_valid() > 12) {
        let Model { name, valid, parameters, observations, .. } = model;
        let mut state = State {
            prior: parameters.precision(&valid),
            context: Context::new(valid, Vec::new()).unwrap(),
            observations,
            pending: Vec::new(),
            noise_std: 0.02,
        };
        let mut policy = carrying_policy();
        for round in 0..12 {
            let count = state.candidates().len().min(4);
            if count == 0 {
                break;
            }
            let (expected, risk) = state.refreshed(count);
            let found = state.select(&mut policy, count);
            let nodes: Vec<usize> = found.points.iter().map(|point| point.node).collect();
            assert_eq!(nodes, expected, "{name}, round {round}");
            assert!((found.risk.unwrap() - risk).abs() < 1e-9 * risk, "{name}, round {round}");
            // Every third round two points come late, and in the seventh one never does.
            let late = std::mem::take(&mut state.pending);
            let (told, open) = nodes.split_at(if round % 3 == 2 { count / 2 } else { count });
            let valid = state.context.valid().clone();
            measure(&valid, &mut state.observations, &late[usize::from(round == 6).min(late.len())..], state.noise_std);
            measure(&valid, &mut state.observations, told, state.noise_std);
            state.pending = open.to_vec();
        }
    }
}

/// 70 x 60 random cells: large enough for 32 bits and for several threads.
fn large_scene() -> State {
    let grid = Grid::new(70, 60).unwrap();
    let valid = ValidMask::all(grid);
    let mut stream = SeedTree::new(4).stream("carried");
    let logits: Vec<f64> = (0..4 * grid.num_nodes()).map(|_| stream.normal()).collect();
    let prior = ResidualPrecision::new(Conductances::from_logits(&logits, &valid).unwrap(), 0.0625, 0.8).unwrap();
    let context = Context::new(valid, Vec::new()).unwrap();
    State { context, prior, observations: Observations::none(grid), pending: Vec::new(), noise_std: 1e-4 }
}

/// The points of some rounds, with scores and risks.
fn campaign(rounds: usize) -> (Vec<Selection>, State) {
    let (mut state, mut policy) = (large_scene(), carrying_policy());
    let mut selections = Vec::new();
    for _ in 0..rounds {
        let selection = state.select(&mut policy, 8);
        let nodes: Vec<usize> = selection.points.iter().map(|point| point.node).collect();
        let valid = state.context.valid().clone();
        measure(&valid, &mut state.observations, &nodes, state.noise_std);
        selections.push(selection);
    }
    (selections, state)
}

#[test]
fn any_number_of_threads_gives_the_same_bits_and_32_bits_the_moments_of_64() {
    let on =
        |threads: usize| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| campaign(5));
    let (one, state) = on(1);
    assert_eq!(Posterior::new(&state.prior, &state.observations).unwrap().arithmetic(), Arithmetic::Single);
    for threads in [2, 3] {
        assert_eq!(on(threads).0, one, "{threads} threads");
    }
    // The columns of the later rounds are from 32 bits.
    let weights = RiskWeights::uniform(state.context.grid(), &state.candidates()).unwrap();
    let posterior = Posterior::new(&state.prior, &state.observations).unwrap();
    let posterior = posterior.in_arithmetic(Arithmetic::Double).unwrap();
    let risk = weights.weighted_risk(&posterior.variances().unwrap());
    let found = state.select(&mut carrying_policy(), 8).risk.unwrap();
    assert!((found / risk - 1.0).abs() < 1e-11, "{found} {risk}");
    let (longer, _) = campaign(6);
    assert!((longer[5].risk.unwrap() / risk - 1.0).abs() < 1e-9, "{:?} {risk}", longer[5].risk);
}
