//! A refresh of a second-order precision.

use gpara::ResidualPrecision;

use crate::refresh::compare;
use crate::row::Report;
use crate::scene::{DEPTH, RADIO, Scene};

/// The inverse square of the correlation length, about ten cells.
const KAPPA_SQUARED: f64 = 0.01;
const REACH: usize = 2;

pub(crate) fn run(report: &mut Report) {
    for (rows, cols, task) in [(128, 128, RADIO), (192, 256, DEPTH)] {
        let mut scene = Scene::new(rows, cols, task, 200);
        let graph = scene.prior.conductances().clone();
        // Without a nugget; lambda keeps the variance near that of the first order.
        scene.prior = ResidualPrecision::second_order(graph, 0.0, 10.0, KAPPA_SQUARED).expect("allowed constants");
        compare("second_order", &scene, REACH, 1, report);
    }
}
