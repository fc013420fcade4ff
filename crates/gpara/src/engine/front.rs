//! What happens at one front, in either layout: elimination, its derivative, and the selected inverse.
//!
//! Letters: F the front's matrix, 1 its pivots, 2 its boundary; P = F11^-1, K = P F12, S = F22 - F21 K the matrix left for
//! the boundary; Z the inverse of the whole matrix on this front. A leading d is the derivative along A + eps W. Symmetric
//! matrices are assembled in their upper triangles; the order of elimination is the order of rows, so an upper triangle of a
//! child lies in the upper triangle of its parent.

use super::dense_inverse::invert_dense;
use super::real::{LANES, padded};
use super::simd::{self, Kernels, Part, Product, Right, Simd, Update};

/// How the matrices of a front lie in memory.
pub(super) trait Layout {
    /// Values that one entry takes: 1, or [`LANES`] side by side.
    const WIDTH: usize;

    /// Entries from one row to the next in a matrix of so many columns.
    fn row(cols: usize) -> usize;

    /// Runs a product.
    fn product<T: Kernels>(simd: Simd, product: Product<'_, T>);

    /// Runs a product whose right factor is symmetric; its upper triangle is [complete](Self::complete).
    fn product_symmetric<T: Kernels>(simd: Simd, product: Product<'_, T>);

    /// Adds to the upper triangle of a square matrix what [`product_symmetric`](Self::product_symmetric) reads besides.
    fn complete<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T]);

    /// Copies the upper triangle of a square matrix onto the lower one.
    fn mirror<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T]);

    /// P from the upper triangle of F11, in place, and the pivots.
    fn invert<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T], pivots: &mut [T], scratch: &mut [T]);
}

/// One matrix, rows padded.
pub(super) struct Dense;

/// [`LANES`] matrices side by side.
pub(super) struct Lanes;

impl Layout for Dense {
    const WIDTH: usize = 1;

    fn row(cols: usize) -> usize {
        padded(cols)
    }

    fn product<T: Kernels>(simd: Simd, product: Product<'_, T>) {
        product.dense(simd);
    }

    fn product_symmetric<T: Kernels>(simd: Simd, product: Product<'_, T>) {
        product.dense(simd);
    }

    fn complete<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T]) {
        Self::mirror(simd, size, matrix);
    }

    fn mirror<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T]) {
        simd::mirror(simd, size, matrix, padded(size));
    }

    fn invert<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T], pivots: &mut [T], scratch: &mut [T]) {
        invert_dense(simd, size, matrix, padded(size), pivots, scratch);
    }
}

impl Layout for Lanes {
    const WIDTH: usize = LANES;

    fn row(cols: usize) -> usize {
        // An odd number of vectors, so that the rows of a column fall into different sets of the cache.
        cols | 1
    }

    fn product<T: Kernels>(simd: Simd, product: Product<'_, T>) {
        product.lanes(simd);
    }

    fn product_symmetric<T: Kernels>(simd: Simd, product: Product<'_, T>) {
        product.lanes_with(simd, Right::Symmetric);
    }

    fn complete<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T]) {
        simd::complete_squares(simd, size, matrix, Self::row(size), T::ONE);
    }

    fn mirror<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T]) {
        simd::mirror_lanes(simd, size, matrix, Self::row(size));
    }

    fn invert<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T], pivots: &mut [T], scratch: &mut [T]) {
        simd::invert_lanes(simd, size, matrix, Self::row(size), pivots, scratch);
    }
}

/// Numbers of pivots and boundary cells of a front, and what its matrices take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) pivots: usize,
    pub(super) boundary: usize,
}

impl Size {
    /// Values of a pivots x pivots matrix.
    pub(super) fn square<L: Layout>(self) -> usize {
        self.pivots * L::row(self.pivots) * L::WIDTH
    }

    /// Values of a pivots x boundary matrix.
    pub(super) fn wide<L: Layout>(self) -> usize {
        self.pivots * L::row(self.boundary) * L::WIDTH
    }

    /// Values of a boundary x boundary matrix.
    pub(super) fn outer<L: Layout>(self) -> usize {
        self.boundary * L::row(self.boundary) * L::WIDTH
    }

    /// Values of a boundary x pivots matrix.
    pub(super) fn tall<L: Layout>(self) -> usize {
        self.boundary * L::row(self.pivots) * L::WIDTH
    }
}

/// Room for the intermediate matrices of one front.
#[derive(Debug, Default)]
pub(super) struct Scratch<T> {
    pub(super) f12: super::real::Aligned<T>,
    pub(super) df11: super::real::Aligned<T>,
    pub(super) df12: super::real::Aligned<T>,
    pub(super) square: super::real::Aligned<T>,
    pub(super) wide: super::real::Aligned<T>,
    pub(super) half: super::real::Aligned<T>,
    tall: super::real::Aligned<T>,
    dtall: super::real::Aligned<T>,
}

impl<T: Kernels> Scratch<T> {
    /// Room for the largest of the fronts.
    pub(super) fn for_fronts<L: Layout>(sizes: impl Iterator<Item = Size>) -> Self {
        let (mut square, mut wide, mut tall) = (0, 0, 0);
        for size in sizes {
            square = square.max(size.square::<L>());
            wide = wide.max(size.wide::<L>());
            tall = tall.max(size.tall::<L>());
        }
        let zeros = super::real::Aligned::zeros;
        let transposed = if L::WIDTH == 1 { tall } else { 0 };
        Self {
            f12: zeros(wide),
            df11: zeros(square),
            df12: zeros(wide),
            // Inversion takes at most two and a half halves of a square, plus padding.
            square: zeros(2 * square + LANES * LANES),
            wide: zeros(wide),
            half: zeros(wide),
            tall: zeros(transposed),
            dtall: zeros(transposed),
        }
    }
}

/// C = A' B for A (k x m) and B (k x n) by rows; rows of C are as long as those of B.
#[allow(clippy::too_many_arguments)]
pub(super) fn transposed<L: Layout, T: Kernels>(
    simd: Simd,
    (m, n, k): (usize, usize, usize),
    (a, a_col): (&[T], usize),
    (b, b_row): (&[T], usize),
    c: &mut [T],
    update: Update,
    part: Part,
) {
    let product = Product { m, n, k, a, a_row: 1, a_col, b, b_row, b_col: 1, and: None, c, c_row: b_row, update, part };
    L::product(simd, product);
}

/// P in place of F11, K, and -F21 K, to which F22 is still to be added for S, from the upper triangle of F11 and from F12 in
/// the scratch.
pub(super) fn eliminate<L: Layout, T: Kernels>(
    simd: Simd,
    size: Size,
    f11: &mut [T],
    f22: &mut [T],
    gain: &mut [T],
    pivots: &mut [T],
    scratch: &mut Scratch<T>,
) {
    let Size { pivots: p, boundary: b } = size;
    L::invert(simd, p, f11, pivots, &mut scratch.square);
    let (l1, l2) = (L::row(p), L::row(b));
    let f12 = &scratch.f12[..size.wide::<L>()];
    transposed::<L, T>(simd, (p, b, p), (f11, l1), (f12, l2), gain, Update::Set, Part::Full);
    transposed::<L, T>(simd, (b, b, p), (f12, l2), (gain, l2), f22, Update::SetNegative, Part::Upper);
}

/// The derivative of [`eliminate`]: P dF11 P (upper triangle) = -dP, dK, and dS - dF22, from dF11 and dF12 in the scratch.
pub(super) fn differentiate<L: Layout, T: Kernels>(
    simd: Simd,
    size: Size,
    (inverse, gain): (&[T], &[T]),
    df22: &mut [T],
    (dinverse, dgain): (&mut [T], &mut [T]),
    scratch: &mut Scratch<T>,
) {
    let Size { pivots: p, boundary: b } = size;
    let (l1, l2) = (L::row(p), L::row(b));
    let (square, wide) = (size.square::<L>(), size.wide::<L>());
    let df11 = &mut scratch.df11[..square];
    L::mirror(simd, p, df11);
    let spread = &mut scratch.square[..square];
    transposed::<L, T>(simd, (p, p, p), (df11, l1), (inverse, l1), spread, Update::Set, Part::Full);
    transposed::<L, T>(simd, (p, p, p), (spread, l1), (inverse, l1), dinverse, Update::Set, Part::Upper);
    if b == 0 {
        return;
    }
    // dK = P (dF12 - dF11 K).
    let product = &mut scratch.wide[..wide];
    transposed::<L, T>(simd, (p, b, p), (df11, l1), (gain, l2), product, Update::Set, Part::Full);
    let full = &mut scratch.df12[..wide];
    let half = &mut scratch.half[..wide];
    simd::subtract_and_halve(simd, full, half, product);
    transposed::<L, T>(simd, (p, b, p), (inverse, l1), (full, l2), dgain, Update::Set, Part::Full);
    // dS - dF22 = -Y' K - K' Y with Y = dF12 - dF11 K / 2.
    let (m, n, k, update, part) = (b, b, p, Update::SetNegative, Part::Upper);
    let (a_row, a_col, b_row, b_col, c, c_row) = (1, l2, l2, 1, df22, l2);
    let product = Product {
        m,
        n,
        k,
        a: half,
        a_row,
        a_col,
        b: gain,
        b_row,
        b_col,
        and: Some((gain, half)),
        c,
        c_row,
        update,
        part,
    };
    L::product(simd, product);
}

/// Z12 = -K Z22 and the upper triangle of Z11 = P - Z12 K', from the upper triangle of Z22, which is
/// [completed](Layout::complete) on the way.
pub(super) fn invert<L: Layout, T: Kernels>(
    simd: Simd,
    size: Size,
    (inverse, gain): (&[T], &[T]),
    z22: &mut [T],
    (z11, z12): (&mut [T], &mut [T]),
    scratch: &mut Scratch<T>,
) {
    z11.copy_from_slice(inverse);
    if size.boundary == 0 {
        return;
    }
    L::complete(simd, size.boundary, z22);
    turn::<L, T>(simd, size, gain, &mut scratch.tall);
    let columns = Columns { simd, size, gain, tall: &scratch.tall };
    columns.times::<L>(z22, None, z12);
    columns.times_transposed::<L>(z12, None, z11);
}

/// dZ12 and the upper triangle of dZ11, from that of dZ22, after [`invert`] of the same front with the same
/// scratch.
#[allow(clippy::too_many_arguments)]
pub(super) fn differentiate_inverse<L: Layout, T: Kernels>(
    simd: Simd,
    size: Size,
    gain: &[T],
    (dinverse, dgain): (&[T], &[T]),
    (z12, z22): (&[T], &[T]),
    dz22: &mut [T],
    (dz11, dz12): (&mut [T], &mut [T]),
    scratch: &mut Scratch<T>,
) {
    dz11.iter_mut().zip(dinverse).for_each(|(dz11, dinverse)| *dz11 = -*dinverse);
    if size.boundary == 0 {
        return;
    }
    L::complete(simd, size.boundary, dz22);
    turn::<L, T>(simd, size, dgain, &mut scratch.dtall);
    let columns = Columns { simd, size, gain, tall: &scratch.tall };
    let dcolumns = Columns { simd, size, gain: dgain, tall: &scratch.dtall };
    dcolumns.times::<L>(z22, Some((&columns, dz22)), dz12);
    columns.times_transposed::<L>(dz12, Some((z12, &dcolumns)), dz11);
}

/// Writes K' for the dense kernels, which read left factors by columns and right factors by rows.
fn turn<L: Layout, T: Kernels>(simd: Simd, size: Size, gain: &[T], tall: &mut [T]) {
    if L::WIDTH == 1 {
        let (p, b) = (size.pivots, size.boundary);
        simd::transpose(simd, (p, b), gain, L::row(b), tall, L::row(p));
    }
}

/// K as a left factor and K' as a right one.
struct Columns<'a, T> {
    simd: Simd,
    size: Size,
    gain: &'a [T],
    tall: &'a [T],
}

impl<T: Kernels> Columns<'_, T> {
    /// `target = -K Z22`, less another such product.
    fn times<L: Layout>(&self, z22: &[T], other: Option<(&Self, &[T])>, c: &mut [T]) {
        let Size { pivots: p, boundary: b } = self.size;
        let (l1, l2) = (L::row(p), L::row(b));
        let (a, a_row, a_col) = if L::WIDTH == 1 { (self.tall, 1, l1) } else { (self.gain, l2, 1) };
        let and = other.map(|(other, z22)| (if L::WIDTH == 1 { other.tall } else { other.gain }, z22));
        let (m, n, k, update, part) = (p, b, b, Update::SetNegative, Part::Full);
        let product =
            Product { m, n, k, a, a_row, a_col, b: z22, b_row: l2, b_col: 1, and, c, c_row: l2, update, part };
        L::product_symmetric(self.simd, product);
    }

    /// `target -= a K'` and another such product, upper triangle.
    fn times_transposed<L: Layout>(&self, a: &[T], other: Option<(&[T], &Self)>, c: &mut [T]) {
        let Size { pivots: p, boundary: b } = self.size;
        let (l1, l2) = (L::row(p), L::row(b));
        let (b_matrix, b_row, b_col) = if L::WIDTH == 1 { (self.tall, l1, 1) } else { (self.gain, 1, l2) };
        let and = other.map(|(a, other)| (a, if L::WIDTH == 1 { other.tall } else { other.gain }));
        let (m, n, k, update, part) = (p, p, b, Update::Subtract, Part::Upper);
        let product =
            Product { m, n, k, a, a_row: l2, a_col: 1, b: b_matrix, b_row, b_col, and, c, c_row: l1, update, part };
        L::product(self.simd, product);
    }
}
