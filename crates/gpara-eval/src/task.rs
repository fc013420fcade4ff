//! What a data set holds, and the units in which errors on it are told.

use gpara_tasks::depth::DEPTH_RANGE_METERS;
use gpara_tasks::radio::INVALID_VALUE;
use serde::{Deserialize, Serialize};

/// What a data set holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Radio maps; errors in gray/255.
    #[default]
    Radio,
    /// Depth maps; errors in metres, and relative to the depth.
    Depth,
}

impl Task {
    /// Its name in model cards.
    pub fn name(self) -> &'static str {
        match self {
            Self::Radio => "radio",
            Self::Depth => "depth",
        }
    }

    /// Normalised value of the cells outside the valid mask, where it is known.
    pub fn invalid_value(self) -> Option<f64> {
        match self {
            Self::Radio => Some(f64::from(INVALID_VALUE)),
            Self::Depth => None,
        }
    }

    /// Size of a normalised difference of 1 in the unit of errors.
    pub fn error_factor(self) -> f64 {
        match self {
            // Normalised values span 2 where gray/255 spans 1.
            Self::Radio => 0.5,
            Self::Depth => 0.5 * DEPTH_RANGE_METERS,
        }
    }

    /// The normalised value of 0, where errors relative to the truth have a meaning.
    pub fn zero(self) -> Option<f64> {
        (self == Self::Depth).then_some(-1.0)
    }

    /// The unit of errors.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Radio => "gray/255",
            Self::Depth => "m",
        }
    }

    /// Noise of a measurement where a configuration says nothing, normalised units: the paper's sigma_y.
    pub fn noise_std(self) -> f64 {
        match self {
            Self::Radio => 1e-4,
            Self::Depth => 2e-3,
        }
    }
}
