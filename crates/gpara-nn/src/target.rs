//! The scale a mean network works in: measured values are put into it, its answer is taken back out of it.

use serde::{Deserialize, Serialize};

/// A named scale of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The normalised field as it is; a configuration may also say `depth`.
    #[default]
    #[serde(alias = "depth")]
    Field,
    /// The logarithm of the depth: a twentieth of the range (0.5 m) is -1, the whole range (10 m) is 1.
    LogDepth,
    /// Relative to the measured values: their mean is 0, their standard deviation 1. Without measurements the field.
    Relative,
}

/// Depth range over the depth that [`Target::LogDepth`] maps to -1.
pub const LOG_DEPTH_RATIO: f64 = 20.0;

/// Smallest share of the depth range told apart by [`Target::LogDepth`]: 1 cm of 10 m.
pub const LOG_DEPTH_FLOOR: f64 = 1e-3;

/// Smallest standard deviation of the measured values that [`Target::Relative`] divides by, in normalised units.
pub const RELATIVE_FLOOR: f64 = 0.05;

/// A [`Target`] for one set of measured values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TargetScale {
    /// `u = x`.
    Identity,
    /// `u = 1 + 2 ln(q) / ln(20)`, q = (x + 1) / 2 the share of the depth range.
    LogDepth,
    /// `u = (x - shift) / scale`.
    Affine {
        /// Mean of the measured values.
        shift: f64,
        /// Their (population) standard deviation, at least [`RELATIVE_FLOOR`].
        scale: f64,
    },
}

impl Target {
    /// The scale given the measured values, normalised units.
    pub fn scale(self, measured: &[f64]) -> TargetScale {
        match self {
            Self::Field => TargetScale::Identity,
            Self::LogDepth => TargetScale::LogDepth,
            Self::Relative if measured.is_empty() => TargetScale::Identity,
            Self::Relative => {
                let count = measured.len() as f64;
                let shift = measured.iter().sum::<f64>() / count;
                let variance = measured.iter().map(|value| (value - shift).powi(2)).sum::<f64>() / count;
                TargetScale::Affine { shift, scale: variance.sqrt().max(RELATIVE_FLOOR) }
            }
        }
    }

    /// Whether it is the field itself, which cards leave out.
    pub fn is_field(&self) -> bool {
        *self == Self::Field
    }
}

impl TargetScale {
    /// From the normalised field to the network's scale.
    pub fn forward(self, field: f64) -> f64 {
        match self {
            Self::Identity => field,
            Self::LogDepth => 1.0 + 2.0 * (0.5 * (field + 1.0)).max(LOG_DEPTH_FLOOR).ln() / LOG_DEPTH_RATIO.ln(),
            Self::Affine { shift, scale } => (field - shift) / scale,
        }
    }

    /// From the network's scale to the normalised field.
    pub fn inverse(self, value: f64) -> f64 {
        match self {
            Self::Identity => value,
            Self::LogDepth => 2.0 * (0.5 * (value - 1.0) * LOG_DEPTH_RATIO.ln()).exp() - 1.0,
            Self::Affine { shift, scale } => value * scale + shift,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_metre_and_ten_metres_are_the_ends_of_the_log_scale() {
        let scale = Target::LogDepth.scale(&[]);
        // 0.5 m is normalised -0.9.
        assert!((scale.forward(-0.9) + 1.0).abs() < 1e-12);
        assert_eq!(scale.forward(1.0), 1.0);
        assert!((scale.inverse(scale.forward(0.3)) - 0.3).abs() < 1e-12);
        assert!(scale.forward(-1.0).is_finite());
    }

    #[test]
    fn relative_scale_has_mean_zero_and_deviation_one_over_the_measured_values() {
        let scale = Target::Relative.scale(&[0.1, 0.3, 0.5, 0.7]);
        assert_eq!(scale.forward(0.4), 0.0);
        assert!((scale.forward(0.4 + 0.05f64.sqrt()) - 1.0).abs() < 1e-12);
        assert!((scale.inverse(scale.forward(-0.8)) + 0.8).abs() < 1e-12);
        let TargetScale::Affine { scale, .. } = Target::Relative.scale(&[0.2]) else { panic!("measured") };
        assert_eq!(scale, RELATIVE_FLOOR);
        assert_eq!(Target::Relative.scale(&[]), TargetScale::Identity);
    }
}
