//! The range a normalised field lives in: the clip of the clean estimate and the projection of Eq. 13.

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};

/// A closed interval `[min, max]`; projecting on it is Pi of Eq. 13.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueRange {
    min: f64,
    max: f64,
}

impl ValueRange {
    /// [-1, 1], the range both tasks of the paper normalise to.
    pub const UNIT: Self = Self { min: -1.0, max: 1.0 };

    /// The interval from `min` to `max`.
    ///
    /// # Errors
    /// `InvalidInput` unless both are finite and `min < max`.
    pub fn new(min: f64, max: f64) -> Result<Self> {
        if !(min.is_finite() && max.is_finite() && min < max) {
            return Err(RangeError { min, max }.into());
        }
        Ok(Self { min, max })
    }

    /// Smallest value.
    pub fn min(self) -> f64 {
        self.min
    }

    /// Largest value.
    pub fn max(self) -> f64 {
        self.max
    }

    /// Replaces every value by the nearest one of the range; a NaN stays NaN.
    pub fn project(self, values: &mut [f64]) {
        values.iter_mut().for_each(|value| *value = value.clamp(self.min, self.max));
    }
}

#[derive(Debug, ThisError)]
#[error("value range {min}..{max} is not allowed: both ends must be finite and the first below the second")]
struct RangeError {
    min: f64,
    max: f64,
}

impl ErrorDetail for RangeError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_moves_only_values_outside_and_keeps_nan() {
        let mut values = [-2.0, -1.0, 0.25, 1.5, f64::NAN];
        ValueRange::UNIT.project(&mut values);
        assert_eq!(values[..4], [-1.0, -1.0, 0.25, 1.0]);
        assert!(values[4].is_nan());
    }

    #[test]
    fn empty_or_infinite_range_is_refused() {
        for (min, max) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert_eq!(ValueRange::new(min, max).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}
