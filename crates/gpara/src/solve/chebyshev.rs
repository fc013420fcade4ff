//! Chebyshev iteration of fixed depth on the Gershgorin interval: no inner products, a better polynomial than Jacobi's.

use thiserror::Error as ThisError;

use super::blocks::zip_with;
use super::{Real, Stencil};
use crate::error::{ErrorDetail, ErrorKind, Result};

/// `iterations` Chebyshev steps from 0 for A x = rhs with the diagonal as preconditioner.
///
/// The eigenvalues of D^-1 A lie in [1 - q, 1 + q] with q the Gershgorin radius, so after k steps the error has shrunk at
/// least by 1 / T_k(1 / q) in the norm of A. A fixed number of steps is a linear map of the right-hand side.
///
/// # Errors
/// `Unsupported` if q >= 1, where the interval says nothing; first-order precisions always have q < 1.
pub(crate) fn chebyshev<T: Real>(matrix: Stencil<'_, T>, rhs: &[T], iterations: usize) -> Result<Vec<T>> {
    let radius = matrix.gershgorin_radius();
    if radius >= 1.0 {
        return Err(ChebyshevError { radius }.into());
    }
    // The interval is centred at 1, so the textbook's centre is 1 and its half width is q.
    let mut x = vec![T::default(); rhs.len()];
    let mut step: Vec<T> = rhs.iter().zip(matrix.diagonal).map(|(&f, &d)| f / d).collect();
    let mut residual = vec![T::default(); rhs.len()];
    // Without couplings q = 0: D^-1 f is exact and every later step is 0.
    let mut ratio = radius;
    for iteration in 0..iterations {
        if iteration > 0 {
            matrix.residual(&x, rhs, &mut residual);
            let previous = ratio;
            ratio = if radius == 0.0 { 0.0 } else { (2.0 / radius - previous).recip() };
            let keep = T::from_f64(ratio * previous);
            let gain = T::from_f64(if radius == 0.0 { 0.0 } else { 2.0 * ratio / radius });
            zip_with(&mut residual, matrix.diagonal, |r, d| *r = gain * *r / d);
            zip_with(&mut step, &residual, |step, r| *step = keep * *step + r);
        }
        zip_with(&mut x, &step, |x, step| *x += step);
    }
    Ok(x)
}

#[derive(Debug, ThisError)]
#[error(
    "Chebyshev needs a diagonally dominant precision: off-diagonal row sums reach {radius} of the diagonal, not below 1"
)]
struct ChebyshevError {
    radius: f64,
}

impl ErrorDetail for ChebyshevError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Unsupported
    }

    fn hint(&self) -> Option<String> {
        Some("solve a second-order precision exactly, by multigrid or by conjugate gradients".into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pcg::tests::dominant_matrix;
    use super::*;
    use crate::engine::Reach;

    #[test]
    fn theory_error_shrinks_by_the_chebyshev_polynomial_of_the_gershgorin_interval() {
        let matrix = dominant_matrix(13, 9, Reach::One, 0.05);
        let view = matrix.view();
        let truth: Vec<f64> = (0..117).map(|node| ((node * 37) % 23) as f64 - 11.0).collect();
        let mut rhs = vec![0.0; 117];
        view.apply(&truth, &mut rhs);
        let energy = |x: &[f64]| {
            let error: Vec<f64> = x.iter().zip(&truth).map(|(x, t)| x - t).collect();
            let mut applied = vec![0.0; error.len()];
            view.apply(&error, &mut applied);
            error.iter().zip(&applied).map(|(e, a)| e * a).sum::<f64>().sqrt()
        };
        let radius = view.gershgorin_radius();
        assert!(radius > 0.9 && radius < 1.0, "{radius}");
        for iterations in [1, 2, 5, 20, 60] {
            let bound = (iterations as f64 * radius.recip().acosh()).cosh().recip();
            let shrunk = energy(&chebyshev(view, &rhs, iterations).unwrap()) / energy(&[0.0; 117]);
            assert!(shrunk <= bound * (1.0 + 1e-9), "{iterations}: {shrunk} against {bound}");
        }
    }

    #[test]
    fn a_matrix_without_couplings_is_solved_by_the_first_step() {
        let mut matrix = dominant_matrix(3, 4, Reach::One, 1.0);
        matrix.coupling.iter_mut().for_each(|map| map.fill(0.0));
        matrix.diagonal = (1..=12).map(f64::from).collect();
        let x = chebyshev(matrix.view(), &[6.0; 12], 7).unwrap();
        assert!(x.iter().zip(1..).all(|(x, d)| *x == 6.0 / f64::from(d)));
    }

    #[test]
    fn a_matrix_that_is_not_dominant_is_refused() {
        let mut matrix = dominant_matrix(3, 4, Reach::Two, 1.0);
        matrix.diagonal.iter_mut().for_each(|d| *d *= 0.5);
        let error = chebyshev(matrix.view(), &[1.0; 12], 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.hint().is_some());
    }
}
