//! Presets: every setting of the method that is not data, from one TOML file.

mod build;
mod raw;

use gpara::{BatchRule, MeanSolver, RiskSettings, UtilityMethod};

use crate::failure::{Failure, Outcome};

pub(crate) use build::{MethodParts, PolicyChoice};
use raw::RawPreset;

/// Name and text of each embedded preset.
pub(crate) const EMBEDDED_PRESETS: [(&str, &str); 3] = [
    ("paper", include_str!("../../../../configs/preset_paper.toml")),
    ("best", include_str!("../../../../configs/preset_best.toml")),
    ("gaussian", include_str!("../../../../configs/preset_gaussian.toml")),
];

/// The settings of a run, checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Preset {
    /// Its name, for reports.
    pub(crate) name: String,
    /// The text it was read from, for the report's hash.
    pub(crate) text: String,
    pub(crate) prior: Prior,
    pub(crate) graph: Graph,
    /// tau of Eq. 8.
    pub(crate) residual_precision: f64,
    /// lambda of Eq. 8.
    pub(crate) graph_coupling: f64,
    /// Solver of the posterior mean.
    pub(crate) solver: MeanSolver,
    /// rho of Eq. 13.
    pub(crate) correction_strength: f64,
    pub(crate) acquisition: Acquisition,
    pub(crate) reconstruct: Reconstruct,
}

/// Where the ensemble comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prior {
    pub(crate) source: PriorSource,
    /// L.
    pub(crate) ensemble_size: usize,
    /// Number of reverse steps.
    pub(crate) num_steps: usize,
    /// Numbers of measurements at which a prior that sees them is drawn again.
    pub(crate) refresh_at: Vec<usize>,
}

/// The prior itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PriorSource {
    /// An embedded network.
    Network {
        /// Its name in `models/`.
        model: String,
    },
    /// A Gaussian field with independent cells.
    Gaussian {
        /// Mean in normalised units.
        mean: f64,
        /// Standard deviation in normalised units.
        std: f64,
    },
}

/// The graph that couples residuals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Graph {
    /// Every allowed edge alike.
    Uniform,
    /// Weaker across jumps of the prior's moments.
    EdgeAware,
}

/// How points are chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Acquisition {
    pub(crate) utility: UtilityMethod,
    pub(crate) batch_rule: BatchRule,
    /// B.
    pub(crate) max_batch: usize,
    /// sigma_y in normalised units.
    pub(crate) noise_std: f64,
    /// beta_acq.
    pub(crate) score_bound: f64,
    pub(crate) risk: RiskSettings,
}

/// How the field is reconstructed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reconstruct {
    /// N trajectories of the prior, corrected by the graph (Algorithm 1, stage II).
    Trajectories {
        /// N.
        num_trajectories: usize,
        /// Whether every step is corrected, or the last only.
        every_step: bool,
    },
    /// One evaluation of a network that sees the measurements, then the graph correction.
    MeanNetwork {
        /// Its name in `models/`.
        model: String,
        /// Average over the symmetries of the grid.
        symmetries: bool,
    },
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

    /// A preset from TOML text.
    pub(crate) fn parse(name: &str, text: &str) -> Outcome<Self> {
        let raw: RawPreset = parse_toml(&format!("preset `{name}`"), text)?;
        raw.check(name, text)
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
        assert_eq!((preset.prior.ensemble_size, preset.prior.num_steps), (4, 5));
        assert_eq!((preset.residual_precision, preset.graph_coupling), (0.0625, 0.8));
        assert_eq!(preset.solver, MeanSolver::Jacobi { iterations: 24 });
        assert_eq!(preset.correction_strength, 1.4);
        let probing = UtilityMethod::Probing { num_probes: 16, max_iterations: 24, rel_tolerance: 1e-5 };
        assert_eq!(preset.acquisition.utility, probing);
        assert_eq!(preset.acquisition.batch_rule, BatchRule::PaperKappa);
        assert_eq!((preset.acquisition.max_batch, preset.acquisition.noise_std), (8, 1e-4));
        assert_eq!(preset.acquisition.risk, RiskSettings::default());
        assert_eq!(preset.reconstruct, Reconstruct::Trajectories { num_trajectories: 4, every_step: true });
    }

    #[test]
    fn bad_presets_are_refused_with_key_value_and_hint() {
        let (_, text) = EMBEDDED_PRESETS[2];
        for (from, to, named) in [
            ("ensemble_size = 4", "ensemble_size = 1", "prior.ensemble_size = 1"),
            ("num_steps = 5", "num_steps = 0", "prior.num_steps = 0"),
            ("std = 0.6", "std = -0.6", "prior.std = -0.6"),
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
}
