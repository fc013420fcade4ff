//! Importers: folders and files of others become the inputs of a task.

mod drive_test;
mod error;
mod nyu_depth;
mod radio_map_seer;
mod rgb;
mod scene;

pub use drive_test::{DriveTest, DriveTestSettings};
pub use nyu_depth::NyuDepth;
pub use radio_map_seer::RadioMapSeer;
pub use rgb::{read_depth_scene, read_luminance};
pub use scene::ImportedScene;
