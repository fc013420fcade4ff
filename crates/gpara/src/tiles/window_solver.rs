//! The exact solver of windows, kept by a thread and refilled window after window.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::{Factorization, Kernels, Plan, Reach, StencilMatrix};
use crate::error::Result;
use crate::grid::Grid;
use crate::solve::Stencil;

/// Relative error of the moments up to which windows are solved in f32.
const SINGLE_TOLERANCE: f64 = 1e-4;

/// The type that windows are solved in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowType {
    Single,
    Double,
}

impl WindowType {
    /// f32 where it is exact enough: its rounding, amplified by the condition number of D^-1 A. By Gershgorin that is at
    /// most 2 / (1 - q); without that bound (q >= 1, as for a second-order precision) f64.
    pub(super) fn for_matrix(matrix: Stencil<'_, f64>) -> Self {
        let gap = 1.0 - matrix.gershgorin_radius();
        if f64::from(f32::EPSILON) * 2.0 < SINGLE_TOLERANCE * gap { Self::Single } else { Self::Double }
    }

    /// Estimated bytes of the arena for a window of that many rows and columns: a fit to its true size between 40 x 40 and
    /// 512 x 512 cells, rounded up.
    pub(super) fn bytes(self, (rows, cols): (usize, usize), reach: Reach) -> u64 {
        let cells = rows as f64 * cols as f64;
        let values_a_cell = match reach {
            Reach::One => 170.0 + 13.0 * cells.powf(0.25),
            Reach::Two => 330.0 + 60.0 * cells.powf(0.25),
        };
        let bytes_a_value = match self {
            Self::Single => size_of::<f32>(),
            Self::Double => size_of::<f64>(),
        };
        (cells * values_a_cell) as u64 * bytes_a_value as u64
    }
}

/// The plans of the shapes that windows have, shared by all threads.
#[derive(Debug, Default)]
pub(super) struct Plans(HashMap<(Grid, Reach), Arc<Plan>>);

impl Plans {
    /// Makes the plan of every shape.
    pub(super) fn of(shapes: impl Iterator<Item = Grid>, reach: Reach) -> Self {
        let mut plans = HashMap::new();
        shapes.for_each(|grid| {
            plans.entry((grid, reach)).or_insert_with(|| Arc::new(Plan::new(grid, reach)));
        });
        Self(plans)
    }

    fn get(&self, grid: Grid, reach: Reach) -> Arc<Plan> {
        self.0.get(&(grid, reach)).cloned().unwrap_or_else(|| Arc::new(Plan::new(grid, reach)))
    }
}

/// A factorised window in its arena, which the next window of the same shape reuses.
#[derive(Debug)]
pub(super) enum WindowSolver {
    Single(Option<Factorization<f32>>),
    Double(Option<Factorization<f64>>),
}

impl WindowSolver {
    /// No arena yet.
    pub(super) fn new(window_type: WindowType) -> Self {
        match window_type {
            WindowType::Single => Self::Single(None),
            WindowType::Double => Self::Double(None),
        }
    }

    /// Factorises the window's matrix.
    ///
    /// # Errors
    /// `NotPositiveDefinite` if a pivot is not positive.
    pub(super) fn factor(&mut self, plans: &Plans, matrix: &StencilMatrix) -> Result<()> {
        match self {
            Self::Single(arena) => fitting(arena, plans, matrix).factor(matrix),
            Self::Double(arena) => fitting(arena, plans, matrix).factor(matrix),
        }
    }

    /// The window's matrix^-1 rhs.
    pub(super) fn solve(&self, rhs: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; rhs.len()];
        match self {
            Self::Single(arena) => arena.as_ref().expect(FACTORED).solve(rhs, &mut out),
            Self::Double(arena) => arena.as_ref().expect(FACTORED).solve(rhs, &mut out),
        }
        out
    }

    /// Diagonals of Sigma and Sigma W Sigma of the window.
    pub(super) fn variances_and_numerators(&mut self, weights: &[f64], variances: &mut [f64], numerators: &mut [f64]) {
        match self {
            Self::Single(arena) => {
                arena.as_mut().expect(FACTORED).variances_and_numerators(weights, variances, numerators);
            }
            Self::Double(arena) => {
                arena.as_mut().expect(FACTORED).variances_and_numerators(weights, variances, numerators);
            }
        }
    }
}

const FACTORED: &str = "a window is factorised before it is used";

/// The arena for the matrix: the present one if it has the shape, else a new one after the old one is gone.
fn fitting<'a, T: Kernels>(
    arena: &'a mut Option<Factorization<T>>,
    plans: &Plans,
    matrix: &StencilMatrix,
) -> &'a mut Factorization<T> {
    let fits =
        |arena: &Factorization<T>| (arena.plan().grid(), arena.plan().reach()) == (matrix.grid(), matrix.reach());
    if !arena.as_ref().is_some_and(fits) {
        *arena = None;
    }
    arena.get_or_insert_with(|| Factorization::with_threads(plans.get(matrix.grid(), matrix.reach()), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimated_bytes_are_those_of_the_arena_or_a_little_more() {
        for (rows, cols, reach) in [
            (40, 40, Reach::One),
            (152, 176, Reach::One),
            (176, 176, Reach::One),
            (320, 320, Reach::One),
            (40, 40, Reach::Two),
            (176, 152, Reach::Two),
        ] {
            let plan = Arc::new(Plan::new(Grid::new(rows, cols).unwrap(), reach));
            let arena = 4.0 * Factorization::<f32>::with_threads(plan, 1).num_values() as f64;
            let ratio = WindowType::Single.bytes((rows, cols), reach) as f64 / arena;
            assert!((1.0..1.3).contains(&ratio), "{rows}x{cols} {reach:?}: {ratio}");
            assert_eq!(
                WindowType::Double.bytes((rows, cols), reach),
                2 * WindowType::Single.bytes((rows, cols), reach)
            );
        }
    }
}
