//! The graph of a [`UNet`], written for fast and exact inference with operators every ONNX runtime has.

use tch::nn;

use gpara::Result;

use super::graph::{Attribute, GraphBuilder, Size, Value};
use crate::unet::{ResidualBlock, UNet};

/// Epsilon of every group normalisation (libtorch's default, which [`UNet`] uses).
const GROUP_NORM_EPSILON: f32 = 1e-5;

/// The ONNX file of a network: inputs `x`, `t`, `context`, output `output`; any batch and any grid whose sides are
/// multiples of [`UNetConfig::side_multiple`](crate::UNetConfig::side_multiple).
///
/// # Errors
/// `Incompatible` if a weight is not exactly an f16.
pub(super) fn onnx_bytes(network: &UNet) -> Result<Vec<u8>> {
    let config = &network.config;
    let mut writer = UNetWriter::new(config.groups);
    let inputs = writer.inputs(config.in_channels - 1);
    let time = writer.embedded_time("", network, &inputs.t)?;
    let output = writer.unet("", network, &inputs, &time)?;
    writer.graph.output("output", &output, &image(config.out_channels));
    Ok(writer.graph.finish("unet"))
}

/// An image of any batch and size.
pub(super) fn image(channels: i64) -> [Size; 4] {
    [Size::Any("N"), Size::Fixed(channels), Size::Any("H"), Size::Any("W")]
}

/// The inputs of every network file.
pub(super) struct Inputs {
    pub(super) x: Value,
    pub(super) t: Value,
    pub(super) context: Value,
}

pub(super) struct UNetWriter {
    pub(super) graph: GraphBuilder,
    /// `[0, groups, -1]`: batch kept, one row a group.
    group_shape: Value,
    group_ones: Value,
    group_zeros: Value,
    last_axes: Value,
}

impl UNetWriter {
    pub(super) fn new(groups: i64) -> Self {
        let mut graph = GraphBuilder::default();
        let group_shape = graph.integers("group_shape", &[0, groups, -1]);
        let group_ones = graph.floats("group_ones", &[groups], &vec![1.0; groups as usize]);
        let group_zeros = graph.floats("group_zeros", &[groups], &vec![0.0; groups as usize]);
        let last_axes = graph.integers("last_axes", &[2, 3]);
        Self { graph, group_shape, group_ones, group_zeros, last_axes }
    }

    /// `x`, `t` and a context of that many channels.
    pub(super) fn inputs(&mut self, channels: i64) -> Inputs {
        let x = self.graph.input("x", &image(1));
        let t = self.graph.input("t", &[Size::Any("N")]);
        Inputs { x, t, context: self.graph.input("context", &image(channels)) }
    }

    /// The whole network; names of its weights begin with `path`.
    pub(super) fn unet(&mut self, path: &str, network: &UNet, inputs: &Inputs, time: &Value) -> Result<Value> {
        let name = |layer: String| format!("{path}{layer}");
        let joined = self.join(&inputs.x, &inputs.context);
        let mut hidden = self.conv(&name("conv_in".into()), &joined, &network.conv_in, 1)?;
        let mut kept = Vec::new();
        for (level, down) in network.down.iter().enumerate() {
            for (block, layers) in down.blocks.iter().enumerate() {
                hidden = self.block(&name(format!("down.{level}.{block}")), &hidden, layers, time)?;
                kept.push(hidden.clone());
            }
            if let Some(downsample) = &down.downsample {
                hidden = self.conv(&name(format!("down.{level}.downsample")), &hidden, downsample, 2)?;
            }
        }
        for (block, layers) in network.middle.iter().enumerate() {
            hidden = self.block(&name(format!("middle.{block}")), &hidden, layers, time)?;
        }
        for (level, up) in network.up.iter().enumerate().rev() {
            for (block, layers) in up.blocks.iter().enumerate() {
                let joined = self.join(&hidden, &kept.pop().expect("one kept output a block"));
                hidden = self.block(&name(format!("up.{level}.{block}")), &joined, layers, time)?;
            }
            if let Some(upsample) = &up.upsample {
                hidden = self.upsampled_conv(&name(format!("up.{level}.upsample")), &hidden, upsample)?;
            }
        }
        let hidden = self.group_norm(&name("norm_out".into()), &hidden, &network.norm_out)?;
        let hidden = self.silu(&hidden);
        let output = self.conv(&name("conv_out".into()), &hidden, &network.conv_out, 1)?;
        let Some(channel) = network.config.corrected_channel else { return Ok(output) };
        let place = self.graph.integers("corrected_channel", &[channel]);
        let corrected = self.graph.call("Gather", &[&inputs.context, &place], &[Attribute::Int("axis", 1)]);
        Ok(self.graph.call("Add", &[&output, &corrected], &[]))
    }

    /// Sinusoids of `t`, sines before cosines, through two layers with SiLU after each.
    pub(super) fn embedded_time(&mut self, path: &str, network: &UNet, t: &Value) -> Result<Value> {
        let frequencies = network.config.frequencies();
        let frequencies = self.graph.floats("frequencies", &[1, frequencies.len() as i64], &frequencies);
        let axis = self.graph.integers("time_axis", &[1]);
        let column = self.graph.call("Unsqueeze", &[t, &axis], &[]);
        let angles = self.graph.call("Mul", &[&column, &frequencies], &[]);
        let sines = self.graph.call("Sin", &[&angles], &[]);
        let cosines = self.graph.call("Cos", &[&angles], &[]);
        let sinusoids = self.join(&sines, &cosines);
        let hidden = self.linear(&format!("{path}time1"), &sinusoids, &network.time1)?;
        let hidden = self.silu(&hidden);
        let hidden = self.linear(&format!("{path}time2"), &hidden, &network.time2)?;
        Ok(self.silu(&hidden))
    }

    fn block(&mut self, name: &str, x: &Value, layers: &ResidualBlock, time: &Value) -> Result<Value> {
        let hidden = self.group_norm(&format!("{name}.norm1"), x, &layers.norm1)?;
        let hidden = self.silu(&hidden);
        let hidden = self.conv(&format!("{name}.conv1"), &hidden, &layers.conv1, 1)?;
        let shift = self.linear(&format!("{name}.time"), time, &layers.time)?;
        let shift = self.graph.call("Unsqueeze", &[&shift, &self.last_axes.clone()], &[]);
        let hidden = self.graph.call("Add", &[&hidden, &shift], &[]);
        let hidden = self.group_norm(&format!("{name}.norm2"), &hidden, &layers.norm2)?;
        let hidden = self.silu(&hidden);
        let hidden = self.conv(&format!("{name}.conv2"), &hidden, &layers.conv2, 1)?;
        let skip = match &layers.skip {
            Some(skip) => self.conv(&format!("{name}.skip"), x, skip, 1)?,
            None => x.clone(),
        };
        Ok(self.graph.call("Add", &[&hidden, &skip], &[]))
    }

    /// Group normalisation as an instance normalisation of the groups, then one scale and shift a channel: `rten` has
    /// no operator for it, and makes one pass of the scale and the shift.
    fn group_norm(&mut self, name: &str, x: &Value, layer: &nn::GroupNorm) -> Result<Value> {
        let (scale, shift) = (layer.ws.as_ref().expect("affine"), layer.bs.as_ref().expect("affine"));
        let channels = [1, layer.num_channels, 1, 1];
        let scale = self.graph.weight(&format!("{name}.weight"), &scale.view(channels))?;
        let shift = self.graph.weight(&format!("{name}.bias"), &shift.view(channels))?;
        let shape = self.graph.call("Shape", &[x], &[]);
        let groups = self.graph.call("Reshape", &[x, &self.group_shape.clone()], &[]);
        let (ones, zeros) = (self.group_ones.clone(), self.group_zeros.clone());
        let epsilon = [Attribute::Float("epsilon", GROUP_NORM_EPSILON)];
        let normal = self.graph.call("InstanceNormalization", &[&groups, &ones, &zeros], &epsilon);
        let normal = self.graph.call("Reshape", &[&normal, &shape], &[]);
        let scaled = self.graph.call("Mul", &[&normal, &scale], &[]);
        Ok(self.graph.call("Add", &[&scaled, &shift], &[]))
    }

    pub(super) fn silu(&mut self, x: &Value) -> Value {
        let sigmoid = self.graph.call("Sigmoid", &[x], &[]);
        self.graph.call("Mul", &[x, &sigmoid], &[])
    }

    pub(super) fn linear(&mut self, name: &str, x: &Value, layer: &nn::Linear) -> Result<Value> {
        let weight = self.graph.weight(&format!("{name}.weight"), &layer.ws)?;
        let bias = self.graph.weight(&format!("{name}.bias"), layer.bs.as_ref().expect("linear layers have a bias"))?;
        Ok(self.graph.call("Gemm", &[x, &weight, &bias], &[Attribute::Int("transB", 1)]))
    }

    /// A convolution that pads by half its (odd) kernel.
    ///
    /// One that halves the channels or more is written as the transposed convolution with the mirrored kernel, the same
    /// sum: `rten` gathers 9 values an input channel for the first form and adds up 9 an output channel for the second.
    pub(super) fn conv(&mut self, name: &str, x: &Value, layer: &nn::Conv2D, stride: i64) -> Result<Value> {
        let size = layer.ws.size();
        let (outputs, inputs, side) = (size[0], size[1], size[3]);
        let bias = self.conv_bias(name, layer)?;
        if side > 1 && stride == 1 && 2 * outputs <= inputs {
            let mirrored = layer.ws.flip([2, 3]).transpose(0, 1);
            let weight = self.graph.weight(&format!("{name}.weight"), &mirrored)?;
            return Ok(self.convolved("ConvTranspose", x, &weight, &bias, side, side / 2, stride));
        }
        let weight = self.graph.weight(&format!("{name}.weight"), &layer.ws)?;
        Ok(self.convolved("Conv", x, &weight, &bias, side, side / 2, stride))
    }

    /// Nearest-neighbour doubling, then a 3x3 convolution, as one transposed 4x4 convolution of stride 2.
    ///
    /// An input cell reaches four output cells an axis, the two it is doubled to and one on each side. Of the taps
    /// `(a, b, c)`, the cell before sees it by `c`, the first of the two by `b + c`, the second by `a + b`, the one
    /// after by `a`: the kernel `(c, b + c, a + b, a)`, added up once, when the file is loaded. 16 multiplications an
    /// input cell instead of 36. Outside the image both forms see zeros.
    fn upsampled_conv(&mut self, name: &str, x: &Value, layer: &nn::Conv2D) -> Result<Value> {
        let weight = self.graph.weight(&format!("{name}.weight"), &layer.ws.transpose(0, 1))?;
        let bias = self.conv_bias(name, layer)?;
        let rows = self.spread_taps(&weight, 2);
        let kernel = self.spread_taps(&rows, 3);
        Ok(self.convolved("ConvTranspose", x, &kernel, &bias, 4, 1, 2))
    }

    /// `(c, b + c, a + b, a)` of the taps `(a, b, c)` along an axis.
    fn spread_taps(&mut self, kernel: &Value, axis: i64) -> Value {
        let split = [Attribute::Int("axis", axis), Attribute::Int("num_outputs", 3)];
        let [a, b, c] = self.graph.call_many("Split", &[kernel], &split);
        let first = self.graph.call("Add", &[&b, &c], &[]);
        let second = self.graph.call("Add", &[&a, &b], &[]);
        self.graph.call("Concat", &[&c, &first, &second, &a], &[Attribute::Int("axis", axis)])
    }

    fn conv_bias(&mut self, name: &str, layer: &nn::Conv2D) -> Result<Value> {
        self.graph.weight(&format!("{name}.bias"), layer.bs.as_ref().expect("convolutions have a bias"))
    }

    fn convolved(
        &mut self,
        operator: &str,
        x: &Value,
        weight: &Value,
        bias: &Value,
        side: i64,
        pad: i64,
        stride: i64,
    ) -> Value {
        let attributes = [
            Attribute::Ints("kernel_shape", &[side; 2]),
            Attribute::Ints("pads", &[pad; 4]),
            Attribute::Ints("strides", &[stride; 2]),
        ];
        self.graph.call(operator, &[x, weight, bias], &attributes)
    }

    /// Concatenation along channels.
    fn join(&mut self, first: &Value, second: &Value) -> Value {
        self.graph.call("Concat", &[first, second], &[Attribute::Int("axis", 1)])
    }
}
