//! How far a window must reach: from columns of the covariance at a few cells.

use thiserror::Error as ThisError;

use super::window::Window;
use super::window_solver::{WindowSolver, WindowType};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::Grid;
use crate::posterior::Posterior;
use crate::risk::RiskWeights;
use crate::solve::Stencil;

/// Radius of the first window around a probed cell; it is doubled until the column has died out inside.
const FIRST_RADIUS: usize = 32;

/// Settings of the search for a halo.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HaloSearch {
    /// Largest share of a numerator that may come from beyond the halo, in (0, 1).
    pub tolerance: f64,
    /// Probed cells in each direction, spread evenly.
    pub probes_per_side: usize,
}

impl Default for HaloSearch {
    fn default() -> Self {
        Self { tolerance: 1e-3, probes_per_side: 3 }
    }
}

/// A halo and what it achieves at the probed cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HaloChoice {
    /// Cells beyond the core on each side.
    pub halo: usize,
    /// Largest share of n_i = sum_j w_j Sigma_ij^2 from beyond the halo, at most the tolerance.
    pub share_outside: f64,
    /// Largest relative error of the variance of a probed cell in the middle of a window of that radius, as a bound:
    /// `Sigma_ii - window's = r' Sigma r <= r'r / (smallest eigenvalue)` with r the residual of the window's column, and by
    /// Gershgorin the smallest eigenvalue is at least the smallest row excess `a_ii - sum_j |a_ij|`. `None` if that is not
    /// positive, as for a second-order precision.
    pub variance_bound: Option<f64>,
}

impl HaloSearch {
    /// The smallest halo that keeps the tolerance at all probed cells.
    ///
    /// Probed cells of weight 0 all around them say nothing and are left out.
    ///
    /// # Errors
    /// `InvalidInput` if the tolerance is not in (0, 1) or there are no probes; `ShapeMismatch` if the weights belong to
    /// another grid; `NotPositiveDefinite` if a factorisation breaks down.
    pub fn choose(self, posterior: &Posterior, weights: &RiskWeights) -> Result<HaloChoice> {
        let Self { tolerance, probes_per_side } = self;
        let (grid, weights) = (posterior.grid(), weights.as_slice());
        if !(tolerance > 0.0 && tolerance < 1.0 && probes_per_side > 0) {
            return Err(HaloError::Search { tolerance, probes_per_side }.into());
        }
        if weights.len() != grid.num_nodes() {
            return Err(HaloError::Weights { found: weights.len(), grid }.into());
        }
        let matrix = posterior.precision().stencil();
        let mut solver = WindowSolver::new(WindowType::Double);
        let nodes = spread(grid, probes_per_side);
        let shares: Vec<Vec<f64>> =
            nodes.iter().map(|&node| shares(matrix, &mut solver, weights, node, tolerance)).collect::<Result<_>>()?;
        let beyond = |shares: &[f64], halo: usize| shares.get(halo).copied().unwrap_or(0.0);
        let needed = |shares: &Vec<f64>| (0..shares.len()).find(|&halo| beyond(shares, halo) <= tolerance);
        let halo = shares.iter().map(|shares| needed(shares).unwrap_or(shares.len())).max().unwrap_or(0);
        let share_outside = shares.iter().map(|shares| beyond(shares, halo)).fold(0.0, f64::max);
        let variance_bound = variance_bound(matrix, &mut solver, &nodes, halo)?;
        Ok(HaloChoice { halo, share_outside, variance_bound })
    }
}

/// `per_side` x `per_side` nodes in the middles of equal parts of the grid.
fn spread(grid: Grid, per_side: usize) -> Vec<usize> {
    let middles = |length: usize| {
        let count = per_side.min(length);
        (0..count).map(move |part| (2 * part + 1) * length / (2 * count))
    };
    middles(grid.rows()).flat_map(|row| middles(grid.cols()).map(move |col| grid.node(row, col))).collect()
}

/// `shares[r]`: the share of n_i from cells more than r rows or columns away.
fn shares(
    matrix: Stencil<'_, f64>,
    solver: &mut WindowSolver,
    weights: &[f64],
    node: usize,
    tolerance: f64,
) -> Result<Vec<f64>> {
    let grid = matrix.grid;
    let mut radius = FIRST_RADIUS;
    loop {
        let window = Window::around(grid, node, radius);
        let column = window.column(matrix, solver, node)?;
        let mut own_weights = Vec::new();
        window.copy_field(grid, weights, &mut own_weights);
        let mut at_distance = vec![0.0; radius.min(grid.rows().max(grid.cols())) + 1];
        for (own, (value, weight)) in column.iter().zip(&own_weights).enumerate() {
            at_distance[window.distance(grid, own, node)] += weight * value * value;
        }
        let total: f64 = at_distance.iter().sum();
        let mut beyond = total;
        let shares: Vec<f64> = at_distance
            .iter()
            .map(|ring| {
                beyond -= ring;
                if total > 0.0 { (beyond / total).max(0.0) } else { 0.0 }
            })
            .collect();
        // A column that is still alive near the rim was cut: what lies outside is not counted.
        if window.covers(grid) || shares[radius * 3 / 4] <= 0.1 * tolerance {
            return Ok(shares);
        }
        radius *= 2;
    }
}

/// See [`HaloChoice::variance_bound`].
fn variance_bound(
    matrix: Stencil<'_, f64>,
    solver: &mut WindowSolver,
    nodes: &[usize],
    halo: usize,
) -> Result<Option<f64>> {
    let sums = matrix.coupling_sums();
    let excess = matrix.diagonal.iter().zip(&sums).map(|(d, sum)| d - sum).fold(f64::INFINITY, f64::min);
    if excess <= 0.0 {
        return Ok(None);
    }
    let mut bound = 0.0f64;
    for &node in nodes {
        let window = Window::around(matrix.grid, node, halo);
        let column = window.column(matrix, solver, node)?;
        let square: f64 = window.cut_residual(matrix, &column).iter().map(|(_, r)| r * r).sum();
        bound = bound.max(square / excess / column[window.own_node(matrix.grid, node)]);
    }
    Ok(Some(bound))
}

#[derive(Debug, ThisError)]
enum HaloError {
    #[error("tolerance {tolerance} with {probes_per_side} probes a side: a tolerance in (0, 1), at least one probe")]
    Search { tolerance: f64, probes_per_side: usize },
    #[error("risk weights have {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Weights { found: usize, grid: Grid },
}

impl ErrorDetail for HaloError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Search { .. } => ErrorKind::InvalidInput,
            Self::Weights { .. } => ErrorKind::ShapeMismatch,
        }
    }
}
