//! Tiles against the paper's probing, and their growth with the grid.

use std::time::Duration;

use gpara::{ProbeKind, SeedTree, Tiling, UtilityMethod, UtilityMoments};

use crate::row::{Report, Subject, alone, on_threads, once, peak_megabytes, side_by_side, timed};
use crate::scene::{RADIO, Scene};

/// Windows of this task are solved in single precision: tau is large enough.
const DTYPE: &str = "f32";

/// Growth is linear if the time a cell stays from the first to the last.
const GROWTH_SIDES: [usize; 3] = [256, 512, 2048];
const LARGEST_SIDE: usize = 4096;
/// Above this side one run is enough: it is hundreds of windows.
const REPEATED_SIDE: usize = 1024;

/// Answers are compared with those of this halo, or of none where that takes too long.
const WIDER_HALO: usize = 40;

pub(crate) fn run(report: &mut Report) {
    let scene = Scene::new(1024, 1024, RADIO, 491);
    let worker = Tiling::DEFAULT.worker_bytes(scene.posterior().precision()) >> 20;
    eprintln!("core 128, halo 24: about {worker} MB a thread");
    let wider = on_threads(2, || wider_variances(&scene));
    for threads in [1, 2] {
        on_threads(threads, || {
            let (own, rival) = side_by_side(|| tiled(&scene, &wider), || probing(&scene));
            report.against(subject(&scene, threads), own, "paper probing, P = 16, 24 iterations, f64", rival);
        });
    }
    eprintln!("peak memory {:?} MB", peak_megabytes());
}

/// The same kind of row from 256 x 256 to 4096 x 4096 cells.
pub(crate) fn growth(report: &mut Report) {
    for side in GROWTH_SIDES {
        let scene = Scene::new(side, side, RADIO, 200);
        let wider = on_threads(2, || wider_variances(&scene));
        let own = on_threads(1, || match side {
            ..=REPEATED_SIDE => alone(|| tiled(&scene, &wider)),
            _ => once(|| tiled(&scene, &wider)),
        });
        grown(report, &scene, 1, own.median_ms, own);
    }
    let scene = Scene::new(LARGEST_SIDE, LARGEST_SIDE, RADIO, 200);
    let own = on_threads(2, || once(|| tiled(&scene, &[])));
    grown(report, &scene, 2, own.median_ms, own);
    eprintln!("peak memory {:?} MB", peak_megabytes());
}

fn grown(report: &mut Report, scene: &Scene, threads: usize, median_ms: f64, own: crate::row::Timing) {
    eprintln!("{}: {:.3} us a cell", scene.grid, median_ms * 1e3 / scene.grid.num_nodes() as f64);
    report.unopposed(subject(scene, threads), own, "none: growth with the number of cells");
}

fn subject(scene: &Scene, threads: usize) -> Subject {
    Subject { name: "tiled", grid: scene.grid, dtype: DTYPE, threads }
}

fn wider_variances(scene: &Scene) -> Vec<f64> {
    let tiling = Tiling::new(Tiling::DEFAULT.core(), WIDER_HALO).expect("a core above 0");
    tiling.variances_and_numerators(&scene.posterior(), &scene.weights).expect("a precision is positive definite").0
}

/// The tiled moments, compared with variances of a wider halo.
fn tiled(scene: &Scene, wider: &[f64]) -> Duration {
    let posterior = scene.posterior();
    let (moments, time) = timed(|| Tiling::DEFAULT.variances_and_numerators(&posterior, &scene.weights));
    let (variances, numerators) = moments.expect("a precision is positive definite");
    let worst = variances.iter().zip(wider).map(|(own, wider)| (own / wider - 1.0).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-2, "variances differ by {worst:e} from those of a wider halo");
    // Without any information a variance is at most 1 / tau.
    let allowed = 0.0..=1.0 / scene.task.residual_precision;
    assert!(variances.iter().all(|value| allowed.contains(value)) && numerators.iter().all(|value| *value > 0.0));
    time
}

fn probing(scene: &Scene) -> Duration {
    let (kind, num_probes) = (ProbeKind::Rademacher, scene.task.num_probes);
    let method = UtilityMethod::Probing { kind, num_probes, max_iterations: 24, rel_tolerance: 1e-5 };
    let (posterior, noise_std) = (scene.posterior(), scene.task.noise_std);
    let (moments, time) =
        timed(|| UtilityMoments::compute(&posterior, &scene.weights, noise_std, method, SeedTree::new(1), 0));
    assert!(moments.expect("probing has no way to fail").numerator_estimate.iter().all(|value| *value >= 0.0));
    time
}
