//! Times the operations of one acquisition refresh:
//! `cargo run --release -p gpara --example posterior_timing [ROWS COLS OBSERVATIONS]`.
//!
//! One thread; medians of repeated runs; a synthetic graph with smooth logits and the constants of the paper's radio task.

#![allow(clippy::unwrap_used, reason = "a failed step should end the measurement")]

use std::time::Instant;

use gpara::{
    Conductances, Grid, MeanSolver, Observation, Observations, Posterior, ProbeKind, ResidualPrecision, RiskWeights,
    SeedTree, UtilityMethod, UtilityMoments, ValidMask,
};

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|argument| argument.parse().unwrap()).collect();
    let [rows, cols, num_observed] = arguments[..].try_into().unwrap_or([128, 128, 200]);
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
    let grid = Grid::new(rows, cols).unwrap();
    let valid = ValidMask::all(grid);
    let mut stream = SeedTree::new(1).stream("timing");
    let logits: Vec<f64> = (0..4 * grid.num_nodes()).map(|_| 1.5 * stream.normal()).collect();
    let conductances = Conductances::from_logits(&logits, &valid).unwrap();
    let prior = ResidualPrecision::new(conductances, 0.0625, 0.8).unwrap();
    let mut observations = Observations::none(grid);
    while observations.len() < num_observed {
        let node = stream.index(grid.num_nodes());
        let observation = Observation { node, value: stream.normal(), noise_std: 1e-4 };
        if !observations.contains(node) {
            observations.add(&valid, &[observation]).unwrap();
        }
    }
    let candidates: Vec<usize> = valid.nodes().filter(|&node| !observations.contains(node)).collect();
    let weights = RiskWeights::uniform(grid, &candidates).unwrap();
    let prediction = vec![0.0; grid.num_nodes()];
    println!("{grid}, {num_observed} observations, one thread, medians in ms");

    // The elimination order of the grid is made once and shared by all posteriors of the graph.
    let start = Instant::now();
    Posterior::new(&prior, &observations).unwrap().solve(&prediction).unwrap();
    println!("{:<28}{:9.2}", "ordering + first factor", start.elapsed().as_secs_f64() * 1e3);
    let fresh = || Posterior::new(&prior, &observations).unwrap();
    let warm = fresh();
    let exact = warm.mean_correction(&prediction, MeanSolver::Exact).unwrap().0;
    report("factor + one solve", || fresh().solve(&prediction).unwrap()[0]);
    report("one solve", || warm.solve(&prediction).unwrap()[0]);
    for (name, solver) in [
        ("mean, Jacobi 24", MeanSolver::Jacobi { iterations: 24 }),
        ("mean, PCG 24", MeanSolver::Pcg { max_iterations: 24, rel_tolerance: 1e-5 }),
        ("mean, PCG to 1e-5", MeanSolver::Pcg { max_iterations: 500, rel_tolerance: 1e-5 }),
        ("mean, exact, factor kept", MeanSolver::Exact),
    ] {
        let (mean, info) = warm.mean_correction(&prediction, solver).unwrap();
        report(name, || warm.mean_correction(&prediction, solver).unwrap().0[0]);
        println!("    {info:?}, distance to the exact mean {:.1e}", distance(&mean, &exact));
    }
    report("variances, factor kept", || warm.variances().unwrap()[0]);
    report("variances + numerators", || UtilityMoments::exact(&warm, &weights, 1e-4).unwrap().utility[0]);
    report("refresh, exact", || UtilityMoments::exact(&fresh(), &weights, 1e-4).unwrap().utility[0]);
    let probing =
        UtilityMethod::Probing { kind: ProbeKind::Rademacher, num_probes: 16, max_iterations: 24, rel_tolerance: 1e-5 };
    let probe = || UtilityMoments::compute(&warm, &weights, 1e-4, probing, SeedTree::new(1), 0).unwrap();
    report("refresh, probing P = 16", || probe().utility[0]);
    let (exact, estimate) = (UtilityMoments::exact(&warm, &weights, 1e-4).unwrap(), probe());
    let error = distance(&estimate.numerator_estimate, &exact.numerator_estimate);
    println!("    distance of its numerators to the exact ones {error:.2}");
    assert!(error < 1.0, "probing and the exact pass disagree");
}

fn report(name: &str, mut work: impl FnMut() -> f64) {
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            let result = work();
            assert!(result.is_finite());
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:<28}{:9.2}  ({:.2} .. {:.2})", times[4], times[0], times[8]);
}

fn distance(found: &[f64], expected: &[f64]) -> f64 {
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| (a - b) * (a - b)).sum();
    (difference / expected.iter().map(|value| value * value).sum::<f64>()).sqrt()
}
