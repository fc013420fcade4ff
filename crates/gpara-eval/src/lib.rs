//! Paired evaluation: every method on the same scenes with the same seeds and points, one JSON line a case, tables with
//! intervals.
//!
//! A method is a reconstructor and a policy by name ([`Registry`], [`standard`]) with a budget and settings ([`Method`]).
//! [`SceneRunner`] takes one through one scene and scores it; the [`Harness`] does so for all methods and scenes, appends
//! each case to a JSONL file and skips those the file already holds, so that an interrupted evaluation goes on where it
//! stopped. `docs/add-a-method.md` shows how a method is added.

mod ahead;
pub mod baseline;
mod case;
mod chart;
mod harness;
mod method;
mod methods;
mod networks;
mod one_step;
mod peak_memory;
mod pivot;
mod policy;
mod registry;
mod rival;
mod runner;
mod scene;
mod score;
mod shelf;
mod similarity;
mod statistics;
mod table;
mod task;
mod workers;

pub use ahead::Ahead;
pub use case::{Case, compressed_lines, read_cases};
pub use chart::{Chart, Curve};
pub use harness::{CODE_VERSION, FailedCase, Harness, OnCase, Plan};
pub use method::{Method, MethodConfig, OneOrMany, PolicyChoice};
pub use methods::standard;
pub use networks::{CountedNetworks, Networks, NoNetworks, ScheduledDenoiser};
pub use one_step::OneStepConfig;
pub use peak_memory::PeakMemory;
pub use pivot::{Pivot, PivotColumn, PivotConfig, PivotRow, ScatterConfig, ScatterPoint};
pub use policy::local_reducibility::LocalReducibility;
pub use registry::{BuildPolicy, BuildReconstructor, MethodScene, PolicyEntry, ReconstructorEntry, Registry, Settings};
pub use runner::{MAX_BATCH, MethodRun, SceneRunner};
pub use scene::Scene;
pub use shelf::{Cost, Shelf};
pub use similarity::structural_similarity;
pub use statistics::{Comparison, Summary, compare};
pub use table::{CSV_HEADER, ResultTable, TableConfig, TableRow};
pub use task::Task;
pub use workers::in_threads;

/// The page, so that its example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/add-a-method.md")]
struct AddAMethod;
