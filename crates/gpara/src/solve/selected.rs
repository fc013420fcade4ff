//! diag(Sigma_S) by selected inversion, and diag(Sigma_S W Sigma_S) as its forward derivative.
//!
//! Along A + eps W the covariance changes by -Sigma W Sigma, so one pass that carries the derivative of every block beside
//! the block gives all numerators at once. Letters: F front, P inverse of F11, K = P F12, Z covariance on a front; a
//! leading d is the derivative.

use super::blocks::dot;
use super::dense::{Matrix, Part, Workspace};
use super::dissection::{Dissection, FrontShape};
use super::factor::{Factor, FrontFactor, each_child, scatter_add};

/// Derivatives of a [`FrontFactor`]: dP = -`inverse`, dK = `gain`.
#[derive(Debug, Default)]
struct FrontDerivative {
    /// P dF11 P.
    inverse: Matrix,
    /// dK.
    gain: Matrix,
}

/// A block of the covariance and, if asked for, of its derivative.
struct Blocks {
    covariance: Matrix,
    derivative: Option<Matrix>,
}

/// Diagonals at the pivots of one front.
#[derive(Debug, Default)]
struct PivotDiagonals {
    variance: Vec<f64>,
    numerator: Vec<f64>,
}

impl Factor {
    /// diag(A_S^-1).
    pub(crate) fn variances(&self, dissection: &Dissection) -> Vec<f64> {
        let inversion = SelectedInversion { shapes: dissection.fronts(), factors: self.fronts(), derivatives: None };
        inversion.diagonals(dissection).0
    }

    /// diag(A_S^-1) and diag(A_S^-1 W A_S^-1).
    pub(crate) fn variances_and_numerators(&self, dissection: &Dissection, weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let shapes = dissection.fronts();
        let mut derivatives: Vec<FrontDerivative> = shapes.iter().map(|_| FrontDerivative::default()).collect();
        let differentiation = Differentiation { shapes, factors: self.fronts(), weights };
        differentiation.differentiate(shapes.len() - 1, &mut derivatives, &mut Workspace::default());
        let inversion = SelectedInversion { shapes, factors: self.fronts(), derivatives: Some(&derivatives) };
        inversion.diagonals(dissection)
    }
}

struct Differentiation<'a> {
    shapes: &'a [FrontShape],
    factors: &'a [FrontFactor],
    weights: &'a [f64],
}

impl Differentiation<'_> {
    /// Differentiates the elimination of a subtree; returns the derivative of its boundary matrix.
    fn differentiate(&self, index: usize, out: &mut [FrontDerivative], workspace: &mut Workspace) -> Matrix {
        let (shape, factor) = (&self.shapes[index], &self.factors[index]);
        let (own, subtrees) = out.split_last_mut().expect("a subtree holds its own front");
        let updates = each_child(self.shapes, index, subtrees, workspace, |child, out, workspace| {
            self.differentiate(child, out, workspace)
        });
        let mut front = Matrix::zeros(shape.size(), shape.size());
        for (at, &pivot) in shape.pivots.iter().enumerate() {
            front.row_mut(at)[at] = self.weights[pivot];
        }
        for (&child, update) in shape.children.iter().zip(&updates) {
            scatter_add(&mut front, update, &self.shapes[child]);
        }
        let (pivots, boundary) = (shape.num_pivots(), shape.boundary.len());
        let block = front.block(0, 0, pivots, pivots);
        let (p, k) = (factor.inverse.view(), factor.gain.view());

        // P dF11 P.
        let mut half = Matrix::zeros(pivots, pivots);
        workspace.add_product(&mut half, 1.0, block, p, Part::Full);
        let mut inverse = Matrix::zeros(pivots, pivots);
        workspace.add_product(&mut inverse, 1.0, p, half.view(), Part::Lower);
        inverse.mirror_lower();

        // dK = P (dF12 - dF11 K).
        let mut spread = Matrix::zeros(pivots, boundary);
        workspace.add_product(&mut spread, 1.0, block, k, Part::Full);
        let mut full = Matrix::copy_of(front.block(0, pivots, pivots, boundary));
        let mut halved = full.clone();
        for ((full, halved), spread) in full.data.iter_mut().zip(&mut halved.data).zip(&spread.data) {
            *full -= spread;
            *halved -= 0.5 * spread;
        }
        let mut gain = Matrix::zeros(pivots, boundary);
        workspace.add_product(&mut gain, 1.0, p, full.view(), Part::Full);

        // dF22 - Y K - K' Y' with Y' = dF12 - dF11 K / 2: the symmetric form of the derivative of F22 - F21 P F12.
        let mut update = Matrix::copy_of(front.block(pivots, pivots, boundary, boundary));
        workspace.add_product(&mut update, -1.0, halved.view().transposed(), k, Part::Lower);
        workspace.add_product(&mut update, -1.0, k.transposed(), halved.view(), Part::Lower);
        update.mirror_lower();
        *own = FrontDerivative { inverse, gain };
        update
    }
}

struct SelectedInversion<'a> {
    shapes: &'a [FrontShape],
    factors: &'a [FrontFactor],
    derivatives: Option<&'a [FrontDerivative]>,
}

impl SelectedInversion<'_> {
    /// Variances and numerators of all nodes; the numerators are 0 without derivatives.
    fn diagonals(&self, dissection: &Dissection) -> (Vec<f64>, Vec<f64>) {
        let mut diagonals: Vec<PivotDiagonals> = self.shapes.iter().map(|_| PivotDiagonals::default()).collect();
        let nothing =
            Blocks { covariance: Matrix::zeros(0, 0), derivative: self.derivatives.map(|_| Matrix::zeros(0, 0)) };
        self.invert(self.shapes.len() - 1, &nothing, &mut diagonals, &mut Workspace::default());
        let mut variances = vec![0.0; dissection.num_nodes()];
        let mut numerators = vec![0.0; dissection.num_nodes()];
        for (shape, diagonals) in self.shapes.iter().zip(diagonals) {
            for (&pivot, variance) in shape.pivots.iter().zip(diagonals.variance) {
                variances[pivot] = variance;
            }
            for (&pivot, numerator) in shape.pivots.iter().zip(diagonals.numerator) {
                numerators[pivot] = numerator;
            }
        }
        (variances, numerators)
    }

    /// Descends a subtree, given the covariance Z22 of its boundary.
    fn invert(&self, index: usize, boundary: &Blocks, out: &mut [PivotDiagonals], workspace: &mut Workspace) {
        let shape = &self.shapes[index];
        let (own, subtrees) = out.split_last_mut().expect("a subtree holds its own front");
        let coupling = self.coupling(index, boundary, workspace);
        *own = self.pivot_diagonals(index, &coupling);
        if shape.children.is_empty() {
            return;
        }
        let front = self.front(index, boundary, coupling, workspace);
        each_child(self.shapes, index, subtrees, workspace, |child, out, workspace| {
            let child_boundary = Blocks {
                covariance: gather(&front.covariance, &self.shapes[child]),
                derivative: front.derivative.as_ref().map(|front| gather(front, &self.shapes[child])),
            };
            self.invert(child, &child_boundary, out, workspace);
        });
    }

    /// Z12 = -K Z22 and its derivative.
    fn coupling(&self, index: usize, boundary: &Blocks, workspace: &mut Workspace) -> Blocks {
        let k = &self.factors[index].gain;
        let mut covariance = Matrix::zeros(k.rows, k.cols);
        workspace.add_product(&mut covariance, -1.0, k.view(), boundary.covariance.view(), Part::Full);
        let derivative = self.derivative_of(index, boundary).map(|(own, boundary_derivative)| {
            let mut derivative = Matrix::zeros(k.rows, k.cols);
            workspace.add_product(&mut derivative, -1.0, own.gain.view(), boundary.covariance.view(), Part::Full);
            workspace.add_product(&mut derivative, -1.0, k.view(), boundary_derivative.view(), Part::Full);
            derivative
        });
        Blocks { covariance, derivative }
    }

    /// The diagonal of Z11 = P - Z12 K' and minus that of its derivative.
    fn pivot_diagonals(&self, index: usize, coupling: &Blocks) -> PivotDiagonals {
        let FrontFactor { inverse, gain } = &self.factors[index];
        let variance =
            (0..inverse.rows).map(|at| inverse.row(at)[at] - dot(coupling.covariance.row(at), gain.row(at))).collect();
        let numerator = match self.derivative_of(index, coupling) {
            None => Vec::new(),
            Some((own, derivative)) => (0..inverse.rows)
                .map(|at| {
                    let through_coupling = dot(derivative.row(at), gain.row(at));
                    own.inverse.row(at)[at] + through_coupling + dot(coupling.covariance.row(at), own.gain.row(at))
                })
                .collect(),
        };
        PivotDiagonals { variance, numerator }
    }

    /// The covariance on pivots and boundary together, and its derivative.
    fn front(&self, index: usize, boundary: &Blocks, coupling: Blocks, workspace: &mut Workspace) -> Blocks {
        let FrontFactor { inverse, gain } = &self.factors[index];
        let mut corner = inverse.clone();
        workspace.add_product(&mut corner, -1.0, coupling.covariance.view(), gain.view().transposed(), Part::Lower);
        corner.mirror_lower();
        let derivative = self.derivative_of(index, &coupling).zip(boundary.derivative.as_ref());
        let derivative = derivative.map(|((own, derivative), boundary_derivative)| {
            let mut corner = own.inverse.clone();
            corner.data.iter_mut().for_each(|value| *value = -*value);
            workspace.add_product(&mut corner, -1.0, derivative.view(), gain.view().transposed(), Part::Lower);
            let covariance = coupling.covariance.view();
            workspace.add_product(&mut corner, -1.0, covariance, own.gain.view().transposed(), Part::Lower);
            corner.mirror_lower();
            joined(&corner, derivative, boundary_derivative)
        });
        Blocks { covariance: joined(&corner, &coupling.covariance, &boundary.covariance), derivative }
    }

    /// The front's own derivative with the derivative of the given blocks, if derivatives are carried.
    fn derivative_of<'b>(&'b self, index: usize, blocks: &'b Blocks) -> Option<(&'b FrontDerivative, &'b Matrix)> {
        self.derivatives.map(|derivatives| &derivatives[index]).zip(blocks.derivative.as_ref())
    }
}

/// The symmetric matrix [corner, coupling; coupling', boundary].
fn joined(corner: &Matrix, coupling: &Matrix, boundary: &Matrix) -> Matrix {
    let (pivots, size) = (corner.rows, corner.rows + boundary.rows);
    let mut front = Matrix::zeros(size, size);
    for row in 0..pivots {
        let target = front.row_mut(row);
        target[..pivots].copy_from_slice(corner.row(row));
        target[pivots..].copy_from_slice(coupling.row(row));
    }
    let transposed = Matrix::copy_of(coupling.view().transposed());
    for row in 0..boundary.rows {
        let target = front.row_mut(pivots + row);
        target[..pivots].copy_from_slice(transposed.row(row));
        target[pivots..].copy_from_slice(boundary.row(row));
    }
    front
}

/// A child's boundary block of the parent's front.
fn gather(front: &Matrix, child: &FrontShape) -> Matrix {
    let mut block = Matrix::zeros(child.boundary.len(), child.boundary.len());
    for rows in &child.runs {
        for offset in 0..rows.len {
            let source = front.row(rows.parent_start + offset);
            let target = block.row_mut(rows.start + offset);
            for cols in &child.runs {
                let source = &source[cols.parent_start..cols.parent_start + cols.len];
                target[cols.start..cols.start + cols.len].copy_from_slice(source);
            }
        }
    }
    block
}
