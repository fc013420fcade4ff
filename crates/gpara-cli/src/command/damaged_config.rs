//! Damaged configurations: an error or settings, never a panic. `GPARA_FUZZ_SECONDS=3600 cargo test -p gpara-cli damaged_config`
//! looks for new ones.

use std::path::Path;

use gpara_fuzz::{Result, Search, Unstructured};

use super::run_config::RunConfig;
use crate::evaluation::EvalConfig;
use crate::failure::Outcome;
use crate::preset::{EMBEDDED_PRESETS, Preset};

/// A text with a few pieces replaced, removed or repeated; numbers and words of TOML come up more often than by chance.
fn damaged(u: &mut Unstructured<'_>, whole: &str) -> Result<String> {
    const PIECES: [&str; 12] = [
        "-1",
        "0",
        "1e999",
        "nan",
        "18446744073709551615",
        "\"\"",
        "[]",
        "{}",
        "true",
        "\n[",
        "=",
        "kind = \"none\"\n",
    ];
    let mut bytes = whole.as_bytes().to_vec();
    for _ in 0..u.int_in_range(1..=4)? {
        if bytes.is_empty() {
            break;
        }
        let at = u.choose_index(bytes.len())?;
        let end = (at + u.int_in_range(1..=16)?).min(bytes.len());
        match u.int_in_range(0..=3)? {
            0 => bytes[at] = u.arbitrary()?,
            1 => {
                bytes.drain(at..end);
            }
            2 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                // What stands behind a sign of equality, to the end of the line.
                let value = at + bytes[at..].iter().position(|byte| *byte == b'=').map_or(0, |found| found + 1);
                let end = value + bytes[value..].iter().position(|byte| *byte == b'\n').unwrap_or(0);
                bytes.splice(value..end, u.choose(&PIECES)?.bytes());
            }
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn fuzz(what: &str, whole: &[&str], cases: u64, searches: u64, read: impl Fn(&str) -> Outcome) {
    whole.iter().for_each(|text| read(text).unwrap_or_else(|failure| panic!("{what} does not read: {failure}")));
    Search::ordinary(cases, searches).expect_refusals(what, |u| {
        let seed = *u.choose(whole)?;
        Ok(read(&damaged(u, seed)?).is_err())
    });
}

#[test]
fn fuzz_damaged_presets_are_refused_without_panic() {
    let texts = EMBEDDED_PRESETS.map(|(_, text)| text);
    fuzz("presets", &texts, 4000, 1, |text| Preset::parse("damaged", text).map(|_| ()));
}

/// Writes each text to `name` in the folder of configurations of a copy, so that what it names is found.
fn in_folder<T>(folder: &Path, name: &str, text: &str, read: impl Fn(&Path) -> Outcome<T>) -> Outcome {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a temporary folder takes files");
    read(&path).map(|_| ())
}

#[test]
fn fuzz_damaged_run_and_evaluation_configurations_are_refused_without_panic() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a temporary folder");
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    for name in ["wave.csv", "wave_mask.csv"] {
        std::fs::copy(configs.join("data").join(name), data.join(name)).expect("the example stands in configs/data");
    }
    let run = include_str!("../../../../configs/run_wave.toml");
    fuzz("runs", &[run], 800, 2, |text| in_folder(folder.path(), "run.toml", text, RunConfig::read));
    let evaluations = [
        include_str!("../../../../configs/eval_radio.toml"),
        include_str!("../../../../configs/eval_depth_robust.toml"),
        include_str!("../../../../configs/eval_radio_rates.toml"),
    ];
    let checked = |path: &Path| EvalConfig::read(path, &[]).and_then(|config| config.methods());
    fuzz("evaluations", &evaluations, 400, 2, |text| in_folder(folder.path(), "eval.toml", text, checked));
}
