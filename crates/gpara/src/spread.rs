//! The seam to a network that knows how wrong a mean estimate is, cell by cell.

use crate::calibration::NORMAL_INTERVALS;
use crate::context::Context;
use crate::error::Result;
use crate::observations::Observations;

/// Predicts the standard deviation of a mean estimate's error.
///
/// It is the spread of each cell alone; how the errors of cells go together is the graph's
/// [`ResidualPrecision`](crate::ResidualPrecision).
pub trait SpreadPredictor: Send + Sync {
    /// A name for reports, e.g. the model's file name.
    fn name(&self) -> &str;

    /// The standard deviation of truth - `mean`, normalised units; same inputs, same bits, for any number of threads.
    ///
    /// # Shapes
    /// * `mean` - `num_nodes` values, the estimate given `observations`
    /// * returns `num_nodes` values > 0
    ///
    /// # Errors
    /// `ShapeMismatch` or `Incompatible` if the scene does not fit the network, `NonFinite` if it returns a NaN or
    /// infinity.
    fn predict_std(&self, context: &Context, observations: &Observations, mean: &[f64]) -> Result<Vec<f64>>;

    /// The factor that [`predict_std`](Self::predict_std) applies because of errors on validation data; 1 if it applies none.
    fn std_factor(&self, context: &Context, observations: &Observations) -> f64 {
        let _ = (context, observations);
        1.0
    }

    /// Half widths of the central intervals of [`COVERAGE_LEVELS`](crate::COVERAGE_LEVELS) around the mean, in those
    /// standard deviations; a normal distribution's unless errors were found to have other tails.
    fn interval_factors(&self, context: &Context, observations: &Observations) -> [f64; 3] {
        let _ = (context, observations);
        NORMAL_INTERVALS
    }
}
