//! Where cells lie in the world: an affine transform, a coordinate reference system, latitude and longitude.

mod affine;
mod crs;
mod error;
mod georeference;

pub use affine::Affine;
pub use crs::{Crs, Projection};
pub use georeference::Georeference;
