//! Units of values: names, decibels and linear power, depths that make sense.

mod decibel;
mod depth;
mod error;
mod unit;

pub use decibel::{Averaging, LinearToDecibel, decibels_from_power, power_from_decibels};
pub use depth::{depth_warning, valid_depths};
pub use unit::Unit;
