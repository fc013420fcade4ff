//! From a scene and its measurements to the context array a network reads.

use gpara::{Channel, Context, Observations, Result};

use crate::card::{MEASURED_CHANNEL, MEASURED_VALUE_CHANNEL};
use crate::error::ModelError;
use crate::guided_field::{GUIDED_FIELD_CHANNEL, guided_field};
use crate::target::Target;

/// What a network reads besides its state.
#[derive(Debug, Clone, Copy)]
pub struct ContextReader<'a> {
    /// Name of the network, for errors.
    pub network: &'a str,
    /// Names of its channels, in order.
    pub channels: &'a [String],
    /// The scale it works in.
    pub target: Target,
    /// Channels that are looked up before those of the scene.
    pub extra: &'a [Channel],
}

impl ContextReader<'_> {
    /// The context array.
    ///
    /// # Shapes
    /// * returns `[channels, num_nodes]`
    ///
    /// # Errors
    /// `Incompatible` if the scene lacks a channel or the picture for the guided field, `ShapeMismatch` if the measurements are
    /// on another grid.
    pub fn read(&self, context: &Context, observations: &Observations) -> Result<Vec<f32>> {
        let grid = context.grid();
        if observations.grid() != grid {
            return Err(ModelError::ObservationGrid { found: observations.grid(), expected: grid }.into());
        }
        let measured: Vec<f64> = observations.iter().map(|observation| observation.value).collect();
        let scale = self.target.scale(&measured);
        let scattered = |value: &dyn Fn(f64) -> f32| {
            let mut values = vec![0.0f32; grid.num_nodes()];
            for observation in observations.iter() {
                values[observation.node] = value(observation.value);
            }
            values
        };
        let mut array = Vec::with_capacity(self.channels.len() * grid.num_nodes());
        for name in self.channels {
            match name.as_str() {
                MEASURED_CHANNEL => array.extend(scattered(&|_| 1.0)),
                MEASURED_VALUE_CHANNEL => array.extend(scattered(&|value| scale.forward(value) as f32)),
                GUIDED_FIELD_CHANNEL => {
                    array.extend(guided_field(context, observations)?.into_iter().map(|value| value as f32));
                }
                name => {
                    let own = self.extra.iter().find(|channel| channel.name == name);
                    let values = own.map(|channel| channel.values.as_slice()).or_else(|| context.channel(name));
                    array.extend_from_slice(values.ok_or_else(|| ModelError::Channel {
                        name: self.network.into(),
                        channel: name.into(),
                        available: context.channels().iter().map(|channel| channel.name.clone()).collect(),
                    })?);
                }
            }
        }
        Ok(array)
    }
}
