//! Training of the scale of a frozen mean network's error: Laplace log-likelihood in every cell that is not measured.

use std::path::Path;

use gpara::{NoiseSchedule, Result};
use gpara_nn::{SPREAD_LOG_OFFSET, SPREAD_LOG_RANGE};
use tch::{Device, Kind, Tensor};

use crate::ahead::Ahead;
use crate::batches::{Batch, BatchSource, with_measurements};
use crate::config::{Role, TrainConfig};
use crate::data::Maps;
use crate::frozen::Frozen;
use crate::measured_maps::MeasuredMaps;
use crate::stage::Stage;
use crate::target::BatchScale;
use crate::unet::UNet;
use crate::validation::{Measured, timestep};

/// Validation maps evaluated at once.
const BATCH: i64 = 16;

/// Negative log-likelihoods a cell, at the best common factor of the scales of all maps.
const CHECKS: [(&str, Measured); 3] = [
    ("nll_farthest_491", Measured::Farthest(491)),
    ("nll_farthest_82", Measured::Farthest(82)),
    ("nll_random_491", Measured::Random(491)),
];

/// The same as the first check, with one scale for all cells: what the network has to beat.
const CONSTANT_CHECK: &str = "constant_nll_farthest_491";

/// Training of a spread network with the mean network frozen.
pub(crate) struct SpreadStage<'a> {
    config: &'a TrainConfig,
    device: Device,
    mean: Frozen,
    network: UNet,
    maps: &'a Maps,
    validation_maps: &'a Maps,
    ahead: Ahead,
}

impl<'a> SpreadStage<'a> {
    /// Reads the mean network from `folder`.
    ///
    /// # Errors
    /// Those of reading it.
    pub(crate) fn new(
        config: &'a TrainConfig,
        folder: &Path,
        network: UNet,
        maps: &'a Maps,
        validation_maps: &'a Maps,
        device: Device,
    ) -> Result<Self> {
        let spread = config.spread.as_ref().expect("checked with the role");
        let mean = Frozen::read(folder, &spread.mean, Role::Mean, config, device)?;
        Ok(Self { config, device, mean, network, maps, validation_maps, ahead: Ahead::default() })
    }

    /// Size of the errors, logarithm of the predicted scale, and 1 at the cells that count; `[B, 1, H, W]` each.
    fn errors(&self, maps: &MeasuredMaps, train: bool) -> [Tensor; 3] {
        let mean = self.mean.mean_estimates(maps);
        let log_scale = log_scales(&self.network, &mean, maps, train);
        [(&maps.clean - mean).abs(), log_scale, &maps.valid * (1.0 - &maps.measured)]
    }

    /// Mean over all counted cells of the validation maps at the factor of largest likelihood.
    fn error(&self, measured: Measured, constant: bool) -> Result<f64> {
        let maps = self.validation_maps;
        let num_maps = maps.ids.len() as i64;
        let (mut ratio, mut log_scale, mut cells) = (0.0, 0.0, 0.0);
        for first in (0..num_maps).step_by(BATCH as usize) {
            let count = BATCH.min(num_maps - first);
            let part = MeasuredMaps::of_validation(self.config, maps, (first, count), measured, &self.mean)?;
            let [size, log, counted] = self.errors(&part, false);
            let log = if constant { log.zeros_like() } else { log };
            let sum = |tensor: Tensor| tensor.sum(Kind::Double).double_value(&[]);
            ratio += sum(size * (-&log).exp() * &counted);
            log_scale += sum(log * &counted);
            cells += sum(counted);
        }
        // With scales b times a: the mean of log(2 a b) + |r| / (a b) is least at a = mean(|r| / b), where it is
        // mean(log b) + log a + log 2 + 1.
        Ok(log_scale / cells + (ratio / cells).ln() + 2.0f64.ln() + 1.0)
    }
}

/// Logarithms of the Laplace scales `[B, 1, H, W]` that a spread network predicts for an estimate `mean`.
pub(crate) fn log_scales(network: &UNet, mean: &Tensor, maps: &MeasuredMaps, train: bool) -> Tensor {
    let context = with_measurements(&maps.context, None, &maps.measured, &maps.clean, &BatchScale::Identity);
    let output = network.forward(mean, &timestep(0, mean), &context, train);
    (output + SPREAD_LOG_OFFSET).clamp(SPREAD_LOG_RANGE[0], SPREAD_LOG_RANGE[1])
}

impl Stage for SpreadStage<'_> {
    fn validation_names(&self) -> Vec<&'static str> {
        CHECKS.iter().map(|(name, _)| *name).chain([CONSTANT_CHECK]).collect()
    }

    fn begin(&mut self, step: u64) -> Result<()> {
        let source = BatchSource::new(self.config, self.maps, &NoiseSchedule::ddpm())?;
        self.ahead.begin(source.with_guided_field(self.mean.reads_guided_field()), step);
        Ok(())
    }

    fn loss(&mut self) -> Result<Tensor> {
        let batch = Batch::gather(self.maps, &self.ahead.next()?, self.device);
        let [size, log_scale, counted] = self.errors(&MeasuredMaps::of_batch(batch), true);
        let losses = (&log_scale + size * (-&log_scale).exp()) * &counted;
        Ok(losses.sum(Kind::Float) / counted.sum(Kind::Float))
    }

    fn end(&mut self) {
        self.ahead.end();
    }

    fn validate(&self) -> Result<Vec<(&'static str, f64)>> {
        let mut errors = Vec::new();
        for (name, measured) in CHECKS {
            errors.push((name, self.error(measured, false)?));
        }
        errors.push((CONSTANT_CHECK, self.error(CHECKS[0].1, true)?));
        Ok(errors)
    }
}
