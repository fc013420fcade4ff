//! Clean estimates and means of the tiny networks.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};

use gpara::{
    Channel, Context, Denoiser, DenoiserInput, ErrorKind, Grid, MeanPredictor, NoiseSchedule, Observation,
    Observations, SeedTree, ValidMask,
};
use gpara_nn::{Card, OnnxDenoiser, OnnxMean, Target};

const CHANNELS: [&str; 6] = ["building", "transmitter", "log_distance", "line_of_sight", "detour", "diffraction_order"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn prior(threads: usize) -> OnnxDenoiser {
    OnnxDenoiser::from_file(&data("tiny_prior.onnx"), threads).unwrap()
}

/// A scene of random maps; the same cells have the same values on every grid of the same width.
fn scene(grid: Grid) -> Context {
    let channels = CHANNELS.map(|name| {
        let mut stream = SeedTree::new(5).stream(name);
        Channel { name: name.into(), values: (0..grid.num_nodes()).map(|_| stream.uniform() as f32).collect() }
    });
    // A context stores its channels in the order of the task; a network finds them by name.
    Context::new(ValidMask::all(grid), channels.into_iter().rev().collect()).unwrap()
}

fn measured(context: &Context, entries: &[(usize, f64)]) -> Observations {
    let mut observations = Observations::none(context.grid());
    let entries: Vec<Observation> =
        entries.iter().map(|&(node, value)| Observation { node, value, noise_std: 0.01 }).collect();
    observations.add(context.valid(), &entries).unwrap();
    observations
}

fn estimates(prior: &OnnxDenoiser, noisy: &[f64], context: &Context, observations: &Observations) -> Vec<f64> {
    let mut clean = vec![0.0; noisy.len()];
    prior.clean_estimates(DenoiserInput { noisy, timestep: 500, context, observations }, &mut clean).unwrap();
    clean
}

fn normal(count: usize) -> Vec<f64> {
    let mut values = vec![0.0; count];
    SeedTree::new(6).stream("noisy").fill_normal(&mut values);
    values
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn estimate_has_the_same_bits_in_any_batch_and_on_any_number_of_threads() {
    // 90 columns: several blocks of the matrix products, so that threads really share one image.
    let context = scene(Grid::new(61, 90).unwrap());
    let (num_nodes, observations) = (context.grid().num_nodes(), measured(&context, &[(7, 0.4), (3000, -0.9)]));
    let noisy = normal(5 * num_nodes);
    let alone = prior(1);
    let reference: Vec<f64> =
        noisy.chunks(num_nodes).flat_map(|state| estimates(&alone, state, &context, &observations)).collect();
    for threads in [1, 2, 3, 7] {
        let prior = prior(threads);
        let together = estimates(&prior, &noisy, &context, &observations);
        assert!(bits(&together) == bits(&reference), "{threads} threads, batch of 5");
        let first = estimates(&prior, &noisy[..num_nodes], &context, &observations);
        assert!(bits(&first) == bits(&reference[..num_nodes]), "{threads} threads, alone");
    }
}

#[test]
fn grid_that_does_not_fit_is_answered_as_the_mirrored_larger_one() {
    let (small, large) = (Grid::new(15, 16).unwrap(), Grid::new(16, 16).unwrap());
    let mirrored = |values: &[f32]| [values, &values[14 * 16..]].concat();
    let context = scene(small);
    let channels = context.channels().iter();
    let extended = channels.map(|c| Channel { name: c.name.clone(), values: mirrored(&c.values) }).collect();
    let extended = Context::new(ValidMask::all(large), extended).unwrap();
    let noisy = normal(small.num_nodes());
    let extended_noisy = [&noisy[..], &noisy[14 * 16..]].concat();
    let node = small.node(14, 3);
    let found = estimates(&prior(1), &noisy, &context, &measured(&context, &[(node, 0.5)]));
    let observations = measured(&extended, &[(node, 0.5), (node + 16, 0.5)]);
    let expected = estimates(&prior(1), &extended_noisy, &extended, &observations);
    assert_eq!(bits(&found), bits(&expected[..small.num_nodes()]));
}

#[test]
fn velocity_is_converted_to_the_clean_field() {
    // Both tiny models have the same weights; of a zero state the clean estimate is -sqrt(1 - alpha_bar) v.
    let context = scene(Grid::new(8, 10).unwrap());
    let observations = measured(&context, &[(11, 0.25)]);
    let mean = OnnxMean::from_file(&data("tiny_mean.onnx"), 1).unwrap().predict(&context, &observations).unwrap();
    let (zero, mut clean) = (vec![0.0; 80], vec![0.0; 80]);
    let input = DenoiserInput { noisy: &zero, timestep: 999, context: &context, observations: &observations };
    prior(1).clean_estimates(input, &mut clean).unwrap();
    let factor = -(1.0 - NoiseSchedule::ddpm().alpha_bar(999)).sqrt();
    for (clean, mean) in clean.iter().zip(&mean) {
        assert!((clean - factor * mean).abs() < 1e-15, "{clean} {mean}");
        assert_ne!(*mean, 0.0);
    }
}

#[test]
fn measurement_changes_the_estimate_by_place_and_by_value() {
    let context = scene(Grid::new(8, 8).unwrap());
    let mean = OnnxMean::from_file(&data("tiny_mean.onnx"), 1).unwrap();
    let predict = |entries: &[(usize, f64)]| mean.predict(&context, &measured(&context, entries)).unwrap();
    let answers = [predict(&[]), predict(&[(20, 0.0)]), predict(&[(20, 0.7)]), predict(&[(21, 0.7)])];
    for (at, answer) in answers.iter().enumerate() {
        assert!(answers[..at].iter().all(|other| other != answer), "answer {at} repeats");
    }
    assert!(prior(1).sees_observations());
}

#[test]
fn output_that_is_not_finite_names_the_timestep() {
    let context = scene(Grid::new(8, 8).unwrap());
    let observations = Observations::none(context.grid());
    let mut noisy = normal(3 * 64);
    // Infinite once it is an f32.
    noisy[64 + 10] = 1e300;
    for threads in [1, 2] {
        let input = DenoiserInput { noisy: &noisy, timestep: 749, context: &context, observations: &observations };
        let error = prior(threads).clean_estimates(input, &mut vec![0.0; 3 * 64]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NonFinite);
        let text = error.to_string();
        assert!(text.contains("timestep 749 (state 1,") && text.contains("tiny_prior"), "{text}");
    }
}

#[test]
fn scene_that_does_not_fit_the_network_is_refused() {
    let grid = Grid::new(8, 8).unwrap();
    let context = scene(grid);
    let noisy = normal(64);
    let ask = |context: &Context, timestep, observations: &Observations| {
        let input = DenoiserInput { noisy: &noisy, timestep, context, observations };
        prior(1).clean_estimates(input, &mut [0.0; 64]).unwrap_err()
    };
    let without = context.channels().iter().filter(|channel| channel.name != "detour").cloned().collect();
    let without = Context::new(ValidMask::all(grid), without).unwrap();
    let none = Observations::none(grid);
    let error = ask(&without, 0, &none);
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("`detour`"), "{error}");
    assert_eq!(ask(&context, 1000, &none).kind(), ErrorKind::InvalidInput);
    let elsewhere = Observations::none(Grid::new(4, 16).unwrap());
    assert_eq!(ask(&context, 0, &elsewhere).kind(), ErrorKind::ShapeMismatch);
}

#[test]
fn relative_network_reads_scaled_values_and_its_answer_is_scaled_back() {
    let (onnx, card) = (data("tiny_mean.onnx"), std::fs::read_to_string(data("tiny_mean.toml")).unwrap());
    let onnx = std::fs::read(onnx).unwrap();
    let mut relative = Card::parse(&card).unwrap();
    relative.target = Target::Relative;
    let relative = OnnxMean::from_bytes(&onnx, &relative.to_toml(), 1).unwrap();
    let plain = OnnxMean::from_bytes(&onnx, &card, 1).unwrap();
    let context = scene(Grid::new(8, 8).unwrap());
    // Mean .3, standard deviation .2.
    let found = relative.predict(&context, &measured(&context, &[(3, 0.1), (40, 0.5)])).unwrap();
    let scaled = plain.predict(&context, &measured(&context, &[(3, -1.0), (40, 1.0)])).unwrap();
    for (found, scaled) in found.iter().zip(&scaled) {
        assert!((found - (0.3 + 0.2 * scaled)).abs() < 1e-6, "{found} {scaled}");
    }
    let none = Observations::none(context.grid());
    assert_eq!(relative.predict(&context, &none).unwrap(), plain.predict(&context, &none).unwrap());
}

#[test]
fn card_whose_role_and_output_do_not_go_together_is_refused() {
    let text = std::fs::read_to_string(data("tiny_mean.toml")).unwrap();
    let swapped = |from: &str, to: &str| Card::parse(&text.replace(from, to)).unwrap_err();
    let error = swapped("role = \"mean\"", "role = \"graph\"");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("edge_logits for graph"), "{error}");
    assert_eq!(
        swapped("parameterization = \"clean\"", "parameterization = \"direct_score\"").kind(),
        ErrorKind::InvalidInput
    );
    let prior = std::fs::read_to_string(data("tiny_prior.toml")).unwrap();
    let mut prior = Card::parse(&prior).unwrap();
    prior.target = Target::LogDepth;
    assert!(Card::parse(&prior.to_toml()).unwrap_err().to_string().contains("target"));
}
