//! A depth scene: one colour picture, and which of its cells have a depth.

use gpara::{Context, Grid, Result, ValidMask};

use super::context;
use super::error::DepthError;
use super::units::normalized_from_meters;

/// A colour picture; its pixels are the cells of the field.
#[derive(Debug, Clone, PartialEq)]
pub struct DepthScene {
    grid: Grid,
    rgb: Vec<[u8; 3]>,
}

impl DepthScene {
    /// A scene from its pixels, row-major, sRGB.
    ///
    /// # Errors
    /// `ShapeMismatch` if `rgb` has another length than the grid.
    pub fn new(grid: Grid, rgb: Vec<[u8; 3]>) -> Result<Self> {
        if rgb.len() != grid.num_nodes() {
            return Err(DepthError::PictureLength { grid, found: rgb.len() }.into());
        }
        Ok(Self { grid, rgb })
    }

    /// The grid of the field.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The pixels, one a cell.
    pub fn rgb(&self) -> &[[u8; 3]] {
        &self.rgb
    }

    /// The context of the scene: the channels [`CHANNELS`](super::CHANNELS) in that order, over the cells of `valid`.
    ///
    /// # Errors
    /// `ShapeMismatch` if `valid` is on another grid.
    pub fn context(&self, valid: &ValidMask) -> Result<Context> {
        if valid.grid() != self.grid {
            return Err(DepthError::DepthSize { depth: valid.grid(), picture: self.grid }.into());
        }
        Context::new(valid.clone(), context::channels(self.grid, &self.rgb))
    }

    /// The valid cells and the normalised field of a depth map in millimetres; 0 means that a cell has no depth.
    ///
    /// # Shapes
    /// * `millimeters` - one value a cell
    /// * returns `num_nodes` values; invalid cells get -1, the value of 0 m
    ///
    /// # Errors
    /// `ShapeMismatch` if the depth map is not of the picture's size; `InvalidInput` if no cell has a depth.
    pub fn field_from_millimeters(&self, grid: Grid, millimeters: &[u16]) -> Result<(ValidMask, Vec<f32>)> {
        if grid != self.grid || millimeters.len() != grid.num_nodes() {
            return Err(DepthError::DepthSize { depth: grid, picture: self.grid }.into());
        }
        let valid = ValidMask::new(grid, millimeters.iter().map(|&depth| depth > 0).collect())?;
        let normalized = |&depth: &u16| normalized_from_meters(f64::from(depth) / 1000.0) as f32;
        Ok((valid, millimeters.iter().map(normalized).collect()))
    }
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    #[test]
    fn cells_without_depth_are_invalid_and_metres_are_normalised() {
        let grid = Grid::new(1, 4).unwrap();
        let scene = DepthScene::new(grid, vec![[0; 3]; 4]).unwrap();
        let (valid, field) = scene.field_from_millimeters(grid, &[0, 5000, 10_000, 2500]).unwrap();
        assert_eq!(valid.as_slice(), [false, true, true, true]);
        assert_eq!(field, [-1.0, 0.0, 1.0, -0.5]);
    }

    #[test]
    fn sizes_that_differ_and_a_map_without_depth_are_refused() {
        let grid = Grid::new(2, 2).unwrap();
        assert_eq!(DepthScene::new(grid, vec![[0; 3]; 3]).unwrap_err().kind(), ErrorKind::ShapeMismatch);
        let scene = DepthScene::new(grid, vec![[0; 3]; 4]).unwrap();
        let other = Grid::new(1, 4).unwrap();
        let kind = |result: Result<(ValidMask, Vec<f32>)>| result.unwrap_err().kind();
        assert_eq!(kind(scene.field_from_millimeters(other, &[1; 4])), ErrorKind::ShapeMismatch);
        assert_eq!(kind(scene.field_from_millimeters(grid, &[0; 4])), ErrorKind::InvalidInput);
        assert_eq!(scene.context(&ValidMask::all(other)).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    }
}
