//! Radio maps: scenes of buildings and one transmitter, their context channels, and gain maps on disk.

mod context;
mod dataset;
mod detour;
mod diffraction;
mod error;
mod gray;
mod sample_city;
mod scene;
mod units;
mod visibility;

#[cfg(test)]
mod test_masks;

pub use crate::split::Split;
pub use context::CHANNELS;
pub use dataset::{RadioDataset, RadioMap};
pub use sample_city::{NUM_SAMPLE_SCENES, sample_city, sample_scene};
pub use scene::RadioScene;
pub use units::{
    GAIN_FLOOR_DB, GAIN_RANGE_DB, INVALID_VALUE, gain_db_from_gray, gain_db_from_normalized, gray_from_gain_db,
    gray_from_normalized, normalized_from_gain_db, normalized_from_gray,
};
