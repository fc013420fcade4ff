//! Fields on a grid in files anyone has: PNG, NPY, NPZ, CSV, GeoTIFF, ESRI ASCII grid; masks; writing that never leaves
//! half a file.

pub(crate) mod ascii_grid;
mod counts;
mod csv_grid;
mod delimited;
mod error;
pub(crate) mod geotiff;
mod limits;
mod mask;
mod npy;
mod npy_stack;
mod npz;
mod png_file;
mod raster;
mod resize;
mod whole;
pub(crate) mod world_file;

pub use counts::{Counts, FirstCells};
pub(crate) use delimited::Records;
pub use limits::{MAX_CELLS, MAX_FILE_BYTES};
pub(crate) use limits::{announced_grid, check_expansion, check_num_values, read_file};
pub(crate) use mask::encode_mask;
pub use mask::{MaskFile, MaskUse};
pub(crate) use npy::encode as encode_npy;
pub use npy::write_npy;
pub use npy_stack::{read_maps, write_npy_stack};
pub(crate) use png_file::{GrayPng, encode_png16};
pub use png_file::{GrayScale, PngScale, write_png16};
pub(crate) use raster::{Ending, is_preview};
pub use raster::{Field, Raster, RasterOptions};
pub use resize::resize;
pub(crate) use whole::write_together;
pub use whole::write_whole;
pub use world_file::read_world_file;
