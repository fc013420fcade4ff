//! The exact factorisation of a precision behind a shared reference.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::engine::{Factorization, Plan, SolveScratch, StencilMatrix};
use crate::error::Result;
use crate::grid::Grid;

/// The elimination plan of one grid, and the arenas of factorisations and solves that nobody holds any more.
#[derive(Debug, Default)]
pub(crate) struct Arenas {
    plan: OnceLock<Arc<Plan>>,
    idle: Mutex<Vec<Factorization<f64>>>,
    idle_scratch: Mutex<Vec<SolveScratch<f64>>>,
}

impl Arenas {
    /// Arenas for matrices like `matrix`, in use before if there are any.
    fn take(&self, matrix: &StencilMatrix) -> Factorization<f64> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| {
            let plan = self.plan.get_or_init(|| Arc::new(Plan::new(matrix.grid(), matrix.reach())));
            Factorization::new(Arc::clone(plan))
        })
    }

    fn give_back(&self, factorization: Factorization<f64>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(factorization);
    }
}

/// A factorised matrix; its arenas go back when it is dropped.
#[derive(Debug)]
pub(crate) struct ExactSolver {
    arenas: Arc<Arenas>,
    grid: Grid,
    /// Taken out on drop alone.
    factorization: Option<RwLock<Factorization<f64>>>,
}

impl ExactSolver {
    /// Factorises a matrix in arenas of its own kind.
    ///
    /// # Errors
    /// `NotPositiveDefinite` with the node whose pivot is not positive.
    pub(crate) fn new(arenas: &Arc<Arenas>, matrix: &StencilMatrix) -> Result<Self> {
        let mut factorization = arenas.take(matrix);
        let outcome = factorization.factor(matrix);
        let solver =
            Self { arenas: Arc::clone(arenas), grid: matrix.grid(), factorization: Some(RwLock::new(factorization)) };
        outcome.map(|()| solver)
    }

    fn read<R>(&self, work: impl FnOnce(&Factorization<f64>) -> R) -> R {
        let held = self.factorization.as_ref().expect("held until the drop");
        work(&held.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, work: impl FnOnce(&mut Factorization<f64>) -> R) -> R {
        let held = self.factorization.as_ref().expect("held until the drop");
        work(&mut held.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// A^-1 rhs.
    pub(crate) fn solve(&self, rhs: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; rhs.len()];
        let pool = &self.arenas.idle_scratch;
        // Popped and pushed under locks of their own, so that solves run in parallel.
        let mut scratch = pool.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        self.read(|factorization| factorization.solve_with(&mut scratch, rhs, &mut out));
        pool.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        out
    }

    /// diag A^-1.
    pub(crate) fn variances(&self) -> Vec<f64> {
        let mut variance = vec![0.0; self.grid.num_nodes()];
        self.write(|factorization| factorization.variances(&mut variance));
        variance
    }

    /// diag A^-1 and diag(A^-1 W A^-1).
    pub(crate) fn variances_and_numerators(&self, weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut variance, mut numerator) = (vec![0.0; weights.len()], vec![0.0; weights.len()]);
        self.write(|factorization| factorization.variances_and_numerators(weights, &mut variance, &mut numerator));
        (variance, numerator)
    }

    /// log det A.
    pub(crate) fn log_det(&self) -> f64 {
        self.read(Factorization::log_det)
    }

    /// The entries of A^-1 on the stencil of A.
    pub(crate) fn selected_inverse(&self) -> StencilMatrix {
        let reach = self.read(|factorization| factorization.plan().reach());
        let mut inverse = StencilMatrix::zeros(self.grid, reach);
        self.write(|factorization| factorization.selected_inverse(&mut inverse));
        inverse
    }
}

impl Drop for ExactSolver {
    fn drop(&mut self) {
        if let Some(factorization) = self.factorization.take() {
            self.arenas.give_back(factorization.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
    }
}
