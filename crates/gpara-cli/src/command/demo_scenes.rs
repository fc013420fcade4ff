//! The embedded scenes of each task, as the closed loop takes them.

use clap::ValueEnum;
use gpara_tasks::depth::{DEPTH_RANGE_METERS, DepthMap, NUM_SAMPLE_ROOMS, sample_room};
use gpara_tasks::radio::{GAIN_FLOOR_DB, GAIN_RANGE_DB, INVALID_VALUE, NUM_SAMPLE_SCENES, RadioMap, sample_scene};

use crate::failure::Outcome;
use crate::preset::Task;
use crate::results::{FieldUnits, Measure, SceneInput};

/// A task with embedded scenes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DemoTask {
    /// Path gain in a city, one transmitter
    Radio,
    /// Depth in a room, with its colour picture
    Depth,
}

impl DemoTask {
    /// The name as it is typed.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Radio => "radio",
            Self::Depth => "depth",
        }
    }

    /// Number of embedded scenes.
    pub(super) fn num_scenes(self) -> usize {
        match self {
            Self::Radio => NUM_SAMPLE_SCENES,
            Self::Depth => NUM_SAMPLE_ROOMS,
        }
    }

    /// An embedded scene.
    pub(super) fn scene(self, index: usize) -> Outcome<SceneInput> {
        match self {
            Self::Radio => Ok(radio(sample_scene(index)?)),
            Self::Depth => depth(sample_room(index)?),
        }
    }

    /// Heading of the report.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Radio => "gpara: radio map from a few measurements",
            Self::Depth => "gpara: depth map from a few measurements",
        }
    }

    /// What is measured, for one scene or several.
    pub(super) fn subject(self, num_scenes: usize) -> String {
        match (self, num_scenes) {
            (Self::Radio, 1) => "Path gain in a square of a generated city".into(),
            (Self::Radio, count) => format!("Path gain in {count} squares of a generated city"),
            (Self::Depth, 1) => "Depth in a generated room".into(),
            (Self::Depth, count) => format!("Depth in {count} generated rooms"),
        }
    }
}

/// A square; errors in gray/255 and in dB.
fn radio(map: RadioMap) -> SceneInput {
    let mut units = FieldUnits::new(GAIN_FLOOR_DB, GAIN_FLOOR_DB + GAIN_RANGE_DB, "dB");
    // Normalised values span 2 where gray/255 spans 1.
    units.measures.insert(0, Measure { unit: "gray/255".to_string(), factor: 0.5 });
    let (row, col) = map.scene.transmitter();
    SceneInput {
        task: Task { name: "radio", invalid_value: Some(f64::from(INVALID_VALUE)) },
        context: map.scene.context(),
        truth: map.field.iter().map(|&value| f64::from(value)).collect(),
        units,
        invalid_name: "building".to_string(),
        transmitter: Some((row.round() as usize, col.round() as usize)),
        id: map.id,
    }
}

/// A room; errors in metres and relative to the depth.
fn depth(map: DepthMap) -> Outcome<SceneInput> {
    let units = FieldUnits { ratio_scale: true, ..FieldUnits::new(0.0, DEPTH_RANGE_METERS, "m") };
    Ok(SceneInput {
        task: Task { name: "depth", invalid_value: None },
        context: map.scene.context(&map.valid)?,
        truth: map.field.iter().map(|&value| f64::from(value)).collect(),
        units,
        invalid_name: "no depth".to_string(),
        transmitter: None,
        id: map.id,
    })
}
