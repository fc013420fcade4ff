//! One file a command.

pub(crate) mod demo;
mod demo_scenes;
pub(crate) mod eval;
mod eval_config;
pub(crate) mod inspect;
pub(crate) mod models;
pub(crate) mod run;
mod run_config;
#[cfg(feature = "train")]
pub(crate) mod train;
