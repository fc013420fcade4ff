//! The part of `gpara new` that says what is assumed of the field before it is measured.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use gpara::{Channel, Context, Grid, Observations, PriorEnsemble, sample_prior};
use gpara_nn::OnnxDenoiser;
use gpara_session::{
    DriftTerm, FittedPrior, InputFile, Layers, MapsOrigin, Robust, Scene, SessionPrior, Settings, Task, sha256_hex,
};
use gpara_tasks::field::{Field, read_maps};
use gpara_tasks::import::read_luminance;

use super::new::{Inputs, check_size};
use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::preset::Preset;
use crate::session_method::{network_task, prior_of};

#[derive(Debug, Args)]
pub(crate) struct PriorArguments {
    /// gaussian: fitted to what is measured, no network; ensemble=MAPS.npy|tif: maps of the field you bring; onnx=NET.onnx: a
    /// network you bring, with its card NET.toml [default: gaussian, or --preset best for radio and depth]
    #[arg(long, conflicts_with = "preset")]
    prior: Option<PriorChoice>,
    /// Settings of the method: best or gaussian [default: best for radio and depth]
    #[arg(long)]
    preset: Option<String>,
    /// What the field follows on the whole, with unknown factors: constant, log-distance=ROW:COL (of a place, e.g. a
    /// transmitter), channel=MAP.tif (e.g. the ground's height)
    #[arg(long, value_delimiter = ',', default_value = "constant", conflicts_with = "preset")]
    drift: Vec<DriftText>,
    /// Take outliers for what they are: their noise grows, and they are reported
    #[arg(long, conflicts_with = "preset")]
    robust: Option<RobustName>,
    /// A picture of the scene (PNG or JPEG, a pixel a cell) at whose edges the field may jump
    #[arg(long, conflicts_with = "preset")]
    guide: Option<PathBuf>,
    /// Difference of luminance (0 to 1) that weakens the field's coupling by 1/e
    #[arg(long, default_value_t = 0.1, requires = "guide")]
    guide_scale: f64,
    /// NAME=MAP: a map that the network of --prior onnx reads as its channel NAME; may be repeated
    #[arg(long)]
    channel: Vec<NamedMap>,
    /// Maps that the network of --prior onnx draws
    #[arg(long, default_value_t = 12)]
    num_maps: usize,
    /// Steps of the network for each of them
    #[arg(long, default_value_t = 8)]
    num_steps: usize,
}

/// Where the prior comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PriorChoice {
    Gaussian,
    Ensemble(PathBuf),
    Onnx(PathBuf),
}

impl FromStr for PriorChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "gaussian" => Ok(Self::Gaussian),
            Some(("ensemble", path)) if !path.is_empty() => Ok(Self::Ensemble(path.into())),
            Some(("onnx", path)) if !path.is_empty() => Ok(Self::Onnx(path.into())),
            _ => Err(format!("`{text}` is no prior: gaussian, ensemble=MAPS.npy or onnx=NET.onnx")),
        }
    }
}

/// One term of the drift as it is typed.
#[derive(Debug, Clone, PartialEq)]
enum DriftText {
    Constant,
    LogDistance(f64, f64),
    Channel(PathBuf),
}

impl FromStr for DriftText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is no drift: constant, log-distance=ROW:COL or channel=MAP.tif");
        match text.split_once('=') {
            None if text == "constant" => Ok(Self::Constant),
            Some(("log-distance", place)) => {
                let (row, col) = place.split_once(':').ok_or_else(refused)?;
                let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
                Ok(Self::LogDistance(number(row).ok_or_else(refused)?, number(col).ok_or_else(refused)?))
            }
            Some(("channel", path)) if !path.is_empty() => Ok(Self::Channel(path.into())),
            _ => Err(refused()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RobustName {
    /// Noise of Student's t distribution
    StudentT,
    /// Huber's weights
    Huber,
}

/// `NAME=FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedMap {
    name: String,
    path: PathBuf,
}

impl FromStr for NamedMap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(Self { name: name.into(), path: path.into() })
            }
            _ => Err(format!("`{text}` is not NAME=MAP, e.g. height=ground.tif")),
        }
    }
}

impl PriorArguments {
    /// The prior, and the maps it needs in `layers`. Maps of a network are drawn by [`draw_maps`](Self::draw_maps).
    pub(super) fn prior(
        &self,
        task: &Task,
        grid: Grid,
        layers: &mut Layers,
        inputs: &mut Inputs,
    ) -> Outcome<SessionPrior> {
        let has_networks = *task != Task::Field;
        match (&self.preset, &self.prior) {
            (Some(name), _) if !has_networks && name != "gaussian" => Err(Failure::input(
                format!("preset `{name}` needs a radio scene or a depth scene, this session has none"),
                "`--prior gaussian` takes any field",
            )),
            // A session with `gaussian` is the same whatever the scene.
            (Some(name), _) if name == "gaussian" => prior_of(&Preset::embedded(name)?, task),
            (Some(name), _) => prior_of(&Preset::for_task(name, network_task(task).name)?, task),
            (None, None) if has_networks && !self.names_a_fitted_prior() => {
                prior_of(&Preset::for_task("best", network_task(task).name)?, task)
            }
            _ => self.fitted(grid, layers, inputs).map(SessionPrior::Fitted),
        }
    }

    fn names_a_fitted_prior(&self) -> bool {
        self.drift != [DriftText::Constant] || self.robust.is_some() || self.guide.is_some()
    }

    fn fitted(&self, grid: Grid, layers: &mut Layers, inputs: &mut Inputs) -> Outcome<FittedPrior> {
        let mut drift = Vec::new();
        for term in &self.drift {
            drift.push(match term {
                DriftText::Constant => DriftTerm::Constant,
                DriftText::LogDistance(row, col) => DriftTerm::LogDistance { row: *row, col: *col },
                DriftText::Channel(path) => {
                    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    layers.channels.push((name.clone(), inputs.map("drift", path, grid)?));
                    DriftTerm::Channel { name }
                }
            });
        }
        // A level is always unknown; whoever names only a slope means both.
        if !drift.contains(&DriftTerm::Constant) {
            drift.insert(0, DriftTerm::Constant);
        }
        drift.sort_by_key(|term| *term != DriftTerm::Constant);
        let guide_scale = match &self.guide {
            None => None,
            Some(path) => {
                inputs.keep("guide", path)?;
                let guide = read_luminance(path).map_err(|error| Failure::from(error).within("--guide"))?;
                check_size("guide", guide.grid(), grid)?;
                layers.guide = Some(guide.into_values());
                Some(self.guide_scale)
            }
        };
        let robust = self.robust.map(|name| match name {
            RobustName::StudentT => Robust::StudentT,
            RobustName::Huber => Robust::Huber,
        });
        let maps = match &self.prior {
            Some(PriorChoice::Ensemble(path)) => Some(self.given_maps(path, grid, layers, inputs)?),
            _ => None,
        };
        Ok(FittedPrior { drift, robust, guide_scale, maps })
    }

    fn given_maps(&self, path: &Path, grid: Grid, layers: &mut Layers, inputs: &mut Inputs) -> Outcome<MapsOrigin> {
        inputs.keep("prior", path)?;
        let maps = read_maps(path).map_err(|error| Failure::from(error).within("--prior ensemble"))?;
        if maps.len() < 2 {
            return Err(Failure::input(
                format!("--prior ensemble: {} holds {} map", path.display(), maps.len()),
                "a prior needs at least two maps: their differences say how far they may be wrong",
            ));
        }
        check_size("prior ensemble", maps[0].grid(), grid)?;
        layers.maps = maps.into_iter().map(Field::into_values).collect();
        origin(path, inputs, layers.maps.len())
    }

    /// Draws the maps of `--prior onnx` for the scene of `settings` and `layers`; nothing for another prior.
    pub(super) fn draw_maps(
        &self,
        settings: &mut Settings,
        layers: &mut Layers,
        inputs: &mut Inputs,
        console: Console,
    ) -> Outcome {
        let Some(PriorChoice::Onnx(path)) = &self.prior else { return Ok(()) };
        let within = |error: gpara::Error| Failure::from(error).within("--prior onnx");
        inputs.keep("prior", path)?;
        inputs.keep("prior", &path.with_extension("toml"))?;
        let denoiser = OnnxDenoiser::from_file(path, rayon::current_num_threads()).map_err(within)?;
        let scene = Scene::new(settings, layers)?;
        let mut channels: Vec<Channel> = scene.context()?.channels().to_vec();
        for NamedMap { name, path } in &self.channel {
            let values = inputs.map("channel", path, scene.grid())?.into_iter().map(|value| value as f32).collect();
            channels.push(Channel { name: name.clone(), values });
        }
        let context = Context::new(scene.valid().clone(), channels)?;
        let task = network_task(&settings.task);
        let num_steps = self.num_steps.min(denoiser.network().card().num_timesteps());
        let sampler = task.sampler(denoiser.schedule(), num_steps)?;
        console.log(&format!("drawing {} maps with {} ({num_steps} steps each) ...", self.num_maps, path.display()));
        let none = Observations::none(scene.grid());
        let drawn =
            sample_prior(&denoiser, &context, &none, &sampler, self.num_maps, settings.seeds()).map_err(within)?;
        let in_unit = |map: &[f64]| map.iter().map(|&value| settings.scale.value(value)).collect::<Vec<f64>>();
        layers.maps = PriorEnsemble::iter(&drawn).map(in_unit).collect();
        let count = layers.maps.len();
        if let SessionPrior::Fitted(prior) = &mut settings.prior {
            prior.maps = Some(origin(path, inputs, count)?);
        }
        Ok(())
    }
}

/// Where maps come from: the file that was kept as `path`.
fn origin(path: &Path, inputs: &Inputs, count: usize) -> Outcome<MapsOrigin> {
    let kept = inputs.files.iter().find(|file: &&InputFile| file.path == path);
    let sha256 = sha256_hex(kept.map_or(&[][..], |file| &file.content));
    Ok(MapsOrigin { file: path.display().to_string(), sha256, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priors_and_drifts_are_read_or_refused() {
        assert_eq!("ensemble=a/b.npy".parse(), Ok(PriorChoice::Ensemble("a/b.npy".into())));
        assert_eq!("onnx=n.onnx".parse(), Ok(PriorChoice::Onnx("n.onnx".into())));
        assert_eq!("log-distance=120:88.5".parse(), Ok(DriftText::LogDistance(120.0, 88.5)));
        assert_eq!("channel=elev.tif".parse(), Ok(DriftText::Channel("elev.tif".into())));
        for bad in ["gauss", "ensemble=", "onnx", ""] {
            assert!(bad.parse::<PriorChoice>().unwrap_err().contains("gaussian"), "{bad}");
        }
        for bad in ["linear", "log-distance=3", "log-distance=nan:1", "channel="] {
            assert!(bad.parse::<DriftText>().unwrap_err().contains("log-distance=ROW:COL"), "{bad}");
        }
    }
}
