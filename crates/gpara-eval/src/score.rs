//! What a reconstruction is worth: errors over scored, unobserved and all cells, likeness of pictures, quality of the std.

use std::collections::BTreeMap;

use gpara::{
    Observations, Reconstruction, Result, errors_over_unobserved, errors_over_valid, relative_errors_over_valid,
};

use crate::scene::Scene;
use crate::similarity::structural_similarity;
use crate::task::Task;

/// Half-width of the central 90 % of a standard normal variable.
const NINETY_PERCENT: f64 = 1.644_853_626_951_472_7;

/// Every number of a reconstruction; errors in the unit of the task.
///
/// `rmse`, `mae`: scored cells; `rmse_unobserved`, `mae_unobserved`: scored cells without a measurement; `rmse_all`: the whole
/// grid with the other cells exact; `psnr`, `ssim`: the same picture, of range 1 (radio); `abs_rel`, `delta1`: relative to
/// the truth (depth); `standardized_error`: root mean square of error / std over unobserved cells, 1 for a std of the right
/// scale; `coverage_90`: share of unobserved cells within 1.645 std of the truth.
pub(crate) fn score(
    task: Task,
    scene: &Scene,
    observations: &Observations,
    made: &Reconstruction,
) -> Result<BTreeMap<String, f64>> {
    let (mean, truth, scored) = (&made.mean, &scene.truth, &scene.scored);
    let factor = task.error_factor();
    let errors = errors_over_valid(mean, truth, scored)?.scaled(factor);
    let num_nodes = scored.grid().num_nodes() as f64;
    let mean_square = errors.rmse.powi(2) * errors.num_cells as f64 / num_nodes;
    let mut values = BTreeMap::from([
        ("rmse".to_owned(), errors.rmse),
        ("mae".to_owned(), errors.mae),
        ("rmse_all".to_owned(), mean_square.sqrt()),
        ("num_cells".to_owned(), errors.num_cells as f64),
        ("num_points".to_owned(), observations.len() as f64),
    ]);
    let unobserved: Vec<usize> = scored.nodes().filter(|&node| !observations.contains(node)).collect();
    if !unobserved.is_empty() {
        let errors = errors_over_unobserved(mean, truth, scored, observations)?.scaled(factor);
        values.insert("rmse_unobserved".to_owned(), errors.rmse);
        values.insert("mae_unobserved".to_owned(), errors.mae);
    }
    if let Some(zero) = task.zero() {
        // A ratio does not depend on the unit, only on where its zero is.
        let above = |values: &[f64]| values.iter().map(|value| value - zero).collect::<Vec<f64>>();
        let relative = relative_errors_over_valid(&above(mean), &above(truth), scored)?;
        values.insert("abs_rel".to_owned(), relative.abs_rel);
        values.insert("delta1".to_owned(), relative.delta1);
    } else {
        let shown = |field: &[f64]| -> Vec<f64> {
            let cells = field.iter().zip(truth).zip(scored.as_slice());
            cells.map(|((&value, &truth), &counts)| factor * (if counts { value } else { truth } + 1.0)).collect()
        };
        // A perfect field has no finite PSNR; its mean over scenes would then say nothing about the others.
        values.insert("psnr".to_owned(), (-10.0 * mean_square.log10()).min(100.0));
        values.insert("ssim".to_owned(), structural_similarity(scored.grid(), &shown(mean), &shown(truth)));
    }
    if let Some(std) = made.std.as_ref().filter(|_| !unobserved.is_empty()) {
        let ratios: Vec<f64> =
            unobserved.iter().map(|&node| (mean[node] - truth[node]) / std[node].max(f64::MIN_POSITIVE)).collect();
        let count = ratios.len() as f64;
        let root_mean_square = (ratios.iter().map(|ratio| ratio * ratio).sum::<f64>() / count).sqrt();
        let covered = ratios.iter().filter(|ratio| ratio.abs() <= NINETY_PERCENT).count() as f64;
        values.insert("standardized_error".to_owned(), root_mean_square);
        values.insert("coverage_90".to_owned(), covered / count);
    }
    Ok(values)
}
