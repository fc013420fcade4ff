//! A whole acquisition: 491 points in 62 refreshes of at most 8, picked exactly in sequence.

use std::time::Duration;

use gpara::{
    Arithmetic, BatchInput, BatchRule, CarriedMoments, Observation, Observations, Posterior, ProbeKind, RiskWeights,
    SeedTree, UtilityMethod, UtilityMoments, normalized_utility, select_batch,
};

use crate::row::{Report, Subject, on_threads, side_by_side, timed};
use crate::scene::{DEPTH, RADIO, Scene};

const NUM_POINTS: usize = 491;
const BATCH: usize = 8;

pub(crate) fn run(report: &mut Report) {
    for (rows, cols, task) in [(128, 128, RADIO), (192, 256, DEPTH)] {
        let scene = Scene::new(rows, cols, task, 0);
        let num_probes = task.num_probes;
        // What is left of the risk with no choice at all, to see that both sides choose well.
        let before: f64 = scene.posterior().variances().expect("positive definite").iter().sum();
        for threads in [1, 2] {
            on_threads(threads, || {
                let own = || acquire(&scene, carried, before);
                let rival = || acquire(&scene, |scene| probed(scene, num_probes), before);
                let (own, rival) = side_by_side(own, rival);
                let subject = Subject { name: "campaign", grid: scene.grid, dtype: scene.dtype(), threads };
                report.against(subject, own, &format!("paper probing, P = {num_probes}, and kappa, f64"), rival);
            });
        }
    }
}

/// Runs the acquisition and checks that it spent the budget on distinct cells and lowered the variance, and that moments it
/// ends with are those of a refresh.
fn acquire(scene: &Scene, run: impl Fn(&Scene) -> (Observations, Option<UtilityMoments>), before: f64) -> Duration {
    let ((observations, carried), time) = timed(|| run(scene));
    assert_eq!(observations.len(), NUM_POINTS);
    let (_, weights) = open_cells(scene, &observations);
    let fresh = refreshed(scene, &observations, &weights);
    let after: f64 = fresh.variance_estimate.iter().sum();
    assert!(after < 0.95 * before, "the variance fell from {before} to {after} only");
    if let Some(carried) = carried {
        let worst = |carried: &[f64], fresh: &[f64]| {
            carried.iter().zip(fresh).map(|(carried, fresh)| (carried / fresh - 1.0).abs()).fold(0.0, f64::max)
        };
        let of_variance = worst(&carried.variance_estimate, &fresh.variance_estimate);
        let of_numerator = worst(&carried.numerator_estimate, &fresh.numerator_estimate);
        assert!(of_variance < 1e-5 && of_numerator < 1e-5, "carried moments are off by {of_variance}, {of_numerator}");
        eprintln!("{time:.0?}; largest relative error of d {of_variance:.1e}, of n {of_numerator:.1e}");
    }
    time
}

/// Our side: the moments are computed once, in 64 bits, and carried from batch to batch by the exact updates of the picks.
/// They are computed anew where the updates disagree with the columns of the covariance by more than a hundredth of what 32
/// bits are allowed.
fn carried(scene: &Scene) -> (Observations, Option<UtilityMoments>) {
    let noise_std = scene.task.noise_std;
    let mut observations = Observations::none(scene.grid);
    let (mut candidates, weights) = open_cells(scene, &observations);
    let mut carried = CarriedMoments::new(&scene.prior, &observations, &weights, noise_std).expect("positive definite");
    while observations.len() < NUM_POINTS {
        let count = BATCH.min(NUM_POINTS - observations.len());
        let anchor = normalized_utility(&carried.moments().utility, &candidates);
        let batch = carried.select(&candidates, &anchor, &anchor, count).expect("exact moments");
        add(scene, &mut observations, &batch);
        let (open, weights) = open_cells(scene, &observations);
        carried.follow(&scene.prior, &observations, &weights, noise_std).expect("positive definite");
        candidates = open;
    }
    (observations, Some(carried.moments().clone()))
}

/// The moments from a factorisation in 64 bits.
fn refreshed(scene: &Scene, observations: &Observations, weights: &RiskWeights) -> UtilityMoments {
    let posterior = Posterior::new(&scene.prior, observations).expect("the scene's grid");
    let posterior = posterior.in_arithmetic(Arithmetic::Double).expect("64 bits are always allowed");
    UtilityMoments::exact(&posterior, weights, scene.task.noise_std).expect("positive definite")
}

fn open_cells(scene: &Scene, observations: &Observations) -> (Vec<usize>, RiskWeights) {
    let candidates: Vec<usize> = scene.valid.nodes().filter(|&node| !observations.contains(node)).collect();
    let weights = RiskWeights::uniform(scene.grid, &candidates).expect("candidates are cells of the grid");
    (candidates, weights)
}

fn add(scene: &Scene, observations: &mut Observations, batch: &[usize]) {
    let noise_std = scene.task.noise_std;
    let measured: Vec<_> = batch.iter().map(|&node| Observation { node, value: 0.0, noise_std }).collect();
    observations.add(&scene.valid, &measured).expect("candidates are free cells");
}

/// The rival: probes at every refresh.
fn probed(scene: &Scene, num_probes: usize) -> (Observations, Option<UtilityMoments>) {
    let (kind, noise_std) = (ProbeKind::Rademacher, scene.task.noise_std);
    let method = UtilityMethod::Probing { kind, num_probes, max_iterations: 24, rel_tolerance: 1e-5 };
    let mut observations = Observations::none(scene.grid);
    for round in 0..NUM_POINTS.div_ceil(BATCH) {
        let count = BATCH.min(NUM_POINTS - observations.len());
        let (candidates, weights) = open_cells(scene, &observations);
        let posterior = Posterior::new(&scene.prior, &observations).expect("the scene's grid");
        let moments = UtilityMoments::compute(&posterior, &weights, noise_std, method, SeedTree::new(1), round)
            .expect("a precision is positive definite");
        let anchor = normalized_utility(&moments.utility, &candidates);
        let input = BatchInput {
            posterior: &posterior,
            weights: &weights,
            moments: &moments,
            candidates: &candidates,
            normalized_utility: &anchor,
            calibrated_score: &anchor,
            noise_std,
        };
        let batch = select_batch(BatchRule::PaperKappa, &input, count).expect("the rule fits the method");
        add(scene, &mut observations, &batch);
    }
    (observations, None)
}
