//! From a scene and its measurements to the context array a network reads.

use gpara::{Context, Observations, Result};

use crate::card::{Card, MEASURED_CHANNEL, MEASURED_VALUE_CHANNEL};
use crate::error::ModelError;
use crate::padding::Padding;

/// The context array `[channels, padded rows * padded cols]` in the card's order.
///
/// # Errors
/// `Incompatible` if the scene lacks a channel, `ShapeMismatch` if the measurements are on another grid.
pub(crate) fn context_values(
    card: &Card,
    context: &Context,
    observations: &Observations,
    padding: Padding,
) -> Result<Vec<f32>> {
    let grid = context.grid();
    if observations.grid() != grid {
        return Err(ModelError::ObservationGrid { found: observations.grid(), expected: grid }.into());
    }
    let scattered = |value: fn(f64) -> f32| {
        let mut values = vec![0.0f32; grid.num_nodes()];
        for observation in observations.iter() {
            values[observation.node] = value(observation.value);
        }
        values
    };
    let mut array = Vec::with_capacity(card.channels.len() * padding.len());
    for name in &card.channels {
        match name.as_str() {
            MEASURED_CHANNEL => padding.extend(&scattered(|_| 1.0), &mut array),
            MEASURED_VALUE_CHANNEL => padding.extend(&scattered(|value| value as f32), &mut array),
            name => {
                let values = context.channel(name).ok_or_else(|| ModelError::Channel {
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
