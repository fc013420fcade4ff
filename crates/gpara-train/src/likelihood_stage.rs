//! Training of a graph network by the likelihood of a frozen mean network's residuals.

use std::path::Path;

use gpara::{Conductances, Grid, NoiseSchedule, Result, SeedTree, ValidMask};
use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

use crate::batches::{Batch, BatchSource};
use crate::conditioner::conductances;
use crate::config::{Role, TrainConfig};
use crate::data::Maps;
use crate::error::TrainError;
use crate::frozen::{Frozen, logits, moments};
use crate::residual_likelihood::{PrecisionShape, residual_loss};
use crate::stage::{Ahead, Stage};
use crate::unet::UNet;
use crate::validation::{Measured, mask};

/// Validation maps evaluated at once.
const BATCH: i64 = 16;

/// Negative log-likelihoods a valid cell, of the residuals of the mean network given these measurements.
const CHECKS: [(&str, Measured); 3] = [
    ("nll_farthest_491", Measured::Farthest(491)),
    ("nll_farthest_164", Measured::Farthest(164)),
    ("nll_random_491", Measured::Random(491)),
];

/// The same as the first check, with the uniform graph.
const UNIFORM_CHECK: &str = "uniform_nll_farthest_491";

/// Training of a graph network with the mean network, and the prior that describes scenes, frozen.
pub(crate) struct LikelihoodStage<'a> {
    config: &'a TrainConfig,
    shape: PrecisionShape,
    device: Device,
    mean: Frozen,
    network: UNet,
    maps: &'a Maps,
    validation_maps: &'a Maps,
    /// `[n, L, H, W]` each.
    ensembles: [Tensor; 2],
    ahead: Ahead,
}

impl<'a> LikelihoodStage<'a> {
    /// Reads prior and mean network from `folder` and draws the ensembles of all maps.
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
        let conditioner = config.conditioner.as_ref().expect("checked with the role");
        let likelihood = config.likelihood.as_ref().expect("checked with the role");
        let prior = Frozen::read(folder, &conditioner.prior, Role::Prior, config, device)?;
        let mean = Frozen::read(folder, &likelihood.mean, Role::Mean, config, device)?;
        let seeds = SeedTree::new(config.seed);
        let ensembles = [
            prior.ensembles(maps, conditioner, seeds.subtree("training"))?,
            prior.ensembles(validation_maps, conditioner, seeds.subtree("validation"))?,
        ];
        let shape = PrecisionShape {
            residual_precision: conditioner.residual_precision,
            graph_coupling: conditioner.graph_coupling,
            kappa_squared: likelihood.kappa_squared,
        };
        let ahead = Ahead::default();
        Ok(Self { config, shape, device, mean, network, maps, validation_maps, ensembles, ahead })
    }

    /// Mean loss over the batch and its derivative by the conductances, which has their shape.
    fn losses(&self, graph: &Tensor, residual: &Tensor, valid: &Tensor) -> Result<(f64, Tensor)> {
        let shape = self.shape;
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
                residual_loss(shape, &Conductances::from_edges(edges, &valid)?, &valid, residual)
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
            let part = |tensor: &Tensor| tensor.narrow(0, first, count);
            let (clean, valid, context) = (part(&maps.fields), part(&maps.valid), part(&maps.contexts));
            let (mean, std) = moments(&part(&self.ensembles[1]));
            let logits = logits(&self.network, &mean, &std, &context, false);
            let graph = conductances(&if learned { logits } else { logits.zeros_like() }, &valid);
            let observed = mask(self.config, maps, first as usize, count as usize, measured);
            let observed = observed.to_device(self.device).view_as(&clean);
            let residual = &clean - self.mean.mean_estimates(&clean, &context, &observed);
            total += self.losses(&graph, &residual, &valid)?.0 * count as f64;
        }
        Ok(total / num_maps as f64)
    }
}

impl Stage for LikelihoodStage<'_> {
    fn validation_names(&self) -> Vec<&'static str> {
        CHECKS.iter().map(|(name, _)| *name).chain([UNIFORM_CHECK]).collect()
    }

    fn begin(&mut self, step: u64) -> Result<()> {
        self.ahead.begin(BatchSource::new(self.config, self.maps, &NoiseSchedule::ddpm())?, step);
        Ok(())
    }

    fn loss(&mut self) -> Result<Tensor> {
        let batch = Batch::gather(self.maps, &self.ahead.next()?, self.device);
        let Batch { clean, context, valid, measured, .. } = &batch;
        let observed = measured.as_ref().expect("a graph's configuration has masks");
        let residual = clean - self.mean.mean_estimates(clean, context, observed);
        let (mean, std) = moments(&batch.rows_of(&self.ensembles[0]));
        let graph = conductances(&logits(&self.network, &mean, &std, context, true), valid);
        let (value, gradient) = self.losses(&graph, &residual, valid)?;
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
