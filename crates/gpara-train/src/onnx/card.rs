//! The model card beside an exported network; `gpara_nn::Card` reads it, and its tests read one written here.

use std::collections::BTreeMap;

use serde::Serialize;

use gpara::{Result, SeedTree};
use gpara_nn::Target;

use super::exported::Exported;
use super::parity::Inputs;
use crate::config::{Keep, Output, Role, Source};
use crate::weights::RunFacts;

/// Seed of the golden inputs.
const GOLDEN_SEED: u64 = 20_261_128;
/// Number of golden output values.
const NUM_GOLDEN: usize = 8;
/// Largest difference `verify` allows, in units of the output.
const GOLDEN_TOLERANCE: f64 = 1e-3;

#[derive(Debug, Serialize)]
pub(super) struct ModelCard {
    name: String,
    task: &'static str,
    role: Role,
    parameterization: Output,
    #[serde(skip_serializing_if = "Target::is_field")]
    target: Target,
    sees_measurements: bool,
    channels: Vec<String>,
    value_range: [f64; 2],
    units: &'static str,
    grid: [usize; 2],
    size_multiple: usize,
    data: String,
    licence: &'static str,
    seed: u64,
    steps: u64,
    training_seconds: f64,
    device: String,
    sha256: String,
    schedule: Schedule,
    validation: BTreeMap<String, f64>,
    golden: Golden,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Schedule {
    Linear { first: f64, last: f64, steps: usize },
}

#[derive(Debug, Serialize)]
struct Golden {
    seed: u64,
    timestep: usize,
    grid: [usize; 2],
    nodes: Vec<usize>,
    values: Vec<f64>,
    tolerance: f64,
}

impl ModelCard {
    /// The card of `network` as a run made it.
    pub(super) fn new(network: &dyn Exported, facts: &RunFacts, sha256: &str) -> Result<Self> {
        let config = &facts.config;
        let schedule = Schedule::Linear { first: 1e-4, last: 0.02, steps: 1000 };
        let timestep = match config.role {
            Role::Prior | Role::Scorer => 500,
            Role::Mean => 999,
            Role::Graph | Role::Spread => 0,
        };
        let (maps, licence) = match config.data {
            Source::Radio => (
                "701 RadioMapSeer city masks (from a re-upload that states no licence: research grade), gains simulated \
                 by the project, 2 m cells by mask-aware halving",
                "MIT OR Apache-2.0 (research grade)",
            ),
            Source::Depth => (
                "NYU Depth V2, labelled part at 192 x 256 (from a mirror that states no licence, distributed for \
                 research: research grade), 8-bit depth",
                "MIT OR Apache-2.0 (research grade)",
            ),
            Source::SampleCity => ("the embedded sample city", "MIT OR Apache-2.0"),
            Source::SampleRooms => ("the embedded sample rooms", "MIT OR Apache-2.0"),
        };
        let units = match config.data.is_depth() {
            true => "2 depth / 10 m - 1",
            false => "2 gray / 255 - 1; one gray is 0.389 dB of path gain",
        };
        let kept = match (facts.kept, facts.total_steps) {
            (Keep::Best, Some(total)) => format!("weights of step {} of {total}, the best validation", facts.steps),
            (Keep::Best, None) => format!("weights of step {}, the best validation", facts.steps),
            (Keep::Last, _) => format!("weights of the last step, {}", facts.steps),
        };
        Ok(Self {
            name: config.name.clone(),
            task: config.data.task(),
            role: config.role,
            parameterization: config.parameterization,
            target: config.target,
            sees_measurements: config.measurements,
            channels: config.channels(),
            value_range: [-1.0, 1.0],
            units,
            grid: facts.grid,
            size_multiple: network.shape().side_multiple(),
            data: format!("{maps}; {} training maps; {kept}", facts.num_maps),
            licence,
            seed: config.seed,
            steps: facts.steps,
            training_seconds: facts.seconds,
            device: facts.device.clone(),
            sha256: sha256.into(),
            schedule,
            validation: facts.validation.iter().cloned().collect(),
            golden: Golden::compute(network, timestep)?,
        })
    }

    pub(super) fn to_toml(&self) -> String {
        toml::to_string(self).expect("a card has only plain values")
    }
}

impl Golden {
    /// Output values of libtorch on inputs from a seed, drawn as `gpara_nn::GoldenCheck` says.
    fn compute(network: &dyn Exported, timestep: usize) -> Result<Self> {
        let side = 8 * network.shape().side_multiple();
        let (tree, num_nodes) = (SeedTree::new(GOLDEN_SEED), side * side);
        let mut stream = tree.stream("golden/x");
        let noisy = (0..num_nodes).map(|_| stream.normal() as f32).collect();
        let context = (0..network.shape().in_channels - 1)
            .flat_map(|channel| {
                let mut stream = tree.stream(&format!("golden/context/{channel}"));
                (0..num_nodes).map(move |_| stream.uniform() as f32)
            })
            .collect();
        let inputs = Inputs { shape: [side, side], noisy, timesteps: vec![timestep as f32], context };
        let output = inputs.through_libtorch(network)?;
        // One node in each eighth of the rows, in different columns; the first and the last are corners.
        let nodes: Vec<usize> = (0..NUM_GOLDEN).map(|at| at * (num_nodes - 1) / (NUM_GOLDEN - 1)).collect();
        let values = nodes.iter().map(|&node| f64::from(output[node])).collect();
        Ok(Self { seed: GOLDEN_SEED, timestep, grid: [side, side], nodes, values, tolerance: GOLDEN_TOLERANCE })
    }
}
