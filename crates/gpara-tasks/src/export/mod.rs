//! Maps going out: values in GeoTIFF, NPY, 16-bit PNG, CSV or ESRI ASCII grid; previews for people.

mod error;
mod map;
mod preview;

pub use map::{MapOutput, write_maps};
pub use preview::{preview_path, write_preview};
