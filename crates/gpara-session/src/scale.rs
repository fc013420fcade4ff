//! Between the user's unit and the normalised values the algebra works with.

use gpara::Result;
use gpara_tasks::units::Unit;
use serde::{Deserialize, Serialize};

use crate::error::SessionError;

/// The unit of a field: normalised -1 is `low`, +1 is `high`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Value of normalised -1.
    pub low: f64,
    /// Value of normalised +1.
    pub high: f64,
    /// The unit, e.g. `dB`; empty if none.
    pub unit: String,
}

impl Scale {
    /// A scale.
    ///
    /// # Errors
    /// `InvalidInput` unless both ends are finite and ascending.
    pub fn new(low: f64, high: f64, unit: &str) -> Result<Self> {
        if !(low.is_finite() && high.is_finite() && low < high) {
            let value = format!("{low},{high}");
            return Err(SessionError::Setting {
                name: "range",
                value,
                allowed: "two numbers LOW,HIGH with LOW < HIGH",
            }
            .into());
        }
        Ok(Self { low, high, unit: unit.to_owned() })
    }

    /// The unit of a difference of two values, such as an error or a standard deviation: that of dBm is dB.
    pub fn difference_unit(&self) -> &str {
        difference_unit(&self.unit)
    }

    /// Size of a normalised difference of 1, in the unit.
    pub fn factor(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// The value of a normalised value.
    pub fn value(&self, normalized: f64) -> f64 {
        self.low + (normalized + 1.0) * self.factor()
    }

    /// The normalised value of a value.
    pub fn normalized(&self, value: f64) -> f64 {
        (value - self.low) / self.factor() - 1.0
    }
}

/// The unit of a difference of two values in `unit`; a unit of the user's own is its own difference.
///
/// # Example
/// ```
/// assert_eq!(gpara_session::difference_unit("dBm"), "dB");
/// assert_eq!(gpara_session::difference_unit("ppm"), "ppm");
/// ```
pub fn difference_unit(unit: &str) -> &str {
    match unit.parse::<Unit>() {
        Ok(known) if known.difference() != known => known.difference().name(),
        _ => unit,
    }
}
