//! Training of the scorer with prior and graph frozen (C.9-C.15).

use std::path::Path;

use gpara::{Grid, NoiseSchedule, Result, SeedTree};
use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

use crate::ahead::Ahead;
use crate::batches::{BatchSource, Draw};
use crate::conditioner::conductances;
use crate::config::{Output, Role, TrainConfig};
use crate::config_stages::{ConditionerConfig, ScorerConfig};
use crate::data::Maps;
use crate::frozen::Frozen;
use crate::scorer_loss::{ScorerLosses, Scores};
use crate::scorer_net::ScorerNet;
use crate::scorer_rollout::{Campaign, Rollout};
use crate::scorer_state::{ScorerSample, ScorerScene, sample, scenes};
use crate::stage::Stage;
use crate::torch_scorer::TorchScorer;

/// Numbers of measurements of the validation states of each map, as shares of the budget.
const VALIDATION_SHARES: [f64; 2] = [0.1, 0.5];

/// `regret`: expected teacher regret of the scorer's distribution (C.13); `anchor_regret`: of the analytic utility's;
/// `benefit` and `anchor_benefit`: negative teacher score of the cell each would choose, so that less is better.
const NAMES: [&str; 4] = ["regret", "anchor_regret", "benefit", "anchor_benefit"];

/// The same on states that the analytic utility's own campaigns reach.
const ON_POLICY_NAMES: [&str; 4] =
    ["on_policy_regret", "on_policy_anchor_regret", "on_policy_benefit", "on_policy_anchor_benefit"];

/// Training of a scorer.
pub(crate) struct ScorerStage<'a> {
    config: &'a TrainConfig,
    scorer: &'a ScorerConfig,
    conditioner: &'a ConditionerConfig,
    device: Device,
    network: ScorerNet,
    maps: &'a Maps,
    scenes: Vec<ScorerScene>,
    rollout: Option<Rollout>,
    /// Farthest-point states of the validation maps and the maps they belong to.
    validation: Vec<(ScorerSample, i64)>,
    /// On-policy states likewise; empty without rollout.
    on_policy: Vec<(ScorerSample, i64)>,
    validation_maps: &'a Maps,
    ahead: Ahead,
}

impl<'a> ScorerStage<'a> {
    /// Reads prior and graph from `folder`, draws the ensembles, predicts the graphs, runs the campaigns.
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
        let counts = VALIDATION_SHARES.map(|share| (share * scorer.budget as f64) as usize);
        let layouts = &*validation_maps.layouts;
        let farthest = |map: usize, count: usize| -> Vec<usize> {
            layouts[map].farthest(count).iter().map(|&node| node as usize).collect()
        };
        let states = (0..held_out.len()).flat_map(|map| counts.map(|count| (map, farthest(map, count)))).collect();
        let validation = samples(conditioner, scorer, &held_out, states)?;
        let (mut rollout, mut on_policy) = (None, Vec::new());
        if let Some(table) = &scorer.rollout {
            let followed =
                table.scorer.as_ref().map(|name| TorchScorer::read(folder, name, config, device)).transpose()?;
            let campaign =
                Campaign { conditioner, budget: scorer.budget, batch: table.batch, scorer: followed.as_ref() };
            rollout = Some(Rollout::new(config, table, &campaign, &training, &maps.ids)?);
            // Those of the analytic utility whatever is followed, so that runs can be compared.
            let budget = counts.into_iter().max().expect("there are shares");
            let campaign = Campaign { budget, scorer: None, ..campaign };
            let chosen: Vec<usize> = (0..table.num_scenes.min(held_out.len())).collect();
            let orders = campaign.run_all(&held_out, &chosen, &validation_maps.ids, seeds.subtree("validation"))?;
            let prefix = |order: &[usize], count: usize| order[..count.min(order.len())].to_vec();
            let states = orders.iter().enumerate();
            let states = states.flat_map(|(map, order)| counts.map(|count| (map, prefix(order, count)))).collect();
            on_policy = samples(conditioner, scorer, &held_out, states)?;
        }
        Ok(Self {
            config,
            scorer,
            conditioner,
            device,
            network,
            maps,
            scenes: training,
            rollout,
            validation,
            on_policy,
            validation_maps,
            ahead: Ahead::default(),
        })
    }

    /// The states of a draw and the maps they belong to.
    fn samples(&self, draw: &Draw) -> Result<Vec<(ScorerSample, i64)>> {
        let num_nodes = self.maps.grid.num_nodes();
        let cells = draw.measured.chunks_exact(num_nodes);
        let state = |(sample, (&map, cells)): (usize, (&i64, &[u8]))| {
            if let Some((map, nodes)) = self.rollout.as_ref().and_then(|rollout| rollout.state(draw.step, sample)) {
                return (map, nodes.to_vec());
            }
            let mut nodes: Vec<usize> = (0..num_nodes).filter(|&node| cells[node] == 1).collect();
            // |S| < Gamma: the state is one at which something may still be measured.
            nodes.truncate(self.scorer.budget - 1);
            (map as usize, nodes)
        };
        let states = draw.maps.iter().zip(cells).enumerate().map(state).collect();
        samples(self.conditioner, self.scorer, &self.scenes, states)
    }

    /// The losses of states of the given maps.
    fn losses(&self, states: &[(ScorerSample, i64)], maps: &Maps, train: bool) -> (ScorerLosses, [Tensor; 4]) {
        let tensors = StateTensors::new(states, maps, self.device);
        let raw = self.network.forward(&tensors.utility, &tensors.budget, &tensors.context, train).flatten(1, -1);
        let calibrated = match self.config.parameterization {
            Output::DirectScore => raw,
            _ => &tensors.anchor + raw.tanh() * self.scorer.score_bound,
        };
        let StateTensors { anchor, teacher, candidates, .. } = tensors;
        let scores = Scores { anchor: &anchor, teacher: &teacher, calibrated: &calibrated, candidates: &candidates };
        (ScorerLosses::of(self.scorer, &scores), [anchor, teacher, calibrated, candidates])
    }

    /// Means over validation states, in the order of [`NAMES`].
    fn errors(&self, states: &[(ScorerSample, i64)]) -> [f64; 4] {
        let mut sums = [0.0; 4];
        for part in states.chunks(self.config.optimizer.batch) {
            let (losses, [anchor, teacher, calibrated, candidates]) = self.losses(part, self.validation_maps, false);
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
        sums.map(|sum| sum / states.len() as f64)
    }
}

impl Stage for ScorerStage<'_> {
    fn validation_names(&self) -> Vec<&'static str> {
        let on_policy: &[&str] = if self.rollout.is_some() { &ON_POLICY_NAMES } else { &[] };
        NAMES.iter().chain(on_policy).copied().collect()
    }

    fn begin(&mut self, step: u64) -> Result<()> {
        self.ahead.begin(BatchSource::new(self.config, self.maps, &NoiseSchedule::ddpm())?, step);
        Ok(())
    }

    fn loss(&mut self) -> Result<Tensor> {
        let draw = self.ahead.next()?;
        let states = self.samples(&draw)?;
        let (losses, _) = self.losses(&states, self.maps, true);
        Ok(losses.weighted(&self.scorer.loss))
    }

    fn end(&mut self) {
        self.ahead.end();
    }

    fn validate(&self) -> Result<Vec<(&'static str, f64)>> {
        let mut errors: Vec<_> = NAMES.into_iter().zip(self.errors(&self.validation)).collect();
        if self.rollout.is_some() {
            errors.extend(ON_POLICY_NAMES.into_iter().zip(self.errors(&self.on_policy)));
        }
        Ok(errors)
    }
}

/// The states of `scenes` after the given nodes are measured, with the map each belongs to.
fn samples(
    conditioner: &ConditionerConfig,
    scorer: &ScorerConfig,
    scenes: &[ScorerScene],
    states: Vec<(usize, Vec<usize>)>,
) -> Result<Vec<(ScorerSample, i64)>> {
    let state =
        |(map, nodes): (usize, Vec<usize>)| Ok((sample(conditioner, scorer, &scenes[map], &nodes)?, map as i64));
    states.into_par_iter().map(state).collect()
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
    fn new(states: &[(ScorerSample, i64)], maps: &Maps, device: Device) -> Self {
        let grid: Grid = maps.grid;
        let (rows, cols) = (grid.rows() as i64, grid.cols() as i64);
        let samples = || states.iter().map(|(sample, _)| sample);
        let count = states.len() as i64;
        let flat = |values: fn(&ScorerSample) -> &[f64]| {
            let values: Vec<f32> =
                samples().flat_map(|sample| values(sample).iter().map(|&value| value as f32)).collect();
            Tensor::from_slice(&values).view([count, -1]).to_device(device)
        };
        let state: Vec<f32> = samples()
            .flat_map(|sample| sample.input.channels.iter().flat_map(|channel| channel.values.iter().copied()))
            .collect();
        let state = Tensor::from_slice(&state).view([count, -1, rows, cols]).to_device(device);
        let index: Vec<i64> = states.iter().map(|(_, map)| *map).collect();
        let scene = maps.contexts.index_select(0, &Tensor::from_slice(&index).to_device(device));
        let budget: Vec<f32> = samples().map(|sample| sample.input.budget).collect();
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
