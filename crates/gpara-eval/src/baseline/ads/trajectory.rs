//! The particles between two rounds.

use gpara::{Context, Grid, Observations, Pullback, Result, SeedTree};

use super::AdsSettings;
use crate::baseline::chain::{Chain, Estimates, States};
use crate::baseline::dps::misfit_cotangent;

/// The particles at one step of the chain.
pub(super) struct Trajectory {
    seeds: SeedTree,
    grid: Grid,
    states: States,
    step: usize,
    /// What the network said of the states; `None` before it was asked at this step.
    asked: Option<Asked>,
}

struct Asked {
    estimates: Estimates,
    pullback: Box<dyn Pullback>,
}

impl Trajectory {
    /// Pure noise at the first step.
    pub(super) fn begin(chain: &Chain, context: &Context, seeds: SeedTree) -> Self {
        let grid = context.grid();
        let states = States::samples(seeds, chain.num_samples(), grid.num_nodes());
        Self { seeds, grid, states, step: 0, asked: None }
    }

    pub(super) fn belongs_to(&self, seeds: SeedTree, context: &Context) -> bool {
        self.seeds == seeds && self.grid == context.grid()
    }

    /// Goes on until the network has been asked at `step`, every step on the way guided by the measurements.
    ///
    /// Returns the network evaluations made.
    pub(super) fn advance_to(
        &mut self,
        step: usize,
        chain: &Chain,
        settings: &AdsSettings,
        context: &Context,
        observations: &Observations,
    ) -> Result<u64> {
        let scene = chain.on(context);
        let measured = scene.measured(observations)?;
        loop {
            let level = &scene.levels()[self.step];
            let asked = match self.asked.take() {
                Some(asked) => asked,
                None => {
                    let (estimates, pullback) = scene.linearized(level, &self.states.values)?;
                    Asked { estimates, pullback }
                }
            };
            if self.step >= step {
                self.asked = Some(asked);
                return Ok(scene.network_calls());
            }
            let Asked { estimates, pullback } = asked;
            let gradient = pullback.pull_back(&misfit_cotangent(&estimates, &measured, settings.norm))?;
            let (signal, spread) = level.next_scales();
            // The deterministic step of DDIM, then down the gradient.
            self.states.update(|at, _, noisy, _| {
                let noise = level.noise(noisy, estimates.free[at]);
                signal * estimates.clean[at] + spread * noise - settings.omega * gradient[at]
            });
            scene.require_finite(level, &self.states.values)?;
            self.step += 1;
        }
    }

    /// The clean estimates at the step that was last asked, `[particles, num_nodes]`.
    pub(super) fn clean(&self) -> &[f64] {
        &self.asked.as_ref().expect("a trajectory that advanced was asked").estimates.clean
    }
}
