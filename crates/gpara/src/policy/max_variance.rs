//! The cell at which the conditioned ensemble disagrees most.

use super::{AcquisitionInput, Policy, PolicyError, SelectedPoint, Selection, check_count, with_pending};
use crate::error::Result;
use crate::posterior::{Correction, Posterior};
use crate::risk::EnsembleMoments;

/// Conditions the ensemble on the measurements (Eq. 13) and takes the candidate of largest variance; inside a batch the
/// samples are conditioned on each chosen point before the next is chosen. The score is that variance.
///
/// The change of the spread by a chosen point is the exact rank-one response (B.13, B.15) and does not depend on the
/// value that will be measured.
#[derive(Debug, Clone)]
pub struct MaxVariance {
    correction: Correction,
}

impl MaxVariance {
    /// The policy that conditions its ensemble by `correction`.
    pub fn new(correction: Correction) -> Self {
        Self { correction }
    }
}

impl Policy for MaxVariance {
    fn name(&self) -> &str {
        "max-variance"
    }

    fn needs_ensemble(&self) -> bool {
        true
    }

    fn select(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        check_count(input, count)?;
        let ensemble = input.ensemble.ok_or(PolicyError::NoEnsemble { policy: "max-variance" })?;
        let grid = input.context.grid();
        let mut posterior = Posterior::new(input.precision, input.observations)?;
        let (mut samples, _) = self.correction.refine(&posterior, ensemble.as_slice())?;
        if !input.pending.is_empty() {
            let mean = EnsembleMoments::of(&samples, grid)?.mean;
            posterior = Posterior::new(input.precision, &with_pending(input, |node| mean[node])?)?;
            samples = self.correction.refine(&posterior, ensemble.as_slice())?.0;
        }
        let noise_variance = input.noise_std * input.noise_std;
        let mut chosen: Vec<SelectedPoint> = Vec::with_capacity(count);
        let mut responses: Vec<Response> = Vec::with_capacity(count);
        for _ in 0..count {
            let moments = EnsembleMoments::of(&samples, grid)?;
            let open = input.candidates.iter().filter(|&&node| chosen.iter().all(|point| point.node != node));
            let node = open.copied().reduce(|best, node| {
                // Only a strictly larger variance replaces: the lowest node wins a tie.
                if moments.variance[node] > moments.variance[best] { node } else { best }
            });
            let node = node.expect("fewer are chosen than there are candidates");
            chosen.push(SelectedPoint { node, score: moments.variance[node], expected_risk_drop: None });
            if chosen.len() < count {
                let response = Response::new(&posterior, &responses, node, noise_variance)?;
                samples.chunks_exact_mut(grid.num_nodes()).for_each(|sample| {
                    let innovation = moments.mean[node] - sample[node];
                    let scale = innovation / response.predictive_variance;
                    sample.iter_mut().zip(&response.covariance).for_each(|(value, column)| *value += scale * column);
                });
                responses.push(response);
            }
        }
        Ok(Selection { points: chosen, risk: None })
    }
}

/// How a measurement of one node moves all nodes, given the ones before it in the batch.
struct Response {
    /// Sigma e_node.
    covariance: Vec<f64>,
    /// noise variance + Sigma_node,node.
    predictive_variance: f64,
}

impl Response {
    /// The covariance column after the measurements of `earlier` (B.15).
    fn new(posterior: &Posterior, earlier: &[Self], node: usize, noise_variance: f64) -> Result<Self> {
        let mut covariance = posterior.covariance_column(node)?;
        for response in earlier {
            let scale = response.covariance[node] / response.predictive_variance;
            covariance.iter_mut().zip(&response.covariance).for_each(|(value, column)| *value -= scale * column);
        }
        let predictive_variance = noise_variance + covariance[node];
        Ok(Self { covariance, predictive_variance })
    }
}
