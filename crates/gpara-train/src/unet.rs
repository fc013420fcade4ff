//! The network of every role: a convolutional U-Net of a noisy field, its context and the timestep.
//!
//! Submodules and their tensors are public and plainly named (`down.0.1.norm1.weight`), so that the ONNX exporter can
//! walk the same structure that [`UNet::forward`] runs.

use serde::{Deserialize, Serialize};
use tch::nn::{self, Module};
use tch::{Kind, Tensor};

use gpara::Result;

use crate::error::TrainError;

/// Largest period of the sinusoidal embedding of the timestep.
const EMBEDDING_PERIOD: f64 = 10_000.0;

/// Shape of a [`UNet`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UNetConfig {
    /// Channels of each level, finest first; between two levels the sides are halved.
    pub widths: Vec<i64>,
    /// Residual blocks a level, on the way down and on the way up.
    pub blocks: usize,
    /// Groups of every group normalisation; divides each width.
    pub groups: i64,
    /// Width of the embedded timestep, a multiple of 8. The sinusoids have a quarter of it.
    pub time_dim: i64,
    /// Dropout probability in the two coarsest levels and the middle, while training.
    pub dropout: f64,
    /// Input channels: the noisy field, then the context channels. Left out of a file: it follows from the role.
    #[serde(default)]
    pub in_channels: i64,
    /// Output channels. Left out of a file: it follows from the role.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub out_channels: i64,
    /// The context channel, counted from 0, that the output is added to. Left out of a file: it follows from the channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected_channel: Option<i64>,
}

fn one() -> i64 {
    1
}

/// One output is left out of a written configuration, so that its hash is that of one without the key.
fn is_one(value: &i64) -> bool {
    *value == 1
}

impl UNetConfig {
    /// Checks that a network of this shape exists.
    ///
    /// # Errors
    /// `InvalidInput` naming the key.
    pub fn check(&self) -> Result<()> {
        let refuse = |key: &'static str, value: String, allowed: &'static str| {
            Err(TrainError::Setting { key, value, allowed }.into())
        };
        if self.groups < 1 {
            return refuse("network.groups", self.groups.to_string(), "at least 1");
        }
        if self.widths.len() < 2 || self.widths.iter().any(|width| *width < 1 || width % self.groups != 0) {
            return refuse("network.widths", format!("{:?}", self.widths), "at least 2 multiples of network.groups");
        }
        if self.blocks == 0 {
            return refuse("network.blocks", self.blocks.to_string(), "at least 1");
        }
        if self.time_dim < 8 || self.time_dim % 8 != 0 {
            return refuse("network.time_dim", self.time_dim.to_string(), "a multiple of 8");
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return refuse("network.dropout", self.dropout.to_string(), "0 <= dropout < 1");
        }
        if self.in_channels < 2 {
            return refuse(
                "network.in_channels",
                self.in_channels.to_string(),
                "the field and at least one context channel",
            );
        }
        Ok(())
    }

    /// The grid's sides must be multiples of this: one halving between two levels.
    pub fn side_multiple(&self) -> usize {
        1 << (self.widths.len() - 1)
    }

    /// Number of sinusoids: sines, then cosines.
    pub fn sinusoid_dim(&self) -> i64 {
        self.time_dim / 4
    }

    /// The angular frequencies of the sinusoids, `sinusoid_dim / 2` of them: 10000^(-k / (sinusoid_dim / 2)).
    pub fn frequencies(&self) -> Vec<f32> {
        let half = self.sinusoid_dim() / 2;
        (0..half).map(|index| (-EMBEDDING_PERIOD.ln() * index as f64 / half as f64).exp() as f32).collect()
    }
}

/// norm1, SiLU, conv1, + time, norm2, SiLU, dropout, conv2, + skip.
#[derive(Debug)]
pub struct ResidualBlock {
    /// Normalisation of the input.
    pub norm1: nn::GroupNorm,
    /// 3x3, input to output width.
    pub conv1: nn::Conv2D,
    /// From the embedded timestep to one shift a channel.
    pub time: nn::Linear,
    /// Normalisation after the shift.
    pub norm2: nn::GroupNorm,
    /// 3x3, starts at zero: a fresh block is its skip.
    pub conv2: nn::Conv2D,
    /// 1x1, where the widths differ.
    pub skip: Option<nn::Conv2D>,
    /// Dropout probability while training.
    pub dropout: f64,
}

impl ResidualBlock {
    fn new(path: &nn::Path<'_>, input: i64, output: i64, config: &UNetConfig, dropout: f64) -> Self {
        Self {
            norm1: group_norm(&(path / "norm1"), config.groups, input),
            conv1: conv(&(path / "conv1"), input, output, 3, 1),
            time: nn::linear(path / "time", config.time_dim, output, Default::default()),
            norm2: group_norm(&(path / "norm2"), config.groups, output),
            conv2: zero_conv(&(path / "conv2"), output, output),
            skip: (input != output).then(|| conv(&(path / "skip"), input, output, 1, 1)),
            dropout,
        }
    }

    fn forward(&self, x: &Tensor, time: &Tensor, train: bool) -> Tensor {
        let hidden = self.conv1.forward(&self.norm1.forward(x).silu());
        let hidden = hidden + self.time.forward(time).unsqueeze(-1).unsqueeze(-1);
        let mut hidden = self.norm2.forward(&hidden).silu();
        if train && self.dropout > 0.0 {
            hidden = hidden.dropout(self.dropout, true);
        }
        let hidden = self.conv2.forward(&hidden);
        match &self.skip {
            Some(skip) => hidden + skip.forward(x),
            None => hidden + x,
        }
    }
}

/// One level on the way down.
#[derive(Debug)]
pub struct DownLevel {
    /// The output of each is kept for the way up.
    pub blocks: Vec<ResidualBlock>,
    /// 3x3 of stride 2; the coarsest level has none.
    pub downsample: Option<nn::Conv2D>,
}

/// One level on the way up.
#[derive(Debug)]
pub struct UpLevel {
    /// Each first appends one kept output of the same level, last kept first.
    pub blocks: Vec<ResidualBlock>,
    /// Nearest-neighbour doubling, then this 3x3; the finest level has none.
    pub upsample: Option<nn::Conv2D>,
}

/// The network; `down`, `up` are indexed by level, 0 = finest.
#[derive(Debug)]
pub struct UNet {
    /// The shape.
    pub config: UNetConfig,
    /// First layer of the embedding of the timestep.
    pub time1: nn::Linear,
    /// Second layer; SiLU follows each.
    pub time2: nn::Linear,
    /// 3x3 over the field and its context.
    pub conv_in: nn::Conv2D,
    /// Run from 0 upwards.
    pub down: Vec<DownLevel>,
    /// Two blocks at the coarsest level.
    pub middle: Vec<ResidualBlock>,
    /// Run from the last to 0.
    pub up: Vec<UpLevel>,
    /// Last normalisation; SiLU follows.
    pub norm_out: nn::GroupNorm,
    /// 3x3 to the output channels; starts at zero where the output is the answer.
    pub conv_out: nn::Conv2D,
}

impl UNet {
    /// A fresh network with its tensors registered under `path`.
    ///
    /// # Errors
    /// `InvalidInput` if the shape is not possible.
    pub fn new(path: &nn::Path<'_>, config: &UNetConfig) -> Result<Self> {
        let output = |path: &nn::Path<'_>| zero_conv(path, config.widths[0], config.out_channels);
        Self::with_output(path, config, output)
    }

    /// A fresh network whose output goes on into other layers, so that its last layer does not start at zero.
    ///
    /// # Errors
    /// `InvalidInput` if the shape is not possible.
    pub fn trunk(path: &nn::Path<'_>, config: &UNetConfig) -> Result<Self> {
        Self::with_output(path, config, |path| conv(path, config.widths[0], config.out_channels, 3, 1))
    }

    fn with_output(
        path: &nn::Path<'_>,
        config: &UNetConfig,
        output: impl FnOnce(&nn::Path<'_>) -> nn::Conv2D,
    ) -> Result<Self> {
        config.check()?;
        let widths = &config.widths;
        let num_levels = widths.len();
        let level_dropout = |level: usize| if level + 2 >= num_levels { config.dropout } else { 0.0 };

        let mut width = widths[0];
        let mut down = Vec::with_capacity(num_levels);
        for level in 0..num_levels {
            let path = path / "down" / level;
            let blocks = (0..config.blocks)
                .map(|block| {
                    let input = std::mem::replace(&mut width, widths[level]);
                    ResidualBlock::new(&(&path / block), input, width, config, level_dropout(level))
                })
                .collect();
            let downsample = (level + 1 < num_levels).then(|| conv(&(&path / "downsample"), width, width, 3, 2));
            down.push(DownLevel { blocks, downsample });
        }
        let middle = (0..2)
            .map(|block| ResidualBlock::new(&(path / "middle" / block), width, width, config, config.dropout))
            .collect();
        let mut up = Vec::with_capacity(num_levels);
        for level in (0..num_levels).rev() {
            let path = path / "up" / level;
            let blocks = (0..config.blocks)
                .map(|block| {
                    let input = std::mem::replace(&mut width, widths[level]) + widths[level];
                    ResidualBlock::new(&(&path / block), input, width, config, level_dropout(level))
                })
                .collect();
            let upsample = (level > 0).then(|| conv(&(&path / "upsample"), width, width, 3, 1));
            up.push(UpLevel { blocks, upsample });
        }
        up.reverse();
        Ok(Self {
            config: config.clone(),
            time1: nn::linear(path / "time1", config.sinusoid_dim(), config.time_dim, Default::default()),
            time2: nn::linear(path / "time2", config.time_dim, config.time_dim, Default::default()),
            conv_in: conv(&(path / "conv_in"), config.in_channels, widths[0], 3, 1),
            down,
            middle,
            up,
            norm_out: group_norm(&(path / "norm_out"), config.groups, widths[0]),
            conv_out: output(&(path / "conv_out")),
        })
    }

    /// The output field (noise, velocity or clean field, as trained).
    ///
    /// # Shapes
    /// * `x` - `[N, 1, H, W]`, H and W multiples of [`UNetConfig::side_multiple`]
    /// * `t` - `[N]` timesteps, f32
    /// * `context` - `[N, in_channels - 1, H, W]`
    /// * returns `[N, out_channels, H, W]`
    pub fn forward(&self, x: &Tensor, t: &Tensor, context: &Tensor, train: bool) -> Tensor {
        let time = self.embed(t);
        let mut hidden = self.conv_in.forward(&Tensor::cat(&[x, context], 1));
        let mut kept = Vec::new();
        for level in &self.down {
            for block in &level.blocks {
                hidden = block.forward(&hidden, &time, train);
                kept.push(hidden.shallow_clone());
            }
            if let Some(downsample) = &level.downsample {
                hidden = downsample.forward(&hidden);
            }
        }
        for block in &self.middle {
            hidden = block.forward(&hidden, &time, train);
        }
        for level in self.up.iter().rev() {
            for block in &level.blocks {
                let skip = kept.pop().expect("one kept output a block");
                hidden = block.forward(&Tensor::cat(&[hidden, skip], 1), &time, train);
            }
            if let Some(upsample) = &level.upsample {
                let size = hidden.size();
                hidden = upsample.forward(&hidden.upsample_nearest2d([size[2] * 2, size[3] * 2], None, None));
            }
        }
        let output = self.conv_out.forward(&self.norm_out.forward(&hidden).silu());
        match self.config.corrected_channel {
            Some(channel) => output + context.narrow(1, channel, 1),
            None => output,
        }
    }

    /// Sinusoids (sines, then cosines) of the timestep through two layers, SiLU after each.
    pub(crate) fn embed(&self, t: &Tensor) -> Tensor {
        let frequencies = Tensor::from_slice(&self.config.frequencies()).to_device(t.device());
        let angles = t.to_kind(Kind::Float).unsqueeze(1) * frequencies.unsqueeze(0);
        let sinusoids = Tensor::cat(&[angles.sin(), angles.cos()], 1);
        self.time2.forward(&self.time1.forward(&sinusoids).silu()).silu()
    }
}

fn group_norm(path: &nn::Path<'_>, groups: i64, width: i64) -> nn::GroupNorm {
    nn::group_norm(path, groups, width, Default::default())
}

pub(crate) fn conv(path: &nn::Path<'_>, input: i64, output: i64, side: i64, stride: i64) -> nn::Conv2D {
    let config = nn::ConvConfig { padding: side / 2, stride, ..Default::default() };
    nn::conv2d(path, input, output, side, config)
}

fn zero_conv(path: &nn::Path<'_>, input: i64, output: i64) -> nn::Conv2D {
    let zero = nn::Init::Const(0.0);
    let config = nn::ConvConfig { padding: 1, ws_init: zero, bs_init: zero, ..Default::default() };
    nn::conv2d(path, input, output, 3, config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

    pub(crate) fn small() -> UNetConfig {
        UNetConfig {
            widths: vec![8, 16, 16],
            blocks: 2,
            groups: 8,
            time_dim: 32,
            dropout: 0.1,
            in_channels: 4,
            out_channels: 1,
            corrected_channel: None,
        }
    }

    #[test]
    fn output_has_the_fields_shape_and_every_variable_a_finite_gradient() {
        tch::manual_seed(1);
        let store = nn::VarStore::new(Device::Cpu);
        let network = UNet::new(&store.root(), &small()).unwrap();
        let options = (Kind::Float, Device::Cpu);
        let (x, context) = (Tensor::randn([2, 1, 8, 12], options), Tensor::randn([2, 3, 8, 12], options));
        let t = Tensor::from_slice(&[999f32, 3.0]);
        // Zero-initialised layers would hide missing connections: move everything off its start.
        tch::no_grad(|| {
            for mut variable in store.trainable_variables() {
                let _ = variable.g_add_(&(Tensor::randn_like(&variable) * 0.1));
            }
        });
        let output = network.forward(&x, &t, &context, true);
        assert_eq!(output.size(), [2, 1, 8, 12]);
        output.square().mean(Kind::Float).backward();
        for (name, variable) in store.variables() {
            let norm = f64::try_from(variable.grad().norm()).unwrap();
            assert!(norm.is_finite() && norm > 0.0, "{name}: gradient norm {norm}");
        }
    }

    #[test]
    fn fresh_network_returns_zero() {
        let store = nn::VarStore::new(Device::Cpu);
        let network = UNet::new(&store.root(), &small()).unwrap();
        let options = (Kind::Float, Device::Cpu);
        let (x, context) = (Tensor::randn([1, 1, 8, 8], options), Tensor::randn([1, 3, 8, 8], options));
        let output = network.forward(&x, &Tensor::from_slice(&[5f32]), &context, false);
        assert_eq!(f64::try_from(output.abs().max()).unwrap(), 0.0);
    }

    #[test]
    fn fresh_correction_leaves_its_channel_as_it_is() {
        let store = nn::VarStore::new(Device::Cpu);
        let config = UNetConfig { corrected_channel: Some(1), ..small() };
        let network = UNet::new(&store.root(), &config).unwrap();
        let options = (Kind::Float, Device::Cpu);
        let (x, context) = (Tensor::randn([2, 1, 8, 8], options), Tensor::randn([2, 3, 8, 8], options));
        let output = network.forward(&x, &Tensor::from_slice(&[5f32, 8.0]), &context, false);
        assert!(output.equal(&context.narrow(1, 1, 1)));
    }

    #[test]
    fn variables_are_named_by_level_and_block() {
        let store = nn::VarStore::new(Device::Cpu);
        UNet::new(&store.root(), &small()).unwrap();
        let variables = store.variables();
        for name in ["down.0.1.norm1.weight", "down.1.0.skip.weight", "up.2.upsample.bias", "middle.1.time.weight"] {
            assert!(variables.contains_key(name), "{name} is missing");
        }
    }

    #[test]
    fn widths_that_groups_do_not_divide_are_refused() {
        let config = UNetConfig { widths: vec![8, 12], ..small() };
        assert_eq!(config.check().unwrap_err().kind(), gpara::ErrorKind::InvalidInput);
    }
}
