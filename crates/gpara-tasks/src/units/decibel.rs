//! Decibels and linear power.

use std::fmt;
use std::str::FromStr;

use gpara::{Error, Result};

use super::error::UnitError;

/// In which domain values in dB are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Averaging {
    /// The mean of the powers, as an antenna averages over fading; its dB value is above the mean of the dB values.
    LinearPower,
    /// The mean of the dB values, the median of a log-normal power.
    Decibel,
}

impl Averaging {
    /// The name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::LinearPower => "linear-power",
            Self::Decibel => "decibel",
        }
    }
}

impl fmt::Display for Averaging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Averaging {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = [Self::LinearPower, Self::Decibel].into_iter().find(|averaging| averaging.name() == text);
        found.ok_or_else(|| UnitError::Averaging { text: text.into() }.into())
    }
}

/// Linear power of a value in dB: `10^(dB / 10)`.
pub fn power_from_decibels(decibels: f64) -> f64 {
    10.0_f64.powf(decibels / 10.0)
}

/// Value in dB of a linear power, `10 log10(power)`; of zero it is minus infinity.
pub fn decibels_from_power(power: f64) -> f64 {
    10.0 * power.log10()
}

/// Values in dB from linear powers, and how many were below the floor.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearToDecibel {
    /// One value a power, none below the floor; NaN stays NaN.
    pub decibels: Vec<f64>,
    /// Powers whose value was raised to the floor, zeros among them.
    pub num_clamped: usize,
}

impl LinearToDecibel {
    /// Converts linear powers; what lies below `floor_db` becomes `floor_db`.
    ///
    /// # Errors
    /// `InvalidInput` for a floor that is not finite, or a power that is negative or infinite.
    pub fn new(powers: &[f64], floor_db: f64) -> Result<Self> {
        if !floor_db.is_finite() {
            return Err(UnitError::Floor { floor: floor_db }.into());
        }
        let mut num_clamped = 0;
        let mut decibels = Vec::with_capacity(powers.len());
        for (index, &power) in powers.iter().enumerate() {
            if power < 0.0 || power.is_infinite() {
                return Err(UnitError::Power { value: power, index }.into());
            }
            let value = decibels_from_power(power);
            num_clamped += usize::from(value < floor_db);
            // Not `max`, which would turn NaN into the floor.
            decibels.push(if value < floor_db { floor_db } else { value });
        }
        Ok(Self { decibels, num_clamped })
    }
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn users_09_zeros_clamp_to_the_floor_and_are_counted_and_the_round_trip_agrees_above_it() {
        let powers: Vec<f64> = (0..2000)
            .map(|step| if step % 10 == 0 { 0.0 } else { power_from_decibels(-147.0 + 0.1 * f64::from(step)) })
            .collect();
        let converted = LinearToDecibel::new(&powers, -147.0).unwrap();
        assert_eq!(converted.num_clamped, 200);
        for (&power, &decibels) in powers.iter().zip(&converted.decibels) {
            if power == 0.0 {
                assert_eq!(decibels, -147.0);
            } else {
                assert!((power_from_decibels(decibels) - power).abs() <= 1e-5 * power, "{power}");
            }
        }
    }

    #[test]
    fn missing_powers_stay_missing_and_impossible_ones_are_refused() {
        let converted = LinearToDecibel::new(&[f64::NAN, 1.0], 0.0).unwrap();
        assert!(converted.decibels[0].is_nan());
        assert_eq!((converted.decibels[1], converted.num_clamped), (0.0, 0));
        for bad in [-1e-3, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(LinearToDecibel::new(&[1.0, bad], -100.0).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert!(LinearToDecibel::new(&[1.0], f64::NAN).is_err());
    }
}
