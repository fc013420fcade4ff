//! What is known before any measurement: named input channels and the valid mask (c and V_val in the paper).

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::{Grid, ValidMask};

/// One named input map of a network, `num_nodes` values.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    /// Name as in the model card, e.g. `line_of_sight`.
    pub name: String,
    /// One value a node; f32 because networks read it and nothing else does arithmetic on it.
    pub values: Vec<f32>,
}

/// Weights of red, green and blue in the luminance (Rec. 601).
const LUMINANCE: [(&str, f32); 3] = [("red", 0.299), ("green", 0.587), ("blue", 0.114)];

/// The context of one scene.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    valid: ValidMask,
    channels: Vec<Channel>,
}

impl Context {
    /// A context of `channels` over the cells of `valid`.
    ///
    /// # Errors
    /// `ShapeMismatch` if a channel has another length than the grid, `NonFinite` if it holds a NaN or infinity.
    pub fn new(valid: ValidMask, channels: Vec<Channel>) -> Result<Self> {
        let grid = valid.grid();
        for channel in &channels {
            if channel.values.len() != grid.num_nodes() {
                let (name, found) = (channel.name.clone(), channel.values.len());
                return Err(ContextError::Length { name, found, grid }.into());
            }
            if let Some(node) = channel.values.iter().position(|value| !value.is_finite()) {
                let (row, col) = grid.row_col(node);
                return Err(ContextError::NonFinite { name: channel.name.clone(), row, col }.into());
            }
        }
        Ok(Self { valid, channels })
    }

    /// A context without channels in which every cell is valid.
    pub fn empty(grid: Grid) -> Self {
        Self { valid: ValidMask::all(grid), channels: Vec::new() }
    }

    /// The grid of the field.
    pub fn grid(&self) -> Grid {
        self.valid.grid()
    }

    /// The valid cells.
    pub fn valid(&self) -> &ValidMask {
        &self.valid
    }

    /// The channels in the order of the task.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The values of a channel by name.
    pub fn channel(&self, name: &str) -> Option<&[f32]> {
        self.channels.iter().find(|channel| channel.name == name).map(|channel| channel.values.as_slice())
    }

    /// The luminance of the scene's picture, 0..=1, `num_nodes` values; `None` without the channels `red`, `green` and `blue`,
    /// colours in [-1, 1].
    pub fn luminance(&self) -> Option<Vec<f64>> {
        let mut sum = vec![0.0f32; self.grid().num_nodes()];
        for (name, weight) in LUMINANCE {
            sum.iter_mut().zip(self.channel(name)?).for_each(|(sum, value)| *sum += weight * value);
        }
        Some(sum.into_iter().map(|value| f64::from(0.5 * (value + 1.0))).collect())
    }
}

#[derive(Debug, ThisError)]
enum ContextError {
    #[error("context channel `{name}` has {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Length { name: String, found: usize, grid: Grid },
    #[error("context channel `{name}` is not finite at row {row}, col {col}")]
    NonFinite { name: String, row: usize, col: usize },
}

impl ErrorDetail for ContextError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
        }
    }
}
