//! Presets: every setting of the method that is not data, from one TOML file.

mod build;
mod mean_network;
mod raw;

use gpara::{BatchRule, Correction, CorrectionSchedule, RiskRule, UtilityMethod};
use gpara_nn::sha256_hex;

use crate::embedded_models::EmbeddedModel;
use crate::failure::{Failure, Outcome};

pub(crate) use build::{
    MethodParts, PolicyChoice, Task, check_available, draw_prior, mean_reconstructor, residual_precision,
};
pub(crate) use mean_network::MeanNetwork;
use raw::RawPreset;

/// Name and text of each embedded preset.
pub(crate) const EMBEDDED_PRESETS: [(&str, &str); 8] = [
    ("paper", include_str!("../../../../configs/preset_paper.toml")),
    ("best", include_str!("../../../../configs/preset_best.toml")),
    ("gaussian", include_str!("../../../../configs/preset_gaussian.toml")),
    ("best-depth", include_str!("../../../../configs/preset_best_depth.toml")),
    ("gaussian-depth", include_str!("../../../../configs/preset_gaussian_depth.toml")),
    ("paper-learned", include_str!("../../../../configs/preset_paper_learned.toml")),
    ("paper-depth", include_str!("../../../../configs/preset_paper_depth.toml")),
    ("paper-learned-depth", include_str!("../../../../configs/preset_paper_learned_depth.toml")),
];

/// The settings of a run, checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Preset {
    /// Its name, for reports.
    pub(crate) name: String,
    /// The text it was read from, for the report's hash.
    pub(crate) text: String,
    /// Where samples come from.
    pub(crate) prior: Prior,
    /// Which cells are coupled how strongly.
    pub(crate) graph: Graph,
    /// tau of Eq. 8.
    pub(crate) residual_precision: f64,
    /// lambda of Eq. 8.
    pub(crate) graph_coupling: f64,
    /// kappa^2 of a precision of second order; none: first order.
    pub(crate) kappa_squared: Option<f64>,
    /// Solver, strength rho and clip of Eq. 13.
    pub(crate) correction: Correction,
    /// How points are chosen.
    pub(crate) acquisition: Acquisition,
    /// How the field is reconstructed.
    pub(crate) reconstruct: Reconstruct,
}

/// The prior.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Prior {
    /// An embedded network.
    Network {
        /// Its name in `models/`.
        model: String,
        /// L.
        ensemble_size: usize,
        /// Number of reverse steps.
        num_steps: usize,
        /// Numbers of measurements at which a prior that sees them is drawn again; empty: drawn once.
        refresh_at: Vec<usize>,
    },
    /// The graph's own Gaussian model, with a level fitted to the measurements.
    Gaussian {
        /// The level as long as nothing is measured, normalised units.
        mean: f64,
    },
}

/// The graph that couples residuals.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Graph {
    /// Every allowed edge alike.
    Uniform,
    /// Weaker across jumps of the prior's moments.
    EdgeAware,
    /// Weaker across edges of the scene's picture.
    Guided {
        /// Difference of luminance, of 1, that weakens an edge by 1/e.
        scale: f64,
    },
    /// By a trained network.
    Network {
        /// Its name in `models/`.
        model: String,
    },
    /// By a trained network that sees what is believed after the measurements: estimate, spread and spacing.
    Believed {
        /// Its name in `models/`.
        model: String,
    },
}

/// How points are chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Acquisition {
    /// How utilities are computed.
    pub(crate) utility: UtilityMethod,
    /// Which cells' uncertainty counts.
    pub(crate) risk: RiskRule,
    /// How redundancy inside a batch is avoided.
    pub(crate) batch_rule: BatchRule,
    /// When a belief is made again.
    pub(crate) refresh: BeliefRefresh,
    /// B.
    pub(crate) max_batch: usize,
    /// sigma_y in normalised units.
    pub(crate) noise_std: f64,
    /// beta_acq.
    pub(crate) score_bound: f64,
    /// Name in `models/` of the scorer network; none: the analytic utility as it is.
    pub(crate) scorer: Option<String>,
}

/// When a belief is made again; see [`gpara::BeliefCache`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BeliefRefresh {
    /// Once the spacing of the measurements has fallen to this share.
    pub(crate) spacing_ratio: f64,
    /// Once so many new measurements lie within the spacing of one of them.
    pub(crate) crowd: Option<usize>,
}

/// How the field is reconstructed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reconstruct {
    /// N trajectories of the prior (Algorithm 1, stage II).
    Trajectories {
        /// N.
        num_trajectories: usize,
        /// Which estimates are corrected.
        schedule: CorrectionSchedule,
    },
    /// One evaluation of a network that sees the measurements, then the graph correction.
    MeanNetwork(MeanNetwork),
    /// The Gaussian posterior in closed form.
    Gaussian,
}

impl Preset {
    /// An embedded preset.
    pub(crate) fn embedded(name: &str) -> Outcome<Self> {
        let (_, text) = EMBEDDED_PRESETS.iter().find(|(known, _)| *known == name).ok_or_else(|| {
            let known: Vec<&str> = EMBEDDED_PRESETS.iter().map(|(name, _)| *name).collect();
            Failure::input(
                format!("preset `{name}` is not known, there are {}", known.join(", ")),
                "`gpara demo radio --preset gaussian` needs no weights",
            )
        })?;
        Self::parse(name, text)
    }

    /// The embedded preset of that name for a task: `NAME-TASK` where there is one, else `NAME`.
    pub(crate) fn for_task(name: &str, task: &str) -> Outcome<Self> {
        let special = format!("{name}-{task}");
        let known = EMBEDDED_PRESETS.iter().any(|(known, _)| *known == special);
        Self::embedded(if known { &special } else { name })
    }

    /// Names of the networks it uses.
    pub(crate) fn model_names(&self) -> Vec<&str> {
        let prior = match &self.prior {
            Prior::Network { model, .. } => Some(model.as_str()),
            Prior::Gaussian { .. } => None,
        };
        let mean = self.mean_network().map(|network| network.model.as_str());
        let graph = match &self.graph {
            Graph::Network { model } | Graph::Believed { model } => Some(model.as_str()),
            _ => None,
        };
        prior
            .into_iter()
            .chain(mean)
            .chain(self.spread_name())
            .chain(graph)
            .chain(self.acquisition.scorer.as_deref())
            .collect()
    }

    /// Name of the spread network.
    pub(crate) fn spread_name(&self) -> Option<&str> {
        self.mean_network().and_then(|network| network.spread.as_ref()).map(|spread| spread.model.as_str())
    }

    /// The network that gives the mean, if one does.
    pub(crate) fn mean_network(&self) -> Option<&MeanNetwork> {
        match &self.reconstruct {
            Reconstruct::MeanNetwork(network) => Some(network),
            Reconstruct::Trajectories { .. } | Reconstruct::Gaussian => None,
        }
    }

    /// Whether a belief is made: the spread weighs the acquisition, or describes the scene to the graph.
    pub(crate) fn believes(&self) -> bool {
        self.acquisition.risk == RiskRule::PredictedSpread || matches!(self.graph, Graph::Believed { .. })
    }

    /// SHA-256 of each network it uses.
    pub(crate) fn model_hashes(&self) -> Outcome<Vec<String>> {
        self.model_names().iter().map(|name| Ok(sha256_hex(EmbeddedModel::named(name)?.onnx))).collect()
    }

    /// Every setting as a dotted key and its value, in the order of the keys.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let table: toml::Table = toml::from_str(&self.text).expect("the preset was parsed from this text");
        let mut pairs = Vec::new();
        flatten("", &table, &mut pairs);
        pairs
    }

    /// The preset with other values for some keys; a table with another `kind` replaces the whole table.
    pub(crate) fn replaced(&self, replacement: &toml::Table) -> Outcome<Self> {
        if replacement.is_empty() {
            return Ok(self.clone());
        }
        let mut table: toml::Table = toml::from_str(&self.text).expect("the preset was parsed from this text");
        merge(&mut table, replacement);
        Self::parse(&self.name, &toml::to_string(&table).expect("a table is TOML"))
    }

    /// A preset from TOML text.
    pub(crate) fn parse(name: &str, text: &str) -> Outcome<Self> {
        let raw: RawPreset = parse_toml(&format!("preset `{name}`"), text)?;
        raw.check(name, text)
    }
}

/// Replaces values of `base` by those of `replacement`; tables with the same `kind` merge, others are replaced whole.
fn merge(base: &mut toml::Table, replacement: &toml::Table) {
    for (key, value) in replacement {
        match (base.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new))
                if new.get("kind").is_none_or(|kind| Some(kind) == old.get("kind")) =>
            {
                merge(old, new);
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

fn flatten(prefix: &str, table: &toml::Table, pairs: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, pairs),
            toml::Value::String(text) => pairs.push((key, text.clone())),
            other => pairs.push((key, other.to_string())),
        }
    }
}

/// Reads TOML into a type that refuses unknown keys; the message is one line with the place.
pub(crate) fn parse_toml<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Outcome<T> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        let message = error.message().lines().collect::<Vec<_>>().join(" ");
        Failure::input(format!("{what}, line {line}: {message}"), "the files in configs/ show every key")
    })
}

#[cfg(test)]
mod tests {
    use gpara::{MeanSolver, ProbeKind, RiskSettings, ValueRange};

    use super::*;

    #[test]
    fn embedded_presets_parse() {
        for (name, _) in EMBEDDED_PRESETS {
            Preset::embedded(name).unwrap();
        }
    }

    #[test]
    fn paper_preset_holds_the_papers_numbers() {
        let preset = Preset::embedded("paper").unwrap();
        assert!(
            matches!(&preset.prior, Prior::Network { ensemble_size: 4, num_steps: 5, refresh_at, .. } if refresh_at.is_empty())
        );
        assert_eq!((preset.residual_precision, preset.graph_coupling), (0.0625, 0.8));
        let solver = MeanSolver::Jacobi { iterations: 24 };
        assert_eq!(preset.correction, Correction { solver, strength: 1.4, range: Some(ValueRange::UNIT) });
        let probing = UtilityMethod::Probing {
            kind: ProbeKind::Rademacher,
            num_probes: 16,
            max_iterations: 24,
            rel_tolerance: 1e-5,
        };
        assert_eq!(preset.acquisition.utility, probing);
        assert_eq!(preset.acquisition.batch_rule, BatchRule::PaperKappa);
        assert_eq!((preset.acquisition.max_batch, preset.acquisition.noise_std), (8, 1e-4));
        assert_eq!(preset.acquisition.risk, RiskRule::EnsembleSpread(RiskSettings::default()));
        let schedule = CorrectionSchedule::StepWise;
        assert_eq!(preset.reconstruct, Reconstruct::Trajectories { num_trajectories: 4, schedule });
    }

    #[test]
    fn every_solver_and_utility_method_has_its_keys() {
        let (_, text) = EMBEDDED_PRESETS[2];
        let with = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            Preset::parse("changed", &text.replacen(from, to, 1)).unwrap()
        };
        let solver = "solver = { kind = \"exact\" }";
        let (max_iterations, rel_tolerance) = (200, 1e-6);
        for (keys, expected) in [
            ("kind = \"chebyshev\", iterations = 40", MeanSolver::Chebyshev { iterations: 40 }),
            (
                "kind = \"multigrid\", max_iterations = 200, rel_tolerance = 1e-6",
                MeanSolver::Multigrid { max_iterations, rel_tolerance },
            ),
            (
                "kind = \"pcg\", max_iterations = 200, rel_tolerance = 1e-6",
                MeanSolver::Pcg { max_iterations, rel_tolerance },
            ),
        ] {
            assert_eq!(with(solver, &format!("solver = {{ {keys} }}")).correction.solver, expected);
        }
        let tiled = with("utility = { kind = \"exact\" }", "utility = { kind = \"tiled\", core = 64, halo = 16 }");
        assert_eq!(tiled.acquisition.utility, UtilityMethod::Tiled { core: 64, halo: 16 });
        let keys =
            "kind = \"probing\", num_probes = 2, max_iterations = 200, rel_tolerance = 1e-6, coloured_spacing = 24";
        let coloured = text.replacen("utility = { kind = \"exact\" }", &format!("utility = {{ {keys} }}"), 1).replacen(
            "exact_sequential",
            "paper_kappa",
            1,
        );
        let kind = ProbeKind::Coloured { spacing: 24 };
        let expected = UtilityMethod::Probing { kind, num_probes: 2, max_iterations, rel_tolerance };
        assert_eq!(Preset::parse("changed", &coloured).unwrap().acquisition.utility, expected);
    }

    #[test]
    fn bad_presets_are_refused_with_key_value_and_hint() {
        let (_, text) = EMBEDDED_PRESETS[2];
        for (from, to, named) in [
            ("mean = -0.4", "mean = inf", "prior.mean = inf"),
            ("graph_coupling = ", "graph_coupling = -", "graph.graph_coupling = -"),
            ("strength = 1.0", "strength = nan", "correction.strength = NaN"),
            ("max_batch = 8", "max_batch = 0", "acquisition.max_batch = 0"),
            ("max_batch = 8", "max_batches = 8", "unknown field `max_batches`"),
            ("kind = \"uniform\"", "kind = \"round\"", "unknown variant `round`"),
        ] {
            assert!(text.contains(from), "{from}");
            let failure = Preset::parse("changed", &text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(failure.contains(named) && failure.contains("hint: "), "{failure}");
        }
    }

    #[test]
    fn replacements_merge_into_the_preset_and_change_nothing_else() {
        let base = Preset::embedded("gaussian").unwrap();
        let changed = base.replaced(&toml::from_str("graph.residual_precision = 0.5").unwrap()).unwrap();
        assert_eq!(changed.residual_precision, 0.5);
        assert_eq!((changed.graph_coupling, &changed.reconstruct), (base.graph_coupling, &base.reconstruct));
        let failure = base.replaced(&toml::from_str("graph.tau = 0.5").unwrap()).unwrap_err();
        assert!(failure.to_string().contains("tau"), "{failure}");
    }

    #[test]
    fn learned_parts_and_the_task_are_all_that_the_presets_of_the_paper_differ_in() {
        let paper = Preset::embedded("paper").unwrap();
        let changed = |text: &str| paper.replaced(&toml::from_str(text).unwrap()).unwrap();
        let same = |name: &str, expected: &Preset| {
            let found = Preset::embedded(name).unwrap();
            let Preset { name: known, text, .. } = expected;
            assert_eq!(Preset { name: known.clone(), text: text.clone(), ..found }, *expected, "{name}");
        };
        let graph = |task: &str, coupling: f64| {
            format!(
                "graph = {{ kind = \"network\", model = \"{task}-paper-graph\", residual_precision = 0.0625, \
                 graph_coupling = {coupling:?} }}\nacquisition.scorer = \"{task}-paper-scorer\"\nacquisition.score_bound = 2.0\n"
            )
        };
        // What the paper sets otherwise on depth: rho, lambda, K and sigma_y.
        let depth = "prior.model = \"depth-paper-prior\"\ncorrection.strength = 1.0\nacquisition.noise_std = 2e-3\n\
                     acquisition.utility.num_probes = 4\n";
        same("paper-learned", &changed(&graph("radio", 0.8)));
        same("paper-depth", &changed(&format!("graph.graph_coupling = 1.0\n{depth}")));
        same("paper-learned-depth", &changed(&format!("{}{depth}", graph("depth", 1.0))));
        let name = |task| Preset::for_task("paper-learned", task).unwrap().name;
        assert_eq!((name("radio"), name("depth")), ("paper-learned".into(), "paper-learned-depth".into()));
    }

    #[test]
    fn crowds_are_watched_where_a_preset_says_so_and_a_crowd_of_one_is_refused() {
        let base = Preset::embedded("best-depth").unwrap();
        let with = |crowd: usize| {
            let risk = format!("{{ kind = \"predicted_spread\", spacing_ratio = 0.8, crowd = {crowd} }}");
            base.replaced(&toml::from_str(&format!("acquisition.risk = {risk}")).unwrap())
        };
        assert_eq!(with(6).unwrap().acquisition.refresh, BeliefRefresh { spacing_ratio: 0.8, crowd: Some(6) });
        let error = with(1).unwrap_err().to_string();
        assert!(error.contains("acquisition.risk.crowd = 1"), "{error}");
    }

    #[test]
    fn shorter_reach_is_of_a_second_order_graph_and_a_positive_number() {
        let depth = Preset::embedded("best-depth").unwrap();
        let with = |base: &Preset, value: &str| {
            let changed = format!("reconstruct.uneven_kappa_squared = {value}");
            base.replaced(&toml::from_str(&changed).unwrap()).map_err(|failure| failure.to_string())
        };
        assert_ne!(with(&depth, "0.2").unwrap().reconstruct, depth.reconstruct);
        for (base, value, named) in [
            (&depth, "0.0", "reconstruct.uneven_kappa_squared = 0"),
            (&depth, "nan", "reconstruct.uneven_kappa_squared = NaN"),
            (&Preset::embedded("best").unwrap(), "0.1", "left out where graph.kappa_squared is"),
        ] {
            let error = with(base, value).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn bad_numbers_of_density_and_noise_are_refused_by_their_keys() {
        let depth = Preset::embedded("best-depth").unwrap();
        let with = |changed: &str| depth.replaced(&toml::from_str(changed).unwrap()).map_err(|error| error.to_string());
        let dense = |network_share: &str, guide_scale: &str| {
            with(&format!(
                "reconstruct.dense = {{ above = 9, network_share = {network_share}, guide_scale = {guide_scale} }}"
            ))
        };
        let found = dense("0.5", "0.2").unwrap().mean_network().unwrap().settings.dense;
        assert_eq!(found, Some(gpara::DenseSettings { above: 9, network_share: 0.5, guide_scale: 0.2 }));
        let gain = |value: &str| with(&format!("reconstruct.std.noise_gain = {value}"));
        assert_eq!(gain("0.7").unwrap().mean_network().unwrap().spread.as_ref().unwrap().noise_gain, 0.7);
        for (refused, named) in [
            (dense("0.0", "0.2"), "reconstruct.dense.network_share = 0"),
            (dense("1.1", "0.2"), "reconstruct.dense.network_share = 1.1"),
            (dense("0.5", "nan"), "reconstruct.dense.guide_scale = NaN"),
            (gain("-0.1"), "reconstruct.std.noise_gain = -0.1"),
            (with("reconstruct.network_share = 1.5"), "reconstruct.network_share = 1.5"),
            (
                with(
                    "graph = { kind = \"uniform\", residual_precision = 1.0, graph_coupling = 1.0, kappa_squared = 1e-3 }",
                ),
                "reconstruct.dense = a table",
            ),
        ] {
            let error = refused.unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn task_takes_its_own_preset_where_there_is_one() {
        let name = |preset, task| Preset::for_task(preset, task).unwrap().name;
        assert_eq!(name("gaussian", "depth"), "gaussian-depth");
        assert_eq!(name("gaussian", "radio"), "gaussian");
        assert_eq!((name("paper", "depth"), name("paper", "radio")), ("paper-depth".into(), "paper".into()));
        assert_eq!(Preset::embedded("best-depth").unwrap().model_names(), ["depth-best-mean", "depth-best-spread"]);
    }

    #[test]
    fn graph_and_scorer_networks_are_named_by_the_preset() {
        let (_, text) = EMBEDDED_PRESETS[0];
        let text = text.replace("kind = \"uniform\"", "kind = \"network\"\nmodel = \"my-graph\"");
        let text = text.replace("score_bound = 0.0", "score_bound = 2.0\nscorer = \"my-scorer\"");
        let preset = Preset::parse("mine", &text).unwrap();
        assert_eq!(preset.model_names(), ["radio-paper-prior", "my-graph", "my-scorer"]);
        assert_eq!(preset.graph, Graph::Network { model: "my-graph".into() });
        let refused = |from: &str, to: &str| Preset::parse("mine", &text.replace(from, to)).unwrap_err().to_string();
        assert!(refused("model = \"my-graph\"", "").contains("graph.kind = Network"));
        assert!(refused("score_bound = 2.0", "score_bound = 0.0").contains("acquisition.score_bound"));
        let uniform = refused("kind = \"network\"\nmodel = \"my-graph\"", "kind = \"uniform\"\nmodel = \"my-graph\"");
        assert!(uniform.contains("graph.kind = Uniform"), "{uniform}");
    }
}
