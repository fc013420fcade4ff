//! Fields of the grid, row by row, against the cells of 16 blocks side by side: a row of each block is a row of a matrix that
//! is transposed.

use super::dissection::Rectangle;
use super::real::LANES;
use super::simd::{self, Kernels, Simd};
use super::solution::{RightHandSide, Solution};
use crate::grid::Grid;

/// The cells of one row of one block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowOfBlock {
    first_node: usize,
    /// None where the block lacks this row.
    num_cells: usize,
}

/// Where the cells of the blocks of one batch are in a field and in the template.
#[derive(Debug)]
pub(super) struct Exchange {
    rows: Vec<[RowOfBlock; LANES]>,
    /// Columns of the template.
    cols: usize,
    /// Position of its first cell, and from one row to the next.
    first_position: usize,
    row_positions: usize,
}

impl Exchange {
    /// For blocks of at most `size` rows and columns in a template whose ring is `reach` cells wide.
    pub(super) fn new(blocks: &[Rectangle], size: (usize, usize), reach: usize, grid: Grid) -> Self {
        let row_of = |lane: usize, row: usize| match blocks.get(lane) {
            Some(Rectangle { rows, cols }) if rows.0 + row < rows.1 => {
                RowOfBlock { first_node: grid.node(rows.0 + row, cols.0), num_cells: cols.1 - cols.0 }
            }
            _ => RowOfBlock::default(),
        };
        let rows = (0..size.0).map(|row| std::array::from_fn(|lane| row_of(lane, row))).collect();
        let row_positions = size.1 + 2 * reach;
        Self { rows, cols: size.1, first_position: reach * row_positions + reach, row_positions }
    }

    /// Writes the cells of all blocks, 0 where there is none, for right-hand side `at` of `count`; whether any is not 0.
    pub(super) fn load<T: Kernels>(
        &self,
        simd: Simd,
        field: RightHandSide<'_>,
        (positions, at, count): (&mut [T], usize, usize),
    ) -> bool {
        let mut any = false;
        self.for_each_tile(|blocks, cols, vectors| {
            let mut tile = [T::ZERO; LANES * LANES];
            for (block, out) in blocks.iter().zip(tile.chunks_exact_mut(LANES)) {
                field.read(block.first_node, &mut out[..block.num_cells]);
            }
            any |= tile.iter().any(|&value| value != T::ZERO);
            let target = &mut positions[(vectors * count + at) * LANES..];
            simd::transpose(simd, (LANES, cols), &tile, LANES, target, count * LANES);
        });
        any
    }

    /// The reverse of [`load`](Self::load).
    pub(super) fn store<T: Kernels>(
        &self,
        simd: Simd,
        (positions, at, count): (&[T], usize, usize),
        field: &mut Solution<'_>,
    ) {
        self.for_each_tile(|blocks, cols, vectors| {
            let mut tile = [T::ZERO; LANES * LANES];
            let source = &positions[(vectors * count + at) * LANES..];
            simd::transpose(simd, (cols, LANES), source, count * LANES, &mut tile, LANES);
            for (block, values) in blocks.iter().zip(tile.chunks_exact(LANES)) {
                field.write(block.first_node, &values[..block.num_cells]);
            }
        });
    }

    /// Runs `work` on the next cells of a row of each block, at most [`LANES`] of them, with their number in the template and
    /// the position of the first.
    fn for_each_tile(&self, mut work: impl FnMut(&[RowOfBlock; LANES], usize, usize)) {
        for (row, blocks) in self.rows.iter().enumerate() {
            for first in (0..self.cols).step_by(LANES) {
                let cols = (self.cols - first).min(LANES);
                let tile = blocks.map(|block| RowOfBlock {
                    first_node: block.first_node + first.min(block.num_cells),
                    num_cells: block.num_cells.saturating_sub(first).min(cols),
                });
                work(&tile, cols, self.first_position + row * self.row_positions + first);
            }
        }
    }
}
