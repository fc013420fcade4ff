//! From normalised values to the user's units.

use gpara_session::difference_unit;

/// A unit that errors are told in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measure {
    /// The unit, e.g. `dB`; empty for a field without one.
    pub(crate) unit: String,
    /// Size of a normalised difference of 1 in this unit.
    pub(crate) factor: f64,
}

/// The unit of a field: normalised -1 is `low`, +1 is `high`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldUnits {
    /// Value of normalised -1.
    pub(crate) low: f64,
    /// Value of normalised +1.
    pub(crate) high: f64,
    /// The unit of maps and points.
    pub(crate) unit: String,
    /// The units of the table, the first one also of the JSON keys without a unit.
    pub(crate) measures: Vec<Measure>,
    /// Whether 0 in this unit means nothing, as for metres: errors are then also told relative to the truth.
    pub(crate) ratio_scale: bool,
}

impl FieldUnits {
    /// A field told in its own unit only.
    pub(crate) fn new(low: f64, high: f64, unit: &str) -> Self {
        let measures = vec![Measure { unit: difference_unit(unit).to_string(), factor: 0.5 * (high - low) }];
        Self { low, high, unit: unit.to_string(), measures, ratio_scale: false }
    }

    /// The unit of an error or a standard deviation: that of dBm is dB.
    pub(crate) fn difference_unit(&self) -> &str {
        difference_unit(&self.unit)
    }

    /// Size of a normalised difference of 1.
    pub(crate) fn factor(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// The value of a normalised value.
    pub(crate) fn value(&self, normalized: f64) -> f64 {
        self.low + (normalized + 1.0) * self.factor()
    }

    /// The normalised value of 0, on a ratio scale.
    pub(crate) fn zero(&self) -> Option<f64> {
        self.ratio_scale.then(|| self.normalized(0.0))
    }

    /// The normalised value of a value.
    pub(crate) fn normalized(&self, value: f64) -> f64 {
        (value - self.low) / self.factor() - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_middle_of_the_range_map_to_minus_one_zero_and_one() {
        let units = FieldUnits::new(-147.0, -47.84, "dB");
        assert_eq!(units.normalized(-147.0), -1.0);
        assert_eq!(
            (units.difference_unit(), FieldUnits::new(-120.0, -50.0, "dBm").measures[0].unit.as_str()),
            ("dB", "dB")
        );
        assert!((units.normalized(-47.84) - 1.0).abs() < 1e-12);
        assert!((units.value(units.normalized(-100.25)) + 100.25).abs() < 1e-12);
        assert!((units.value(0.0) + 97.42).abs() < 1e-12);
    }
}
