//! The paper's conditioner: a fixed number of Jacobi sweeps (Eq. B.26).

use super::{Real, Stencil};

/// `iterations` sweeps of m <- D_A^-1 (f - (A - D_A) m) from m = 0; with A = D_A - lambda C_g this is Eq. B.26.
pub(crate) fn jacobi<T: Real>(matrix: Stencil<'_, T>, rhs: &[T], iterations: usize) -> Vec<T> {
    let (mut m, mut next) = (vec![T::default(); rhs.len()], vec![T::default(); rhs.len()]);
    for _ in 0..iterations {
        matrix.jacobi_sweep(&m, rhs, &mut next);
        std::mem::swap(&mut m, &mut next);
    }
    m
}
