//! Training of the networks of gpara on libtorch: the prior, and the mean network that sees the measurements.

mod error;
mod unet;

pub use unet::{DownLevel, ResidualBlock, UNet, UNetConfig, UpLevel};
