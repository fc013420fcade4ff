//! The units a field may have.

use std::fmt;
use std::str::FromStr;

use gpara::{Error, Result};

use super::error::UnitError;

/// Unit of the values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unit {
    /// A ratio of powers in decibels, e.g. a path gain.
    Decibel,
    /// A power in decibels above one milliwatt.
    DecibelMilliwatt,
    /// A length in metres, e.g. a depth.
    Metre,
    /// Gray values as they stand.
    Gray,
    /// A number without a unit, or of a unit that gpara need not know.
    #[default]
    None,
}

impl Unit {
    const ALL: [Self; 5] = [Self::Decibel, Self::DecibelMilliwatt, Self::Metre, Self::Gray, Self::None];

    /// The name in commands and files: `dB`, `dBm`, `m`, `gray`, `none`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decibel => "dB",
            Self::DecibelMilliwatt => "dBm",
            Self::Metre => "m",
            Self::Gray => "gray",
            Self::None => "none",
        }
    }

    /// The unit of differences, so of errors and standard deviations: those of dBm are in dB.
    pub fn difference(self) -> Self {
        if self == Self::DecibelMilliwatt { Self::Decibel } else { self }
    }

    /// Whether values are logarithms of a power.
    pub fn is_logarithmic(self) -> bool {
        matches!(self, Self::Decibel | Self::DecibelMilliwatt)
    }

    /// A difference in this unit from a text such as `3`, `3dB` or `0.05 m`.
    ///
    /// # Errors
    /// `InvalidInput` if the text is not a finite number, or names another unit.
    ///
    /// # Example
    /// ```
    /// use gpara_tasks::units::Unit;
    ///
    /// assert_eq!(Unit::DecibelMilliwatt.parse_difference("0.5dB")?, 0.5);
    /// assert!(Unit::Metre.parse_difference("0.5dB").is_err());
    /// # Ok::<(), gpara::Error>(())
    /// ```
    pub fn parse_difference(self, text: &str) -> Result<f64> {
        let trimmed = text.trim();
        let number = trimmed.strip_suffix(self.difference().name()).unwrap_or(trimmed).trim_end();
        let value: Option<f64> = number.parse().ok().filter(|value: &f64| value.is_finite());
        value.ok_or_else(|| UnitError::Quantity { text: text.into(), unit: self }.into())
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Unit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnitError::Unknown { text: text.into() }.into())
    }
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn names_read_back_and_others_are_refused() {
        for unit in Unit::ALL {
            assert_eq!(unit.name().parse::<Unit>().unwrap(), unit);
        }
        assert_eq!("DBM".parse::<Unit>().unwrap(), Unit::DecibelMilliwatt);
        assert_eq!("feet".parse::<Unit>().unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn differences_carry_their_own_unit_or_none() {
        for (unit, text, expected) in
            [(Unit::DecibelMilliwatt, "3", 3.0), (Unit::Decibel, "-0.5 dB", -0.5), (Unit::Metre, " 2e-2m ", 0.02)]
        {
            assert_eq!(unit.parse_difference(text).unwrap(), expected, "{text}");
        }
        for (unit, text) in
            [(Unit::DecibelMilliwatt, "3dBm"), (Unit::Metre, "3cm"), (Unit::None, ""), (Unit::Gray, "nan")]
        {
            assert_eq!(unit.parse_difference(text).unwrap_err().kind(), ErrorKind::InvalidInput, "{text}");
        }
    }
}
