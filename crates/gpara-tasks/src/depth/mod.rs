//! Depth maps: colour pictures as context, depth along the optical axis as field, data sets on disk.

mod context;
mod dataset;
mod error;
mod pictures;
mod sample_rooms;
mod scene;
mod units;

pub use context::CHANNELS;
pub use dataset::{DepthDataset, DepthMap};
pub use sample_rooms::{NUM_SAMPLE_ROOMS, sample_room, sample_rooms};
pub use scene::DepthScene;
pub use units::{DEPTH_RANGE_METERS, meters_from_normalized, normalized_from_meters};
