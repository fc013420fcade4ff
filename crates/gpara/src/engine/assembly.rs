//! Matrices of parts added into the front above them, and read back from it. Letters as in [`front`](super::front).

use super::dissection::Run;
use super::front::{Layout, Size};
use super::real::LANES;
use super::simd::{self, Kernels, Simd, Strips};

/// Adds the rows of a child's matrix that belong to pivots of a front to F11 and F12, upper triangle; `runs` in increasing
/// order of their targets.
pub(super) fn add_to_pivots<L: Layout, T: Kernels>(
    simd: Simd,
    size: Size,
    runs: &[Run],
    (child, child_row): (&[T], usize),
    f11: &mut [T],
    f12: &mut [T],
) {
    let (l1, l2) = (L::row(size.pivots), L::row(size.boundary));
    for (at, rows) in runs.iter().enumerate().take_while(|(_, rows)| rows.target < size.pivots) {
        for cols in &runs[at..] {
            let (target, target_row, col) = match cols.target.checked_sub(size.pivots) {
                None => (&mut *f11, l1, cols.target),
                Some(col) => (&mut *f12, l2, col),
            };
            let target = &mut target[(rows.target * target_row + col) * L::WIDTH..];
            add_pair::<L, T>(simd, (rows, cols), (child, child_row), (target, target_row));
        }
    }
}

/// Adds the rest of a child's matrix to F22.
pub(super) fn add_to_boundary<L: Layout, T: Kernels>(
    simd: Simd,
    size: Size,
    runs: &[Run],
    (child, child_row): (&[T], usize),
    f22: &mut [T],
) {
    let l2 = L::row(size.boundary);
    for (at, rows) in runs.iter().enumerate().skip_while(|(_, rows)| rows.target < size.pivots) {
        for cols in &runs[at..] {
            let at = (rows.target - size.pivots) * l2 + cols.target - size.pivots;
            add_pair::<L, T>(simd, (rows, cols), (child, child_row), (&mut f22[at * L::WIDTH..], l2));
        }
    }
}

/// Adds the entries of a child in some rows and columns. Only its upper triangle is there; in the order of a ring the rows
/// may come after the columns.
fn add_pair<L: Layout, T: Kernels>(
    simd: Simd,
    (rows, cols): (&Run, &Run),
    (child, child_row): (&[T], usize),
    (target, target_row): (&mut [T], usize),
) {
    if rows.start <= cols.start {
        let source = &child[(rows.start * child_row + cols.start) * L::WIDTH..];
        strips::<L>(rows, cols, child_row, target_row).add(simd, source, target);
        return;
    }
    assert_eq!(L::WIDTH, 1, "fronts side by side keep the order of elimination");
    let mut square = [T::ZERO; LANES * LANES];
    for i in (0..rows.len).step_by(LANES) {
        for j in (0..cols.len).step_by(LANES) {
            let (num_rows, num_cols) = ((rows.len - i).min(LANES), (cols.len - j).min(LANES));
            let source = &child[(cols.start + j) * child_row + rows.start + i..];
            simd::transpose(simd, (num_cols, num_rows), source, child_row, &mut square, LANES);
            let strips = Strips { rows: num_rows, len: num_cols, step: 0, source_row: LANES, target_row };
            strips.add(simd, &square, &mut target[i * target_row + j..]);
        }
    }
}

/// The entries of a child in some rows and columns, without what is left of the diagonal.
fn strips<L: Layout>(rows: &Run, cols: &Run, source_row: usize, target_row: usize) -> Strips {
    Strips {
        rows: rows.len,
        len: cols.len * L::WIDTH,
        step: if cols.start == rows.start { L::WIDTH } else { 0 },
        source_row: source_row * L::WIDTH,
        target_row: target_row * L::WIDTH,
    }
}

/// The reverse of both: reads the upper triangle of Z22 of a child from the upper triangles of Z11, Z22 and from Z12 of a
/// front; in the order of a ring the rows of a pair of runs may come after the
/// columns.
pub(super) fn gather<L: Layout, T: Kernels>(
    simd: Simd,
    size: Size,
    runs: &[Run],
    (z11, z12, z22): (&[T], &[T], &[T]),
    child_row: usize,
    child: &mut [T],
) {
    let (p, l1, l2) = (size.pivots, L::row(size.pivots), L::row(size.boundary));
    for (at, rows) in runs.iter().enumerate() {
        for cols in &runs[at..] {
            let (source, source_row, at) = match (rows.target.checked_sub(p), cols.target.checked_sub(p)) {
                (None, None) => (z11, l1, rows.target * l1 + cols.target),
                (None, Some(col)) => (z12, l2, rows.target * l2 + col),
                (Some(row), Some(col)) => (z22, l2, row * l2 + col),
                (Some(_), None) => unreachable!("runs are in the order of their targets"),
            };
            let source = &source[at * L::WIDTH..];
            if rows.start <= cols.start {
                let target = &mut child[(rows.start * child_row + cols.start) * L::WIDTH..];
                strips::<L>(rows, cols, source_row, child_row).copy(simd, source, target);
            } else {
                assert_eq!(L::WIDTH, 1, "fronts side by side keep the order of elimination");
                let target = &mut child[cols.start * child_row + rows.start..];
                simd::transpose(simd, (rows.len, cols.len), source, source_row, target, child_row);
            }
        }
    }
}
