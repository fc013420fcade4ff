//! The seam to the graph network: a fixed description of the scene in, conductances out (G_phi, Eq. 7).

use thiserror::Error as ThisError;

use super::{Conductances, edge_length};
use crate::context::Context;
use crate::error::{ErrorDetail, ErrorKind, Result};

/// The graph-conditioning descriptor c_g: the scene and the first two moments of its prior ensemble, or of what is believed
/// after some measurements.
#[derive(Debug, Clone, Copy)]
pub struct GraphDescriptor<'a> {
    /// The scene.
    pub context: &'a Context,
    /// Mean of the prior ensemble, `num_nodes` values.
    pub prior_mean: &'a [f64],
    /// Standard deviation of the prior ensemble, `num_nodes` values.
    pub prior_std: &'a [f64],
    /// Number of measurements those moments are conditioned on; 0 for the prior ensemble.
    pub num_measured: usize,
}

impl GraphDescriptor<'_> {
    fn check(&self) -> Result<()> {
        let num_nodes = self.context.grid().num_nodes();
        for (name, map) in [("prior_mean", self.prior_mean), ("prior_std", self.prior_std)] {
            if map.len() != num_nodes {
                return Err(PredictorError::Length { name, found: map.len(), num_nodes }.into());
            }
            // An infinite difference would silently cut an edge, so it is refused here rather than at the conductance.
            if let Some(node) = self.context.valid().nodes().find(|&node| !map[node].is_finite()) {
                return Err(PredictorError::NonFinite { name, node }.into());
            }
        }
        Ok(())
    }
}

/// Something that couples the cells of a scene: a network, or a fixed rule.
pub trait GraphPredictor: Send + Sync {
    /// A name for reports.
    fn name(&self) -> &str;

    /// The conductances of one scene; no edge touches an invalid cell.
    ///
    /// # Errors
    /// `ShapeMismatch` or `NonFinite` if the descriptor does not fit its grid or holds a NaN.
    fn predict(&self, descriptor: &GraphDescriptor<'_>) -> Result<Conductances>;
}

/// Every allowed edge has logit 0, so c = 1 / length: an untrained network's graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UniformGraph;

impl GraphPredictor for UniformGraph {
    fn name(&self) -> &str {
        "uniform"
    }

    fn predict(&self, descriptor: &GraphDescriptor<'_>) -> Result<Conductances> {
        let valid = descriptor.context.valid();
        Conductances::from_edge_function(valid, |direction, _, _| 1.0 / edge_length(direction))
    }
}

/// Couples cells that the prior holds alike: no training, edges weaken across jumps of the prior's mean or spread.
///
/// `c_ij = strength / length * exp(-|mean_i - mean_j| / mean_scale - |std_i - std_j| / std_scale)`, the form of the
/// paper's affinity target (C.7) with the prior's moments in place of the unknown residual and field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EdgeAware {
    /// Conductance of an edge of length 1 between cells with equal moments, in [0, 2] as in C.2.
    pub strength: f64,
    /// Difference of prior means, in field units, that weakens an edge by 1/e.
    pub mean_scale: f64,
    /// Difference of prior standard deviations, in field units, that weakens an edge by 1/e.
    pub std_scale: f64,
}

impl Default for EdgeAware {
    /// Strength 1 as in [`UniformGraph`]; scales of a few per cent of the field's range [-1, 1].
    fn default() -> Self {
        Self { strength: 1.0, mean_scale: 0.2, std_scale: 0.1 }
    }
}

impl GraphPredictor for EdgeAware {
    fn name(&self) -> &str {
        "edge-aware"
    }

    fn predict(&self, descriptor: &GraphDescriptor<'_>) -> Result<Conductances> {
        descriptor.check()?;
        let Self { strength, mean_scale, std_scale } = *self;
        if !(strength.is_finite() && strength >= 0.0 && mean_scale > 0.0 && std_scale > 0.0) {
            return Err(PredictorError::Settings { strength, mean_scale, std_scale }.into());
        }
        let GraphDescriptor { context, prior_mean, prior_std, .. } = *descriptor;
        Conductances::from_edge_function(context.valid(), |direction, node, neighbor| {
            let mean_jump = (prior_mean[node] - prior_mean[neighbor]).abs() / mean_scale;
            let std_jump = (prior_std[node] - prior_std[neighbor]).abs() / std_scale;
            strength / edge_length(direction) * (-mean_jump - std_jump).exp()
        })
    }
}

#[derive(Debug, ThisError)]
enum PredictorError {
    #[error("{name} has {found} values, the grid has {num_nodes} cells")]
    Length { name: &'static str, found: usize, num_nodes: usize },
    #[error("{name} is not finite at node {node}")]
    NonFinite { name: &'static str, node: usize },
    #[error(
        "edge-aware graph with strength {strength}, mean scale {mean_scale}, std scale {std_scale}: strength must be \
         finite and >= 0, both scales > 0"
    )]
    Settings { strength: f64, mean_scale: f64, std_scale: f64 },
}

impl ErrorDetail for PredictorError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
            Self::Settings { .. } => ErrorKind::InvalidInput,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::{Grid, ValidMask};

    fn context() -> Context {
        let grid = Grid::new(3, 3).unwrap();
        Context::new(ValidMask::new(grid, (0..9).map(|node| node != 8).collect()).unwrap(), vec![]).unwrap()
    }

    #[test]
    fn parity_uniform_graph_matches_zero_logits() {
        let context = context();
        let descriptor =
            GraphDescriptor { context: &context, prior_mean: &[0.0; 9], prior_std: &[0.0; 9], num_measured: 0 };
        let expected = Conductances::from_logits(&[0.0; 36], context.valid()).unwrap();
        assert_eq!(UniformGraph.predict(&descriptor).unwrap(), expected);
        // A flat prior has no jump, so the edge-aware rule falls back to the same graph.
        assert_eq!(EdgeAware::default().predict(&descriptor).unwrap(), expected);
    }

    #[test]
    fn edge_aware_weakens_edges_across_a_jump_by_the_stated_factor() {
        let context = context();
        let mut mean = [0.0; 9];
        mean[0] = 0.4;
        let descriptor =
            GraphDescriptor { context: &context, prior_mean: &mean, prior_std: &[0.1; 9], num_measured: 0 };
        let graph = EdgeAware::default().predict(&descriptor).unwrap();
        assert!((graph.edges()[0][0] - (-2.0f64).exp()).abs() < 1e-15);
        assert_eq!(graph.edges()[0][1], 1.0);
        assert_eq!((graph.edges()[0][7], graph.edges()[2][4]), (0.0, 0.0));
    }

    #[test]
    fn edge_aware_refuses_bad_descriptor_and_settings() {
        let context = context();
        let nan = [f64::NAN; 9];
        let bad = GraphDescriptor { context: &context, prior_mean: &nan, prior_std: &[0.0; 9], num_measured: 0 };
        assert_eq!(EdgeAware::default().predict(&bad).unwrap_err().kind(), ErrorKind::NonFinite);
        let short = GraphDescriptor { prior_mean: &[0.0; 8], ..bad };
        assert_eq!(EdgeAware::default().predict(&short).unwrap_err().kind(), ErrorKind::ShapeMismatch);
        let good = GraphDescriptor { prior_mean: &[0.0; 9], ..bad };
        let settings = EdgeAware { mean_scale: 0.0, ..EdgeAware::default() };
        assert_eq!(settings.predict(&good).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
