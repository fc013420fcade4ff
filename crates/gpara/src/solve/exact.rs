//! The exact factorisation of a precision behind a shared reference, in the arithmetic that is exact enough.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use super::arithmetic::Arithmetic;
use super::stencil::Stencil;
use crate::engine::{Factorization, Kernels, Plan, SolveScratch, StencilMatrix};
use crate::error::Result;
use crate::memory::check_memory;
use crate::precision::Coupling;

/// The elimination plan of one grid, and the arenas of factorisations and solves that nobody holds any more.
#[derive(Debug, Default)]
pub(crate) struct Arenas {
    plan: OnceLock<Arc<Plan>>,
    single: Pool<f32>,
    double: Pool<f64>,
}

#[derive(Debug)]
struct Pool<T> {
    factorizations: Mutex<Vec<Factorization<T>>>,
    scratch: Mutex<Vec<SolveScratch<T>>>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { factorizations: Mutex::default(), scratch: Mutex::default() }
    }
}

impl<T: Kernels> Pool<T> {
    /// Factorises in arenas in use before, if there are any; new ones are refused where there is no memory for them.
    fn factor(
        &self,
        plan: &OnceLock<Arc<Plan>>,
        matrix: Stencil<'_, f64>,
        arithmetic: Arithmetic,
    ) -> Result<RwLock<Factorization<T>>> {
        let idle = take(&self.factorizations);
        let mut factorization = match idle {
            Some(factorization) => factorization,
            None => {
                let needed = arithmetic.bytes((matrix.grid.rows(), matrix.grid.cols()), matrix.reach);
                check_memory("the exact factorisation", needed, "use tiles, or an iterative mean")?;
                let plan = plan.get_or_init(|| Arc::new(Plan::new(matrix.grid, matrix.reach)));
                Factorization::new(Arc::clone(plan))
            }
        };
        match factorization.factor(matrix) {
            Ok(()) => Ok(RwLock::new(factorization)),
            Err(error) => {
                give_back(&self.factorizations, factorization);
                Err(error)
            }
        }
    }

    fn solve(&self, factorization: &RwLock<Factorization<T>>, rhs: &[f64], out: &mut [f64]) {
        // Taken and given back under locks of their own, so that solves run in parallel.
        let mut scratch = take(&self.scratch).unwrap_or_default();
        factorization.read().unwrap_or_else(PoisonError::into_inner).solve_with(&mut scratch, rhs, out);
        give_back(&self.scratch, scratch);
    }

    fn retire(&self, factorization: RwLock<Factorization<T>>) {
        give_back(&self.factorizations, factorization.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
}

fn take<T>(pool: &Mutex<Vec<T>>) -> Option<T> {
    pool.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn give_back<T>(pool: &Mutex<Vec<T>>, value: T) {
    pool.lock().unwrap_or_else(PoisonError::into_inner).push(value);
}

/// A matrix whose parts belong to others.
#[derive(Debug)]
pub(crate) struct SharedMatrix {
    pub(crate) coupling: Arc<Coupling>,
    pub(crate) diagonal: Arc<[f64]>,
}

impl SharedMatrix {
    fn view(&self) -> Stencil<'_, f64> {
        self.coupling.stencil(&self.diagonal)
    }
}

/// A factorised matrix; its arenas go back when it is dropped.
///
/// Determinants, selected inverses and whatever else gradients are made of are always computed in 64 bits, by a second
/// factorisation if the first is in 32.
#[derive(Debug)]
pub(crate) struct ExactSolver {
    arenas: Arc<Arenas>,
    matrix: SharedMatrix,
    single: Option<RwLock<Factorization<f32>>>,
    double: OnceLock<RwLock<Factorization<f64>>>,
}

impl ExactSolver {
    /// Factorises a matrix in arenas of its own kind.
    ///
    /// # Errors
    /// `NotPositiveDefinite` with the node whose pivot is not positive.
    pub(crate) fn new(arenas: &Arc<Arenas>, matrix: SharedMatrix, arithmetic: Arithmetic) -> Result<Self> {
        let single = match arithmetic {
            Arithmetic::Single => Some(arenas.single.factor(&arenas.plan, matrix.view(), arithmetic)?),
            Arithmetic::Double => None,
        };
        let solver = Self { arenas: Arc::clone(arenas), matrix, single, double: OnceLock::new() };
        if solver.single.is_none() {
            solver.double()?;
        }
        Ok(solver)
    }

    /// The arithmetic of solves and moments.
    pub(crate) fn arithmetic(&self) -> Arithmetic {
        if self.single.is_some() { Arithmetic::Single } else { Arithmetic::Double }
    }

    fn double(&self) -> Result<&RwLock<Factorization<f64>>> {
        if let Some(factorization) = self.double.get() {
            return Ok(factorization);
        }
        let factorization = self.arenas.double.factor(&self.arenas.plan, self.matrix.view(), Arithmetic::Double)?;
        Ok(self.double.get_or_init(|| factorization))
    }

    /// The factorisation in 64 bits where there is no other.
    fn only_double(&self) -> &RwLock<Factorization<f64>> {
        self.double.get().expect("made at once where there is none in 32 bits")
    }

    /// A^-1 of every row of `rhs`; from 32 bits with one step of refinement, which leaves errors of about 1e-9.
    ///
    /// # Shapes
    /// * `rhs` - `[count, num_nodes]`, and so is the result
    pub(crate) fn solve(&self, rhs: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; rhs.len()];
        let Some(single) = &self.single else {
            self.arenas.double.solve(self.only_double(), rhs, &mut out);
            return out;
        };
        self.arenas.single.solve(single, rhs, &mut out);
        let num_nodes = self.matrix.diagonal.len();
        let (mut residual, mut change) = (vec![0.0; rhs.len()], vec![0.0; rhs.len()]);
        let rows = out.chunks(num_nodes).zip(rhs.chunks(num_nodes)).zip(residual.chunks_mut(num_nodes));
        rows.for_each(|((x, rhs), residual)| self.matrix.view().residual(x, rhs, residual));
        self.arenas.single.solve(single, &residual, &mut change);
        out.iter_mut().zip(change).for_each(|(out, change)| *out += change);
        out
    }

    /// diag A^-1.
    pub(crate) fn variances(&self) -> Vec<f64> {
        let mut variance = vec![0.0; self.matrix.diagonal.len()];
        match &self.single {
            Some(single) => write(single, |factorization| factorization.variances(&mut variance)),
            None => write(self.only_double(), |factorization| factorization.variances(&mut variance)),
        }
        variance
    }

    /// diag A^-1 in 64 bits.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn double_variances(&self) -> Result<Vec<f64>> {
        let mut variance = vec![0.0; self.matrix.diagonal.len()];
        write(self.double()?, |factorization| factorization.variances(&mut variance));
        Ok(variance)
    }

    /// diag A^-1 and diag(A^-1 W A^-1).
    pub(crate) fn variances_and_numerators(&self, weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut variance, mut numerator) = (vec![0.0; weights.len()], vec![0.0; weights.len()]);
        let (d, n) = (&mut variance, &mut numerator);
        match &self.single {
            Some(single) => write(single, |factorization| factorization.variances_and_numerators(weights, d, n)),
            None => write(self.only_double(), |factorization| factorization.variances_and_numerators(weights, d, n)),
        }
        (variance, numerator)
    }

    /// log det A.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn log_det(&self) -> Result<f64> {
        Ok(self.double()?.read().unwrap_or_else(PoisonError::into_inner).log_det())
    }

    /// The entries of A^-1 on the stencil of A.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn selected_inverse(&self) -> Result<StencilMatrix> {
        let mut inverse = StencilMatrix::zeros(self.matrix.view().grid, self.matrix.view().reach);
        write(self.double()?, |factorization| factorization.selected_inverse(&mut inverse));
        Ok(inverse)
    }
}

fn write<T>(factorization: &RwLock<Factorization<T>>, work: impl FnOnce(&mut Factorization<T>)) {
    work(&mut factorization.write().unwrap_or_else(PoisonError::into_inner));
}

impl Drop for ExactSolver {
    fn drop(&mut self) {
        if let Some(single) = self.single.take() {
            self.arenas.single.retire(single);
        }
        if let Some(double) = self.double.take() {
            self.arenas.double.retire(double);
        }
    }
}
