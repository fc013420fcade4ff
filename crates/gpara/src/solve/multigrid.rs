//! A V(1,1)-cycle by aggregation, as a preconditioner: blocks of 2 x 2 cells become one cell of the next grid.
//!
//! Prolongation is piecewise constant, so coarse entries are sums of fine ones (Galerkin) and a coarse matrix couples
//! neighbouring cells only, whatever the reach of the fine one. The smoother is Jacobi with the row sums |A| 1 as its
//! diagonal, symmetric and convergent for any symmetric positive definite matrix; before and after the coarse correction
//! it is the same, so the cycle is a symmetric positive definite map and conjugate gradients stay valid.

use super::blocks::{dot, for_each_block, zip_with};
use super::pcg::Preconditioner;
use super::{Real, Stencil};
use crate::engine::Reach;
use crate::grid::Grid;

/// The smoother's diagonal is this share of the row sums of |A|; 1/2 would be the limit of convergence.
const SMOOTHER_SHARE: f64 = 0.75;

/// The grids from the given one down to a single cell.
#[derive(Debug)]
pub(crate) struct Multigrid<T> {
    levels: Vec<Level<T>>,
}

#[derive(Debug)]
struct Level<T> {
    grid: Grid,
    reach: Reach,
    diagonal: Vec<T>,
    coupling: Vec<Vec<T>>,
    /// Inverse diagonal of the smoother; on the last grid, of one cell, 1 / a: the exact solve.
    smoother: Vec<T>,
}

impl<T: Real> Multigrid<T> {
    /// Copies the matrix into the given type and sums it down.
    pub(crate) fn new(matrix: Stencil<'_, f64>) -> Self {
        let convert = |values: &[f64]| values.iter().map(|&value| T::from_f64(value)).collect::<Vec<T>>();
        let coupling = matrix.coupling.iter().map(|map| convert(map)).collect();
        let mut levels = vec![Level::new(matrix.grid, matrix.reach, convert(matrix.diagonal), coupling)];
        while let Some(coarse) = levels.last().and_then(Level::coarsened) {
            levels.push(coarse);
        }
        Self { levels }
    }

    /// The preconditioner with the vectors it works in; the grids themselves are shared.
    pub(crate) fn cycle(&self) -> Cycle<'_, T> {
        let vectors = |level: &Level<T>| {
            let zeros = || vec![T::default(); level.grid.num_nodes()];
            LevelVectors { rhs: zeros(), solution: zeros(), residual: zeros() }
        };
        Cycle { grids: self, vectors: self.levels.iter().map(vectors).collect() }
    }
}

impl<T: Real> Level<T> {
    fn new(grid: Grid, reach: Reach, diagonal: Vec<T>, coupling: Vec<Vec<T>>) -> Self {
        let sums = Stencil { grid, reach, diagonal: &diagonal, coupling: &coupling }.coupling_sums();
        let share = T::from_f64(if grid.num_nodes() == 1 { 1.0 } else { SMOOTHER_SHARE });
        let smoother = sums.iter().zip(&diagonal).map(|(&sum, &d)| T::from_f64(1.0) / (share * (sum + d))).collect();
        Self { grid, reach, diagonal, coupling, smoother }
    }

    fn stencil(&self) -> Stencil<'_, T> {
        Stencil { grid: self.grid, reach: self.reach, diagonal: &self.diagonal, coupling: &self.coupling }
    }

    /// P' A P of this level, `None` for a single cell.
    fn coarsened(&self) -> Option<Self> {
        let Self { grid, .. } = *self;
        if grid.num_nodes() == 1 {
            return None;
        }
        let coarse = coarse_grid(grid);
        let mut diagonal = vec![T::default(); coarse.num_nodes()];
        let mut coupling = vec![vec![T::default(); coarse.num_nodes()]; Reach::One.offsets().len()];
        let two = T::from_f64(2.0);
        for node in 0..grid.num_nodes() {
            let (row, col) = grid.row_col(node);
            let parent = coarse.node(row / 2, col / 2);
            diagonal[parent] += self.diagonal[node];
            for (map, &offset) in self.coupling.iter().zip(self.reach.offsets()) {
                let Some(other) = grid.neighbor(node, offset) else { continue };
                let (other_row, other_col) = grid.row_col(other);
                let step =
                    ((other_row / 2) as isize - (row / 2) as isize, (other_col / 2) as isize - (col / 2) as isize);
                match Reach::One.offsets().iter().position(|&forward| forward == step) {
                    Some(at) => coupling[at][parent] += map[node],
                    // Both ends in one aggregate: the entry and its mirror image join the diagonal.
                    None if step == (0, 0) => diagonal[parent] += two * map[node],
                    // A forward fine offset that steps back: (1, -2) within the same pair of rows.
                    None => {
                        let other_parent = coarse.node(other_row / 2, other_col / 2);
                        let back = (-step.0, -step.1);
                        let at = Reach::One.offsets().iter().position(|&forward| forward == back);
                        coupling[at.expect("aggregates of coupled cells are neighbours")][other_parent] += map[node];
                    }
                }
            }
        }
        Some(Self::new(coarse, Reach::One, diagonal, coupling))
    }
}

fn coarse_grid(grid: Grid) -> Grid {
    Grid::new(grid.rows().div_ceil(2), grid.cols().div_ceil(2)).expect("half of an allowed grid is allowed")
}

#[derive(Debug)]
struct LevelVectors<T> {
    rhs: Vec<T>,
    solution: Vec<T>,
    residual: Vec<T>,
}

/// One V(1,1)-cycle from zero.
#[derive(Debug)]
pub(crate) struct Cycle<'a, T> {
    grids: &'a Multigrid<T>,
    vectors: Vec<LevelVectors<T>>,
}

impl<T: Real> Cycle<'_, T> {
    /// Solves approximately for the right-hand side of the first level.
    fn run(&mut self) {
        let levels = &self.grids.levels;
        let last = levels.len() - 1;
        for at in 0..last {
            let (fine, coarse) = self.vectors.split_at_mut(at + 1);
            let (level, vectors) = (&levels[at], &mut fine[at]);
            vectors.solution.copy_from_slice(&vectors.rhs);
            zip_with(&mut vectors.solution, &level.smoother, |x, s| *x = *x * s);
            level.stencil().residual(&vectors.solution, &vectors.rhs, &mut vectors.residual);
            restrict(level.grid, &vectors.residual, &mut coarse[0].rhs);
        }
        let bottom = &mut self.vectors[last];
        bottom.solution[0] = bottom.rhs[0] * levels[last].smoother[0];
        for at in (0..last).rev() {
            let (fine, coarse) = self.vectors.split_at_mut(at + 1);
            let (level, vectors) = (&levels[at], &mut fine[at]);
            prolong_add(level.grid, &coarse[0].solution, &mut vectors.solution);
            level.stencil().residual(&vectors.solution, &vectors.rhs, &mut vectors.residual);
            zip_with(&mut vectors.residual, &level.smoother, |r, s| *r = *r * s);
            zip_with(&mut vectors.solution, &vectors.residual, |x, r| *x += r);
        }
    }
}

impl<T: Real> Preconditioner<f64> for Cycle<'_, T> {
    fn apply(&mut self, r: &[f64], z: &mut [f64]) {
        // The map is linear; scaled to order 1, a small residual keeps its digits in single precision.
        let size = (dot(r, r) / r.len() as f64).sqrt();
        let scale = if size > 0.0 { size.recip() } else { 1.0 };
        for_each_block(&mut self.vectors[0].rhs, |start, block| {
            block.iter_mut().zip(&r[start..]).for_each(|(out, &r)| *out = T::from_f64(r * scale));
        });
        self.run();
        let solution = &self.vectors[0].solution;
        for_each_block(z, |start, block| {
            block.iter_mut().zip(&solution[start..]).for_each(|(z, &x)| *z = x.to_f64() * size);
        });
    }
}

/// `coarse = P' fine`: the sum over each aggregate.
fn restrict<T: Real>(grid: Grid, fine: &[T], coarse: &mut [T]) {
    let cols = grid.cols();
    for (at, out) in coarse.chunks_exact_mut(cols.div_ceil(2)).enumerate() {
        let top = &fine[2 * at * cols..(2 * at + 1) * cols];
        pair_sums(top, out, |out, sum| *out = sum);
        if 2 * at + 1 < grid.rows() {
            pair_sums(&fine[(2 * at + 1) * cols..(2 * at + 2) * cols], out, |out, sum| *out += sum);
        }
    }
}

/// `put(out, a + b)` for every two neighbours of a row; the last of an odd row stands alone.
fn pair_sums<T: Real>(row: &[T], out: &mut [T], put: impl Fn(&mut T, T)) {
    let (pairs, rest) = row.as_chunks::<2>();
    out.iter_mut().zip(pairs).for_each(|(out, &[a, b])| put(out, a + b));
    if let ([alone], Some(out)) = (rest, out.last_mut()) {
        put(out, *alone);
    }
}

/// `fine += P coarse`: each value at the cells of its aggregate.
fn prolong_add<T: Real>(grid: Grid, coarse: &[T], fine: &mut [T]) {
    let cols = grid.cols();
    for (at, row) in fine.chunks_exact_mut(cols).enumerate() {
        let source = &coarse[at / 2 * cols.div_ceil(2)..];
        let (pairs, rest) = row.as_chunks_mut::<2>();
        pairs.iter_mut().zip(source).for_each(|([a, b], &value)| {
            *a += value;
            *b += value;
        });
        rest.iter_mut().for_each(|last| *last += source[cols / 2]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Stop;
    use super::super::pcg::tests::dominant_matrix;
    use super::super::pcg::{Diagonal, Stopping, StoppingNorm, pcg};
    use super::*;
    use crate::seed::SeedTree;

    fn random(name: &str, count: usize) -> Vec<f64> {
        let mut stream = SeedTree::new(2).stream(name);
        (0..count).map(|_| stream.normal()).collect()
    }

    #[test]
    fn coarse_matrices_are_the_galerkin_products_for_both_reaches() {
        for reach in [Reach::One, Reach::Two] {
            for (rows, cols) in [(1, 7), (6, 1), (5, 8), (9, 7)] {
                let grids = Multigrid::<f64>::new(dominant_matrix(rows, cols, reach, 0.1).view());
                assert_eq!(grids.levels.last().unwrap().grid.num_nodes(), 1);
                for pair in grids.levels.windows(2) {
                    let (fine, coarse) = (&pair[0], &pair[1]);
                    let x = random("coarse", coarse.grid.num_nodes());
                    let mut prolonged = vec![0.0; fine.grid.num_nodes()];
                    prolong_add(fine.grid, &x, &mut prolonged);
                    let mut applied = prolonged.clone();
                    fine.stencil().apply(&prolonged, &mut applied);
                    let (mut expected, mut found) = (x.clone(), x.clone());
                    restrict(fine.grid, &applied, &mut expected);
                    coarse.stencil().apply(&x, &mut found);
                    let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                    assert!(worst < 1e-12, "{rows}x{cols} {reach:?} at {}: {worst:e}", fine.grid);
                }
            }
        }
    }

    #[test]
    fn prop_cycle_is_symmetric_and_positive() {
        for reach in [Reach::One, Reach::Two] {
            let grids = Multigrid::<f64>::new(dominant_matrix(11, 14, reach, 0.01).view());
            let mut cycle = grids.cycle();
            let (u, v) = (random("u", 154), random("v", 154));
            let (mut mu, mut mv) = (vec![0.0; 154], vec![0.0; 154]);
            cycle.apply(&u, &mut mu);
            cycle.apply(&v, &mut mv);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            assert!((dot(&u, &mv) - dot(&v, &mu)).abs() < 1e-12 * dot(&u, &mu), "{reach:?}");
            assert!(dot(&u, &mu) > 0.0 && dot(&v, &mv) > 0.0);
        }
    }

    #[test]
    fn iterations_stay_few_where_the_diagonal_needs_many() {
        let stopping = Stopping { max_iterations: 2000, rel_tolerance: 1e-8, norm: StoppingNorm::DiagonalInverse };
        for (reach, size) in [(Reach::One, 64), (Reach::One, 256), (Reach::Two, 64)] {
            let mut matrix = dominant_matrix(size, size, reach, 1e-3);
            matrix.diagonal[size * size / 2 + 3] += 1e8;
            let rhs = random("rhs", size * size);
            let (mut by_cycle, mut by_diagonal) = (vec![0.0; rhs.len()], vec![0.0; rhs.len()]);
            let grids = Multigrid::<f32>::new(matrix.view());
            let few = pcg(matrix.view(), &mut grids.cycle(), &rhs, &mut by_cycle, stopping);
            let many = pcg(matrix.view(), &mut Diagonal(&matrix.diagonal), &rhs, &mut by_diagonal, stopping);
            eprintln!("{reach:?} {size}: {} against {}", few.iterations, many.iterations);
            assert_eq!((few.stop, many.stop), (Stop::Converged, Stop::Converged));
            assert!(4 * few.iterations < many.iterations, "{reach:?} {size}: {few:?} {many:?}");
            let scale = by_diagonal.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
            let worst = by_cycle.iter().zip(&by_diagonal).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-5 * scale, "{reach:?} {size}: {worst:e} of {scale:e}");
        }
    }
}
