//! The highest point of a smooth function of few numbers, without derivatives.

/// Where Nelder and Mead's simplex ends: the point and the value there.
///
/// # Shapes
/// * `start` - the first corner; the others lie `step` further along each axis
pub(super) fn highest(
    objective: impl Fn(&[f64]) -> f64,
    start: &[f64],
    step: f64,
    most_calls: usize,
    tolerance: f64,
) -> (Vec<f64>, f64) {
    let size = start.len();
    let at = |point: Vec<f64>| {
        let value = objective(&point);
        (if value.is_nan() { f64::NEG_INFINITY } else { value }, point)
    };
    let mut corners = vec![at(start.to_vec())];
    for axis in 0..size {
        let mut corner = start.to_vec();
        corner[axis] += step;
        corners.push(at(corner));
    }
    let mut calls = corners.len();
    while calls < most_calls {
        corners.sort_by(|first, second| second.0.total_cmp(&first.0));
        if corners[0].0 - corners[size].0 < tolerance {
            break;
        }
        let center: Vec<f64> =
            (0..size).map(|k| corners[..size].iter().map(|corner| corner.1[k]).sum::<f64>() / size as f64).collect();
        let worst = corners[size].1.clone();
        let along = |factor: f64| at((0..size).map(|k| center[k] + factor * (center[k] - worst[k])).collect());
        let reflected = along(1.0);
        calls += 1;
        let better = if reflected.0 > corners[0].0 {
            calls += 1;
            let expanded = along(2.0);
            Some(if expanded.0 > reflected.0 { expanded } else { reflected })
        } else if reflected.0 > corners[size - 1].0 {
            Some(reflected)
        } else {
            calls += 1;
            let contracted = along(if reflected.0 > corners[size].0 { 0.5 } else { -0.5 });
            (contracted.0 > corners[size].0.max(reflected.0)).then_some(contracted)
        };
        match better {
            Some(corner) => corners[size] = corner,
            None => {
                let best = corners[0].1.clone();
                for corner in &mut corners[1..] {
                    *corner = at((0..size).map(|k| 0.5 * (best[k] + corner.1[k])).collect());
                    calls += 1;
                }
            }
        }
    }
    corners.sort_by(|first, second| second.0.total_cmp(&first.0));
    let (value, point) = corners.swap_remove(0);
    (point, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_of_a_curved_ridge_is_found() {
        let ridge = |x: &[f64]| -(1.0 - x[0]).powi(2) - 20.0 * (x[1] - x[0] * x[0]).powi(2) - (x[2] + 0.5).powi(2);
        let (point, value) = highest(ridge, &[-1.0, 1.0, 1.0], 0.5, 500, 1e-9);
        let expected = [1.0, 1.0, -0.5];
        assert!(point.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-2), "{point:?}");
        assert!(value > -1e-4);
        // A region without a value is avoided.
        let cut = |x: &[f64]| if x[0] < 0.0 { f64::NAN } else { -x[0] };
        let (point, _) = highest(cut, &[1.0], 0.5, 200, 1e-9);
        assert!(point[0] >= 0.0 && point[0] < 1e-3, "{point:?}");
    }
}
