//! The file form of a preset, and its check.

use gpara::{
    BatchRule, Correction, CorrectionSchedule, MeanSolver, ProbeKind, RiskRule, RiskSettings, StdSource, UtilityMethod,
    ValueRange,
};
use serde::Deserialize;

use super::mean_network::RawMeanNetwork;
use super::{Acquisition, BeliefRefresh, Graph, Preset, Prior, Reconstruct};
use crate::failure::{Failure, Outcome};

/// A preset as it stands in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPreset {
    /// What the preset is, for people.
    #[serde(rename = "about")]
    _about: String,
    prior: RawPrior,
    graph: RawGraph,
    correction: RawCorrection,
    acquisition: RawAcquisition,
    reconstruct: RawReconstruct,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum RawPrior {
    Network {
        model: String,
        ensemble_size: usize,
        num_steps: usize,
        #[serde(default)]
        refresh_at: Vec<usize>,
    },
    Gaussian {
        mean: f64,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGraph {
    kind: RawGraphKind,
    /// Only of kind `guided`.
    scale: Option<f64>,
    /// Only of kinds `network` and `believed`.
    model: Option<String>,
    residual_precision: f64,
    graph_coupling: f64,
    /// Makes the precision one of second order: Q = tau I + lambda (kappa^2 I + L)^2.
    kappa_squared: Option<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawGraphKind {
    Uniform,
    EdgeAware,
    Guided,
    Network,
    Believed,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCorrection {
    solver: RawSolver,
    strength: f64,
    clip: bool,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum RawSolver {
    Jacobi { iterations: usize },
    Chebyshev { iterations: usize },
    Pcg { max_iterations: usize, rel_tolerance: f64 },
    Multigrid { max_iterations: usize, rel_tolerance: f64 },
    Exact,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAcquisition {
    utility: RawUtility,
    batch_rule: RawBatchRule,
    max_batch: usize,
    noise_std: f64,
    score_bound: f64,
    scorer: Option<String>,
    risk: RawRisk,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum RawUtility {
    Exact,
    Tiled { core: usize, halo: usize },
    Probing { num_probes: usize, max_iterations: usize, rel_tolerance: f64, coloured_spacing: Option<usize> },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawBatchRule {
    PaperKappa,
    ExactKappa,
    ExactSequential,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum RawRisk {
    Uniform {},
    /// By the spread network of the mean.
    PredictedSpread {
        /// A belief is made again once the spacing of the measurements has fallen to this share of that of the last.
        spacing_ratio: f64,
        /// And once so many of the measurements since then lie within that spacing of one of them; left out: not for that.
        #[serde(default)]
        crowd: Option<usize>,
    },
    EnsembleSpread {
        floor: f64,
        span: f64,
        variance_ratio_cap: f64,
        variance_floor: f64,
    },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum RawReconstruct {
    Trajectories { num_trajectories: usize, correct: RawSchedule },
    MeanNetwork(RawMeanNetwork),
    Gaussian {},
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawSchedule {
    StepWise,
    FinalOnly,
    PointWise,
}

impl RawPreset {
    /// The checked preset.
    ///
    /// # Errors
    /// Names the first key whose value is not allowed, the value, and what is.
    pub(super) fn check(self, name: &str, text: &str) -> Outcome<Preset> {
        let prior = self.prior.check()?;
        let graph = self.graph.coupling()?;
        positive("graph.residual_precision", self.graph.residual_precision)?;
        not_negative("graph.graph_coupling", self.graph.graph_coupling)?;
        self.graph
            .kappa_squared
            .iter()
            .try_for_each(|&kappa_squared| positive("graph.kappa_squared", kappa_squared))?;
        let solver = self.correction.solver.check()?;
        positive("correction.strength", self.correction.strength)?;
        if self.graph.kappa_squared.is_some() && matches!(solver, MeanSolver::Jacobi { .. }) {
            let allowed = "pcg or exact with graph.kappa_squared: Jacobi sweeps need not converge for a second order";
            return Err(refused("correction.solver.kind", "jacobi", allowed));
        }
        let range = self.correction.clip.then_some(ValueRange::UNIT);
        let correction = Correction { solver, strength: self.correction.strength, range };
        let acquisition = self.acquisition.check()?;
        let reconstruct = self.reconstruct.check(correction, self.graph.kappa_squared)?;
        let dense = matches!(&reconstruct, Reconstruct::MeanNetwork(network) if network.settings.dense.is_some());
        if dense && !matches!(graph, Graph::Guided { .. }) {
            let allowed = "left out unless graph.kind is `guided`: it needs a picture";
            return Err(refused("reconstruct.dense", "a table", allowed));
        }
        let gaussian = matches!(prior, Prior::Gaussian { .. });
        let by_samples = match &reconstruct {
            Reconstruct::Trajectories { .. } => true,
            Reconstruct::MeanNetwork(network) => network.settings.std == StdSource::Ensemble,
            Reconstruct::Gaussian => false,
        };
        if (gaussian && by_samples) || (!gaussian && reconstruct == Reconstruct::Gaussian) {
            return Err(refused(
                "reconstruct.kind",
                "that kind",
                "`gaussian` goes with prior.kind = \"gaussian\"; trajectories and an ensemble's std need a network",
            ));
        }
        let spread = matches!(&reconstruct, Reconstruct::MeanNetwork(network) if network.spread.is_some());
        let believes = acquisition.risk == RiskRule::PredictedSpread || matches!(graph, Graph::Believed { .. });
        if believes && !spread {
            return Err(refused(
                "reconstruct.std.kind",
                "that kind",
                "`network` with acquisition.risk.kind = \"predicted_spread\" or graph.kind = \"believed\"",
            ));
        }
        if gaussian && matches!(acquisition.risk, RiskRule::EnsembleSpread(_)) {
            return Err(refused(
                "acquisition.risk.kind",
                "ensemble_spread",
                "`uniform` or `predicted_spread` with a prior that has no ensemble",
            ));
        }
        Ok(Preset {
            name: name.to_string(),
            text: text.to_string(),
            prior,
            graph,
            residual_precision: self.graph.residual_precision,
            graph_coupling: self.graph.graph_coupling,
            kappa_squared: self.graph.kappa_squared,
            correction,
            acquisition,
            reconstruct,
        })
    }
}

impl RawGraph {
    fn coupling(&self) -> Outcome<Graph> {
        match (&self.kind, self.scale, &self.model) {
            (RawGraphKind::Uniform, None, None) => Ok(Graph::Uniform),
            (RawGraphKind::EdgeAware, None, None) => Ok(Graph::EdgeAware),
            (RawGraphKind::Guided, Some(scale), None) => {
                positive("graph.scale", scale)?;
                Ok(Graph::Guided { scale })
            }
            (RawGraphKind::Network, None, Some(model)) => Ok(Graph::Network { model: model.clone() }),
            (RawGraphKind::Believed, None, Some(model)) => Ok(Graph::Believed { model: model.clone() }),
            (kind, _, _) => Err(refused(
                "graph.kind",
                format!("{kind:?}"),
                "`guided` has `scale`, `network` and `believed` have `model`, `uniform` and `edge_aware` have neither",
            )),
        }
    }
}

impl RawReconstruct {
    fn check(self, correction: Correction, kappa_squared: Option<f64>) -> Outcome<Reconstruct> {
        Ok(match self {
            Self::Trajectories { num_trajectories, correct } => {
                at_least_one("reconstruct.num_trajectories", num_trajectories)?;
                let schedule = match correct {
                    RawSchedule::StepWise => CorrectionSchedule::StepWise,
                    RawSchedule::FinalOnly => CorrectionSchedule::FinalOnly,
                    RawSchedule::PointWise => CorrectionSchedule::PointWise,
                };
                Reconstruct::Trajectories { num_trajectories, schedule }
            }
            Self::MeanNetwork(network) => Reconstruct::MeanNetwork(network.check(correction, kappa_squared)?),
            Self::Gaussian {} => Reconstruct::Gaussian,
        })
    }
}

impl RawPrior {
    fn check(self) -> Outcome<Prior> {
        match self {
            Self::Network { model, ensemble_size, num_steps, refresh_at } => {
                if ensemble_size < 2 {
                    return Err(refused("prior.ensemble_size", ensemble_size, "at least 2, else it has no spread"));
                }
                at_least_one("prior.num_steps", num_steps)?;
                Ok(Prior::Network { model, ensemble_size, num_steps, refresh_at })
            }
            Self::Gaussian { mean } if !mean.is_finite() => Err(refused("prior.mean", mean, "a finite number")),
            Self::Gaussian { mean } => Ok(Prior::Gaussian { mean }),
        }
    }
}

impl RawSolver {
    fn check(self) -> Outcome<MeanSolver> {
        Ok(match self {
            Self::Jacobi { iterations } => {
                at_least_one("correction.solver.iterations", iterations)?;
                MeanSolver::Jacobi { iterations }
            }
            Self::Chebyshev { iterations } => {
                at_least_one("correction.solver.iterations", iterations)?;
                MeanSolver::Chebyshev { iterations }
            }
            Self::Pcg { max_iterations, rel_tolerance } => {
                check_stopping("correction.solver", max_iterations, rel_tolerance)?;
                MeanSolver::Pcg { max_iterations, rel_tolerance }
            }
            Self::Multigrid { max_iterations, rel_tolerance } => {
                check_stopping("correction.solver", max_iterations, rel_tolerance)?;
                MeanSolver::Multigrid { max_iterations, rel_tolerance }
            }
            Self::Exact => MeanSolver::Exact,
        })
    }
}

impl RawAcquisition {
    fn check(self) -> Outcome<Acquisition> {
        let utility = match self.utility {
            RawUtility::Exact => UtilityMethod::Exact,
            RawUtility::Tiled { core, halo } => {
                at_least_one("acquisition.utility.core", core)?;
                UtilityMethod::Tiled { core, halo }
            }
            RawUtility::Probing { num_probes, max_iterations, rel_tolerance, coloured_spacing } => {
                at_least_one("acquisition.utility.num_probes", num_probes)?;
                check_stopping("acquisition.utility", max_iterations, rel_tolerance)?;
                let kind = match coloured_spacing {
                    Some(spacing) => {
                        at_least_one("acquisition.utility.coloured_spacing", spacing)?;
                        ProbeKind::Coloured { spacing }
                    }
                    None => ProbeKind::Rademacher,
                };
                UtilityMethod::Probing { kind, num_probes, max_iterations, rel_tolerance }
            }
        };
        let batch_rule = match self.batch_rule {
            RawBatchRule::PaperKappa => BatchRule::PaperKappa,
            RawBatchRule::ExactKappa => BatchRule::ExactKappa,
            RawBatchRule::ExactSequential => BatchRule::ExactSequential,
        };
        let probed = matches!(utility, UtilityMethod::Probing { .. });
        if probed != (batch_rule == BatchRule::PaperKappa) {
            return Err(refused(
                "acquisition.batch_rule",
                format!("{batch_rule:?}"),
                "paper_kappa with probing, exact_kappa or exact_sequential with exact or tiled utilities",
            ));
        }
        at_least_one("acquisition.max_batch", self.max_batch)?;
        positive("acquisition.noise_std", self.noise_std)?;
        not_negative("acquisition.score_bound", self.score_bound)?;
        let (risk, refresh) = self.risk.check()?;
        if self.scorer.is_some() && self.score_bound == 0.0 {
            return Err(refused("acquisition.score_bound", 0, "above 0 with a scorer, which else has no effect"));
        }
        let Self { max_batch, noise_std, score_bound, scorer, .. } = self;
        Ok(Acquisition { utility, risk, refresh, batch_rule, max_batch, noise_std, score_bound, scorer })
    }
}

impl RawRisk {
    /// The rule, and how often a belief is made.
    fn check(self) -> Outcome<(RiskRule, BeliefRefresh)> {
        let always = BeliefRefresh { spacing_ratio: 1.0, crowd: None };
        Ok(match self {
            Self::Uniform {} => (RiskRule::Uniform, always),
            Self::PredictedSpread { spacing_ratio, crowd } => {
                if !(spacing_ratio > 0.0 && spacing_ratio <= 1.0) {
                    return Err(refused("acquisition.risk.spacing_ratio", spacing_ratio, "above 0, at most 1"));
                }
                if let Some(crowd) = crowd.filter(|&crowd| crowd < 2) {
                    return Err(refused("acquisition.risk.crowd", crowd, "at least 2, or left out"));
                }
                (RiskRule::PredictedSpread, BeliefRefresh { spacing_ratio, crowd })
            }
            Self::EnsembleSpread { floor, span, variance_ratio_cap, variance_floor } => {
                positive("acquisition.risk.floor", floor)?;
                not_negative("acquisition.risk.span", span)?;
                positive("acquisition.risk.variance_ratio_cap", variance_ratio_cap)?;
                positive("acquisition.risk.variance_floor", variance_floor)?;
                let settings = RiskSettings { risk_floor: floor, risk_span: span, variance_ratio_cap, variance_floor };
                (RiskRule::EnsembleSpread(settings), always)
            }
        })
    }
}

fn check_stopping(table: &str, max_iterations: usize, rel_tolerance: f64) -> Outcome {
    at_least_one(&format!("{table}.max_iterations"), max_iterations)?;
    positive(&format!("{table}.rel_tolerance"), rel_tolerance)
}

pub(super) fn positive(key: &str, value: f64) -> Outcome {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(refused(key, value, "a finite number > 0")) }
}

pub(super) fn not_negative(key: &str, value: f64) -> Outcome {
    if value.is_finite() && value >= 0.0 { Ok(()) } else { Err(refused(key, value, "a finite number >= 0")) }
}

fn at_least_one(key: &str, value: usize) -> Outcome {
    if value > 0 { Ok(()) } else { Err(refused(key, value, "at least 1")) }
}

pub(super) fn refused(key: &str, value: impl std::fmt::Display, allowed: &str) -> Failure {
    Failure::input(format!("{key} = {value} is not allowed: {allowed}"), "the presets in configs/ show every key")
}
