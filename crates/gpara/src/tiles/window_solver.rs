//! The exact solver of windows, kept by a thread and refilled window after window.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::{Factorization, Kernels, Plan, Reach, StencilMatrix};
use crate::error::Result;
use crate::grid::Grid;
use crate::solve::Arithmetic;

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
    pub(super) fn new(arithmetic: Arithmetic) -> Self {
        match arithmetic {
            Arithmetic::Single => Self::Single(None),
            Arithmetic::Double => Self::Double(None),
        }
    }

    /// Factorises the window's matrix.
    ///
    /// # Errors
    /// `NotPositiveDefinite` if a pivot is not positive.
    pub(super) fn factor(&mut self, plans: &Plans, matrix: &StencilMatrix) -> Result<()> {
        match self {
            Self::Single(arena) => fitting(arena, plans, matrix).factor(matrix.view()),
            Self::Double(arena) => fitting(arena, plans, matrix).factor(matrix.view()),
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
            let ratio = Arithmetic::Single.bytes((rows, cols), reach) as f64 / arena;
            assert!((1.0..1.3).contains(&ratio), "{rows}x{cols} {reach:?}: {ratio}");
            assert_eq!(
                Arithmetic::Double.bytes((rows, cols), reach),
                2 * Arithmetic::Single.bytes((rows, cols), reach)
            );
        }
    }
}
