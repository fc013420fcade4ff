//! Exact sparse algebra on a grid: nested dissection, multifrontal factorisation, selected inversion and its derivative.
#![allow(dead_code)]

mod block;
mod dissection;
mod factorization;
mod front;
mod plan;
mod real;
mod simd;
mod stencil;
#[cfg(test)]
mod tests;
mod trunk;

pub(crate) use factorization::Factorization;
#[cfg(test)]
pub(crate) use factorization::SolveScratch;
pub(crate) use plan::Plan;
pub(crate) use simd::Kernels;
pub(crate) use stencil::{Reach, StencilMatrix};
