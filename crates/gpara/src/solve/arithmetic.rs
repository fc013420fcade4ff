//! Which floating-point type a factorisation uses.

use super::stencil::Stencil;

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
    /// 32 bits where they are exact enough.
    pub(crate) fn for_matrix(matrix: Stencil<'_, f64>) -> Self {
        if single_error(matrix) < SINGLE_TOLERANCE { Self::Single } else { Self::Double }
    }

    /// [`for_matrix`](Self::for_matrix), but 64 bits where the difference does not matter.
    pub(crate) fn for_posterior(matrix: Stencil<'_, f64>) -> Self {
        if matrix.diagonal.len() < SMALL_GRID { Self::Double } else { Self::for_matrix(matrix) }
    }
}

/// Bound on the relative error of moments in 32 bits: the rounding amplified by the condition number of D^-1 A. By Gershgorin
/// that is at most 2 / (1 - q); infinite without that bound (q >= 1: a residual precision lost in the couplings, or a
/// second-order precision) and where entries leave the range.
pub(crate) fn single_error(matrix: Stencil<'_, f64>) -> f64 {
    let gap = 1.0 - matrix.gershgorin_radius();
    let fits = matrix.diagonal.iter().all(|&entry| entry < LARGEST_SINGLE_DIAGONAL);
    if fits && gap > 0.0 { f64::from(f32::EPSILON) * 2.0 / gap } else { f64::INFINITY }
}
