//! The inverse of one dense matrix.

use super::real::{LANES, padded};
use super::simd::{self, Kernels, Part, Product, Simd, Update};

/// The inverse of a dense symmetric positive definite matrix from its upper triangle, in place, by halves:
/// with Y = P1 A12 and C = A22 - A12' Y, the inverse is [P1 + Y C^-1 Y', -Y C^-1; ., C^-1].
pub(super) fn invert_dense<T: Kernels>(
    simd: Simd,
    size: usize,
    matrix: &mut [T],
    row: usize,
    pivots: &mut [T],
    scratch: &mut [T],
) {
    if size <= LANES {
        simd::invert_small(simd, size, matrix, row, pivots);
        return;
    }
    // The second half starts at a whole vector, so that its rows are as well aligned as those of the matrix.
    let h = padded(size / 2);
    let q = size - h;
    let lq = padded(q);
    invert_dense(simd, h, matrix, row, pivots, scratch);
    let (y, rest) = scratch.split_at_mut(h * lq);
    let (upper, lower) = matrix.split_at_mut(h * row);
    let full = Part::Full;
    let (p1, a12) = (&upper[..], &upper[h..]);
    let (c, update) = (&mut *y, Update::Set);
    Product {
        m: h,
        n: q,
        k: h,
        a: p1,
        a_row: 1,
        a_col: row,
        b: a12,
        b_row: row,
        b_col: 1,
        and: None,
        c,
        c_row: lq,
        update,
        part: full,
    }
    .dense(simd);
    let (c, update) = (&mut lower[h..], Update::Subtract);
    Product {
        m: q,
        n: q,
        k: h,
        a: a12,
        a_row: 1,
        a_col: row,
        b: &*y,
        b_row: lq,
        b_col: 1,
        and: None,
        c,
        c_row: row,
        update,
        part: Part::Upper,
    }
    .dense(simd);
    invert_dense(simd, q, &mut lower[h..], row, &mut pivots[h..], rest);
    // A12 <- -Y C^-1, A21 its transpose.
    let (c, update) = (&mut upper[h..], Update::SetNegative);
    Product {
        m: h,
        n: q,
        k: q,
        a: &*y,
        a_row: lq,
        a_col: 1,
        b: &lower[h..],
        b_row: row,
        b_col: 1,
        and: None,
        c,
        c_row: row,
        update,
        part: full,
    }
    .dense(simd);
    simd::transpose(simd, (h, q), &upper[h..], row, lower, row);
    // P1 - A12 Y' as -(Y A21)' would read A21 by rows: P1 <- P1 - Y A21, symmetric.
    let (c, update) = (&mut upper[..], Update::Subtract);
    Product {
        m: h,
        n: h,
        k: q,
        a: &*y,
        a_row: lq,
        a_col: 1,
        b: &*lower,
        b_row: row,
        b_col: 1,
        and: None,
        c,
        c_row: row,
        update,
        part: full,
    }
    .dense(simd);
}
