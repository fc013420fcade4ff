//! The channel `guided_field` of training samples: that of `gpara_nn`, so that a network is asked what it was trained on.

use gpara::{Channel, Context, Grid, Observation, Observations, Result, ValidMask};
use gpara_nn::guided_field;
use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

use crate::config::Source;
use crate::error::TrainError;

/// The guided field of one sample whose values at `nodes` are measured exactly.
///
/// # Shapes
/// * `context` - `[channels, num_nodes]` in the order of the source; `field` - `num_nodes`, and so is the result
///
/// # Errors
/// Those of [`guided_field`].
pub(crate) fn sample_field(
    source: Source,
    valid: &ValidMask,
    context: &[f32],
    field: &[f32],
    nodes: &[usize],
) -> Result<Vec<f32>> {
    let named = source.channels().iter().zip(context.chunks_exact(field.len()));
    let channels = named.map(|(name, values)| Channel { name: name.to_string(), values: values.to_vec() });
    let scene = Context::new(valid.clone(), channels.collect())?;
    let mut observations = Observations::none(valid.grid());
    let exact = |&node: &usize| Observation { node, value: f64::from(field[node]), noise_std: 0.0 };
    observations.add(valid, &nodes.iter().map(exact).collect::<Vec<_>>())?;
    Ok(guided_field(&scene, &observations)?.into_iter().map(|value| value as f32).collect())
}

/// The guided fields of a batch.
///
/// # Shapes
/// * `context` - `[B, C, H, W]`; `valid`, `clean`, `measured` - `[B, 1, H, W]`, and so is the result, on the device of `clean`
///
/// # Errors
/// Those of [`guided_field`].
pub(crate) fn batch_fields(
    source: Source,
    context: &Tensor,
    valid: &Tensor,
    clean: &Tensor,
    measured: &Tensor,
) -> Result<Tensor> {
    let size = clean.size();
    let grid = Grid::new(size[2] as usize, size[3] as usize)?;
    let flat = |tensor: &Tensor| -> Result<Vec<f32>> {
        let values = tensor.to_device(Device::Cpu).to_kind(Kind::Float).contiguous().view(-1);
        Ok(Vec::try_from(values).map_err(TrainError::Torch)?)
    };
    let num_nodes = grid.num_nodes();
    let (context, valid, field, measured) = (flat(context)?, flat(valid)?, flat(clean)?, flat(measured)?);
    let fields = context
        .par_chunks_exact(source.channels().len() * num_nodes)
        .zip(valid.par_chunks_exact(num_nodes))
        .zip(field.par_chunks_exact(num_nodes))
        .zip(measured.par_chunks_exact(num_nodes))
        .map(|(((context, valid), field), measured)| {
            let valid = ValidMask::new(grid, valid.iter().map(|&value| value > 0.5).collect())?;
            let nodes: Vec<usize> = (0..num_nodes).filter(|&node| measured[node] > 0.5).collect();
            sample_field(source, &valid, context, field, &nodes)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Tensor::from_slice(&fields.concat()).view_as(clean).to_device(clean.device()))
}
