//! Exact draws of the field under the graph's own model, before or after measurements, with or without drift.

use rayon::prelude::*;

use crate::error::Result;
use crate::graph::EDGE_OFFSETS;
use crate::observations::Observation;
use crate::posterior::Posterior;
use crate::precision::PrecisionOrder;
use crate::prior::PriorEnsemble;
use crate::seed::{SeedTree, Stream};
use crate::solve::MeanSolver;

/// One exact draw of N(0, Sigma_S), the coefficients of a drift included; add the posterior mean to get a sample of the
/// field.
///
/// # Shapes
/// * returns `num_nodes` values
///
/// # Errors
/// `NotPositiveDefinite` if the factorisation breaks down.
pub fn sample_residual(posterior: &Posterior, stream: &mut Stream) -> Result<Vec<f64>> {
    let mut normals = vec![0.0; num_sample_normals(posterior)];
    stream.fill_normal(&mut normals);
    sample_map(posterior, &normals)
}

/// `count` exact draws of the field: prediction, drift and residual given the measurements, or the prior field where there
/// are none. Draw k takes its numbers from the stream `sample/{k}`, whatever the number of draws or threads.
///
/// # Shapes
/// * `prediction` - `num_nodes` values, the mean of the field before drift and residual
///
/// # Errors
/// As [`Posterior::mean_correction`]; `ShapeMismatch` if `count` is 0.
///
/// # Example
/// ```
/// use gpara::{Conductances, Grid, Observations, Posterior, ResidualPrecision, SeedTree, ValidMask, sample_fields};
///
/// let valid = ValidMask::all(Grid::new(3, 4)?);
/// let prior = ResidualPrecision::second_order(Conductances::from_logits(&[0.0; 48], &valid)?, 0.0, 1.0, 0.2)?;
/// let posterior = Posterior::new(&prior, &Observations::none(valid.grid()))?;
/// let samples = sample_fields(&posterior, &[0.0; 12], 5, SeedTree::new(1))?;
/// assert_eq!(samples.as_slice().len(), 5 * 12);
/// # Ok::<(), gpara::Error>(())
/// ```
pub fn sample_fields(
    posterior: &Posterior,
    prediction: &[f64],
    count: usize,
    seeds: SeedTree,
) -> Result<PriorEnsemble> {
    let (correction, _) = posterior.mean_correction(prediction, MeanSolver::Exact)?;
    let draw = |sample: usize| {
        let mut draw = sample_residual(posterior, &mut seeds.stream(&format!("sample/{sample}")))?;
        let means = prediction.iter().zip(&correction);
        draw.iter_mut().zip(means).for_each(|(value, (mean, correction))| *value += mean + correction);
        Ok(draw)
    };
    let draws: Vec<Vec<f64>> = (0..count).into_par_iter().map(draw).collect::<Result<_>>()?;
    PriorEnsemble::new(draws.concat(), posterior.grid().num_nodes())
}

/// How many independent normals [`sample_map`] takes.
fn num_sample_normals(posterior: &Posterior) -> usize {
    let prior = posterior.precision().prior();
    let num_nodes = prior.grid().num_nodes();
    let of_graph = match prior.order() {
        PrecisionOrder::First => prior.conductances().edges().iter().flatten().filter(|edge| **edge > 0.0).count(),
        PrecisionOrder::Second { .. } => num_nodes,
    };
    let of_noise = posterior.observations().iter().filter(|entry| !entry.is_exact()).count();
    num_nodes + of_graph + of_noise + posterior.drift().map_or(0, |drift| drift.num_columns())
}

/// B normals, the linear map with B B' = Sigma_S (G.13).
///
/// Perturbation: A = tau I + lambda sum_e c_e g_e g_e' + H' R^-1 H (first order, g_e = e_i - e_j) or
/// tau I + lambda K K + H' R^-1 H (second) is the covariance of a sum of independent normals along each node, edge or row
/// of K, and measurement. A^-1 applied to such a sum has covariance A^-1; rows of nodes measured exactly are left out.
fn sample_map(posterior: &Posterior, normals: &[f64]) -> Result<Vec<f64>> {
    let prior = posterior.precision().prior();
    let (grid, coupling) = (prior.grid(), prior.graph_coupling());
    let (of_nodes, mut rest) = normals.split_at(grid.num_nodes());
    let mut take = |count: usize| {
        let (taken, left) = rest.split_at(count);
        rest = left;
        taken
    };
    let node_std = prior.residual_precision().sqrt();
    let mut rhs: Vec<f64> = of_nodes.iter().map(|normal| node_std * normal).collect();
    match prior.order() {
        PrecisionOrder::First => {
            for (offset, map) in EDGE_OFFSETS.into_iter().zip(prior.conductances().edges()) {
                for (node, &conductance) in map.iter().enumerate().filter(|(_, conductance)| **conductance > 0.0) {
                    let neighbor = grid.neighbor(node, offset).expect("an edge ends inside the grid");
                    let value = (coupling * conductance).sqrt() * take(1)[0];
                    rhs[node] += value;
                    rhs[neighbor] -= value;
                }
            }
        }
        PrecisionOrder::Second { .. } => {
            let (operator, of_rows) = (prior.operator(), take(grid.num_nodes()));
            for (node, rhs) in rhs.iter_mut().enumerate() {
                let applied: f64 = operator.row(node).map(|(other, entry)| entry * of_rows[other]).sum();
                *rhs += coupling.sqrt() * applied;
            }
        }
    }
    for entry in posterior.observations().iter().filter(|entry: &&Observation| !entry.is_exact()) {
        rhs[entry.node] += take(1)[0] / entry.noise_std;
    }
    let mut sample = posterior.residual_solve(&rhs)?;
    if let Some(drift) = posterior.drift() {
        drift.add_sample(rest, &mut sample);
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::Drift;
    use crate::graph::Conductances;
    use crate::grid::{Grid, ValidMask};
    use crate::observations::Observations;
    use crate::precision::ResidualPrecision;

    /// B B' of the sample map, column by column, against the covariance columns by solves.
    #[test]
    fn theory_sample_map_times_its_transpose_is_the_covariance() {
        let grid = Grid::new(4, 5).unwrap();
        let valid = ValidMask::new(grid, (0..20).map(|node| node != 7).collect()).unwrap();
        let mut stream = SeedTree::new(4).stream("graph");
        let logits: Vec<f64> = (0..80).map(|_| stream.normal()).collect();
        let graph = Conductances::from_logits(&logits, &valid).unwrap();
        let mut measured = Observations::none(grid);
        let row = |node, noise_std| Observation { node, value: 1.0, noise_std };
        measured.add(&valid, &[row(2, 0.1), row(11, 0.0), row(17, 0.5)]).unwrap();
        let column = (0..20).map(|node| f64::from(node) / 7.0).collect();
        let drift = Drift::flat(grid, vec![vec![1.0; 20], column]).unwrap();
        let first = ResidualPrecision::new(graph.clone(), 0.3, 0.7).unwrap();
        let second = ResidualPrecision::second_order(graph, 0.2, 0.7, 0.6).unwrap();
        for prior in [first, second] {
            for posterior in [
                Posterior::new(&prior, &Observations::none(grid)).unwrap(),
                Posterior::new(&prior, &measured).unwrap(),
                Posterior::with_drift(&prior, &measured, &drift).unwrap(),
            ] {
                let count = num_sample_normals(&posterior);
                let mut square = vec![0.0; 400];
                for at in 0..count {
                    let mut unit = vec![0.0; count];
                    unit[at] = 1.0;
                    let image = sample_map(&posterior, &unit).unwrap();
                    for (row, left) in square.chunks_exact_mut(20).zip(&image) {
                        row.iter_mut().zip(&image).for_each(|(sum, right)| *sum += left * right);
                    }
                }
                for (node, row) in square.chunks_exact(20).enumerate() {
                    for (found, expected) in row.iter().zip(posterior.covariance_column(node).unwrap()) {
                        assert!(
                            (found - expected).abs() < 1e-11,
                            "{:?} node {node}: {found} {expected}",
                            prior.order()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn draw_does_not_depend_on_the_number_of_draws_and_exact_values_are_kept() {
        let valid = ValidMask::all(Grid::new(3, 4).unwrap());
        let graph = Conductances::from_logits(&[0.0; 48], &valid).unwrap();
        let prior = ResidualPrecision::second_order(graph, 0.0, 1.0, 0.5).unwrap();
        let mut measured = Observations::none(valid.grid());
        measured.add(&valid, &[Observation { node: 5, value: 0.75, noise_std: 0.0 }]).unwrap();
        let posterior = Posterior::new(&prior, &measured).unwrap();
        let draw = |count| sample_fields(&posterior, &[0.5; 12], count, SeedTree::new(9)).unwrap();
        let (few, many) = (draw(2), draw(5));
        assert_eq!(few.as_slice(), &many.as_slice()[..24]);
        assert!(many.as_slice().chunks_exact(12).all(|sample| sample[5] == 0.75));
        assert_ne!(many.as_slice()[..12], many.as_slice()[12..24]);
    }
}
