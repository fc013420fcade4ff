//! The exact factorisation of a precision behind a shared reference, in the arithmetic that is exact enough.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::arenas::{Arenas, read};
use super::arithmetic::{Arithmetic, Choice, MEASURED_TOLERANCE, in_range_of_single};
use super::stencil::Stencil;
use crate::engine::{Factorization, RightHandSide, Solution, SolveScratch, StencilMatrix};
use crate::error::Result;
use crate::precision::Coupling;

/// Steps of the power iteration: the second already starts from what 32 bits get wrong.
const POWER_ITERATIONS: usize = 2;

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
        let solve = |rhs: &[f64], out: &mut [f64]| {
            let single_row = |_| RightHandSide { values: rhs, weights: None };
            let solved = self.arenas.single.solve_rows(single, 1, single_row);
            self.arenas.single.read_rows(single, solved, std::iter::once(Solution::Set(out)));
        };
        solve(&applied, &mut error);
        let norm = |x: &[f64], applied: &[f64]| x.iter().zip(applied).map(|(x, y)| x * y).sum::<f64>().sqrt();
        matrix.apply(&error, &mut applied);
        let (mut size, mut largest) = (norm(&error, &applied), 0.0_f64);
        for _ in 0..POWER_ITERATIONS {
            solve(&applied, &mut solved);
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
            self.arenas.with_field(rhs.len(), |residual| {
                self.residuals(&out, RightHandSide { values: rhs, weights: None }, residual);
                self.refine(residual, &mut out);
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
        self.arenas.with_field(diagonal.len(), |residual| {
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
                    self.refine(residual, x);
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
        let num_nodes = weights.len();
        let count = columns.len() / num_nodes;
        self.solve_into(responses, columns);
        if self.single.is_none() {
            let weighted =
                |row: usize| RightHandSide { values: row_of(columns, row, num_nodes), weights: Some(weights) };
            let solved = self.solve_rows(count, weighted);
            self.read_rows(solved, responses.chunks_mut(num_nodes).map(Solution::Set));
            return;
        }
        self.arenas.with_field(columns.len(), |residual| {
            self.residuals(columns, RightHandSide { values: responses, weights: None }, residual);
            let solved = self.solve_rows(2 * count, |row| match row.checked_sub(count) {
                None => RightHandSide { values: row_of(columns, row, num_nodes), weights: Some(weights) },
                Some(row) => RightHandSide { values: row_of(residual, row, num_nodes), weights: None },
            });
            let (out, onto) = (responses.chunks_mut(num_nodes), columns.chunks_mut(num_nodes));
            self.read_rows(solved, out.map(Solution::Set).chain(onto.map(Solution::Add)));
            self.residuals(responses, RightHandSide { values: columns, weights: Some(weights) }, residual);
            self.refine(residual, responses);
        });
    }

    /// rhs - A x of every row.
    fn residuals(&self, x: &[f64], rhs: RightHandSide<'_>, out: &mut [f64]) {
        let (matrix, num_nodes) = (self.matrix.view(), self.matrix.diagonal.len());
        let rows = x.chunks(num_nodes).zip(rhs.values.chunks(num_nodes)).zip(out.chunks_mut(num_nodes));
        match rhs.weights {
            None => rows.for_each(|((x, values), out)| matrix.residual(x, values, out)),
            Some(weights) => self.arenas.with_field(num_nodes, |weighted| {
                for ((x, values), out) in rows {
                    weighted.iter_mut().zip(values).zip(weights).for_each(|((out, x), w)| *out = x * w);
                    matrix.residual(x, weighted, out);
                }
            }),
        }
    }

    /// A^-1 of every row as the factorisation gives it, without refinement: what the moments are made of.
    ///
    /// # Shapes
    /// * `rhs` - `[count, num_nodes]`, and so is `out`
    pub(crate) fn solve_into(&self, rhs: &[f64], out: &mut [f64]) {
        let num_nodes = self.matrix.diagonal.len();
        let solved = self.solve_plain_rows(rhs);
        self.read_rows(solved, out.chunks_mut(num_nodes).map(Solution::Set));
    }

    /// Adds A^-1 of every row of residuals, as [`solve_into`](Self::solve_into) gives it.
    fn refine(&self, residuals: &[f64], out: &mut [f64]) {
        let num_nodes = self.matrix.diagonal.len();
        let solved = self.solve_plain_rows(residuals);
        self.read_rows(solved, out.chunks_mut(num_nodes).map(Solution::Add));
    }

    fn solve_plain_rows(&self, rhs: &[f64]) -> Solved {
        let num_nodes = self.matrix.diagonal.len();
        let plain = |row: usize| RightHandSide { values: row_of(rhs, row, num_nodes), weights: None };
        self.solve_rows(rhs.len() / num_nodes, plain)
    }

    fn solve_rows<'a>(&self, count: usize, rhs: impl Fn(usize) -> RightHandSide<'a> + Sync) -> Solved {
        match &self.single {
            Some(single) => Solved::Single(self.arenas.single.solve_rows(single, count, rhs)),
            None => Solved::Double(self.arenas.double.solve_rows(self.only_double(), count, rhs)),
        }
    }

    /// Takes the solutions out of the buffers and gives those back.
    fn read_rows<'a>(&self, solved: Solved, out: impl Iterator<Item = Solution<'a>>) {
        match (solved, &self.single) {
            (Solved::Single(scratch), Some(single)) => self.arenas.single.read_rows(single, scratch, out),
            (Solved::Single(_), None) => unreachable!("only a factorisation in 32 bits solves in them"),
            (Solved::Double(scratch), _) => self.arenas.double.read_rows(self.only_double(), scratch, out),
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
        Ok(read(self.double()?).log_det())
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

/// Solutions in the buffers they were computed in.
enum Solved {
    Single(SolveScratch<f32>),
    Double(SolveScratch<f64>),
}

fn row_of(rows: &[f64], row: usize, len: usize) -> &[f64] {
    &rows[row * len..][..len]
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
