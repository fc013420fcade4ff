//! The loops of rank-one updates over fields: all picks in one pass, a block that stays in the first-level cache at a time.

use rayon::prelude::*;

use super::updates::utility_of;
use crate::solve::vectorized;

/// Values of one block; two of them are written while the columns of the picks stream by.
const BLOCK: usize = 1024;

/// Fields of at least this many values are worked on by several threads; every value is computed by itself, so the bits do
/// not depend on it.
const PARALLEL_LENGTH: usize = 1 << 15;

/// A share of a pick's column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    pub(super) pick: usize,
    pub(super) factor: f64,
}

/// `u -= sum a_k u_k` and `q -= sum (a_k q_k + b_k u_k)` over the picks (u_k, q_k).
pub(super) fn combine(picks: &[(&[f64], &[f64])], (a, b): (&[f64], &[f64]), (u, q): (&mut [f64], &mut [f64])) {
    let block = |at: usize, u: &mut [f64], q: &mut [f64]| vectorized(Combine { start: at * BLOCK, picks, a, b, u, q });
    if u.len() < PARALLEL_LENGTH {
        u.chunks_mut(BLOCK).zip(q.chunks_mut(BLOCK)).enumerate().for_each(|(at, (u, q))| block(at, u, q));
    } else {
        let blocks = u.par_chunks_mut(BLOCK).zip(q.par_chunks_mut(BLOCK));
        blocks.enumerate().for_each(|(at, (u, q))| block(at, u, q));
    }
}

struct Combine<'a> {
    start: usize,
    picks: &'a [(&'a [f64], &'a [f64])],
    a: &'a [f64],
    b: &'a [f64],
    u: &'a mut [f64],
    q: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { start, picks, a, b, u, q } = self;
        let count = u.len();
        let q = &mut q[..count];
        let (pairs, rest) = picks.as_chunks::<2>();
        for (at, pair) in pairs.iter().enumerate() {
            let (a, b) = (&a[2 * at..2 * at + 2], &b[2 * at..2 * at + 2]);
            let [(u0, q0), (u1, q1)] = pair.map(|(u, q)| (&u[start..start + count], &q[start..start + count]));
            for i in 0..count {
                u[i] -= a[0] * u0[i] + a[1] * u1[i];
                q[i] -= (a[0] * q0[i] + b[0] * u0[i]) + (a[1] * q1[i] + b[1] * u1[i]);
            }
        }
        if let [(u0, q0)] = rest {
            let (a, b) = (a[picks.len() - 1], b[picks.len() - 1]);
            let (u0, q0) = (&u0[start..start + count], &q0[start..start + count]);
            for i in 0..count {
                u[i] -= a * u0[i];
                q[i] -= a * q0[i] + b * u0[i];
            }
        }
    }
}

/// The moments once a pick is measured: Sigma' = Sigma - u u'/s, hence
/// `diag(Sigma' W Sigma') = n - 2 u q / s + u^2 (u'Wu) / s^2` with q = Sigma W u.
pub(super) fn take(
    (u, q): (&[f64], &[f64]),
    (innovation_variance, spread, noise_variance): (f64, f64, f64),
    (variance, numerator, utility): (&mut [f64], &mut [f64], &mut [f64]),
) {
    let block = |at: usize, d: &mut [f64], n: &mut [f64], utility: &mut [f64]| {
        let (u, q) = (&u[at * BLOCK..][..d.len()], &q[at * BLOCK..][..d.len()]);
        vectorized(Take { u, q, innovation_variance, spread, noise_variance, d, n, utility });
    };
    if u.len() < PARALLEL_LENGTH {
        let blocks = variance.chunks_mut(BLOCK).zip(numerator.chunks_mut(BLOCK)).zip(utility.chunks_mut(BLOCK));
        blocks.enumerate().for_each(|(at, ((d, n), utility))| block(at, d, n, utility));
    } else {
        let blocks = variance.par_chunks_mut(BLOCK).zip(numerator.par_chunks_mut(BLOCK));
        let blocks = blocks.zip(utility.par_chunks_mut(BLOCK));
        blocks.enumerate().for_each(|(at, ((d, n), utility))| block(at, d, n, utility));
    }
}

struct Take<'a> {
    u: &'a [f64],
    q: &'a [f64],
    innovation_variance: f64,
    spread: f64,
    noise_variance: f64,
    d: &'a mut [f64],
    n: &'a mut [f64],
    utility: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Take<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { u, q, innovation_variance, spread, noise_variance, d, n, utility } = self;
        let inverse = 1.0 / innovation_variance;
        for ((((u, q), d), n), utility) in u.iter().zip(q).zip(d).zip(n).zip(utility) {
            let ratio = u * inverse;
            *d -= u * ratio;
            *n += ratio * (ratio * spread - 2.0 * q);
            *utility = utility_of(*n, *d, noise_variance);
        }
    }
}

/// `n += sum change c^2` where each c is a combination of columns.
pub(super) fn add_squares(changes: &[(f64, &[Term])], columns: &[&[f64]], numerator: &mut [f64]) {
    for (at, n) in numerator.chunks_mut(BLOCK).enumerate() {
        vectorized(AddSquares { start: at * BLOCK, changes, columns, n });
    }
}

struct AddSquares<'a> {
    start: usize,
    changes: &'a [(f64, &'a [Term])],
    columns: &'a [&'a [f64]],
    n: &'a mut [f64],
}

impl pulp::NullaryFnOnce for AddSquares<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { start, changes, columns, n } = self;
        let mut sum = [0.0; BLOCK];
        let sum = &mut sum[..n.len()];
        for (change, terms) in changes {
            sum.fill(0.0);
            for term in *terms {
                let column = &columns[term.pick][start..];
                sum.iter_mut().zip(column).for_each(|(sum, u)| *sum += term.factor * u);
            }
            n.iter_mut().zip(&*sum).for_each(|(n, c)| *n += change * c * c);
        }
    }
}
