//! The real binary in temporary folders: exit codes, output, files.

mod bad_input;
mod demo;
mod models;
mod program;
