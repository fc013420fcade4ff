//! Fields on a grid in files anyone has: PNG, NPY, NPZ, CSV, GeoTIFF, ESRI ASCII grid; masks; writing that never leaves
//! half a file.

mod ascii_grid;
mod counts;
mod csv_grid;
mod delimited;
mod error;
mod geotiff;
mod limits;
mod mask;
mod npy;
mod npz;
mod png_file;
mod points;
mod raster;
mod whole;
mod world_file;

pub use counts::{Counts, FirstCells};
pub(crate) use error::FieldError;
pub use limits::{MAX_CELLS, MAX_FILE_BYTES};
pub(crate) use limits::{check_num_values, read_file};
pub use mask::{MaskFile, MaskUse};
pub use npy::write_npy;
pub(crate) use png_file::GrayPng;
pub use png_file::{GrayScale, PngScale, write_png16};
pub use points::{Point, PointRows, RefusedRow, read_points, write_points};
pub use raster::{Field, Raster, RasterOptions};
pub use whole::write_whole;
pub use world_file::read_world_file;
