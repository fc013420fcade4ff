//! The channel `guided_field`: what the measurements and the picture alone say, for a network that corrects it.

use std::sync::LazyLock;

use gpara::{CoarseField, Context, Observations, Result};

use crate::error::ModelError;

/// Channel of the field interpolated from the measurements along the scene's picture; see [`guided_field`].
pub const GUIDED_FIELD_CHANNEL: &str = "guided_field";

/// Difference of luminance, of 1, that weakens an edge by 1/e.
const GUIDE_SCALE: f64 = 0.1;

/// One for all networks: training and campaigns ask for thousands of fields of one size, which share plan and arenas.
static FIELD: LazyLock<CoarseField> = LazyLock::new(|| CoarseField::new(GUIDE_SCALE).expect("the scale is above 0"));

/// The interpolated field (G.16) of a scene with a picture, normalised units, `num_nodes` values; 0 without measurements.
///
/// # Errors
/// `Incompatible` unless the scene has the channels `red`, `green` and `blue`; `ShapeMismatch` if the measurements are on another
/// grid; those of [`CoarseField::interpolate`].
pub fn guided_field(context: &Context, observations: &Observations) -> Result<Vec<f64>> {
    let guide = context.luminance().ok_or_else(|| ModelError::NoPicture {
        channel: GUIDED_FIELD_CHANNEL,
        available: context.channels().iter().map(|channel| channel.name.clone()).collect(),
    })?;
    if observations.grid() != context.grid() {
        return Err(ModelError::ObservationGrid { found: observations.grid(), expected: context.grid() }.into());
    }
    FIELD.interpolate(context.valid(), &guide, observations)
}

#[cfg(test)]
mod tests {
    use gpara::{Channel, ErrorKind, Grid, Observation, ValidMask};

    use super::*;

    #[test]
    fn scene_without_a_picture_is_refused_and_measurements_of_another_grid_are() {
        let grid = Grid::new(6, 8).unwrap();
        let error = guided_field(&Context::empty(grid), &Observations::none(grid)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        let channels = ["red", "green", "blue"].map(|name| Channel { name: name.into(), values: vec![0.2; 48] });
        let context = Context::new(ValidMask::all(grid), channels.into()).unwrap();
        let other = Observations::none(Grid::new(6, 9).unwrap());
        assert_eq!(guided_field(&context, &other).unwrap_err().kind(), ErrorKind::ShapeMismatch);
        let mut one = Observations::none(grid);
        one.add(context.valid(), &[Observation { node: 5, value: -0.7, noise_std: 1e-3 }]).unwrap();
        assert!(guided_field(&context, &one).unwrap().iter().all(|value| (value + 0.7).abs() < 1e-6));
    }
}
