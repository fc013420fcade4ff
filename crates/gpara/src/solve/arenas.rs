//! What factorisations and solves work in, kept for those that come next.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use super::arithmetic::Arithmetic;
use super::stencil::Stencil;
use crate::engine::{Factorization, Kernels, Plan, RightHandSide, Solution, SolveScratch};
use crate::error::Result;
use crate::memory::check_memory;

/// The elimination plan of one grid, and the arenas of factorisations and solves that nobody holds any more.
#[derive(Debug, Default)]
pub(crate) struct Arenas {
    pub(super) plan: OnceLock<Arc<Plan>>,
    pub(super) single: Pool<f32>,
    pub(super) double: Pool<f64>,
    /// Right-hand sides and residuals, so that further solves take no memory from the system.
    fields: Mutex<Vec<Vec<f64>>>,
}

impl Arenas {
    /// Runs `work` on so many values of whatever an earlier one left.
    pub(super) fn with_field<R>(&self, values: usize, work: impl FnOnce(&mut [f64]) -> R) -> R {
        let mut field = take(&self.fields).unwrap_or_default();
        if field.len() < values {
            field.resize(values, 0.0);
        }
        let result = work(&mut field[..values]);
        give_back(&self.fields, field);
        result
    }
}

#[derive(Debug)]
pub(super) struct Pool<T> {
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
    pub(super) fn factor(
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

    /// Solves in buffers that [`read_rows`](Self::read_rows) gives back. They are taken and given back under locks of their own,
    /// so that solves run in parallel.
    pub(super) fn solve_rows<'a>(
        &self,
        factorization: &RwLock<Factorization<T>>,
        count: usize,
        rhs: impl Fn(usize) -> RightHandSide<'a> + Sync,
    ) -> SolveScratch<T> {
        let mut scratch = take(&self.scratch).unwrap_or_default();
        read(factorization).solve_rows(&mut scratch, count, rhs);
        scratch
    }

    pub(super) fn read_rows<'a>(
        &self,
        factorization: &RwLock<Factorization<T>>,
        scratch: SolveScratch<T>,
        out: impl Iterator<Item = Solution<'a>>,
    ) {
        read(factorization).read_rows(&scratch, out);
        give_back(&self.scratch, scratch);
    }

    pub(super) fn retire(&self, factorization: RwLock<Factorization<T>>) {
        give_back(&self.factorizations, factorization.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
}

fn take<T>(pool: &Mutex<Vec<T>>) -> Option<T> {
    pool.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn give_back<T>(pool: &Mutex<Vec<T>>, value: T) {
    pool.lock().unwrap_or_else(PoisonError::into_inner).push(value);
}

/// For reading, also after a panic of another holder.
pub(super) fn read<T>(factorization: &RwLock<Factorization<T>>) -> RwLockReadGuard<'_, Factorization<T>> {
    factorization.read().unwrap_or_else(PoisonError::into_inner)
}
