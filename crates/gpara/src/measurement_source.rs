//! Where measurements come from in a closed loop: an instrument, or a known field in simulation.

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::observations::Observation;
use crate::seed::SeedTree;

/// Something that can measure cells of the field.
pub trait MeasurementSource {
    /// Measures each node once, in the order given.
    ///
    /// # Errors
    /// Whatever keeps the instrument from answering; a simulated one refuses nodes it has no value for.
    fn measure(&mut self, nodes: &[usize]) -> Result<Vec<Observation>>;
}

/// Measures a known field with Gaussian noise.
///
/// The noise of a node comes from the stream `noise/{node}`, so it does not depend on the order or the batch in which
/// nodes are measured; measuring a node again gives the same value.
#[derive(Debug, Clone)]
pub struct FieldSource {
    field: Vec<f64>,
    noise_std: f64,
    seeds: SeedTree,
}

impl FieldSource {
    /// A source that returns `field[node]` plus noise of standard deviation `noise_std` (the field's units).
    ///
    /// Cells that are never measured may be NaN.
    ///
    /// # Errors
    /// `InvalidInput` unless `noise_std` is finite and >= 0.
    pub fn new(field: Vec<f64>, noise_std: f64, seeds: SeedTree) -> Result<Self> {
        if !(noise_std.is_finite() && noise_std >= 0.0) {
            return Err(SourceError::Noise { noise_std }.into());
        }
        Ok(Self { field, noise_std, seeds })
    }
}

impl MeasurementSource for FieldSource {
    fn measure(&mut self, nodes: &[usize]) -> Result<Vec<Observation>> {
        nodes
            .iter()
            .map(|&node| {
                let num_nodes = self.field.len();
                let &truth = self.field.get(node).ok_or(SourceError::Outside { node, num_nodes })?;
                if !truth.is_finite() {
                    return Err(SourceError::NonFinite { node, truth }.into());
                }
                let noise = self.noise_std * self.seeds.stream(&format!("noise/{node}")).normal();
                Ok(Observation { node, value: truth + noise, noise_std: self.noise_std })
            })
            .collect()
    }
}

#[derive(Debug, ThisError)]
enum SourceError {
    #[error("noise standard deviation {noise_std} of the simulated instrument must be a finite number >= 0")]
    Noise { noise_std: f64 },
    #[error("node {node} is outside the simulated field of {num_nodes} cells")]
    Outside { node: usize, num_nodes: usize },
    #[error("the simulated field is {truth} at node {node}, it cannot be measured there")]
    NonFinite { node: usize, truth: f64 },
}

impl ErrorDetail for SourceError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Noise { .. } | Self::Outside { .. } => ErrorKind::InvalidInput,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_of_a_node_is_the_same_in_any_order_and_batch() {
        let mut source = FieldSource::new(vec![0.5; 9], 0.1, SeedTree::new(3)).unwrap();
        let together = source.measure(&[7, 2, 4]).unwrap();
        let alone = source.measure(&[2]).unwrap();
        assert_eq!(together[1], alone[0]);
        assert_ne!(together[0].value.to_bits(), together[1].value.to_bits());
    }

    #[test]
    fn noise_has_the_declared_standard_deviation() {
        let count = 4000;
        let mut source = FieldSource::new(vec![0.0; count], 0.1, SeedTree::new(3)).unwrap();
        let nodes: Vec<usize> = (0..count).collect();
        let values = source.measure(&nodes).unwrap();
        let variance = values.iter().map(|entry| entry.value.powi(2)).sum::<f64>() / count as f64;
        // Five standard errors of a variance estimate.
        assert!((variance - 0.01).abs() < 5.0 * 0.01 * (2.0 / count as f64).sqrt());
    }

    #[test]
    fn unknown_or_undefined_cells_are_refused() {
        let mut source = FieldSource::new(vec![0.0, f64::NAN], 0.1, SeedTree::new(3)).unwrap();
        assert_eq!(source.measure(&[2]).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(source.measure(&[1]).unwrap_err().kind(), ErrorKind::NonFinite);
        assert!(FieldSource::new(vec![0.0], -0.1, SeedTree::new(3)).is_err());
    }
}
