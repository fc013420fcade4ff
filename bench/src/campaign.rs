//! A whole acquisition: 491 points in 62 refreshes of at most 8, picked exactly in sequence.

use std::time::Duration;

use gpara::{
    BatchInput, BatchRule, Observation, Observations, Posterior, ProbeKind, RiskWeights, SeedTree, UtilityMethod,
    UtilityMoments, normalized_utility, select_batch,
};

use crate::row::{Report, Subject, on_threads, side_by_side, timed};
use crate::scene::{DEPTH, RADIO, Scene};

const NUM_POINTS: usize = 491;
const BATCH: usize = 8;

pub(crate) fn run(report: &mut Report) {
    for (rows, cols, task) in [(128, 128, RADIO), (192, 256, DEPTH)] {
        let scene = Scene::new(rows, cols, task, 0);
        let (kind, num_probes) = (ProbeKind::Rademacher, task.num_probes);
        let probing = UtilityMethod::Probing { kind, num_probes, max_iterations: 24, rel_tolerance: 1e-5 };
        // What is left of the risk with no choice at all, to see that both sides choose well.
        let before: f64 = scene.posterior().variances().expect("positive definite").iter().sum();
        for threads in [1, 2] {
            on_threads(threads, || {
                let own = || acquire(&scene, UtilityMethod::Exact, BatchRule::ExactSequential, before);
                let rival = || acquire(&scene, probing, BatchRule::PaperKappa, before);
                let (own, rival) = side_by_side(own, rival);
                let subject = Subject { name: "campaign", grid: scene.grid, dtype: scene.dtype(), threads };
                report.against(subject, own, &format!("paper probing, P = {num_probes}, and kappa, f64"), rival);
            });
        }
    }
}

/// Runs the acquisition and checks that it spent the budget on distinct cells and lowered the variance.
fn acquire(scene: &Scene, method: UtilityMethod, rule: BatchRule, before: f64) -> Duration {
    let (observations, time) = timed(|| points(scene, method, rule));
    assert_eq!(observations.len(), NUM_POINTS);
    let after = Posterior::new(&scene.prior, &observations).expect("the scene's grid");
    let after: f64 = after.variances().expect("positive definite").iter().sum();
    assert!(after < 0.95 * before, "the variance fell from {before} to {after} only");
    time
}

fn points(scene: &Scene, method: UtilityMethod, rule: BatchRule) -> Observations {
    let mut observations = Observations::none(scene.grid);
    for round in 0.. {
        let count = BATCH.min(NUM_POINTS - observations.len());
        if count == 0 {
            break;
        }
        let candidates: Vec<usize> = scene.valid.nodes().filter(|&node| !observations.contains(node)).collect();
        let batch = pick(scene, &observations, &candidates, method, rule, round, count);
        let measured: Vec<_> =
            batch.into_iter().map(|node| Observation { node, value: 0.0, noise_std: scene.task.noise_std }).collect();
        observations.add(&scene.valid, &measured).expect("candidates are free cells");
    }
    observations
}

fn pick(
    scene: &Scene,
    observations: &Observations,
    candidates: &[usize],
    method: UtilityMethod,
    rule: BatchRule,
    round: usize,
    count: usize,
) -> Vec<usize> {
    let noise_std = scene.task.noise_std;
    let posterior = Posterior::new(&scene.prior, observations).expect("the scene's grid");
    let weights = RiskWeights::uniform(scene.grid, candidates).expect("candidates are cells of the grid");
    let moments = UtilityMoments::compute(&posterior, &weights, noise_std, method, SeedTree::new(1), round)
        .expect("a precision is positive definite");
    let anchor = normalized_utility(&moments.utility, candidates);
    let input = BatchInput {
        posterior: &posterior,
        weights: &weights,
        moments: &moments,
        candidates,
        normalized_utility: &anchor,
        calibrated_score: &anchor,
        noise_std,
    };
    select_batch(rule, &input, count).expect("the rule fits the method")
}
