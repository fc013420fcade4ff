//! Measurements that come as a field with values at the measured cells only.

use gpara::{Result, ValidMask};

use super::place::Point;
use crate::field::{Field, MaskFile};

/// The measured cells of a field: those that a mask marks, or else those that are not NaN.
///
/// A cell is a point, whatever file it came from: the same values in CSV, NPY or a 16-bit PNG give the same points.
/// Points are numbered in the order of the grid. Cells outside the valid mask are left out if there is no mask of measured
/// cells, since files often hold values there.
///
/// # Errors
/// `ShapeMismatch` if the grids differ; `NonFinite` with the cell if a measured value is missing or infinite;
/// `InvalidInput` if a cell outside the valid mask is marked as measured.
pub fn points_on_raster(field: &Field, measured: Option<&MaskFile>, valid: &ValidMask) -> Result<Vec<Point>> {
    let nodes: Vec<usize> = match measured {
        Some(mask) => {
            mask.check_inside(valid)?;
            (0..mask.marked().len()).filter(|&node| mask.marked()[node]).collect()
        }
        None => valid.nodes().filter(|&node| field.values().get(node).is_some_and(|value| !value.is_nan())).collect(),
    };
    field.check_finite_at(valid.grid(), nodes.iter().copied())?;
    let point = |(line, node): (u64, usize)| Point { line, node, value: field.values()[node], sigma: None };
    Ok((1..).zip(nodes).map(point).collect())
}
