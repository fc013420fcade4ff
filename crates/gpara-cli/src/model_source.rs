//! Where a preset's networks come from: embedded in the binary, or trained weights in a folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gpara::{Denoiser, GraphPredictor, MeanPredictor, NoiseSchedule, Scorer, SpreadPredictor};
#[cfg(feature = "train")]
use gpara_nn::Card;
use gpara_nn::{Network, OnnxDenoiser, OnnxGraph, OnnxMean, OnnxScorer, OnnxSpread, sha256_hex};

use crate::embedded_models::EmbeddedModel;
use crate::failure::{Failure, Outcome};
#[cfg(feature = "train")]
use crate::recalibrated::RecalibratedSpread;

/// A prior with the schedule its timesteps belong to.
pub(crate) type SourcedPrior = (Arc<dyn Denoiser>, NoiseSchedule);

/// Gives networks by name.
pub(crate) trait ModelSource: Sync {
    /// The prior of that name for a task.
    fn prior(&self, name: &str, task: &str) -> Outcome<SourcedPrior>;

    /// The mean network of that name for a task.
    fn mean(&self, name: &str, task: &str) -> Outcome<Arc<dyn MeanPredictor>>;

    /// The spread network of that name for a task.
    fn spread(&self, name: &str, task: &str) -> Outcome<Arc<dyn SpreadPredictor>>;

    /// The graph network of that name for a task.
    fn graph(&self, name: &str, task: &str) -> Outcome<Arc<dyn GraphPredictor>>;

    /// The scorer of that name for a task.
    fn scorer(&self, name: &str, task: &str) -> Outcome<Arc<dyn Scorer>>;

    /// A hash of the weights of that name.
    fn fingerprint(&self, name: &str) -> Outcome<String>;
}

/// The networks of a command: those in the binary, or of the folder that `--weights` names, each loaded once.
pub(crate) fn models(weights: Option<&Path>) -> Box<dyn ModelSource> {
    match weights.map(Path::to_path_buf) {
        #[cfg(feature = "train")]
        Some(folder) => Box::new(CachedSource::new(TorchSource::new(folder))),
        #[cfg(not(feature = "train"))]
        Some(folder) => Box::new(CachedSource::new(FolderSource { folder })),
        None => Box::new(CachedSource::new(EmbeddedSource)),
    }
}

/// The first half of a SHA-256: enough to tell weights apart, short enough for every line of a results file.
fn short_hash(bytes: &[u8]) -> String {
    sha256_hex(bytes).chars().take(16).collect()
}

/// The networks of this binary.
pub(crate) struct EmbeddedSource;

impl ModelSource for EmbeddedSource {
    fn prior(&self, name: &str, task: &str) -> Outcome<SourcedPrior> {
        let denoiser = EmbeddedModel::named(name)?.denoiser(task)?;
        let schedule = denoiser.schedule().clone();
        Ok((Arc::new(denoiser), schedule))
    }

    fn mean(&self, name: &str, task: &str) -> Outcome<Arc<dyn MeanPredictor>> {
        Ok(Arc::new(EmbeddedModel::named(name)?.mean(task)?))
    }

    fn spread(&self, name: &str, task: &str) -> Outcome<Arc<dyn SpreadPredictor>> {
        Ok(Arc::new(EmbeddedModel::named(name)?.spread(task)?))
    }

    fn graph(&self, name: &str, task: &str) -> Outcome<Arc<dyn GraphPredictor>> {
        Ok(Arc::new(EmbeddedModel::named(name)?.graph(task)?))
    }

    fn scorer(&self, name: &str, task: &str) -> Outcome<Arc<dyn Scorer>> {
        Ok(Arc::new(EmbeddedModel::named(name)?.scorer(task)?))
    }

    fn fingerprint(&self, name: &str) -> Outcome<String> {
        Ok(short_hash(EmbeddedModel::named(name)?.onnx))
    }
}

/// Exported networks, `NAME.onnx` with the card `NAME.toml`, in a folder; what is not there comes from the binary.
struct FolderSource {
    folder: PathBuf,
}

impl FolderSource {
    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(format!("{name}.onnx"))).filter(|file| file.exists())
    }

    fn load(file: &Path, task: &str) -> Outcome<Arc<Network>> {
        let network = Network::from_file(file, rayon::current_num_threads())?;
        network.card().require_task(task)?;
        Ok(Arc::new(network))
    }
}

impl ModelSource for FolderSource {
    fn prior(&self, name: &str, task: &str) -> Outcome<SourcedPrior> {
        let Some(file) = self.file(name) else { return EmbeddedSource.prior(name, task) };
        let denoiser = OnnxDenoiser::new(Self::load(&file, task)?)?;
        let schedule = denoiser.schedule().clone();
        Ok((Arc::new(denoiser), schedule))
    }

    fn mean(&self, name: &str, task: &str) -> Outcome<Arc<dyn MeanPredictor>> {
        let Some(file) = self.file(name) else { return EmbeddedSource.mean(name, task) };
        Ok(Arc::new(OnnxMean::new(Self::load(&file, task)?)?))
    }

    fn spread(&self, name: &str, task: &str) -> Outcome<Arc<dyn SpreadPredictor>> {
        let Some(file) = self.file(name) else { return EmbeddedSource.spread(name, task) };
        Ok(Arc::new(OnnxSpread::new(Self::load(&file, task)?)?))
    }

    fn graph(&self, name: &str, task: &str) -> Outcome<Arc<dyn GraphPredictor>> {
        let Some(file) = self.file(name) else { return EmbeddedSource.graph(name, task) };
        Ok(Arc::new(OnnxGraph::new(Self::load(&file, task)?)?))
    }

    fn scorer(&self, name: &str, task: &str) -> Outcome<Arc<dyn Scorer>> {
        let Some(file) = self.file(name) else { return EmbeddedSource.scorer(name, task) };
        Ok(Arc::new(OnnxScorer::new(Self::load(&file, task)?)?))
    }

    fn fingerprint(&self, name: &str) -> Outcome<String> {
        let Some(file) = self.file(name) else { return EmbeddedSource.fingerprint(name) };
        hash_of(&file)
    }
}

fn hash_of(file: &Path) -> Outcome<String> {
    let bytes = std::fs::read(file).map_err(|error| Failure::file("read", file, &error, "check --weights"))?;
    Ok(short_hash(&bytes))
}

/// Loads each network of another source once, for an evaluation over many scenes.
struct CachedSource<S> {
    source: S,
    priors: Mutex<HashMap<String, SourcedPrior>>,
    means: Mutex<HashMap<String, Arc<dyn MeanPredictor>>>,
    spreads: Mutex<HashMap<String, Arc<dyn SpreadPredictor>>>,
    graphs: Mutex<HashMap<String, Arc<dyn GraphPredictor>>>,
    scorers: Mutex<HashMap<String, Arc<dyn Scorer>>>,
    hashes: Mutex<HashMap<String, String>>,
}

impl<S: ModelSource> CachedSource<S> {
    fn new(source: S) -> Self {
        let (priors, means, spreads) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (graphs, scorers, hashes) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { source, priors, means, spreads, graphs, scorers, hashes }
    }
}

/// What is known under the name, or what `load` gives, kept from then on; a failure is not kept.
fn loaded_once<T: Clone>(
    known: &Mutex<HashMap<String, T>>,
    name: &str,
    load: impl FnOnce() -> Outcome<T>,
) -> Outcome<T> {
    let mut known = known.lock().expect("loading does not panic");
    if let Some(found) = known.get(name) {
        return Ok(found.clone());
    }
    let found = load()?;
    known.insert(name.to_owned(), found.clone());
    Ok(found)
}

impl<S: ModelSource> ModelSource for CachedSource<S> {
    fn prior(&self, name: &str, task: &str) -> Outcome<SourcedPrior> {
        loaded_once(&self.priors, name, || self.source.prior(name, task))
    }

    fn mean(&self, name: &str, task: &str) -> Outcome<Arc<dyn MeanPredictor>> {
        loaded_once(&self.means, name, || self.source.mean(name, task))
    }

    fn spread(&self, name: &str, task: &str) -> Outcome<Arc<dyn SpreadPredictor>> {
        loaded_once(&self.spreads, name, || self.source.spread(name, task))
    }

    fn graph(&self, name: &str, task: &str) -> Outcome<Arc<dyn GraphPredictor>> {
        loaded_once(&self.graphs, name, || self.source.graph(name, task))
    }

    fn scorer(&self, name: &str, task: &str) -> Outcome<Arc<dyn Scorer>> {
        loaded_once(&self.scorers, name, || self.source.scorer(name, task))
    }

    fn fingerprint(&self, name: &str) -> Outcome<String> {
        let mut known = self.hashes.lock().expect("loading does not panic");
        if let Some(hash) = known.get(name) {
            return Ok(hash.clone());
        }
        let hash = self.source.fingerprint(name)?;
        known.insert(name.to_owned(), hash.clone());
        Ok(hash)
    }
}

/// Weights as the trainer writes them, run by libtorch: on a GPU where there is one. Graphs and scorers, and what is not
/// there, come from exported networks.
#[cfg(feature = "train")]
struct TorchSource {
    /// Holds `NAME.safetensors`, NAME with underscores.
    folder: PathBuf,
    exported: FolderSource,
}

#[cfg(feature = "train")]
impl TorchSource {
    fn new(folder: PathBuf) -> Self {
        Self { exported: FolderSource { folder: folder.clone() }, folder }
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(format!("{}.safetensors", name.replace('-', "_")))).filter(|file| file.exists())
    }

    fn load(file: &Path) -> Outcome<gpara_train::TorchNetwork> {
        Ok(gpara_train::TorchNetwork::load(file, gpara_train::best_device())?)
    }

    /// The card `NAME.toml` in this folder with its place; `None` where there is none.
    fn card(&self, name: &str) -> Outcome<Option<(PathBuf, Card)>> {
        let file = self.folder.join(format!("{name}.toml"));
        if !file.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&file)
            .map_err(|error| Failure::file("read", &file, &error, "a card is written by `gpara train export`"))?;
        Ok(Some((file, Card::parse(&text)?)))
    }
}

#[cfg(feature = "train")]
impl ModelSource for TorchSource {
    fn prior(&self, name: &str, task: &str) -> Outcome<SourcedPrior> {
        let Some(file) = self.file(name) else { return self.exported.prior(name, task) };
        Ok((Arc::new(Self::load(&file)?), NoiseSchedule::ddpm()))
    }

    fn mean(&self, name: &str, task: &str) -> Outcome<Arc<dyn MeanPredictor>> {
        let Some(file) = self.file(name) else { return self.exported.mean(name, task) };
        Ok(Arc::new(Self::load(&file)?))
    }

    fn spread(&self, name: &str, task: &str) -> Outcome<Arc<dyn SpreadPredictor>> {
        let Some(file) = self.file(name) else { return self.exported.spread(name, task) };
        // Its factors stand on its card: without one an exported network, which has them, is the better answer.
        let Some((place, card)) = self.card(name)? else { return self.exported.spread(name, task) };
        let network = Self::load(&file)?;
        let steps = network.facts().steps;
        if card.steps != steps {
            return Err(Failure::input(
                format!(
                    "{} is the card of other weights: {} steps, the weights have {steps}",
                    place.display(),
                    card.steps
                ),
                "`gpara train export` writes the card of the weights, `gpara models calibrate` its factors",
            ));
        }
        Ok(match card.calibration()? {
            Some(calibration) => Arc::new(RecalibratedSpread { network: Arc::new(network), calibration }),
            None => Arc::new(network),
        })
    }

    fn graph(&self, name: &str, task: &str) -> Outcome<Arc<dyn GraphPredictor>> {
        self.exported.graph(name, task)
    }

    fn scorer(&self, name: &str, task: &str) -> Outcome<Arc<dyn Scorer>> {
        self.exported.scorer(name, task)
    }

    fn fingerprint(&self, name: &str) -> Outcome<String> {
        match self.file(name).or_else(|| self.exported.file(name)) {
            Some(file) => hash_of(&file),
            None => EmbeddedSource.fingerprint(name),
        }
    }
}
