//! Paired evaluation: every method on the same scenes with the same seeds, one JSON line a case, tables with intervals.
//!
//! An [`Experiment`] runs all methods that share work (one prior ensemble, say) on one scene. The [`Harness`] runs
//! experiments over scenes in parallel, appends each scene's results to a JSONL file as one line, and skips the scenes
//! that file already holds, so that an interrupted evaluation goes on where it stopped.

pub mod baseline;
mod harness;
mod table;

pub use harness::{Experiment, Harness, MethodResult, Scene, SceneResults};
pub use table::{ResultTable, Summary, TableRow, paired_difference};
