//! The model card, `NAME.toml`: what a network file is, what it was trained on, and how to check it.

use std::collections::BTreeMap;

use gpara::{
    Calibration, CalibrationCurve, CalibrationPoint, MeasurementLayout, NoiseSchedule, POISSON_DISPERSION,
    Parameterization, Result,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::ModelError;
use crate::golden::GoldenCheck;
use crate::target::Target;

/// Channel that is 1 on measured cells and 0 elsewhere.
pub const MEASURED_CHANNEL: &str = "measured";

/// Channel that holds the measured value on measured cells and 0 elsewhere.
pub const MEASURED_VALUE_CHANNEL: &str = "measured_value";

/// What a network is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A diffusion prior, asked at every timestep.
    Prior,
    /// Asked once, with a zero state at the last timestep: its output is the conditional mean.
    Mean,
    /// Asked once, with the prior mean as state at timestep 0: its output are the logits of the four edge maps.
    Graph,
    /// Asked at each refresh, with the normalised utility as state; `t` is 1000 times the share of the budget left.
    Scorer,
    /// Asked once, with the estimate of a mean network as state at timestep 0: its output gives the scale of that
    /// estimate's error.
    Spread,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prior => "prior",
            Self::Mean => "mean",
            Self::Graph => "graph",
            Self::Scorer => "scorer",
            Self::Spread => "spread",
        }
    }

    /// Maps the network returns.
    pub(crate) fn num_outputs(self) -> usize {
        match self {
            Self::Graph => 4,
            Self::Prior | Self::Mean | Self::Scorer | Self::Spread => 1,
        }
    }

    fn allows(self, output: Output) -> bool {
        match self {
            Self::Prior => output.parameterization().is_some(),
            Self::Mean => output == Output::Clean,
            Self::Graph => output == Output::EdgeLogits,
            Self::Scorer => matches!(output, Output::ResidualScore | Output::DirectScore),
            Self::Spread => output == Output::LogScale,
        }
    }
}

/// What a network outputs, as a card spells it; see [`Parameterization`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// The injected noise.
    Noise,
    /// v = sqrt(alpha_bar) eps - sqrt(1 - alpha_bar) x0.
    Velocity,
    /// The clean field.
    Clean,
    /// Logits of the edges right, down, down-right and down-left.
    EdgeLogits,
    /// A score that shifts the analytic utility within a bound.
    ResidualScore,
    /// A score that stands for itself.
    DirectScore,
    /// Logarithm of the scale of an error; see [`spread_of_output`](crate::spread_of_output).
    LogScale,
}

impl Output {
    /// What the core makes a clean field of; `None` for a network that does not return a field.
    pub fn parameterization(self) -> Option<Parameterization> {
        match self {
            Self::Noise => Some(Parameterization::Noise),
            Self::Velocity => Some(Parameterization::Velocity),
            Self::Clean => Some(Parameterization::Clean),
            Self::EdgeLogits | Self::ResidualScore | Self::DirectScore | Self::LogScale => None,
        }
    }
}

/// The noise schedule a network was trained under.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// beta linear in the timestep; see [`NoiseSchedule::linear`].
    Linear {
        /// beta at timestep 0.
        first: f64,
        /// beta at the last timestep.
        last: f64,
        /// Number of timesteps.
        steps: usize,
    },
}

/// The card of one network file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The model's name, also that of its files.
    pub name: String,
    /// The task whose contexts it reads, e.g. `radio`.
    pub task: String,
    /// What it is for.
    pub role: Role,
    /// What it outputs.
    pub parameterization: Output,
    /// The scale of the field that a network of role mean works in.
    #[serde(default, skip_serializing_if = "Target::is_field")]
    pub target: Target,
    /// Whether its last two channels are `measured` and `measured_value`.
    pub sees_measurements: bool,
    /// All context channels in the order the network reads them.
    pub channels: Vec<String>,
    /// Normalised values the field may take; (low, high).
    pub value_range: [f64; 2],
    /// What a normalised value means in the user's units.
    pub units: String,
    /// Rows and columns of the grid it was trained at.
    pub grid: [usize; 2],
    /// Sides are padded to a multiple of this inside.
    pub size_multiple: usize,
    /// What it was trained on.
    pub data: String,
    /// Licence of the weights.
    pub licence: String,
    /// Root seed of the training.
    pub seed: u64,
    /// Training steps.
    pub steps: u64,
    /// Seconds of training.
    pub training_seconds: f64,
    /// What it was trained on, in words.
    pub device: String,
    /// SHA-256 of the ONNX file, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// The noise schedule.
    pub schedule: Schedule,
    /// Numbers of the last validation, by name.
    pub validation: BTreeMap<String, f64>,
    /// Factors on the predicted standard deviation, by the spacing of the measurements; only of role spread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<CardCalibration>,
    /// Output values to recompute.
    pub golden: GoldenCheck,
}

/// A [`CalibrationPoint`] as a card spells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardCalibration {
    /// The [name](gpara::Policy::name) of the policy that chose the points; those of one name make a curve, and those without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Mean distance of measured cells, in cells.
    pub spacing: f64,
    /// Mean distance to the nearest measured cell over the spacing; see [`MeasurementLayout`]. Left out, that of random points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispersion: Option<f64>,
    /// Factor on the predicted standard deviation.
    pub std_factor: f64,
    /// Half widths of the central 50, 80 and 95 % intervals, in standard deviations after that factor.
    pub interval_factors: [f64; 3],
}

impl Card {
    /// Reads a card.
    ///
    /// # Errors
    /// `InvalidInput` for anything that is no TOML card, unknown keys, or a value that is not allowed.
    pub fn parse(text: &str) -> Result<Self> {
        let card: Self = toml::from_str(text).map_err(|error| ModelError::CardText { reason: error.to_string() })?;
        card.check()?;
        Ok(card)
    }

    /// The card as TOML; [`Card::parse`] gives it back.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a card has only plain values")
    }

    /// The noise schedule it was trained under.
    pub fn noise_schedule(&self) -> NoiseSchedule {
        let Schedule::Linear { first, last, steps } = self.schedule;
        NoiseSchedule::linear(first, last, steps).expect("checked when the card was read")
    }

    /// The factors on a predicted spread; `None` if none were fitted.
    ///
    /// # Errors
    /// `InvalidInput` if the table is not allowed.
    pub fn calibration(&self) -> Result<Option<Calibration>> {
        if self.calibration.is_empty() {
            return Ok(None);
        }
        let mut curves: BTreeMap<Option<&str>, Vec<CalibrationPoint>> = BTreeMap::new();
        for &CardCalibration { ref layout, spacing, dispersion, std_factor, interval_factors } in &self.calibration {
            let at = MeasurementLayout { spacing, dispersion: dispersion.unwrap_or(POISSON_DISPERSION) };
            let point = CalibrationPoint { layout: at, std_factor, interval_factors };
            curves.entry(layout.as_deref()).or_default().push(point);
        }
        let curve = |(name, points): (Option<&str>, _)| CalibrationCurve { chosen_by: name.map(str::to_owned), points };
        Calibration::new(curves.into_iter().map(curve).collect()).map(Some)
    }

    /// Number of timesteps of the schedule.
    pub fn num_timesteps(&self) -> usize {
        let Schedule::Linear { steps, .. } = self.schedule;
        steps
    }

    /// Refuses a file that is not the one this card describes.
    ///
    /// # Errors
    /// `Incompatible` if the SHA-256 of `onnx` differs.
    pub fn check_hash(&self, onnx: &[u8]) -> Result<()> {
        let found = sha256_hex(onnx);
        if found != self.sha256 {
            return Err(ModelError::Hash { name: self.name.clone(), found, expected: self.sha256.clone() }.into());
        }
        Ok(())
    }

    /// Refuses a model of another task.
    ///
    /// # Errors
    /// `Incompatible` if the card is not for `task`.
    pub fn require_task(&self, task: &str) -> Result<()> {
        if self.task != task {
            let (name, found) = (self.name.clone(), self.task.clone());
            return Err(ModelError::Task { name, found, expected: task.into() }.into());
        }
        Ok(())
    }

    pub(crate) fn require_role(&self, role: Role) -> Result<()> {
        if self.role != role {
            let (name, found) = (self.name.clone(), self.role.name());
            return Err(ModelError::Role { name, found, expected: role.name() }.into());
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let refuse = |key, value: String, allowed| Err(ModelError::CardValue { key, value, allowed }.into());
        if self.name.is_empty() {
            return refuse("name", "\"\"".into(), "at least one character");
        }
        let Schedule::Linear { first, last, steps } = self.schedule;
        NoiseSchedule::linear(first, last, steps)?;
        let measured = [MEASURED_CHANNEL, MEASURED_VALUE_CHANNEL];
        let place = |name: &str| self.channels.iter().position(|channel| channel == name);
        let expected: [Option<usize>; 2] = match self.channels.len().checked_sub(2) {
            Some(first) if self.sees_measurements => [Some(first), Some(first + 1)],
            _ if self.sees_measurements => {
                return refuse("channels", format!("{:?}", self.channels), "ends in `measured`, `measured_value`");
            }
            _ => [None, None],
        };
        if measured.map(place) != expected {
            let allowed = "ends in `measured`, `measured_value` if sees_measurements, has neither otherwise";
            return refuse("channels", format!("{:?}", self.channels), allowed);
        }
        if (1..self.channels.len()).any(|at| self.channels[..at].contains(&self.channels[at])) {
            return refuse("channels", format!("{:?}", self.channels), "each name once");
        }
        if !self.role.allows(self.parameterization) {
            let allowed = "noise, velocity or clean for role prior, clean for mean, edge_logits for graph, residual_score \
                           or direct_score for scorer, log_scale for spread";
            return refuse("parameterization", format!("{:?}", self.parameterization), allowed);
        }
        if self.role != Role::Mean && self.target != Target::Field {
            return refuse("target", format!("{:?}", self.target), "field, except for role mean");
        }
        if self.value_range[0].partial_cmp(&self.value_range[1]) != Some(std::cmp::Ordering::Less) {
            return refuse("value_range", format!("{:?}", self.value_range), "low < high");
        }
        if self.size_multiple == 0 || self.size_multiple > 1024 {
            return refuse("size_multiple", self.size_multiple.to_string(), "1 to 1024");
        }
        if self.grid.contains(&0) {
            return refuse("grid", format!("{:?}", self.grid), "sides of at least 1");
        }
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if self.sha256.len() != 64 || !self.sha256.bytes().all(hexadecimal) {
            return refuse("sha256", self.sha256.clone(), "64 lower-case hexadecimal digits");
        }
        if self.role != Role::Spread && !self.calibration.is_empty() {
            return refuse("calibration", format!("{:?}", self.calibration), "only for role spread");
        }
        self.calibration()?;
        self.golden.check(self.num_timesteps(), self.size_multiple)
    }
}

/// SHA-256 as 64 lower-case hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
