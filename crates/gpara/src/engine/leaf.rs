//! What happens at a front without parts, side by side: less than at other fronts, because W is diagonal and of the inverse
//! only the diagonal is asked for. Letters as in [`front`](super::front).

use super::front::{Lanes, Layout, Scratch, Size, transposed};
use super::real::LANES;
use super::simd::{self, Kernels, Part, Product, Right, Simd, Update};

/// [`differentiate`](super::front::differentiate) of a front without parts, where dF11 = W is diagonal and dF12 = 0:
/// P W P (upper triangle), dK = -P W K and dS = K' W K, from W in the first vectors of dF11 in the scratch.
pub(super) fn differentiate<T: Kernels>(
    simd: Simd,
    size: Size,
    (inverse, gain): (&[T], &[T]),
    df22: &mut [T],
    (dinverse, dgain): (&mut [T], &mut [T]),
    scratch: &mut Scratch<T>,
) {
    type L = Lanes;
    let Size { pivots: p, boundary: b } = size;
    let (l1, l2) = (L::row(p), L::row(b));
    let weights = &scratch.df11[..p * LANES];
    let weighted = &mut scratch.square[..size.square::<L>()];
    simd::scale_rows(simd, p, l1, weights, inverse, weighted);
    transposed::<L, T>(simd, (p, p, p), (inverse, l1), (weighted, l1), dinverse, Update::Set, Part::Upper);
    let weighted = &mut scratch.wide[..size.wide::<L>()];
    simd::scale_rows(simd, b, l2, weights, gain, weighted);
    transposed::<L, T>(simd, (p, b, p), (inverse, l1), (weighted, l2), dgain, Update::SetNegative, Part::Full);
    transposed::<L, T>(simd, (b, b, p), (gain, l2), (weighted, l2), df22, Update::Set, Part::Upper);
}

/// Adds diag(K Z22 K') to `diagonal`, for diag(Z11) of a front without parts, where nothing else is asked for: with
/// Z22 = U + U', U triangular by squares and in place of the upper triangle of Z22, row i of K has
/// K_i Z22 K_i' = 2 (K U)_i K_i'.
pub(super) fn invert<T: Kernels>(
    simd: Simd,
    size: Size,
    gain: &[T],
    z22: &mut [T],
    diagonal: &mut [T],
    scratch: &mut Scratch<T>,
) {
    let row = Lanes::row(size.boundary);
    simd::complete_squares(simd, size.boundary, z22, row, T::from_f64(0.5));
    let product = &mut scratch.wide[..size.wide::<Lanes>()];
    times_triangle(simd, size, (gain, z22), None, product);
    simd::add_row_dots(simd, size.boundary, row, product, gain, diagonal);
}

/// diag(K dZ22 K') + 2 diag(dK Z22 K'), added to `diagonal`, after [`invert`] of the same front with the same scratch.
pub(super) fn differentiate_inverse<T: Kernels>(
    simd: Simd,
    size: Size,
    (gain, dgain): (&[T], &[T]),
    z22: &[T],
    dz22: &mut [T],
    diagonal: &mut [T],
    scratch: &mut Scratch<T>,
) {
    let row = Lanes::row(size.boundary);
    simd::complete_squares(simd, size.boundary, dz22, row, T::from_f64(0.5));
    simd::add_row_dots(simd, size.boundary, row, &scratch.wide, dgain, diagonal);
    let product = &mut scratch.half[..size.wide::<Lanes>()];
    times_triangle(simd, size, (dgain, z22), Some((gain, dz22)), product);
    simd::add_row_dots(simd, size.boundary, row, product, gain, diagonal);
}

/// K U, and another such product added to it.
fn times_triangle<T: Kernels>(simd: Simd, size: Size, (a, u): (&[T], &[T]), and: Option<(&[T], &[T])>, c: &mut [T]) {
    let Size { pivots: m, boundary: n } = size;
    let (l2, update, part) = (Lanes::row(n), Update::Set, Part::Full);
    let (a_row, a_col, b_row, b_col, c_row) = (l2, 1, l2, 1, l2);
    let product = Product { m, n, k: n, a, a_row, a_col, b: u, b_row, b_col, and, c, c_row, update, part };
    product.lanes_with(simd, Right::Triangular);
}
