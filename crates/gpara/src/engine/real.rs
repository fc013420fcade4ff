//! The two floating-point types of the algebra, and flat arrays of them that start on a cache line.

use std::ops::{Add, AddAssign, Deref, DerefMut, Div, Mul, Neg, Sub, SubAssign};

/// Blocks that are worked on side by side, one in each lane of a vector.
pub(crate) const LANES: usize = 16;

/// Bytes of a cache line and of the widest vector.
const LINE: usize = 64;

/// `f32` or `f64`.
pub(crate) trait Real:
    Copy
    + Default
    + Send
    + Sync
    + std::fmt::Debug
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Distance from 1 to the next number.
    const EPSILON: f64;
    /// Where sums of products start; it is taken off at their end. Covariances of cells some hundred steps apart are near the
    /// smallest normal number, and processors take far longer where a product or its sum is below it. A sum
    /// that starts here rounds to this or to a multiple of its last digit, which is a normal number too: what is smaller
    /// becomes 0. 0 where the type reaches far enough.
    const BIAS: Self;

    /// Rounded from `f64`.
    fn from_f64(value: f64) -> Self;
    /// As `f64`, exactly.
    fn to_f64(self) -> f64;
}

macro_rules! real {
    ($type:ty, $bias:expr) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const EPSILON: f64 = <$type>::EPSILON as f64;
            const BIAS: Self = $bias;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $type
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }
    };
}

// 2^-100, whose last digit is 2^-123; the smallest normal number is 2^-126.
real!(f32, 1.0 / (1_u128 << 100) as f32);
real!(f64, 0.0);

/// A fixed number of values whose first lies at the start of a cache line, so that no vector of 16 straddles two lines.
#[derive(Debug, Default)]
pub(crate) struct Aligned<T> {
    data: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Real> Aligned<T> {
    /// `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let slack = LINE / size_of::<T>();
        let data = vec![T::ZERO; len + slack];
        let start = data.as_ptr().align_offset(LINE).min(slack);
        Self { data, start, len }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.data[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data[self.start..self.start + self.len]
    }
}

/// The smallest multiple of [`LANES`] that is not below `count`: row lengths of dense matrices.
pub(crate) fn padded(count: usize) -> usize {
    count.next_multiple_of(LANES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_arrays_start_on_a_cache_line() {
        for len in [0, 1, 15, 1000] {
            let single = Aligned::<f32>::zeros(len);
            let double = Aligned::<f64>::zeros(len);
            assert_eq!((single.len(), double.len()), (len, len));
            assert_eq!(single.as_ptr() as usize % LINE, 0);
            assert_eq!(double.as_ptr() as usize % LINE, 0);
        }
    }
}
