//! The file of `gpara run`: a known field, and how it is measured.

use std::path::{Path, PathBuf};

use gpara::{Channel, Context, ValidMask};
use gpara_nn::sha256_hex;
use gpara_tasks::field::{Field, MaskFile, PngScale};
use serde::Deserialize;

use crate::failure::{Failure, Outcome};
use crate::preset::{PolicyChoice, Preset, Task, check_available, parse_toml};
use crate::results::{FieldUnits, RunSettings, SceneInput};

const SHOWN_HINT: &str = "configs/run_wave.toml shows every key";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRun {
    field: RawField,
    run: RawMethod,
    /// Context channels by name, for a preset whose network reads them.
    #[serde(default)]
    channels: toml::Table,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawField {
    path: PathBuf,
    #[serde(default)]
    unit: String,
    range: [f64; 2],
    png_scale: Option<RawScale>,
    mask: Option<PathBuf>,
    mask_marks: Option<RawMarks>,
    #[serde(default = "invalid_name")]
    invalid_name: String,
}

fn invalid_name() -> String {
    "not part of the field".to_string()
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScale {
    offset: f64,
    step: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawMarks {
    Valid,
    Invalid,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMethod {
    /// Name of an embedded preset, or path of a preset file.
    preset: String,
    policy: String,
    budget: usize,
    noise_std: Option<f64>,
    #[serde(default)]
    seed: u64,
}

/// A run, checked and loaded.
pub(super) struct RunConfig {
    /// The field.
    pub(super) input: SceneInput,
    /// How it is measured.
    pub(super) settings: RunSettings,
    /// Name and SHA-256 of every input file, the configuration first.
    pub(super) inputs: Vec<(String, String)>,
}

impl RunConfig {
    /// Reads a configuration and everything it names.
    ///
    /// # Errors
    /// Names the file, the value and what is allowed.
    pub(super) fn read(path: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::file("read", path, &error, "`gpara run configs/run_wave.toml` is an example"))?;
        let raw: RawRun = parse_toml(&format!("`{}`", path.display()), &text)?;
        let mut files = InputFiles { folder: path.parent().unwrap_or(Path::new("")), read: Vec::new() };
        files.note(path, text.as_bytes());
        let preset = read_preset(&raw.run.preset, &mut files)?;
        let policy = policy(&raw.run.policy)?;
        check_available(&preset, &[policy])?;
        let id = path.file_stem().map_or("run".into(), |stem| stem.to_string_lossy().into_owned());
        let input = read_scene(id, raw.field, &raw.channels, &mut files)?;
        let num_valid = input.context.valid().num_valid();
        let budget = raw.run.budget;
        if budget == 0 || budget > num_valid {
            return Err(Failure::input(
                format!(
                    "run.budget = {budget} is not allowed: the field has {num_valid} valid cells, so 1 to {num_valid}"
                ),
                "set run.budget",
            ));
        }
        let noise_std = match raw.run.noise_std {
            None => preset.acquisition.noise_std,
            Some(noise_std) if noise_std.is_finite() && noise_std > 0.0 => noise_std / input.units.factor(),
            Some(noise_std) => {
                let message =
                    format!("run.noise_std = {noise_std} is not allowed: a finite number > 0, in the field's unit");
                return Err(Failure::input(message, "a nearly exact instrument has a small value such as 0.001"));
            }
        };
        let settings = RunSettings { preset, policies: vec![policy], budget, noise_std, seed: raw.run.seed };
        Ok(Self { input, settings, inputs: files.read })
    }
}

/// The files of a run; names are relative to the configuration's folder.
struct InputFiles<'a> {
    folder: &'a Path,
    read: Vec<(String, String)>,
}

impl InputFiles<'_> {
    fn note(&mut self, path: &Path, bytes: &[u8]) {
        let name = path.file_name().map_or(path.to_string_lossy(), |name| name.to_string_lossy());
        self.read.push((name.into_owned(), sha256_hex(bytes)));
    }

    /// The path of a named file, which must exist; its hash is noted.
    fn path(&mut self, named: &Path) -> Outcome<PathBuf> {
        let path = self.folder.join(named);
        let hint = "paths in a configuration are relative to its folder";
        let bytes = std::fs::read(&path).map_err(|error| Failure::file("read", &path, &error, hint))?;
        self.note(&path, &bytes);
        Ok(path)
    }
}

fn read_preset(named: &str, files: &mut InputFiles<'_>) -> Outcome<Preset> {
    if !named.ends_with(".toml") {
        return Preset::embedded(named);
    }
    let path = files.path(Path::new(named))?;
    let text = std::fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, &error, SHOWN_HINT))?;
    Preset::parse(named, &text)
}

fn policy(named: &str) -> Outcome<PolicyChoice> {
    use clap::ValueEnum;
    PolicyChoice::from_str(named, false).map_err(|_| {
        let known: Vec<&str> = PolicyChoice::value_variants().iter().map(|policy| policy.name()).collect();
        Failure::input(format!("run.policy = `{named}` is not known, there are {}", known.join(", ")), SHOWN_HINT)
    })
}

fn read_scene(id: String, raw: RawField, channels: &toml::Table, files: &mut InputFiles<'_>) -> Outcome<SceneInput> {
    let [low, high] = raw.range;
    if !(low.is_finite() && high.is_finite() && low < high) {
        let message =
            format!("field.range = [{low}, {high}] is not allowed: two finite numbers, the first below the second");
        return Err(Failure::input(message, SHOWN_HINT));
    }
    let scale = raw.png_scale.map(|scale| PngScale::new(scale.offset, scale.step)).transpose();
    let scale = scale.map_err(|error| Failure::from(error).or_hint(SHOWN_HINT))?;
    let path = files.path(&raw.path)?;
    let field = Field::read(&path, scale).map_err(|error| Failure::from(error).or_hint(SHOWN_HINT))?;
    let valid = match (&raw.mask, raw.mask_marks) {
        (None, None) => ValidMask::all(field.grid()),
        (Some(mask), Some(marks)) => read_mask(&files.path(mask)?, marks)?,
        (Some(_), None) => {
            return Err(Failure::input("field.mask needs field.mask_marks: valid or invalid", SHOWN_HINT));
        }
        (None, Some(_)) => return Err(Failure::input("field.mask_marks needs field.mask", SHOWN_HINT)),
    };
    field.check_finite(&valid).map_err(|error| Failure::from(error).within(path.display()).or_hint(SHOWN_HINT))?;
    let grid = field.grid();
    if let Some(node) = valid.nodes().find(|&node| !(low..=high).contains(&field.values()[node])) {
        let ((row, col), value) = (grid.row_col(node), field.values()[node]);
        let message =
            format!("{}: value {value} at row {row}, col {col} is outside field.range {low} to {high}", path.display());
        return Err(Failure::input(message, "widen field.range, or mask the cell as invalid"));
    }
    let units = FieldUnits::new(low, high, &raw.unit);
    let channels = channels.iter().map(|(name, path)| read_channel(name, path, files)).collect::<Outcome<Vec<_>>>()?;
    let context = Context::new(valid, channels).map_err(|error| Failure::from(error).or_hint(SHOWN_HINT))?;
    // An invalid cell may hold anything; the middle of the range is never shown, measured or scored.
    let truth = (0..grid.num_nodes()).map(|node| match context.valid().is_valid(node) {
        true => units.normalized(field.values()[node]),
        false => 0.0,
    });
    let truth = truth.collect();
    let task = Task { name: "field", invalid_value: None };
    Ok(SceneInput { id, task, context, truth, units, invalid_name: raw.invalid_name, transmitter: None })
}

fn read_mask(path: &Path, marks: RawMarks) -> Outcome<ValidMask> {
    let mask = MaskFile::read(path).map_err(|error| Failure::from(error).or_hint(SHOWN_HINT))?;
    let other = if marks == RawMarks::Valid { "invalid" } else { "valid" };
    let inverted = format!("if the mask is inverted, set field.mask_marks = \"{other}\"");
    let valid = mask.into_valid(marks == RawMarks::Valid);
    valid.map_err(|error| Failure::from(error).within(path.display()).with_hint(inverted))
}

fn read_channel(name: &str, path: &toml::Value, files: &mut InputFiles<'_>) -> Outcome<Channel> {
    let named = path.as_str().ok_or_else(|| {
        Failure::input(format!("channels.{name} = {path} is not allowed: the path of a file, in quotes"), SHOWN_HINT)
    })?;
    let path = files.path(Path::new(named))?;
    let field = Field::read(&path, None).map_err(|error| Failure::from(error).or_hint(SHOWN_HINT))?;
    // Networks read f32: the one cast of a channel.
    let values = field.values().iter().map(|&value| value as f32).collect();
    Ok(Channel { name: name.to_string(), values })
}
