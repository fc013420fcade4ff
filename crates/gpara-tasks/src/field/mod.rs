//! Fields on a grid in files anyone has: PNG, NPY and CSV; masks; points; writing that never leaves half a file.

mod cells;
mod counts;
mod csv_grid;
mod delimited;
mod error;
mod map_files;
mod mask;
mod npy;
mod png_file;
mod points;
mod raster;
mod whole;

pub use cells::read_cells;
pub use counts::{Counts, FirstCells};
pub use map_files::{write_csv_grid, write_npy_stack};
pub use mask::{MaskFile, MaskUse};
pub use npy::write_npy;
pub(crate) use png_file::GrayPng;
pub use png_file::{PngScale, write_png16};
pub use points::{Point, PointRows, RefusedRow, read_points, write_points};
pub use raster::Field;
pub use whole::write_whole;
