//! The cell whose own variance under the graph a measurement would reduce most: the first factor of Eq. 15 alone.

use gpara::{AcquisitionInput, ErrorDetail, ErrorKind, Policy, Posterior, Result, SelectedPoint, Selection};
use thiserror::Error as ThisError;

/// Greedy by l_i = d_i^2 / (noise^2 + d_i), d_i the graph's posterior variance; inside a batch the variances are
/// conditioned exactly on each point before the next (B.13, B.15).
///
/// What a measurement does to other cells does not count: the ablation of the response reach.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalReducibility;

impl Policy for LocalReducibility {
    fn name(&self) -> &str {
        "local-reducibility"
    }

    fn needs_ensemble(&self) -> bool {
        false
    }

    fn select(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        let num_candidates = input.candidates.len();
        if count == 0 || count > num_candidates {
            return Err(LocalError { count, num_candidates }.into());
        }
        let posterior = Posterior::new(input.precision, input.observations)?;
        let mut variance = posterior.variances()?;
        let noise_variance = input.noise_std * input.noise_std;
        let score = |variance: f64| variance * variance / (noise_variance + variance).max(f64::MIN_POSITIVE);
        let mut points: Vec<SelectedPoint> = Vec::with_capacity(count);
        let mut columns: Vec<Vec<f64>> = Vec::with_capacity(count);
        while points.len() < count {
            let open = input.candidates.iter().filter(|&&node| points.iter().all(|point| point.node != node));
            // Only a strictly larger variance replaces: the lowest node wins a tie.
            let best = open.copied().reduce(|best, node| if variance[node] > variance[best] { node } else { best });
            let node = best.expect("fewer are chosen than there are candidates");
            points.push(SelectedPoint { node, score: score(variance[node]), expected_risk_drop: None });
            if points.len() == count {
                break;
            }
            let mut column = posterior.covariance_column(node)?;
            for earlier in &columns {
                // Columns are scaled so that their products are what each measurement removed.
                let shared = earlier[node];
                column.iter_mut().zip(earlier).for_each(|(value, other)| *value -= shared * other);
            }
            let scale = (noise_variance + column[node]).sqrt();
            column.iter_mut().for_each(|value| *value /= scale);
            variance.iter_mut().zip(&column).for_each(|(variance, value)| *variance -= value * value);
            columns.push(column);
        }
        Ok(Selection { points, risk: None })
    }
}

#[derive(Debug, ThisError)]
#[error("{count} points cannot be chosen from {num_candidates} candidates")]
struct LocalError {
    count: usize,
    num_candidates: usize,
}

impl ErrorDetail for LocalError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

#[cfg(test)]
mod tests {
    use gpara::{
        Context, GraphDescriptor, GraphPredictor, Grid, Observation, Observations, ResidualPrecision, SeedTree,
        UniformGraph,
    };

    use super::*;

    #[test]
    fn batch_is_what_one_point_at_a_time_chooses() {
        let grid = Grid::new(9, 11).unwrap();
        let context = Context::empty(grid);
        let flat = vec![0.0; 99];
        let descriptor = GraphDescriptor { context: &context, prior_mean: &flat, prior_std: &flat, num_measured: 0 };
        let precision = ResidualPrecision::new(UniformGraph.predict(&descriptor).unwrap(), 0.05, 1.0).unwrap();
        let mut observations = Observations::none(grid);
        let measure = |node| Observation { node, value: 0.0, noise_std: 0.1 };
        observations.add(context.valid(), &[measure(40)]).unwrap();
        let choose = |observations: &Observations, count| -> Vec<usize> {
            let candidates: Vec<usize> = (0..99).filter(|&node| !observations.contains(node)).collect();
            let input = AcquisitionInput {
                context: &context,
                candidates: &candidates,
                observations,
                pending: &[],
                ensemble: None,
                precision: &precision,
                noise_std: 0.1,
                round: 0,
                budget: 20,
                seeds: SeedTree::new(1),
            };
            LocalReducibility.select(&input, count).unwrap().points.iter().map(|point| point.node).collect()
        };
        let batch = choose(&observations, 5);
        let mut one_by_one = Vec::new();
        for _ in 0..5 {
            let node = choose(&observations, 1)[0];
            one_by_one.push(node);
            observations.add(context.valid(), &[measure(node)]).unwrap();
        }
        assert_eq!(batch, one_by_one);
        // The corner farthest from the measurement has the largest variance.
        assert_eq!(batch[0], 88);
    }
}
