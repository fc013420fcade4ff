//! A radio scene: buildings and one transmitter on a grid, from a mask at twice or at the same resolution.

use gpara::{Context, Grid, Result, ValidMask};

use super::context;
use super::error::RadioError;
use super::units::{INVALID_VALUE, normalized_from_gray};

/// Buildings and one transmitter on the grid of the field.
///
/// The mask the scene was made from is kept: line of sight and detours are found on its pixels, of which a cell holds
/// `1 x 1` ([`from_mask`](Self::from_mask)) or `2 x 2` ([`from_halved_mask`](Self::from_halved_mask)).
#[derive(Debug, Clone, PartialEq)]
pub struct RadioScene {
    valid: ValidMask,
    built: Vec<f32>,
    transmitter: (f64, f64),
    meters_per_cell: f64,
    pub(super) pixels: Pixels,
}

/// The mask a scene was made from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pixels {
    pub(super) grid: Grid,
    /// One flag a pixel, true = building.
    pub(super) built: Vec<bool>,
    /// Row and column of the transmitter's pixel; the antenna stands at its centre.
    pub(super) transmitter: (usize, usize),
    /// Pixels along the side of a cell, 1 or 2.
    pub(super) per_cell: usize,
}

impl RadioScene {
    /// A scene whose cells are the pixels of the mask.
    ///
    /// # Shapes
    /// * `built` - one flag a pixel of `grid`, true = building
    /// * `transmitter` - row and column of the antenna's pixel
    ///
    /// # Errors
    /// `ShapeMismatch` if `built` has another length than the grid; `InvalidInput` if the transmitter is outside the
    /// grid or in a building, or `meters_per_pixel` is not positive.
    pub fn from_mask(grid: Grid, built: Vec<bool>, transmitter: (usize, usize), meters_per_pixel: f64) -> Result<Self> {
        Self::new(Pixels { grid, built, transmitter, per_cell: 1 }, meters_per_pixel)
    }

    /// A scene at half the mask's resolution: a cell is valid if and only if all four of its pixels are outdoors.
    ///
    /// # Errors
    /// As [`from_mask`](Self::from_mask), and `InvalidInput` if a side of the grid is odd or no cell is valid.
    pub fn from_halved_mask(
        grid: Grid,
        built: Vec<bool>,
        transmitter: (usize, usize),
        meters_per_pixel: f64,
    ) -> Result<Self> {
        if !grid.rows().is_multiple_of(2) || !grid.cols().is_multiple_of(2) {
            return Err(RadioError::OddSize { grid }.into());
        }
        Self::new(Pixels { grid, built, transmitter, per_cell: 2 }, meters_per_pixel)
    }

    fn new(pixels: Pixels, meters_per_pixel: f64) -> Result<Self> {
        let Pixels { grid, transmitter: (row, col), per_cell, .. } = pixels;
        if pixels.built.len() != grid.num_nodes() {
            return Err(RadioError::MaskLength { grid, found: pixels.built.len() }.into());
        }
        if row >= grid.rows() || col >= grid.cols() {
            return Err(RadioError::TransmitterOutside { row, col, grid }.into());
        }
        if pixels.built[grid.node(row, col)] {
            return Err(RadioError::TransmitterInBuilding { row, col }.into());
        }
        if !(meters_per_pixel.is_finite() && meters_per_pixel > 0.0) {
            return Err(RadioError::MetersPerPixel { value: meters_per_pixel }.into());
        }
        let built = pixels.cell_means(|pixel| f64::from(u8::from(pixels.built[pixel])));
        let cells = pixels.cell_grid();
        let valid = ValidMask::new(cells, built.iter().map(|&share| share == 0.0).collect())?;
        // The centre of pixel p lies at (p + 1/2) / per_cell - 1/2 on the axis where cell r has its centre at r.
        let on_cells = |pixel: usize| (pixel as f64 + 0.5) / per_cell as f64 - 0.5;
        Ok(Self {
            valid,
            built,
            transmitter: (on_cells(row), on_cells(col)),
            meters_per_cell: meters_per_pixel * per_cell as f64,
            pixels,
        })
    }

    /// The grid of the field.
    pub fn grid(&self) -> Grid {
        self.valid.grid()
    }

    /// The cells of the field: those without any building.
    pub fn valid(&self) -> &ValidMask {
        &self.valid
    }

    /// Built share of each cell, 0..=1.
    pub fn built(&self) -> &[f32] {
        &self.built
    }

    /// Row and column of the transmitter in cells; the centre of cell (r, c) is at exactly (r, c).
    pub fn transmitter(&self) -> (f64, f64) {
        self.transmitter
    }

    /// Side of a cell in metres.
    pub fn meters_per_cell(&self) -> f64 {
        self.meters_per_cell
    }

    /// The context of the scene: the channels [`CHANNELS`](super::CHANNELS) in that order.
    ///
    /// Flipping or transposing the mask flips or transposes every channel bit by bit.
    pub fn context(&self) -> Context {
        context::context(self)
    }

    /// The normalised field of this scene from gray values at the mask's resolution.
    ///
    /// A valid cell gets the mean of its pixels, `2 gray / 255 - 1`; every other cell gets -1.
    ///
    /// # Shapes
    /// * `gray` - one value a pixel of the mask
    /// * returns `num_nodes` values of the scene's grid
    ///
    /// # Errors
    /// `ShapeMismatch` if `gray_grid` is not the grid of the mask or `gray` has another length.
    pub fn field_from_gray(&self, gray_grid: Grid, gray: &[u8]) -> Result<Vec<f32>> {
        if gray_grid != self.pixels.grid || gray.len() != gray_grid.num_nodes() {
            return Err(RadioError::GainSize { gain: gray_grid, buildings: self.pixels.grid }.into());
        }
        let means = self.pixels.cell_means(|pixel| f64::from(gray[pixel]));
        let normalized = means.iter().enumerate().map(|(node, &mean)| {
            if self.valid.is_valid(node) { normalized_from_gray(f64::from(mean)) as f32 } else { INVALID_VALUE }
        });
        Ok(normalized.collect())
    }
}

impl Pixels {
    /// The grid of the cells.
    pub(super) fn cell_grid(&self) -> Grid {
        Grid::new(self.grid.rows() / self.per_cell, self.grid.cols() / self.per_cell)
            .expect("a mask has at least one cell")
    }

    /// Node of the transmitter's pixel.
    pub(super) fn transmitter_node(&self) -> usize {
        self.grid.node(self.transmitter.0, self.transmitter.1)
    }

    /// Mean of a pixel quantity over each cell.
    pub(super) fn cell_means(&self, value: impl Fn(usize) -> f64) -> Vec<f32> {
        let cells = self.cell_grid();
        let mean = |cell: usize| {
            let (row, col) = cells.row_col(cell);
            if self.per_cell == 1 {
                return value(cell) as f32;
            }
            let pixel = |down: usize, right: usize| value(self.grid.node(2 * row + down, 2 * col + right));
            // Diagonal pairs first: flips and transposes of the square only swap summands, so the sum keeps its bits.
            (((pixel(0, 0) + pixel(1, 1)) + (pixel(0, 1) + pixel(1, 0))) / 4.0) as f32
        };
        (0..cells.num_nodes()).map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    use gpara::ErrorKind;

    use super::*;

    fn grid(rows: usize, cols: usize) -> Grid {
        Grid::new(rows, cols).unwrap()
    }

    #[test]
    fn halving_keeps_only_cells_whose_four_pixels_are_outdoors() {
        let mut built = vec![false; 24];
        built[3] = true; // row 0, col 3 of 4 x 6: cell (0, 1)
        let scene = RadioScene::from_halved_mask(grid(4, 6), built, (3, 0), 1.0).unwrap();
        assert_eq!(scene.grid(), grid(2, 3));
        assert_eq!(scene.valid().as_slice(), [true, false, true, true, true, true]);
        assert_eq!(scene.built(), [0.0, 0.25, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(scene.transmitter(), (1.25, -0.25));
        assert_eq!(scene.meters_per_cell(), 2.0);
    }

    #[test]
    fn field_of_halved_mask_is_the_mean_of_four_pixels_and_minus_one_where_built() {
        let mut built = vec![false; 8];
        built[2] = true;
        let scene = RadioScene::from_halved_mask(grid(2, 4), built, (0, 0), 1.0).unwrap();
        let field = scene.field_from_gray(grid(2, 4), &[255, 0, 0, 255, 255, 0, 255, 255]).unwrap();
        assert_eq!(field, [0.0, -1.0]);
        let error = scene.field_from_gray(grid(1, 4), &[0; 4]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
    }

    #[test]
    fn scene_with_bad_input_is_refused_with_its_kind() {
        struct Case {
            name: &'static str,
            result: Result<RadioScene>,
            kind: ErrorKind,
        }
        let free = || vec![false; 12];
        let cases = [
            Case {
                name: "mask length",
                result: RadioScene::from_mask(grid(3, 4), vec![false; 11], (0, 0), 1.0),
                kind: ErrorKind::ShapeMismatch,
            },
            Case {
                name: "transmitter outside",
                result: RadioScene::from_mask(grid(3, 4), free(), (3, 0), 1.0),
                kind: ErrorKind::InvalidInput,
            },
            Case {
                name: "transmitter in a building",
                result: RadioScene::from_mask(grid(3, 4), vec![true; 12], (0, 0), 1.0),
                kind: ErrorKind::InvalidInput,
            },
            Case {
                name: "odd size",
                result: RadioScene::from_halved_mask(grid(3, 4), free(), (0, 0), 1.0),
                kind: ErrorKind::InvalidInput,
            },
            Case {
                name: "metres per pixel",
                result: RadioScene::from_mask(grid(3, 4), free(), (0, 0), f64::NAN),
                kind: ErrorKind::InvalidInput,
            },
        ];
        for case in cases {
            assert_eq!(case.result.unwrap_err().kind(), case.kind, "{}", case.name);
        }
    }
}
