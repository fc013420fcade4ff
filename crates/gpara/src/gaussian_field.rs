//! Draws of the residual N(0, A_S^-1): fields of the graph's own model, before or after measurements.

use crate::error::Result;
use crate::graph::EDGE_OFFSETS;
use crate::posterior::Posterior;
use crate::seed::Stream;

/// One exact draw of N(0, Sigma_S); add the posterior mean to get a sample of the field.
///
/// Perturbation: `A = tau I + lambda sum_e c_e g_e g_e' + H' R^-1 H` with g_e = e_i - e_j is the covariance of a sum of
/// independent normals along each g_e and each node, so `A^-1` applied to such a sum has covariance `A^-1`.
///
/// # Shapes
/// * returns `num_nodes` values
///
/// # Errors
/// `NotPositiveDefinite` if the factorisation breaks down.
pub fn sample_residual(posterior: &Posterior, stream: &mut Stream) -> Result<Vec<f64>> {
    let prior = posterior.precision().prior();
    let (grid, coupling) = (prior.grid(), prior.graph_coupling());
    let node_std = prior.residual_precision().sqrt();
    let mut rhs: Vec<f64> = (0..grid.num_nodes()).map(|_| node_std * stream.normal()).collect();
    for (offset, map) in EDGE_OFFSETS.into_iter().zip(prior.conductances().edges()) {
        for (node, &conductance) in map.iter().enumerate() {
            if conductance > 0.0 {
                let neighbor = grid.neighbor(node, offset).expect("an edge ends inside the grid");
                let value = (coupling * conductance).sqrt() * stream.normal();
                rhs[node] += value;
                rhs[neighbor] -= value;
            }
        }
    }
    for entry in posterior.observations().iter().filter(|entry| !entry.is_exact()) {
        rhs[entry.node] += stream.normal() / entry.noise_std;
    }
    let mut sample = posterior.residual_solve(&rhs)?;
    if let Some(drift) = posterior.drift() {
        let normals: Vec<f64> = (0..drift.num_columns()).map(|_| stream.normal()).collect();
        drift.add_sample(&normals, &mut sample);
    }
    Ok(sample)
}
