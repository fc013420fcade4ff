//! FPS: single paths by hand, the law of many particles, and what its weights say.

use gpara::{Observation, ReconstructionInput, SeedTree};
use gpara_eval::baseline::{ChainSettings, Fps, FpsOutput, FpsRun, FpsSettings, Level, StepGrid, Variant};

use crate::affine_chain::{Affine, denoiser};
use crate::dense_oracle::cases::{self, Case};
use crate::dense_oracle::matrix::Dense;
use crate::world::{
    CLOSE, DEVIATIONS, assert_close, chain, context, distance, exact_posterior, free, mean_field, scenes,
};

fn run(case: &Case, settings: ChainSettings, fps: FpsSettings, seed: u64) -> FpsRun {
    let (context, precision) = (context(case), case.prior());
    let (observations, seeds) = (&case.observations, SeedTree::new(seed));
    let input = ReconstructionInput { context: &context, observations, precision: &precision, ensemble: None, seeds };
    Fps::new(chain(case, settings), fps).unwrap().run(&input).unwrap()
}

/// The measurements noised to every level, from the stream of run 0.
fn noised(case: &Case, levels: &[Level], fps: FpsSettings, seed: u64) -> Vec<Vec<f64>> {
    let mut stream = SeedTree::new(seed).stream("reconstruct/0/measurements");
    let entries: Vec<&Observation> = case.observations.iter().collect();
    let top = levels[0].alpha_bar;
    let (signal, spread) = if fps.variant == Variant::Official { (0.0, 1.0) } else { (top.sqrt(), (1.0 - top).sqrt()) };
    let mut path =
        vec![entries.iter().map(|entry| signal * entry.value + spread * stream.normal()).collect::<Vec<_>>()];
    for level in levels {
        let (a, next, c) = (level.alpha_bar, level.alpha_bar_next, fps.noise_fraction);
        let row = entries.iter().zip(path.last().unwrap().clone()).map(|(entry, value)| {
            let kept = ((1.0 - c) * (1.0 - next) / (1.0 - a)).sqrt();
            next.sqrt() * entry.value
                + kept * (value - a.sqrt() * entry.value)
                + (c * (1.0 - next)).sqrt() * stream.normal()
        });
        path.push(row.collect());
    }
    path
}

/// x -> mu(x) = sqrt(a') x0 + sqrt(1 - a') sqrt(1 - c) eps.
fn mean_map(case: &Case, level: &Level, fresh: f64) -> Affine {
    let prior = denoiser(case, &mean_field(case), level.alpha_bar, false);
    let (a, next, size) = (level.alpha_bar, level.alpha_bar_next, case.grid().num_nodes());
    let old = ((1.0 - next) * (1.0 - fresh) / (1.0 - a)).sqrt();
    let (mut matrix, mut offset) = (prior.matrix, prior.offset);
    for row in 0..size {
        for col in 0..size {
            let identity = f64::from(u8::from(row == col));
            *matrix.at_mut(row, col) = (next.sqrt() - old * a.sqrt()) * matrix.at(row, col) + old * identity;
        }
        offset[row] *= next.sqrt() - old * a.sqrt();
    }
    Affine { matrix, offset }
}

/// One particle needs no weights, so its path follows from three streams.
fn lone_path(case: &Case, levels: &[Level], fps: FpsSettings, seed: u64) -> Vec<f64> {
    let mut stream = SeedTree::new(seed).stream("reconstruct/0");
    let (path, official) = (noised(case, levels, fps, seed), fps.variant == Variant::Official);
    let entries: Vec<&Observation> = case.observations.iter().collect();
    let mut state = vec![0.0; case.grid().num_nodes()];
    stream.fill_normal(&mut state);
    entries.iter().zip(&path[0]).for_each(|(entry, value)| state[entry.node] = *value);
    for (index, level) in levels.iter().enumerate().skip(usize::from(official)) {
        let mean = mean_map(case, level, fps.noise_fraction).apply(&state);
        if level.alpha_bar_next == 1.0 {
            return mean;
        }
        let v = fps.noise_fraction * (1.0 - level.alpha_bar_next);
        let (late, seen) = if official { (level.alpha_bar, index) } else { (level.alpha_bar_next, index + 1) };
        for node in 0..state.len() {
            let z = stream.normal();
            state[node] = match entries.iter().position(|entry| entry.node == node) {
                None => mean[node] + v.sqrt() * z,
                Some(at) => {
                    let q = late * entries[at].noise_std.max(fps.min_noise_std).powi(2);
                    (q * mean[node] + v * path[seen][at]) / (q + v) + (q * v / (q + v)).sqrt() * z
                }
            };
        }
    }
    unreachable!("the last level returns")
}

#[test]
fn theory_path_of_one_particle_follows_from_its_streams_in_both_variants() {
    for case in scenes() {
        for variant in [Variant::Official, Variant::Aligned] {
            let fps = FpsSettings { variant, particles: 1, ..FpsSettings::default() };
            let found = run(&case, free(5, 1), fps, 4);
            let expected = lone_path(&case, chain(&case, free(5, 1)).levels(), fps, 4);
            assert_close(case.name, &found.reconstruction.mean, &expected, CLOSE);
        }
    }
}

#[test]
fn theory_many_particles_follow_the_conditioned_gaussian() {
    // One weighted step from a start with the measured cells set: the weights must turn the proposal into the law of the
    // prior's step given the noised measurements.
    for case in scenes() {
        let fps = FpsSettings { particles: 20_000, output: FpsOutput::All, ..FpsSettings::default() };
        let settings = ChainSettings { grid: StepGrid::Trailing, ..free(2, 1) };
        let found = run(&case, settings, fps, 9);
        let levels = chain(&case, settings).levels().to_vec();
        let path = noised(&case, &levels, fps, 9);

        let (size, entries) = (case.grid().num_nodes(), case.observations.iter().collect::<Vec<_>>());
        let first = mean_map(&case, &levels[0], fps.noise_fraction);
        let mut start = vec![0.0; size];
        entries.iter().zip(&path[0]).for_each(|(entry, value)| start[entry.node] = *value);
        let prior_mean = first.apply(&start);
        let is_free = |node: usize| entries.iter().all(|entry| entry.node != node);
        let v = fps.noise_fraction * (1.0 - levels[0].alpha_bar_next);
        let covariance = |row: usize, col: usize| {
            let free = (0..size).filter(|&k| is_free(k));
            let spread: f64 = free.map(|k| first.matrix.at(row, k) * first.matrix.at(col, k)).sum();
            spread + if row == col { v } else { 0.0 }
        };
        let mut seen = Dense::zeros(entries.len());
        for (i, first) in entries.iter().enumerate() {
            for (j, second) in entries.iter().enumerate() {
                *seen.at_mut(i, j) = covariance(first.node, second.node);
            }
            *seen.at_mut(i, i) += levels[0].alpha_bar_next * first.noise_std.max(fps.min_noise_std).powi(2);
        }
        let innovation: Vec<f64> =
            entries.iter().zip(&path[1]).map(|(entry, value)| value - prior_mean[entry.node]).collect();
        let gain = seen.inverse().times(&innovation);
        let conditioned: Vec<f64> = (0..size)
            .map(|node| {
                let moved = entries.iter().zip(&gain).map(|(entry, gain)| covariance(node, entry.node) * gain);
                prior_mean[node] + moved.sum::<f64>()
            })
            .collect();
        let expected = mean_map(&case, &levels[1], fps.noise_fraction).apply(&conditioned);

        let (std, effective) = (found.reconstruction.std.unwrap(), found.effective_sizes[0][0]);
        assert!(effective > 200.0, "{}: {effective} effective particles", case.name);
        let errors = (1.0 / effective + 1.0 / fps.particles as f64).sqrt();
        for node in 0..size {
            let allowed = DEVIATIONS * std[node] * errors;
            let difference = (found.reconstruction.mean[node] - expected[node]).abs();
            assert!(difference < allowed, "{}, node {node}: off by {difference}, allowed {allowed}", case.name);
        }
    }
}

#[test]
fn theory_five_aligned_steps_reach_nearer_to_the_posterior_than_five_official_ones() {
    for case in ["full 6x5", "row 1x24"].map(cases::named) {
        let (posterior, _) = exact_posterior(&case);
        let missed = |variant| {
            let fps = FpsSettings { variant, particles: 20, ..FpsSettings::default() };
            let found = run(&case, free(5, 100), fps, 4).reconstruction.mean;
            distance(&found, &posterior) / distance(&mean_field(&case), &posterior)
        };
        let (official, aligned) = (missed(Variant::Official), missed(Variant::Aligned));
        assert!(aligned < 0.8 * official && aligned < 0.3, "{}: {aligned} of {official}", case.name);
    }
}

#[test]
fn mixed_levels_of_official_cost_effective_particles_and_both_collapse_at_the_last_level() {
    for case in scenes() {
        let sizes = |variant| {
            let fps = FpsSettings { variant, particles: 20, ..FpsSettings::default() };
            let runs = run(&case, free(5, 100), fps, 4).effective_sizes;
            assert!(runs.iter().flatten().all(|size| (1.0 - 1e-9..=20.0 + 1e-9).contains(size)));
            let mean = |step: usize| runs.iter().map(|run| run[step]).sum::<f64>() / runs.len() as f64;
            (mean(0), mean(runs[0].len() - 1))
        };
        let ((official, _), (aligned, last)) = (sizes(Variant::Official), sizes(Variant::Aligned));
        assert!(official < 8.0 && aligned > 19.0, "{}: {official} and {aligned} of 20 particles", case.name);
        // From alpha_bar = 0.52 to 0.9999 in one step, the noised measurements say nearly all there is to say.
        assert!(last < 3.0, "{}: {last} of 20", case.name);
    }
}
