//! The parts of a configuration that only some runs have: augmentation, conditioner, graph and scorer.

use gpara::Result;
use serde::{Deserialize, Serialize};

use crate::error::TrainError;

/// Random changes of pictures with depth, drawn for each sample of each step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugmentConfig {
    /// Share of samples mirrored left to right.
    pub flip_share: f64,
    /// Largest enlargement; a crop enlarged by z has its depth divided by z, as if the camera were nearer. Log-uniform
    /// from 1.
    pub zoom_max: f64,
    /// Largest rotation about the picture's centre, either way.
    pub rotation_degrees: f64,
    /// Largest relative change of brightness, contrast and of each colour.
    pub color_jitter: f64,
    /// Share of samples that are neither enlarged nor rotated: their edges are as sharp as those of the pictures a network is
    /// asked about, where resampled ones are blurred.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub whole_share: f64,
    /// Largest factor on the depth alone, either way, log-uniform; less where the farthest cell would leave the range.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub depth_scale_max: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn one() -> f64 {
    1.0
}

fn is_one(value: &f64) -> bool {
    *value == 1.0
}

/// The graph conditioner that graph and scorer are trained for; the values are the preset's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionerConfig {
    /// Name of the frozen prior; `NAME.safetensors` lies in the folder of the run.
    pub prior: String,
    /// L.
    pub ensemble_size: usize,
    /// Number of reverse steps.
    pub num_steps: usize,
    /// tau of Eq. 8.
    pub residual_precision: f64,
    /// lambda of Eq. 8.
    pub graph_coupling: f64,
    /// sigma_y, normalised units.
    pub noise_std: f64,
    /// Jacobi sweeps (Eq. B.26).
    pub sweeps: usize,
    /// rho_g of Eq. 13.
    pub strength: f64,
}

/// How reverse steps are drawn while the graph is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepWeighting {
    /// Every step of the grid alike. Most of the loss is then that of the first reverse step, whose estimate is worst.
    Uniform,
    /// In proportion to `sqrt(alpha_bar)`: late reverse steps, whose estimates are good, count most.
    Signal,
}

/// Training of the graph network (C.4-C.8).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphConfig {
    /// How `t` is drawn.
    pub step_weighting: StepWeighting,
    /// lambda_u, of the error over unobserved cells.
    pub unobserved_weight: f64,
    /// lambda_s, of the error at measured cells.
    pub observed_weight: f64,
    /// lambda_h, of the hinge C.6.
    pub hinge_weight: f64,
    /// lambda_a, of the affinity loss C.8.
    pub affinity_weight: f64,
    /// s_res of C.7, normalised units.
    pub residual_scale: f64,
    /// s_x of C.7, normalised units.
    pub field_scale: f64,
}

/// Training of the graph network by the likelihood of a mean network's residuals, in place of [`GraphConfig`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LikelihoodConfig {
    /// Name of the frozen mean network; `NAME.safetensors` lies in the folder of the run.
    pub mean: String,
    /// Name of the frozen spread network of that mean, likewise: residuals are divided by its scale (tau_i).
    pub spread: String,
    /// tau, up to a common factor that each residual chooses by its own likelihood.
    pub residual_precision: f64,
    /// lambda, up to the same factor.
    pub graph_coupling: f64,
    /// kappa^2 of a precision of second order; none: first order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kappa_squared: Option<f64>,
}

/// Training of the scale of a mean network's error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpreadConfig {
    /// Name of the frozen mean network; `NAME.safetensors` lies in the folder of the run.
    pub mean: String,
}

/// Training of the scorer (C.9-C.15).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScorerConfig {
    /// Name of the frozen graph network, beside the prior; none: the uniform graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// Gamma, the budget of a campaign; states have fewer measurements.
    pub budget: usize,
    /// beta_acq.
    pub score_bound: f64,
    /// lambda_m: share of the analytic utility in the teacher.
    pub anchor_share: f64,
    /// T_tau.
    pub teacher_temperature: f64,
    /// T_psi.
    pub score_temperature: f64,
    /// Channels of the trunk's output and of the message passing.
    pub hidden: i64,
    /// Graph message-passing blocks.
    pub message_blocks: usize,
    /// Weights of the losses.
    pub loss: ScorerLossConfig,
    /// On-policy states beside those drawn from `masks`; none: only the latter, as in the paper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutConfig>,
}

/// Training states that a policy itself reaches: prefixes of campaigns that are run once, before the first step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RolloutConfig {
    /// Share of training states that are on-policy; their maps are among those with a campaign.
    pub share: f64,
    /// Most training maps that have a campaign, and most validation maps.
    pub num_scenes: usize,
    /// Points between two refreshes of a campaign.
    pub batch: usize,
    /// Name of an earlier scorer whose score the campaigns follow, `NAME.safetensors` in the folder of the run; none: the
    /// analytic utility.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer: Option<String>,
}

/// lambda_J: weights of the scorer's losses (C.13-C.15).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScorerLossConfig {
    /// L_dist.
    pub distillation: f64,
    /// L_top.
    pub top: f64,
    /// L_reg.
    pub regret: f64,
    /// L_cal.
    pub calibration: f64,
    /// L_mar.
    pub margin: f64,
    /// L_anc.
    pub anchor: f64,
}

fn refuse(key: &'static str, value: impl ToString, allowed: &'static str) -> Result<()> {
    Err(TrainError::Setting { key, value: value.to_string(), allowed }.into())
}

fn positive(key: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { refuse(key, value, "a finite number above 0") }
}

fn not_negative(key: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 { Ok(()) } else { refuse(key, value, "a finite number, 0 or more") }
}

impl AugmentConfig {
    pub(crate) fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.flip_share) {
            return refuse("augmentation.flip_share", self.flip_share, "0 to 1");
        }
        if !(1.0..=4.0).contains(&self.zoom_max) {
            return refuse("augmentation.zoom_max", self.zoom_max, "1 to 4");
        }
        if !(0.0..=45.0).contains(&self.rotation_degrees) {
            return refuse("augmentation.rotation_degrees", self.rotation_degrees, "0 to 45");
        }
        if !(0.0..1.0).contains(&self.color_jitter) {
            return refuse("augmentation.color_jitter", self.color_jitter, "0 <= color_jitter < 1");
        }
        if !(0.0..=1.0).contains(&self.whole_share) {
            return refuse("augmentation.whole_share", self.whole_share, "0 to 1");
        }
        if !(1.0..=4.0).contains(&self.depth_scale_max) {
            return refuse("augmentation.depth_scale_max", self.depth_scale_max, "1 to 4");
        }
        Ok(())
    }
}

impl ConditionerConfig {
    pub(crate) fn check(&self) -> Result<()> {
        if self.ensemble_size < 2 {
            return refuse("conditioner.ensemble_size", self.ensemble_size, "at least 2, else it has no spread");
        }
        if self.num_steps == 0 || self.sweeps == 0 {
            return refuse("conditioner", format!("{self:?}"), "num_steps and sweeps at least 1");
        }
        positive("conditioner.residual_precision", self.residual_precision)?;
        not_negative("conditioner.graph_coupling", self.graph_coupling)?;
        positive("conditioner.noise_std", self.noise_std)?;
        positive("conditioner.strength", self.strength)
    }
}

impl GraphConfig {
    pub(crate) fn check(&self) -> Result<()> {
        not_negative("graph.unobserved_weight", self.unobserved_weight)?;
        not_negative("graph.observed_weight", self.observed_weight)?;
        not_negative("graph.hinge_weight", self.hinge_weight)?;
        not_negative("graph.affinity_weight", self.affinity_weight)?;
        positive("graph.residual_scale", self.residual_scale)?;
        positive("graph.field_scale", self.field_scale)
    }
}

impl LikelihoodConfig {
    pub(crate) fn check(&self) -> Result<()> {
        positive("likelihood.residual_precision", self.residual_precision)?;
        not_negative("likelihood.graph_coupling", self.graph_coupling)?;
        self.kappa_squared.iter().try_for_each(|&kappa_squared| positive("likelihood.kappa_squared", kappa_squared))
    }
}

impl ScorerConfig {
    /// Checks the table of the run of that name.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        if self.budget < 2 {
            return refuse("scorer.budget", self.budget, "at least 2");
        }
        if self.hidden < 1 || self.message_blocks == 0 {
            return refuse("scorer", format!("{self:?}"), "hidden and message_blocks at least 1");
        }
        if !(0.0..=1.0).contains(&self.anchor_share) {
            return refuse("scorer.anchor_share", self.anchor_share, "0 to 1");
        }
        positive("scorer.score_bound", self.score_bound)?;
        positive("scorer.teacher_temperature", self.teacher_temperature)?;
        positive("scorer.score_temperature", self.score_temperature)?;
        let ScorerLossConfig { distillation, top, regret, calibration, margin, anchor } = self.loss;
        let weights = [distillation, top, regret, calibration, margin, anchor];
        weights.into_iter().try_for_each(|weight| not_negative("scorer.loss", weight))?;
        self.rollout.iter().try_for_each(|rollout| rollout.check(name, self.budget))
    }
}

impl RolloutConfig {
    fn check(&self, name: &str, budget: usize) -> Result<()> {
        if !(0.0..=1.0).contains(&self.share) {
            return refuse("scorer.rollout.share", self.share, "0 to 1");
        }
        if self.num_scenes == 0 {
            return refuse("scorer.rollout.num_scenes", self.num_scenes, "at least 1");
        }
        if self.batch == 0 || self.batch > budget {
            return refuse("scorer.rollout.batch", self.batch, "1 to `scorer.budget`");
        }
        match &self.scorer {
            // Its weights change while it is trained: a resumed run would follow others.
            Some(scorer) if scorer == name => {
                refuse("scorer.rollout.scorer", scorer, "the name of another, earlier run")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpara::ErrorKind;

    use super::*;
    use crate::config::TrainConfig;

    fn smoke() -> TrainConfig {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/smoke_scorer.toml");
        TrainConfig::read(&path).unwrap()
    }

    #[test]
    fn rollout_out_of_range_is_refused_with_key_value_and_hint() {
        type Change = fn(&mut RolloutConfig);
        let cases: [(&str, &str, Change); 7] = [
            ("share", "-0.1", |rollout| rollout.share = -0.1),
            ("share", "1.5", |rollout| rollout.share = 1.5),
            ("share", "NaN", |rollout| rollout.share = f64::NAN),
            ("num_scenes", "0", |rollout| rollout.num_scenes = 0),
            ("batch", "0", |rollout| rollout.batch = 0),
            ("batch", "5000", |rollout| rollout.batch = 5000),
            ("scorer", "smoke_scorer", |rollout| rollout.scorer = Some("smoke_scorer".into())),
        ];
        for (key, value, change) in cases {
            let mut config = smoke();
            change(config.scorer.as_mut().unwrap().rollout.as_mut().expect("the smoke run has a rollout"));
            let error = config.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{key}");
            assert!(error.to_string().contains(&format!("scorer.rollout.{key} = {value} ")), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains(key)), "{key}: {:?}", error.hint());
        }
        let unknown = toml::from_str::<RolloutConfig>("share = 0.5\nnum_scenes = 2\nbatch = 8\nscenes = 3");
        assert!(unknown.unwrap_err().to_string().contains("scenes"));
    }

    #[test]
    fn run_without_rollout_writes_the_configuration_it_always_wrote() {
        let mut config = smoke();
        config.scorer.as_mut().unwrap().rollout = None;
        let text = toml::to_string(&config).unwrap();
        assert!(!text.contains("rollout"), "{text}");
        assert_ne!(config.hash(), smoke().hash());
    }
}
