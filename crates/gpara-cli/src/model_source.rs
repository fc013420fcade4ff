//! Where a preset's networks come from: embedded in the binary, or trained weights in a folder.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use gpara::{Denoiser, GraphPredictor, MeanPredictor, NoiseSchedule, Scorer};

use crate::embedded_models::EmbeddedModel;
use crate::failure::Outcome;

/// A prior with the schedule its timesteps belong to.
pub(crate) type SourcedPrior = (Arc<dyn Denoiser>, NoiseSchedule);

/// Gives networks by name.
pub(crate) trait ModelSource: Sync {
    /// The prior of that name for a task.
    fn prior(&self, name: &str, task: &str) -> Outcome<SourcedPrior>;

    /// The mean network of that name for a task.
    fn mean(&self, name: &str, task: &str) -> Outcome<Arc<dyn MeanPredictor>>;

    /// The graph network of that name for a task.
    fn graph(&self, name: &str, task: &str) -> Outcome<Arc<dyn GraphPredictor>>;

    /// The scorer of that name for a task.
    fn scorer(&self, name: &str, task: &str) -> Outcome<Arc<dyn Scorer>>;
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

    fn graph(&self, name: &str, task: &str) -> Outcome<Arc<dyn GraphPredictor>> {
        Ok(Arc::new(EmbeddedModel::named(name)?.graph(task)?))
    }

    fn scorer(&self, name: &str, task: &str) -> Outcome<Arc<dyn Scorer>> {
        Ok(Arc::new(EmbeddedModel::named(name)?.scorer(task)?))
    }
}

/// Loads each network of another source once, for an evaluation over many scenes.
pub(crate) struct CachedSource<S> {
    source: S,
    priors: Mutex<HashMap<String, SourcedPrior>>,
    means: Mutex<HashMap<String, Arc<dyn MeanPredictor>>>,
    graphs: Mutex<HashMap<String, Arc<dyn GraphPredictor>>>,
    scorers: Mutex<HashMap<String, Arc<dyn Scorer>>>,
}

impl<S: ModelSource> CachedSource<S> {
    /// A cache in front of `source`.
    pub(crate) fn new(source: S) -> Self {
        let (priors, means) = (Mutex::default(), Mutex::default());
        Self { source, priors, means, graphs: Mutex::default(), scorers: Mutex::default() }
    }
}

impl<S: ModelSource> ModelSource for CachedSource<S> {
    fn prior(&self, name: &str, task: &str) -> Outcome<SourcedPrior> {
        let mut known = self.priors.lock().expect("loading does not panic");
        if let Some(prior) = known.get(name) {
            return Ok(prior.clone());
        }
        let prior = self.source.prior(name, task)?;
        known.insert(name.to_owned(), prior.clone());
        Ok(prior)
    }

    fn mean(&self, name: &str, task: &str) -> Outcome<Arc<dyn MeanPredictor>> {
        let mut known = self.means.lock().expect("loading does not panic");
        if let Some(mean) = known.get(name) {
            return Ok(Arc::clone(mean));
        }
        let mean = self.source.mean(name, task)?;
        known.insert(name.to_owned(), Arc::clone(&mean));
        Ok(mean)
    }

    fn graph(&self, name: &str, task: &str) -> Outcome<Arc<dyn GraphPredictor>> {
        let mut known = self.graphs.lock().expect("loading does not panic");
        if let Some(graph) = known.get(name) {
            return Ok(Arc::clone(graph));
        }
        let graph = self.source.graph(name, task)?;
        known.insert(name.to_owned(), Arc::clone(&graph));
        Ok(graph)
    }

    fn scorer(&self, name: &str, task: &str) -> Outcome<Arc<dyn Scorer>> {
        let mut known = self.scorers.lock().expect("loading does not panic");
        if let Some(scorer) = known.get(name) {
            return Ok(Arc::clone(scorer));
        }
        let scorer = self.source.scorer(name, task)?;
        known.insert(name.to_owned(), Arc::clone(&scorer));
        Ok(scorer)
    }
}

/// Weights as the trainer writes them, run by libtorch: on a GPU where there is one.
#[cfg(feature = "train")]
pub(crate) struct TorchSource {
    /// Holds `NAME.safetensors`, NAME with underscores.
    pub(crate) folder: std::path::PathBuf,
}

#[cfg(feature = "train")]
impl TorchSource {
    fn load(&self, name: &str) -> Outcome<gpara_train::TorchNetwork> {
        let file = self.folder.join(format!("{}.safetensors", name.replace('-', "_")));
        Ok(gpara_train::TorchNetwork::load(&file, gpara_train::best_device())?)
    }
}

#[cfg(feature = "train")]
impl ModelSource for TorchSource {
    fn prior(&self, name: &str, _task: &str) -> Outcome<SourcedPrior> {
        Ok((Arc::new(self.load(name)?), NoiseSchedule::ddpm()))
    }

    fn mean(&self, name: &str, _task: &str) -> Outcome<Arc<dyn MeanPredictor>> {
        Ok(Arc::new(self.load(name)?))
    }

    /// Asked once a scene, on the CPU: the exported network of the binary.
    fn graph(&self, name: &str, task: &str) -> Outcome<Arc<dyn GraphPredictor>> {
        EmbeddedSource.graph(name, task)
    }

    /// Asked once a round, on the CPU: the exported network of the binary.
    fn scorer(&self, name: &str, task: &str) -> Outcome<Arc<dyn Scorer>> {
        EmbeddedSource.scorer(name, task)
    }
}
