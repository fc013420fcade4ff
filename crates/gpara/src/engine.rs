//! Exact sparse algebra on a grid: nested dissection, multifrontal factorisation, selected inversion and its derivative.

mod assembly;
mod block;
mod block_solve;
mod dense_inverse;
mod dissection;
mod exchange;
mod factorization;
mod front;
mod leaf;
mod offsets;
mod plan;
mod real;
mod simd;
mod solution;
mod stack;
mod stencil;
#[cfg(test)]
mod tests;
mod trunk;
mod trunk_solve;

pub(crate) use factorization::Factorization;
pub(crate) use plan::Plan;
pub(crate) use real::Real;
pub(crate) use simd::Kernels;
pub(crate) use solution::{RightHandSide, Solution, SolveScratch};
pub(crate) use stencil::{Reach, StencilMatrix};
