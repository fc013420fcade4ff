//! Exact block factorisation of A_S by fronts; solves reuse it for any number of right-hand sides.

use thiserror::Error as ThisError;

use super::blocks::dot;
use super::dense::{Matrix, Part, Workspace};
use super::dissection::{Dissection, FrontShape};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::precision::PosteriorPrecision;

/// Halves with at least this many cells are worked on in parallel; smaller ones cost less than the hand-over.
pub(super) const PARALLEL_CELLS: usize = 2048;

/// What the elimination of one front leaves: the pivots' conditional covariance and their dependence on the boundary.
#[derive(Debug, Default)]
pub(super) struct FrontFactor {
    /// P = F11^-1, pivots x pivots: covariance of the pivots given all later nodes.
    pub(super) inverse: Matrix,
    /// K = F11^-1 F12, pivots x boundary: pivots = P f - K boundary.
    pub(super) gain: Matrix,
}

/// The factorisation of a posterior precision, one entry a front of the [`Dissection`].
#[derive(Debug)]
pub(crate) struct Factor {
    fronts: Vec<FrontFactor>,
}

impl Factor {
    /// Eliminates all nodes.
    ///
    /// # Errors
    /// `NotPositiveDefinite` with the node whose pivot is not positive; for a valid precision this takes an overflow or a
    /// residual precision that is lost in rounding against the couplings.
    pub(crate) fn new(precision: &PosteriorPrecision) -> Result<Self> {
        let dissection = precision.prior().dissection();
        let shapes = dissection.fronts();
        let mut fronts: Vec<FrontFactor> = shapes.iter().map(|_| FrontFactor::default()).collect();
        let elimination = Elimination { precision, shapes };
        elimination.eliminate(shapes.len() - 1, &mut fronts, &mut Workspace::default())?;
        Ok(Self { fronts })
    }

    pub(super) fn fronts(&self) -> &[FrontFactor] {
        &self.fronts
    }

    /// A_S^-1 rhs.
    pub(crate) fn solve(&self, dissection: &Dissection, rhs: &[f64]) -> Vec<f64> {
        let mut x = rhs.to_vec();
        let mut buffer = Vec::new();
        // Children first: what the pivots' right-hand side means for the boundary, f2 - K' f1.
        for (shape, factor) in dissection.fronts().iter().zip(&self.fronts) {
            buffer.clear();
            buffer.resize(shape.boundary.len(), 0.0);
            for (row, &pivot) in shape.pivots.iter().enumerate() {
                let value = x[pivot];
                buffer.iter_mut().zip(factor.gain.row(row)).for_each(|(sum, gain)| *sum += gain * value);
            }
            shape.boundary.iter().zip(&buffer).for_each(|(&node, sum)| x[node] -= sum);
        }
        // Parents first: x1 = P f1 - K x2.
        let mut boundary = Vec::new();
        for (shape, factor) in dissection.fronts().iter().zip(&self.fronts).rev() {
            buffer.clear();
            buffer.extend(shape.pivots.iter().map(|&pivot| x[pivot]));
            boundary.clear();
            boundary.extend(shape.boundary.iter().map(|&node| x[node]));
            for (row, &pivot) in shape.pivots.iter().enumerate() {
                x[pivot] = dot(factor.inverse.row(row), &buffer) - dot(factor.gain.row(row), &boundary);
            }
        }
        x
    }
}

struct Elimination<'a> {
    precision: &'a PosteriorPrecision,
    shapes: &'a [FrontShape],
}

impl Elimination<'_> {
    /// Eliminates a subtree; `out` holds its fronts. Returns what it adds to the matrix of its boundary.
    fn eliminate(&self, index: usize, out: &mut [FrontFactor], workspace: &mut Workspace) -> Result<Matrix> {
        let shape = &self.shapes[index];
        let (own, subtrees) = out.split_last_mut().expect("a subtree holds its own front");
        let updates = each_child(self.shapes, index, subtrees, workspace, |child, out, workspace| {
            self.eliminate(child, out, workspace)
        });
        let mut front = self.assemble(shape);
        for (&child, update) in shape.children.iter().zip(updates) {
            scatter_add(&mut front, &update?, &self.shapes[child]);
        }
        let (pivots, boundary) = (shape.num_pivots(), shape.boundary.len());
        let mut inverse = Matrix::copy_of(front.block(0, 0, pivots, pivots));
        workspace.invert(&mut inverse).map_err(|(at, pivot)| FactorError { node: shape.pivots[at], pivot })?;
        let coupling = front.block(0, pivots, pivots, boundary);
        let mut gain = Matrix::zeros(pivots, boundary);
        workspace.add_product(&mut gain, 1.0, inverse.view(), coupling, Part::Full);
        let mut update = Matrix::copy_of(front.block(pivots, pivots, boundary, boundary));
        workspace.add_product(&mut update, -1.0, coupling.transposed(), gain.view(), Part::Lower);
        update.mirror_lower();
        *own = FrontFactor { inverse, gain };
        Ok(update)
    }

    /// The entries of A_S that enter with this front.
    fn assemble(&self, shape: &FrontShape) -> Matrix {
        let mut front = Matrix::zeros(shape.size(), shape.size());
        let diagonal = self.precision.precision_diagonal();
        for (at, &pivot) in shape.pivots.iter().enumerate() {
            front.row_mut(at)[at] = diagonal[pivot];
        }
        let coupling = self.precision.coupling();
        for edge in &shape.edges {
            front.row_mut(edge.row)[edge.col] = -coupling.weight(edge.direction, edge.node);
        }
        front
    }
}

/// Runs `work` on the children of a front with their parts of `out`, in parallel where they are large; results in order.
pub(super) fn each_child<T: Send, R: Send>(
    shapes: &[FrontShape],
    index: usize,
    out: &mut [T],
    workspace: &mut Workspace,
    work: impl Fn(usize, &mut [T], &mut Workspace) -> R + Sync,
) -> Vec<R> {
    match shapes[index].children[..] {
        [] => Vec::new(),
        [only] => vec![work(only, out, workspace)],
        [first, second] => {
            let (first_out, second_out) = out.split_at_mut(shapes[second].first - shapes[first].first);
            if shapes[index].num_cells < PARALLEL_CELLS {
                return vec![work(first, first_out, workspace), work(second, second_out, workspace)];
            }
            let (first, second) = rayon::join(
                || work(first, first_out, workspace),
                || work(second, second_out, &mut Workspace::default()),
            );
            vec![first, second]
        }
        _ => unreachable!("a rectangle is cut in two"),
    }
}

/// Adds a child's boundary matrix to the parent's front.
pub(super) fn scatter_add(front: &mut Matrix, update: &Matrix, child: &FrontShape) {
    for rows in &child.runs {
        for offset in 0..rows.len {
            let source = update.row(rows.start + offset);
            let target = front.row_mut(rows.parent_start + offset);
            for cols in &child.runs {
                let source = &source[cols.start..cols.start + cols.len];
                let target = &mut target[cols.parent_start..cols.parent_start + cols.len];
                target.iter_mut().zip(source).for_each(|(target, source)| *target += source);
            }
        }
    }
}

#[derive(Debug, ThisError)]
#[error("the posterior precision is not positive definite: pivot {pivot} at node {node}")]
struct FactorError {
    node: usize,
    pivot: f64,
}

impl ErrorDetail for FactorError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::NotPositiveDefinite
    }

    fn hint(&self) -> Option<String> {
        Some("the residual precision is too small against the graph coupling, raise it".into())
    }
}
