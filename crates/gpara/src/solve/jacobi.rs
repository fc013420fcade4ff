//! The paper's conditioner: a fixed number of Jacobi sweeps (Eq. B.26).

use crate::precision::PosteriorPrecision;

/// `iterations` sweeps of m <- D_A^-1 (f + C m) from m = 0 (Eq. B.26).
pub(crate) fn jacobi(precision: &PosteriorPrecision, rhs: &[f64], iterations: usize) -> Vec<f64> {
    let coupling = precision.coupling();
    let mut m = coupling.pad(&vec![0.0; rhs.len()]);
    let mut coupled = vec![0.0; rhs.len()];
    for _ in 0..iterations {
        coupling.multiply(&m, &mut coupled);
        let next = coupling.inner_mut(&mut m).iter_mut();
        for (((m, f), c), d) in next.zip(rhs).zip(&coupled).zip(precision.precision_diagonal()) {
            *m = (f + c) / d;
        }
    }
    coupling.inner(&m).to_vec()
}
