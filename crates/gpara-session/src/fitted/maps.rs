//! Maps the user brings as a prior: their mean, and the few patterns in which they differ most.

use gpara::ValidMask;

/// The largest number of patterns that a prior takes from its maps.
pub(super) const MOST_PATTERNS: usize = 6;

/// Sweeps of Jacobi's rotations; each squares the error.
const NUM_SWEEPS: usize = 30;

/// Share of the maps' own spread that is left to the residual at least: maps are never all there is.
const LEAST_LEFT: f64 = 0.15;

/// A family of maps as a mean and patterns with coefficients of variance 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Patterns {
    /// The mean, `num_nodes` values; 0 outside the mask.
    pub(super) mean: Vec<f64>,
    /// The patterns, `num_nodes` values each.
    pub(super) columns: Vec<Vec<f64>>,
    /// Standard deviation of what the patterns leave, over the valid cells.
    pub(super) left_std: f64,
}

/// The mean of maps and the first `count` principal patterns of their differences from it.
pub(super) fn patterns(maps: &[Vec<f64>], valid: &ValidMask, count: usize) -> Patterns {
    let (num_maps, num_nodes) = (maps.len(), valid.grid().num_nodes());
    let mut mean = vec![0.0; num_nodes];
    for node in valid.nodes() {
        mean[node] = maps.iter().map(|map| map[node]).sum::<f64>() / num_maps as f64;
    }
    let scale = ((num_maps.max(2) - 1) as f64).sqrt().recip();
    let difference = |map: usize, node: usize| scale * (maps[map][node] - mean[node]);
    let mut gram = vec![0.0; num_maps * num_maps];
    for first in 0..num_maps {
        for second in 0..=first {
            let sum: f64 = valid.nodes().map(|node| difference(first, node) * difference(second, node)).sum();
            (gram[first * num_maps + second], gram[second * num_maps + first]) = (sum, sum);
        }
    }
    let total: f64 = (0..num_maps).map(|map| gram[map * num_maps + map]).sum();
    let (values, vectors) = symmetric_eigen(gram, num_maps);
    let mut order: Vec<usize> = (0..num_maps).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    // Rounding leaves eigenvalues of about 0, whose patterns are noise.
    let kept: Vec<usize> = order.into_iter().take(count).filter(|&k| values[k] > 1e-10 * total).collect();
    let columns = kept.iter().map(|&k| {
        let mut column = vec![0.0; num_nodes];
        for node in valid.nodes() {
            column[node] = (0..num_maps).map(|map| vectors[map * num_maps + k] * difference(map, node)).sum();
        }
        column
    });
    let columns: Vec<Vec<f64>> = columns.collect();
    let left = (total - kept.iter().map(|&k| values[k]).sum::<f64>()).max(0.0);
    let per_cell = |variance: f64| (variance / valid.num_valid() as f64).sqrt();
    Patterns { mean, columns, left_std: per_cell(left).max(LEAST_LEFT * per_cell(total)) }
}

/// Eigenvalues, and eigenvectors as columns of a row-major matrix, by Jacobi's rotations.
fn symmetric_eigen(mut matrix: Vec<f64>, size: usize) -> (Vec<f64>, Vec<f64>) {
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|k| vectors[k * size + k] = 1.0);
    let norm: f64 = matrix.iter().map(|entry| entry * entry).sum();
    for _ in 0..NUM_SWEEPS {
        let beside: f64 = (0..size * size).filter(|at| at / size != at % size).map(|at| matrix[at] * matrix[at]).sum();
        if beside <= 1e-28 * norm {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                rotate(&mut matrix, &mut vectors, size, p, q);
            }
        }
    }
    ((0..size).map(|k| matrix[k * size + k]).collect(), vectors)
}

/// Makes the entry (p, q) zero.
fn rotate(matrix: &mut [f64], vectors: &mut [f64], size: usize, p: usize, q: usize) {
    let entry = matrix[p * size + q];
    if entry == 0.0 {
        return;
    }
    let theta = (matrix[q * size + q] - matrix[p * size + p]) / (2.0 * entry);
    let tangent = theta.signum() / (theta.abs() + theta.hypot(1.0));
    let cosine = tangent.hypot(1.0).recip();
    let sine = tangent * cosine;
    let turn = |values: &mut [f64], first: usize, second: usize| {
        let (a, b) = (values[first], values[second]);
        (values[first], values[second]) = (cosine * a - sine * b, sine * a + cosine * b);
    };
    for k in 0..size {
        turn(matrix, k * size + p, k * size + q);
    }
    for k in 0..size {
        turn(matrix, p * size + k, q * size + k);
        turn(vectors, k * size + p, k * size + q);
    }
}

#[cfg(test)]
mod tests {
    use gpara::Grid;

    use super::*;

    #[test]
    fn patterns_have_the_covariance_of_the_maps() {
        let valid = ValidMask::new(Grid::new(3, 4).unwrap(), (0..12).map(|node| node != 5).collect()).unwrap();
        let maps: Vec<Vec<f64>> =
            (0..4).map(|k| (0..12).map(|node| ((node * (k + 2) * 7) % 11) as f64 / 5.0).collect()).collect();
        let found = patterns(&maps, &valid, 6);
        assert_eq!(found.columns.len(), 3, "four maps differ from their mean in three ways");
        for a in valid.nodes() {
            for b in valid.nodes() {
                let mean = |node: usize| maps.iter().map(|map| map[node]).sum::<f64>() / 4.0;
                let expected: f64 = maps.iter().map(|map| (map[a] - mean(a)) * (map[b] - mean(b))).sum::<f64>() / 3.0;
                let by_patterns: f64 = found.columns.iter().map(|column| column[a] * column[b]).sum();
                assert!((by_patterns - expected).abs() < 1e-10, "{a} {b}: {by_patterns} {expected}");
            }
        }
        assert_eq!((found.mean[5], found.columns[0][5]), (0.0, 0.0));
        let first = patterns(&maps, &valid, 1);
        let square = |column: &[f64]| column.iter().map(|value| value * value).sum::<f64>();
        let left = found.columns[1..].iter().map(|column| square(column)).sum::<f64>();
        assert!((first.left_std - (left / 11.0).sqrt()).abs() < 1e-10);
        assert!(square(&found.columns[0]) >= square(&found.columns[1]));
    }
}
