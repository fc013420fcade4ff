//! Training of the graph network through the unrolled conditioner (C.3-C.8).

use std::path::Path;

use gpara::{NoiseSchedule, Result, SeedTree};
use tch::{Device, Kind, Tensor};

use crate::ahead::Ahead;
use crate::batches::{Batch, BatchSource};
use crate::conditioner::{conductances, refine};
use crate::config::{Role, TrainConfig};
use crate::config_stages::{ConditionerConfig, GraphConfig};
use crate::data::Maps;
use crate::frozen::{Frozen, logits, moments};
use crate::graph_loss::{Refinement, graph_loss};
use crate::stage::Stage;
use crate::unet::UNet;
use crate::validation::{Measured, mask};

/// Validation maps evaluated at once.
const BATCH: i64 = 16;

/// Errors of the refined ensemble mean, i.e. of one correction of the cached prior.
const CHECKS: [(&str, Measured); 3] = [
    ("farthest_491", Measured::Farthest(491)),
    ("farthest_164", Measured::Farthest(164)),
    ("random_491", Measured::Random(491)),
];

/// The same as the first check, with the uniform graph: what the network has to beat.
const UNIFORM_CHECK: &str = "uniform_farthest_491";

/// Training of a graph network with the prior frozen.
pub(crate) struct GraphStage<'a> {
    config: &'a TrainConfig,
    graph: &'a GraphConfig,
    conditioner: &'a ConditionerConfig,
    device: Device,
    prior: Frozen,
    network: UNet,
    maps: &'a Maps,
    validation_maps: &'a Maps,
    /// `[n, L, H, W]` each.
    ensembles: [Tensor; 2],
    ahead: Ahead,
}

impl<'a> GraphStage<'a> {
    /// Reads the prior from `folder` and draws the ensembles of all maps.
    ///
    /// # Errors
    /// Those of reading the prior.
    pub(crate) fn new(
        config: &'a TrainConfig,
        folder: &Path,
        network: UNet,
        maps: &'a Maps,
        validation_maps: &'a Maps,
        device: Device,
    ) -> Result<Self> {
        let conditioner = config.conditioner.as_ref().expect("checked with the role");
        let graph = config.graph.as_ref().expect("checked with the role");
        let prior = Frozen::read(folder, &conditioner.prior, Role::Prior, config, device)?;
        let seeds = SeedTree::new(config.seed);
        let ensembles = [
            prior.ensembles(maps, conditioner, seeds.subtree("training"))?,
            prior.ensembles(validation_maps, conditioner, seeds.subtree("validation"))?,
        ];
        let ahead = Ahead::default();
        Ok(Self { config, graph, conditioner, device, prior, network, maps, validation_maps, ensembles, ahead })
    }

    /// RMSE of the refined ensemble mean over valid cells, mean over maps; `learned` or with the uniform graph.
    fn error(&self, measured: Measured, learned: bool) -> f64 {
        let maps = self.validation_maps;
        let num_maps = maps.ids.len() as i64;
        let mut total = 0.0;
        for first in (0..num_maps).step_by(BATCH as usize) {
            let count = BATCH.min(num_maps - first);
            let part = |tensor: &Tensor| tensor.narrow(0, first, count);
            let (clean, valid) = (part(&maps.fields), part(&maps.valid));
            let (mean, std) = moments(&part(&self.ensembles[1]));
            let logits = logits(&self.network, &mean, &std, &part(&maps.contexts), false);
            let graph = conductances(&if learned { logits } else { logits.zeros_like() }, &valid);
            let observed = mask(self.config, maps, first as usize, count as usize, measured);
            let observed = observed.to_device(self.device).view_as(&clean);
            let refined = refine(self.conditioner, &graph, &mean, &observed, &clean);
            let sum = |tensor: &Tensor| tensor.sum_dim_intlist([1, 2, 3].as_slice(), false, Kind::Double);
            let rmse: Tensor = (sum(&((refined - clean).square() * &valid)) / sum(&valid)).sqrt();
            total += rmse.sum(Kind::Double).double_value(&[]);
        }
        self.config.data.error_factor() * total / num_maps as f64
    }
}

impl Stage for GraphStage<'_> {
    fn validation_names(&self) -> Vec<&'static str> {
        CHECKS.iter().map(|(name, _)| *name).chain([UNIFORM_CHECK]).collect()
    }

    fn begin(&mut self, step: u64) -> Result<()> {
        self.ahead.begin(BatchSource::new(self.config, self.maps, &NoiseSchedule::ddpm())?, step);
        Ok(())
    }

    fn loss(&mut self) -> Result<Tensor> {
        let batch = Batch::gather(self.maps, &self.ahead.next()?, self.device);
        let Batch { clean: truth, context, valid, timesteps, measured, .. } = &batch;
        let observed = measured.as_ref().expect("a graph's configuration has masks");
        let estimate = self.prior.clean_estimates(truth, context, observed, timesteps);
        let (mean, std) = moments(&batch.rows_of(&self.ensembles[0]));
        let logits = logits(&self.network, &mean, &std, context, true);
        let refined = refine(self.conditioner, &conductances(&logits, valid), &estimate, observed, truth);
        let fields = Refinement { estimate: &estimate, refined: &refined, truth, valid, observed };
        Ok(graph_loss(self.graph, &logits, &fields))
    }

    fn end(&mut self) {
        self.ahead.end();
    }

    fn validate(&self) -> Result<Vec<(&'static str, f64)>> {
        let mut errors: Vec<_> = CHECKS.iter().map(|&(name, measured)| (name, self.error(measured, true))).collect();
        errors.push((UNIFORM_CHECK, self.error(CHECKS[0].1, false)));
        Ok(errors)
    }
}
