//! The regular grid a field lives on, and the mask of its valid cells.

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};

/// Size of a row-major grid of cells; node = row * cols + col, row 0 is the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    rows: usize,
    cols: usize,
}

impl Grid {
    /// A grid of `rows` x `cols` cells.
    ///
    /// # Errors
    /// `InvalidInput` if a side is zero or the number of nodes does not fit in 32 bits.
    pub fn new(rows: usize, cols: usize) -> Result<Self> {
        if rows == 0 || cols == 0 || rows.checked_mul(cols).is_none_or(|nodes| nodes > u32::MAX as usize) {
            return Err(GridError::Size { rows, cols }.into());
        }
        Ok(Self { rows, cols })
    }

    /// Number of rows.
    pub fn rows(self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(self) -> usize {
        self.cols
    }

    /// Number of cells, M in the paper.
    pub fn num_nodes(self) -> usize {
        self.rows * self.cols
    }

    /// Node index of a cell.
    ///
    /// # Panics
    /// If the cell is outside the grid.
    #[track_caller]
    pub fn node(self, row: usize, col: usize) -> usize {
        assert!(row < self.rows && col < self.cols, "cell ({row}, {col}) is outside {self}");
        row * self.cols + col
    }

    /// Row and column of a node.
    pub fn row_col(self, node: usize) -> (usize, usize) {
        (node / self.cols, node % self.cols)
    }

    /// The node at an offset of (rows, columns) from `node`, if it is inside the grid.
    pub fn neighbor(self, node: usize, offset: (isize, isize)) -> Option<usize> {
        let (row, col) = self.row_col(node);
        let row = row.checked_add_signed(offset.0).filter(|&row| row < self.rows)?;
        let col = col.checked_add_signed(offset.1).filter(|&col| col < self.cols)?;
        Some(row * self.cols + col)
    }

    /// The nodes above, left, right and below `node` that are inside the grid.
    pub fn sides(self, node: usize) -> impl Iterator<Item = usize> {
        [(-1, 0), (0, -1), (0, 1), (1, 0)].into_iter().filter_map(move |offset| self.neighbor(node, offset))
    }
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.rows, self.cols)
    }
}

/// Which cells belong to the field: V_val in the paper. Nothing is proposed, coupled or scored elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidMask {
    grid: Grid,
    valid: Vec<bool>,
    num_valid: usize,
}

impl ValidMask {
    /// A mask from one flag a node (true = valid).
    ///
    /// # Errors
    /// `ShapeMismatch` if `valid` has another length than the grid; `InvalidInput` if no cell is valid.
    pub fn new(grid: Grid, valid: Vec<bool>) -> Result<Self> {
        if valid.len() != grid.num_nodes() {
            return Err(GridError::Length { grid, found: valid.len() }.into());
        }
        let num_valid = valid.iter().filter(|&&valid| valid).count();
        if num_valid == 0 {
            return Err(GridError::NoneValid { grid }.into());
        }
        Ok(Self { grid, valid, num_valid })
    }

    /// A mask in which every cell is valid.
    pub fn all(grid: Grid) -> Self {
        Self { grid, valid: vec![true; grid.num_nodes()], num_valid: grid.num_nodes() }
    }

    /// The grid this mask belongs to.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Number of valid cells.
    pub fn num_valid(&self) -> usize {
        self.num_valid
    }

    /// Whether a node is valid.
    pub fn is_valid(&self, node: usize) -> bool {
        self.valid[node]
    }

    /// One flag a node.
    pub fn as_slice(&self) -> &[bool] {
        &self.valid
    }

    /// The valid nodes in increasing order.
    pub fn nodes(&self) -> impl Iterator<Item = usize> + '_ {
        self.valid.iter().enumerate().filter(|&(_, &valid)| valid).map(|(node, _)| node)
    }
}

#[derive(Debug, ThisError)]
enum GridError {
    #[error(
        "grid size {rows}x{cols} is not allowed: each side must be at least 1 and there must be fewer than 2^32 cells"
    )]
    Size { rows: usize, cols: usize },
    #[error("mask has {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Length { grid: Grid, found: usize },
    #[error("all {} cells of the {grid} mask are invalid, at least one must be valid", grid.num_nodes())]
    NoneValid { grid: Grid },
}

impl ErrorDetail for GridError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Size { .. } | Self::NoneValid { .. } => ErrorKind::InvalidInput,
            Self::Length { .. } => ErrorKind::ShapeMismatch,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoneValid { .. } => Some("is the mask inverted?".into()),
            Self::Size { .. } | Self::Length { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_and_row_col_are_inverse_on_a_non_square_grid() {
        let grid = Grid::new(3, 5).unwrap();
        for node in 0..grid.num_nodes() {
            let (row, col) = grid.row_col(node);
            assert_eq!(grid.node(row, col), node);
        }
    }

    #[test]
    fn neighbor_outside_the_grid_is_none() {
        let grid = Grid::new(3, 5).unwrap();
        assert_eq!(grid.neighbor(4, (0, 1)), None);
        assert_eq!(grid.neighbor(4, (1, -1)), Some(8));
        assert_eq!(grid.neighbor(0, (-1, 0)), None);
        assert_eq!(grid.sides(7).collect::<Vec<_>>(), [2, 6, 8, 12]);
        assert_eq!(grid.sides(4).collect::<Vec<_>>(), [3, 9]);
    }

    #[test]
    fn mask_without_valid_cells_is_refused() {
        let grid = Grid::new(2, 2).unwrap();
        let error = ValidMask::new(grid, vec![false; 4]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let error = ValidMask::new(grid, vec![true; 3]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
    }
}
