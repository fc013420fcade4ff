//! The rival: supernodal sparse Cholesky of faer in a nested dissection order.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::perm::Perm;
use faer::sparse::linalg::SupernodalThreshold;
use faer::sparse::linalg::cholesky::supernodal::SupernodalLltRef;
use faer::sparse::linalg::cholesky::{CholeskySymbolicParams, LltRef, SymbolicCholesky, SymbolicCholeskyRaw};
use faer::sparse::linalg::cholesky::{SymmetricOrdering, factorize_symbolic_cholesky};
use faer::sparse::{SparseColMat, Triplet};
use faer::{Conj, MatMut, Par, Side};
use gpara::PosteriorPrecision;

use crate::grid_ordering::nested_dissection;
use crate::takahashi::LowerFactor;

/// A matrix with its symbolic factorisation and the memory of the numeric one.
pub(crate) struct Cholesky {
    matrix: SparseColMat<usize, f64>,
    symbolic: SymbolicCholesky<usize>,
    order: Vec<usize>,
    values: Vec<f64>,
    memory: MemBuffer,
}

impl Cholesky {
    /// Everything that depends on the pattern alone.
    pub(crate) fn new(precision: &PosteriorPrecision, reach: usize) -> Self {
        let grid = precision.prior().grid();
        let entries: Vec<_> =
            lower_entries(precision, reach).into_iter().map(|(i, j, v)| Triplet::new(i, j, v)).collect();
        let size = grid.num_nodes();
        let matrix = SparseColMat::try_new_from_triplets(size, size, &entries).expect("entries lie in the matrix");
        let order = nested_dissection(grid, reach);
        let mut position = vec![0; size];
        order.iter().enumerate().for_each(|(at, &node)| position[node] = at);
        let permutation = Perm::new_checked(order.clone().into(), position.into(), size);
        let parameters = CholeskySymbolicParams {
            supernodal_flop_ratio_threshold: SupernodalThreshold::FORCE_SUPERNODAL,
            ..Default::default()
        };
        let ordering = SymmetricOrdering::Custom(permutation.as_ref());
        let symbolic = factorize_symbolic_cholesky(matrix.symbolic(), Side::Lower, ordering, parameters)
            .expect("memory for the symbolic factorisation");
        let values = vec![0.0; symbolic.len_val()];
        let numeric = symbolic.factorize_numeric_llt_scratch::<f64>(Par::Seq, Default::default());
        let memory = MemBuffer::new(numeric.or(symbolic.solve_in_place_scratch::<f64>(1, Par::Seq)));
        Self { matrix, symbolic, order, values, memory }
    }

    /// The numeric factorisation.
    pub(crate) fn factor(&mut self) {
        let stack = MemStack::new(&mut self.memory);
        let regularization = Default::default();
        self.symbolic
            .factorize_numeric_llt(
                &mut self.values,
                self.matrix.as_ref(),
                Side::Lower,
                regularization,
                Par::Seq,
                stack,
                Default::default(),
            )
            .expect("a precision is positive definite");
    }

    /// A^-1 rhs after [`factor`](Self::factor).
    pub(crate) fn solve(&mut self, rhs: &[f64]) -> Vec<f64> {
        let mut solution = rhs.to_vec();
        let size = solution.len();
        let factor = LltRef::new(&self.symbolic, &self.values);
        let column = MatMut::from_column_major_slice_mut(&mut solution, size, 1);
        factor.solve_in_place_with_conj(Conj::No, column, Par::Seq, MemStack::new(&mut self.memory));
        solution
    }

    /// diag(A^-1) after [`factor`](Self::factor), by the recursion of Takahashi on the entries of L.
    pub(crate) fn variances(&self) -> Vec<f64> {
        let SymbolicCholeskyRaw::Supernodal(symbolic) = self.symbolic.raw() else {
            unreachable!("a supernodal factorisation was asked for")
        };
        let factor = SupernodalLltRef::new(symbolic, &self.values);
        let mut lower = LowerFactor::with_columns(self.order.len());
        for index in 0..symbolic.n_supernodes() {
            let supernode = factor.supernode(index);
            let (values, num_cols) = (supernode.val(), supernode.val().ncols());
            for col in 0..num_cols {
                let own = (col..num_cols).map(|row| (supernode.start() + row, values[(row, col)]));
                let below =
                    supernode.pattern().iter().enumerate().map(|(at, &row)| (row, values[(num_cols + at, col)]));
                lower.push_column(own.chain(below));
            }
        }
        let in_order = lower.inverse_diagonal();
        let mut variances = vec![0.0; in_order.len()];
        self.order.iter().zip(in_order).for_each(|(&node, value)| variances[node] = value);
        variances
    }
}

/// Entries (row, col, value) on and below the diagonal, read off products with sums of unit vectors far enough apart.
pub(crate) fn lower_entries(precision: &PosteriorPrecision, reach: usize) -> Vec<(usize, usize, f64)> {
    let grid = precision.prior().grid();
    let period = 2 * reach + 1;
    let mut entries = Vec::new();
    for colour in 0..period * period {
        let of_colour = |node: usize| {
            let (row, col) = grid.row_col(node);
            row % period * period + col % period == colour
        };
        let probe: Vec<f64> = (0..grid.num_nodes()).map(|node| f64::from(u8::from(of_colour(node)))).collect();
        let product = precision.apply(&probe);
        let reach = reach as isize;
        for node in (0..grid.num_nodes()).filter(|&node| of_colour(node)) {
            for offset in (0..=reach).flat_map(|down| (-reach..=reach).map(move |right| (down, right))) {
                // Each unordered pair once: forward offsets and the node itself.
                let forward = offset >= (0, 0);
                if let Some(other) = grid.neighbor(node, offset).filter(|&other| forward && product[other] != 0.0) {
                    entries.push((other, node, product[other]));
                }
            }
        }
    }
    entries
}
