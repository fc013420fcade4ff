//! Stage II: reverse diffusion trajectories whose clean estimates are corrected by the graph posterior at every step.

use std::sync::{Arc, Mutex};

use super::{Reconstruction, ReconstructionInput, Reconstructor, worst_solve};
use crate::counting_denoiser::CountingDenoiser;
use crate::denoiser::Denoiser;
use crate::error::Result;
use crate::posterior::{Correction, Posterior};
use crate::precision::ResidualPrecision;
use crate::prior::PriorEnsemble;
use crate::reverse_chain::{ChainPosition, SamplerSettings, Scene, run_reverse_chain};
use crate::solve::SolveInfo;

/// Which clean estimates are corrected, and how far a measurement reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CorrectionSchedule {
    /// All, by the graph: the paper's Stage II.
    StepWise,
    /// The last one only.
    FinalOnly,
    /// All, at the measured cells only: the graph's coupling is set to 0 ("point Bayes").
    PointWise,
    /// None: the prior's trajectories as they are.
    None,
}

/// The settings of Stage II.
#[derive(Debug, Clone, PartialEq)]
pub struct TrajectorySettings {
    /// The reverse chain and the clip before the correction.
    pub sampler: SamplerSettings,
    /// N.
    pub num_trajectories: usize,
    /// Which estimates are corrected.
    pub schedule: CorrectionSchedule,
    /// Solver, strength rho and the projection Pi after the correction (Eq. 13).
    pub correction: Correction,
}

/// The mean of N corrected trajectories; trajectory n takes its noise from the stream `reconstruct/{n}`.
///
/// The std is that of the trajectories (divisor N - 1). One posterior serves all steps and trajectories.
pub struct TrajectoryReconstructor {
    denoiser: Arc<dyn Denoiser>,
    settings: TrajectorySettings,
}

impl TrajectoryReconstructor {
    /// Stage II over a denoiser.
    pub fn new(denoiser: Arc<dyn Denoiser>, settings: TrajectorySettings) -> Self {
        Self { denoiser, settings }
    }

    /// The posterior the corrections are taken from; `None` if nothing is corrected.
    fn posterior(&self, input: &ReconstructionInput<'_>) -> Result<Option<Posterior>> {
        let precision = match self.settings.schedule {
            CorrectionSchedule::None => return Ok(None),
            CorrectionSchedule::PointWise => {
                let tau = input.precision.of_lone_cell();
                ResidualPrecision::new(input.precision.conductances().clone(), tau, 0.0)?
            }
            CorrectionSchedule::StepWise | CorrectionSchedule::FinalOnly => input.precision.clone(),
        };
        Posterior::new(&precision, input.observations).map(Some)
    }
}

impl Reconstructor for TrajectoryReconstructor {
    fn name(&self) -> &str {
        "trajectory"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let TrajectorySettings { sampler, num_trajectories, schedule, correction } = &self.settings;
        let denoiser = CountingDenoiser::new(Arc::clone(&self.denoiser));
        let scene = Scene { denoiser: &denoiser, context: input.context, observations: input.observations };
        let posterior = self.posterior(input)?;
        let worst: Mutex<Option<SolveInfo>> = Mutex::new(None);
        let refine = |position: ChainPosition, clean: &mut [f64]| {
            let skipped = *schedule == CorrectionSchedule::FinalOnly && !position.last;
            let Some(posterior) = posterior.as_ref().filter(|_| !skipped) else { return Ok(()) };
            let (refined, infos) = correction.refine(posterior, clean)?;
            clean.copy_from_slice(&refined);
            let mut worst = worst.lock().expect("no thread panics while it holds this lock");
            *worst = worst_solve(worst.iter().copied().chain(infos));
            Ok(())
        };
        let samples = run_reverse_chain(scene, sampler, *num_trajectories, input.seeds, "reconstruct", &refine)?;
        let grid = input.context.grid();
        let samples = PriorEnsemble::new(samples, grid.num_nodes())?;
        let std = match samples.ensemble_size() {
            1 => None,
            _ => Some(samples.moments(grid)?.variance.into_iter().map(f64::sqrt).collect()),
        };
        Ok(Reconstruction {
            mean: samples.mean(),
            std,
            samples: Some(samples),
            network_calls: denoiser.network_calls(),
            worst_solve: worst.into_inner().expect("no thread panics while it holds this lock"),
        })
    }
}
