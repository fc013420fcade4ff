//! What a reconstruction is worth: errors over scored, unobserved and all cells, likeness of pictures, quality of the std.

use std::collections::BTreeMap;

use gpara::{
    COVERAGE_LEVELS, Observations, Reconstruction, Result, errors_over_unobserved, errors_over_valid,
    relative_errors_over_valid,
};

use crate::scene::Scene;
use crate::similarity::structural_similarity;
use crate::task::Task;

/// Every number of a reconstruction; errors in the unit of the task.
///
/// `rmse`, `mae`: scored cells; `rmse_unobserved`, `mae_unobserved`: scored cells without a measurement; `rmse_all`: the whole
/// grid with the other cells exact; `psnr`, `ssim`: the same picture, of range 1 (radio); `abs_rel`, `delta1`: relative to
/// the truth (depth); `standardized_error`: root mean square of error / std over unobserved cells, 1 for a std of the right
/// scale; `coverage_50`, `coverage_80`, `coverage_95`: share of unobserved cells inside those central intervals, half widths
/// `intervals` std; `sharpness_95`: mean width of the widest, in the unit of errors; `crps`: mean continuous ranked probability
/// score of a normal distribution with that mean and std, in the unit of errors.
pub(crate) fn score(
    task: Task,
    scene: &Scene,
    observations: &Observations,
    made: &Reconstruction,
    intervals: [f64; 3],
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
        // Where every sample is clipped alike the std is 0 and no scale of the std describes the error.
        if root_mean_square.is_finite() {
            values.insert("standardized_error".to_owned(), root_mean_square);
        }
        for (level, half_width) in COVERAGE_LEVELS.iter().zip(intervals) {
            let covered = ratios.iter().filter(|ratio| ratio.abs() <= half_width).count() as f64;
            values.insert(format!("coverage_{:.0}", 100.0 * level), covered / count);
        }
        let mean_std = unobserved.iter().map(|&node| std[node]).sum::<f64>() / count;
        values.insert("sharpness_95".to_owned(), 2.0 * intervals[2] * mean_std * factor);
        let crps = unobserved.iter().zip(&ratios).map(|(&node, &ratio)| std[node] * normal_crps(ratio)).sum::<f64>();
        values.insert("crps".to_owned(), crps / count * factor);
    }
    Ok(values)
}

/// CRPS of a standard normal distribution at `z` (Gneiting and Raftery 2007): `z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)`.
fn normal_crps(z: f64) -> f64 {
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    z * libm::erf(z / std::f64::consts::SQRT_2) + 2.0 * density - 1.0 / std::f64::consts::PI.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crps_of_a_normal_is_known_at_its_centre_and_far_away() {
        let root = |value: f64| value.sqrt();
        let centre = (root(2.0) - 1.0) / root(std::f64::consts::PI);
        assert!((normal_crps(0.0) - centre).abs() < 1e-12);
        // Far from the centre it is the distance less the mean distance of two draws over 2.
        assert!((normal_crps(-9.0) - (9.0 - 1.0 / root(std::f64::consts::PI))).abs() < 1e-12);
    }
}
