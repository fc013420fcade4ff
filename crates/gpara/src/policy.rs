//! The seam of active acquisition: the state of a session in, the next cells to measure out.

mod farthest_point;
mod gpara;
mod max_variance;
mod probes;
mod random;

use thiserror::Error as ThisError;

pub use farthest_point::{FarthestPoint, FirstPoint};
pub use gpara::{Gpara, GparaSettings, RiskRule};
pub use max_variance::MaxVariance;
pub use random::Random;

use crate::context::Context;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::observations::{Observation, Observations};
use crate::precision::ResidualPrecision;
use crate::prior::PriorEnsemble;
use crate::seed::SeedTree;

/// The state a policy decides on.
#[derive(Debug, Clone, Copy)]
pub struct AcquisitionInput<'a> {
    /// The scene.
    pub context: &'a Context,
    /// The admissible nodes C_k in increasing order: valid, not measured, not pending, not excluded.
    pub candidates: &'a [usize],
    /// The measurements so far.
    pub observations: &'a Observations,
    /// Nodes asked for whose values have not come yet, in increasing order.
    pub pending: &'a [usize],
    /// Samples of the prior, not yet conditioned by the graph; `None` where no prior is given.
    pub ensemble: Option<&'a PriorEnsemble>,
    /// The graph's residual precision Q_g.
    pub precision: &'a ResidualPrecision,
    /// Noise standard deviation expected of the next measurements, in field units.
    pub noise_std: f64,
    /// Number of the round, from 0.
    pub round: usize,
    /// Measurements the session may make in all, Gamma.
    pub budget: usize,
    /// The root of this session's randomness.
    pub seeds: SeedTree,
}

/// One cell a policy chose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SelectedPoint {
    /// The cell's node.
    pub node: usize,
    /// The policy's own score of it; comparable within one round of one policy only.
    pub score: f64,
    /// The drop of the weighted posterior risk expected of measuring it alone (Eq. 15); `None` if the policy has none.
    pub expected_risk_drop: Option<f64>,
}

/// What a policy chose in one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The points in the order of choice.
    pub points: Vec<SelectedPoint>,
    /// The weighted posterior risk before these measurements (Eq. 14); `None` if the policy has none.
    pub risk: Option<f64>,
}

/// Decides where to measure next.
pub trait Policy: Send {
    /// A name for reports, e.g. `farthest-point`.
    fn name(&self) -> &str;

    /// Whether [`select`](Self::select) reads the ensemble; a session draws none for a policy that does not.
    fn needs_ensemble(&self) -> bool;

    /// Network evaluations the policy itself has made.
    fn network_calls(&self) -> u64 {
        0
    }

    /// A recorded round is repeated at this state instead of being asked: a policy that remembers anything from round to
    /// round does what [`select`](Self::select) would have done to it, so that later rounds give the same bits.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    fn replayed(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<()> {
        let _ = (input, count);
        Ok(())
    }

    /// Chooses `count` distinct candidates.
    ///
    /// # Errors
    /// `InvalidInput` if `count` is 0 or exceeds the candidates, or if the ensemble is needed and missing; whatever the
    /// linear algebra raises.
    fn select(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection>;

    /// The score of every candidate, in their order, larger being better; for diagnosis.
    ///
    /// # Errors
    /// `Unsupported` for a policy that does not score cells; else those of [`select`](Self::select).
    fn scores(&mut self, input: &AcquisitionInput<'_>) -> Result<Vec<f64>> {
        let _ = input;
        Err(PolicyError::NoScores { policy: self.name().to_owned() }.into())
    }
}

/// # Errors
/// `InvalidInput` unless `1 <= count <= candidates`.
fn check_count(input: &AcquisitionInput<'_>, count: usize) -> Result<()> {
    let num_candidates = input.candidates.len();
    if count == 0 || count > num_candidates {
        return Err(PolicyError::Count { count, num_candidates }.into());
    }
    Ok(())
}

/// The measurements as they will be once the pending nodes are measured, taken as measured at `mean`.
fn with_pending(input: &AcquisitionInput<'_>, mean: impl Fn(usize) -> f64) -> Result<Observations> {
    let noise_std = input.noise_std;
    let assumed: Vec<_> =
        input.pending.iter().map(|&node| Observation { node, value: mean(node), noise_std }).collect();
    let mut observations = input.observations.clone();
    observations.add(input.context.valid(), &assumed)?;
    Ok(observations)
}

#[derive(Debug, ThisError)]
enum PolicyError {
    #[error("{count} points cannot be chosen from {num_candidates} candidates: 1 to {num_candidates} are allowed")]
    Count { count: usize, num_candidates: usize },
    #[error("policy `{policy}` weighs by an ensemble and none is given")]
    NoEnsemble { policy: &'static str },
    #[error("policy `{policy}` weighs by a predicted spread and has no belief to take it from")]
    NoBelief { policy: &'static str },
    #[error("policy `{policy}` does not give every cell a score")]
    NoScores { policy: String },
}

impl ErrorDetail for PolicyError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoScores { .. } => ErrorKind::Unsupported,
            Self::Count { .. } | Self::NoEnsemble { .. } | Self::NoBelief { .. } => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoEnsemble { .. } => Some("give a prior, or choose uniform risk weights".into()),
            Self::NoBelief { .. } => Some("give one by `Gpara::believing`, or choose uniform risk weights".into()),
            Self::NoScores { .. } => Some("ask the policy `gpara` or one of your own".into()),
            Self::Count { .. } => None,
        }
    }
}
