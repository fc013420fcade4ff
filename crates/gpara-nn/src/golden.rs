//! The golden check of a model: inputs from a seed, a few output values to recompute.

use gpara::{Result, SeedTree};
use serde::{Deserialize, Serialize};

use crate::error::ModelError;

/// A few output values of the network itself (before conversion to the clean field) on inputs drawn from a seed.
///
/// The state is `SeedTree(seed).stream("golden/x")`, standard normal; context channel k is
/// `stream("golden/context/k")`, uniform in [0, 1); each is rounded to f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenCheck {
    /// Seed of the inputs.
    pub seed: u64,
    /// Timestep.
    pub timestep: usize,
    /// Rows and columns, multiples of the card's `size_multiple`.
    pub grid: [usize; 2],
    /// Which nodes are compared.
    pub nodes: Vec<usize>,
    /// Their output values.
    pub values: Vec<f64>,
    /// Largest difference allowed.
    pub tolerance: f64,
}

/// Outcome of a golden check that passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verification {
    /// Number of values compared.
    pub num_values: usize,
    /// Largest difference to the card.
    pub max_difference: f64,
    /// Largest difference allowed.
    pub tolerance: f64,
}

impl GoldenCheck {
    /// The state and the context `[num_channels, rows * cols]`.
    pub(crate) fn inputs(&self, num_channels: usize) -> (Vec<f32>, Vec<f32>) {
        let (tree, num_nodes) = (SeedTree::new(self.seed), self.grid[0] * self.grid[1]);
        let mut stream = tree.stream("golden/x");
        let noisy = (0..num_nodes).map(|_| stream.normal() as f32).collect();
        let context = (0..num_channels)
            .flat_map(|channel| {
                let mut stream = tree.stream(&format!("golden/context/{channel}"));
                (0..num_nodes).map(move |_| stream.uniform() as f32)
            })
            .collect();
        (noisy, context)
    }

    /// Compares the output of the network `[rows * cols]` with the card.
    pub(crate) fn compare(&self, name: &str, output: &[f32]) -> Result<Verification> {
        let mut max_difference = 0.0f64;
        for (&node, &expected) in self.nodes.iter().zip(&self.values) {
            let found = f64::from(output[node]);
            let difference = (found - expected).abs();
            if difference.is_nan() || difference > self.tolerance {
                let (name, tolerance) = (name.to_owned(), self.tolerance);
                return Err(ModelError::Golden { name, node, found, expected, tolerance }.into());
            }
            max_difference = max_difference.max(difference);
        }
        Ok(Verification { num_values: self.nodes.len(), max_difference, tolerance: self.tolerance })
    }

    pub(crate) fn check(&self, num_timesteps: usize, size_multiple: usize) -> Result<()> {
        let refuse = |key, value: String, allowed| Err(ModelError::CardValue { key, value, allowed }.into());
        if self.timestep >= num_timesteps {
            return refuse("golden.timestep", self.timestep.to_string(), "below schedule.steps");
        }
        if self.grid.iter().any(|&side| side == 0 || side % size_multiple != 0 || side > 1024) {
            return refuse("golden.grid", format!("{:?}", self.grid), "multiples of size_multiple up to 1024");
        }
        let num_nodes = self.grid[0] * self.grid[1];
        if self.nodes.is_empty() || self.nodes.iter().any(|&node| node >= num_nodes) {
            return refuse("golden.nodes", format!("{:?}", self.nodes), "at least one node of golden.grid");
        }
        if self.values.len() != self.nodes.len() || !self.values.iter().all(|value| value.is_finite()) {
            return refuse("golden.values", format!("{:?}", self.values), "one finite value a node");
        }
        if !(self.tolerance > 0.0 && self.tolerance.is_finite()) {
            return refuse("golden.tolerance", self.tolerance.to_string(), "a finite number > 0");
        }
        Ok(())
    }
}
