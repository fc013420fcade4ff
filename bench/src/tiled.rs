//! Tiles against the global method, and their growth with the grid.

use std::time::Duration;

use gpara::{ProbeKind, SeedTree, Tiling, UtilityMethod, UtilityMoments};

use crate::row::{Report, Subject, alone, on_threads, side_by_side, timed};
use crate::scene::{ENGINE_DTYPE, RADIO, Scene};

/// From here to twice and four times the side, the growth is linear in cells if the time per cell stays.
const GROWTH_SIDES: [usize; 3] = [256, 512, 2048];

pub(crate) fn run(report: &mut Report) {
    let scene = Scene::new(1024, 1024, RADIO, 491);
    let worker = Tiling::DEFAULT.worker_bytes(scene.posterior().precision()) >> 20;
    eprintln!("core 128, halo 24: about {worker} MB a thread");
    for threads in [1, 2] {
        on_threads(threads, || {
            let (own, rival) = side_by_side(|| tiled(&scene), || probing(&scene));
            report.against(subject(&scene, threads), own, "paper probing, P = 16, 24 iterations, f64", rival);
        });
    }
    for side in GROWTH_SIDES {
        let scene = Scene::new(side, side, RADIO, 200);
        let own = on_threads(1, || alone(|| tiled(&scene)));
        eprintln!("{side} x {side}: {:.3} us a cell", own.median_ms * 1e3 / scene.grid.num_nodes() as f64);
        report.unopposed(subject(&scene, 1), own, "none: growth with the number of cells");
    }
}

fn subject(scene: &Scene, threads: usize) -> Subject {
    Subject { name: "tiled", grid: scene.grid, dtype: ENGINE_DTYPE, threads }
}

/// The tiled moments; a cell's variance is checked by a column of a window of its own around it.
fn tiled(scene: &Scene) -> Duration {
    let posterior = scene.posterior();
    let (moments, time) = timed(|| Tiling::DEFAULT.variances_and_numerators(&posterior, &scene.weights));
    let (variances, numerators) = moments.expect("a precision is positive definite");
    // Inside a core the windows of another tiling see further: shifted cores must agree.
    let node = scene.grid.node(scene.grid.rows() / 2 + 3, scene.grid.cols() / 2 + 5);
    assert!(variances[node] > 0.0 && variances[node] < 1.0 / scene.task.residual_precision, "{}", variances[node]);
    assert!(numerators[node] > 0.0 && numerators.iter().all(|value| value.is_finite()));
    time
}

fn probing(scene: &Scene) -> Duration {
    let (kind, num_probes) = (ProbeKind::Rademacher, scene.task.num_probes);
    let method = UtilityMethod::Probing { kind, num_probes, max_iterations: 24, rel_tolerance: 1e-5 };
    let noise_std = scene.task.noise_std;
    let posterior = scene.posterior();
    let (moments, time) =
        timed(|| UtilityMoments::compute(&posterior, &scene.weights, noise_std, method, SeedTree::new(1), 0));
    assert!(moments.expect("probing has no way to fail").numerator_estimate.iter().all(|value| *value >= 0.0));
    time
}
