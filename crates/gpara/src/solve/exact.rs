//! The exact factorisation of a precision behind a shared reference, in the arithmetic that is exact enough.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use super::arithmetic::{Arithmetic, Choice, MEASURED_TOLERANCE, in_range_of_single};
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
    /// Right-hand sides and residuals, so that further solves take no memory from the system.
    fields: Mutex<Vec<Vec<f64>>>,
}

impl Arenas {
    /// Runs `work` on so many values of whatever an earlier one left.
    fn with_field<R>(&self, values: usize, work: impl FnOnce(&mut [f64]) -> R) -> R {
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

/// Steps of the power iteration: the second already starts from what 32 bits get wrong.
const POWER_ITERATIONS: usize = 2;

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
    /// The measured error of 32 bits; NaN if it was not.
    single_error: f64,
}

impl ExactSolver {
    /// Factorises a matrix in arenas of its own kind.
    ///
    /// # Errors
    /// `NotPositiveDefinite` with the node whose pivot is not positive.
    pub(crate) fn new(arenas: &Arc<Arenas>, matrix: SharedMatrix, choice: Choice) -> Result<Self> {
        let in_single = || arenas.single.factor(&arenas.plan, matrix.view(), Arithmetic::Single);
        let single = match choice {
            Choice::Known(Arithmetic::Single) => Some(in_single()?),
            Choice::Known(Arithmetic::Double) => None,
            // A breakdown says that 32 bits are not enough, as a large error does.
            Choice::Measured if in_range_of_single(&matrix.diagonal) => in_single().ok(),
            Choice::Measured => None,
        };
        let mut solver =
            Self { arenas: Arc::clone(arenas), matrix, single, double: OnceLock::new(), single_error: f64::NAN };
        if choice == Choice::Measured {
            solver.single_error = f64::INFINITY;
            if let Some(single) = solver.single.take() {
                solver.single_error = solver.measure(&single);
                if solver.single_error < MEASURED_TOLERANCE {
                    solver.single = Some(single);
                } else {
                    solver.arenas.single.retire(single);
                }
            }
        }
        if solver.single.is_none() {
            solver.double()?;
        }
        Ok(solver)
    }

    /// The relative error of 32 bits that was measured; NaN if none was.
    pub(crate) fn single_error(&self) -> f64 {
        self.single_error
    }

    /// rho with |M_ii - (A^-1)_ii| <= rho (A^-1)_ii for the inverse M that 32 bits stand for: the largest eigenvalue of
    /// I - M A by power iterations in the norm of A, in which that matrix is symmetric.
    fn measure(&self, single: &RwLock<Factorization<f32>>) -> f64 {
        let matrix = self.matrix.view();
        let num_nodes = self.matrix.diagonal.len();
        let (mut error, mut applied, mut solved) = (vec![0.0; num_nodes], vec![0.0; num_nodes], vec![0.0; num_nodes]);
        // Signs from the bits of a multiplicative hash hold every mode; solving once brings out the long ones.
        let sign =
            |node: usize| if (node as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0 { 1.0 } else { -1.0 };
        applied.iter_mut().enumerate().for_each(|(node, value)| *value = sign(node));
        self.arenas.single.solve(single, &applied, &mut error);
        let norm = |x: &[f64], applied: &[f64]| x.iter().zip(applied).map(|(x, y)| x * y).sum::<f64>().sqrt();
        matrix.apply(&error, &mut applied);
        let (mut size, mut largest) = (norm(&error, &applied), 0.0_f64);
        for _ in 0..POWER_ITERATIONS {
            self.arenas.single.solve(single, &applied, &mut solved);
            error.iter_mut().zip(&solved).for_each(|(error, solved)| *error -= solved);
            matrix.apply(&error, &mut applied);
            let next = norm(&error, &applied);
            let ratio = next / size;
            largest = if ratio.is_nan() { f64::INFINITY } else { largest.max(ratio) };
            size = next;
        }
        largest
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
        self.solve_into(rhs, &mut out);
        if self.single.is_some() {
            self.arenas.with_field(2 * rhs.len(), |fields| {
                let (residual, change) = fields.split_at_mut(rhs.len());
                self.residuals(&out, rhs, residual);
                self.solve_into(residual, change);
                add(&mut out, change);
            });
        }
        out
    }

    /// A^-1 of every row of `rhs`, no more exact than `accepts(row, residual)` wants: 32 bits are refined where it says no. It sees
    /// the last residual of a row in any case.
    ///
    /// At `stiff` nodes, whose diagonal outweighs their couplings by far, the rounding of x to 32 bits alone leaves a large
    /// residual; it is taken off by the diagonal first.
    ///
    /// # Shapes
    /// * `rhs` - `[count, num_nodes]`, and so is `out`
    pub(crate) fn solve_until(
        &self,
        rhs: &[f64],
        out: &mut [f64],
        stiff: &[usize],
        mut accepts: impl FnMut(usize, &[f64]) -> bool,
    ) {
        self.solve_into(rhs, out);
        let (matrix, diagonal) = (self.matrix.view(), &*self.matrix.diagonal);
        self.arenas.with_field(2 * diagonal.len(), |fields| {
            let (residual, change) = fields.split_at_mut(diagonal.len());
            for (row, (rhs, x)) in rhs.chunks(diagonal.len()).zip(out.chunks_mut(diagonal.len())).enumerate() {
                matrix.residual(x, rhs, residual);
                if self.single.is_some() && !stiff.is_empty() {
                    for &node in stiff {
                        let change = residual[node] / diagonal[node];
                        x[node] += change;
                        matrix.subtract_column(node, change, residual);
                    }
                }
                if !accepts(row, residual) && self.single.is_some() {
                    self.solve_into(residual, change);
                    add(x, change);
                    matrix.residual(x, rhs, residual);
                    accepts(row, residual);
                }
            }
        });
    }

    /// The columns u = A^-1 e of unit vectors and the responses A^-1 W u, as exact as [`solve`](Self::solve) makes them.
    ///
    /// In 32 bits the refinement of the columns shares a pass over the factor with the responses of the unrefined ones; that
    /// of the responses then makes up for both.
    ///
    /// # Shapes
    /// * `columns` - `[count, num_nodes]`
    /// * `responses` - the same; holds the unit vectors on entry
    pub(crate) fn responses(&self, weights: &[f64], columns: &mut [f64], responses: &mut [f64]) {
        let count = columns.len();
        self.solve_into(responses, columns);
        if self.single.is_none() {
            self.arenas.with_field(count, |weighted| {
                weigh(columns, weights, weighted);
                self.solve_into(weighted, responses);
            });
            return;
        }
        self.arenas.with_field(4 * count, |fields| {
            let (rhs, solved) = fields.split_at_mut(2 * count);
            let (weighted, residual) = rhs.split_at_mut(count);
            weigh(columns, weights, weighted);
            self.residuals(columns, responses, residual);
            self.solve_into(rhs, solved);
            let (unrefined, change) = solved.split_at_mut(count);
            add(columns, change);
            responses.copy_from_slice(unrefined);
            let (weighted, residual) = rhs.split_at_mut(count);
            weigh(columns, weights, weighted);
            self.residuals(responses, weighted, residual);
            self.solve_into(residual, change);
            add(responses, change);
        });
    }

    /// rhs - A x of every row.
    fn residuals(&self, x: &[f64], rhs: &[f64], out: &mut [f64]) {
        let (matrix, num_nodes) = (self.matrix.view(), self.matrix.diagonal.len());
        let rows = x.chunks(num_nodes).zip(rhs.chunks(num_nodes)).zip(out.chunks_mut(num_nodes));
        rows.for_each(|((x, rhs), out)| matrix.residual(x, rhs, out));
    }

    /// A^-1 of every row as the factorisation gives it, without refinement: what the moments are made of.
    ///
    /// # Shapes
    /// * `rhs` - `[count, num_nodes]`, and so is `out`
    pub(crate) fn solve_into(&self, rhs: &[f64], out: &mut [f64]) {
        match &self.single {
            Some(single) => self.arenas.single.solve(single, rhs, out),
            None => self.arenas.double.solve(self.only_double(), rhs, out),
        }
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

/// W x of every row.
fn weigh(x: &[f64], weights: &[f64], out: &mut [f64]) {
    for (x, out) in x.chunks(weights.len()).zip(out.chunks_mut(weights.len())) {
        out.iter_mut().zip(x).zip(weights).for_each(|((out, x), w)| *out = x * w);
    }
}

fn add(out: &mut [f64], change: &[f64]) {
    out.iter_mut().zip(change).for_each(|(out, change)| *out += change);
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
