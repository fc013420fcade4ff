//! A nested dissection order of a grid, for the sparse Cholesky of other libraries.

use gpara::Grid;

/// Rectangles of at most this many cells are not cut further.
const LEAF_CELLS: usize = 32;

/// The nodes in the order of elimination; `width` lines are cut out at a time, as many as the matrix reaches cells far.
pub(crate) fn nested_dissection(grid: Grid, width: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(grid.num_nodes());
    divide(grid, (0, grid.rows()), (0, grid.cols()), width, &mut order);
    order
}

fn divide(grid: Grid, rows: (usize, usize), cols: (usize, usize), width: usize, order: &mut Vec<usize>) {
    let (height, length) = (rows.1 - rows.0, cols.1 - cols.0);
    if height * length <= LEAF_CELLS || height.max(length) <= 2 * width {
        push(grid, rows, cols, order);
    } else if height > length {
        let cut = rows.0 + (height - width) / 2;
        divide(grid, (rows.0, cut), cols, width, order);
        divide(grid, (cut + width, rows.1), cols, width, order);
        push(grid, (cut, cut + width), cols, order);
    } else {
        let cut = cols.0 + (length - width) / 2;
        divide(grid, rows, (cols.0, cut), width, order);
        divide(grid, rows, (cut + width, cols.1), width, order);
        push(grid, rows, (cut, cut + width), order);
    }
}

fn push(grid: Grid, rows: (usize, usize), cols: (usize, usize), order: &mut Vec<usize>) {
    order.extend((rows.0..rows.1).flat_map(|row| (cols.0..cols.1).map(move |col| grid.node(row, col))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_comes_once() {
        for (rows, cols, width) in [(1, 1, 1), (1, 90, 2), (37, 53, 1), (64, 30, 2)] {
            let mut order = nested_dissection(Grid::new(rows, cols).unwrap(), width);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..rows * cols));
        }
    }
}
