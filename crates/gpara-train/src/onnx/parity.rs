//! The exported graph against the network it was written from, on random inputs.

use rten::{Model, ValueView};
use tch::{Device, Tensor};

use gpara::{Result, SeedTree, Stream};

use super::error::ExportError;
use super::exported::Exported;
use crate::error::TrainError;

/// Number of random inputs compared.
const NUM_INPUTS: usize = 16;
/// Inputs a run, so that the batch dimension is exercised.
const BATCH: usize = 2;
/// Largest difference allowed, in units of the output.
const MAX_DIFFERENCE: f64 = 1e-3;

/// Inputs of one run: `batch` states, timesteps and contexts.
pub(super) struct Inputs {
    pub shape: [usize; 2],
    pub noisy: Vec<f32>,
    pub timesteps: Vec<f32>,
    pub context: Vec<f32>,
}

impl Inputs {
    fn batch(&self) -> usize {
        self.timesteps.len()
    }

    /// What libtorch makes of them, `[batch, outputs, rows * cols]`, on the CPU.
    pub(super) fn through_libtorch(&self, network: &dyn Exported) -> Result<Vec<f32>> {
        let [rows, cols] = self.shape.map(|side| side as i64);
        let (batch, device) = (self.batch() as i64, Device::Cpu);
        let tensor = |values: &[f32], channels: i64| {
            Tensor::from_slice(values).view([batch, channels, rows, cols]).to_device(device)
        };
        let time = Tensor::from_slice(&self.timesteps).to_device(device);
        let (noisy, context) = (tensor(&self.noisy, 1), tensor(&self.context, network.shape().in_channels - 1));
        let output = tch::no_grad(|| network.answer(&noisy, &time, &context));
        Ok(Vec::try_from(output.contiguous().view(-1)).map_err(TrainError::Torch)?)
    }

    /// What `rten` makes of them, same shape.
    fn through_rten(&self, model: &Model) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
        let [rows, cols] = self.shape;
        let batch = self.batch();
        let channels = self.context.len() / (batch * rows * cols);
        let inputs = vec![
            (model.node_id("x")?, ValueView::from_shape([batch, 1, rows, cols], &self.noisy)?.into()),
            (model.node_id("t")?, ValueView::from_shape([batch], &self.timesteps)?.into()),
            (model.node_id("context")?, ValueView::from_shape([batch, channels, rows, cols], &self.context)?.into()),
        ];
        let [output] = model.run_n(inputs, [model.node_id("output")?], None)?;
        let (_, values) = output.into_shape_vec::<f32, 4>()?;
        Ok(values)
    }
}

/// The largest difference over 16 random inputs: standard normal states, uniform timesteps and contexts.
///
/// # Errors
/// `Incompatible` if it is above 1e-3 or not a number, `Unsupported` if `rten` cannot run the graph.
pub(super) fn max_difference(network: &dyn Exported, onnx: &[u8]) -> Result<f64> {
    let runtime = |error: Box<dyn std::error::Error>| ExportError::Runtime { reason: error.to_string() };
    let model = Model::load(onnx.to_vec()).map_err(|error| runtime(error.into()))?;
    let multiple = network.shape().side_multiple();
    let mut stream = SeedTree::new(0).stream("export/parity");
    let mut worst = 0.0f64;
    for _ in 0..NUM_INPUTS / BATCH {
        let inputs = random_inputs(network, [4 * multiple, 6 * multiple], &mut stream);
        let expected = inputs.through_libtorch(network)?;
        let found = inputs.through_rten(&model).map_err(runtime)?;
        for (&expected, &found) in expected.iter().zip(&found) {
            let difference = f64::from(found - expected).abs();
            // `max` would drop a NaN.
            worst = if difference.is_nan() { f64::INFINITY } else { worst.max(difference) };
        }
    }
    if worst > MAX_DIFFERENCE {
        return Err(ExportError::Parity { difference: worst, allowed: MAX_DIFFERENCE }.into());
    }
    Ok(worst)
}

fn random_inputs(network: &dyn Exported, shape: [usize; 2], stream: &mut Stream) -> Inputs {
    let (num_nodes, channels) = (shape[0] * shape[1], network.shape().in_channels as usize - 1);
    Inputs {
        shape,
        noisy: (0..BATCH * num_nodes).map(|_| stream.normal() as f32).collect(),
        timesteps: (0..BATCH).map(|_| stream.index(1000) as f32).collect(),
        context: (0..BATCH * channels * num_nodes).map(|_| stream.uniform() as f32).collect(),
    }
}
