//! One file a command.

pub(crate) mod demo;
pub(crate) mod models;
