//! The two floating-point types that matrix-free operators run in.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// `f32` or `f64`.
pub(crate) trait Real:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + 'static
{
    /// Distance from 1 to the next number.
    const EPSILON: f64;

    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;

    /// The same value.
    fn to_f64(self) -> f64;
}

impl Real for f32 {
    const EPSILON: f64 = Self::EPSILON as f64;

    fn from_f64(value: f64) -> Self {
        value as Self
    }

    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Real for f64 {
    const EPSILON: Self = Self::EPSILON;

    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }
}
