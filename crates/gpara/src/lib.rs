//! Numeric core of gpara: where to measure a field next, and what the whole field looks like given the measurements.
//!
//! The modules follow the data flow of the method (Algorithm 1 of the paper):
//! `context -> prior -> graph -> posterior -> acquisition -> session -> reconstruct`.
//! Six object-safe traits are the seams: [`Denoiser`], [`GraphPredictor`], [`Scorer`], [`Policy`], [`Reconstructor`]
//! and [`MeasurementSource`]; each has an exact toy implementation here, so that the whole algorithm has a closed-form
//! answer in the tests.
//!
//! Conventions: a field is a row-major slice of `num_nodes` values, node = row * cols + col; row 0 is the top.
//! Quantities are `f64`; networks take and give `f32` behind [`Denoiser`]. Paper symbols map to names in `docs/notation.md`.

mod context;
mod denoiser;
mod error;
mod grid;
mod observations;
mod schedule;
mod seed;

pub use context::{Channel, Context};
pub use denoiser::{Denoiser, DenoiserInput};
pub use error::{Error, ErrorDetail, ErrorKind, Result};
pub use grid::{Grid, ValidMask};
pub use observations::{Observation, Observations};
pub use schedule::{NoiseSchedule, Parameterization, ReverseCoefficients, ReverseStep};
pub use seed::{SeedTree, Stream};
