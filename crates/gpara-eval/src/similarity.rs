//! Structural similarity of two pictures (Wang et al. 2004).

use gpara::Grid;

/// Radius of the window in cells: 11 x 11.
const RADIUS: usize = 5;
/// Standard deviation of the Gaussian window in cells.
const WINDOW_STD: f64 = 1.5;
/// (0.01 L)^2 and (0.03 L)^2 for a range L = 1.
const STABILIZERS: (f64, f64) = (1e-4, 9e-4);

/// Mean over all cells of the structural similarity of two pictures of range 1; 1 for equal ones.
///
/// At the border the window is cut and its weights are normalised again.
pub fn structural_similarity(grid: Grid, first: &[f64], second: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<f64>>();
    let (mean_1, mean_2) = (smooth(grid, first), smooth(grid, second));
    let (square_1, square_2) = (smooth(grid, &product(first, first)), smooth(grid, &product(second, second)));
    let cross = smooth(grid, &product(first, second));
    let (c1, c2) = STABILIZERS;
    let at = |node: usize| {
        let (m1, m2) = (mean_1[node], mean_2[node]);
        let (v1, v2, cov) = (square_1[node] - m1 * m1, square_2[node] - m2 * m2, cross[node] - m1 * m2);
        ((2.0 * m1 * m2 + c1) * (2.0 * cov + c2)) / ((m1 * m1 + m2 * m2 + c1) * (v1 + v2 + c2))
    };
    (0..grid.num_nodes()).map(at).sum::<f64>() / grid.num_nodes() as f64
}

/// Gaussian mean around every cell, rows and then columns.
fn smooth(grid: Grid, field: &[f64]) -> Vec<f64> {
    let weights: Vec<f64> = (0..=RADIUS).map(|d| (-0.5 * (d as f64 / WINDOW_STD).powi(2)).exp()).collect();
    let along = |field: &[f64], length: usize, at: &dyn Fn(usize, usize) -> usize, lines: usize| {
        let mut smoothed = vec![0.0; field.len()];
        for line in 0..lines {
            for place in 0..length {
                let (mut sum, mut total) = (0.0, 0.0);
                for other in place.saturating_sub(RADIUS)..(place + RADIUS + 1).min(length) {
                    let weight = weights[place.abs_diff(other)];
                    sum += weight * field[at(line, other)];
                    total += weight;
                }
                smoothed[at(line, place)] = sum / total;
            }
        }
        smoothed
    };
    let rows = along(field, grid.cols(), &|row, col| grid.node(row, col), grid.rows());
    along(&rows, grid.rows(), &|col, row| grid.node(row, col), grid.cols())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pictures_score_one_and_a_constant_shift_the_luminance_term_alone() {
        let grid = Grid::new(20, 24).unwrap();
        let picture: Vec<f64> = (0..480).map(|node| 0.3 + 0.2 * (f64::from(node) * 0.7).sin()).collect();
        assert!((structural_similarity(grid, &picture, &picture) - 1.0).abs() < 1e-12);
        let (dark, bright) = (vec![0.2; 480], vec![0.6; 480]);
        // Without variance the structure term is 1: (2 m1 m2 + c1) / (m1^2 + m2^2 + c1).
        let expected = (2.0 * 0.12 + 1e-4) / (0.04 + 0.36 + 1e-4);
        assert!((structural_similarity(grid, &dark, &bright) - expected).abs() < 1e-9);
        let negative: Vec<f64> = picture.iter().map(|value| 0.6 - value).collect();
        assert!(structural_similarity(grid, &picture, &negative) < 0.0);
    }
}
