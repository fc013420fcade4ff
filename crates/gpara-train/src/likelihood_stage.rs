//! Training of a graph network by the likelihood of a frozen mean network's residuals, over their own scale.

use std::path::Path;

use gpara::{Conductances, Grid, NoiseSchedule, PrecisionScale, Result, ValidMask};
use gpara_nn::{SPREAD_GAIN, spacing_value};
use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

use crate::ahead::Ahead;
use crate::batches::{Batch, BatchSource};
use crate::conditioner::conductances;
use crate::config::{Role, TrainConfig};
use crate::data::Maps;
use crate::error::TrainError;
use crate::frozen::Frozen;
use crate::measured_maps::MeasuredMaps;
use crate::residual_likelihood::residual_loss;
use crate::stage::Stage;
use crate::unet::UNet;
use crate::validation::{Measured, timestep};

/// Validation maps evaluated at once.
const BATCH: i64 = 16;

/// Negative log-likelihoods a valid cell, of the residuals of the mean network given these measurements, each over its
/// predicted standard deviation.
const CHECKS: [(&str, Measured); 3] = [
    ("nll_farthest_491", Measured::Farthest(491)),
    ("nll_farthest_164", Measured::Farthest(164)),
    ("nll_random_491", Measured::Random(491)),
];

/// The same as the first check, with the uniform graph.
const UNIFORM_CHECK: &str = "uniform_nll_farthest_491";

/// Training of a graph network with the mean network and its spread frozen.
///
/// The network sees what is believed after the measurements: the mean estimate as state, its spread and the spacing of the
/// measurements as channels.
pub(crate) struct LikelihoodStage<'a> {
    config: &'a TrainConfig,
    scale: PrecisionScale,
    device: Device,
    mean: Frozen,
    spread: Frozen,
    network: UNet,
    maps: &'a Maps,
    validation_maps: &'a Maps,
    ahead: Ahead,
}

impl<'a> LikelihoodStage<'a> {
    /// Reads the mean network and its spread from `folder`.
    ///
    /// # Errors
    /// Those of reading the networks.
    pub(crate) fn new(
        config: &'a TrainConfig,
        folder: &Path,
        network: UNet,
        maps: &'a Maps,
        validation_maps: &'a Maps,
        device: Device,
    ) -> Result<Self> {
        let likelihood = config.likelihood.as_ref().expect("checked with the role");
        let mean = Frozen::read(folder, &likelihood.mean, Role::Mean, config, device)?;
        let spread = Frozen::read(folder, &likelihood.spread, Role::Spread, config, device)?;
        let scale = PrecisionScale {
            residual_precision: likelihood.residual_precision,
            graph_coupling: likelihood.graph_coupling,
            kappa_squared: likelihood.kappa_squared,
        };
        Ok(Self { config, scale, device, mean, spread, network, maps, validation_maps, ahead: Ahead::default() })
    }

    /// Edge logits `[B, 4, H, W]`, and the residuals over their predicted standard deviation.
    fn believed(&self, maps: &MeasuredMaps, train: bool) -> Result<(Tensor, Tensor)> {
        let MeasuredMaps { clean, context, valid, measured, .. } = maps;
        let mean = self.mean.mean_estimates(maps);
        let std = self.spread.spreads(&mean, maps);
        let count = |tensor: &Tensor| -> Result<Vec<f64>> {
            let sums = tensor.sum_dim_intlist([1, 2, 3].as_slice(), false, Kind::Double);
            Ok(Vec::try_from(sums).map_err(TrainError::Torch)?)
        };
        let pairs = count(valid)?.into_iter().zip(count(measured)?);
        let spacing: Vec<f32> =
            pairs.map(|(valid, measured)| spacing_value(valid as usize, measured as usize) as f32).collect();
        let spacing = Tensor::from_slice(&spacing).to_device(self.device).view([-1, 1, 1, 1]).expand_as(&mean);
        let described = Tensor::cat(&[context, &(&std * SPREAD_GAIN), &spacing], 1);
        let logits = self.network.forward(&mean, &timestep(0, &mean), &described, train);
        // A measured cell has no error left once the estimate is corrected.
        Ok((logits, (clean - mean) / std * (1.0 - measured)))
    }

    /// Mean loss over the batch and its derivative by the conductances, which has their shape.
    fn losses(&self, graph: &Tensor, residual: &Tensor, valid: &Tensor) -> Result<(f64, Tensor)> {
        let scale = self.scale;
        let grid: Grid = self.maps.grid;
        let num_nodes = grid.num_nodes();
        let flat = |tensor: &Tensor| -> Result<Vec<f64>> {
            let values = tensor.to_device(Device::Cpu).to_kind(Kind::Double).contiguous().view(-1);
            Ok(Vec::try_from(values).map_err(TrainError::Torch)?)
        };
        let (graph_values, residual, valid) = (flat(&graph.detach())?, flat(residual)?, flat(valid)?);
        let samples: Vec<(f64, [Vec<f64>; 4])> = residual
            .par_chunks_exact(num_nodes)
            .zip(valid.par_chunks_exact(num_nodes))
            .zip(graph_values.par_chunks_exact(4 * num_nodes))
            .map(|((residual, valid), edges)| {
                let valid = ValidMask::new(grid, valid.iter().map(|&value| value > 0.5).collect())?;
                let edges = std::array::from_fn(|at| edges[at * num_nodes..][..num_nodes].to_vec());
                residual_loss(scale, &Conductances::from_edges(edges, &valid)?, &valid, residual)
            })
            .collect::<Result<Vec<_>>>()?;
        let count = samples.len() as f64;
        let value = samples.iter().map(|(value, _)| value).sum::<f64>() / count;
        let gradient: Vec<f32> =
            samples.iter().flat_map(|(_, maps)| maps.iter().flatten().map(|entry| (entry / count) as f32)).collect();
        Ok((value, Tensor::from_slice(&gradient).view_as(graph).to_device(graph.device())))
    }

    /// Mean over the validation maps; `learned` or with the uniform graph.
    fn error(&self, measured: Measured, learned: bool) -> Result<f64> {
        let maps = self.validation_maps;
        let num_maps = maps.ids.len() as i64;
        let mut total = 0.0;
        for first in (0..num_maps).step_by(BATCH as usize) {
            let count = BATCH.min(num_maps - first);
            let part = MeasuredMaps::of_validation(self.config, maps, (first, count), measured, &self.mean)?;
            let (logits, residual) = self.believed(&part, false)?;
            let graph = conductances(&if learned { logits } else { logits.zeros_like() }, &part.valid);
            total += self.losses(&graph, &residual, &part.valid)?.0 * count as f64;
        }
        Ok(total / num_maps as f64)
    }
}

impl Stage for LikelihoodStage<'_> {
    fn validation_names(&self) -> Vec<&'static str> {
        CHECKS.iter().map(|(name, _)| *name).chain([UNIFORM_CHECK]).collect()
    }

    fn begin(&mut self, step: u64) -> Result<()> {
        let source = BatchSource::new(self.config, self.maps, &NoiseSchedule::ddpm())?;
        self.ahead.begin(source.with_guided_field(self.mean.reads_guided_field()), step);
        Ok(())
    }

    fn loss(&mut self) -> Result<Tensor> {
        let batch = Batch::gather(self.maps, &self.ahead.next()?, self.device);
        let maps = MeasuredMaps::of_batch(batch);
        let (logits, residual) = self.believed(&maps, true)?;
        let graph = conductances(&logits, &maps.valid);
        let (value, gradient) = self.losses(&graph, &residual, &maps.valid)?;
        // A number whose value is the loss and whose gradient by the conductances is the one of the core.
        let upstream = (&graph * gradient).sum(Kind::Float);
        Ok(&upstream - upstream.detach() + value)
    }

    fn end(&mut self) {
        self.ahead.end();
    }

    fn validate(&self) -> Result<Vec<(&'static str, f64)>> {
        let mut errors = Vec::new();
        for (name, measured) in CHECKS {
            errors.push((name, self.error(measured, true)?));
        }
        errors.push((UNIFORM_CHECK, self.error(CHECKS[0].1, false)?));
        Ok(errors)
    }
}
