//! DPS and ADS: gradients through the prior, by hand.

use gpara::{Observation, Reconstructor, SeedTree};
use gpara_eval::baseline::{Ads, AdsSettings, Ddpm, Dps, DpsSettings, Level, MisfitNorm};

use crate::affine_chain::denoiser;
use crate::dense_oracle::cases::Case;
use crate::world::{CLOSE, assert_close, chain, distance, exact_posterior, free, mean_field, reconstruct, scenes};

/// J' m (x0 - y) / ||m (x0 - y)|| for every state, the norm over `together` states.
fn gradients(case: &Case, level: &Level, clean: &[Vec<f64>], together: usize) -> Vec<Vec<f64>> {
    // The Jacobian of the Gaussian denoiser is symmetric.
    let jacobian = denoiser(case, &mean_field(case), level.alpha_bar, false).matrix;
    let misfit = |entry: &Observation, state: &[f64]| state[entry.node] - entry.value;
    clean
        .chunks(together)
        .flat_map(|states| {
            let square: f64 = states.iter().flat_map(|s| case.observations.iter().map(|e| misfit(e, s).powi(2))).sum();
            let of_state = |state: &Vec<f64>| {
                let mut cotangent = vec![0.0; state.len()];
                case.observations.iter().for_each(|entry| cotangent[entry.node] = misfit(entry, state) / square.sqrt());
                jacobian.times(&cotangent)
            };
            states.iter().map(of_state).collect::<Vec<_>>()
        })
        .collect()
}

fn clean_estimates(case: &Case, level: &Level, states: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let prior = denoiser(case, &mean_field(case), level.alpha_bar, false);
    states.iter().map(|state| prior.apply(state)).collect()
}

fn start(case: &Case, seed: u64, count: usize) -> (Vec<Vec<f64>>, Vec<gpara::Stream>) {
    let mut streams: Vec<_> = (0..count).map(|k| SeedTree::new(seed).stream(&format!("reconstruct/{k}"))).collect();
    let draw = |stream: &mut gpara::Stream| {
        let mut state = vec![0.0; case.grid().num_nodes()];
        stream.fill_normal(&mut state);
        state
    };
    (streams.iter_mut().map(draw).collect(), streams)
}

#[test]
fn theory_dps_is_the_ancestral_step_less_the_gradient_of_the_norm() {
    const SAMPLES: usize = 3;
    for case in scenes() {
        for (norm, together) in [(MisfitNorm::PerSample, 1), (MisfitNorm::Batch, SAMPLES)] {
            let (chain, zeta) = (chain(&case, free(5, SAMPLES)), 0.7);
            let (mut states, mut streams) = start(&case, 3, SAMPLES);
            for level in chain.levels() {
                let clean = clean_estimates(&case, level, &states);
                let gradients = gradients(&case, level, &clean, together);
                let coefficients = level.coefficients;
                for (k, state) in states.iter_mut().enumerate() {
                    for (node, value) in state.iter_mut().enumerate() {
                        *value = coefficients.clean * clean[k][node] + coefficients.noisy * *value;
                        if coefficients.noise_variance > 0.0 {
                            *value += coefficients.noise_variance.sqrt() * streams[k].normal();
                        }
                        *value -= zeta * gradients[k][node];
                    }
                }
            }
            let dps = Dps::new(chain, DpsSettings { zeta, norm }).unwrap();
            let found = reconstruct(&dps, &case, 3);
            assert_close(case.name, found.samples.unwrap().as_slice(), &states.concat(), CLOSE);
            assert_eq!(found.network_calls, 15);
        }
    }
}

#[test]
fn dps_without_guidance_is_the_prior_bit_for_bit() {
    let case = &scenes()[0];
    let dps = Dps::new(chain(case, free(5, 4)), DpsSettings { zeta: 0.0, ..DpsSettings::default() }).unwrap();
    let prior = reconstruct(&Ddpm::new(chain(case, free(5, 4))), case, 2);
    assert_eq!(reconstruct(&dps, case, 2).samples, prior.samples);
}

#[test]
fn theory_ads_alone_is_the_guided_deterministic_chain() {
    const PARTICLES: usize = 3;
    for case in scenes() {
        let (chain, omega) = (chain(&case, free(6, PARTICLES)), 0.8);
        let (mut states, _) = start(&case, 5, PARTICLES);
        let mut clean = Vec::new();
        for level in chain.levels() {
            clean = clean_estimates(&case, level, &states);
            let gradients = gradients(&case, level, &clean, PARTICLES);
            let (a, next) = (level.alpha_bar, level.alpha_bar_next);
            for (k, state) in states.iter_mut().enumerate() {
                for (node, value) in state.iter_mut().enumerate() {
                    let noise = (*value - a.sqrt() * clean[k][node]) / (1.0 - a).sqrt();
                    *value = next.sqrt() * clean[k][node] + (1.0 - next).sqrt() * noise - omega * gradients[k][node];
                }
            }
        }
        let ads = Ads::new(chain, AdsSettings { omega, ..AdsSettings::default() }).unwrap();
        let found = reconstruct(ads.reconstructor().as_ref(), &case, 5);
        // The answer is the last estimate, not the state after it.
        assert_close(case.name, found.samples.unwrap().as_slice(), &clean.concat(), CLOSE);
        assert_eq!(found.network_calls, 18);
    }
}

/// Share of the measurements' information that the mean of 300 samples misses.
fn missed(case: &Case, method: &dyn Reconstructor) -> f64 {
    let (posterior, _) = exact_posterior(case);
    distance(&reconstruct(method, case, 3).mean, &posterior) / distance(&mean_field(case), &posterior)
}

#[test]
fn dps_nears_the_posterior_and_steps_of_fixed_length_overshoot_it() {
    for case in scenes() {
        let missed = |zeta| {
            let settings = DpsSettings { zeta, ..DpsSettings::default() };
            missed(&case, &Dps::new(chain(&case, free(20, 300)), settings).unwrap())
        };
        let (none, some, much) = (missed(0.0), missed(1.0), missed(4.0));
        assert!(none > 0.9 && some < 0.35 && much > some + 0.1, "{}: {none} {some} {much}", case.name);
    }
}

#[test]
fn ads_nears_the_posterior_and_steps_of_fixed_length_overshoot_it() {
    for case in scenes() {
        let missed = |omega| {
            let settings = AdsSettings { omega, norm: MisfitNorm::PerSample, ..AdsSettings::default() };
            let ads = Ads::new(chain(&case, free(20, 300)), settings).unwrap();
            missed(&case, ads.reconstructor().as_ref())
        };
        let (none, some, much) = (missed(0.0), missed(0.5), missed(4.0));
        assert!(none > 0.9 && some < 0.4 && much > some + 0.3, "{}: {none} {some} {much}", case.name);
    }
}
