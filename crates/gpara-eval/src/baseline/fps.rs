//! FPS-SMC: particles that are drawn towards a noised copy of the measurements and resampled by their likelihood.

use gpara::{Observation, Reconstruction, ReconstructionInput, Reconstructor, Result, SeedTree, Stream};
use serde::{Deserialize, Serialize};

use super::Variant;
use super::chain::{Chain, Level, States};
use super::error::require;

/// Which particles are the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FpsOutput {
    /// The first particle of each run, as in the published code: N runs give N samples.
    #[default]
    First,
    /// All of them: N runs of M particles give N M samples, those of one run depending on each other.
    All,
}

/// The settings of [`Fps`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FpsSettings {
    /// `official` has the measurements one level late and the states one level off; `aligned` has not.
    pub variant: Variant,
    /// c, the share of fresh noise.
    pub noise_fraction: f64,
    /// M, particles of a run.
    pub particles: usize,
    /// The smallest noise a measurement is taken to have: without it one particle gets all the weight.
    pub min_noise_std: f64,
    /// Which particles are the samples.
    pub output: FpsOutput,
}

impl Default for FpsSettings {
    /// The published command line's values; there the noise is always 0.05.
    fn default() -> Self {
        Self {
            variant: Variant::Aligned,
            noise_fraction: 0.95,
            particles: 5,
            min_noise_std: 1e-3,
            output: FpsOutput::First,
        }
    }
}

/// Filtering posterior sampling by sequential Monte Carlo; run k gives sample k, and all runs share each network call.
///
/// Particle 0 of run k starts from `reconstruct/{k}`, particle j from `reconstruct/{k}/particle/{j}`; the noised
/// measurements come from `reconstruct/{k}/measurements`, the draws of the resampling from `reconstruct/{k}/resample`.
#[derive(Clone)]
pub struct Fps {
    chain: Chain,
    settings: FpsSettings,
}

/// What a run of [`Fps`] gives beside the field.
#[derive(Debug, Clone, PartialEq)]
pub struct FpsRun {
    /// The field.
    pub reconstruction: Reconstruction,
    /// Effective number of particles 1 / sum w^2 before each resampling, `[runs][resamplings]`; M is best, 1 is a collapse.
    pub effective_sizes: Vec<Vec<f64>>,
}

impl Fps {
    /// FPS over a chain.
    ///
    /// # Errors
    /// `InvalidInput` unless c lies in (0, 1], there are particles, and the smallest noise is positive.
    pub fn new(chain: Chain, settings: FpsSettings) -> Result<Self> {
        let FpsSettings { noise_fraction, particles, min_noise_std, .. } = settings;
        require(noise_fraction > 0.0 && noise_fraction <= 1.0, "noise_fraction", noise_fraction, "above 0, up to 1")?;
        require(particles > 0, "particles", particles as f64, "at least 1")?;
        let is_noise = min_noise_std.is_finite() && min_noise_std > 0.0;
        require(is_noise, "min_noise_std", min_noise_std, "a finite number > 0")?;
        Ok(Self { chain, settings })
    }

    /// The field with the effective sample sizes.
    ///
    /// # Errors
    /// Those of [`Reconstructor::reconstruct`].
    pub fn run(&self, input: &ReconstructionInput<'_>) -> Result<FpsRun> {
        let scene = self.chain.on(input.context);
        let (num_nodes, num_particles) = (scene.num_nodes(), self.settings.particles);
        let num_runs = self.chain.num_samples();
        let (mut measured, levels) = (scene.measured(input.observations)?, scene.levels());
        for entry in measured.iter_mut().flatten() {
            entry.noise_std = entry.noise_std.max(self.settings.min_noise_std);
        }
        let paths: Vec<_> =
            (0..num_runs).map(|run| self.measurement_path(levels, &measured, input.seeds, run)).collect();
        let mut resampling: Vec<Stream> =
            (0..num_runs).map(|run| input.seeds.stream(&format!("reconstruct/{run}/resample"))).collect();
        let names = (0..num_runs).flat_map(|run| (0..num_particles).map(move |particle| stream_name(run, particle)));
        let mut states = States::noise(input.seeds, names, num_nodes);
        let run_of = |at: usize| at / (num_particles * num_nodes);
        states.update(|at, node, noise, _| measured[node].map_or(noise, |_| paths[run_of(at)][0][node]));

        let mut effective_sizes = vec![Vec::new(); num_runs];
        for (index, level) in levels.iter().enumerate().skip(self.first_level()) {
            let estimates = scene.estimates(level, &states.values)?;
            let is_last = level.alpha_bar_next == 1.0;
            let proposal = Proposal::new(level, self.settings);
            let seen = index + self.path_offset();
            let mut log_weights = vec![0.0; num_runs * num_particles];
            states.update(|at, node, noisy, normal| {
                let mean = proposal.mean(estimates.clean[at], level.noise(noisy, estimates.free[at]));
                match measured[node] {
                    _ if is_last => mean,
                    None => mean + proposal.variance.sqrt() * normal(),
                    Some(entry) => {
                        let noised = paths[run_of(at)][seen][node];
                        let (value, log_weight) = proposal.draw(mean, noised, entry.noise_std, normal);
                        log_weights[at / num_nodes] += log_weight;
                        value
                    }
                }
            });
            scene.require_finite(level, &states.values)?;
            if is_last {
                break;
            }
            for (run, states) in states.values.chunks_mut(num_particles * num_nodes).enumerate() {
                let weights = normalized(&log_weights[run * num_particles..][..num_particles]);
                effective_sizes[run].push(1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>());
                let parents: Vec<usize> =
                    (0..num_particles).map(|_| draw_index(&weights, &mut resampling[run])).collect();
                let old = states.to_vec();
                for (state, parent) in states.chunks_mut(num_nodes).zip(parents) {
                    state.copy_from_slice(&old[parent * num_nodes..][..num_nodes]);
                }
            }
        }
        let kept = match self.settings.output {
            FpsOutput::All => states.values,
            FpsOutput::First => {
                states.values.chunks(num_particles * num_nodes).flat_map(|run| run[..num_nodes].to_vec()).collect()
            }
        };
        Ok(FpsRun { reconstruction: scene.reconstruction(kept)?, effective_sizes })
    }

    /// The published loop spends the first level on the start alone.
    fn first_level(&self) -> usize {
        match self.settings.variant {
            Variant::Official => 1,
            Variant::Aligned => 0,
        }
    }

    /// Where the measurements of the level that a step goes to lie, from the index of the level it leaves.
    fn path_offset(&self) -> usize {
        match self.settings.variant {
            Variant::Official => 0,
            Variant::Aligned => 1,
        }
    }

    /// The measurements noised to every level of run `run`, the noisiest first; entry n is that of the clean field.
    ///
    /// y' = sqrt(a') y + sqrt((1 - c)(1 - a') / (1 - a)) (y_t - sqrt(a) y) + sqrt(c (1 - a')) z.
    fn measurement_path(
        &self,
        levels: &[Level],
        measured: &[Option<Observation>],
        seeds: SeedTree,
        run: usize,
    ) -> Vec<Vec<f64>> {
        let mut stream = seeds.stream(&format!("reconstruct/{run}/measurements"));
        let mut noise = || measured.iter().map(|entry| entry.map_or(0.0, |_| stream.normal())).collect::<Vec<f64>>();
        let top = levels[0].alpha_bar;
        let (signal, spread) = match self.settings.variant {
            // As if the top level held nothing of the field.
            Variant::Official => (0.0, 1.0),
            Variant::Aligned => (top.sqrt(), (1.0 - top).sqrt()),
        };
        let value = |node: usize| measured[node].map_or(0.0, |entry| entry.value);
        let first = noise().into_iter().enumerate().map(|(node, z)| signal * value(node) + spread * z).collect();
        let mut path: Vec<Vec<f64>> = vec![first];
        let fresh = self.settings.noise_fraction;
        for level in levels {
            let (signal, spread) = level.next_scales();
            let kept = (1.0 - fresh).sqrt() * spread / (1.0 - level.alpha_bar).sqrt();
            let last = path.last().expect("the path has its first entry");
            let next = noise().into_iter().enumerate().map(|(node, z)| {
                signal * value(node)
                    + kept * (last[node] - level.alpha_bar.sqrt() * value(node))
                    + fresh.sqrt() * spread * z
            });
            path.push(next.collect());
        }
        path
    }
}

impl Reconstructor for Fps {
    fn name(&self) -> &str {
        match self.settings.variant {
            Variant::Official => "fps-official",
            Variant::Aligned => "fps",
        }
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        Ok(self.run(input)?.reconstruction)
    }
}

fn stream_name(run: usize, particle: usize) -> String {
    match particle {
        // The start that all methods of a seed share.
        0 => format!("reconstruct/{run}"),
        particle => format!("reconstruct/{run}/particle/{particle}"),
    }
}

/// The Gaussian a particle's next value is drawn from, one cell.
#[derive(Debug, Clone, Copy)]
struct Proposal {
    variant: Variant,
    signal: f64,
    noise_weight: f64,
    /// v = c (1 - a').
    variance: f64,
    /// alpha_bar that scales the measurement's noise where values are drawn, and where they are weighed.
    drawn_at: f64,
    weighed_at: f64,
}

impl Proposal {
    fn new(level: &Level, settings: FpsSettings) -> Self {
        let (signal, spread) = level.next_scales();
        let fresh = settings.noise_fraction;
        let drawn_at = match settings.variant {
            Variant::Official => level.alpha_bar,
            Variant::Aligned => level.alpha_bar_next,
        };
        Self {
            variant: settings.variant,
            signal,
            noise_weight: spread * (1.0 - fresh).sqrt(),
            variance: fresh * spread * spread,
            drawn_at,
            weighed_at: level.alpha_bar_next,
        }
    }

    /// mu = sqrt(a') x0 + sqrt(1 - a') sqrt(1 - c) eps.
    fn mean(&self, clean: f64, noise: f64) -> f64 {
        self.signal * clean + self.noise_weight * noise
    }

    /// A value at a measured cell, and its share of the particle's log weight.
    fn draw(&self, mean: f64, noised: f64, noise_std: f64, normal: &mut dyn FnMut() -> f64) -> (f64, f64) {
        let (v, q) = (self.variance, self.drawn_at * noise_std * noise_std);
        let center = (q * mean + v * noised) / (q + v);
        let value = center + (q * v / (q + v)).sqrt() * normal();
        let log_weight = match self.variant {
            // Likelihood times transition over proposal, which no longer cancel: the likelihood is of another level.
            Variant::Official => {
                let weighed = self.weighed_at * noise_std * noise_std;
                -(noised - value).powi(2) / (2.0 * weighed) - (value - mean).powi(2) / (2.0 * v)
                    + (value - center).powi(2) * (q + v) / (2.0 * q * v)
            }
            // The same product for equal q, free of cancellation.
            Variant::Aligned => -(noised - mean).powi(2) / (2.0 * (q + v)),
        };
        (value, log_weight)
    }
}

/// Weights of sum 1 from their logarithms.
fn normalized(log_weights: &[f64]) -> Vec<f64> {
    let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = log_weights.iter().map(|log_weight| (log_weight - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// An index with the given probabilities.
fn draw_index(weights: &[f64], stream: &mut Stream) -> usize {
    let mut left = stream.uniform();
    for (index, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return index;
        }
    }
    // The weights may sum to a little less than 1.
    weights.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduced_weight_equals_the_full_product_for_equal_levels() {
        let mut stream = SeedTree::new(3).stream("weights");
        for _ in 0..100 {
            let (mean, noised) = (stream.normal(), stream.normal());
            let proposal = Proposal {
                variant: Variant::Official,
                signal: 0.5,
                noise_weight: 0.1,
                variance: 0.1 + stream.uniform(),
                drawn_at: 0.6,
                weighed_at: 0.6,
            };
            let (_, full) = proposal.draw(mean, noised, 0.3, &mut || stream.normal());
            let aligned = Proposal { variant: Variant::Aligned, ..proposal };
            let (_, reduced) = aligned.draw(mean, noised, 0.3, &mut || 0.0);
            assert!((full - reduced).abs() < 1e-12 * (1.0 + reduced.abs()), "{full} {reduced}");
        }
    }

    #[test]
    fn resampling_draws_in_proportion_to_the_weights() {
        let (weights, mut stream) = (normalized(&[0.0, 1f64.ln_1p(), f64::NEG_INFINITY]), SeedTree::new(1).stream("r"));
        assert!((weights[0] - 1.0 / 3.0).abs() < 1e-15);
        let count = (0..30_000).filter(|_| draw_index(&weights, &mut stream) == 0).count() as f64;
        // Five standard errors.
        assert!((count / 30_000.0 - 1.0 / 3.0).abs() < 5.0 * (2.0 / 9.0 / 30_000f64).sqrt());
    }
}
