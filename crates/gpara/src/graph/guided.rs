//! A graph that follows the edges of a picture of the scene: no training.

use thiserror::Error as ThisError;

use super::{Conductances, GraphDescriptor, GraphPredictor, edge_length};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::{Grid, ValidMask};

/// Couples cells that look alike: `c_ij = exp(-|guide_i - guide_j| / scale) / length`.
#[derive(Debug, Clone, PartialEq)]
pub struct Guided {
    guide: Vec<f64>,
    scale: f64,
}

impl Guided {
    /// A graph guided by `guide`, one value a node, e.g. the luminance of a picture in 0..=1; a difference of `scale`
    /// weakens an edge by 1/e.
    ///
    /// # Errors
    /// `InvalidInput` unless `scale` is finite and above 0; `NonFinite` if the guide is not finite.
    pub fn new(guide: Vec<f64>, scale: f64) -> Result<Self> {
        if !(scale.is_finite() && scale > 0.0) {
            return Err(GuidedError::Scale { scale }.into());
        }
        match guide.iter().position(|value| !value.is_finite()) {
            Some(node) => Err(GuidedError::NonFinite { node }.into()),
            None => Ok(Self { guide, scale }),
        }
    }

    /// The guide, a value for each cell of `grid`.
    ///
    /// # Errors
    /// `ShapeMismatch` if it has another number of values.
    pub(crate) fn guide_over(&self, grid: Grid) -> Result<&[f64]> {
        let (found, num_nodes) = (self.guide.len(), grid.num_nodes());
        if found != num_nodes {
            return Err(GuidedError::Length { found, num_nodes }.into());
        }
        Ok(&self.guide)
    }

    /// The graph over the valid cells.
    ///
    /// # Errors
    /// `ShapeMismatch` unless the guide has a value for each cell of their grid.
    pub fn conductances(&self, valid: &ValidMask) -> Result<Conductances> {
        let guide = self.guide_over(valid.grid())?;
        Conductances::from_edge_function(valid, |direction, node, neighbor| {
            let jump = (guide[node] - guide[neighbor]).abs() / self.scale;
            (-jump).exp() / edge_length(direction)
        })
    }
}

impl GraphPredictor for Guided {
    fn name(&self) -> &str {
        "guided"
    }

    fn predict(&self, descriptor: &GraphDescriptor<'_>) -> Result<Conductances> {
        self.conductances(descriptor.context.valid())
    }
}

#[derive(Debug, ThisError)]
enum GuidedError {
    #[error("guide has {found} values, the grid has {num_nodes} cells")]
    Length { found: usize, num_nodes: usize },
    #[error("guide is not finite at node {node}")]
    NonFinite { node: usize },
    #[error("guide scale {scale} must be finite and > 0")]
    Scale { scale: f64 },
}

impl ErrorDetail for GuidedError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
            Self::Scale { .. } => ErrorKind::InvalidInput,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;

    #[test]
    fn edge_across_a_jump_of_two_scales_is_weakened_by_e_squared() {
        let context = Context::empty(Grid::new(2, 2).unwrap());
        let descriptor =
            GraphDescriptor { context: &context, prior_mean: &[0.0; 4], prior_std: &[0.0; 4], num_measured: 0 };
        let graph = Guided::new(vec![0.5, 0.56, 0.5, 0.5], 0.03).unwrap().predict(&descriptor).unwrap();
        let [right, down, down_right, down_left] = graph.edges();
        let weak = (-2.0f64).exp();
        assert!((right[0] - weak).abs() < 1e-12 && (down[1] - weak).abs() < 1e-12);
        assert!((down_left[1] - weak * 0.5f64.sqrt()).abs() < 1e-12);
        assert_eq!((right[2], down[0]), (1.0, 1.0));
        assert!((down_right[0] - 0.5f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn bad_guides_are_refused_by_kind() {
        let kind = |guide: Vec<f64>, scale| Guided::new(guide, scale).unwrap_err().kind();
        assert_eq!(kind(vec![0.0], 0.0), ErrorKind::InvalidInput);
        assert_eq!(kind(vec![0.0, f64::NAN], 1.0), ErrorKind::NonFinite);
        let context = Context::empty(Grid::new(2, 2).unwrap());
        let descriptor =
            GraphDescriptor { context: &context, prior_mean: &[0.0; 4], prior_std: &[0.0; 4], num_measured: 0 };
        let error = Guided::new(vec![0.0; 3], 1.0).unwrap().predict(&descriptor).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
    }
}
