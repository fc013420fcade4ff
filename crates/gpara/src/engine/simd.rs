//! The dense kernels of the engine, chosen for the processor at run time. All `unsafe` code of the library is in this file.
//!
//! Two layouts. *Dense*: one row-major matrix whose rows are padded to [`LANES`] values; padding holds anything finite and
//! never reaches a real column, because column j of a product depends on column j of its right factor alone. *Lanes*: 16
//! matrices of one shape, entry (i, j) of all of them side by side as one vector.
//!
//! A kernel is written once over [`Vector`] and compiled for each instruction set. NEON is the baseline of 64-bit Arm, so
//! the portable kernels compile to it there. Sums run in the order of the inner index, so results depend on the
//! instruction set (fused multiply-add or not), never on the number of threads.
#![allow(unsafe_code)]

use std::fmt;

use super::real::{LANES, Real};

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// An instruction set that was found on this processor; only [`Simd::detect`] and [`Simd::portable`] make one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Simd(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Simd {
    /// The widest instruction set of this processor.
    pub(crate) fn detect() -> Self {
        *Self::available().first().expect("portable kernels run everywhere")
    }

    /// All instruction sets that this processor has kernels for, widest first.
    pub(crate) fn available() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                found.push(Self(Level::Avx512));
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(Self(Level::Avx2));
            }
        }
        found.push(Self::portable());
        found
    }

    /// Plain Rust, on every processor.
    pub(crate) fn portable() -> Self {
        Self(Level::Portable)
    }
}

impl fmt::Debug for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a product does with what is in its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// C = A B.
    Set,
    /// C = -A B.
    SetNegative,
    /// C -= A B.
    Subtract,
}

/// Which entries of a product are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of them.
    Full,
    /// Those on and above the diagonal; some below may be computed as well.
    Upper,
}

/// Which entries of the right factors in the lanes layout are read. The *squares* of a matrix are those of the tiles of columns
/// on its diagonal; [`complete_squares`] fills them in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// All of them.
    Full,
    /// Those in the squares and above them; those below follow by symmetry.
    Symmetric,
    /// Those in the squares and above them; those below count as 0.
    Triangular,
}

/// C (m x n) from A (m x k) and B (k x n). Entry (i, j) of a matrix is at `i * row + j * col`, in entries; `b_col` must be 1 in
/// the dense layout, and C's columns are adjacent.
#[derive(Debug)]
pub(crate) struct Product<'a, T> {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: &'a [T],
    pub(crate) a_row: usize,
    pub(crate) a_col: usize,
    pub(crate) b: &'a [T],
    pub(crate) b_row: usize,
    pub(crate) b_col: usize,
    /// A second pair of factors of the same shapes and strides, whose product is added to the first.
    pub(crate) and: Option<(&'a [T], &'a [T])>,
    pub(crate) c: &'a mut [T],
    pub(crate) c_row: usize,
    pub(crate) update: Update,
    pub(crate) part: Part,
}

impl<T: Kernels> Product<'_, T> {
    /// The product of dense matrices; columns are computed up to the next multiple of [`LANES`].
    #[track_caller]
    pub(crate) fn dense(self, simd: Simd) {
        assert_eq!(self.b_col, 1, "rows of a dense right factor are adjacent");
        self.check(1, self.n.next_multiple_of(LANES));
        let one_side = self.a_row == 1 || self.a_col == 1;
        let packed = one_side && self.m >= PACKED_ROWS && self.n >= PACKED_COLUMNS && self.k >= PACKED_DEPTH;
        // SAFETY: `check` proved that every index the kernels form is inside its slice; `simd` was detected.
        unsafe {
            match packed {
                true => T::product_packed(simd, &self.raw(Right::Full)),
                false => T::product_dense(simd, &self.raw(Right::Full)),
            }
        }
    }

    /// The product of 16 matrices side by side.
    #[track_caller]
    pub(crate) fn lanes(self, simd: Simd) {
        self.check(LANES, self.n);
        // SAFETY: as in `dense`.
        unsafe { T::product_lanes(simd, &self.raw(Right::Full)) }
    }

    /// The product of 16 matrices side by side with square right factors of which not all is there.
    #[track_caller]
    pub(crate) fn lanes_with(self, simd: Simd, right: Right) {
        let whole = self.n == self.k && self.b_col == 1 && self.part == Part::Full;
        assert!(whole, "a symmetric right factor is square and its tiles of columns are those of its squares");
        self.check(LANES, self.n);
        // SAFETY: as in `dense`; an entry below a square is replaced by one on the other side, which is inside as well.
        unsafe { T::product_lanes(simd, &self.raw(right)) }
    }

    #[track_caller]
    fn check(&self, width: usize, columns: usize) {
        let Self { m, n, k, .. } = *self;
        if m == 0 || n == 0 {
            return;
        }
        assert!(self.c.len() >= ((m - 1) * self.c_row + columns) * width, "target of the product is too short");
        for (a, b) in std::iter::once((self.a, self.b)).chain(self.and).filter(|_| k > 0) {
            let left = ((m - 1) * self.a_row + (k - 1) * self.a_col + 1) * width;
            let right = ((k - 1) * self.b_row + (columns - 1) * self.b_col + 1) * width;
            assert!(a.len() >= left && b.len() >= right, "factors of the product are too short");
        }
    }

    fn raw(self, right: Right) -> Raw<T> {
        Raw {
            right,
            m: self.m,
            n: self.n,
            k: self.k,
            factors: [(self.a, self.b), self.and.unwrap_or((self.a, self.b))].map(|(a, b)| (a.as_ptr(), b.as_ptr())),
            num_factors: 1 + usize::from(self.and.is_some()),
            a_row: self.a_row,
            a_col: self.a_col,
            b_row: self.b_row,
            b_col: self.b_col,
            c: self.c.as_mut_ptr(),
            c_row: self.c_row,
            update: self.update,
            part: self.part,
        }
    }
}

/// A checked [`Product`] as the kernels see it.
pub(crate) struct Raw<T> {
    m: usize,
    n: usize,
    k: usize,
    factors: [(*const T, *const T); 2],
    num_factors: usize,
    a_row: usize,
    a_col: usize,
    b_row: usize,
    b_col: usize,
    c: *mut T,
    c_row: usize,
    update: Update,
    part: Part,
    right: Right,
}

/// A rectangle inside two matrices, in values; each row starts `step` values later than the one above, at the same end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strips {
    pub(crate) rows: usize,
    /// Values of the first row.
    pub(crate) len: usize,
    pub(crate) step: usize,
    pub(crate) source_row: usize,
    pub(crate) target_row: usize,
}

impl Strips {
    #[track_caller]
    fn check<T>(&self, source: &[T], target: &[T]) {
        let Self { rows, len, step, source_row, target_row } = *self;
        assert!((rows - 1) * step <= len, "rows of strips do not end before they start");
        assert!(source.len() >= (rows - 1) * source_row + len, "source of strips is too short");
        assert!(target.len() >= (rows - 1) * target_row + len, "target of strips is too short");
    }

    /// `target = source` in the rectangle.
    #[track_caller]
    pub(crate) fn copy<T: Kernels>(self, simd: Simd, source: &[T], target: &mut [T]) {
        if self.rows > 0 {
            self.check(source, target);
            // SAFETY: `check` proved that all strips are inside both slices; `simd` was detected.
            unsafe { T::copy_strips(simd, self, source.as_ptr(), target.as_mut_ptr()) }
        }
    }

    /// `target += source` in the rectangle.
    #[track_caller]
    pub(crate) fn add<T: Kernels>(self, simd: Simd, source: &[T], target: &mut [T]) {
        if self.rows > 0 {
            self.check(source, target);
            // SAFETY: as in `copy`.
            unsafe { T::add_strips(simd, self, source.as_ptr(), target.as_mut_ptr()) }
        }
    }
}

/// `half = full - product / 2` and `full -= product`, entry by entry: the two right factors of the derivative.
#[track_caller]
pub(crate) fn subtract_and_halve<T: Kernels>(simd: Simd, full: &mut [T], half: &mut [T], product: &[T]) {
    assert!(full.len() == half.len() && full.len() == product.len());
    // SAFETY: the lengths agree; `simd` was detected.
    unsafe { T::subtract_and_halve(simd, full.as_mut_ptr(), half.as_mut_ptr(), product.as_ptr(), product.len()) }
}

/// Copies what is above the diagonal in the squares of 16 symmetric matrices side by side to below it, and multiplies the
/// squares by `factor`: prepares [`Right::Symmetric`] by 1; by one half [`Right::Triangular`] is half of the symmetric matrix.
#[track_caller]
pub(crate) fn complete_squares<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T], row: usize, factor: T) {
    assert!(row >= size && matrix.len() >= size * row * LANES, "matrices to complete");
    // SAFETY: every index is inside the slice by the assertion; `simd` was detected.
    unsafe { T::complete_squares(simd, size, matrix.as_mut_ptr(), row, factor) }
}

/// `target[i][j] = weights[i] source[i][j]` of 16 matrices of so many columns side by side; both have rows of `row` entries.
#[track_caller]
pub(crate) fn scale_rows<T: Kernels>(
    simd: Simd,
    cols: usize,
    row: usize,
    weights: &[T],
    source: &[T],
    target: &mut [T],
) {
    let rows = weights.len() / LANES;
    assert!(row >= cols && source.len() >= rows * row * LANES && target.len() >= rows * row * LANES);
    // SAFETY: every index is inside its slice by the assertion; `simd` was detected.
    unsafe { T::scale_rows(simd, (rows, cols), row, weights.as_ptr(), source.as_ptr(), target.as_mut_ptr()) }
}

/// `out[i] += 2 sum_j a[i][j] b[i][j]` of 16 matrices of so many columns side by side; both have rows of `row` entries.
#[track_caller]
pub(crate) fn add_row_dots<T: Kernels>(simd: Simd, cols: usize, row: usize, a: &[T], b: &[T], out: &mut [T]) {
    let rows = out.len() / LANES;
    assert!(row >= cols && a.len() >= rows * row * LANES && b.len() >= rows * row * LANES);
    // SAFETY: every index is inside its slice by the assertion; `simd` was detected.
    unsafe { T::add_row_dots(simd, (rows, cols), row, a.as_ptr(), b.as_ptr(), out.as_mut_ptr()) }
}

/// `target[j][i] = source[i][j]` of a dense rows x cols source.
#[track_caller]
pub(crate) fn transpose<T: Kernels>(
    simd: Simd,
    (rows, cols): (usize, usize),
    source: &[T],
    source_row: usize,
    target: &mut [T],
    target_row: usize,
) {
    if rows == 0 || cols == 0 {
        return;
    }
    assert!(source.len() >= (rows - 1) * source_row + cols && source_row >= cols, "source of the transposition");
    assert!(target.len() >= (cols - 1) * target_row + rows && target_row >= rows, "target of the transposition");
    // SAFETY: every index is inside its slice by the two assertions; `simd` was detected.
    unsafe { T::transpose(simd, rows, cols, source.as_ptr(), source_row, target.as_mut_ptr(), target_row) }
}

/// Copies the strict upper triangle of a dense square matrix onto its lower one.
#[track_caller]
pub(crate) fn mirror<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T], row: usize) {
    if size == 0 {
        return;
    }
    assert!(matrix.len() >= (size - 1) * row + size && row >= size, "matrix to mirror");
    // SAFETY: every index is inside the slice by the assertion; `simd` was detected.
    unsafe { T::mirror(simd, size, matrix.as_mut_ptr(), row) }
}

/// [`mirror`] of 16 square matrices side by side.
#[track_caller]
pub(crate) fn mirror_lanes<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T], row: usize) {
    assert!(row >= size && matrix.len() >= size * row * LANES, "matrices to mirror");
    // SAFETY: every index is inside the slice by the assertion; `simd` was detected.
    unsafe { T::mirror_lanes(simd, size, matrix.as_mut_ptr(), row) }
}

/// [`invert_lanes`] of one dense matrix of at most [`LANES`] rows whose rows are at least [`LANES`] long.
#[track_caller]
pub(crate) fn invert_small<T: Kernels>(simd: Simd, size: usize, matrix: &mut [T], row: usize, pivots: &mut [T]) {
    assert!(size <= LANES && pivots.len() >= size);
    assert!(size == 0 || matrix.len() >= (size - 1) * row + LANES, "matrix to invert");
    // SAFETY: `size` rows of LANES values are inside the slice by the assertion; `simd` was detected.
    unsafe { T::invert_small(simd, size, matrix.as_mut_ptr(), row, pivots.as_mut_ptr()) }
}

/// Replaces 16 symmetric positive definite matrices, given by their upper triangles, by their full inverses, and `pivots` by
/// the pivots of the elimination (not positive where a matrix is not positive definite).
///
/// `scratch` takes as many vectors as `pivots`.
#[track_caller]
pub(crate) fn invert_lanes<T: Kernels>(
    simd: Simd,
    size: usize,
    matrix: &mut [T],
    row: usize,
    pivots: &mut [T],
    scratch: &mut [T],
) {
    assert!(row >= size && matrix.len() >= size * row * LANES);
    assert!(pivots.len() >= size * LANES && scratch.len() >= size * LANES);
    // SAFETY: every index is inside its slice by the assertion; `simd` was detected.
    unsafe { T::invert_lanes(simd, size, matrix.as_mut_ptr(), row, pivots.as_mut_ptr(), scratch.as_mut_ptr()) }
}

/// `out[k][i] -= sum_j matrix[i][j] x[k][j]` for a dense matrix of so many rows and columns and `count` rows of x; rows of `out`
/// are `rows` long.
#[track_caller]
pub(crate) fn subtract_dots<T: Kernels>(
    simd: Simd,
    (rows, cols, count): (usize, usize, usize),
    (matrix, matrix_row): (&[T], usize),
    (x, x_row): (&[T], usize),
    out: &mut [T],
) {
    if rows == 0 || count == 0 {
        return;
    }
    assert!(matrix_row >= cols && x_row >= cols && out.len() >= count * rows, "shapes of the dot products");
    assert!(matrix.len() >= (rows - 1) * matrix_row + cols && x.len() >= (count - 1) * x_row + cols);
    let (matrix, x) = ((matrix.as_ptr(), matrix_row), (x.as_ptr(), x_row));
    // SAFETY: every index is inside its slice by the assertions; `simd` was detected.
    unsafe { T::subtract_dots(simd, (rows, cols, count), matrix, x, out.as_mut_ptr()) }
}

/// `field[rows[i]] -= sum_k matrix[i][k] field[columns[k]]`, or the sum itself, for 16 matrices side by side with entry (i, k) at
/// `i * strides.0 + k * strides.1`. A field has `count` vectors at each position; rows and columns have no position in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldProduct<'a, T> {
    pub(crate) matrix: &'a [T],
    pub(crate) strides: (usize, usize),
    pub(crate) rows: &'a [u32],
    pub(crate) columns: &'a [u32],
    pub(crate) count: usize,
    pub(crate) update: Update,
}

impl<T: Kernels> FieldProduct<'_, T> {
    /// Runs the product.
    #[track_caller]
    pub(crate) fn run(&self, simd: Simd, field: &mut [T]) {
        let (Some(last_row), Some(last_column)) = (self.rows.len().checked_sub(1), self.columns.len().checked_sub(1))
        else {
            return;
        };
        let positions = field.len() / (self.count * LANES);
        assert!(self.rows.iter().chain(self.columns).all(|&position| (position as usize) < positions));
        assert!(self.matrix.len() > (last_row * self.strides.0 + last_column * self.strides.1) * LANES + LANES - 1);
        // SAFETY: positions and entries are inside their slices by the assertions; `simd` was detected.
        unsafe { T::product_field(simd, self, field.as_mut_ptr()) }
    }
}

/// A vector register of `WIDTH` values.
trait Vector: Copy {
    type Elem: Real;
    const WIDTH: usize;
    /// Side of the square of accumulators that fits the registers, lanes layout.
    const TILE: usize;
    /// Rows of accumulators of two vectors that fit the registers, dense layout.
    const ROWS: usize;

    unsafe fn load(from: *const Self::Elem) -> Self;
    unsafe fn store(self, to: *mut Self::Elem);
    unsafe fn splat(value: Self::Elem) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    /// self + a b.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// The sum of all values.
    #[inline(always)]
    unsafe fn sum(self) -> Self::Elem {
        let mut buffer = [Self::Elem::ZERO; LANES];
        // SAFETY: the buffer has room for the widest vector.
        unsafe { self.store(buffer.as_mut_ptr()) };
        // By halves, so that few additions wait for each other.
        let mut len = Self::WIDTH;
        while len > 1 {
            len /= 2;
            for at in 0..len {
                let other = buffer[at + len];
                buffer[at] += other;
            }
        }
        buffer[0]
    }

    /// The first `count` < WIDTH values, then zeros; what follows them in memory is not touched.
    #[inline(always)]
    unsafe fn load_first(from: *const Self::Elem, count: usize) -> Self {
        let mut buffer = [Self::Elem::ZERO; LANES];
        // SAFETY: the caller has `count` < WIDTH <= LANES readable values at `from`.
        unsafe {
            for at in 0..count {
                *buffer.as_mut_ptr().add(at) = *from.add(at);
            }
            Self::load(buffer.as_ptr())
        }
    }

    /// Stores the first `count` < WIDTH values alone.
    #[inline(always)]
    unsafe fn store_first(self, to: *mut Self::Elem, count: usize) {
        let mut buffer = [Self::Elem::ZERO; LANES];
        // SAFETY: the caller has `count` < WIDTH <= LANES writable values at `to`.
        unsafe {
            self.store(buffer.as_mut_ptr());
            for at in 0..count {
                *to.add(at) = *buffer.as_ptr().add(at);
            }
        }
    }

    /// Transposes a rows x cols part of a WIDTH x WIDTH square; nothing outside of the part is touched.
    #[inline(always)]
    unsafe fn transpose_square(
        (rows, cols): (usize, usize),
        source: *const Self::Elem,
        source_row: usize,
        target: *mut Self::Elem,
        target_row: usize,
    ) {
        // SAFETY: the caller has rows x cols values at `source` and cols x rows at `target`.
        unsafe {
            for i in 0..rows {
                for j in 0..cols {
                    *target.add(j * target_row + i) = *source.add(i * source_row + j);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! x86_vector {
    ($vector:ty, $elem:ty, $width:expr, $tile:expr, $rows:expr, $load:ident, $store:ident, $splat:ident, $add:ident,
     $sub:ident, $mul:ident, $div:ident, $fma:ident, {$($special:item)*}) => {
        impl Vector for $vector {
            type Elem = $elem;
            const WIDTH: usize = $width;
            const TILE: usize = $tile;
            const ROWS: usize = $rows;

            #[inline(always)]
            unsafe fn load(from: *const $elem) -> Self {
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $elem) {
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn splat(value: $elem) -> Self {
                unsafe { $splat(value) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn sub(self, other: Self) -> Self {
                unsafe { $sub(self, other) }
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                unsafe { $mul(self, other) }
            }
            #[inline(always)]
            unsafe fn div(self, other: Self) -> Self {
                unsafe { $div(self, other) }
            }
            #[inline(always)]
            unsafe fn plus_product(self, a: Self, b: Self) -> Self {
                unsafe { $fma(a, b, self) }
            }
            $($special)*
        }
    };
}

/// Loads and stores of a part of an AVX-512 vector.
#[cfg(target_arch = "x86_64")]
macro_rules! masked {
    ($elem:ty, $mask:ty, $load:ident, $store:ident) => {
        #[inline(always)]
        unsafe fn load_first(from: *const $elem, count: usize) -> Self {
            // SAFETY: lanes that the mask leaves out are not read.
            unsafe { $load(((1 << count) - 1) as $mask, from) }
        }
        #[inline(always)]
        unsafe fn store_first(self, to: *mut $elem, count: usize) {
            // SAFETY: lanes that the mask leaves out are not written.
            unsafe { $store(to, ((1 << count) - 1) as $mask, self) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
x86_vector!(
    __m512,
    f32,
    16,
    5,
    12,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_mul_ps,
    _mm512_div_ps,
    _mm512_fmadd_ps,
    {
        masked!(f32, u16, _mm512_maskz_loadu_ps, _mm512_mask_storeu_ps);

        #[inline(always)]
        unsafe fn transpose_square(
            part: (usize, usize),
            source: *const f32,
            source_row: usize,
            target: *mut f32,
            target_row: usize,
        ) {
            // SAFETY: as the caller's.
            unsafe { transpose_16x16_f32(part, source, source_row, target, target_row) }
        }
    }
);
#[cfg(target_arch = "x86_64")]
x86_vector!(
    __m512d,
    f64,
    8,
    5,
    12,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_set1_pd,
    _mm512_add_pd,
    _mm512_sub_pd,
    _mm512_mul_pd,
    _mm512_div_pd,
    _mm512_fmadd_pd,
    {
        masked!(f64, u8, _mm512_maskz_loadu_pd, _mm512_mask_storeu_pd);

        #[inline(always)]
        unsafe fn transpose_square(
            part: (usize, usize),
            source: *const f64,
            source_row: usize,
            target: *mut f64,
            target_row: usize,
        ) {
            // SAFETY: as the caller's.
            unsafe { transpose_8x8_f64(part, source, source_row, target, target_row) }
        }
    }
);
#[cfg(target_arch = "x86_64")]
x86_vector!(
    __m256,
    f32,
    8,
    3,
    6,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_div_ps,
    _mm256_fmadd_ps,
    {}
);
#[cfg(target_arch = "x86_64")]
x86_vector!(
    __m256d,
    f64,
    4,
    3,
    6,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_set1_pd,
    _mm256_add_pd,
    _mm256_sub_pd,
    _mm256_mul_pd,
    _mm256_div_pd,
    _mm256_fmadd_pd,
    {}
);

/// Four values in plain Rust.
#[derive(Clone, Copy)]
struct Quad<T>([T; 4]);

impl<T: Real> Vector for Quad<T> {
    type Elem = T;
    const WIDTH: usize = 4;
    const TILE: usize = 2;
    const ROWS: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller has `WIDTH` readable values at `from`; arrays of T need no more than T's alignment.
        Self(unsafe { from.cast::<[T; 4]>().read() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller has `WIDTH` writable values at `to`.
        unsafe { to.cast::<[T; 4]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Self([value; 4])
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] + other.0[at]))
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] - other.0[at]))
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] * other.0[at]))
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] / other.0[at]))
    }
    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] + a.0[at] * b.0[at]))
    }
}

/// Vectors of a left factor that stay in the first-level cache, lanes layout.
const RESIDENT: usize = 384;

/// Inner dimension worked on at once, so that a strip of the right factor stays in the first-level cache.
const DEPTH: usize = 256;

/// From so many rows, columns and inner indices on, factors are copied in the order in which they are read: the rows of a
/// large matrix lie pages apart.
const PACKED_ROWS: usize = 128;
const PACKED_COLUMNS: usize = 256;
const PACKED_DEPTH: usize = 128;

/// Rows of the left factor that are copied at once, so that they stay in the second-level cache.
const PANEL: usize = 144;

/// Room on the stack, not initialised, that starts on a cache line.
#[repr(align(64))]
struct Room<T, const LEN: usize>(std::mem::MaybeUninit<[T; LEN]>);

impl<T, const LEN: usize> Room<T, LEN> {
    #[inline(always)]
    fn new() -> Self {
        Self(std::mem::MaybeUninit::uninit())
    }

    #[inline(always)]
    fn start(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

/// C (M rows, N vectors) from one pass over the inner index; `UNIT` if consecutive rows of A are adjacent.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn dense_tile<V: Vector, const M: usize, const N: usize, const UNIT: bool>(
    depth: usize,
    factors: &[(*const V::Elem, *const V::Elem)],
    (a_row, a_col): (usize, usize),
    b_row: usize,
    c: *mut V::Elem,
    c_row: usize,
    (accumulate, negative): (bool, bool),
) {
    // SAFETY: the caller's bounds cover M x depth of A, depth x N vectors of B and M x N vectors of C.
    unsafe {
        let a_row = if UNIT { 1 } else { a_row };
        let bias = V::splat(V::Elem::BIAS);
        let mut sums = [[bias; N]; M];
        for &(mut a, mut b) in factors {
            for _ in 0..depth {
                let mut right = [V::splat(V::Elem::ZERO); N];
                for n in 0..N {
                    right[n] = V::load(b.add(n * V::WIDTH));
                }
                for m in 0..M {
                    let left = V::splat(*a.add(m * a_row));
                    for n in 0..N {
                        sums[m][n] = sums[m][n].plus_product(left, right[n]);
                    }
                }
                a = a.wrapping_add(a_col);
                b = b.wrapping_add(b_row);
            }
        }
        for m in 0..M {
            for n in 0..N {
                let to = c.add(m * c_row + n * V::WIDTH);
                let start = if accumulate { V::load(to) } else { V::splat(V::Elem::ZERO) };
                let sum = sums[m][n].sub(bias);
                let sum = if negative { start.sub(sum) } else { start.add(sum) };
                sum.store(to);
            }
        }
    }
}

#[inline(always)]
unsafe fn product_dense<V: Vector>(p: &Raw<V::Elem>) {
    let columns = p.n.next_multiple_of(LANES);
    let strip = 2 * V::WIDTH;
    let num_blocks = p.m.div_ceil(V::ROWS);
    let mut k0 = 0;
    loop {
        let depth = (p.k - k0).min(DEPTH);
        let mode = (p.update == Update::Subtract || k0 > 0, p.update != Update::Set);
        for j in (0..columns).step_by(strip) {
            let wide = j + strip <= columns;
            for block in 0..num_blocks {
                // Blocks of nearly equal height, so that none is a single row.
                let (i, end) = (block * p.m / num_blocks, (block + 1) * p.m / num_blocks);
                if p.part == Part::Upper && j + strip <= i {
                    break;
                }
                // SAFETY: rows i..end < m, columns j..j + strip <= `columns`, inner index below k: inside by `Product::check`.
                unsafe {
                    let mut factors = p.factors;
                    for (a, b) in &mut factors {
                        *a = a.add(i * p.a_row + k0 * p.a_col);
                        *b = b.add(k0 * p.b_row + j);
                    }
                    let (factors, c) = (&factors[..p.num_factors], p.c.add(i * p.c_row + j));
                    let strides = (p.a_row, p.a_col);
                    macro_rules! rows {
                        ($($m:literal)*) => {
                            match (end - i, wide, p.a_row == 1) {
                                $(($m, true, true) => dense_tile::<V, $m, 2, true>(depth, factors, strides, p.b_row, c, p.c_row, mode),
                                ($m, true, false) => dense_tile::<V, $m, 2, false>(depth, factors, strides, p.b_row, c, p.c_row, mode),
                                ($m, false, true) => dense_tile::<V, $m, 1, true>(depth, factors, strides, p.b_row, c, p.c_row, mode),
                                ($m, false, false) => dense_tile::<V, $m, 1, false>(depth, factors, strides, p.b_row, c, p.c_row, mode),)*
                                _ => unreachable!("a block has at most ROWS <= 12 rows"),
                            }
                        };
                    }
                    rows!(1 2 3 4 5 6 7 8 9 10 11 12);
                }
            }
        }
        k0 += depth;
        if k0 >= p.k {
            break;
        }
    }
}

/// Copies `rows` x `depth` entries of a left factor with unit stride in one direction so that the rows of each inner index are
/// adjacent. Values after the copy are overwritten, up to one vector of them.
#[inline(always)]
unsafe fn pack_left<V: Vector>(
    (rows, depth): (usize, usize),
    from: *const V::Elem,
    (a_row, a_col): (usize, usize),
    to: *mut V::Elem,
) {
    // SAFETY: the caller has rows x depth entries at `from`, and room for as many and one vector at `to`.
    unsafe {
        if a_row == 1 {
            for at in 0..depth {
                let (from, to) = (from.add(at * a_col), to.add(at * rows));
                let mut i = 0;
                while i + V::WIDTH <= rows {
                    V::load(from.add(i)).store(to.add(i));
                    i += V::WIDTH;
                }
                if i < rows {
                    V::load_first(from.add(i), rows - i).store(to.add(i));
                }
            }
        } else {
            for i in (0..rows).step_by(V::WIDTH) {
                for at in (0..depth).step_by(V::WIDTH) {
                    let part = ((rows - i).min(V::WIDTH), (depth - at).min(V::WIDTH));
                    V::transpose_square(part, from.add(i * a_row + at), a_row, to.add(at * rows + i), rows);
                }
            }
        }
    }
}

/// [`product_dense`] of large factors: rows of A are copied a panel at a time, columns of B a strip at a time.
#[inline(always)]
unsafe fn product_packed<V: Vector>(p: &Raw<V::Elem>) {
    let mut left = Room::<V::Elem, { PANEL * DEPTH + LANES }>::new();
    let mut right = Room::<V::Elem, { 2 * LANES * DEPTH }>::new();
    let (left, right) = (left.start(), right.start());
    let columns = p.n.next_multiple_of(LANES);
    let strip = 2 * V::WIDTH;
    let num_panels = p.m.div_ceil(PANEL);
    let num_depths = p.k.div_ceil(DEPTH);
    for at in 0..p.num_factors * num_depths {
        let ((a, b), chunk) = (p.factors[at / num_depths], at % num_depths);
        let (k0, k1) = (chunk * p.k / num_depths, (chunk + 1) * p.k / num_depths);
        let depth = k1 - k0;
        let mode = (p.update == Update::Subtract || at > 0, p.update != Update::Set);
        for panel in 0..num_panels {
            let (first, last) = (panel * p.m / num_panels, (panel + 1) * p.m / num_panels);
            let rows = last - first;
            let num_blocks = rows.div_ceil(V::ROWS);
            let block_rows = |block: usize| (block * rows / num_blocks, (block + 1) * rows / num_blocks);
            // SAFETY: rows first..last < m, columns j..j + strip <= `columns`, inner indices k0..k1 <= k: inside by
            // `Product::check`. A panel has at most PANEL rows, a strip two vectors, both at most DEPTH inner indices.
            unsafe {
                for block in 0..num_blocks {
                    let (i, end) = block_rows(block);
                    let from = a.add((first + i) * p.a_row + k0 * p.a_col);
                    pack_left::<V>((end - i, depth), from, (p.a_row, p.a_col), left.add(i * depth));
                }
                for j in (0..columns).step_by(strip) {
                    if p.part == Part::Upper && j + strip <= first {
                        continue;
                    }
                    let wide = j + strip <= columns;
                    for at in 0..depth {
                        let (from, to) = (b.add((k0 + at) * p.b_row + j), right.add(at * strip));
                        V::load(from).store(to);
                        if wide {
                            V::load(from.add(V::WIDTH)).store(to.add(V::WIDTH));
                        }
                    }
                    for block in 0..num_blocks {
                        let (i, end) = block_rows(block);
                        if p.part == Part::Upper && j + strip <= first + i {
                            break;
                        }
                        let (factors, strides) =
                            ([(left.add(i * depth).cast_const(), right.cast_const())], (1, end - i));
                        let c = p.c.add((first + i) * p.c_row + j);
                        macro_rules! rows {
                            ($($m:literal)*) => {
                                match (end - i, wide) {
                                    $(($m, true) => dense_tile::<V, $m, 2, true>(depth, &factors, strides, strip, c, p.c_row, mode),
                                    ($m, false) => dense_tile::<V, $m, 1, true>(depth, &factors, strides, strip, c, p.c_row, mode),)*
                                    _ => unreachable!("a block has at most ROWS <= 12 rows"),
                                }
                            };
                        }
                        rows!(1 2 3 4 5 6 7 8 9 10 11 12);
                    }
                }
            }
        }
    }
}

/// C (M x N entries of one vector each) in the lanes layout.
#[inline(always)]
unsafe fn lanes_tile<V: Vector, const M: usize, const N: usize>(
    p: &Raw<V::Elem>,
    (i, j): (usize, usize),
    offset: usize,
) {
    // SAFETY: the caller's tile lies inside m x n, so all indices are inside by `Product::check`.
    unsafe {
        let bias = V::splat(V::Elem::BIAS);
        let mut sums = [[bias; N]; M];
        // Inner indices with the start and the strides of B: as they are, and those below the tile's square on the diagonal,
        // read from the other side of the diagonal.
        let above = (0, if p.right == Right::Full { p.k } else { j + N }, j * p.b_col, (p.b_row, p.b_col));
        let below = (j + N, p.k, j * p.b_row + j + N, (1, p.b_row));
        let num_parts = if p.right == Right::Symmetric { 2 } else { 1 };
        for pass in 0..p.num_factors * num_parts {
            let (a, b) = p.factors[pass / num_parts];
            let (first, end, start, (b_row, b_col)) = if pass % num_parts == 0 { above } else { below };
            let mut a = a.wrapping_add((i * p.a_row + first * p.a_col) * LANES + offset);
            let mut b = b.wrapping_add(start * LANES + offset);
            for _ in first..end {
                let mut right = [V::splat(V::Elem::ZERO); N];
                for n in 0..N {
                    right[n] = V::load(b.add(n * b_col * LANES));
                }
                for m in 0..M {
                    let left = V::load(a.add(m * p.a_row * LANES));
                    for n in 0..N {
                        sums[m][n] = sums[m][n].plus_product(left, right[n]);
                    }
                }
                a = a.wrapping_add(p.a_col * LANES);
                b = b.wrapping_add(b_row * LANES);
            }
        }
        let (accumulate, negative) = (p.update == Update::Subtract, p.update != Update::Set);
        for m in 0..M {
            for n in 0..N {
                let to = p.c.add(((i + m) * p.c_row + j + n) * LANES + offset);
                let start = if accumulate { V::load(to) } else { V::splat(V::Elem::ZERO) };
                let sum = sums[m][n].sub(bias);
                let sum = if negative { start.sub(sum) } else { start.add(sum) };
                sum.store(to);
            }
        }
    }
}

#[inline(always)]
unsafe fn product_lanes<V: Vector>(p: &Raw<V::Elem>) {
    // So many rows of A stay in the first-level cache while all columns of B pass by.
    let rows_at_once = (RESIDENT / (p.k * p.num_factors).max(1)).max(V::TILE);
    let num_groups = p.m.div_ceil(rows_at_once);
    for offset in (0..LANES).step_by(V::WIDTH) {
        for group in 0..num_groups {
            let (first, end) = (group * p.m / num_groups, (group + 1) * p.m / num_groups);
            let left = if p.part == Part::Upper { first } else { 0 };
            // Tiles of nearly equal sides, so that none is a single row or column.
            let rows = end - first;
            let (row_tiles, col_tiles) = (rows.div_ceil(V::TILE), p.n.saturating_sub(left).div_ceil(V::TILE));
            for col_tile in 0..col_tiles {
                let (j, j_end) = tile_columns::<V>(col_tile, (left, p.n));
                for row_tile in 0..row_tiles {
                    let (i, i_end) = (first + row_tile * rows / row_tiles, first + (row_tile + 1) * rows / row_tiles);
                    if p.part == Part::Upper && j_end <= i {
                        break;
                    }
                    macro_rules! tiles {
                        ($(($m:literal, $n:literal))*) => {
                            match (i_end - i, j_end - j) {
                                $(($m, $n) => lanes_tile::<V, $m, $n>(p, (i, j), offset),)*
                                _ => unreachable!("a tile has at most TILE <= 5 rows and columns"),
                            }
                        };
                    }
                    // SAFETY: rows and columns of tiles stay below m and n.
                    unsafe {
                        tiles!((1, 1)(1, 2)(1, 3)(1, 4)(1, 5)(2, 1)(2, 2)(2, 3)(2, 4)(2, 5)(3, 1)(3, 2)(3, 3)(3, 4)(
                            3, 5
                        )(4, 1)(4, 2)(4, 3)(4, 4)(4, 5)(5, 1)(5, 2)(5, 3)(5, 4)(5, 5));
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn copy_strips<V: Vector>(strips: Strips, source: *const V::Elem, target: *mut V::Elem) {
    // SAFETY: as the caller's.
    unsafe { each_strip::<V, false>(strips, source, target) }
}

#[inline(always)]
unsafe fn add_strips<V: Vector>(strips: Strips, source: *const V::Elem, target: *mut V::Elem) {
    // SAFETY: as the caller's.
    unsafe { each_strip::<V, true>(strips, source, target) }
}

#[inline(always)]
unsafe fn each_strip<V: Vector, const ADD: bool>(strips: Strips, source: *const V::Elem, target: *mut V::Elem) {
    let Strips { rows, len, step, source_row, target_row } = strips;
    for row in 0..rows {
        let (start, len) = (row * step, len - row * step);
        // SAFETY: the caller has `rows` strips on both sides; `at` stays below the length of this one.
        unsafe {
            let (source, target) = (source.add(row * source_row + start), target.add(row * target_row + start));
            let mut at = 0;
            while at + V::WIDTH <= len {
                let value = V::load(source.add(at));
                let value = if ADD { V::load(target.add(at)).add(value) } else { value };
                value.store(target.add(at));
                at += V::WIDTH;
            }
            if at < len {
                let value = V::load_first(source.add(at), len - at);
                let value = if ADD { V::load_first(target.add(at), len - at).add(value) } else { value };
                value.store_first(target.add(at), len - at);
            }
        }
    }
}

#[inline(always)]
unsafe fn subtract_and_halve_values<V: Vector>(
    full: *mut V::Elem,
    half: *mut V::Elem,
    product: *const V::Elem,
    len: usize,
) {
    let one_half = V::Elem::from_f64(0.5);
    // SAFETY: the caller gives `len` values in all three; the loops stay below it.
    unsafe {
        let halves = V::splat(one_half);
        let mut at = 0;
        while at + V::WIDTH <= len {
            let (value, product) = (V::load(full.add(at)), V::load(product.add(at)));
            value.sub(halves.mul(product)).store(half.add(at));
            value.sub(product).store(full.add(at));
            at += V::WIDTH;
        }
        while at < len {
            let (value, product) = (*full.add(at), *product.add(at));
            *half.add(at) = value - one_half * product;
            *full.add(at) = value - product;
            at += 1;
        }
    }
}

/// The columns of a tile of [`product_lanes`]; nearly equal, so that none is a single one.
#[inline(always)]
fn tile_columns<V: Vector>(tile: usize, (left, right): (usize, usize)) -> (usize, usize) {
    let cols = right - left;
    let num_tiles = cols.div_ceil(V::TILE);
    (left + tile * cols / num_tiles, left + (tile + 1) * cols / num_tiles)
}

#[inline(always)]
unsafe fn complete_squares_lanes<V: Vector>(size: usize, matrix: *mut V::Elem, row: usize, factor: V::Elem) {
    // SAFETY: rows and columns stay below `size`, lanes below LANES.
    unsafe {
        let factor = V::splat(factor);
        for tile in 0..size.div_ceil(V::TILE) {
            let (first, end) = tile_columns::<V>(tile, (0, size));
            for i in first..end {
                for j in i..end {
                    for offset in (0..LANES).step_by(V::WIDTH) {
                        let value = V::load(matrix.add((i * row + j) * LANES + offset)).mul(factor);
                        value.store(matrix.add((i * row + j) * LANES + offset));
                        value.store(matrix.add((j * row + i) * LANES + offset));
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn scale_rows_lanes<V: Vector>(
    (rows, cols): (usize, usize),
    row: usize,
    weights: *const V::Elem,
    source: *const V::Elem,
    target: *mut V::Elem,
) {
    // SAFETY: the caller has `rows` rows of `cols` <= `row` entries of LANES values on both sides, and as many weights.
    unsafe {
        for i in 0..rows {
            for offset in (0..LANES).step_by(V::WIDTH) {
                let weight = V::load(weights.add(i * LANES + offset));
                for j in 0..cols {
                    let at = (i * row + j) * LANES + offset;
                    V::load(source.add(at)).mul(weight).store(target.add(at));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn add_row_dots_lanes<V: Vector>(
    (rows, cols): (usize, usize),
    row: usize,
    a: *const V::Elem,
    b: *const V::Elem,
    out: *mut V::Elem,
) {
    // SAFETY: the caller has `rows` rows of `cols` <= `row` entries of LANES values in both, and as many results.
    unsafe {
        for i in 0..rows {
            for offset in (0..LANES).step_by(V::WIDTH) {
                // Four sums, so that they do not wait for each other.
                let mut sums = [V::splat(V::Elem::ZERO); 4];
                let product = |sum: V, j: usize| {
                    let at = (i * row + j) * LANES + offset;
                    sum.plus_product(V::load(a.add(at)), V::load(b.add(at)))
                };
                let whole = cols - cols % 4;
                for j in (0..whole).step_by(4) {
                    sums = [
                        product(sums[0], j),
                        product(sums[1], j + 1),
                        product(sums[2], j + 2),
                        product(sums[3], j + 3),
                    ];
                }
                for j in whole..cols {
                    sums[0] = product(sums[0], j);
                }
                let sum = sums[0].add(sums[1]).add(sums[2].add(sums[3]));
                let out = out.add(i * LANES + offset);
                V::load(out).add(sum.add(sum)).store(out);
            }
        }
    }
}

#[inline(always)]
unsafe fn transpose_dense<V: Vector>(
    rows: usize,
    cols: usize,
    source: *const V::Elem,
    source_row: usize,
    target: *mut V::Elem,
    target_row: usize,
) {
    // SAFETY: squares lie inside rows x cols.
    unsafe {
        for i in (0..rows).step_by(V::WIDTH) {
            for j in (0..cols).step_by(V::WIDTH) {
                let (from, to) = (source.add(i * source_row + j), target.add(j * target_row + i));
                let part = ((rows - i).min(V::WIDTH), (cols - j).min(V::WIDTH));
                V::transpose_square(part, from, source_row, to, target_row);
            }
        }
    }
}

#[inline(always)]
unsafe fn mirror_dense<V: Vector>(size: usize, matrix: *mut V::Elem, row: usize) {
    let mut buffer = [V::Elem::ZERO; LANES * LANES];
    // SAFETY: squares lie inside size x size; those read and written do not overlap, but for those on the diagonal, which
    // take a way round by the buffer of at least WIDTH x WIDTH values.
    unsafe {
        for i in (0..size).step_by(V::WIDTH) {
            let rows = (size - i).min(V::WIDTH);
            let (diagonal, turned) = (matrix.add(i * (row + 1)), buffer.as_mut_ptr());
            V::transpose_square((rows, rows), diagonal, row, turned, V::WIDTH);
            for at in 1..rows {
                V::load(turned.add(at * V::WIDTH)).store_first(diagonal.add(at * row), at);
            }
            for j in (i + V::WIDTH..size).step_by(V::WIDTH) {
                let part = (rows, (size - j).min(V::WIDTH));
                V::transpose_square(part, matrix.add(i * row + j), row, matrix.add(j * row + i), row);
            }
        }
    }
}

#[inline(always)]
unsafe fn mirror_lanes_upper<V: Vector>(size: usize, matrix: *mut V::Elem, row: usize) {
    // SAFETY: rows and columns stay below `size`, lanes below LANES.
    unsafe {
        for i in 0..size {
            for j in i + 1..size {
                for offset in (0..LANES).step_by(V::WIDTH) {
                    V::load(matrix.add((i * row + j) * LANES + offset))
                        .store(matrix.add((j * row + i) * LANES + offset));
                }
            }
        }
    }
}

/// Gauss-Jordan elimination in place, one row of at most LANES values at a time.
#[inline(always)]
unsafe fn invert_small_dense<V: Vector>(size: usize, matrix: *mut V::Elem, row: usize, pivots: *mut V::Elem) {
    // SAFETY: the caller has `size` <= LANES rows of LANES values each.
    unsafe {
        for i in 0..size {
            for j in i + 1..size {
                *matrix.add(j * row + i) = *matrix.add(i * row + j);
            }
        }
        // Vectors that end or start in the middle of these have a 1, or the only 0, at any place: single values that are stored
        // into a row would hold up the next load of the row.
        let (mut unit, mut others) = ([V::Elem::ZERO; 2 * LANES], [V::Elem::ONE; 2 * LANES]);
        (unit[LANES], others[LANES]) = (V::Elem::ONE, V::Elem::ZERO);
        for k in 0..size {
            let own = matrix.add(k * row);
            let pivot = *own.add(k);
            *pivots.add(k) = pivot;
            let inverse = V::splat(V::Elem::ONE / pivot);
            for at in (0..LANES).step_by(V::WIDTH) {
                let (unit, others) = (unit.as_ptr().add(LANES + at - k), others.as_ptr().add(LANES + at - k));
                V::load(own.add(at)).mul(V::load(others)).add(V::load(unit)).mul(inverse).store(own.add(at));
            }
            for i in 0..size {
                if i == k {
                    continue;
                }
                let other = matrix.add(i * row);
                let factor = V::splat(-*other.add(k));
                for at in (0..LANES).step_by(V::WIDTH) {
                    let kept = V::load(other.add(at)).mul(V::load(others.as_ptr().add(LANES + at - k)));
                    kept.plus_product(factor, V::load(own.add(at))).store(other.add(at));
                }
            }
        }
    }
}

/// Sweeps every pivot in turn: A_ij -= A_ik A_kj / A_kk, which leaves -A^-1.
#[inline(always)]
unsafe fn invert_lanes_upper<V: Vector>(
    size: usize,
    matrix: *mut V::Elem,
    row: usize,
    pivots: *mut V::Elem,
    scratch: *mut V::Elem,
) {
    for offset in (0..LANES).step_by(V::WIDTH) {
        // SAFETY: rows and columns stay below `size`, lanes below LANES.
        unsafe {
            let entry = |i: usize, j: usize| matrix.wrapping_add((i * row + j) * LANES + offset);
            let upper = |i: usize, j: usize| if i < j { entry(i, j) } else { entry(j, i) };
            let column = |i: usize| scratch.wrapping_add(i * LANES + offset);
            for k in 0..size {
                let pivot = V::load(entry(k, k));
                pivot.store(pivots.add(k * LANES + offset));
                let inverse = V::splat(V::Elem::ONE).div(pivot);
                for i in 0..size {
                    V::load(upper(i, k)).store(column(i));
                }
                for i in 0..size {
                    if i == k {
                        continue;
                    }
                    let factor = V::splat(V::Elem::ZERO).sub(V::load(column(i)).mul(inverse));
                    for j in i..size {
                        if j != k {
                            V::load(entry(i, j)).plus_product(factor, V::load(column(j))).store(entry(i, j));
                        }
                    }
                }
                for i in 0..size {
                    V::load(column(i)).mul(inverse).store(upper(i, k));
                }
                V::splat(V::Elem::ZERO).sub(inverse).store(entry(k, k));
            }
            for i in 0..size {
                for j in i..size {
                    let value = V::splat(V::Elem::ZERO).sub(V::load(entry(i, j)));
                    value.store(entry(i, j));
                    value.store(entry(j, i));
                }
            }
        }
    }
}

/// The dot products of ROWS rows with a part of a row of x, each with a sum of its own.
#[inline(always)]
unsafe fn subtract_dots_tile<V: Vector, const ROWS: usize>(
    cols: usize,
    matrix: (*const V::Elem, usize),
    x: *const V::Elem,
    out: *mut V::Elem,
) {
    // SAFETY: the caller has ROWS rows of `cols` values, as many values of x, and ROWS results.
    unsafe {
        let bias = V::splat(V::Elem::BIAS);
        let full = cols - cols % V::WIDTH;
        let mut sums = [bias; ROWS];
        for j in (0..full).step_by(V::WIDTH) {
            let x = V::load(x.add(j));
            for i in 0..ROWS {
                sums[i] = sums[i].plus_product(V::load(matrix.0.add(i * matrix.1 + j)), x);
            }
        }
        if full < cols {
            let x = V::load_first(x.add(full), cols - full);
            for i in 0..ROWS {
                let values = V::load_first(matrix.0.add(i * matrix.1 + full), cols - full);
                sums[i] = sums[i].plus_product(values, x);
            }
        }
        for i in 0..ROWS {
            *out.add(i) -= sums[i].sub(bias).sum();
        }
    }
}

#[inline(always)]
unsafe fn subtract_dots_dense<V: Vector>(
    (rows, cols, count): (usize, usize, usize),
    (matrix, matrix_row): (*const V::Elem, usize),
    (x, x_row): (*const V::Elem, usize),
    out: *mut V::Elem,
) {
    const TALL: usize = 8;
    let whole = rows - rows % TALL;
    for i in (0..whole).step_by(TALL) {
        for k in 0..count {
            // SAFETY: rows of the matrix stay below `rows`, those of x and of the results below `count`.
            unsafe {
                let (own, x, out) = (matrix.add(i * matrix_row), x.add(k * x_row), out.add(k * rows + i));
                subtract_dots_tile::<V, TALL>(cols, (own, matrix_row), x, out);
            }
        }
    }
    for i in whole..rows {
        for k in 0..count {
            // SAFETY: as above.
            unsafe {
                let (own, x, out) = (matrix.add(i * matrix_row), x.add(k * x_row), out.add(k * rows + i));
                subtract_dots_tile::<V, 1>(cols, (own, matrix_row), x, out);
            }
        }
    }
}

/// M positions and N of their vectors of a [`FieldProduct`].
#[inline(always)]
unsafe fn field_tile<V: Vector, const M: usize, const N: usize>(
    p: &FieldProduct<'_, V::Elem>,
    field: *mut V::Elem,
    (i, j): (usize, usize),
    offset: usize,
) {
    // SAFETY: the caller's tile lies inside rows x count, so all indices are inside by the assertions of `run`.
    unsafe {
        let bias = V::splat(V::Elem::BIAS);
        let mut sums = [[bias; N]; M];
        let vectors = |position: u32| field.add((position as usize * p.count + j) * LANES + offset);
        let mut matrix = p.matrix.as_ptr().add(i * p.strides.0 * LANES + offset);
        for &position in p.columns {
            let from = vectors(position);
            let mut right = [V::splat(V::Elem::ZERO); N];
            for n in 0..N {
                right[n] = V::load(from.add(n * LANES));
            }
            for m in 0..M {
                let left = V::load(matrix.add(m * p.strides.0 * LANES));
                for n in 0..N {
                    sums[m][n] = sums[m][n].plus_product(left, right[n]);
                }
            }
            matrix = matrix.wrapping_add(p.strides.1 * LANES);
        }
        let (accumulate, negative) = (p.update == Update::Subtract, p.update != Update::Set);
        for m in 0..M {
            let to = vectors(*p.rows.get_unchecked(i + m));
            for n in 0..N {
                let to = to.add(n * LANES);
                let start = if accumulate { V::load(to) } else { V::splat(V::Elem::ZERO) };
                let sum = sums[m][n].sub(bias);
                let sum = if negative { start.sub(sum) } else { start.add(sum) };
                sum.store(to);
            }
        }
    }
}

#[inline(always)]
unsafe fn product_field<V: Vector>(p: &FieldProduct<'_, V::Elem>, field: *mut V::Elem) {
    // A single column takes as many rows at once as hide the latency of the sums, whose order is the same.
    let tall = if p.count == 1 { 8 } else { V::TILE };
    let (row_tiles, col_tiles) = (p.rows.len().div_ceil(tall), p.count.div_ceil(V::TILE));
    for offset in (0..LANES).step_by(V::WIDTH) {
        for row_tile in 0..row_tiles {
            let (i, i_end) = (row_tile * p.rows.len() / row_tiles, (row_tile + 1) * p.rows.len() / row_tiles);
            for col_tile in 0..col_tiles {
                let (j, j_end) = (col_tile * p.count / col_tiles, (col_tile + 1) * p.count / col_tiles);
                macro_rules! tiles {
                    ($(($m:literal, $n:literal))*) => {
                        match (i_end - i, j_end - j) {
                            $(($m, $n) => field_tile::<V, $m, $n>(p, field, (i, j), offset),)*
                            _ => unreachable!("a tile has at most TILE <= 5 rows and columns, or at most 8 rows"),
                        }
                    };
                }
                // SAFETY: rows and columns of tiles stay below their numbers.
                unsafe {
                    tiles!((1, 1)(1, 2)(1, 3)(1, 4)(1, 5)(2, 1)(2, 2)(2, 3)(2, 4)(2, 5)(3, 1)(3, 2)(3, 3)(3, 4)(3, 5)(
                        4, 1
                    )(4, 2)(4, 3)(4, 4)(4, 5)(5, 1)(5, 2)(5, 3)(5, 4)(5, 5)(6, 1)(7, 1)(
                        8, 1
                    ));
                }
            }
        }
    }
}

/// A part of 16 x 16 in registers: pairs of rows, pairs of pairs, then 128-bit quarters twice.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_16x16_f32(
    (num_rows, num_cols): (usize, usize),
    source: *const f32,
    source_row: usize,
    target: *mut f32,
    target_row: usize,
) {
    // SAFETY: the caller has num_rows x num_cols values at `source`, as many at `target`, and AVX-512; masks and tests keep
    // to them.
    unsafe {
        let (of_rows, of_cols) = (((1_u32 << num_rows) - 1) as u16, ((1_u32 << num_cols) - 1) as u16);
        let mut rows = [_mm512_setzero_ps(); 16];
        for (i, row) in rows.iter_mut().enumerate() {
            if i < num_rows {
                *row = _mm512_maskz_loadu_ps(of_cols, source.add(i * source_row));
            }
        }
        let mut pairs = [_mm512_setzero_ps(); 16];
        for i in 0..8 {
            pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
        }
        // quads[4 g + c]: rows 4 g..4 g + 4 of columns c, c + 4, c + 8, c + 12.
        let mut quads = [_mm512_setzero_ps(); 16];
        for group in 0..4 {
            let first = _mm512_castps_pd(pairs[4 * group]);
            let second = _mm512_castps_pd(pairs[4 * group + 1]);
            let third = _mm512_castps_pd(pairs[4 * group + 2]);
            let fourth = _mm512_castps_pd(pairs[4 * group + 3]);
            quads[4 * group] = _mm512_castpd_ps(_mm512_unpacklo_pd(first, third));
            quads[4 * group + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(first, third));
            quads[4 * group + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(second, fourth));
            quads[4 * group + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(second, fourth));
        }
        for c in 0..4 {
            let low_even = _mm512_shuffle_f32x4::<0x88>(quads[c], quads[4 + c]);
            let low_odd = _mm512_shuffle_f32x4::<0xdd>(quads[c], quads[4 + c]);
            let high_even = _mm512_shuffle_f32x4::<0x88>(quads[8 + c], quads[12 + c]);
            let high_odd = _mm512_shuffle_f32x4::<0xdd>(quads[8 + c], quads[12 + c]);
            let columns = [
                (c, _mm512_shuffle_f32x4::<0x88>(low_even, high_even)),
                (c + 4, _mm512_shuffle_f32x4::<0x88>(low_odd, high_odd)),
                (c + 8, _mm512_shuffle_f32x4::<0xdd>(low_even, high_even)),
                (c + 12, _mm512_shuffle_f32x4::<0xdd>(low_odd, high_odd)),
            ];
            for (column, values) in columns {
                if column < num_cols {
                    _mm512_mask_storeu_ps(target.add(column * target_row), of_rows, values);
                }
            }
        }
    }
}

/// A part of 8 x 8 in registers: pairs of rows, then 128-bit quarters twice.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_8x8_f64(
    (num_rows, num_cols): (usize, usize),
    source: *const f64,
    source_row: usize,
    target: *mut f64,
    target_row: usize,
) {
    // SAFETY: the caller has num_rows x num_cols values at `source`, as many at `target`, and AVX-512; masks and tests keep
    // to them.
    unsafe {
        let (of_rows, of_cols) = (((1_u32 << num_rows) - 1) as u8, ((1_u32 << num_cols) - 1) as u8);
        let mut rows = [_mm512_setzero_pd(); 8];
        for (i, row) in rows.iter_mut().enumerate() {
            if i < num_rows {
                *row = _mm512_maskz_loadu_pd(of_cols, source.add(i * source_row));
            }
        }
        let even = |pair: usize| _mm512_unpacklo_pd(rows[2 * pair], rows[2 * pair + 1]);
        let odd = |pair: usize| _mm512_unpackhi_pd(rows[2 * pair], rows[2 * pair + 1]);
        for (first, pairs) in [(0, [even(0), even(1), even(2), even(3)]), (1, [odd(0), odd(1), odd(2), odd(3)])] {
            let low = _mm512_shuffle_f64x2::<0x88>(pairs[0], pairs[1]);
            let high = _mm512_shuffle_f64x2::<0x88>(pairs[2], pairs[3]);
            let low_next = _mm512_shuffle_f64x2::<0xdd>(pairs[0], pairs[1]);
            let high_next = _mm512_shuffle_f64x2::<0xdd>(pairs[2], pairs[3]);
            let columns = [
                (first, _mm512_shuffle_f64x2::<0x88>(low, high)),
                (first + 2, _mm512_shuffle_f64x2::<0x88>(low_next, high_next)),
                (first + 4, _mm512_shuffle_f64x2::<0xdd>(low, high)),
                (first + 6, _mm512_shuffle_f64x2::<0xdd>(low_next, high_next)),
            ];
            for (column, values) in columns {
                if column < num_cols {
                    _mm512_mask_storeu_pd(target.add(column * target_row), of_rows, values);
                }
            }
        }
    }
}

/// The kernels of one floating-point type.
///
/// # Safety
/// Every method reads and writes through its pointers as far as its sizes say, and needs the instruction set of `simd`.
#[allow(clippy::missing_safety_doc)]
pub(crate) trait Kernels: Real {
    unsafe fn product_dense(simd: Simd, p: &Raw<Self>);
    unsafe fn product_packed(simd: Simd, p: &Raw<Self>);
    unsafe fn product_lanes(simd: Simd, p: &Raw<Self>);
    unsafe fn complete_squares(simd: Simd, size: usize, matrix: *mut Self, row: usize, factor: Self);
    unsafe fn scale_rows(
        simd: Simd,
        size: (usize, usize),
        row: usize,
        weights: *const Self,
        source: *const Self,
        target: *mut Self,
    );
    unsafe fn add_row_dots(
        simd: Simd,
        size: (usize, usize),
        row: usize,
        a: *const Self,
        b: *const Self,
        out: *mut Self,
    );
    unsafe fn copy_strips(simd: Simd, strips: Strips, source: *const Self, target: *mut Self);
    unsafe fn add_strips(simd: Simd, strips: Strips, source: *const Self, target: *mut Self);
    unsafe fn subtract_and_halve(simd: Simd, full: *mut Self, half: *mut Self, product: *const Self, len: usize);
    unsafe fn transpose(
        simd: Simd,
        rows: usize,
        cols: usize,
        source: *const Self,
        source_row: usize,
        target: *mut Self,
        target_row: usize,
    );
    unsafe fn mirror(simd: Simd, size: usize, matrix: *mut Self, row: usize);
    unsafe fn mirror_lanes(simd: Simd, size: usize, matrix: *mut Self, row: usize);
    unsafe fn invert_small(simd: Simd, size: usize, matrix: *mut Self, row: usize, pivots: *mut Self);
    unsafe fn invert_lanes(
        simd: Simd,
        size: usize,
        matrix: *mut Self,
        row: usize,
        pivots: *mut Self,
        scratch: *mut Self,
    );
    unsafe fn subtract_dots(
        simd: Simd,
        size: (usize, usize, usize),
        matrix: (*const Self, usize),
        x: (*const Self, usize),
        out: *mut Self,
    );
    unsafe fn product_field(simd: Simd, p: &FieldProduct<'_, Self>, field: *mut Self);
}

/// One method: the kernel compiled for each instruction set, and the choice between them.
macro_rules! dispatch {
    ($name:ident = $kernel:ident, $elem:ty, $avx512:ty, $avx2:ty, ($($arg:ident: $type:ty),*)) => {
        unsafe fn $name(simd: Simd, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            unsafe fn avx512($($arg: $type),*) {
                // SAFETY: as the caller's.
                unsafe { $kernel::<$avx512>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2($($arg: $type),*) {
                // SAFETY: as the caller's.
                unsafe { $kernel::<$avx2>($($arg),*) }
            }
            // SAFETY: a `Simd` exists only for an instruction set that was found; the rest is the caller's.
            unsafe {
                match simd.0 {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => avx512($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => avx2($($arg),*),
                    Level::Portable => $kernel::<Quad<$elem>>($($arg),*),
                }
            }
        }
    };
}

macro_rules! kernels_for {
    ($elem:ty, $avx512:ty, $avx2:ty) => {
        impl Kernels for $elem {
            dispatch!(product_dense = product_dense, $elem, $avx512, $avx2, (p: &Raw<$elem>));
            dispatch!(product_packed = product_packed, $elem, $avx512, $avx2, (p: &Raw<$elem>));
            dispatch!(complete_squares = complete_squares_lanes, $elem, $avx512, $avx2,
                (size: usize, matrix: *mut $elem, row: usize, factor: $elem));
            dispatch!(scale_rows = scale_rows_lanes, $elem, $avx512, $avx2, (size: (usize, usize), row: usize,
                weights: *const $elem, source: *const $elem, target: *mut $elem));
            dispatch!(add_row_dots = add_row_dots_lanes, $elem, $avx512, $avx2, (size: (usize, usize), row: usize,
                a: *const $elem, b: *const $elem, out: *mut $elem));
            dispatch!(product_lanes = product_lanes, $elem, $avx512, $avx2, (p: &Raw<$elem>));
            dispatch!(copy_strips = copy_strips, $elem, $avx512, $avx2,
                (strips: Strips, source: *const $elem, target: *mut $elem));
            dispatch!(add_strips = add_strips, $elem, $avx512, $avx2,
                (strips: Strips, source: *const $elem, target: *mut $elem));
            dispatch!(subtract_and_halve = subtract_and_halve_values, $elem, $avx512, $avx2,
                (full: *mut $elem, half: *mut $elem, product: *const $elem, len: usize));
            dispatch!(transpose = transpose_dense, $elem, $avx512, $avx2, (rows: usize, cols: usize, source: *const $elem,
                source_row: usize, target: *mut $elem, target_row: usize));
            dispatch!(mirror = mirror_dense, $elem, $avx512, $avx2, (size: usize, matrix: *mut $elem, row: usize));
            dispatch!(mirror_lanes = mirror_lanes_upper, $elem, $avx512, $avx2,
                (size: usize, matrix: *mut $elem, row: usize));
            dispatch!(invert_small = invert_small_dense, $elem, $avx512, $avx2,
                (size: usize, matrix: *mut $elem, row: usize, pivots: *mut $elem));
            dispatch!(invert_lanes = invert_lanes_upper, $elem, $avx512, $avx2,
                (size: usize, matrix: *mut $elem, row: usize, pivots: *mut $elem, scratch: *mut $elem));
            dispatch!(subtract_dots = subtract_dots_dense, $elem, $avx512, $avx2, (size: (usize, usize, usize),
                matrix: (*const $elem, usize), x: (*const $elem, usize), out: *mut $elem));
            dispatch!(product_field = product_field, $elem, $avx512, $avx2,
                (p: &FieldProduct<'_, $elem>, field: *mut $elem));
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernels_for!(f32, __m512, __m256);
#[cfg(target_arch = "x86_64")]
kernels_for!(f64, __m512d, __m256d);
#[cfg(not(target_arch = "x86_64"))]
kernels_for!(f32, (), ());
#[cfg(not(target_arch = "x86_64"))]
kernels_for!(f64, (), ());
