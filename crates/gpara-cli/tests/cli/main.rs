//! The real binary in temporary folders: exit codes, output, files.

mod bad_input;
mod demo;
mod inspect;
mod models;
mod program;
mod run;
