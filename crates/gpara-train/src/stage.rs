//! What differs between training a field network, a graph and a scorer: the batch, the loss, the validation.

use gpara::{NoiseSchedule, Result};
use tch::{Device, Tensor};

use crate::ahead::Ahead;
use crate::batches::{Batch, BatchSource};
use crate::config::TrainConfig;
use crate::data::Maps;
use crate::objective::Objective;
use crate::unet::UNet;
use crate::validation::{self, validate};

/// One kind of training. The loop around it draws seeds, steps the optimiser, and keeps files.
pub(crate) trait Stage {
    /// Names of the validation errors, in the order of the curve.
    fn validation_names(&self) -> Vec<&'static str>;

    /// Draws batches from this step on.
    ///
    /// # Errors
    /// Those of drawing.
    fn begin(&mut self, step: u64) -> Result<()>;

    /// The mean loss of the next batch; libtorch's generator is seeded for the step.
    ///
    /// # Errors
    /// Those of drawing.
    fn loss(&mut self) -> Result<Tensor>;

    /// Stops drawing.
    fn end(&mut self);

    /// Named errors of the network as it is, the first being the one to watch.
    ///
    /// # Errors
    /// Those of the conditioner.
    fn validate(&self) -> Result<Vec<(&'static str, f64)>>;
}

/// Training of a prior or a mean network.
pub(crate) struct FieldStage<'a> {
    pub(crate) config: &'a TrainConfig,
    pub(crate) device: Device,
    pub(crate) schedule: NoiseSchedule,
    pub(crate) objective: Objective,
    pub(crate) network: UNet,
    pub(crate) maps: &'a Maps,
    pub(crate) validation_maps: &'a Maps,
    pub(crate) ahead: Ahead,
}

impl Stage for FieldStage<'_> {
    fn validation_names(&self) -> Vec<&'static str> {
        validation::names(self.config)
    }

    fn begin(&mut self, step: u64) -> Result<()> {
        self.ahead.begin(BatchSource::new(self.config, self.maps, &self.schedule)?, step);
        Ok(())
    }

    fn loss(&mut self) -> Result<Tensor> {
        let batch = Batch::gather(self.maps, &self.ahead.next()?, self.device);
        Ok(self.objective.loss(&self.network, &batch))
    }

    fn end(&mut self) {
        self.ahead.end();
    }

    fn validate(&self) -> Result<Vec<(&'static str, f64)>> {
        validate(&self.network, self.config, self.validation_maps, &self.schedule)
    }
}
