//! The entropy that ADS maximises, and what it amounts to.

use serde::{Deserialize, Serialize};

/// How a cell is scored from the particles' clean estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdsScore {
    /// The variance of the particles, which ranks as the entropy does for a wide kernel.
    #[default]
    Variance,
    /// H_i = sum_a log sum_b exp(+(x_a - x_b)^2 / (2 s^2)), less its constant L log L, without cancellation.
    Entropy,
}

impl AdsScore {
    /// One score a candidate.
    ///
    /// # Shapes
    /// * `clean` - `[particles, num_nodes]`
    pub(crate) fn of(self, clean: &[f64], num_nodes: usize, candidates: &[usize], width: f64) -> Vec<f64> {
        let score = |&node: &usize| {
            let values: Vec<f64> = clean.chunks_exact(num_nodes).map(|particle| particle[node]).collect();
            match self {
                Self::Variance => variance(&values),
                Self::Entropy => excess_entropy(&values, width),
            }
        };
        candidates.iter().map(score).collect()
    }
}

fn variance(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count
}

/// H - L log L = sum_a log(1 + sum_b (exp(d_ab^2 / (2 s^2)) - 1) / L).
///
/// The exponents are far below 1, so that H itself differs from cell to cell in its last digits only.
fn excess_entropy(values: &[f64], width: f64) -> f64 {
    let (count, scale) = (values.len() as f64, 0.5 / (width * width));
    let of_particle = |first: &f64| {
        let excess: f64 = values.iter().map(|second| ((first - second).powi(2) * scale).exp_m1()).sum();
        (excess / count).ln_1p()
    };
    values.iter().map(of_particle).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use gpara::SeedTree;

    use super::*;

    const PARTICLES: usize = 4;
    const CELLS: usize = 2000;

    fn particles() -> Vec<f64> {
        let mut stream = SeedTree::new(6).stream("particles");
        (0..PARTICLES * CELLS).map(|_| 2.0 * stream.uniform() - 1.0).collect()
    }

    /// H as it is written, in 32 bits.
    fn plain_entropy(clean: &[f64], node: usize) -> f32 {
        let value = |particle: usize| clean[particle * CELLS + node] as f32;
        let inner = |a: usize| (0..PARTICLES).map(|b| ((value(a) - value(b)).powi(2) / 200.0).exp()).sum::<f32>().ln();
        (0..PARTICLES).map(inner).sum()
    }

    /// Rank of every entry.
    fn ranks(scores: &[f64]) -> Vec<f64> {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        let mut ranks = vec![0.0; scores.len()];
        order.into_iter().enumerate().for_each(|(rank, index)| ranks[index] = rank as f64);
        ranks
    }

    #[test]
    fn entropy_ties_in_32_bits_and_not_here_and_ranks_as_the_variance() {
        let (clean, nodes) = (particles(), (0..CELLS).collect::<Vec<_>>());
        let plain: HashSet<u32> = nodes.iter().map(|&node| plain_entropy(&clean, node).to_bits()).collect();
        assert!(plain.len() < CELLS - 20, "{} of {CELLS} scores differ in 32 bits", plain.len());
        let entropy = AdsScore::Entropy.of(&clean, CELLS, &nodes, 10.0);
        let distinct: HashSet<u64> = entropy.iter().map(|score| score.to_bits()).collect();
        assert_eq!(distinct.len(), CELLS);

        // Spearman's rank correlation.
        let (first, second) = (ranks(&entropy), ranks(&AdsScore::Variance.of(&clean, CELLS, &nodes, 10.0)));
        let squares: f64 = first.iter().zip(&second).map(|(a, b)| (a - b).powi(2)).sum();
        let count = CELLS as f64;
        let correlation = 1.0 - 6.0 * squares / (count * (count * count - 1.0));
        assert!(correlation > 0.999_999, "{correlation}");
    }

    #[test]
    fn theory_entropy_is_its_definition_less_the_constant() {
        let values = [0.3, -0.8, 1.4, 0.0];
        let plain = |a: &f64| values.iter().map(|b| ((a - b).powi(2) / (2.0 * 0.5 * 0.5)).exp()).sum::<f64>().ln();
        let expected = values.iter().map(plain).sum::<f64>() - 4.0 * 4f64.ln();
        assert!((excess_entropy(&values, 0.5) - expected).abs() < 1e-13);
        // The leading term: sum of squared differences over 2 s^2 L, i.e. L variance / s^2.
        let wide = excess_entropy(&values, 1e3);
        assert!((wide / (4.0 * variance(&values) / 1e6) - 1.0).abs() < 1e-5);
    }
}
