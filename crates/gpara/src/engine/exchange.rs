//! Fields of the grid, row by row, against the cells of 16 blocks side by side: a row of each block is a row of a matrix that
//! is transposed.

use super::dissection::Rectangle;
use super::real::{LANES, padded};
use super::simd::{self, Kernels, Simd};
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

    /// Values that [`load`](Self::load) and [`store`](Self::store) work in.
    pub(super) fn room(&self) -> usize {
        LANES * padded(self.cols)
    }

    /// Writes the cells of all blocks, 0 where there is none, for right-hand side `at` of `count`; whether any is not 0.
    pub(super) fn load<T: Kernels>(
        &self,
        simd: Simd,
        field: &[f64],
        room: &mut [T],
        (positions, at, count): (&mut [T], usize, usize),
    ) -> bool {
        let len = padded(self.cols);
        let mut any = false;
        for (row, blocks) in self.rows.iter().enumerate() {
            for (block, out) in blocks.iter().zip(room.chunks_exact_mut(len)) {
                let values = &field[block.first_node..][..block.num_cells];
                any |= values.iter().any(|&value| value != 0.0);
                let (present, absent) = out[..self.cols].split_at_mut(block.num_cells);
                present.iter_mut().zip(values).for_each(|(out, value)| *out = T::from_f64(*value));
                absent.fill(T::ZERO);
            }
            let target = &mut positions[self.vectors(row, at, count)..];
            simd::transpose(simd, (LANES, self.cols), room, len, target, count * LANES);
        }
        any
    }

    /// The reverse of [`load`](Self::load).
    pub(super) fn store<T: Kernels>(
        &self,
        simd: Simd,
        (positions, at, count): (&[T], usize, usize),
        room: &mut [T],
        field: &mut [f64],
    ) {
        let len = padded(self.cols);
        for (row, blocks) in self.rows.iter().enumerate() {
            let source = &positions[self.vectors(row, at, count)..];
            simd::transpose(simd, (self.cols, LANES), source, count * LANES, room, len);
            for (block, values) in blocks.iter().zip(room.chunks_exact(len)) {
                let out = &mut field[block.first_node..][..block.num_cells];
                out.iter_mut().zip(values).for_each(|(out, value)| *out = value.to_f64());
            }
        }
    }

    /// Where the vectors of a row start.
    fn vectors(&self, row: usize, at: usize, count: usize) -> usize {
        ((self.first_position + row * self.row_positions) * count + at) * LANES
    }
}
