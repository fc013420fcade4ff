//! A belief that is too sure of itself: when it is noticed, and where points go then.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

use std::sync::Arc;

use gpara::{
    AcquisitionInput, BatchRule, Belief, BeliefCache, BeliefModel, Conductances, Context, Correction, DiscrepancyRule,
    Gpara, GparaSettings, Grid, MeanSolver, Observation, Observations, Policy, ResidualPrecision, RiskRule, SeedTree,
    UtilityMethod, ZeroScorer, error_weights,
};

const SIZE: usize = 16;
const NOISE_STD: f64 = 0.01;
const SURE_STD: f64 = 0.02;
const UNSURE_STD: f64 = 0.3;

/// Predicts 0 everywhere, surely in the left three quarters; looks at no measurement.
struct SureOfTheLeft;

impl BeliefModel for SureOfTheLeft {
    fn believe(&self, context: &Context, _: &Observations) -> gpara::Result<Belief> {
        let num_nodes = context.grid().num_nodes();
        let graph = Conductances::from_logits(&vec![0.0; 4 * num_nodes], context.valid())?;
        let std = (0..num_nodes).map(|node| if is_left(node) { SURE_STD } else { UNSURE_STD }).collect();
        Ok(Belief { mean: vec![0.0; num_nodes], std, precision: ResidualPrecision::new(graph, 0.0625, 0.8)? })
    }

    fn network_calls(&self) -> u64 {
        2
    }
}

fn is_left(node: usize) -> bool {
    node % SIZE < 3 * SIZE / 4
}

fn scene() -> Context {
    Context::empty(Grid::new(SIZE, SIZE).unwrap())
}

fn cache(spacing_ratio: f64) -> BeliefCache {
    BeliefCache::new(Arc::new(SureOfTheLeft), spacing_ratio).unwrap()
}

fn never() -> DiscrepancyRule {
    DiscrepancyRule { num_tests: 0, threshold: f64::INFINITY, ..DiscrepancyRule::default() }
}

fn add(context: &Context, observations: &mut Observations, values: &[(usize, f64)]) {
    let values: Vec<Observation> =
        values.iter().map(|&(node, value)| Observation { node, value, noise_std: NOISE_STD }).collect();
    observations.add(context.valid(), &values).unwrap();
}

/// The cache after beliefs before and after each group of values.
fn after(groups: &[&[(usize, f64)]]) -> (BeliefCache, Observations) {
    let context = scene();
    let (mut cache, mut observations) = (cache(1.0), Observations::none(context.grid()));
    cache.refresh(&context, &observations).unwrap();
    for group in groups {
        add(&context, &mut observations, group);
        cache.refresh(&context, &observations).unwrap();
    }
    (cache, observations)
}

/// `z` expected errors at `count` cells of the left part, from the `from`-th on.
fn sure(from: usize, count: usize, z: f64) -> Vec<(usize, f64)> {
    let error = z * SURE_STD.hypot(NOISE_STD);
    (from..from + count).map(|at| (SIZE * (at % SIZE) + at / SIZE, if at % 2 == 0 { error } else { -error })).collect()
}

#[test]
fn theory_belief_that_is_right_on_average_keeps_its_weights_to_the_bit_g15() {
    let groups: Vec<Vec<_>> = (0..10).map(|group| sure(6 * group, 6, 1.0)).collect();
    let (cache, observations) = after(&groups.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let context = scene();
    let belief = SureOfTheLeft.believe(&context, &observations).unwrap();
    assert_eq!(cache.squared_discrepancy(), 0.0);
    assert_eq!(cache.weights(), error_weights(&context, &observations, &belief).unwrap());
}

#[test]
fn theory_belief_k_times_too_sure_is_weighed_with_the_missing_variance_g15() {
    let k = 3.0;
    let (cache, observations) = after(&[&sure(0, 6, k)]);
    let missing = (k * k - 1.0) * (SURE_STD.powi(2) + NOISE_STD.powi(2));
    assert!((cache.squared_discrepancy() - missing).abs() < 1e-12);
    let context = scene();
    let mut belief = SureOfTheLeft.believe(&context, &observations).unwrap();
    belief.std.iter_mut().for_each(|std| *std = std.hypot(missing.sqrt()));
    let expected = error_weights(&context, &observations, &belief).unwrap();
    for (found, expected) in cache.weights().iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-12 * expected, "{found} {expected}");
    }
}

#[test]
fn distrust_lasts_with_the_largest_discrepancy() {
    let (two, _) = after(&[&sure(0, 6, 3.0)]);
    let (cache, _) = after(&[&sure(0, 6, 3.0), &sure(6, 8, 0.5), &sure(14, 8, 0.5)]);
    assert_eq!(cache.squared_discrepancy(), two.squared_discrepancy());
    let (cache, _) = after(&[&sure(0, 6, 3.0), &sure(6, 8, 5.0)]);
    let largest = 24.0 * (SURE_STD.powi(2) + NOISE_STD.powi(2));
    assert!((cache.squared_discrepancy() - largest).abs() < 1e-12);
}

#[test]
fn few_tests_one_cell_and_cells_it_is_not_sure_of_decide_nothing() {
    let unsure: Vec<_> = (0..12).map(|row| (SIZE * row + SIZE - 1, 9.0)).collect();
    let mut one_wild = sure(0, 8, 1.0);
    one_wild[3].1 = 1e3;
    for (name, values) in [("three", sure(0, 3, 9.0)), ("unsure", unsure), ("one of eight", one_wild)] {
        assert_eq!(after(&[&values]).0.squared_discrepancy(), 0.0, "{name}");
    }
    // What was measured before a belief does not test it, whatever is said of it again.
    let before = sure(0, 3, 9.0);
    assert_eq!(after(&[&before, &[before[0], (SIZE - 1, 0.0)]]).0.squared_discrepancy(), 0.0);
}

#[test]
fn discrepancy_does_not_depend_on_the_order_of_a_round() {
    let values: Vec<(usize, f64)> = sure(0, 9, 3.0).iter().enumerate().map(|(at, v)| (v.0, v.1 * at as f64)).collect();
    let reversed: Vec<_> = values.iter().rev().copied().collect();
    assert_eq!(after(&[&values]).0.squared_discrepancy(), after(&[&reversed]).0.squared_discrepancy());
}

/// The nodes of each round of a campaign in a field of this value in the left part and 0 in the right one.
fn campaign(rule: DiscrepancyRule, left: f64, batch: usize, num_rounds: usize) -> Vec<Vec<usize>> {
    let context = scene();
    let settings = GparaSettings {
        correction: Correction { solver: MeanSolver::Exact, strength: 1.0, range: None },
        risk: RiskRule::PredictedSpread,
        utility: UtilityMethod::Exact,
        score_bound: 0.0,
        batch_rule: BatchRule::ExactSequential,
    };
    let mut policy = Gpara::new(settings, Box::new(ZeroScorer)).believing(cache(0.8).trusting(rule));
    let precision = SureOfTheLeft.believe(&context, &Observations::none(context.grid())).unwrap().precision;
    let mut observations = Observations::none(context.grid());
    let round = |round: usize| {
        let candidates: Vec<usize> = context.valid().nodes().filter(|node| !observations.contains(*node)).collect();
        let input = AcquisitionInput {
            context: &context,
            candidates: &candidates,
            observations: &observations,
            pending: &[],
            ensemble: None,
            precision: &precision,
            noise_std: NOISE_STD,
            round,
            budget: batch * num_rounds,
            seeds: SeedTree::new(1),
        };
        let points = policy.select(&input, batch).unwrap().points;
        let nodes: Vec<usize> = points.into_iter().map(|point| point.node).collect();
        let values: Vec<_> = nodes.iter().map(|&node| (node, if is_left(node) { left } else { 0.0 })).collect();
        add(&context, &mut observations, &values);
        nodes
    };
    (0..num_rounds).map(round).collect()
}

fn num_left(nodes: &[usize]) -> usize {
    nodes.iter().filter(|node| is_left(**node)).count()
}

#[test]
fn what_the_belief_is_wrongly_sure_of_is_measured_as_densely_as_the_rest() {
    let without = campaign(never(), 0.5, 8, 6).concat();
    assert_eq!(num_left(&without), 0, "nothing is chosen where the belief is sure");
    let with = campaign(DiscrepancyRule::default(), 0.5, 8, 6);
    assert_eq!(num_left(&with[0]), 4, "half of the first round tests the belief");
    let later = with[1..].concat();
    // The left part is three quarters of the cells.
    let share = num_left(&later) as f64 / later.len() as f64;
    assert!((0.5..=0.85).contains(&share), "{share}");
}

#[test]
fn tests_of_a_belief_that_holds_are_half_of_the_points_at_most() {
    for batch in [1, 3, 8] {
        let chosen = campaign(DiscrepancyRule::default(), 0.0, batch, 24 / batch);
        let num_tests = num_left(&chosen.concat());
        assert!((4..=12).contains(&num_tests), "{batch}: {num_tests}");
    }
    assert_eq!(num_left(&campaign(never(), 0.0, 8, 3).concat()), 0);
}

#[test]
fn first_test_lies_farthest_from_the_measurements_and_none_is_taken_twice() {
    let first = &campaign(DiscrepancyRule::default(), 0.0, 8, 1)[0];
    let mut distinct = first.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 8);
    // The sure cell nearest to the centroid of all cells, the lowest of equals.
    assert_eq!(first[0], SIZE * (SIZE / 2 - 1) + SIZE / 2 - 1);
}
