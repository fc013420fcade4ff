//! The sampling baselines with a Gaussian prior, where every answer or bias is known.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

#[path = "../../../gpara/tests/affine_chain/mod.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod affine_chain;
#[path = "../../../gpara/tests/dense_oracle/mod.rs"]
mod dense_oracle;

mod affine;
mod closed_form;
mod world;
