//! Points: measurements in CSV, Parquet and GeoJSON files, their cells, many samples in one cell, points going out.

mod bins;
mod cells;
mod columns;
mod error;
mod geojson;
mod on_raster;
#[cfg(feature = "parquet")]
mod parquet_file;
mod place;
mod samples;
mod table;
mod write;

#[cfg(test)]
mod tests;

pub use bins::{BinReport, BinSettings, BinnedPoint, bin_samples};
pub use cells::read_cells;
pub use columns::{PointColumns, Role};
pub use on_raster::points_on_raster;
pub use place::{Point, PointReader, PointRows, read_points};
pub use samples::{Position, RefusedRow, Sample, SampleRows, SampleRules};
pub use write::{PointOutput, write_points};
