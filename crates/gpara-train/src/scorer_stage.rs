//! Training of the scorer with prior and graph frozen (C.9-C.15).

use std::path::Path;

use gpara::{Grid, NoiseSchedule, Result, SeedTree};
use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

use crate::batches::{BatchSource, Draw};
use crate::conditioner::conductances;
use crate::config::{Output, Role, TrainConfig};
use crate::config_stages::{ConditionerConfig, ScorerConfig};
use crate::data::Maps;
use crate::frozen::Frozen;
use crate::scorer_loss::{ScorerLosses, Scores};
use crate::scorer_net::ScorerNet;
use crate::scorer_state::{ScorerSample, ScorerScene, sample, scenes};
use crate::stage::{Ahead, Stage};

/// Numbers of measurements of the validation states of each map, as shares of the budget.
const VALIDATION_SHARES: [f64; 2] = [0.1, 0.5];

/// `regret`: expected teacher regret of the scorer's distribution (C.13); `anchor_regret`: of the analytic utility's;
/// `benefit` and `anchor_benefit`: negative teacher score of the cell each would choose, so that less is better.
const NAMES: [&str; 4] = ["regret", "anchor_regret", "benefit", "anchor_benefit"];

/// Training of a scorer.
pub(crate) struct ScorerStage<'a> {
    config: &'a TrainConfig,
    scorer: &'a ScorerConfig,
    conditioner: &'a ConditionerConfig,
    device: Device,
    network: ScorerNet,
    maps: &'a Maps,
    scenes: Vec<ScorerScene>,
    /// States of the validation maps and the maps they belong to.
    validation: Vec<(ScorerSample, i64)>,
    validation_maps: &'a Maps,
    ahead: Ahead,
}

impl<'a> ScorerStage<'a> {
    /// Reads prior and graph from `folder`, draws the ensembles, predicts the graphs.
    ///
    /// # Errors
    /// Those of reading the networks and of the core.
    pub(crate) fn new(
        config: &'a TrainConfig,
        folder: &Path,
        network: ScorerNet,
        maps: &'a Maps,
        validation_maps: &'a Maps,
        device: Device,
    ) -> Result<Self> {
        let conditioner = config.conditioner.as_ref().expect("checked with the role");
        let scorer = config.scorer.as_ref().expect("checked with the role");
        let prior = Frozen::read(folder, &conditioner.prior, Role::Prior, config, device)?;
        let graph = scorer.graph.as_ref().map(|name| Frozen::read(folder, name, Role::Graph, config, device));
        let graph = graph.transpose()?;
        let seeds = SeedTree::new(config.seed);
        let prepare = |maps: &Maps, part: &str| -> Result<Vec<ScorerScene>> {
            let ensembles = prior.ensembles(maps, conditioner, seeds.subtree(part))?;
            let graphs = match &graph {
                Some(graph) => graph.conductances(maps, &ensembles),
                None => uniform(maps),
            };
            scenes(config, maps, &ensembles, &graphs)
        };
        let training = prepare(maps, "training")?;
        let held_out = prepare(validation_maps, "validation")?;
        let states: Vec<(usize, usize)> = (0..held_out.len())
            .flat_map(|map| VALIDATION_SHARES.map(|share| (map, (share * scorer.budget as f64) as usize)))
            .collect();
        let layouts = &*validation_maps.layouts;
        let validation = states
            .into_par_iter()
            .map(|(map, count)| {
                let nodes: Vec<usize> = layouts[map].farthest(count).iter().map(|&node| node as usize).collect();
                Ok((sample(conditioner, scorer, &held_out[map], &nodes)?, map as i64))
            })
            .collect::<Result<Vec<_>>>()?;
        let ahead = Ahead::default();
        let scenes = training;
        Ok(Self { config, scorer, conditioner, device, network, maps, scenes, validation, validation_maps, ahead })
    }

    /// The states of a draw.
    fn samples(&self, draw: &Draw) -> Result<Vec<ScorerSample>> {
        let Self { scenes, scorer, conditioner, .. } = self;
        let num_nodes = self.maps.grid.num_nodes();
        let cells = draw.measured.par_chunks_exact(num_nodes);
        draw.maps
            .par_iter()
            .zip(cells)
            .map(|(&map, cells)| {
                let nodes: Vec<usize> = (0..num_nodes).filter(|&node| cells[node] == 1).collect();
                // |S| < Gamma: the state is one at which something may still be measured.
                let nodes = &nodes[..nodes.len().min(scorer.budget - 1)];
                sample(conditioner, scorer, &scenes[map as usize], nodes)
            })
            .collect()
    }

    /// The losses of states of the given maps.
    fn losses(
        &self,
        samples: &[&ScorerSample],
        maps: &Maps,
        index: &[i64],
        train: bool,
    ) -> (ScorerLosses, [Tensor; 4]) {
        let tensors = StateTensors::new(samples, maps, index, self.device);
        let raw = self.network.forward(&tensors.utility, &tensors.budget, &tensors.context, train).flatten(1, -1);
        let calibrated = match self.config.parameterization {
            Output::DirectScore => raw,
            _ => &tensors.anchor + raw.tanh() * self.scorer.score_bound,
        };
        let StateTensors { anchor, teacher, candidates, .. } = tensors;
        let scores = Scores { anchor: &anchor, teacher: &teacher, calibrated: &calibrated, candidates: &candidates };
        (ScorerLosses::of(self.scorer, &scores), [anchor, teacher, calibrated, candidates])
    }
}

impl Stage for ScorerStage<'_> {
    fn validation_names(&self) -> Vec<&'static str> {
        NAMES.to_vec()
    }

    fn begin(&mut self, step: u64) -> Result<()> {
        self.ahead.begin(BatchSource::new(self.config, self.maps, &NoiseSchedule::ddpm())?, step);
        Ok(())
    }

    fn loss(&mut self) -> Result<Tensor> {
        let draw = self.ahead.next()?;
        let samples = self.samples(&draw)?;
        let samples: Vec<&ScorerSample> = samples.iter().collect();
        let (losses, _) = self.losses(&samples, self.maps, &draw.maps, true);
        Ok(losses.weighted(&self.scorer.loss))
    }

    fn end(&mut self) {
        self.ahead.end();
    }

    fn validate(&self) -> Result<Vec<(&'static str, f64)>> {
        let mut sums = [0.0; 4];
        for part in self.validation.chunks(self.config.optimizer.batch) {
            let samples: Vec<&ScorerSample> = part.iter().map(|(sample, _)| sample).collect();
            let index: Vec<i64> = part.iter().map(|(_, map)| *map).collect();
            let (losses, [anchor, teacher, calibrated, candidates]) =
                self.losses(&samples, self.validation_maps, &index, false);
            let alone = Scores { anchor: &anchor, teacher: &teacher, calibrated: &anchor, candidates: &candidates };
            let of_anchor = ScorerLosses::of(self.scorer, &alone);
            let chosen = |scores: &Tensor| {
                let only: Tensor = scores * &candidates + (1.0 - &candidates) * -1e9;
                let place = only.argmax(-1, true);
                -teacher.gather(1, &place, false).mean(Kind::Double).double_value(&[])
            };
            let value = |tensor: &Tensor| tensor.double_value(&[]);
            let values = [value(&losses.regret), value(&of_anchor.regret), chosen(&calibrated), chosen(&anchor)];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * part.len() as f64);
        }
        let count = self.validation.len() as f64;
        Ok(NAMES.into_iter().zip(sums.map(|sum| sum / count)).collect())
    }
}

/// The uniform graph of every map, `[n, 4, H, W]`.
fn uniform(maps: &Maps) -> Tensor {
    let size = maps.valid.size();
    conductances(&Tensor::zeros([size[0], 4, size[2], size[3]], (Kind::Float, maps.valid.device())), &maps.valid)
}

/// The states of a batch on the device.
struct StateTensors {
    /// `[B, 1, H, W]`.
    utility: Tensor,
    /// `[B]`.
    budget: Tensor,
    /// `[B, C, H, W]`: the scene's channels, then those of the state.
    context: Tensor,
    /// `[B, num_nodes]` each.
    anchor: Tensor,
    teacher: Tensor,
    candidates: Tensor,
}

impl StateTensors {
    fn new(samples: &[&ScorerSample], maps: &Maps, index: &[i64], device: Device) -> Self {
        let grid: Grid = maps.grid;
        let (rows, cols) = (grid.rows() as i64, grid.cols() as i64);
        let flat = |values: fn(&ScorerSample) -> &[f64]| {
            let values: Vec<f32> =
                samples.iter().flat_map(|sample| values(sample).iter().map(|&value| value as f32)).collect();
            Tensor::from_slice(&values).view([samples.len() as i64, -1]).to_device(device)
        };
        let state: Vec<f32> = samples
            .iter()
            .flat_map(|sample| sample.input.channels.iter().flat_map(|channel| channel.values.iter().copied()))
            .collect();
        let state = Tensor::from_slice(&state).view([samples.len() as i64, -1, rows, cols]).to_device(device);
        let scene = maps.contexts.index_select(0, &Tensor::from_slice(index).to_device(device));
        let budget: Vec<f32> = samples.iter().map(|sample| sample.input.budget).collect();
        Self {
            utility: flat(|sample| &sample.input.utility).view([-1, 1, rows, cols]),
            budget: Tensor::from_slice(&budget).to_device(device),
            context: Tensor::cat(&[scene, state], 1),
            anchor: flat(|sample| &sample.anchor),
            teacher: flat(|sample| &sample.teacher),
            candidates: flat(|sample| &sample.candidates),
        }
    }
}
