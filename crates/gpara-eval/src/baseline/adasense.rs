//! AdaSense: measure where posterior samples differ, with samples drawn anew in every round.

use gpara::{
    AcquisitionInput, Policy, PriorEnsemble, ReconstructionInput, Reconstructor, Result, SelectedPoint, Selection,
};
use serde::{Deserialize, Serialize};

use super::error::BaselineError;
use super::ranking::{best, check_count};

/// How a cell is scored from the centred samples X, `[samples, num_nodes]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpreadScore {
    /// The variance of the samples there.
    Variance,
    /// (S S)_ii / S_ii with S = X'X / samples: the drop of the summed variance by an exact measurement there.
    #[default]
    Lmmse,
}

/// How the points of a round are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchChoice {
    /// The best at once.
    #[default]
    TopK,
    /// One after the other, the samples conditioned on those before.
    Deflate,
}

/// The settings of [`AdaSense`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdaSenseSettings {
    /// How a cell is scored.
    pub score: SpreadScore,
    /// How the points of a round are chosen.
    pub batch: BatchChoice,
}

/// Adaptive sensing over any reconstructor that makes samples; round k draws them from the subtree `adasense/{k}`.
pub struct AdaSense {
    backend: Box<dyn Reconstructor>,
    settings: AdaSenseSettings,
    name: String,
}

impl AdaSense {
    /// The policy over a backend.
    pub fn new(backend: Box<dyn Reconstructor>, settings: AdaSenseSettings) -> Self {
        let name = format!("adasense-{}", backend.name());
        Self { backend, settings, name }
    }
}

impl Policy for AdaSense {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs_ensemble(&self) -> bool {
        false
    }

    fn select(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        check_count(input, count)?;
        let AcquisitionInput { context, observations, precision, ensemble, .. } = *input;
        let seeds = input.seeds.subtree(&format!("adasense/{}", input.round));
        let of_round = ReconstructionInput { context, observations, precision, ensemble, seeds };
        let samples = self.backend.reconstruct(&of_round)?.samples;
        let found = samples.as_ref().map_or(0, PriorEnsemble::ensemble_size);
        let Some(samples) = samples.filter(|_| found >= 2) else {
            return Err(BaselineError::Samples { backend: self.backend.name().to_owned(), found }.into());
        };
        let spread = Spread::new(&samples, context.valid().as_slice());
        let points = match self.settings.batch {
            BatchChoice::TopK => {
                let scores = spread.scores(input.candidates, self.settings.score);
                best(input.candidates, &scores, count)
            }
            BatchChoice::Deflate => deflated(&spread, input.candidates, self.settings.score, count),
        };
        Ok(Selection { points, risk: None })
    }
}

/// Centred samples over the valid cells, node by node.
#[derive(Debug, Clone)]
struct Spread {
    num_samples: usize,
    /// `[num_nodes, samples]`, 0 at invalid cells.
    columns: Vec<f64>,
}

impl Spread {
    fn new(samples: &PriorEnsemble, valid: &[bool]) -> Self {
        let (num_samples, mean) = (samples.ensemble_size(), samples.mean());
        let mut columns = vec![0.0; num_samples * samples.num_nodes()];
        for (index, sample) in samples.iter().enumerate() {
            for node in (0..sample.len()).filter(|&node| valid[node]) {
                columns[node * num_samples + index] = sample[node] - mean[node];
            }
        }
        Self { num_samples, columns }
    }

    /// x_i, the deviations of the samples at a node.
    fn column(&self, node: usize) -> &[f64] {
        &self.columns[node * self.num_samples..][..self.num_samples]
    }

    /// G = X X', `[samples, samples]`.
    fn gram(&self) -> Vec<f64> {
        let size = self.num_samples;
        let mut gram = vec![0.0; size * size];
        for column in self.columns.chunks_exact(size) {
            for (row, value) in gram.chunks_exact_mut(size).zip(column) {
                row.iter_mut().zip(column).for_each(|(entry, other)| *entry += value * other);
            }
        }
        gram
    }

    /// One score a candidate, 0 where the samples agree.
    fn scores(&self, candidates: &[usize], score: SpreadScore) -> Vec<f64> {
        let size = self.num_samples;
        let gram = self.gram();
        let of = |&node: &usize| {
            let column = self.column(node);
            let square = dot(column, column);
            match score {
                SpreadScore::Variance => square / size as f64,
                SpreadScore::Lmmse if square == 0.0 => 0.0,
                SpreadScore::Lmmse => {
                    let weighted = gram.chunks_exact(size).zip(column).map(|(row, value)| value * dot(row, column));
                    weighted.sum::<f64>() / (size as f64 * square)
                }
            }
        };
        candidates.iter().map(of).collect()
    }

    /// The samples conditioned on an exact measurement of a node: what lies along x_node is taken out of every column.
    fn condition(&mut self, node: usize) {
        let along = self.column(node).to_vec();
        let square = dot(&along, &along);
        if square == 0.0 {
            return;
        }
        for column in self.columns.chunks_exact_mut(self.num_samples) {
            let scale = dot(column, &along) / square;
            column.iter_mut().zip(&along).for_each(|(value, along)| *value -= scale * along);
        }
    }

    /// Sum of squares of everything.
    fn total(&self) -> f64 {
        dot(&self.columns, &self.columns)
    }
}

/// Below this share of the spread at the start, what deflation leaves is rounding.
const SPENT: f64 = 1e-12;

/// Points one after the other. After samples - 1 of them nothing is left of the spread; then it starts again from the
/// samples as they were, so that the remaining points are the next best and not the lowest nodes.
fn deflated(whole: &Spread, candidates: &[usize], score: SpreadScore, count: usize) -> Vec<SelectedPoint> {
    let (mut spread, mut left) = (whole.clone(), candidates.to_vec());
    let mut points = Vec::with_capacity(count);
    for _ in 0..count {
        if spread.total() <= SPENT * whole.total() {
            spread = whole.clone();
        }
        let point = best(&left, &spread.scores(&left, score), 1)[0];
        left.retain(|&node| node != point.node);
        spread.condition(point.node);
        points.push(point);
    }
    points
}

fn dot(first: &[f64], second: &[f64]) -> f64 {
    first.iter().zip(second).map(|(first, second)| first * second).sum()
}

#[cfg(test)]
mod tests {
    use gpara::SeedTree;

    use super::*;

    fn spread(num_samples: usize, num_nodes: usize) -> (Spread, Vec<f64>) {
        let mut values = vec![0.0; num_samples * num_nodes];
        SeedTree::new(2).stream("samples").fill_normal(&mut values);
        let samples = PriorEnsemble::new(values, num_nodes).unwrap();
        let spread = Spread::new(&samples, &vec![true; num_nodes]);
        // The dense S = X'X / samples, column by column.
        let covariance = (0..num_nodes * num_nodes)
            .map(|at| dot(spread.column(at / num_nodes), spread.column(at % num_nodes)) / num_samples as f64)
            .collect();
        (spread, covariance)
    }

    #[test]
    fn theory_scores_are_the_dense_variance_and_lmmse() {
        let num_nodes = 9;
        let (spread, covariance) = spread(4, num_nodes);
        let candidates: Vec<usize> = (0..num_nodes).collect();
        let (variance, lmmse) =
            (spread.scores(&candidates, SpreadScore::Variance), spread.scores(&candidates, SpreadScore::Lmmse));
        for node in candidates {
            let row = &covariance[node * num_nodes..][..num_nodes];
            assert!((variance[node] - row[node]).abs() < 1e-14);
            assert!((lmmse[node] - dot(row, row) / row[node]).abs() < 1e-13);
        }
    }

    #[test]
    fn cell_on_which_all_samples_agree_scores_zero() {
        let samples = PriorEnsemble::new(vec![0.3, 1.0, 0.3, -1.0], 2).unwrap();
        let spread = Spread::new(&samples, &[true, true]);
        assert_eq!(spread.scores(&[0, 1], SpreadScore::Lmmse), [0.0, 2.0 / 2.0]);
    }

    #[test]
    fn theory_deflation_is_the_covariance_after_an_exact_measurement() {
        let num_nodes = 6;
        let (mut spread, covariance) = spread(4, num_nodes);
        spread.condition(2);
        for i in 0..num_nodes {
            for j in 0..num_nodes {
                let at = |row: usize, col: usize| covariance[row * num_nodes + col];
                let expected = at(i, j) - at(i, 2) * at(2, j) / at(2, 2);
                let found = dot(spread.column(i), spread.column(j)) / 4.0;
                assert!((found - expected).abs() < 1e-14, "{i} {j}");
            }
        }
    }

    #[test]
    fn four_samples_are_spent_by_three_points_and_top_k_repeats_itself() {
        // Cells 0 and 1 are copies: the best score twice, but the second tells nothing new.
        let rows = [[3.0, 3.0, 0.0, 1.0], [-3.0, -3.0, 0.5, 1.0], [0.0, 0.0, 2.0, -1.0], [0.0, 0.0, -2.5, -1.0]];
        let samples = PriorEnsemble::new(rows.concat(), 4).unwrap();
        let whole = Spread::new(&samples, &[true; 4]);
        let nodes = |points: Vec<SelectedPoint>| points.iter().map(|point| point.node).collect::<Vec<_>>();
        let candidates = [0, 1, 2, 3];
        let top = best(&candidates, &whole.scores(&candidates, SpreadScore::Variance), 2);
        assert_eq!(nodes(top), [0, 1]);
        assert_eq!(nodes(deflated(&whole, &candidates, SpreadScore::Variance, 2)), [0, 2]);

        let mut spread = whole.clone();
        [0, 2, 3].into_iter().for_each(|node| spread.condition(node));
        assert!(spread.total() < SPENT * whole.total(), "rank 3 is spent");
        // The fourth point is the best of the samples as they were.
        assert_eq!(nodes(deflated(&whole, &candidates, SpreadScore::Variance, 4)), [0, 2, 3, 1]);
    }
}
