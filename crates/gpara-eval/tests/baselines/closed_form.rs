//! Methods that are affine in the state: moments and samples by dense propagation, and what is left to the posterior.

use gpara::{Observation, Reconstructor, SeedTree};
use gpara_eval::baseline::{
    Chain, Ddnm, DdnmRule, DdnmSettings, Ddpm, DiffPir, DiffPirSettings, Level, TravelFrom, Variant,
};

use crate::affine::{self, CellRule, NoiseOf, NoisyMap};
use crate::affine_chain::assert_moments;
use crate::dense_oracle::cases::{self, Case};
use crate::world::{CLOSE, DEVIATIONS, assert_close, chain, distance, exact_posterior, free, reconstruct, scenes};

const NUM_SAMPLES: usize = 3000;

/// Compares samples of a method with its dense chain: single samples, mean and covariance.
#[track_caller]
fn assert_is_the_chain(name: &str, method: &dyn Reconstructor, case: &Case, steps: &[NoisyMap]) {
    let found = reconstruct(method, case, 6);
    let samples = found.samples.unwrap();
    for sample in [0, 1, NUM_SAMPLES - 1] {
        let expected = affine::sample(steps, &mut SeedTree::new(6).stream(&format!("reconstruct/{sample}")));
        assert_close(&format!("{name} on {}", case.name), samples.sample(sample), &expected, CLOSE);
    }
    let (mean, covariance) = affine::moments(steps);
    assert_moments(samples.as_slice(), &mean, &covariance, DEVIATIONS);
    assert_close(name, &found.mean, &samples.mean(), CLOSE);
}

fn unmeasured(level: &Level, eta: f64) -> CellRule {
    let spread = (1.0 - level.alpha_bar_next).sqrt();
    CellRule { weight: 0.0, value: 0.0, old: spread * (1.0 - eta * eta).sqrt(), fresh: spread * eta }
}

/// The cell rule of DDNM and DDNM+.
fn ddnm_rule(level: &Level, settings: DdnmSettings, entry: Option<&Observation>) -> CellRule {
    let rule = unmeasured(level, settings.eta);
    let Some(entry) = entry else { return rule };
    if settings.rule == DdnmRule::Exact {
        return CellRule { weight: 1.0, value: entry.value, ..rule };
    }
    let (s, g) = ((1.0 - level.alpha_bar_next).sqrt(), level.alpha_bar_next.sqrt() * entry.noise_std);
    match s >= g {
        true => CellRule { weight: 1.0, value: entry.value, old: 0.0, fresh: (s * s - g * g).sqrt() },
        false => {
            let weight = s * (1.0 - settings.eta * settings.eta).sqrt() / g;
            CellRule { weight, value: entry.value, old: 0.0, fresh: s * settings.eta }
        }
    }
}

fn ddnm_chain(case: &Case, levels: &[Level], settings: DdnmSettings) -> Vec<NoisyMap> {
    let down = |level: &Level| affine::step(case, level, NoiseOf::Estimate, |entry| ddnm_rule(level, settings, entry));
    levels.iter().map(down).collect()
}

fn diffpir_rule(level: &Level, settings: DiffPirSettings, entry: Option<&Observation>) -> CellRule {
    let spread = (1.0 - level.alpha_bar_next).sqrt();
    let (old, fresh) = (spread * (1.0 - settings.zeta).sqrt(), spread * settings.zeta.sqrt());
    let Some(entry) = entry else { return CellRule { weight: 0.0, value: 0.0, old, fresh } };
    let noise_ratio = (1.0 - level.alpha_bar) / level.alpha_bar;
    let rho = settings.lambda * entry.noise_std.max(settings.min_noise_std).powi(2) / noise_ratio;
    CellRule { weight: 1.0 / (1.0 + rho), value: entry.value, old, fresh }
}

fn diffpir_chain(case: &Case, levels: &[Level], settings: DiffPirSettings) -> Vec<NoisyMap> {
    let used = match settings.variant {
        Variant::Official => &levels[..levels.len() - 1],
        Variant::Aligned => levels,
    };
    let step =
        |level: &Level| affine::step(case, level, NoiseOf::Projected, |entry| diffpir_rule(level, settings, entry));
    used.iter().map(step).collect()
}

fn ddpm_chain(case: &Case, levels: &[Level]) -> Vec<NoisyMap> {
    let step = |level: &Level| {
        let plain = CellRule { weight: 0.0, value: 0.0, old: 0.0, fresh: level.coefficients.noise_variance.sqrt() };
        let mut map = affine::step(case, level, NoiseOf::Estimate, |_| plain);
        let scale = level.coefficients.clean / level.alpha_bar_next.sqrt();
        for row in 0..map.offset.len() {
            (0..map.offset.len()).for_each(|col| *map.matrix.at_mut(row, col) *= scale);
            *map.matrix.at_mut(row, row) += level.coefficients.noisy;
            map.offset[row] *= scale;
        }
        map
    };
    levels.iter().map(step).collect()
}

fn five(case: &Case) -> Chain {
    chain(case, free(5, NUM_SAMPLES))
}

#[test]
fn theory_ddpm_is_the_ancestral_chain() {
    for case in scenes() {
        let chain = five(&case);
        let steps = ddpm_chain(&case, chain.levels());
        assert_is_the_chain("ddpm", &Ddpm::new(chain), &case, &steps);
    }
}

#[test]
fn theory_ddnm_and_ddnm_plus_are_their_affine_chains() {
    for case in scenes() {
        for (rule, eta) in [(DdnmRule::Exact, 0.85), (DdnmRule::Noisy, 0.85), (DdnmRule::Exact, 0.0)] {
            let (chain, settings) = (five(&case), DdnmSettings { rule, eta, ..DdnmSettings::default() });
            let steps = ddnm_chain(&case, chain.levels(), settings);
            assert_is_the_chain(&format!("{rule:?}"), &Ddnm::new(chain, settings).unwrap(), &case, &steps);
        }
    }
}

#[test]
fn theory_time_travel_goes_up_from_the_chosen_estimate() {
    let case = cases::named("full 6x5");
    for travel_from in [TravelFrom::Estimate, TravelFrom::Projected] {
        let settings = DdnmSettings { travel_repeat: 2, travel_from, ..DdnmSettings::default() };
        let chain = chain(&case, free(3, NUM_SAMPLES));
        let levels = chain.levels();
        let size = case.grid().num_nodes();
        // Every stretch but the last is walked twice: down, up again, down.
        let up = |level: &Level| {
            let rule = |entry: Option<&Observation>| match travel_from {
                TravelFrom::Estimate => CellRule { weight: 0.0, ..ddnm_rule(level, settings, entry) },
                TravelFrom::Projected => ddnm_rule(level, settings, entry),
            };
            let mut map = affine::projected(&case, level, rule);
            let (signal, spread) = (level.alpha_bar.sqrt(), (1.0 - level.alpha_bar).sqrt());
            for row in 0..size {
                (0..size).for_each(|col| *map.matrix.at_mut(row, col) *= signal);
                map.offset[row] *= signal;
                map.noise[row] = spread;
            }
            // The step down drew its noise, and its state is given up.
            NoisyMap { unused: size, draws: true, ..map }
        };
        let down = ddnm_chain(&case, levels, settings);
        let steps = [up(&levels[0]), down[0].clone(), up(&levels[1]), down[1].clone(), down[2].clone()];
        let method = Ddnm::new(chain.clone(), settings).unwrap();
        assert_is_the_chain(&format!("{travel_from:?}"), &method, &case, &steps);
        assert_eq!(reconstruct(&method, &case, 1).network_calls, 5 * NUM_SAMPLES as u64);
    }
}

#[test]
fn theory_diffpir_is_its_affine_chain_in_both_variants() {
    for case in scenes() {
        for (variant, zeta) in [(Variant::Aligned, 1.0), (Variant::Aligned, 0.1), (Variant::Official, 1.0)] {
            let (chain, settings) = (five(&case), DiffPirSettings { variant, zeta, ..DiffPirSettings::default() });
            let steps = diffpir_chain(&case, chain.levels(), settings);
            assert_is_the_chain(&format!("{variant:?}"), &DiffPir::new(chain, settings).unwrap(), &case, &steps);
        }
    }
}

#[test]
fn look_at_the_bias() {
    for case in scenes() {
        let (mean, std) = exact_posterior(&case);
        println!("{} prior distance {}", case.name, distance(&crate::world::mean_field(&case), &mean));
        for count in [5, 20, 100, 400] {
            let levels = chain(&case, free(count, 1)).levels().to_vec();
            for (name, steps) in [
                ("ddnm", ddnm_chain(&case, &levels, DdnmSettings { rule: DdnmRule::Exact, ..Default::default() })),
                ("ddnm+", ddnm_chain(&case, &levels, DdnmSettings::default())),
                ("diffpir", diffpir_chain(&case, &levels, DiffPirSettings::default())),
                (
                    "diffpir-o",
                    diffpir_chain(&case, &levels, DiffPirSettings { variant: Variant::Official, ..Default::default() }),
                ),
            ] {
                let (m, c) = affine::moments(&steps);
                let s: Vec<f64> = c.diagonal().iter().map(|v| v.sqrt()).collect();
                println!("{count} {name} mean {:.4} std {:.4}", distance(&m, &mean), distance(&s, &std));
            }
        }
        println!("std scale {}", distance(&std, &vec![0.0; std.len()]));
    }
}
