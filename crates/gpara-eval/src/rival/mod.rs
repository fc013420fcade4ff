//! Rivals that need no training of their own: interpolation, kriging, Gaussian fields on a guided graph, one network
//! evaluation.

mod dense;
pub(crate) mod guided_field;
pub(crate) mod inverse_distance;
pub(crate) mod kriging;
pub(crate) mod linear;
pub(crate) mod natural_neighbor;
pub(crate) mod one_shot;
pub(crate) mod prior;
pub(crate) mod radial_basis;
mod scattered;
mod trend;
mod triangulation;
