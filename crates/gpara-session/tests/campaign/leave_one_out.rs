//! Leave-one-out against leaving one out.

use gpara_session::{PredictedValue, coverage};

use crate::program::{Program, field, one};

#[test]
fn formula_equals_a_session_without_the_value() {
    let cells = [(0, 0), (3, 9), (7, 2), (5, 5), (1, 6), (8, 10)];
    let mut whole = Program::plain(9, 12, 20);
    whole.tell(&cells);
    let estimate = whole.campaign.estimate(&whole.method, 0, false).unwrap();
    let left_out = whole.campaign.left_out(&whole.method, &estimate).unwrap();
    assert_eq!(left_out.len(), cells.len());
    let factor = {
        // The fitted scale of the spread is kept; it is that of all values.
        let mut without = Program::plain(9, 12, 20);
        without.tell(&cells[1..]);
        let estimate_without = without.campaign.estimate(&without.method, 0, false).unwrap();
        let entry = left_out.iter().find(|entry| entry.node == 0).unwrap();
        let noise = 0.01f64;
        // std^2 of the value = s^2 (v + noise^2) with s the scale of the whole and v from the session without the value.
        let scale_without = scale_of(&mut without);
        let variance = (estimate_without.std.unwrap()[0] / scale_without).powi(2);
        entry.std / (variance + noise * noise).sqrt()
    };
    assert!((factor - scale_of(&mut whole)).abs() < 1e-6 * factor, "{factor}");
    for &(row, col) in &cells {
        let others: Vec<(usize, usize)> = cells.iter().copied().filter(|&cell| cell != (row, col)).collect();
        let mut without = Program::plain(9, 12, 20);
        without.tell(&others);
        let predicted = without.campaign.estimate(&without.method, 0, false).unwrap().mean[row * 12 + col];
        let entry = left_out.iter().find(|entry| entry.node == row * 12 + col).unwrap();
        assert!((entry.value - field(row, col)).abs() < 1e-12);
        assert!((entry.predicted - predicted).abs() < 1e-8, "{} against {predicted}", entry.predicted);
    }
}

/// The factor between the session's std and the root of the model's variance, level included: at a cell that is
/// measured with huge noise nothing else changes, so it is read off the definition of the fitted scale.
fn scale_of(program: &mut Program) -> f64 {
    let estimate = program.campaign.estimate(&program.method, 0, false).unwrap();
    let left_out = program.campaign.left_out(&program.method, &estimate).unwrap();
    // (y - F b)' K^-1 (y - F b) / (n - 1) = mean over i of residual_i * (leave-one-out residual)_i / variance ...
    // For a fitted level the identity sum_i r_i e_i / s2_i = misfit holds with r the posterior and e the left-out residual.
    let noise = 0.01f64;
    let misfit: f64 =
        left_out.iter().map(|entry| (entry.value - estimate.mean[entry.node]) * entry.value / (noise * noise)).sum();
    (misfit / (left_out.len() - 1) as f64).sqrt()
}

#[test]
fn left_out_is_empty_without_a_spread() {
    let mut program = Program::plain(4, 4, 5);
    program.campaign.tell(&one(1, 1, 0.5, None)).unwrap();
    let estimate = program.campaign.estimate(&program.method, 0, false).unwrap();
    assert!(program.campaign.left_out(&program.method, &estimate).unwrap().is_empty());
}

#[test]
fn coverage_counts_values_inside_the_intervals() {
    // Errors of 0.5, 1, 1.5 and 3 standard deviations.
    let predicted = |(value, std): (f64, f64), interval_factors: [f64; 3]| PredictedValue {
        value,
        predicted: 0.0,
        std,
        interval_factors,
    };
    let values = [(0.5, 1.0), (-2.0, 2.0), (1.5, 1.0), (3.0, 1.0)];
    let found = coverage(values.map(|value| predicted(value, gpara::NORMAL_INTERVALS))).unwrap();
    assert_eq!((found.num_values, found.half, found.most), (4, 0.25, 0.75));
    assert!((found.rmse - (15.5f64 / 4.0).sqrt()).abs() < 1e-12 && (found.bias - 0.75).abs() < 1e-12);
    let wide = coverage(values.map(|value| predicted(value, [1.2, 2.0, 3.5]))).unwrap();
    assert_eq!((wide.half, wide.most), (0.5, 1.0));
    assert_eq!(coverage([]), None);
}
