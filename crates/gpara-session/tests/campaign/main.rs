//! Whole campaigns over files: asks, tells, limits, forecasts, leave-one-out.

#![allow(clippy::unwrap_used, reason = "a test may panic, and helpers of tests are not marked as tests")]

mod ask;
mod city;
mod constraints;
mod fitted;
mod forecast;
mod leave_one_out;
mod matern_fields;
mod program;
mod tell;
