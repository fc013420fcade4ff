//! Exact sparse algebra on a grid: nested dissection, multifrontal factorisation, selected inversion and its derivative.
#![allow(dead_code)]

mod dense;
mod stencil;

pub(crate) use dense::DenseFactorization;
pub(crate) use stencil::{Reach, StencilMatrix};
