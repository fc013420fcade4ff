//! One scene of a test set: what a method sees, and the truth it is scored against.

use gpara::{Context, ValidMask};

/// One scene.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Its name in the data set.
    pub id: String,
    /// What is known before measuring. It may be wrong, where an evaluation asks for that.
    pub context: Context,
    /// The true field, `num_nodes` normalised values.
    pub truth: Vec<f64>,
    /// The cells that are scored: those that truly carry a value.
    pub scored: ValidMask,
    /// Standard deviation of the measurement noise, normalised units.
    pub noise_std: f64,
    /// The nodes that may be measured; `None`: every valid cell.
    pub candidates: Option<Vec<usize>>,
}

impl Scene {
    /// A scene whose context is right and whose cells can all be measured.
    pub fn new(id: String, context: Context, truth: Vec<f64>, noise_std: f64) -> Self {
        let scored = context.valid().clone();
        Self { id, context, truth, scored, noise_std, candidates: None }
    }
}
