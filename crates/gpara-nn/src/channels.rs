//! From a scene and its measurements to the context array a network reads.

use gpara::{Channel, Context, Observations, Result};

use crate::card::{Card, MEASURED_CHANNEL, MEASURED_VALUE_CHANNEL};
use crate::error::ModelError;
use crate::guided_field::{GUIDED_FIELD_CHANNEL, guided_field};
use crate::padding::Padding;

/// The context array `[channels, padded rows * padded cols]` in the card's order; `extra` channels, one value a node, are
/// looked up before those of the scene.
///
/// # Errors
/// `Incompatible` if the scene lacks a channel or the picture for the guided field, `ShapeMismatch` if the measurements are on another grid.
pub(crate) fn context_values(
    card: &Card,
    context: &Context,
    observations: &Observations,
    extra: &[Channel],
    padding: Padding,
) -> Result<Vec<f32>> {
    let grid = context.grid();
    if observations.grid() != grid {
        return Err(ModelError::ObservationGrid { found: observations.grid(), expected: grid }.into());
    }
    let measured: Vec<f64> = observations.iter().map(|observation| observation.value).collect();
    let scale = card.target.scale(&measured);
    let scattered = |value: &dyn Fn(f64) -> f32| {
        let mut values = vec![0.0f32; grid.num_nodes()];
        for observation in observations.iter() {
            values[observation.node] = value(observation.value);
        }
        values
    };
    let mut array = Vec::with_capacity(card.channels.len() * padding.len());
    for name in &card.channels {
        match name.as_str() {
            MEASURED_CHANNEL => padding.extend(&scattered(&|_| 1.0), &mut array),
            GUIDED_FIELD_CHANNEL => {
                let field = guided_field(context, observations)?;
                padding.extend(&field.into_iter().map(|value| value as f32).collect::<Vec<_>>(), &mut array);
            }
            MEASURED_VALUE_CHANNEL => padding.extend(&scattered(&|value| scale.forward(value) as f32), &mut array),
            name => {
                let own = extra.iter().find(|channel| channel.name == name).map(|channel| channel.values.as_slice());
                let values = own.or_else(|| context.channel(name)).ok_or_else(|| ModelError::Channel {
                    name: card.name.clone(),
                    channel: name.into(),
                    available: context.channels().iter().map(|channel| channel.name.clone()).collect(),
                })?;
                padding.extend(values, &mut array);
            }
        }
    }
    Ok(array)
}
