//! Tasks of gpara: where scenes and fields come from, which units they carry, which cells are valid.
//!
//! [`radio`] turns building masks and gain maps into contexts and normalised fields, [`depth`] does it for colour pictures
//! and depth maps; [`field`] reads and writes fields, masks and points of any kind.

pub mod depth;
pub mod export;
pub mod field;
pub mod geo;
pub mod import;
pub mod points;
pub mod radio;
mod split;
pub mod units;

pub use split::Split;
