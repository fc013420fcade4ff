//! Preconditioned conjugate gradients (text after Eq. B.29), with the residual replaced by the true one where it matters.

use super::blocks::{divide, dot, weighted_norm, zip_with};
use super::{Real, SolveInfo, Stencil, Stop};

/// A symmetric positive definite approximation of A^-1.
pub(crate) trait Preconditioner<T> {
    /// `z = M^-1 r`.
    fn apply(&mut self, r: &[T], z: &mut [T]);
}

/// M = diag(A).
pub(crate) struct Diagonal<'a, T>(pub(crate) &'a [T]);

impl<T: Real> Preconditioner<T> for Diagonal<'_, T> {
    fn apply(&mut self, r: &[T], z: &mut [T]) {
        divide(z, r, self.0);
    }
}

/// The norm in which the residual is compared with the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoppingNorm {
    /// Plain 2-norm.
    Euclidean,
    /// sqrt(r' D_A^-1 r): a residual at a measured cell counts by what it changes in the solution.
    DiagonalInverse,
}

/// When to end: at the tolerance or the cap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stopping {
    /// Cap on the iterations.
    pub(crate) max_iterations: usize,
    /// Residual at the end over that of the start.
    pub(crate) rel_tolerance: f64,
    /// How both are measured.
    pub(crate) norm: StoppingNorm,
}

/// A run from a fresh residual must shrink the true one at least this much, else rounding is all that is left.
const WORTHWHILE: f64 = 0.5;

/// Solves A x = rhs from the given `x` until the residual falls to `rel_tolerance` times that of the start.
///
/// `rel_residual` is that of the true residual `rhs - A x`; 0 if the start solves the system up to rounding. Where the recursive residual meets the tolerance and the true
/// one does not, the iteration begins again from the true one; when that no longer helps, or the matrix or the
/// preconditioner turns out not to be positive definite, it ends with [`Stop::Stalled`].
pub(crate) fn pcg<T: Real>(
    matrix: Stencil<'_, T>,
    preconditioner: &mut impl Preconditioner<T>,
    rhs: &[T],
    x: &mut [T],
    stopping: Stopping,
) -> SolveInfo {
    let mut run = Run::new(rhs.len());
    let mut info = SolveInfo { iterations: 0, rel_residual: 0.0, stop: Stop::Converged };
    matrix.residual(x, rhs, &mut run.r);
    let reference = measure(matrix, &run.r, stopping.norm);
    if reference == 0.0 || is_rounding(matrix, &run.r, rhs, x) {
        return info;
    }
    info.rel_residual = 1.0;
    loop {
        let target = reference * stopping.rel_tolerance;
        let outcome = run.iterate(matrix, preconditioner, x, stopping, target, &mut info.iterations);
        matrix.residual(x, rhs, &mut run.r);
        let before = std::mem::replace(&mut info.rel_residual, measure(matrix, &run.r, stopping.norm) / reference);
        info.stop = match outcome {
            // A true residual of exactly 0 meets any tolerance, even 0.
            _ if info.rel_residual <= stopping.rel_tolerance => Stop::Converged,
            Stop::Converged if info.rel_residual <= WORTHWHILE * before => continue,
            Stop::Converged => Stop::Stalled,
            other => other,
        };
        return info;
    }
}

/// Whether nothing but rounding is left of the residual at every single node. A norm cannot tell: beside the rounding of an
/// entry of 1 / noise_std^2 everything else looks small.
fn is_rounding<T: Real>(matrix: Stencil<'_, T>, r: &[T], rhs: &[T], x: &[T]) -> bool {
    let terms = r.iter().zip(rhs).zip(x.iter().zip(matrix.diagonal));
    terms.into_iter().all(|((r, f), (x, d))| {
        r.to_f64().abs() <= 2.0 * T::EPSILON * (f.to_f64().abs() + (d.to_f64() * x.to_f64()).abs())
    })
}

/// The vectors of the iteration.
struct Run<T> {
    r: Vec<T>,
    z: Vec<T>,
    p: Vec<T>,
    ap: Vec<T>,
}

impl<T: Real> Run<T> {
    fn new(length: usize) -> Self {
        let zeros = || vec![T::default(); length];
        Self { r: zeros(), z: zeros(), p: zeros(), ap: zeros() }
    }

    /// Iterates from the residual in `r` until the recursive residual is at most `target`.
    fn iterate(
        &mut self,
        matrix: Stencil<'_, T>,
        preconditioner: &mut impl Preconditioner<T>,
        x: &mut [T],
        stopping: Stopping,
        target: f64,
        iterations: &mut usize,
    ) -> Stop {
        let Self { r, z, p, ap } = self;
        preconditioner.apply(r, z);
        p.copy_from_slice(z);
        let mut rz = dot(r, z);
        while *iterations < stopping.max_iterations {
            matrix.apply(p, ap);
            let curvature = dot(p, ap);
            // Also catches NaN. Both are positive for positive definite matrix and preconditioner and r != 0.
            if !(curvature > 0.0 && rz > 0.0) {
                return Stop::Stalled;
            }
            let step = T::from_f64(rz / curvature);
            zip_with(x, p, |x, p| *x += step * p);
            zip_with(r, ap, |r, ap| *r -= step * ap);
            *iterations += 1;
            let residual = measure(matrix, r, stopping.norm);
            // The residual can reach exactly 0 (e.g. without edges); another step would divide 0 by 0.
            if residual <= target || residual == 0.0 {
                return Stop::Converged;
            }
            preconditioner.apply(r, z);
            let next = dot(r, z);
            let turn = T::from_f64(next / rz);
            zip_with(p, z, |p, z| *p = z + turn * *p);
            rz = next;
        }
        Stop::IterationCap
    }
}

/// The norm of a residual.
pub(crate) fn measure<T: Real>(matrix: Stencil<'_, T>, r: &[T], norm: StoppingNorm) -> f64 {
    match norm {
        StoppingNorm::Euclidean => dot(r, r).sqrt(),
        StoppingNorm::DiagonalInverse => weighted_norm(r, matrix.diagonal),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::{Reach, StencilMatrix};
    use crate::grid::Grid;
    use crate::seed::SeedTree;

    /// Random negative couplings; every row sum is `excess` (a residual precision).
    pub(crate) fn dominant_matrix(rows: usize, cols: usize, reach: Reach, excess: f64) -> StencilMatrix {
        let grid = Grid::new(rows, cols).unwrap();
        let mut stream = SeedTree::new(9).stream("dominant");
        let mut matrix = StencilMatrix::zeros(grid, reach);
        matrix.diagonal.fill(excess);
        for (k, &offset) in reach.offsets().iter().enumerate() {
            for node in 0..grid.num_nodes() {
                if let Some(other) = grid.neighbor(node, offset) {
                    let weight = 0.1 + stream.uniform();
                    matrix.coupling[k][node] = -weight;
                    matrix.diagonal[node] += weight;
                    matrix.diagonal[other] += weight;
                }
            }
        }
        matrix
    }

    fn stopping(max_iterations: usize, rel_tolerance: f64, norm: StoppingNorm) -> Stopping {
        Stopping { max_iterations, rel_tolerance, norm }
    }

    #[test]
    fn pcg_without_coupling_stops_after_one_iteration() {
        let mut matrix = dominant_matrix(4, 5, Reach::One, 0.5);
        matrix.coupling.iter_mut().for_each(|map| map.fill(0.0));
        matrix.diagonal.fill(0.5);
        let rhs: Vec<f64> = (0..20).map(|node| node as f64 - 7.0).collect();
        for norm in [StoppingNorm::Euclidean, StoppingNorm::DiagonalInverse] {
            let mut x = vec![0.0; 20];
            let mut diagonal = Diagonal(&matrix.diagonal);
            let info = pcg(matrix.view(), &mut diagonal, &rhs, &mut x, stopping(24, 1e-10, norm));
            assert_eq!((info.iterations, info.stop), (1, Stop::Converged));
            assert!(x.iter().zip(&rhs).all(|(x, f)| (x - 2.0 * f).abs() < 1e-13));
        }
    }

    #[test]
    fn a_start_that_is_right_up_to_rounding_needs_no_iteration() {
        let mut matrix = dominant_matrix(3, 3, Reach::One, 0.5);
        matrix.coupling.iter_mut().for_each(|map| map.fill(0.0));
        matrix.diagonal.fill(3e7);
        let rhs: Vec<f64> = (1..10).map(|k| f64::from(k) * 1e7 / 7.0).collect();
        let mut x: Vec<f64> = rhs.iter().map(|f| f / 3e7).collect();
        let rule = stopping(24, 1e-10, StoppingNorm::DiagonalInverse);
        let info = pcg(matrix.view(), &mut Diagonal(&matrix.diagonal), &rhs, &mut x, rule);
        assert_eq!(info, SolveInfo { iterations: 0, rel_residual: 0.0, stop: Stop::Converged });
        // The same beside a node that is not settled: its small residual counts.
        matrix.coupling[0][3] = -1e-3;
        let info = pcg(matrix.view(), &mut Diagonal(&matrix.diagonal), &rhs, &mut x, rule);
        assert!(info.iterations > 0, "{info:?}");
    }

    #[test]
    fn iteration_cap_is_reported_not_hidden() {
        let matrix = dominant_matrix(6, 6, Reach::One, 1e-3);
        let mut rhs = [0.0; 36];
        rhs[0] = 1.0;
        let mut x = [0.0; 36];
        let rule = stopping(3, 1e-12, StoppingNorm::Euclidean);
        let info = pcg(matrix.view(), &mut Diagonal(&matrix.diagonal), &rhs, &mut x, rule);
        assert_eq!((info.iterations, info.stop), (3, Stop::IterationCap));
        let mut residual = [0.0; 36];
        matrix.view().residual(&x, &rhs, &mut residual);
        assert!((info.rel_residual - dot(&residual, &residual).sqrt()).abs() < 1e-15, "{info:?}");
        assert!(info.rel_residual > 1e-12);
    }

    #[test]
    fn a_tolerance_below_rounding_and_an_indefinite_matrix_stall() {
        let matrix = dominant_matrix(20, 20, Reach::Two, 1e-3);
        let rhs: Vec<f64> = (0..400).map(|node| (node % 7) as f64).collect();
        let rule = stopping(5000, 1e-19, StoppingNorm::Euclidean);
        let mut x = vec![0.0; 400];
        let info = pcg(matrix.view(), &mut Diagonal(&matrix.diagonal), &rhs, &mut x, rule);
        assert_eq!(info.stop, Stop::Stalled, "{info:?}");
        assert!(info.rel_residual < 1e-10 && info.iterations < 5000, "{info:?}");

        let mut indefinite = matrix.clone();
        indefinite.diagonal.iter_mut().for_each(|d| *d *= 0.3);
        let mut x = vec![0.0; 400];
        let rule = stopping(5000, 1e-8, StoppingNorm::Euclidean);
        let info = pcg(indefinite.view(), &mut Diagonal(&indefinite.diagonal), &rhs, &mut x, rule);
        assert_eq!(info.stop, Stop::Stalled, "{info:?}");
    }

    #[test]
    fn single_precision_reaches_its_own_rounding() {
        let matrix = dominant_matrix(30, 40, Reach::One, 0.0625);
        let single = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<f32>>();
        let coupling: Vec<_> = matrix.coupling.iter().map(|map| single(map)).collect();
        let diagonal = single(&matrix.diagonal);
        let view = Stencil { grid: matrix.grid(), reach: Reach::One, diagonal: &diagonal, coupling: &coupling };
        let rhs = vec![1.0f32; 1200];
        let mut x = vec![0.0f32; 1200];
        let rule = stopping(500, 2e-5, StoppingNorm::DiagonalInverse);
        let info = pcg(view, &mut Diagonal(&diagonal), &rhs, &mut x, rule);
        assert_eq!(info.stop, Stop::Converged, "{info:?}");
        // Row sums are the excess, so A 1 = 0.0625.
        assert!(x.iter().all(|x| (x / 16.0 - 1.0).abs() < 1e-4));
    }
}
