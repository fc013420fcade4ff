//! The posterior mean of one right-hand side: exact with the factor kept, and by iteration on large grids.

use gpara::{MeanSolver, Posterior, Stop};

use crate::cholesky::{Cholesky, lower_entries};
use crate::grid_ordering::nested_dissection;
use crate::row::{Report, Subject, alone, on_threads, side_by_side, timed};
use crate::scene::{DEPTH, RADIO, Scene};
use crate::scipy::SuperLu;

const MAX_ITERATIONS: usize = 2000;
const REL_TOLERANCE: f64 = 1e-8;

pub(crate) fn run(report: &mut Report) {
    let scipy = SuperLu::install();
    for (rows, cols, task) in [(128, 128, RADIO), (192, 256, DEPTH)] {
        let scene = Scene::new(rows, cols, task, 200);
        on_threads(1, || factor_kept(&scene, scipy.as_ref(), report));
    }
    for (side, threads) in [(1024, 1), (1024, 2), (2048, 2)] {
        let scene = Scene::new(side, side, RADIO, 491);
        on_threads(threads, || by_iteration(&scene, threads, report));
    }
}

/// One solve with a factor that is there already.
fn factor_kept(scene: &Scene, scipy: Result<&SuperLu, &String>, report: &mut Report) {
    let subject = Subject { name: "mean", grid: scene.grid, dtype: "f64", threads: 1 };
    let posterior = scene.posterior();
    let rhs = right_hand_side(scene, &posterior);
    let expected = posterior.solve(&rhs).expect("positive definite");
    let own = || {
        let (solution, time) = timed(|| posterior.solve(&rhs).expect("positive definite"));
        check(&solution, &expected);
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
    let (max_iterations, rel_tolerance) = (MAX_ITERATIONS, REL_TOLERANCE);
    let solve = |solver: MeanSolver| {
        let posterior = scene.posterior();
        let prediction = vec![0.25; scene.grid.num_nodes()];
        let (mean, time) = timed(|| posterior.mean_correction(&prediction, solver));
        let (mean, info) = mean.expect("positive definite");
        assert_eq!(info.stop, Stop::Converged, "{solver:?}: {info:?}");
        assert!(info.rel_residual <= rel_tolerance);
        let at_data = posterior.observations().iter().map(|entry| (mean[entry.node] + 0.25 - entry.value).abs());
        assert!(at_data.fold(0.0, f64::max) < 1e-3, "the mean misses the measurements");
        (info, time)
    };
    let (multigrid, pcg) =
        (MeanSolver::Multigrid { max_iterations, rel_tolerance }, MeanSolver::Pcg { max_iterations, rel_tolerance });
    for solver in [multigrid, pcg] {
        let (info, _) = solve(solver);
        eprintln!("{}: {solver:?} took {} iterations, residual {:.1e}", scene.grid, info.iterations, info.rel_residual);
    }
    let (own, rival) = side_by_side(|| solve(multigrid).1, || solve(pcg).1);
    let subject = Subject { name: "mean", grid: scene.grid, dtype: "f64", threads };
    report.against(subject, own, "own conjugate gradients, diagonal preconditioner, to 1e-8", rival);
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
