//! The negative log-likelihood of a residual under a graph, and its gradient by the conductances: no unrolled solver.

use gpara::{Conductances, PrecisionScale, Result, ValidMask, residual_likelihood_gradient};

/// Smallest mean square, in units of the precision, that the common factor is fitted to.
const MISFIT_FLOOR: f64 = 1e-12;

/// Negative log-likelihood a valid cell of N(0, (s Q)^-1) at the factor s of largest likelihood, and its derivative by
/// each conductance.
///
/// At that factor, `s = cells / r' Q r`, the likelihood does not change with s, so the derivative is the one with s fixed.
///
/// # Shapes
/// * `residual` - `num_nodes` values; invalid cells are not read
///
/// # Errors
/// `NonFinite` for a residual that is not finite; `NotPositiveDefinite` if the factorisation breaks down.
pub(crate) fn residual_loss(
    scale: PrecisionScale,
    graph: &Conductances,
    valid: &ValidMask,
    residual: &[f64],
) -> Result<(f64, [Vec<f64>; 4])> {
    let inside: Vec<f64> =
        residual.iter().zip(valid.as_slice()).map(|(&value, &valid)| if valid { value } else { 0.0 }).collect();
    let cells = valid.num_valid() as f64;
    let unit = scale.precision(graph.clone())?;
    let misfit: f64 = unit.apply(&inside).iter().zip(&inside).map(|(q, r)| q * r).sum();
    let scaled = scale.times(cells / misfit.max(cells * MISFIT_FLOOR)).precision(graph.clone())?;
    let (value, gradient) = residual_likelihood_gradient(&scaled, valid, &inside)?;
    let by_edge = gradient.conductances.map(|map| map.into_iter().map(|entry| -entry / cells).collect());
    Ok((-value / cells, by_edge))
}

#[cfg(test)]
mod tests {
    use gpara::{Grid, SeedTree};

    use super::*;

    #[test]
    fn gradient_of_the_fitted_likelihood_agrees_with_finite_differences() {
        let grid = Grid::new(5, 6).unwrap();
        let valid = ValidMask::new(grid, (0..30).map(|node| node != 8).collect()).unwrap();
        let mut stream = SeedTree::new(6).stream("residual");
        let logits: Vec<f64> = (0..120).map(|_| stream.normal()).collect();
        let residual: Vec<f64> = (0..30).map(|_| 0.05 * stream.normal()).collect();
        let graph = Conductances::from_logits(&logits, &valid).unwrap();
        for kappa_squared in [None, Some(0.1)] {
            let scale = PrecisionScale { residual_precision: 0.05, graph_coupling: 0.8, kappa_squared };
            let (value, gradient) = residual_loss(scale, &graph, &valid, &residual).unwrap();
            assert!(value < 0.0, "small residuals have a density above 1: {value}");
            for (direction, node) in [(0, 0), (1, 3), (2, 13), (3, 21), (0, 27)] {
                let shifted = |step: f64| {
                    let mut edges = graph.edges().clone();
                    edges[direction][node] += step;
                    let graph = Conductances::from_edges(edges, &valid).unwrap();
                    residual_loss(scale, &graph, &valid, &residual).unwrap().0
                };
                let expected = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
                let found = gradient[direction][node];
                assert!((found - expected).abs() < 1e-7, "{kappa_squared:?} {direction} {node}: {found} {expected}");
            }
            // A common factor of the residual only shifts the likelihood by its logarithm.
            let doubled: Vec<f64> = residual.iter().map(|value| 2.0 * value).collect();
            let (shifted, same) = residual_loss(scale, &graph, &valid, &doubled).unwrap();
            assert!((shifted - value - 2.0f64.ln()).abs() < 1e-9 && (same[0][0] - gradient[0][0]).abs() < 1e-9);
        }
    }
}
