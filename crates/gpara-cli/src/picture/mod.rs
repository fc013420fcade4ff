//! Pictures of fields: colour maps, maps with title, colour bar, units and legend, as 8-bit RGB.

mod canvas;
mod color_map;
mod map_picture;
mod overview;

pub(crate) use color_map::{ColorMap, INVALID_COLOR};
pub(crate) use map_picture::{MapPicture, Mark, MarkKind, ValueScale, tick_values};
pub(crate) use overview::overview;
