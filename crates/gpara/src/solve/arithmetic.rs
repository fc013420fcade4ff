//! Which floating-point type a factorisation uses.

use crate::engine::Reach;
use crate::precision::PosteriorPrecision;

/// The floating-point type of an exact factorisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// 32 bits: half the memory, about twice the speed; moments to about 1e-5. Means are refined to 64 bits.
    Single,
    /// 64 bits.
    Double,
}

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

    /// [`for_error`](Self::for_error), but 64 bits where the difference does not matter.
    pub(crate) fn for_posterior(precision: &PosteriorPrecision) -> Self {
        if precision.precision_diagonal().len() < SMALL_GRID {
            Self::Double
        } else {
            Self::for_error(precision.single_error())
        }
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
    let fits = diagonal.iter().all(|&entry| entry < LARGEST_SINGLE_DIAGONAL);
    if fits && gap > 0.0 { f64::from(f32::EPSILON) * 2.0 / gap } else { f64::INFINITY }
}
