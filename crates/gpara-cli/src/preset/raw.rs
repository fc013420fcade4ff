//! The file form of a preset, and its check.

use gpara::{BatchRule, MeanSolver, RiskSettings, UtilityMethod};
use serde::Deserialize;

use super::{Acquisition, Graph, Preset, Prior, PriorSource, Reconstruct};
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
        std: f64,
        ensemble_size: usize,
        num_steps: usize,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGraph {
    kind: RawGraphKind,
    residual_precision: f64,
    graph_coupling: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawGraphKind {
    Uniform,
    EdgeAware,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCorrection {
    solver: RawSolver,
    strength: f64,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum RawSolver {
    Jacobi { iterations: usize },
    Pcg { max_iterations: usize, rel_tolerance: f64 },
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
    risk: RawRisk,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum RawUtility {
    Exact,
    Probing { num_probes: usize, max_iterations: usize, rel_tolerance: f64 },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawBatchRule {
    PaperKappa,
    ExactKappa,
    ExactSequential,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRisk {
    floor: f64,
    span: f64,
    variance_ratio_cap: f64,
    variance_floor: f64,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum RawReconstruct {
    Trajectories { num_trajectories: usize, every_step: bool },
    MeanNetwork { model: String, symmetries: bool },
    Gaussian {},
}

impl RawPreset {
    /// The checked preset.
    ///
    /// # Errors
    /// Names the first key whose value is not allowed, the value, and what is.
    pub(super) fn check(self, name: &str, text: &str) -> Outcome<Preset> {
        let prior = self.prior.check()?;
        let graph = match self.graph.kind {
            RawGraphKind::Uniform => Graph::Uniform,
            RawGraphKind::EdgeAware => Graph::EdgeAware,
        };
        positive("graph.residual_precision", self.graph.residual_precision)?;
        not_negative("graph.graph_coupling", self.graph.graph_coupling)?;
        let solver = self.correction.solver.check()?;
        positive("correction.strength", self.correction.strength)?;
        let acquisition = self.acquisition.check()?;
        let reconstruct = match self.reconstruct {
            RawReconstruct::Trajectories { num_trajectories, every_step } => {
                at_least_one("reconstruct.num_trajectories", num_trajectories)?;
                Reconstruct::Trajectories { num_trajectories, every_step }
            }
            RawReconstruct::MeanNetwork { model, symmetries } => Reconstruct::MeanNetwork { model, symmetries },
            RawReconstruct::Gaussian {} => Reconstruct::Gaussian,
        };
        if reconstruct == Reconstruct::Gaussian && !matches!(prior.source, PriorSource::Gaussian { .. }) {
            return Err(refused("reconstruct.kind", "gaussian", "with prior.kind = \"gaussian\""));
        }
        Ok(Preset {
            name: name.to_string(),
            text: text.to_string(),
            prior,
            graph,
            residual_precision: self.graph.residual_precision,
            graph_coupling: self.graph.graph_coupling,
            solver,
            correction_strength: self.correction.strength,
            acquisition,
            reconstruct,
        })
    }
}

impl RawPrior {
    fn check(self) -> Outcome<Prior> {
        let (source, ensemble_size, num_steps, refresh_at) = match self {
            Self::Network { model, ensemble_size, num_steps, refresh_at } => {
                (PriorSource::Network { model }, ensemble_size, num_steps, refresh_at)
            }
            Self::Gaussian { mean, std, ensemble_size, num_steps } => {
                if !mean.is_finite() {
                    return Err(refused("prior.mean", mean, "a finite number"));
                }
                positive("prior.std", std)?;
                (PriorSource::Gaussian { mean, std }, ensemble_size, num_steps, Vec::new())
            }
        };
        if ensemble_size < 2 {
            return Err(refused("prior.ensemble_size", ensemble_size, "at least 2, else it has no spread"));
        }
        at_least_one("prior.num_steps", num_steps)?;
        Ok(Prior { source, ensemble_size, num_steps, refresh_at })
    }
}

impl RawSolver {
    fn check(self) -> Outcome<MeanSolver> {
        Ok(match self {
            Self::Jacobi { iterations } => {
                at_least_one("correction.solver.iterations", iterations)?;
                MeanSolver::Jacobi { iterations }
            }
            Self::Pcg { max_iterations, rel_tolerance } => {
                at_least_one("correction.solver.max_iterations", max_iterations)?;
                positive("correction.solver.rel_tolerance", rel_tolerance)?;
                MeanSolver::Pcg { max_iterations, rel_tolerance }
            }
            Self::Exact => MeanSolver::Exact,
        })
    }
}

impl RawAcquisition {
    fn check(self) -> Outcome<Acquisition> {
        let utility = match self.utility {
            RawUtility::Exact => UtilityMethod::Exact,
            RawUtility::Probing { num_probes, max_iterations, rel_tolerance } => {
                at_least_one("acquisition.utility.num_probes", num_probes)?;
                at_least_one("acquisition.utility.max_iterations", max_iterations)?;
                positive("acquisition.utility.rel_tolerance", rel_tolerance)?;
                UtilityMethod::Probing { num_probes, max_iterations, rel_tolerance }
            }
        };
        let batch_rule = match self.batch_rule {
            RawBatchRule::PaperKappa => BatchRule::PaperKappa,
            RawBatchRule::ExactKappa => BatchRule::ExactKappa,
            RawBatchRule::ExactSequential => BatchRule::ExactSequential,
        };
        if (utility == UtilityMethod::Exact) == (batch_rule == BatchRule::PaperKappa) {
            return Err(refused(
                "acquisition.batch_rule",
                format!("{batch_rule:?}"),
                "paper_kappa with probing, exact_kappa or exact_sequential with exact utilities",
            ));
        }
        at_least_one("acquisition.max_batch", self.max_batch)?;
        positive("acquisition.noise_std", self.noise_std)?;
        not_negative("acquisition.score_bound", self.score_bound)?;
        let RawRisk { floor, span, variance_ratio_cap, variance_floor } = self.risk;
        positive("acquisition.risk.floor", floor)?;
        not_negative("acquisition.risk.span", span)?;
        positive("acquisition.risk.variance_ratio_cap", variance_ratio_cap)?;
        positive("acquisition.risk.variance_floor", variance_floor)?;
        Ok(Acquisition {
            utility,
            batch_rule,
            max_batch: self.max_batch,
            noise_std: self.noise_std,
            score_bound: self.score_bound,
            risk: RiskSettings { risk_floor: floor, risk_span: span, variance_ratio_cap, variance_floor },
        })
    }
}

fn positive(key: &str, value: f64) -> Outcome {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(refused(key, value, "a finite number > 0")) }
}

fn not_negative(key: &str, value: f64) -> Outcome {
    if value.is_finite() && value >= 0.0 { Ok(()) } else { Err(refused(key, value, "a finite number >= 0")) }
}

fn at_least_one(key: &str, value: usize) -> Outcome {
    if value > 0 { Ok(()) } else { Err(refused(key, value, "at least 1")) }
}

fn refused(key: &str, value: impl std::fmt::Display, allowed: &str) -> Failure {
    Failure::input(format!("{key} = {value} is not allowed: {allowed}"), "the presets in configs/ show every key")
}
