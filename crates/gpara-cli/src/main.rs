//! The `gpara` command.
mod console;
mod embedded_models;
mod failure;
mod output_folder;
mod picture;
mod report;
fn main() {}
