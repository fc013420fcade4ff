//! Conjugate gradients with the diagonal preconditioner P = diag(A_S) (text after Eq. B.29).

use super::{SolveInfo, Stop};
use crate::precision::PosteriorPrecision;

/// The norm in which the residual is compared with the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoppingNorm {
    /// Plain 2-norm.
    Euclidean,
    /// sqrt(r' D_A^-1 r): a residual at a measured cell counts by what it changes in the solution.
    Preconditioned,
}

/// Solves A_S x = rhs from `start` until the residual falls to `rel_tolerance` times that of `start`.
///
/// `rel_residual` is relative to the residual of `start`; a start that solves the system exactly gives 0.
pub(crate) fn pcg(
    precision: &PosteriorPrecision,
    rhs: &[f64],
    start: &[f64],
    max_iterations: usize,
    rel_tolerance: f64,
    norm: StoppingNorm,
) -> (Vec<f64>, SolveInfo) {
    let coupling = precision.coupling();
    let diagonal = precision.precision_diagonal();
    let mut x = start.to_vec();
    let mut r: Vec<f64> = precision.apply(start).iter().zip(rhs).map(|(ax, f)| f - ax).collect();
    let mut z: Vec<f64> = r.iter().zip(diagonal).map(|(r, d)| r / d).collect();
    let mut p = coupling.pad(&z);
    let mut ap = vec![0.0; rhs.len()];
    let mut rz = dot(&r, &z);
    let measure = |r: &[f64], rz: f64| match norm {
        StoppingNorm::Euclidean => dot(r, r).sqrt(),
        StoppingNorm::Preconditioned => rz.sqrt(),
    };
    let reference = measure(&r, rz);
    if reference == 0.0 {
        return (x, SolveInfo { iterations: 0, rel_residual: 0.0, stop: Stop::Converged });
    }
    let mut info = SolveInfo { iterations: 0, rel_residual: 1.0, stop: Stop::IterationCap };
    while info.rel_residual > rel_tolerance && info.iterations < max_iterations {
        coupling.multiply(&p, &mut ap);
        let direction = coupling.inner(&p);
        ap.iter_mut().zip(direction).zip(diagonal).for_each(|((ap, p), d)| *ap = d * p - *ap);
        let step = rz / dot(direction, &ap);
        x.iter_mut().zip(direction).for_each(|(x, p)| *x += step * p);
        r.iter_mut().zip(&ap).for_each(|(r, ap)| *r -= step * ap);
        z.iter_mut().zip(&r).zip(diagonal).for_each(|((z, r), d)| *z = r / d);
        let next = dot(&r, &z);
        let turn = next / rz;
        coupling.inner_mut(&mut p).iter_mut().zip(&z).for_each(|(p, z)| *p = z + turn * *p);
        rz = next;
        info.iterations += 1;
        info.rel_residual = measure(&r, rz) / reference;
        // The residual can reach exactly 0 (e.g. without edges); another step would divide 0 by 0.
        if rz == 0.0 {
            break;
        }
    }
    if info.rel_residual <= rel_tolerance {
        info.stop = Stop::Converged;
    }
    (x, info)
}

/// Dot product in a fixed order of eight partial sums, so that it vectorises and gives the same bits everywhere.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_blocks, a_rest) = a.as_chunks::<8>();
    let (b_blocks, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    let [s0, s1, s2, s3, s4, s5, s6, s7] = sums;
    ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7)) + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Conductances;
    use crate::grid::{Grid, ValidMask};
    use crate::observations::Observations;
    use crate::precision::ResidualPrecision;

    #[test]
    fn pcg_without_coupling_stops_after_one_iteration() {
        let grid = Grid::new(4, 5).unwrap();
        let graph = Conductances::from_logits(&[0.0; 80], &ValidMask::all(grid)).unwrap();
        let prior = ResidualPrecision::new(graph, 0.5, 0.0).unwrap();
        let precision = PosteriorPrecision::new(&prior, &Observations::none(grid)).unwrap();
        let rhs: Vec<f64> = (0..20).map(|node| node as f64 - 7.0).collect();
        for norm in [StoppingNorm::Euclidean, StoppingNorm::Preconditioned] {
            let (x, info) = pcg(&precision, &rhs, &[0.0; 20], 24, 1e-10, norm);
            assert_eq!((info.iterations, info.stop), (1, Stop::Converged));
            assert!(x.iter().zip(&rhs).all(|(x, f)| (x - 2.0 * f).abs() < 1e-13));
        }
    }

    #[test]
    fn iteration_cap_is_reported_not_hidden() {
        let grid = Grid::new(6, 6).unwrap();
        let graph = Conductances::from_logits(&[1.0; 144], &ValidMask::all(grid)).unwrap();
        let prior = ResidualPrecision::new(graph, 1e-3, 1.0).unwrap();
        let precision = PosteriorPrecision::new(&prior, &Observations::none(grid)).unwrap();
        let mut rhs = [0.0; 36];
        rhs[0] = 1.0;
        let (_, info) = pcg(&precision, &rhs, &[0.0; 36], 3, 1e-12, StoppingNorm::Euclidean);
        assert_eq!((info.iterations, info.stop), (3, Stop::IterationCap));
        assert!(info.rel_residual > 1e-12);
    }
}
