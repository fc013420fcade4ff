//! `configs/NAME.toml`: what a training run is made of. Unknown keys and values out of range are refused.

use std::path::Path;

use gpara::Result;
use gpara_nn::Target;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use crate::config_names::{CountDraw, Output, Role, Source};
use crate::config_stages::{
    AugmentConfig, ConditionerConfig, GraphConfig, LikelihoodConfig, ScorerConfig, SpreadConfig,
};
use crate::error::TrainError;
use crate::unet::UNetConfig;

/// Optimiser: Adam with decoupled weight decay, warm-up, constant rate, linear decay at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerConfig {
    /// Maps a step.
    pub batch: usize,
    /// Rate between warm-up and decay.
    pub learning_rate: f64,
    /// Decoupled weight decay a step, relative to the rate.
    #[serde(default)]
    pub weight_decay: f64,
    /// Steps of linear warm-up.
    pub warmup_steps: u64,
    /// Share of all steps in which the rate falls linearly to 0 at the end.
    pub decay_share: f64,
    /// Largest global gradient norm.
    pub clip_norm: f64,
    /// Decay of the averaged weights once warmed up.
    pub ema_decay: f64,
}

/// Length of a run: exactly one of the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetConfig {
    /// Number of steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Seconds, turned into steps once, after the first measured steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// Random measurement layouts. The four shares are of the masks that are not empty and add up to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskConfig {
    /// Share of samples without any measurement.
    pub empty_share: f64,
    /// Uniformly random cells.
    pub random_share: f64,
    /// A prefix of a farthest-point order.
    pub farthest_share: f64,
    /// Cells in a few clusters.
    pub clustered_share: f64,
    /// Random cells, more where the field is steep: like what active policies choose.
    pub gradient_share: f64,
    /// Fewest measurements of a mask that is not empty.
    pub min_count: usize,
    /// Most measurements.
    pub max_count: usize,
    /// How the count is drawn between the two.
    #[serde(default, skip_serializing_if = "CountDraw::is_default")]
    pub count: CountDraw,
}

/// Which weights a run leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Those of the validation with the least watched error.
    #[default]
    Best,
    /// Those after the last step.
    Last,
}

impl Keep {
    /// Left out of a written configuration, so that its hash is that of one without the key.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The error of one map in the loss of a mean network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapError {
    /// Mean squared error: maps with few measurements weigh most.
    #[default]
    MeanSquare,
    /// Its root, which validation averages too.
    RootMeanSquare,
}

impl MapError {
    /// Left out of a written configuration, so that its hash is that of one without the key.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A key at its default is left out of a written configuration, so that its hash is that of one without the key.
fn is_false(value: &bool) -> bool {
    !value
}

/// How often things are reported and kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// Steps between log lines; the loss is read from the device only then.
    pub log_every: u64,
    /// Steps between validations.
    pub validate_every: u64,
    /// Most validation maps.
    pub validation_maps: usize,
    /// Seconds between checkpoints.
    pub checkpoint_seconds: f64,
    /// Which weights are written.
    #[serde(default, skip_serializing_if = "Keep::is_default")]
    pub keep: Keep,
    /// Validation errors whose mean is watched for `keep = "best"`; none given: the first of the curve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Name of the files written, and of the model.
    pub name: String,
    /// What the network is for.
    pub role: Role,
    /// What it outputs.
    pub parameterization: Output,
    /// Whether the context has the channels `measured` and `measured_value`.
    pub measurements: bool,
    /// Whether the context has the channel `guided_field`, the interpolation of the measurements along the picture, and the
    /// network corrects it: its output is added to that channel (role `mean` of depth).
    #[serde(default, skip_serializing_if = "is_false")]
    pub guided_field: bool,
    /// What the loss of a network of role `mean` averages over the maps of a batch.
    #[serde(default, skip_serializing_if = "MapError::is_default")]
    pub map_error: MapError,
    /// The scale of the field that a network of role `mean` works in; the loss is of the field itself.
    #[serde(default, skip_serializing_if = "Target::is_field")]
    pub target: Target,
    /// Name of the weights a fresh run starts from, `NAME.safetensors` in the folder of the run; none: random ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Root of all randomness.
    pub seed: u64,
    /// Where maps come from.
    pub data: Source,
    /// Share of samples at the last timestep, on top of the uniform draw (role `prior`).
    #[serde(default)]
    pub last_timestep_share: f64,
    /// Shape of the network.
    pub network: UNetConfig,
    /// Optimiser.
    pub optimizer: OptimizerConfig,
    /// Length.
    pub budget: BudgetConfig,
    /// Measurement layouts; needed with `measurements = true` and for graph and scorer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masks: Option<MaskConfig>,
    /// Random changes of the maps, for depth; radio maps are turned by the symmetries of the square.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub augmentation: Option<AugmentConfig>,
    /// The conditioner; needed for scorer and graph, unless that has a table `likelihood`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditioner: Option<ConditionerConfig>,
    /// Needed for role `graph`, unless it has a table `likelihood`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphConfig>,
    /// Training of a graph by likelihood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likelihood: Option<LikelihoodConfig>,
    /// Needed for role `spread`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<SpreadConfig>,
    /// Needed for role `scorer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer: Option<ScorerConfig>,
    /// Reports.
    pub log: LogConfig,
}

impl TrainConfig {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// `Io` if it cannot be read, `InvalidInput` naming the key for anything not allowed.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| TrainError::Io {
            action: "read",
            path: path.into(),
            source,
        })?;
        let config: Self = toml::from_str(&text)
            .map_err(|error| TrainError::Config { path: path.into(), reason: error.to_string() })?;
        config.check()
    }

    /// Checks the values and fills `network.in_channels`.
    ///
    /// # Errors
    /// `InvalidInput` naming the key.
    pub fn check(mut self) -> Result<Self> {
        let refuse = |key: &'static str, value: String, allowed: &'static str| {
            Err(TrainError::Setting { key, value, allowed }.into())
        };
        let share = |value: f64| (0.0..=1.0).contains(&value);
        self.network.in_channels = 1 + self.channels().len() as i64;
        self.network.out_channels = match (self.role, &self.scorer) {
            (Role::Graph, _) => 4,
            (Role::Scorer, Some(scorer)) => scorer.hidden,
            _ => 1,
        };
        let guided = self.channels().iter().position(|channel| channel == gpara_nn::GUIDED_FIELD_CHANNEL);
        self.network.corrected_channel = guided.map(|at| at as i64);
        self.network.check()?;
        if self.name.is_empty() || !self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return refuse("name", self.name, "letters, digits and `_`");
        }
        self.check_parts()?;
        if !share(self.last_timestep_share) {
            return refuse("last_timestep_share", self.last_timestep_share.to_string(), "0 to 1");
        }
        let optimizer = &self.optimizer;
        if optimizer.batch == 0 {
            return refuse("optimizer.batch", "0".into(), "at least 1");
        }
        if !(optimizer.learning_rate > 0.0 && optimizer.learning_rate < 1.0) {
            return refuse("optimizer.learning_rate", optimizer.learning_rate.to_string(), "above 0 and below 1");
        }
        if !share(optimizer.weight_decay) {
            return refuse("optimizer.weight_decay", optimizer.weight_decay.to_string(), "0 to 1");
        }
        if !share(optimizer.decay_share) {
            return refuse("optimizer.decay_share", optimizer.decay_share.to_string(), "0 to 1");
        }
        if !(0.0..1.0).contains(&optimizer.ema_decay) {
            return refuse("optimizer.ema_decay", optimizer.ema_decay.to_string(), "0 <= ema_decay < 1");
        }
        if optimizer.clip_norm.is_nan() || optimizer.clip_norm <= 0.0 {
            return refuse("optimizer.clip_norm", optimizer.clip_norm.to_string(), "above 0");
        }
        match (self.budget.steps, self.budget.seconds) {
            (Some(steps), None) if steps > 0 => {}
            (None, Some(seconds)) if seconds > 0.0 => {}
            _ => return refuse("budget", format!("{:?}", self.budget), "either steps > 0 or seconds > 0"),
        }
        if self.log.log_every == 0 || self.log.validate_every == 0 || self.log.validation_maps == 0 {
            return refuse("log", format!("{:?}", self.log), "each number at least 1");
        }
        let conditioned = matches!(self.role, Role::Graph | Role::Scorer);
        match &self.masks {
            None if self.measurements || conditioned => {
                return refuse("masks", "nothing".into(), "needed with measurements = true, for graph and for scorer");
            }
            Some(_) if !self.measurements && !conditioned => {
                return refuse("masks", "a table".into(), "only with measurements = true, for graph or scorer");
            }
            Some(masks) => {
                let shares = [masks.random_share, masks.farthest_share, masks.clustered_share, masks.gradient_share];
                if !share(masks.empty_share) || !shares.into_iter().all(share) {
                    return refuse("masks", format!("{masks:?}"), "each share 0 to 1");
                }
                if (shares.iter().sum::<f64>() - 1.0).abs() > 1e-9 {
                    return refuse("masks", format!("{shares:?}"), "the four shares of layouts add up to 1");
                }
                if masks.min_count == 0 || masks.min_count > masks.max_count || masks.max_count > 1024 {
                    return refuse("masks", format!("{masks:?}"), "1 <= min_count <= max_count <= 1024");
                }
            }
            None => {}
        }
        Ok(self)
    }

    /// Refuses a configuration of another role, e.g. of a scorer where a prior is trained.
    ///
    /// # Errors
    /// `Incompatible` unless the role is one of `allowed`.
    pub fn require_role(&self, allowed: &[Role]) -> Result<()> {
        match allowed.contains(&self.role) {
            true => Ok(()),
            false => {
                let (name, found, expected) = (self.name.clone(), self.role, allowed[0]);
                Err(TrainError::Role { name, found, expected }.into())
            }
        }
    }

    /// Checks that role, output, scale and the optional tables go together.
    fn check_parts(&self) -> Result<()> {
        let refuse = |key: &'static str, value: String, allowed: &'static str| {
            Err(TrainError::Setting { key, value, allowed }.into())
        };
        let role = self.role;
        if !role.allows(self.parameterization) {
            let allowed = "noise, velocity or clean for role prior, clean for mean, edge_logits for graph, residual_score \
                           or direct_score for scorer, log_scale for spread";
            return refuse("parameterization", format!("{:?}", self.parameterization), allowed);
        }
        if !self.target.is_field() && (role != Role::Mean || !self.data.is_depth()) {
            return refuse("target", format!("{:?}", self.target), "field, except for role mean of depth");
        }
        if self.guided_field {
            let fits = role == Role::Mean && self.data.is_depth() && self.measurements && self.target.is_field();
            if !fits {
                return refuse(
                    "guided_field",
                    "true".into(),
                    "only for role mean of depth with measurements and target field",
                );
            }
        }
        if self.map_error != MapError::default() && role != Role::Mean {
            return refuse("map_error", format!("{:?}", self.map_error), "mean_square, except for role mean");
        }
        let conditioned = matches!(role, Role::Graph | Role::Scorer);
        if self.measurements && conditioned {
            return refuse("measurements", "true".into(), "false for graph and scorer, which read other channels");
        }
        if !self.measurements && role == Role::Spread {
            return refuse("measurements", "false".into(), "true for role spread");
        }
        for (key, there, needed) in [
            ("conditioner", self.conditioner.is_some(), conditioned && self.likelihood.is_none()),
            ("spread", self.spread.is_some(), role == Role::Spread),
            ("graph", self.graph.is_some(), role == Role::Graph && self.likelihood.is_none()),
            ("likelihood", self.likelihood.is_some(), role == Role::Graph && self.graph.is_none()),
            ("scorer", self.scorer.is_some(), role == Role::Scorer),
        ] {
            if there != needed {
                let value = if there { "a table" } else { "nothing" };
                return refuse(
                    key,
                    value.into(),
                    "conditioner for scorer and graph without likelihood; graph or likelihood for role graph, scorer for role \
                     scorer, spread for role spread",
                );
            }
        }
        if let Some(augmentation) = &self.augmentation {
            if conditioned || !self.data.is_depth() {
                return refuse("augmentation", "a table".into(), "only for prior, mean and spread of depth");
            }
            augmentation.check()?;
        }
        self.conditioner.iter().try_for_each(ConditionerConfig::check)?;
        self.graph.iter().try_for_each(GraphConfig::check)?;
        self.likelihood.iter().try_for_each(LikelihoodConfig::check)?;
        self.scorer.iter().try_for_each(|scorer| scorer.check(&self.name))
    }

    /// The context channels of the network, in order.
    pub fn channels(&self) -> Vec<String> {
        let added: &[&str] = match self.role {
            Role::Graph if self.likelihood.is_some() => &[gpara_nn::PRIOR_SPREAD_CHANNEL, gpara_nn::SPACING_CHANNEL],
            Role::Graph => &[gpara_nn::PRIOR_SPREAD_CHANNEL],
            Role::Scorer => &gpara_nn::STATE_CHANNELS,
            Role::Mean if self.guided_field => &[gpara_nn::GUIDED_FIELD_CHANNEL, "measured", "measured_value"],
            Role::Prior | Role::Mean | Role::Spread if self.measurements => &["measured", "measured_value"],
            Role::Prior | Role::Mean | Role::Spread => &[],
        };
        self.data.channels().iter().chain(added).map(|name| name.to_string()).collect()
    }

    /// SHA-256 of all values; a checkpoint continues only under the same.
    pub fn hash(&self) -> String {
        let text = toml::to_string(self).expect("a configuration is plain values");
        hex(&Sha256::digest(text.as_bytes()))
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
