//! One acquisition refresh, variances and numerators of every cell from nothing but the graph and the measurements.

use std::time::Duration;

use gpara::{PosteriorPrecision, ProbeKind, ResidualPrecision, SeedTree, UtilityMethod, UtilityMoments};

use crate::cholesky::Cholesky;
use crate::row::{Report, Subject, on_threads, rivals_left_out, side_by_side, timed};
use crate::scene::Scene;

/// Selected inversion entry by entry takes half a minute above this many cells.
const TAKAHASHI_CELLS: usize = 512 * 512;

pub(crate) fn run(report: &mut Report) {
    for (rows, cols, task) in Scene::sizes() {
        let scene = Scene::new(rows, cols, task, 200);
        for threads in [1, 2] {
            compare("refresh", &scene, 1, threads, report);
        }
    }
}

/// The rows of one scene whose precision couples cells `reach` apart.
pub(crate) fn compare(name: &'static str, scene: &Scene, reach: usize, threads: usize, report: &mut Report) {
    let subject = Subject { name, grid: scene.grid, dtype: scene.dtype(), threads };
    let reference = Reference::new(scene);
    on_threads(threads, || {
        let (own, rival) = side_by_side(|| exact(scene, &reference), || probing(scene, &reference));
        let method = format!("paper probing, P = {}, 24 iterations, f64", scene.task.num_probes);
        report.against(subject, own, &method, rival);
    });
    // The rival runs on one thread.
    if threads == 1 && !rivals_left_out() && scene.grid.num_nodes() <= TAKAHASHI_CELLS {
        let mut cholesky = Cholesky::new(&precision(&scene.prior, scene), reach);
        on_threads(1, || {
            let variances = || by_takahashi(&mut cholesky, &reference);
            let (own, rival) = side_by_side(|| exact(scene, &reference), variances);
            report.against(subject, own, "faer supernodal Cholesky + scalar Takahashi, d only, f64", rival);
        });
    }
}

fn precision(prior: &ResidualPrecision, scene: &Scene) -> PosteriorPrecision {
    PosteriorPrecision::new(prior, &scene.observations).expect("prior and measurements share the grid")
}

/// Variances and numerators at a few cells, from columns of the covariance.
struct Reference(Vec<(usize, f64, f64)>);

impl Reference {
    fn new(scene: &Scene) -> Self {
        let posterior = scene.posterior();
        let weights = scene.weights.as_slice();
        let of_node = |node: usize| {
            let column = posterior.covariance_column(node).expect("a node of the grid");
            (node, column[node], column.iter().zip(weights).map(|(u, w)| w * u * u).sum())
        };
        let num_nodes = scene.grid.num_nodes();
        Self([num_nodes / 5, num_nodes / 2 + scene.grid.cols() / 3, num_nodes - 7].map(of_node).to_vec())
    }

    fn check(
        &self,
        name: &str,
        tolerance: f64,
        found: impl Fn(usize) -> f64,
        expected: impl Fn(&(usize, f64, f64)) -> f64,
    ) {
        for entry in &self.0 {
            let (found, expected) = (found(entry.0), expected(entry));
            let error = (found / expected - 1.0).abs();
            assert!(error < tolerance, "{name} of node {}: {found} instead of {expected}", entry.0);
        }
    }
}

fn exact(scene: &Scene, reference: &Reference) -> Duration {
    let (moments, time) = timed(|| UtilityMoments::exact(&scene.posterior(), &scene.weights, scene.task.noise_std));
    let moments = moments.expect("a precision is positive definite");
    reference.check("variance", 1e-4, |node| moments.variance_estimate[node], |entry| entry.1);
    reference.check("numerator", 1e-4, |node| moments.numerator_estimate[node], |entry| entry.2);
    time
}

fn probing(scene: &Scene, reference: &Reference) -> Duration {
    let (kind, num_probes) = (ProbeKind::Rademacher, scene.task.num_probes);
    let method = UtilityMethod::Probing { kind, num_probes, max_iterations: 24, rel_tolerance: 1e-5 };
    let work = || {
        let seeds = SeedTree::new(1);
        UtilityMoments::compute(&scene.posterior(), &scene.weights, scene.task.noise_std, method, seeds, 0)
    };
    let (moments, time) = timed(work);
    let moments = moments.expect("probing has no way to fail");
    // A sum of P squares of normal numbers: within a factor of 12 at P = 4 except once in 1e5.
    reference.check("probed numerator", 12.0, |node| moments.numerator_estimate[node], |entry| entry.2);
    time
}

fn by_takahashi(cholesky: &mut Cholesky, reference: &Reference) -> Duration {
    let (variances, time) = timed(|| {
        cholesky.factor();
        cholesky.variances()
    });
    reference.check("variance", 1e-6, |node| variances[node], |entry| entry.1);
    time
}
