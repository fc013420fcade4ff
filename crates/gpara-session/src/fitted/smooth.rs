//! The correlation of the field with spectral density `(k^4 - k^2 w^2 + w^4)^-1` on a surface.
//!
//! By partial fractions it is `-(2 / phi) Im K_0(x e^(i phi / 2))` with phi = 120 degrees and x = k times distance.

use std::f64::consts::PI;
use std::sync::OnceLock;

/// phi / 2.
const HALF_ANGLE: f64 = PI / 3.0;

/// Below this the table's polynomials would miss the logarithm at 0.
const FIRST: f64 = 0.06;

/// Distance of the table's entries.
const STEP: f64 = 0.02;

/// Beyond this less than 1e-7 is left.
const LAST: f64 = 32.0;

/// Correlation at `x`; absolute error below 1e-6.
pub(super) fn correlation(x: f64) -> f64 {
    static TABLE: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    if x < FIRST {
        return if x <= 1e-9 { 1.0 } else { value_and_slope(x).0 };
    }
    if x >= LAST {
        return 0.0;
    }
    let table = TABLE.get_or_init(|| {
        let count = ((LAST - FIRST) / STEP) as usize + 2;
        (0..count).map(|at| value_and_slope(FIRST + STEP * at as f64)).collect()
    });
    let place = (x - FIRST) / STEP;
    let (at, t) = (place as usize, place.fract());
    let ((left, left_slope), (right, right_slope)) = (table[at], table[at + 1]);
    // Cubic Hermite.
    let (square, cube) = (t * t, t * t * t);
    (2.0 * cube - 3.0 * square + 1.0) * left
        + (cube - 2.0 * square + t) * STEP * left_slope
        + (3.0 * square - 2.0 * cube) * right
        + (cube - square) * STEP * right_slope
}

/// The correlation and its derivative by the trapezoidal rule on `K_0(z) = integral over t >= 0 of exp(-z cosh t)`, which
/// converges faster than any power of the step.
fn value_and_slope(x: f64) -> (f64, f64) {
    const WIDTH: f64 = 0.125;
    let (sin, cos) = HALF_ANGLE.sin_cos();
    let (mut value, mut slope) = (0.0, 0.0);
    for at in 0.. {
        let stretch = (WIDTH * f64::from(at)).cosh();
        let decay = -x * cos * stretch;
        if decay < -40.0 {
            break;
        }
        let weight = if at == 0 { 0.5 } else { 1.0 } * decay.exp();
        let turn = x * sin * stretch;
        // Im exp(-z c) and Im of its derivative -e^(i phi / 2) c exp(-z c).
        value -= weight * turn.sin();
        slope -= weight * stretch * (HALF_ANGLE - turn).sin();
    }
    let factor = -WIDTH / HALF_ANGLE;
    (factor * value, factor * slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_has_the_values_of_the_bessel_function() {
        // -(2 / phi) Im K_0(x e^(i phi / 2)) by scipy.special.kv.
        let known = [
            (0.1, 0.991_686_556_4),
            (0.5, 0.876_627_258_2),
            (1.0, 0.657_769_616_9),
            (2.0, 0.240_956_709_9),
            (4.0, -0.058_348_289_7),
        ];
        for (x, expected) in known {
            for near in [x, x + 1e-9] {
                assert!((correlation(near) - expected).abs() < 1e-6, "{x}: {}", correlation(near));
            }
        }
        assert_eq!((correlation(0.0), correlation(40.0)), (1.0, 0.0));
        // Without a step where the table begins and between its entries.
        for x in [FIRST, 1.234, 7.891] {
            assert!((correlation(x + 1e-7) - correlation(x - 1e-7)).abs() < 1e-6, "{x}");
            assert!((correlation(x) - value_and_slope(x).0).abs() < 1e-7, "{x}");
        }
    }
}
