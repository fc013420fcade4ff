//! The real binary in temporary folders: exit codes, output, files.

#![allow(clippy::unwrap_used, reason = "a test may panic, and helpers of tests are not marked as tests")]

mod bad_input;
mod demo;
mod eval;
mod inspect;
mod models;
mod networks;
mod program;
mod readme;
mod run;
mod session;
mod session_bad_input;
mod session_depth;
mod session_place;
mod session_prior;
mod session_radio;
mod session_report;
