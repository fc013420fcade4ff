//! What a measurement would have been worth, by someone who knows the field: the scorer's teacher (C.9-C.11).

use gpara::{Posterior, Result, RiskWeights, ValidMask};

/// Floor of the standard deviation in a z-score (C.10).
const DEVIATION_FLOOR: f64 = 1e-6;

/// What the teacher knows beside the posterior.
pub(crate) struct TeacherInput<'a> {
    /// The graph posterior of the state.
    pub(crate) posterior: &'a Posterior,
    /// The valid cells: W_tr is their indicator.
    pub(crate) valid: &'a ValidMask,
    /// x_0.
    pub(crate) truth: &'a [f64],
    /// mu_hat, the graph-conditioned estimate.
    pub(crate) estimate: &'a [f64],
    /// The cached prior mean plus the unscaled correction of it.
    pub(crate) predicted: &'a [f64],
    /// sigma_y.
    pub(crate) noise_std: f64,
    /// rho_g.
    pub(crate) strength: f64,
}

/// The linear-response benefit of every node (C.9): the drop of the squared error over valid cells if the node were
/// measured now, `2 rho nu_i u_i' W e - rho^2 nu_i^2 u_i' W u_i`.
///
/// With `u_i = Sigma e_i / (sigma^2 + Sigma_ii)`, `u_i' W e = (Sigma W e)_i / (..)` is one solve for all nodes, and
/// `u_i' W u_i = (Sigma W Sigma)_ii / (..)^2` is a utility's numerator.
///
/// # Errors
/// `NotPositiveDefinite` if the factorisation breaks down.
pub(crate) fn linear_response_benefit(input: &TeacherInput<'_>) -> Result<Vec<f64>> {
    let TeacherInput { posterior, valid, truth, estimate, predicted, noise_std, strength } = *input;
    let indicator: Vec<f64> = valid.as_slice().iter().map(|&valid| f64::from(u8::from(valid))).collect();
    let error: Vec<f64> =
        indicator.iter().zip(truth).zip(estimate).map(|((weight, truth), mean)| weight * (truth - mean)).collect();
    let projected = posterior.solve(&error)?;
    let (variances, numerators) = posterior.variances_and_numerators(&RiskWeights::from_values(indicator)?)?;
    let benefit = |node: usize| {
        let total = noise_std * noise_std + variances[node];
        let step = strength * (truth[node] - predicted[node]);
        2.0 * step * projected[node] / total - step * step * numerators[node] / (total * total)
    };
    Ok((0..truth.len()).map(benefit).collect())
}

/// Z-scores over the candidates (C.10), population standard deviation.
pub(crate) fn z_score(values: &[f64]) -> Vec<f64> {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    let deviation = variance.sqrt().max(DEVIATION_FLOOR);
    values.iter().map(|value| (value - mean) / deviation).collect()
}

/// h_i: the analytic utility and the z-scored benefit of the candidates, mixed.
pub(crate) fn teacher_score(normalized_utility: &[f64], benefit: &[f64], anchor_share: f64) -> Vec<f64> {
    let benefit = z_score(benefit);
    normalized_utility.iter().zip(benefit).map(|(anchor, b)| anchor_share * anchor + (1.0 - anchor_share) * b).collect()
}

#[cfg(test)]
mod tests {
    use gpara::{Conductances, Grid, Observation, Observations, ResidualPrecision};

    use super::*;

    #[test]
    fn theory_benefit_is_the_drop_of_the_squared_error_c9() {
        let grid = Grid::new(3, 4).unwrap();
        let valid = ValidMask::new(grid, (0..12).map(|node| node != 5).collect()).unwrap();
        let logits: Vec<f64> = (0..48).map(|at| (at as f64 * 0.7).sin()).collect();
        let graph = Conductances::from_logits(&logits, &valid).unwrap();
        let precision = ResidualPrecision::new(graph, 0.3, 0.8).unwrap();
        let mut observations = Observations::none(grid);
        observations.add(&valid, &[Observation { node: 2, value: 0.4, noise_std: 0.1 }]).unwrap();
        let posterior = Posterior::new(&precision, &observations).unwrap();
        let wave = |phase: f64| (0..12).map(|node| (node as f64 + phase).cos()).collect::<Vec<f64>>();
        let (truth, estimate, predicted) = (wave(0.0), wave(0.4), wave(0.9));
        let (noise_std, strength) = (0.1, 1.4);
        let input = TeacherInput {
            posterior: &posterior,
            valid: &valid,
            truth: &truth,
            estimate: &estimate,
            predicted: &predicted,
            noise_std,
            strength,
        };
        let benefit = linear_response_benefit(&input).unwrap();
        let squared = |estimate: &[f64]| valid.nodes().map(|node| (truth[node] - estimate[node]).powi(2)).sum::<f64>();
        for node in [0, 3, 7, 11] {
            let response = posterior.response(node, noise_std).unwrap();
            let step = strength * (truth[node] - predicted[node]);
            let after: Vec<f64> = estimate.iter().zip(&response).map(|(mean, u)| mean + step * u).collect();
            let drop = squared(&estimate) - squared(&after);
            assert!((benefit[node] - drop).abs() < 1e-9, "node {node}: {} {drop}", benefit[node]);
        }
    }

    #[test]
    fn theory_teacher_mixes_anchor_and_z_scored_benefit_c11() {
        // Benefits 1, 3: z-scores -1, 1.
        let teacher = teacher_score(&[0.5, -0.5], &[1.0, 3.0], 0.2);
        assert!((teacher[0] - (0.1 - 0.8)).abs() < 1e-12 && (teacher[1] - (-0.1 + 0.8)).abs() < 1e-12);
        assert_eq!(z_score(&[2.0, 2.0]), [0.0, 0.0]);
    }
}
