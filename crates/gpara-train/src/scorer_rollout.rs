//! On-policy states: campaigns that a policy runs on some scenes before the first step, and prefixes drawn from them.

use std::time::Instant;

use gpara::{
    AcquisitionModel, AcquisitionSession, BatchRule, EnsembleCache, FieldSource, Gpara, GparaSettings, PriorEnsemble,
    Result, RiskRule, RiskSettings, Scorer, SeedTree, SessionSettings, UtilityMethod, ZeroScorer, run_to_end,
};
use rayon::prelude::*;

use crate::config::TrainConfig;
use crate::config_stages::{ConditionerConfig, RolloutConfig};
use crate::scorer_state::{ScorerScene, correction};
use crate::torch_scorer::TorchScorer;

/// What a campaign does, beside the scene it is run on.
#[derive(Clone, Copy)]
pub(crate) struct Campaign<'a> {
    pub(crate) conditioner: &'a ConditionerConfig,
    /// Most points; a scene with fewer valid cells has fewer.
    pub(crate) budget: usize,
    /// Points between two refreshes.
    pub(crate) batch: usize,
    /// The scorer that is followed; none: the analytic utility.
    pub(crate) scorer: Option<&'a TorchScorer>,
}

impl Campaign<'_> {
    /// The nodes in the order of choice.
    ///
    /// The policy is that of the preset `paper` with exact utilities, as the training states have them.
    ///
    /// # Errors
    /// Those of the session and the policy.
    pub(crate) fn run(&self, scene: &ScorerScene, seeds: SeedTree) -> Result<Vec<usize>> {
        let ScorerScene { context, precision, truth, ensemble, .. } = scene;
        let noise_std = self.conditioner.noise_std;
        let settings = GparaSettings {
            correction: correction(self.conditioner),
            risk: RiskRule::EnsembleSpread(RiskSettings::default()),
            utility: UtilityMethod::Exact,
            score_bound: self.scorer.map_or(0.0, TorchScorer::score_bound),
            batch_rule: BatchRule::ExactKappa,
        };
        let scorer: Box<dyn Scorer> = match self.scorer {
            Some(scorer) => Box::new(scorer.clone()),
            None => Box::new(ZeroScorer),
        };
        let ensemble = PriorEnsemble::new(ensemble.clone(), context.grid().num_nodes())?;
        let mut model = AcquisitionModel {
            policy: Box::new(Gpara::new(settings, scorer)),
            precision: precision.clone(),
            ensemble: EnsembleCache::given(ensemble),
        };
        let budget = self.budget.min(context.valid().num_valid());
        let settings = SessionSettings { budget, max_batch: self.batch, noise_std };
        let mut session = AcquisitionSession::new(context.clone(), settings, seeds)?;
        let mut source = FieldSource::new(truth.clone(), noise_std, seeds)?;
        run_to_end(&mut session, &mut model, &mut source, &mut |_| Ok(()))?;
        Ok(session.rounds().iter().flat_map(|round| round.nodes()).collect())
    }

    /// [`Campaign::run`] on some scenes in parallel; `maps` are their places in `scenes` and in their names `ids`.
    ///
    /// # Errors
    /// Those of [`Campaign::run`].
    pub(crate) fn run_all(
        &self,
        scenes: &[ScorerScene],
        maps: &[usize],
        ids: &[String],
        seeds: SeedTree,
    ) -> Result<Vec<Vec<usize>>> {
        maps.par_iter().map(|&map| self.run(&scenes[map], seeds.subtree(&ids[map]))).collect()
    }
}

/// The campaigns of a run's training scenes. Scenes, campaigns and draws follow from the seed: a resumed run has the same.
pub(crate) struct Rollout {
    seeds: SeedTree,
    share: f64,
    /// Maps with the nodes of their campaign in the order of choice.
    campaigns: Vec<(usize, Vec<usize>)>,
}

impl Rollout {
    /// Runs the campaigns on random scenes; `ids` are the names of all maps.
    ///
    /// # Errors
    /// Those of [`Campaign::run`].
    pub(crate) fn new(
        config: &TrainConfig,
        rollout: &RolloutConfig,
        campaign: &Campaign<'_>,
        scenes: &[ScorerScene],
        ids: &[String],
    ) -> Result<Self> {
        let begin = Instant::now();
        let seeds = SeedTree::new(config.seed).subtree("rollout");
        // A share of 0 never looks at a campaign.
        let count = if rollout.share > 0.0 { rollout.num_scenes.min(scenes.len()) } else { 0 };
        let mut maps: Vec<usize> = (0..scenes.len()).collect();
        let mut stream = seeds.stream("scenes");
        (0..count).for_each(|place| maps.swap(place, place + stream.index(scenes.len() - place)));
        maps.truncate(count);
        let orders = campaign.run_all(scenes, &maps, ids, seeds)?;
        let campaigns = maps.into_iter().zip(orders).collect();
        let (seconds, threads) = (begin.elapsed().as_secs_f64(), rayon::current_num_threads());
        eprintln!("{}: {count} campaigns in {seconds:.1} s on {threads} threads", config.name);
        Ok(Self { seeds, share: rollout.share, campaigns })
    }

    /// Map and measured nodes of a sample of a step, the number of nodes uniform below the campaign's; `None` if the sample
    /// is one of those drawn from masks.
    pub(crate) fn state(&self, step: u64, sample: usize) -> Option<(usize, &[usize])> {
        let mut stream = self.seeds.stream(&format!("state/{step}/{sample}"));
        if stream.uniform() >= self.share {
            return None;
        }
        let (map, order) = &self.campaigns[stream.index(self.campaigns.len())];
        Some((*map, &order[..stream.index(order.len())]))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use gpara::{
        AcquisitionInput, Channel, Conductances, Context, EnsembleMoments, Grid, MeasurementSource, Observations,
        Policy, Posterior, ResidualPrecision, RiskWeights, ValidMask,
    };
    use tch::{Device, nn};

    use super::*;
    use crate::scorer_net::ScorerNet;
    use crate::scorer_state::sample;

    const BUDGET: usize = 10;
    const BATCH: usize = 3;

    /// A run whose states are all on-policy.
    pub(crate) fn config() -> TrainConfig {
        let smoke = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/smoke_scorer.toml");
        let mut config = TrainConfig::read(&smoke).unwrap();
        let scorer = config.scorer.as_mut().unwrap();
        scorer.budget = BUDGET;
        scorer.rollout = Some(RolloutConfig { share: 1.0, num_scenes: 2, batch: BATCH, scorer: None });
        config
    }

    /// A random scene with holes, an uneven graph and the channels of a radio scene.
    pub(crate) fn scene(grid: Grid, name: &str) -> ScorerScene {
        let mut stream = SeedTree::new(11).stream(name);
        let num_nodes = grid.num_nodes();
        let mut random = |count: usize, scale: f64| (0..count).map(|_| scale * stream.normal()).collect::<Vec<f64>>();
        let valid = ValidMask::new(grid, (0..num_nodes).map(|node| node % 7 != 3).collect()).unwrap();
        let channels = gpara_tasks::radio::CHANNELS.iter().map(|name| Channel {
            name: name.to_string(),
            values: random(num_nodes, 1.0).into_iter().map(|value| value as f32).collect(),
        });
        let context = Context::new(valid, channels.collect()).unwrap();
        let graph = Conductances::from_logits(&random(4 * num_nodes, 1.0), context.valid()).unwrap();
        let precision = ResidualPrecision::new(graph, 0.0625, 0.8).unwrap();
        // Small enough that nothing is clipped to the field's range.
        let (truth, ensemble) = (random(num_nodes, 0.2), random(4 * num_nodes, 0.2));
        let prior_mean = EnsembleMoments::of(&ensemble, grid).unwrap().mean;
        ScorerScene { context, precision, truth, ensemble, prior_mean }
    }

    fn small() -> Grid {
        Grid::new(8, 12).unwrap()
    }

    fn scenes() -> (Vec<ScorerScene>, Vec<String>) {
        let ids: Vec<String> = ["a", "b", "c"].map(String::from).into();
        (ids.iter().map(|id| scene(small(), id)).collect(), ids)
    }

    fn rollout(config: &TrainConfig) -> Rollout {
        let (scenes, ids) = scenes();
        let table = config.scorer.as_ref().unwrap().rollout.as_ref().unwrap();
        let conditioner = config.conditioner.as_ref().unwrap();
        let campaign = Campaign { conditioner, budget: BUDGET, batch: table.batch, scorer: None };
        Rollout::new(config, table, &campaign, &scenes, &ids).unwrap()
    }

    /// The order of the core's policy, asked batch by batch.
    fn order_of_the_policy(config: &TrainConfig, scene: &ScorerScene, seeds: SeedTree) -> Vec<usize> {
        let conditioner = config.conditioner.as_ref().unwrap();
        let ScorerScene { context, precision, truth, ensemble, .. } = scene;
        let noise_std = conditioner.noise_std;
        let ensemble = PriorEnsemble::new(ensemble.clone(), context.grid().num_nodes()).unwrap();
        let settings = GparaSettings {
            correction: correction(conditioner),
            risk: RiskRule::EnsembleSpread(RiskSettings::default()),
            utility: UtilityMethod::Exact,
            score_bound: 0.0,
            batch_rule: BatchRule::ExactKappa,
        };
        let mut policy = Gpara::new(settings, Box::new(ZeroScorer));
        let mut source = FieldSource::new(truth.clone(), noise_std, seeds).unwrap();
        let (mut observations, mut order) = (Observations::none(context.grid()), Vec::new());
        while order.len() < BUDGET {
            let candidates: Vec<usize> = context.valid().nodes().filter(|node| !order.contains(node)).collect();
            let input = AcquisitionInput {
                context,
                candidates: &candidates,
                observations: &observations,
                pending: &[],
                ensemble: Some(&ensemble),
                precision,
                noise_std,
                round: order.len() / BATCH,
                budget: BUDGET,
                seeds,
            };
            let nodes: Vec<usize> = policy
                .select(&input, BATCH.min(BUDGET - order.len()))
                .unwrap()
                .points
                .iter()
                .map(|point| point.node)
                .collect();
            observations.add(context.valid(), &source.measure(&nodes).unwrap()).unwrap();
            order.extend(nodes);
        }
        order
    }

    #[test]
    fn on_policy_states_are_prefixes_of_the_order_of_the_cores_policy() {
        let config = config();
        let (scorer, conditioner) = (config.scorer.as_ref().unwrap(), config.conditioner.as_ref().unwrap());
        let (scenes, ids) = scenes();
        let rollout = rollout(&config);
        let seeds = SeedTree::new(config.seed).subtree("rollout");
        let orders: Vec<Vec<usize>> =
            scenes.iter().zip(&ids).map(|(scene, id)| order_of_the_policy(&config, scene, seeds.subtree(id))).collect();
        let (mut lengths, mut maps) = (vec![0; BUDGET], vec![0; 3]);
        for step in 0..200 {
            let (map, nodes) = rollout.state(step, 1).expect("every state is on-policy");
            assert_eq!(nodes, &orders[map][..nodes.len()], "map {map}");
            lengths[nodes.len()] += 1;
            maps[map] += 1;
            if step < 10 {
                let state = sample(conditioner, scorer, &scenes[map], nodes).unwrap();
                let observed = &state.input.channels[0];
                assert_eq!(observed.name, "observed");
                let expected: Vec<f32> =
                    (0..96).map(|node| f32::from(u8::from(orders[map][..nodes.len()].contains(&node)))).collect();
                assert_eq!(observed.values, expected);
            }
        }
        // 20 of each length expected, standard deviation 4.2; two of the three maps have campaigns.
        assert!(lengths.iter().all(|&count| (5..38).contains(&count)), "{lengths:?}");
        assert_eq!(maps.iter().filter(|&&count| count > 0).count(), 2, "{maps:?}");
    }

    #[test]
    fn theory_first_point_has_the_greatest_weighted_reduction_of_risk_14() {
        let config = config();
        let conditioner = config.conditioner.as_ref().unwrap();
        let campaign = Campaign { conditioner, budget: 1, batch: BATCH, scorer: None };
        for name in ["a", "b", "c"] {
            let scene = scene(small(), name);
            let found = campaign.run(&scene, SeedTree::new(1)).unwrap();
            let candidates: Vec<usize> = scene.context.valid().nodes().collect();
            let posterior = Posterior::new(&scene.precision, &Observations::none(small())).unwrap();
            let variance = EnsembleMoments::of(&scene.ensemble, small()).unwrap().variance;
            let weights = RiskWeights::from_variance(&variance, &candidates, &RiskSettings::default()).unwrap();
            let noise = conditioner.noise_std.powi(2);
            // u = Sigma e / (sigma^2 + Sigma_ii), so that sigma^2 + Sigma_ii = sigma^2 / (1 - u_i); the noise is raised here,
            // as 1 - u_i has no digits left otherwise, and taken back by the exact variance.
            let raised = 0.5;
            let reduction = |node: usize| {
                let response = posterior.response(node, raised).unwrap();
                let total = raised * raised / (1.0 - response[node]);
                let own = total - raised * raised;
                let weighted: f64 = weights.as_slice().iter().zip(&response).map(|(w, u)| w * u * u).sum();
                weighted * total * total / (noise + own)
            };
            let best = candidates.iter().copied().max_by(|&a, &b| reduction(a).total_cmp(&reduction(b))).unwrap();
            assert_eq!(found, [best], "{name}");
        }
    }

    #[test]
    fn draws_depend_on_seed_and_step_alone_and_keep_the_share() {
        let mut config = config();
        config.scorer.as_mut().unwrap().rollout.as_mut().unwrap().share = 0.3;
        let (first, resumed) = (rollout(&config), rollout(&config));
        let forward: Vec<_> = (0..500).map(|step| [0, 1].map(|sample| first.state(step, sample))).collect();
        let backward: Vec<_> = (0..500).rev().map(|step| [0, 1].map(|sample| resumed.state(step, sample))).collect();
        assert!(forward.iter().eq(backward.iter().rev()), "a draw depends on the draws before");
        let count = forward.iter().flatten().flatten().count();
        // 300 expected, standard deviation 14.5.
        assert!((240..360).contains(&count), "{count}");
        config.seed += 1;
        let other = rollout(&config);
        assert!((0..500).any(|step| other.state(step, 0) != first.state(step, 0)));
    }

    #[test]
    fn share_of_zero_runs_no_campaign() {
        let mut config = config();
        config.scorer.as_mut().unwrap().rollout.as_mut().unwrap().share = 0.0;
        let rollout = rollout(&config);
        assert!(rollout.campaigns.is_empty() && (0..100).all(|step| rollout.state(step, 0).is_none()));
    }

    #[test]
    fn campaign_that_follows_a_fresh_scorer_is_the_one_of_the_analytic_utility() {
        let config = config();
        let store = nn::VarStore::new(Device::Cpu);
        let network = ScorerNet::new(&store.root(), &config).unwrap();
        let scorer = TorchScorer::new(network, store, config.clone(), Device::Cpu);
        let conditioner = config.conditioner.as_ref().unwrap();
        let run = |scorer, scene| {
            let campaign = Campaign { conditioner, budget: BUDGET, batch: BATCH, scorer };
            campaign.run(scene, SeedTree::new(1)).unwrap()
        };
        let scene = scene(small(), "a");
        let order = run(Some(&scorer), &scene);
        assert_eq!((order.len(), &order), (BUDGET, &run(None, &scene)));
    }

    #[test]
    #[ignore = "measurement"]
    fn bench_one_round_of_a_campaign() {
        let config = config();
        let conditioner = config.conditioner.as_ref().unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        for (rows, cols) in [(128, 128), (192, 256)] {
            let scene = scene(Grid::new(rows, cols).unwrap(), "bench");
            for batch in [8, 16] {
                let campaign = Campaign { conditioner, budget: 4 * batch, batch, scorer: None };
                let begin = Instant::now();
                pool.install(|| campaign.run(&scene, SeedTree::new(1))).unwrap();
                let seconds = begin.elapsed().as_secs_f64() / 4.0;
                let whole = seconds * 491f64 / batch as f64;
                eprintln!("{rows} x {cols}, batch {batch}: {seconds:.3} s a round, {whole:.1} s a campaign of 491");
            }
        }
    }
}
