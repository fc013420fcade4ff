//! What the published code does at few steps and should not: each slip shows in `official` and not in `aligned`.

use std::sync::Arc;

use gpara::{Denoiser, NoiseSchedule, Observation, Observations, Reconstructor};
use gpara_eval::baseline::{
    ChainSettings, Ddnm, DdnmRule, DdnmSettings, DiffPir, DiffPirSettings, Dps, DpsSettings, Fps, FpsSettings,
    MisfitNorm, TravelFrom, Variant,
};

use crate::dense_oracle::cases::{self, Case};
use crate::toys::{Constant, Recorder};
use crate::world::{chain_of, free, reconstruct, toy_denoiser};

/// One cell far from the prior, measured well.
fn far_measurement(noise_std: f64) -> (Case, usize, f64) {
    let (mut case, node, value) = (cases::named("full 6x5"), 8, 6.0);
    case.observations = Observations::none(case.grid());
    case.observations.add(&case.valid, &[Observation { node, value, noise_std }]).unwrap();
    (case, node, value)
}

/// Mean of one node over the states of a call.
fn mean_of(states: &[f64], num_nodes: usize, node: usize) -> f64 {
    let values = states.iter().skip(node).step_by(num_nodes);
    values.sum::<f64>() / (states.len() / num_nodes) as f64
}

/// The constant prior with one wrong answer, at timestep 0.
fn spoiled(value: f64) -> Arc<dyn Denoiser> {
    Arc::new(Constant { value: 0.25, exception: Some((0, value)) })
}

#[test]
fn fps_official_has_the_measurements_one_level_late_and_skips_a_call() {
    let (case, node, value) = far_measurement(1e-3);
    let schedule = NoiseSchedule::ddpm();
    let record = |variant| {
        let recorder = Recorder::new(toy_denoiser(&case));
        let fps = FpsSettings { variant, ..FpsSettings::default() };
        let found = reconstruct(&Fps::new(chain_of(recorder.clone(), free(5, 200)), fps).unwrap(), &case, 1);
        (recorder, found.network_calls)
    };
    // alpha_bar that the measured cell of a state really has, against that of the timestep it is asked at.
    let shown = |states: &[f64]| (mean_of(states, case.grid().num_nodes(), node) / value).powi(2);

    let (official, calls) = record(Variant::Official);
    assert_eq!((official.timesteps(), calls), (vec![749, 500, 250, 0], 4 * 200 * 5));
    // Asked at 749 about pure noise, at 500 about 749, at 250 about 500, at 0 about 250.
    for ((_, states), really) in official.calls()[1..].iter().zip([749, 500, 250]) {
        assert!((shown(states) - schedule.alpha_bar(really)).abs() < 0.02, "{} {really}", shown(states));
    }

    let (aligned, calls) = record(Variant::Aligned);
    assert_eq!((aligned.timesteps(), calls), (vec![999, 749, 500, 250, 0], 5 * 200 * 5));
    for (timestep, states) in aligned.calls() {
        assert!((shown(&states) - schedule.alpha_bar(timestep)).abs() < 0.02, "{} {timestep}", shown(&states));
    }
}

#[test]
fn diffpir_official_wastes_its_last_call_and_its_overwrite() {
    let (case, node, value) = far_measurement(1e-4);
    let run = |denoiser: Arc<dyn Denoiser>, settings: DiffPirSettings| {
        reconstruct(&DiffPir::new(chain_of(denoiser, free(5, 50)), settings).unwrap(), &case, 1)
    };
    let official = DiffPirSettings { variant: Variant::Official, ..DiffPirSettings::default() };
    let aligned = DiffPirSettings::default();

    let (whole, wrong) = (run(spoiled(0.25), official), run(spoiled(-7.0), official));
    assert_eq!(whole.samples, wrong.samples, "the last answer is not used");
    assert_eq!(whole.network_calls, 250, "and is paid for");
    let (whole, wrong) = (run(spoiled(0.25), aligned), run(spoiled(-7.0), aligned));
    assert!((whole.mean[0] - 0.25).abs() < 1e-12 && (wrong.mean[0] + 7.0).abs() < 1e-12);

    // What is returned is the state before: noise of 0.01 in every cell, measured or not.
    let noise = (1.0 - NoiseSchedule::ddpm().alpha_bar(0)).sqrt();
    let spread = |settings| run(spoiled(0.25), settings).std.unwrap();
    let kept = spread(official);
    assert!(
        (kept[node] / noise - 1.0).abs() < 0.4 && (kept[0] / noise - 1.0).abs() < 0.4,
        "{} {}",
        kept[node],
        kept[0]
    );
    let removed = spread(aligned);
    assert!(removed[node] < 1e-12 && removed[0] < 1e-12, "{} {}", removed[node], removed[0]);

    let overwritten = |settings| run(spoiled(0.25), DiffPirSettings { overwrite: true, ..settings }).mean[node];
    assert_eq!(overwritten(official), run(spoiled(0.25), official).mean[node]);
    assert_ne!(overwritten(official), value);
    assert_eq!(overwritten(aligned), value);
}

#[test]
fn ddnm_time_travel_forgets_the_measurements_unless_it_goes_up_from_the_projection() {
    let (case, node, value) = far_measurement(1e-4);
    let schedule = NoiseSchedule::ddpm();
    for (travel_from, remembers) in [(TravelFrom::Estimate, false), (TravelFrom::Projected, true)] {
        let recorder = Recorder::new(Arc::new(Constant { value: 0.25, exception: None }));
        let settings = DdnmSettings { rule: DdnmRule::Exact, travel_repeat: 2, travel_from, ..DdnmSettings::default() };
        reconstruct(&Ddnm::new(chain_of(recorder.clone(), free(3, 2000)), settings).unwrap(), &case, 1);
        assert_eq!(recorder.timesteps(), [999, 999, 500, 500, 0]);
        // The fourth call asks about a state that went back up to 500.
        let states = &recorder.calls()[3].1;
        let shown = mean_of(states, case.grid().num_nodes(), node) / schedule.alpha_bar(500).sqrt();
        let expected = if remembers { value } else { 0.25 };
        // Five standard errors of the fresh noise.
        assert!((shown - expected).abs() < 5.0 / (2000.0 * schedule.alpha_bar(500)).sqrt(), "{travel_from:?}: {shown}");
    }
}

#[test]
fn dps_norm_of_the_batch_couples_samples_and_shortens_their_steps() {
    let case = cases::named("full 6x5");
    let run = |norm, samples, denoiser: Arc<dyn Denoiser>| {
        let settings = DpsSettings { zeta: 0.5, norm };
        reconstruct(&Dps::new(chain_of(denoiser, free(5, samples)), settings).unwrap(), &case, 1).samples.unwrap()
    };
    let first = |norm, samples| run(norm, samples, toy_denoiser(&case)).sample(0).to_vec();
    assert_ne!(first(MisfitNorm::Batch, 1), first(MisfitNorm::Batch, 4));
    assert_eq!(first(MisfitNorm::PerSample, 1), first(MisfitNorm::PerSample, 4));

    // A prior that says the same of every state has the same misfit in every sample: the step is 1 / sqrt(4) as long.
    let constant = || Arc::new(Constant { value: 0.25, exception: None });
    let moved = |norm| {
        let settings = |zeta| DpsSettings { zeta, norm };
        let at = |zeta| {
            let dps = Dps::new(chain_of(constant(), free(5, 4)), settings(zeta)).unwrap();
            reconstruct(&dps, &case, 1).samples.unwrap().sample(0).to_vec()
        };
        let (guided, free) = (at(0.5), at(0.0));
        guided.iter().zip(&free).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    };
    assert!((moved(MisfitNorm::Batch) / moved(MisfitNorm::PerSample) - 0.5).abs() < 1e-9);
}

#[test]
fn dps_at_a_misfit_of_zero_stays_where_it_is() {
    let (mut case, node, _) = far_measurement(1e-4);
    case.observations = Observations::none(case.grid());
    case.observations.add(&case.valid, &[Observation { node, value: 0.25, noise_std: 1e-4 }]).unwrap();
    let at = |zeta| {
        let constant = Arc::new(Constant { value: 0.25, exception: None });
        let dps = Dps::new(chain_of(constant, free(5, 2)), DpsSettings { zeta, norm: MisfitNorm::PerSample }).unwrap();
        reconstruct(&dps, &case, 1).samples.unwrap()
    };
    assert_eq!(at(4.0), at(0.0));
}

#[test]
fn clipped_cells_give_no_gradient() {
    let (case, node, _) = far_measurement(1e-4);
    let moved = |clip, value| {
        let settings = ChainSettings { clip, ..free(1, 1) };
        let chain = chain_of(Arc::new(Constant { value, exception: None }), settings);
        let dps = Dps::new(chain, DpsSettings { zeta: 1.0, norm: MisfitNorm::PerSample }).unwrap();
        reconstruct(&dps, &case, 1).mean[node]
    };
    // One step to the clean field: the estimate, less a step of length 1 towards the measured 6.
    assert!((moved(false, 2.0) - 3.0).abs() < 1e-12 && (moved(true, 0.5) - 1.5).abs() < 1e-12);
    assert!((moved(true, 2.0) - 1.0).abs() < 1e-12, "the estimate is clipped to 1 and does not follow the state");
}

#[test]
fn prior_without_gradient_stops_dps_with_its_name() {
    let case = cases::named("full 6x5");
    let recorder = Recorder::new(toy_denoiser(&case));
    let dps: &dyn Reconstructor = &Dps::new(chain_of(recorder, free(5, 1)), DpsSettings::default()).unwrap();
    let error = crate::world::try_reconstruct(dps, &case, &case.observations, 1).unwrap_err();
    assert_eq!(error.kind(), gpara::ErrorKind::Unsupported);
    assert!(error.to_string().contains("`recorder`") && error.hint().unwrap().contains("--weights"), "{error}");
}
