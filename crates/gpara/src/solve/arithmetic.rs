//! Which floating-point type a factorisation uses.

use crate::engine::Reach;
use crate::precision::{PosteriorPrecision, PrecisionOrder};

/// The floating-point type of an exact factorisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// 32 bits: half the memory, about twice the speed; moments to about 1e-5, means to about 1e-6; other solves are
    /// refined to about 1e-9.
    Single,
    /// 64 bits.
    Double,
}

/// What is known about the arithmetic before a factorisation is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This one.
    Known(Arithmetic),
    /// No bound speaks for 32 bits, but their error can be measured once they are tried.
    Measured,
}

impl Choice {
    /// 32 bits where they are exact enough and save time that anyone could notice.
    pub(crate) fn for_posterior(precision: &PosteriorPrecision) -> Self {
        let diagonal = precision.precision_diagonal();
        if diagonal.len() < SMALL_GRID || !in_range_of_single(diagonal) {
            return Self::Known(Arithmetic::Double);
        }
        match Arithmetic::for_error(precision.single_error()) {
            Arithmetic::Single => Self::Known(Arithmetic::Single),
            Arithmetic::Double if is_hopeless(precision) => Self::Known(Arithmetic::Double),
            Arithmetic::Double => Self::Measured,
        }
    }
}

/// Relative error of the variances up to which a measurement lets 32 bits pass; that of the numerators is up to twice as
/// large.
pub(crate) const MEASURED_TOLERANCE: f64 = 4e-6;

/// Relative error of the moments up to which 32 bits are exact enough.
pub(crate) const SINGLE_TOLERANCE: f64 = 1e-4;

/// Above this diagonal entry (a noise_std below about 1e-12) products could leave the range of 32 bits.
pub(crate) const LARGEST_SINGLE_DIAGONAL: f64 = 1e24;

/// Below this many cells both take no time that anyone could notice.
const SMALL_GRID: usize = 4096;

impl Arithmetic {
    /// 32 bits where they are exact enough for a matrix of that [`single_error`].
    pub(crate) fn for_error(single_error: f64) -> Self {
        if single_error < SINGLE_TOLERANCE { Self::Single } else { Self::Double }
    }

    /// Estimated bytes of the arena for that many rows and columns: a fit to its true size between 40 x 40 and 512 x 512
    /// cells, rounded up.
    pub(crate) fn bytes(self, (rows, cols): (usize, usize), reach: Reach) -> u64 {
        let cells = rows as f64 * cols as f64;
        let values_a_cell = match reach {
            Reach::One => 152.0 + 11.6 * cells.powf(0.25),
            Reach::Two => 330.0 + 45.0 * cells.powf(0.25),
        };
        let bytes_a_value = match self {
            Self::Single => size_of::<f32>(),
            Self::Double => size_of::<f64>(),
        };
        (cells * values_a_cell) as u64 * bytes_a_value as u64
    }
}

/// Bound on the relative error of moments in 32 bits: the rounding amplified by the condition number of D^-1 A. By Gershgorin
/// that is at most 2 / (1 - q); infinite without that bound (q >= 1: a residual precision lost in the couplings, or a
/// second-order precision) and where entries leave the range.
///
/// # Shapes
/// * `coupling_sums` - sum_j |C_ij|, one value a node, and so is the diagonal
pub(crate) fn single_error(coupling_sums: &[f64], diagonal: &[f64]) -> f64 {
    let radius = coupling_sums.iter().zip(diagonal).map(|(sum, d)| sum / d).fold(0.0, f64::max);
    let gap = 1.0 - radius;
    if in_range_of_single(diagonal) && gap > 0.0 { f64::from(f32::EPSILON) * 2.0 / gap } else { f64::INFINITY }
}

/// Whether a second-order precision is so far from 32 bits that a trial would be wasted. By the prior's condition number the
/// error is at most eps max / min; with 200 measurements at 128 x 128 a trial found .01 to .08 of that.
fn is_hopeless(precision: &PosteriorPrecision) -> bool {
    const SMALLEST_SHARE: f64 = 0.01;
    let prior = precision.prior();
    if prior.order() == PrecisionOrder::First {
        return false;
    }
    let largest = prior.diagonal().iter().copied().fold(0.0, f64::max);
    SMALLEST_SHARE * f64::from(f32::EPSILON) * largest > MEASURED_TOLERANCE * prior.of_lone_cell()
}

/// Whether products of the entries of a matrix with this diagonal stay in the range of 32 bits.
pub(crate) fn in_range_of_single(diagonal: &[f64]) -> bool {
    diagonal.iter().all(|&entry| entry < LARGEST_SINGLE_DIAGONAL)
}
