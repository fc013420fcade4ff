//! The posterior mean of one right-hand side: exact with the factor kept, and by iteration on large grids.

use std::time::Duration;

use gpara::{MeanSolver, Posterior, Stop};

use crate::cholesky::{Cholesky, lower_entries};
use crate::grid_ordering::nested_dissection;
use crate::row::{Report, Subject, alone, on_threads, once, peak_megabytes, side_by_side, timed};
use crate::scene::{DEPTH, RADIO, Scene};
use crate::scipy::SuperLu;

const REL_TOLERANCE: f64 = 1e-8;
const MULTIGRID: MeanSolver = MeanSolver::Multigrid { max_iterations: 2000, rel_tolerance: REL_TOLERANCE };
const PCG: MeanSolver = MeanSolver::Pcg { max_iterations: 2000, rel_tolerance: REL_TOLERANCE };

pub(crate) fn run(report: &mut Report) {
    let scipy = SuperLu::install();
    for (rows, cols, task) in [(128, 128, RADIO), (192, 256, DEPTH)] {
        let scene = Scene::new(rows, cols, task, 200);
        on_threads(1, || factor_kept(&scene, scipy.as_ref(), report));
    }
    let scene = Scene::new(1024, 1024, RADIO, 491);
    for threads in [1, 2] {
        on_threads(threads, || by_iteration(&scene, threads, report));
    }
    let scene = Scene::new(4096, 4096, RADIO, 491);
    on_threads(2, || largest(&scene, report));
    eprintln!("peak memory {:?} MB", peak_megabytes());
}

/// One solve with a factor that is there already.
fn factor_kept(scene: &Scene, scipy: Result<&SuperLu, &String>, report: &mut Report) {
    let subject = Subject { name: "mean", grid: scene.grid, dtype: "f64", threads: 1 };
    let posterior = scene.posterior();
    let rhs = right_hand_side(scene, &posterior);
    let expected = posterior.solve(&rhs).expect("positive definite");
    let prediction = vec![0.0; scene.grid.num_nodes()];
    let own = || {
        let (mean, time) = timed(|| posterior.mean_correction(&prediction, MeanSolver::Exact));
        let (mean, info) = mean.expect("positive definite");
        assert!(info.stop == Stop::Direct && info.rel_residual < 1e-5, "{info:?}");
        check(&mean, &expected);
        time
    };
    let mut cholesky = Cholesky::new(posterior.precision(), 1);
    cholesky.factor();
    let rival = || {
        let (solution, time) = timed(|| cholesky.solve(&rhs));
        check(&solution, &expected);
        time
    };
    let (own_timing, rival_timing) = side_by_side(own, rival);
    report.against(subject, own_timing, "faer supernodal Cholesky, factor kept, f64", rival_timing);

    let order = nested_dissection(scene.grid, 1);
    let solved = scipy
        .map_err(String::clone)
        .and_then(|scipy| scipy.solve(&lower_entries(posterior.precision(), 1), &order, &rhs, &expected));
    let own_timing = alone(own);
    match solved {
        Ok(timing) => report.against(subject, own_timing, "SciPy SuperLU, factor kept, f64", timing),
        Err(reason) => report.unopposed(subject, own_timing, &format!("SciPy SuperLU skipped: {reason}")),
    }
}

/// From nothing to a residual of [`REL_TOLERANCE`], by multigrid-preconditioned against diagonally preconditioned iteration.
fn by_iteration(scene: &Scene, threads: usize, report: &mut Report) {
    let (own, rival) = side_by_side(|| iterate(scene, MULTIGRID), || iterate(scene, PCG));
    let subject = Subject { name: "mean", grid: scene.grid, dtype: "f64", threads };
    report.against(subject, own, "own conjugate gradients, diagonal preconditioner, to 1e-8", rival);
}

/// The largest grid, once.
fn largest(scene: &Scene, report: &mut Report) {
    let own = once(|| iterate(scene, MULTIGRID));
    let subject = Subject { name: "mean", grid: scene.grid, dtype: "f64", threads: 2 };
    report.unopposed(subject, own, "none: multigrid to 1e-8, one run");
}

fn iterate(scene: &Scene, solver: MeanSolver) -> Duration {
    let posterior = scene.posterior();
    let prediction = vec![0.25; scene.grid.num_nodes()];
    let (mean, time) = timed(|| posterior.mean_correction(&prediction, solver));
    let (mean, info) = mean.expect("positive definite");
    assert!(info.stop == Stop::Converged && info.rel_residual <= REL_TOLERANCE, "{solver:?}: {info:?}");
    let at_data = posterior.observations().iter().map(|entry| (mean[entry.node] + 0.25 - entry.value).abs());
    assert!(at_data.fold(0.0, f64::max) < 1e-3, "the mean misses the measurements");
    eprintln!("{}: {} iterations, residual {:.1e}", scene.grid, info.iterations, info.rel_residual);
    time
}

fn right_hand_side(scene: &Scene, posterior: &Posterior) -> Vec<f64> {
    let mut rhs = vec![0.0; scene.grid.num_nodes()];
    posterior.observations().iter().for_each(|entry| rhs[entry.node] = entry.value / entry.noise_std.powi(2));
    rhs
}

fn check(found: &[f64], expected: &[f64]) {
    let largest = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-5 * largest, "off by {worst:e} of {largest:e}");
}
