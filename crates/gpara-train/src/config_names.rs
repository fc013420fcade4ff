//! What a configuration chooses by name: role, output, data, counts.

use gpara::Parameterization;
use serde::{Deserialize, Serialize};

/// What a network is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A diffusion prior over all timesteps.
    Prior,
    /// The conditional mean given context and measurements: one evaluation at the last timestep, with x = 0.
    Mean,
    /// Edge logits from context, mean and spread of the prior ensemble.
    Graph,
    /// A score a candidate from the acquisition state.
    Scorer,
    /// The scale of a mean network's error in every cell: one evaluation with the mean estimate as state.
    Spread,
}

/// What the network outputs; the names are the card's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// The injected noise.
    Noise,
    /// `sqrt(alpha_bar) eps - sqrt(1 - alpha_bar) x0`.
    Velocity,
    /// The clean field.
    Clean,
    /// Logits of the four edge maps.
    EdgeLogits,
    /// A score that shifts the analytic utility within a bound.
    ResidualScore,
    /// A score that stands for itself.
    DirectScore,
    /// Logarithm of the scale of an error; see [`gpara_nn::spread_of_output`].
    LogScale,
}

impl Output {
    /// The same as the core's type; `None` for a network that does not return a field.
    pub fn parameterization(self) -> Option<Parameterization> {
        match self {
            Self::Noise => Some(Parameterization::Noise),
            Self::Velocity => Some(Parameterization::Velocity),
            Self::Clean => Some(Parameterization::Clean),
            Self::EdgeLogits | Self::ResidualScore | Self::DirectScore | Self::LogScale => None,
        }
    }
}

impl Role {
    pub(crate) fn allows(self, output: Output) -> bool {
        match self {
            Self::Prior => output.parameterization().is_some(),
            Self::Mean => output == Output::Clean,
            Self::Graph => output == Output::EdgeLogits,
            Self::Scorer => matches!(output, Output::ResidualScore | Output::DirectScore),
            Self::Spread => output == Output::LogScale,
        }
    }
}

/// Where maps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A folder in RadioMapSeer's layout, given on the command line.
    Radio,
    /// The twelve embedded squares: ten to train on, two to validate on.
    SampleCity,
    /// A folder of pictures and depth maps, given on the command line.
    Depth,
    /// The twelve embedded rooms: ten to train on, two to validate on.
    SampleRooms,
}

impl Source {
    /// The task whose contexts the networks read.
    pub fn task(self) -> &'static str {
        if self.is_depth() { "depth" } else { "radio" }
    }

    /// Whether fields are depths over pictures.
    pub(crate) fn is_depth(self) -> bool {
        matches!(self, Self::Depth | Self::SampleRooms)
    }

    /// Names of the scenes' own channels.
    pub(crate) fn channels(self) -> &'static [&'static str] {
        if self.is_depth() { &gpara_tasks::depth::CHANNELS } else { &gpara_tasks::radio::CHANNELS }
    }

    /// Size of a normalised difference of 1 in the unit of validation errors: gray/255 or metres.
    pub(crate) fn error_factor(self) -> f64 {
        if self.is_depth() { 0.5 * gpara_tasks::depth::DEPTH_RANGE_METERS } else { 0.5 }
    }
}

/// How the number of measurements of a mask is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountDraw {
    /// Every factor alike: as many masks of 8 to 16 as of 256 to 512.
    #[default]
    LogUniform,
    /// Every count alike.
    Uniform,
}

impl CountDraw {
    /// Left out of a written configuration.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
