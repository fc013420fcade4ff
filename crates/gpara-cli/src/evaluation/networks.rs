//! The networks of an evaluation: those of a preset's source, and an exact toy that needs no weights.

use std::sync::Arc;

use gpara::{
    Context, Denoiser, GaussianDenoiser, GraphDescriptor, GraphPredictor, MeanPredictor, NoiseSchedule,
    ResidualPrecision, Result, Scorer, UniformGraph,
};
use gpara_eval::{CountedNetworks, Networks, ScheduledDenoiser, Task};

use crate::failure::{Failure, Outcome};
use crate::model_source::{ModelSource, SourcedPrior};

/// The denoiser of this name is the exact one of a Gaussian field on the scene's uniform graph: any grid, no weights.
const TOY: &str = "toy";

/// Networks of a source, for one task.
pub(crate) struct SourcedNetworks<'a> {
    source: &'a dyn ModelSource,
    task: Task,
}

impl<'a> SourcedNetworks<'a> {
    /// The networks of `source`.
    pub(crate) fn new(source: &'a dyn ModelSource, task: Task) -> Self {
        Self { source, task }
    }
}

fn library<T>(outcome: Outcome<T>) -> Result<T> {
    outcome.map_err(Failure::into_library_error)
}

impl Networks for SourcedNetworks<'_> {
    fn denoiser(&self, name: &str, context: &Context) -> Result<ScheduledDenoiser> {
        if name == TOY {
            return toy_denoiser(context);
        }
        library(self.source.prior(name, self.task.name()))
    }

    fn mean(&self, name: &str) -> Result<Arc<dyn MeanPredictor>> {
        library(self.source.mean(name, self.task.name()))
    }

    fn graph(&self, name: &str) -> Result<Arc<dyn GraphPredictor>> {
        library(self.source.graph(name, self.task.name()))
    }

    fn scorer(&self, name: &str) -> Result<Arc<dyn Scorer>> {
        library(self.source.scorer(name, self.task.name()))
    }

    fn fingerprint(&self, name: &str) -> Result<String> {
        if name == TOY {
            return Ok(TOY.to_owned());
        }
        library(self.source.fingerprint(name))
    }
}

/// Mean -0.2, standard deviation of about 0.3 and a correlation length of some cells.
fn toy_denoiser(context: &Context) -> Result<ScheduledDenoiser> {
    let flat = vec![0.0; context.grid().num_nodes()];
    let descriptor = GraphDescriptor { context, prior_mean: &flat, prior_std: &flat, num_measured: 0 };
    let precision = ResidualPrecision::new(UniformGraph.predict(&descriptor)?, 0.5, 10.0)?;
    let schedule = NoiseSchedule::ddpm();
    let mean = vec![-0.2; context.grid().num_nodes()];
    let denoiser: Arc<dyn Denoiser> = Arc::new(GaussianDenoiser::new(mean, precision, schedule.clone())?);
    Ok((denoiser, schedule))
}

/// The counted networks of a scene as the source of a preset.
pub(super) struct CountedSource<'a> {
    pub(super) networks: &'a CountedNetworks<'a>,
    pub(super) context: &'a Context,
}

impl ModelSource for CountedSource<'_> {
    fn prior(&self, name: &str, _task: &str) -> Outcome<SourcedPrior> {
        Ok(self.networks.denoiser(name, self.context)?)
    }

    fn mean(&self, name: &str, _task: &str) -> Outcome<Arc<dyn MeanPredictor>> {
        Ok(self.networks.mean(name)?)
    }

    fn graph(&self, name: &str, _task: &str) -> Outcome<Arc<dyn GraphPredictor>> {
        Ok(self.networks.graph(name)?)
    }

    fn scorer(&self, name: &str, _task: &str) -> Outcome<Arc<dyn Scorer>> {
        Ok(self.networks.scorer(name)?)
    }

    fn fingerprint(&self, name: &str) -> Outcome<String> {
        Ok(self.networks.fingerprint(name)?)
    }
}
