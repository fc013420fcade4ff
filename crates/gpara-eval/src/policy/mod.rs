//! Policies that know nothing of the field, and one that knows only the prior: what an active policy must beat.

pub(crate) mod blue_noise;
pub(crate) mod farthest_point;
mod order;
pub(crate) mod prior_variance;
pub(crate) mod random;
pub(crate) mod sobol;
