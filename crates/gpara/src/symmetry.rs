//! The symmetries of the grid: flips and, on a square, quarter turns; used to average a prediction over them.

use crate::context::{Channel, Context};
use crate::error::Result;
use crate::grid::{Grid, ValidMask};
use crate::observations::{Observation, Observations};

/// One symmetry: optionally swap rows with columns, then optionally mirror rows, then columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symmetry {
    /// Swap rows with columns first.
    pub transpose: bool,
    /// Mirror top and bottom.
    pub flip_rows: bool,
    /// Mirror left and right.
    pub flip_cols: bool,
}

/// Which symmetries a prediction is averaged over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SymmetrySet {
    /// The identity alone: no averaging.
    Identity,
    /// The identity and the left-right mirror, for images with gravity.
    LeftRight,
    /// All symmetries that keep the grid's shape: 8 on a square, 4 (the flips) on another rectangle.
    All,
}

impl SymmetrySet {
    /// The symmetries of this set on a grid, the identity first.
    pub fn symmetries(self, grid: Grid) -> Vec<Symmetry> {
        let flips: &[(bool, bool)] = match self {
            Self::Identity => &[(false, false)],
            Self::LeftRight => &[(false, false), (false, true)],
            Self::All => &[(false, false), (false, true), (true, false), (true, true)],
        };
        let transposes: &[bool] =
            if self == Self::All && grid.rows() == grid.cols() { &[false, true] } else { &[false] };
        let with_flips = |&transpose: &bool| {
            flips.iter().map(move |&(flip_rows, flip_cols)| Symmetry { transpose, flip_rows, flip_cols })
        };
        transposes.iter().flat_map(with_flips).collect()
    }
}

impl Symmetry {
    /// Leaves everything where it is.
    pub const IDENTITY: Self = Self { transpose: false, flip_rows: false, flip_cols: false };

    /// The grid of a transformed field.
    pub fn grid(self, grid: Grid) -> Grid {
        if self.transpose {
            Grid::new(grid.cols(), grid.rows()).expect("a grid keeps its number of cells when transposed")
        } else {
            grid
        }
    }

    /// Where the value of `node` goes, as a node of the transformed grid.
    pub fn node(self, grid: Grid, node: usize) -> usize {
        let to = self.grid(grid);
        let (row, col) = grid.row_col(node);
        let (row, col) = if self.transpose { (col, row) } else { (row, col) };
        let row = if self.flip_rows { to.rows() - 1 - row } else { row };
        let col = if self.flip_cols { to.cols() - 1 - col } else { col };
        to.node(row, col)
    }

    /// The transformed field.
    ///
    /// # Panics
    /// If `field` has another length than the grid.
    #[track_caller]
    pub fn apply<T: Copy>(self, grid: Grid, field: &[T]) -> Vec<T> {
        assert_eq!(field.len(), grid.num_nodes(), "field and grid must have the same number of cells");
        let mut out = field.to_vec();
        for (node, &value) in field.iter().enumerate() {
            out[self.node(grid, node)] = value;
        }
        out
    }

    /// Undoes [`apply`](Self::apply): `field` lies on the transformed grid, `grid` is the original one.
    ///
    /// # Panics
    /// If `field` has another length than the grid.
    #[track_caller]
    pub fn undo<T: Copy>(self, grid: Grid, field: &[T]) -> Vec<T> {
        assert_eq!(field.len(), grid.num_nodes(), "field and grid must have the same number of cells");
        (0..field.len()).map(|node| field[self.node(grid, node)]).collect()
    }

    /// The transformed scene; its channels must be scalar maps (a direction would also have to turn).
    ///
    /// # Errors
    /// None for a valid context; the checks of [`Context::new`] run again.
    pub fn context(self, context: &Context) -> Result<Context> {
        let grid = context.grid();
        let valid = ValidMask::new(self.grid(grid), self.apply(grid, context.valid().as_slice()))?;
        let transformed =
            |channel: &Channel| Channel { name: channel.name.clone(), values: self.apply(grid, &channel.values) };
        Context::new(valid, context.channels().iter().map(transformed).collect())
    }

    /// The transformed measurements.
    ///
    /// # Errors
    /// None for valid observations; the checks of [`Observations::add`] run again.
    pub fn observations(self, observations: &Observations) -> Result<Observations> {
        let grid = observations.grid();
        let to = self.grid(grid);
        let moved: Vec<Observation> =
            observations.iter().map(|entry| Observation { node: self.node(grid, entry.node), ..*entry }).collect();
        let mut out = Observations::none(to);
        // The mask was checked when the measurements were recorded.
        out.add(&ValidMask::all(to), &moved)?;
        Ok(out.with_chosen_by(observations.chosen_by()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn square_has_eight_distinct_symmetries_and_a_rectangle_four() {
        let images = |grid: Grid| {
            let field: Vec<usize> = (0..grid.num_nodes()).collect();
            let mut all: Vec<_> =
                SymmetrySet::All.symmetries(grid).iter().map(|symmetry| symmetry.apply(grid, &field)).collect();
            all.sort();
            all.dedup();
            all.len()
        };
        assert_eq!(images(Grid::new(3, 3).unwrap()), 8);
        assert_eq!(images(Grid::new(2, 3).unwrap()), 4);
    }

    #[test]
    fn transpose_then_mirror_moves_a_hand_computed_cell() {
        // Rows 2 x cols 3: cell (0, 2) goes to (2, 0) of the 3 x 2 grid, then left-right to (2, 1).
        let grid = Grid::new(2, 3).unwrap();
        let symmetry = Symmetry { transpose: true, flip_rows: false, flip_cols: true };
        assert_eq!(symmetry.node(grid, 2), 5);
    }

    #[test]
    fn prop_undo_is_the_inverse_of_apply() {
        let grid = Grid::new(3, 4).unwrap();
        let field: Vec<usize> = (0..grid.num_nodes()).collect();
        for bits in 0..8 {
            let symmetry = Symmetry { transpose: bits & 1 > 0, flip_rows: bits & 2 > 0, flip_cols: bits & 4 > 0 };
            assert_eq!(symmetry.undo(grid, &symmetry.apply(grid, &field)), field);
        }
    }

    #[test]
    fn context_and_observations_move_together() {
        let grid = Grid::new(2, 3).unwrap();
        let valid = ValidMask::new(grid, vec![true, false, true, true, true, true]).unwrap();
        let values = vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let context = Context::new(valid, vec![Channel { name: "index".into(), values }]).unwrap();
        let mut observations = Observations::none(grid);
        observations.add(context.valid(), &[Observation { node: 2, value: 2.0, noise_std: 0.1 }]).unwrap();
        for symmetry in SymmetrySet::All.symmetries(grid) {
            let moved = symmetry.context(&context).unwrap();
            let entry = *symmetry.observations(&observations).unwrap().iter().next().unwrap();
            assert_eq!(moved.channel("index").unwrap()[entry.node], 2.0);
            assert!(!moved.valid().is_valid(symmetry.node(grid, 1)));
            assert_eq!(moved.valid().num_valid(), 5);
        }
    }
}
