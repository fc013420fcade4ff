//! What came of a closed loop: maps and points as files, the table, the JSON summary, the report.

mod maps;
mod page;
mod publish;
mod scene;
mod summary;
mod units;

pub(crate) use maps::{png_bytes, write_scene};
pub(crate) use page::ReportInput;
pub(crate) use publish::publish;
pub(crate) use scene::{RunSettings, SceneInput, SceneOutcome, run_scene};
pub(crate) use units::{FieldUnits, Measure};
