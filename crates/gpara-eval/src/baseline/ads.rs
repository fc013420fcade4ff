//! ADS: one guided trajectory of particles that chooses the points on its way and is the reconstruction at its end.

mod score;
mod trajectory;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpara::{AcquisitionInput, Policy, Reconstruction, ReconstructionInput, Reconstructor, Result, Selection};
use serde::{Deserialize, Serialize};

pub use score::AdsScore;

use self::trajectory::Trajectory;
use super::chain::Chain;
use super::dps::MisfitNorm;
use super::error::{BaselineError, require};
use super::ranking::{best, check_count};

/// The settings of [`Ads`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdsSettings {
    /// omega, the length of the step along the gradient of the un-squared misfit.
    pub omega: f64,
    /// Over what that norm is taken; the published code takes all particles together.
    pub norm: MisfitNorm,
    /// How a cell is scored.
    pub score: AdsScore,
    /// s, the width of the entropy's kernel.
    pub width: f64,
    /// First step that chooses points.
    pub first_step: usize,
    /// The step before which the last points are chosen; the last step of the chain where left out.
    pub end_step: Option<usize>,
}

impl Default for AdsSettings {
    /// The published values for images of [-1, 1], and a window over the whole chain.
    fn default() -> Self {
        Self {
            omega: 1.0,
            norm: MisfitNorm::Batch,
            score: AdsScore::Variance,
            width: 10.0,
            first_step: 0,
            end_step: None,
        }
    }
}

/// Active diffusion subsampling, the pixel version.
///
/// Points and field come from one trajectory, so it has two faces: [`policy`](Self::policy) goes down the chain as it
/// chooses, [`reconstructor`](Self::reconstructor) takes the same trajectory to its end. One `Ads` follows one session: the
/// trajectory begins at round 0, and `reconstruct` ends it. Without a policy before it, `reconstruct` runs a whole
/// trajectory guided by the given measurements.
///
/// The particles are the samples of the chain; particle k starts from `reconstruct/{k}`, and nothing else is random. A
/// step that chooses evaluates the network, chooses from its estimates, and is guided by the measurements just made
/// through the same evaluation.
#[derive(Clone)]
pub struct Ads(Arc<Shared>);

struct Shared {
    chain: Chain,
    settings: AdsSettings,
    trajectory: Mutex<Option<Trajectory>>,
}

impl Ads {
    /// ADS over a chain whose samples are the particles.
    ///
    /// # Errors
    /// `InvalidInput` unless omega is a finite number >= 0, the width is positive, and the window lies in the chain.
    pub fn new(chain: Chain, settings: AdsSettings) -> Result<Self> {
        let AdsSettings { omega, width, first_step, end_step, .. } = settings;
        require(omega.is_finite() && omega >= 0.0, "omega", omega, "a finite number >= 0")?;
        require(width.is_finite() && width > 0.0, "width", width, "a finite number > 0")?;
        require(chain.num_samples() >= 2, "samples", chain.num_samples() as f64, "at least 2 particles")?;
        let last = chain.levels().len() - 1;
        let end = end_step.unwrap_or(last);
        require(end <= last, "end_step", end as f64, "at most the number of steps - 1")?;
        require(first_step <= end, "first_step", first_step as f64, "at most `end_step`")?;
        Ok(Self(Arc::new(Shared { chain, settings, trajectory: Mutex::new(None) })))
    }

    /// The face that chooses points.
    pub fn policy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    /// The face that gives the field.
    pub fn reconstructor(&self) -> Box<dyn Reconstructor> {
        Box::new(self.clone())
    }

    fn trajectory(&self) -> MutexGuard<'_, Option<Trajectory>> {
        // A step that failed leaves the trajectory where it was.
        self.0.trajectory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The step at which a round chooses: rounds are spread evenly over the window.
    fn step_of_round(&self, input: &AcquisitionInput<'_>, count: usize) -> Result<usize> {
        let AdsSettings { first_step, end_step, .. } = self.0.settings;
        let steps = self.0.chain.levels().len();
        let room = end_step.unwrap_or(steps - 1) - first_step;
        // Counted from what is measured and asked, because the last round of a session is smaller than the others.
        let done = input.observations.len() + input.pending.len();
        let rounds = input.round + input.budget.saturating_sub(done).div_ceil(count);
        if rounds > room {
            return Err(BaselineError::Rounds { budget: input.budget, count, rounds, steps, room }.into());
        }
        Ok(first_step + input.round * (room / rounds))
    }
}

impl Policy for Ads {
    fn name(&self) -> &str {
        "ads"
    }

    fn needs_ensemble(&self) -> bool {
        false
    }

    fn select(&mut self, input: &AcquisitionInput<'_>, count: usize) -> Result<Selection> {
        check_count(input, count)?;
        let step = self.step_of_round(input, count)?;
        let Shared { chain, settings, .. } = &*self.0;
        let mut held = self.trajectory();
        let trajectory = match held.as_mut() {
            Some(trajectory) if input.round > 0 && trajectory.belongs_to(input.seeds, input.context) => trajectory,
            _ if input.round > 0 => return Err(BaselineError::Order { round: input.round }.into()),
            _ => held.insert(Trajectory::begin(chain, input.context, input.seeds)),
        };
        trajectory.advance_to(step, chain, settings, input.context, input.observations)?;
        let clean = trajectory.clean();
        let scores = settings.score.of(clean, input.context.grid().num_nodes(), input.candidates, settings.width);
        Ok(Selection { points: best(input.candidates, &scores, count), risk: None })
    }
}

impl Reconstructor for Ads {
    fn name(&self) -> &str {
        "ads"
    }

    /// Network calls are those of the steps that were left.
    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let Shared { chain, settings, .. } = &*self.0;
        let mut trajectory = match self.trajectory().take() {
            Some(trajectory) if trajectory.belongs_to(input.seeds, input.context) => trajectory,
            _ => Trajectory::begin(chain, input.context, input.seeds),
        };
        let last = chain.levels().len() - 1;
        let network_calls = trajectory.advance_to(last, chain, settings, input.context, input.observations)?;
        let reconstruction = chain.on(input.context).reconstruction(trajectory.clean().to_vec())?;
        Ok(Reconstruction { network_calls, ..reconstruction })
    }
}
