//! DDNM and DDNM+: the measured part of every clean estimate is replaced, the rest follows the prior.

use gpara::{Reconstruction, ReconstructionInput, Reconstructor, Result};
use serde::{Deserialize, Serialize};

use super::chain::{Chain, Level, States};
use super::error::require;

/// How measured cells are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DdnmRule {
    /// DDNM: the measured value as if it were exact.
    Exact,
    /// DDNM+: weighted by the known noise of the measurement.
    #[default]
    Noisy,
}

/// What a time travel goes back up from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TravelFrom {
    /// The estimate before the measured cells were replaced, as in the published code: the way up forgets them.
    Estimate,
    /// The estimate after.
    #[default]
    Projected,
}

/// The settings of [`Ddnm`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DdnmSettings {
    /// How measured cells are treated.
    pub rule: DdnmRule,
    /// eta, the share of fresh noise: 1 is all, 0 is a deterministic chain.
    pub eta: f64,
    /// Levels a time travel goes back up.
    pub travel_length: usize,
    /// How often each stretch is walked; 1 is no time travel.
    pub travel_repeat: usize,
    /// What it goes back up from.
    pub travel_from: TravelFrom,
}

impl Default for DdnmSettings {
    fn default() -> Self {
        Self {
            rule: DdnmRule::Noisy,
            eta: 0.85,
            travel_length: 1,
            travel_repeat: 1,
            travel_from: TravelFrom::Projected,
        }
    }
}

/// Denoising diffusion null-space model for measured cells.
#[derive(Clone)]
pub struct Ddnm {
    chain: Chain,
    settings: DdnmSettings,
}

impl Ddnm {
    /// DDNM over a chain.
    ///
    /// # Errors
    /// `InvalidInput` if eta is outside [0, 1], or a travel has no length or no repeat.
    pub fn new(chain: Chain, settings: DdnmSettings) -> Result<Self> {
        require((0.0..=1.0).contains(&settings.eta), "eta", settings.eta, "0 to 1")?;
        require(settings.travel_length > 0, "travel_length", settings.travel_length as f64, "at least 1")?;
        require(settings.travel_repeat > 0, "travel_repeat", settings.travel_repeat as f64, "at least 1")?;
        Ok(Self { chain, settings })
    }
}

impl Reconstructor for Ddnm {
    fn name(&self) -> &str {
        match self.settings.rule {
            DdnmRule::Exact => "ddnm",
            DdnmRule::Noisy => "ddnm-plus",
        }
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let DdnmSettings { rule, eta, travel_length, travel_repeat, travel_from } = self.settings;
        let scene = self.chain.on(input.context);
        let measured = scene.measured(input.observations)?;
        let mut states = States::samples(input.seeds, self.chain.num_samples(), scene.num_nodes());
        let mut travel_start = Vec::new();
        for step in path(scene.levels().len(), travel_length, travel_repeat) {
            match step {
                Step::Down { from } => {
                    let level = &scene.levels()[from];
                    let estimates = scene.estimates(level, &states.values)?;
                    let mut projected = estimates.clean.clone();
                    states.update(|at, node, noisy, normal| {
                        let transition = match (measured[node], rule) {
                            (None, _) => Transition::unmeasured(level, eta),
                            (Some(_), DdnmRule::Exact) => {
                                Transition { weight: 1.0, ..Transition::unmeasured(level, eta) }
                            }
                            (Some(entry), DdnmRule::Noisy) => Transition::measured(level, eta, entry.noise_std),
                        };
                        if let Some(entry) = measured[node] {
                            projected[at] -= transition.weight * (projected[at] - entry.value);
                        }
                        let mean = level.alpha_bar_next.sqrt() * projected[at]
                            + transition.old_noise * level.noise(noisy, estimates.free[at]);
                        if level.alpha_bar_next < 1.0 { mean + transition.fresh_noise * normal() } else { mean }
                    });
                    scene.require_finite(level, &states.values)?;
                    travel_start = match travel_from {
                        TravelFrom::Estimate => estimates.clean,
                        TravelFrom::Projected => projected,
                    };
                }
                Step::Up { to } => {
                    let alpha_bar = scene.levels()[to].alpha_bar;
                    let (signal, spread) = (alpha_bar.sqrt(), (1.0 - alpha_bar).sqrt());
                    states.update(|at, _, _, normal| signal * travel_start[at] + spread * normal());
                }
            }
        }
        scene.reconstruction(states.values)
    }
}

/// x_next = sqrt(a') (x0 - weight (x0 - y)) + old_noise * eps + fresh_noise * z, for one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Transition {
    weight: f64,
    old_noise: f64,
    fresh_noise: f64,
}

impl Transition {
    fn unmeasured(level: &Level, eta: f64) -> Self {
        let (_, spread) = level.next_scales();
        Self { weight: 0.0, old_noise: spread * (1.0 - eta * eta).sqrt(), fresh_noise: spread * eta }
    }

    /// DDNM+ with singular value 1: the measurement's own noise is part of the next level's noise, as far as it fits in.
    fn measured(level: &Level, eta: f64, noise_std: f64) -> Self {
        let (signal, spread) = level.next_scales();
        let carried = signal * noise_std;
        if spread >= carried {
            let fresh_noise = (spread * spread - carried * carried).sqrt();
            Self { weight: 1.0, old_noise: 0.0, fresh_noise }
        } else {
            let weight = spread * (1.0 - eta * eta).sqrt() / carried;
            Self { weight, old_noise: 0.0, fresh_noise: spread * eta }
        }
    }
}

/// One move along the levels; 0 is the noisiest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// One evaluation of the network, to the next level or to the clean field.
    Down { from: usize },
    /// Fresh noise, back to an earlier level.
    Up { to: usize },
}

/// The way down with time travel: at every `length`-th level counted from the clean end, `length` levels back up and down
/// again, `repeat - 1` times.
fn path(num_levels: usize, length: usize, repeat: usize) -> Vec<Step> {
    // Heights count from the clean end, as the multiples do.
    let mut travels_left: Vec<usize> = (0..num_levels)
        .map(|height| {
            let starts_here = height.is_multiple_of(length) && height + length < num_levels;
            if starts_here { repeat - 1 } else { 0 }
        })
        .collect();
    let level = |height: usize| num_levels - 1 - height;
    let mut steps = Vec::new();
    let mut height = num_levels - 1;
    loop {
        steps.push(Step::Down { from: level(height) });
        if height == 0 {
            return steps;
        }
        height -= 1;
        if travels_left[height] > 0 {
            travels_left[height] -= 1;
            height += length;
            steps.push(Step::Up { to: level(height) });
        }
    }
}

#[cfg(test)]
mod tests {
    use gpara::ReverseCoefficients;

    use super::*;

    fn level(alpha_bar: f64, alpha_bar_next: f64) -> Level {
        let coefficients = ReverseCoefficients { clean: 0.0, noisy: 0.0, noise_variance: 0.0 };
        Level { timestep: 0, alpha_bar, alpha_bar_next, coefficients }
    }

    /// Noise of the next state at a measured cell: fresh, and carried in by the measurement.
    fn total_noise(transition: Transition, level: &Level, noise_std: f64) -> f64 {
        let carried = level.alpha_bar_next.sqrt() * transition.weight * noise_std;
        (transition.fresh_noise.powi(2) + carried.powi(2)).sqrt()
    }

    #[test]
    fn noisy_measurement_leaves_the_noise_of_the_next_level_where_it_fits() {
        let noise_std = 0.2;
        let level = level(0.1, 0.5);
        let transition = Transition::measured(&level, 0.85, noise_std);
        assert_eq!((transition.weight, transition.old_noise), (1.0, 0.0));
        assert!((total_noise(transition, &level, noise_std) - 0.5f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn measurement_noisier_than_the_next_level_is_weighted_down_to_its_noise() {
        let noise_std = 0.5;
        let level = level(0.9, 0.99);
        let transition = Transition::measured(&level, 0.85, noise_std);
        assert!(transition.weight > 0.0 && transition.weight < 1.0);
        // eta^2 of fresh and 1 - eta^2 of carried noise.
        assert!((total_noise(transition, &level, noise_std) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn last_step_projects_exact_values_only() {
        let last = level(0.9999, 1.0);
        assert_eq!(Transition::measured(&last, 0.85, 0.0).weight, 1.0);
        assert_eq!(Transition::measured(&last, 0.85, 1e-4).weight, 0.0);
    }

    #[test]
    fn path_without_travel_goes_down_once() {
        let down = |from| Step::Down { from };
        assert_eq!(path(3, 1, 1), [down(0), down(1), down(2)]);
    }

    #[test]
    fn path_with_travel_walks_each_stretch_again() {
        let (down, up) = (|from| Step::Down { from }, |to| Step::Up { to });
        assert_eq!(path(3, 1, 2), [down(0), up(0), down(0), down(1), up(1), down(1), down(2)]);
        assert_eq!(path(4, 2, 3).iter().filter(|step| matches!(step, Step::Down { .. })).count(), 4 + 2 * 2);
    }
}
