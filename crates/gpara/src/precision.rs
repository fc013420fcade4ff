//! The residual precision Q_g (Eq. 8) and the posterior precision A_S (Eq. 11) as sparse operators; neither is ever stored
//! as a matrix.

use std::sync::{Arc, OnceLock};

use thiserror::Error as ThisError;

use crate::engine::Reach;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::graph::{Conductances, EDGE_OFFSETS};
use crate::grid::Grid;
use crate::observations::{Observation, Observations};
use crate::solve::{Dissection, Stencil};

/// Q_g = tau I + lambda L_g, the prior precision of the residual (Eq. 8). Cloning shares the data.
#[derive(Debug, Clone)]
pub struct ResidualPrecision(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    conductances: Conductances,
    residual_precision: f64,
    graph_coupling: f64,
    /// tau + lambda d_i.
    diagonal: Vec<f64>,
    coupling: Coupling,
    /// -lambda c in the order of [`EDGE_OFFSETS`]: the off-diagonal entries, made when an iterative solver asks for them.
    entries: OnceLock<Vec<Vec<f64>>>,
    /// The elimination order depends on the grid alone, so every posterior of this graph shares it.
    dissection: OnceLock<Dissection>,
}

impl ResidualPrecision {
    /// The precision `residual_precision * I + graph_coupling * L` (tau and lambda of Eq. 8).
    ///
    /// # Errors
    /// `InvalidInput` unless `residual_precision` > 0 and `graph_coupling` >= 0, both finite.
    pub fn new(conductances: Conductances, residual_precision: f64, graph_coupling: f64) -> Result<Self> {
        if !(residual_precision.is_finite() && residual_precision > 0.0) {
            return Err(PrecisionError::ResidualPrecision { residual_precision }.into());
        }
        if !(graph_coupling.is_finite() && graph_coupling >= 0.0) {
            return Err(PrecisionError::GraphCoupling { graph_coupling }.into());
        }
        let diagonal =
            conductances.degree().iter().map(|degree| residual_precision + graph_coupling * degree).collect();
        let coupling = Coupling::new(&conductances, graph_coupling);
        let (entries, dissection) = (OnceLock::new(), OnceLock::new());
        let shared =
            Shared { conductances, residual_precision, graph_coupling, diagonal, coupling, entries, dissection };
        Ok(Self(Arc::new(shared)))
    }

    /// The grid of the nodes.
    pub fn grid(&self) -> Grid {
        self.0.conductances.grid()
    }

    /// The graph C_g.
    pub fn conductances(&self) -> &Conductances {
        &self.0.conductances
    }

    /// tau.
    pub fn residual_precision(&self) -> f64 {
        self.0.residual_precision
    }

    /// lambda.
    pub fn graph_coupling(&self) -> f64 {
        self.0.graph_coupling
    }

    /// tau + lambda d_i, `num_nodes` values.
    pub fn diagonal(&self) -> &[f64] {
        &self.0.diagonal
    }

    /// Q_g x.
    ///
    /// # Panics
    /// If `x` has another length than the grid.
    #[track_caller]
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        self.0.coupling.apply(&self.0.diagonal, x)
    }

    pub(crate) fn coupling(&self) -> &Coupling {
        &self.0.coupling
    }

    fn entries(&self) -> &[Vec<f64>] {
        self.0.entries.get_or_init(|| {
            let entries = |map: &Vec<f64>| map.iter().map(|c| -self.0.graph_coupling * c).collect();
            self.0.conductances.edges().iter().map(entries).collect()
        })
    }

    pub(crate) fn dissection(&self) -> &Dissection {
        self.0.dissection.get_or_init(|| Dissection::new(self.grid()))
    }
}

/// A_S = Q_g + H' R^-1 H = D_A - lambda C_g, the precision of the residual given the measurements (Eqs. 11, B.25).
#[derive(Debug, Clone)]
pub struct PosteriorPrecision {
    prior: ResidualPrecision,
    diagonal: Vec<f64>,
}

impl PosteriorPrecision {
    /// Adds `1 / noise_std^2` of every measurement to the diagonal of Q_g.
    ///
    /// # Errors
    /// `ShapeMismatch` if the observations belong to another grid, `InvalidInput` if a noise is so small that its inverse
    /// square overflows.
    pub fn new(prior: &ResidualPrecision, observations: &Observations) -> Result<Self> {
        if prior.grid() != observations.grid() {
            return Err(PrecisionError::Grid { graph: prior.grid(), observations: observations.grid() }.into());
        }
        let mut diagonal = prior.diagonal().to_vec();
        for observation in observations.iter() {
            let precision = observation.noise_std.powi(-2);
            if !precision.is_finite() {
                let Observation { node, noise_std, .. } = *observation;
                return Err(PrecisionError::Noise { node, noise_std }.into());
            }
            diagonal[observation.node] += precision;
        }
        Ok(Self { prior: prior.clone(), diagonal })
    }

    /// The prior part Q_g.
    pub fn prior(&self) -> &ResidualPrecision {
        &self.prior
    }

    /// D_A, the diagonal of A_S (Eq. B.25), `num_nodes` values > 0.
    pub fn precision_diagonal(&self) -> &[f64] {
        &self.diagonal
    }

    /// A_S x.
    ///
    /// # Panics
    /// If `x` has another length than the grid.
    #[track_caller]
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        self.prior.coupling().apply(&self.diagonal, x)
    }

    /// A_S as an operator of the iterative solvers.
    pub(crate) fn stencil(&self) -> Stencil<'_, f64> {
        let (grid, coupling) = (self.prior.grid(), self.prior.entries());
        Stencil { grid, reach: Reach::One, diagonal: &self.diagonal, coupling }
    }

    /// q = max_i lambda d_i / D_A,ii < 1, by which a Jacobi sweep shrinks the error in the max norm (Eq. B.27).
    pub fn contraction_bound(&self) -> f64 {
        let tau = self.prior.residual_precision();
        let ratio = |(prior, posterior): (&f64, &f64)| (prior - tau) / posterior;
        self.prior.diagonal().iter().zip(&self.diagonal).map(ratio).fold(0.0, f64::max)
    }
}

/// lambda C_g as a stencil over zero-padded vectors, so that its loops have no border cases.
///
/// A padded vector has `halo` zeros on both sides of its `num_nodes` values. An edge that would leave the grid has
/// weight 0, so where a flat offset wraps into the next row it multiplies by 0.
#[derive(Debug)]
pub(crate) struct Coupling {
    num_nodes: usize,
    halo: usize,
    /// Flat node offsets of the four directions.
    offsets: [usize; 4],
    /// lambda c, `halo` zeros in front.
    weights: [Vec<f64>; 4],
}

impl Coupling {
    fn new(conductances: &Conductances, graph_coupling: f64) -> Self {
        let grid = conductances.grid();
        let halo = grid.cols() + 1;
        let offset = |(rows, cols): (isize, isize)| grid.cols().wrapping_mul(rows as usize).wrapping_add_signed(cols);
        let padded = |map: &Vec<f64>| {
            let scaled = map.iter().map(|conductance| graph_coupling * conductance);
            std::iter::repeat_n(0.0, halo).chain(scaled).collect()
        };
        Self {
            num_nodes: grid.num_nodes(),
            halo,
            offsets: EDGE_OFFSETS.map(offset),
            weights: conductances.edges().each_ref().map(padded),
        }
    }

    /// `x` between two halos of zeros.
    #[track_caller]
    fn pad(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(x.len(), self.num_nodes, "a field needs one value a node");
        let mut padded = vec![0.0; self.num_nodes + 2 * self.halo];
        padded[self.halo..self.halo + self.num_nodes].copy_from_slice(x);
        padded
    }

    /// lambda c of edge (direction, node).
    pub(crate) fn weight(&self, direction: usize, node: usize) -> f64 {
        self.weights[direction][self.halo + node]
    }

    /// `out = lambda C_g x` for a padded `x`.
    fn multiply(&self, padded: &[f64], out: &mut [f64]) {
        let (count, halo) = (self.num_nodes, self.halo);
        // Forward: the edge stored at the node itself. Backward: the one stored at the node it comes from.
        let [w0, w1, w2, w3] = self.weights.each_ref().map(|map| &map[halo..halo + count]);
        let [x0, x1, x2, x3] = self.offsets.map(|offset| &padded[halo + offset..halo + offset + count]);
        let back = |direction: usize| {
            let start = halo - self.offsets[direction];
            (&self.weights[direction][start..start + count], &padded[start..start + count])
        };
        let [(v0, y0), (v1, y1), (v2, y2), (v3, y3)] = [back(0), back(1), back(2), back(3)];
        let out = &mut out[..count];
        for i in 0..count {
            let forward = (w0[i] * x0[i] + w1[i] * x1[i]) + (w2[i] * x2[i] + w3[i] * x3[i]);
            let backward = (v0[i] * y0[i] + v1[i] * y1[i]) + (v2[i] * y2[i] + v3[i] * y3[i]);
            out[i] = forward + backward;
        }
    }

    /// `diagonal * x - lambda C_g x`.
    #[track_caller]
    fn apply(&self, diagonal: &[f64], x: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.num_nodes];
        self.multiply(&self.pad(x), &mut out);
        out.iter_mut().zip(diagonal).zip(x).for_each(|((out, diagonal), x)| *out = diagonal * x - *out);
        out
    }
}

#[derive(Debug, ThisError)]
enum PrecisionError {
    #[error("residual precision {residual_precision} must be a finite number > 0")]
    ResidualPrecision { residual_precision: f64 },
    #[error("graph coupling {graph_coupling} must be a finite number >= 0")]
    GraphCoupling { graph_coupling: f64 },
    #[error("observations of a {observations} grid do not fit the {graph} graph")]
    Grid { graph: Grid, observations: Grid },
    #[error("noise standard deviation {noise_std:e} at node {node} is too small, it must be at least 1e-150")]
    Noise { node: usize, noise_std: f64 },
}

impl ErrorDetail for PrecisionError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::ResidualPrecision { .. } | Self::GraphCoupling { .. } | Self::Noise { .. } => ErrorKind::InvalidInput,
            Self::Grid { .. } => ErrorKind::ShapeMismatch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::ValidMask;

    fn uniform(rows: usize, cols: usize) -> Conductances {
        let valid = ValidMask::all(Grid::new(rows, cols).unwrap());
        Conductances::from_logits(&vec![0.0; 4 * rows * cols], &valid).unwrap()
    }

    #[test]
    fn laplacian_part_vanishes_on_constants() {
        for (rows, cols) in [(1, 1), (1, 6), (6, 1), (2, 1), (5, 4)] {
            let precision = ResidualPrecision::new(uniform(rows, cols), 0.25, 3.0).unwrap();
            for value in precision.apply(&vec![2.0; rows * cols]) {
                assert!((value - 0.5).abs() < 1e-13, "{rows}x{cols}");
            }
        }
    }

    #[test]
    fn settings_outside_their_range_are_refused() {
        for (tau, lambda) in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, -0.1), (1.0, f64::INFINITY)] {
            let error = ResidualPrecision::new(uniform(2, 2), tau, lambda).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{tau} {lambda}");
        }
    }

    #[test]
    fn observations_of_another_grid_are_refused() {
        let prior = ResidualPrecision::new(uniform(2, 2), 1.0, 1.0).unwrap();
        let other = Observations::none(Grid::new(2, 3).unwrap());
        assert_eq!(PosteriorPrecision::new(&prior, &other).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    }

    #[test]
    fn noise_whose_inverse_square_overflows_is_refused() {
        let prior = ResidualPrecision::new(uniform(2, 2), 1.0, 1.0).unwrap();
        let with_noise = |noise_std| {
            let mut observations = Observations::none(prior.grid());
            let row = Observation { node: 1, value: 0.0, noise_std };
            observations.add(&ValidMask::all(prior.grid()), &[row]).unwrap();
            PosteriorPrecision::new(&prior, &observations).map(|_| ())
        };
        assert_eq!(with_noise(1e-160).unwrap_err().kind(), ErrorKind::InvalidInput);
        with_noise(1e-150).unwrap();
    }

    #[test]
    fn theory_diagonal_adds_each_nodes_own_noise_b25() {
        let prior = ResidualPrecision::new(uniform(2, 2), 1.0, 0.0).unwrap();
        let mut observations = Observations::none(prior.grid());
        let rows =
            [Observation { node: 1, value: 0.0, noise_std: 0.5 }, Observation { node: 3, value: 0.0, noise_std: 0.1 }];
        observations.add(&ValidMask::all(prior.grid()), &rows).unwrap();
        let posterior = PosteriorPrecision::new(&prior, &observations).unwrap();
        for (found, expected) in posterior.precision_diagonal().iter().zip([1.0, 5.0, 1.0, 101.0]) {
            assert!((found - expected).abs() < 1e-12);
        }
    }
}
