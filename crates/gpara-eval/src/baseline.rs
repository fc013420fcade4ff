//! The sampling methods that gpara is compared with, written anew from their equations (`docs/baselines.md`).
//!
//! Every method samples the same [`Chain`]: one prior, one grid of levels, one clip, and sample k starts from the noise of
//! the stream `reconstruct/{k}`, as the core's own trajectories do. The prior is always asked without measurements: what is
//! measured enters by the method alone. All samples of a level go through the network in one call.
//!
//! Where the published code departs from its paper in a way that shows at few steps, the method has two variants:
//! `official` does what the code does, `aligned` what the equations say.

mod adasense;
mod ads;
mod chain;
mod ddnm;
mod ddpm;
mod diffpir;
mod dps;
pub(crate) mod entries;
mod error;
mod fps;
mod ranking;

pub use adasense::{AdaSense, AdaSenseSettings, BatchChoice, SpreadScore};
pub use ads::{Ads, AdsScore, AdsSettings};
pub use chain::{Chain, ChainSettings, Level, StepGrid};
pub use ddnm::{Ddnm, DdnmRule, DdnmSettings, TravelFrom};
pub use ddpm::Ddpm;
pub use diffpir::{DiffPir, DiffPirSettings};
pub use dps::{Dps, DpsSettings, MisfitNorm};
pub use fps::{Fps, FpsOutput, FpsRun, FpsSettings};

use serde::{Deserialize, Serialize};

/// Which of two readings of a method is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// What the published code does, its slips at few steps included.
    Official,
    /// What the equations say, every level used for what it is.
    #[default]
    Aligned,
}
