//! What a model file is refused for, and what its check recomputes.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpara::{ErrorKind, Result};
use gpara_nn::{Card, Network, OnnxDenoiser, OnnxMean, sha256_hex};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn tiny() -> (Vec<u8>, Card) {
    let card = std::fs::read_to_string(data("tiny_prior.toml")).unwrap();
    (std::fs::read(data("tiny_prior.onnx")).unwrap(), Card::parse(&card).unwrap())
}

fn load(onnx: &[u8], card: &Card) -> Result<Network> {
    Network::from_bytes(onnx, &card.to_toml(), 1)
}

#[test]
fn golden_tiny_models_verify() {
    for name in ["tiny_prior.onnx", "tiny_mean.onnx"] {
        let outcome = Network::from_file(&data(name), 1).unwrap().verify().unwrap();
        assert_eq!(outcome.num_values, 8);
        assert!(outcome.max_difference < 1e-5, "{name}: {outcome:?}");
    }
}

#[test]
fn verify_refuses_a_value_off_by_more_than_the_tolerance() {
    let (onnx, mut card) = tiny();
    card.golden.values[3] += 2.0 * card.golden.tolerance;
    let error = load(&onnx, &card).unwrap().verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains(&format!("node {}", card.golden.nodes[3])), "{error}");
}

#[test]
fn card_survives_writing_and_reading() {
    let (_, card) = tiny();
    assert_eq!(Card::parse(&card.to_toml()).unwrap(), card);
}

#[test]
fn users_30_damaged_files_are_refused_in_one_line() {
    let (onnx, card) = tiny();
    let mut flipped = onnx.clone();
    flipped[onnx.len() / 2] ^= 1;
    let half = &onnx[..onnx.len() / 2];
    let rehashed = |bytes: &[u8]| Card { sha256: sha256_hex(bytes), ..card.clone() };
    let cases: [(&str, &[u8], Card, &str); 5] = [
        ("one bit flipped", &flipped, card.clone(), "SHA-256"),
        ("truncated", half, card.clone(), "SHA-256"),
        ("truncated, hash to match", half, rehashed(half), "cannot be loaded"),
        ("empty", b"", rehashed(b""), ""),
        ("no ONNX file", b"GIF89a, not a network", rehashed(b"GIF89a, not a network"), "cannot be loaded"),
    ];
    for (case, bytes, card, part) in cases {
        let error = load(bytes, &card).unwrap_err();
        let text = error.to_string();
        let allowed = [ErrorKind::Incompatible, ErrorKind::ShapeMismatch];
        assert!(allowed.contains(&error.kind()), "{case}: {:?}", error.kind());
        assert!(text.contains(part) && text.contains("tiny_prior") && !text.contains('\n'), "{case}: {text}");
    }
}

#[test]
fn network_with_other_inputs_than_the_card_is_refused() {
    let (onnx, mut card) = tiny();
    card.channels.remove(0);
    let error = load(&onnx, &card).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
    assert_eq!(
        error.to_string(),
        "model tiny_prior: input `context` has shape Nx8xHxW, the card asks for anyx7xanyxany"
    );
}

#[test]
fn users_30_wrong_task_and_wrong_role_are_refused() {
    let (onnx, card) = tiny();
    card.require_task("radio").unwrap();
    assert_eq!(card.require_task("depth").unwrap_err().kind(), ErrorKind::Incompatible);
    let prior = Arc::new(load(&onnx, &card).unwrap());
    OnnxDenoiser::new(Arc::clone(&prior)).unwrap();
    assert_eq!(OnnxMean::new(prior).unwrap_err().kind(), ErrorKind::Incompatible);
    let mean = Arc::new(Network::from_file(&data("tiny_mean.onnx"), 1).unwrap());
    assert_eq!(OnnxDenoiser::new(mean).unwrap_err().kind(), ErrorKind::Incompatible);
}

#[test]
fn bad_cards_are_refused_with_their_key() {
    let (_, card) = tiny();
    let good = card.to_toml();
    let cases = [
        ("size_multiple = 2", "size_multiple = 0", "size_multiple"),
        ("size_multiple = 2", "size_multiple = 2\nmystery = 1", "mystery"),
        ("steps = 1000", "steps = 1", "schedule"),
        ("kind = \"linear\"", "kind = \"cosine\"", "cosine"),
        ("role = \"prior\"", "role = \"mean\"", "parameterization"),
        ("role = \"prior\"", "role = \"critic\"", "critic"),
        ("\"measured\", ", "", "channels"),
        ("sees_measurements = true", "sees_measurements = false", "channels"),
        ("\"detour\"", "\"building\"", "channels"),
        ("timestep = 500", "timestep = 1000", "golden.timestep"),
        ("tolerance = 0.001", "tolerance = 0.0", "golden.tolerance"),
        ("grid = [16, 16]", "grid = [16, 15]", "golden.grid"),
        ("grid = [64, 64]", "grid = [64, 0]", "grid"),
        ("sha256 = \"", "sha256 = \"X", "sha256"),
        ("value_range = [-1.0, 1.0]", "value_range = [1.0, -1.0]", "value_range"),
    ];
    for (from, to, key) in cases {
        assert!(good.contains(from), "{from}: {good}");
        let error = Card::parse(&good.replacen(from, to, 1)).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{to}: {text}");
        assert!(text.contains(key) && !text.contains('\n'), "{to}: {text}");
    }
}

#[test]
fn missing_file_and_zero_threads_are_refused() {
    let missing = Network::from_file(&data("nowhere.onnx"), 1).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
    assert!(missing.to_string().contains("nowhere.onnx"), "{missing}");
    let idle = Network::from_file(&data("tiny_prior.onnx"), 0).unwrap_err();
    assert_eq!(idle.kind(), ErrorKind::InvalidInput);
}
