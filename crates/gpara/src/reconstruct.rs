//! The seam of reconstruction: measurements in, mean, spread and samples of the whole field out (Algorithm 1, stage II).

mod beyond_mask;
mod gaussian;
mod mean;
mod trajectory;

pub use beyond_mask::{BeyondMask, extend_beyond_mask};
pub use gaussian::{GaussianReconstructor, GaussianSettings, PriorMean, StdScale};
pub use mean::{DenseSettings, MeanReconstructor, MeanSettings, StdSource};
pub use trajectory::{CorrectionSchedule, TrajectoryReconstructor, TrajectorySettings};

use crate::calibration::NORMAL_INTERVALS;
use crate::context::Context;
use crate::error::Result;
use crate::observations::Observations;
use crate::precision::ResidualPrecision;
use crate::prior::PriorEnsemble;
use crate::seed::SeedTree;
use crate::solve::SolveInfo;

/// What a reconstruction is made from.
#[derive(Debug, Clone, Copy)]
pub struct ReconstructionInput<'a> {
    /// The scene.
    pub context: &'a Context,
    /// The measurements, S and y.
    pub observations: &'a Observations,
    /// The graph's residual precision Q_g.
    pub precision: &'a ResidualPrecision,
    /// Samples of the prior, not conditioned by the graph; read only where the spread comes from an ensemble.
    pub ensemble: Option<&'a PriorEnsemble>,
    /// The root of the randomness.
    pub seeds: SeedTree,
}

/// The field as far as it is known, in the field's normalised units.
#[derive(Debug, Clone, PartialEq)]
pub struct Reconstruction {
    /// The estimate, `[num_nodes]`.
    pub mean: Vec<f64>,
    /// Standard deviation of every node; `None` where there is no basis for one, e.g. a single trajectory.
    pub std: Option<Vec<f64>>,
    /// Samples of the field, if the method makes any.
    pub samples: Option<PriorEnsemble>,
    /// Network evaluations made.
    pub network_calls: u64,
    /// Of all solves for the mean, the one with the largest relative residual; `None` if there was none.
    pub worst_solve: Option<SolveInfo>,
}

/// Estimates the whole field from the measurements.
pub trait Reconstructor: Send + Sync {
    /// A name for reports, e.g. `trajectory`.
    fn name(&self) -> &str;

    /// Half widths of the central intervals of [`COVERAGE_LEVELS`](crate::COVERAGE_LEVELS) around the mean, in the std of a
    /// reconstruction from these measurements; a normal distribution's unless errors were found to have other tails.
    fn interval_factors(&self, context: &Context, observations: &Observations) -> [f64; 3] {
        let _ = (context, observations);
        NORMAL_INTERVALS
    }

    /// The field given the measurements; without any, the prior's own estimate.
    ///
    /// # Errors
    /// `ShapeMismatch` if the parts lie on different grids, `NonFinite` if a network returns a NaN, and whatever the
    /// linear algebra raises.
    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction>;
}

/// The solve that is farthest from its solution; the same for any order of `solves`.
fn worst_solve(solves: impl IntoIterator<Item = SolveInfo>) -> Option<SolveInfo> {
    solves.into_iter().reduce(|worst, solve| {
        let order = solve.rel_residual.total_cmp(&worst.rel_residual).then(solve.iterations.cmp(&worst.iterations));
        if order.is_gt() { solve } else { worst }
    })
}
