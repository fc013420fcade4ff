//! The loss of the graph network (C.4-C.8).

use tch::{Kind, Tensor};

use crate::conditioner::{ahead, edge_mask};
use crate::config_stages::GraphConfig;
use gpara::EDGE_OFFSETS;

/// The fields a loss compares, each `[B, 1, H, W]`.
pub(crate) struct Refinement<'a> {
    /// The frozen prior's clean estimate.
    pub(crate) estimate: &'a Tensor,
    /// The same, refined by the conditioner.
    pub(crate) refined: &'a Tensor,
    /// x_0.
    pub(crate) truth: &'a Tensor,
    /// 1 at valid cells.
    pub(crate) valid: &'a Tensor,
    /// 1 at measured cells; their values are those of `truth`.
    pub(crate) observed: &'a Tensor,
}

/// E_R of C.4 for each sample: mean squared error over the cells where `region` is 1; `[B]`.
pub(crate) fn region_error(estimate: &Tensor, truth: &Tensor, region: &Tensor) -> Tensor {
    let sum = |tensor: Tensor| tensor.sum_dim_intlist([1, 2, 3].as_slice(), false, None::<Kind>);
    let squares = (estimate - truth).square() * region;
    sum(squares) / sum(region.shallow_clone()).clamp_min(1.0)
}

/// L_hinge of C.6 for each sample: how much worse the refined estimate is over unobserved cells; `[B]`.
pub(crate) fn hinge(fields: &Refinement<'_>) -> Tensor {
    let region = unobserved(fields);
    let error = |estimate: &Tensor| region_error(estimate, fields.truth, &region);
    (error(fields.refined) - error(fields.estimate)).clamp_min(0.0)
}

fn unobserved(fields: &Refinement<'_>) -> Tensor {
    fields.valid * (1.0 - fields.observed)
}

/// a_res of C.7, `[B, 4, H, W]`: near 1 where residual and field are alike at both ends of an edge.
pub(crate) fn residual_affinity(config: &GraphConfig, fields: &Refinement<'_>) -> Tensor {
    let residual = fields.truth - fields.estimate;
    let maps: Vec<Tensor> = EDGE_OFFSETS
        .iter()
        .map(|&offset| {
            let jump = |field: &Tensor| (field - ahead(field, offset)).abs();
            (-jump(&residual) / config.residual_scale - jump(fields.truth) / config.field_scale).exp()
        })
        .collect();
    Tensor::cat(&maps, 1)
}

/// L_aff of C.8 for each sample: cross-entropy of the edge probabilities against a_res over valid edges; `[B]`.
pub(crate) fn affinity_loss(config: &GraphConfig, logits: &Tensor, fields: &Refinement<'_>) -> Tensor {
    let affinity = residual_affinity(config, fields);
    let masks: Vec<Tensor> = (0..EDGE_OFFSETS.len()).map(|direction| edge_mask(fields.valid, direction)).collect();
    let mask = Tensor::cat(&masks, 1);
    // -a log p - (1 - a) log(1 - p) with p = sigmoid(z) is softplus(z) - a z.
    let entropy = (logits.softplus() - affinity * logits) * &mask;
    let sum = |tensor: Tensor| tensor.sum_dim_intlist([1, 2, 3].as_slice(), false, None::<Kind>);
    sum(entropy) / sum(mask).clamp_min(1.0)
}

/// L_graph of C.5, mean over the batch.
pub(crate) fn graph_loss(config: &GraphConfig, logits: &Tensor, fields: &Refinement<'_>) -> Tensor {
    let error = |region: &Tensor| region_error(fields.refined, fields.truth, region);
    let loss = error(fields.valid)
        + error(&unobserved(fields)) * config.unobserved_weight
        + error(fields.observed) * config.observed_weight
        + hinge(fields) * config.hinge_weight
        + affinity_loss(config, logits, fields) * config.affinity_weight;
    loss.mean(None::<Kind>)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_stages::StepWeighting;

    fn config() -> GraphConfig {
        GraphConfig {
            step_weighting: StepWeighting::Uniform,
            unobserved_weight: 2.0,
            observed_weight: 0.1,
            hinge_weight: 0.1,
            affinity_weight: 0.01,
            residual_scale: 0.05,
            field_scale: 0.08,
        }
    }

    /// One row of three cells, the last invalid, the first measured.
    struct Case {
        estimate: Tensor,
        refined: Tensor,
        truth: Tensor,
        valid: Tensor,
        observed: Tensor,
    }

    impl Case {
        fn new(estimate: [f64; 3], refined: [f64; 3]) -> Self {
            let row = |values: [f64; 3]| Tensor::from_slice(&values).view([1, 1, 1, 3]);
            Self {
                estimate: row(estimate),
                refined: row(refined),
                truth: row([0.1, 0.2, 0.9]),
                valid: row([1.0, 1.0, 0.0]),
                observed: row([1.0, 0.0, 0.0]),
            }
        }

        fn fields(&self) -> Refinement<'_> {
            let Self { estimate, refined, truth, valid, observed } = self;
            Refinement { estimate, refined, truth, valid, observed }
        }
    }

    fn value(tensor: &Tensor) -> f64 {
        tensor.sum(Kind::Double).double_value(&[])
    }

    #[test]
    fn theory_region_error_is_the_mean_square_over_the_region_c4() {
        let case = Case::new([0.0; 3], [0.2, 0.5, 7.0]);
        let error = |region: &Tensor| value(&region_error(&case.refined, &case.truth, region));
        assert!((error(&case.valid) - (0.01 + 0.09) / 2.0).abs() < 1e-12);
        assert!((error(&case.observed) - 0.01).abs() < 1e-12);
        assert_eq!(error(&case.valid.zeros_like()), 0.0);
    }

    #[test]
    fn theory_hinge_is_zero_unless_the_unobserved_cells_got_worse_c6() {
        let worse = Case::new([0.1, 0.3, 0.0], [0.1, 0.5, 0.0]);
        assert!((value(&hinge(&worse.fields())) - (0.09 - 0.01)).abs() < 1e-12);
        let better = Case::new([0.1, 0.5, 0.0], [0.9, 0.3, 0.0]);
        assert_eq!(value(&hinge(&better.fields())), 0.0);
    }

    #[test]
    fn theory_affinity_falls_with_jumps_of_residual_and_field_c7() {
        let case = Case::new([0.05, 0.1, 0.0], [0.0; 3]);
        let affinity = residual_affinity(&config(), &case.fields());
        // Residuals .05 and .1, fields .1 and .2.
        let expected = (-0.05f64 / 0.05 - 0.1 / 0.08).exp();
        assert!((affinity.double_value(&[0, 0, 0, 0]) - expected).abs() < 1e-12);
    }

    #[test]
    fn theory_affinity_loss_is_the_cross_entropy_over_valid_edges_c8() {
        let case = Case::new([0.05, 0.1, 0.0], [0.0; 3]);
        let mut logits = vec![3.0; 12];
        logits[0] = 0.4;
        let logits = Tensor::from_slice(&logits).view([1, 4, 1, 3]);
        let (a, p) = ((-0.05f64 / 0.05 - 0.1 / 0.08).exp(), 1.0 / (1.0 + (-0.4f64).exp()));
        // The only valid edge is that from the first cell to the second.
        let expected = -(a * p.ln() + (1.0 - a) * (1.0 - p).ln());
        assert!((value(&affinity_loss(&config(), &logits, &case.fields())) - expected).abs() < 1e-12);
    }

    #[test]
    fn theory_graph_loss_is_the_weighted_sum_of_its_terms_c5() {
        let case = Case::new([0.1, 0.3, 0.0], [0.2, 0.5, 0.0]);
        let logits = Tensor::from_slice(&[0.4; 12]).view([1, 4, 1, 3]);
        let fields = case.fields();
        let affinity = value(&affinity_loss(&config(), &logits, &fields));
        let expected = 0.05 + 2.0 * 0.09 + 0.1 * 0.01 + 0.1 * (0.09 - 0.01) + 0.01 * affinity;
        assert!((value(&graph_loss(&config(), &logits, &fields)) - expected).abs() < 1e-12);
    }
}
