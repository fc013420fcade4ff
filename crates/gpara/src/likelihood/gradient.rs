//! The chain rule from the entries of Q_g to the parameters it is made of.

use crate::engine::{Reach, StencilMatrix};
use crate::graph::{EDGE_OFFSETS, edge_mask};
use crate::grid::ValidMask;
use crate::precision::{PrecisionOrder, ResidualPrecision};

/// Derivatives of one number by the parameters of a [`ResidualPrecision`].
#[derive(Debug, Clone, PartialEq)]
pub struct PrecisionGradient {
    /// By tau.
    pub residual_precision: f64,
    /// By lambda.
    pub graph_coupling: f64,
    /// By kappa^2; 0 for a first-order precision, which has none.
    pub kappa_squared: f64,
    /// By each conductance, four maps in the order of [`EDGE_OFFSETS`]; 0 where an edge would leave the grid.
    ///
    /// The mask is not known to a precision: unless a function says otherwise, multiply by [`edge_mask`].
    pub conductances: [Vec<f64>; 4],
}

impl PrecisionGradient {
    /// The gradient of a function f with `df = sum_ij S_ij dQ_ij`, S given on the stencil of Q (G.7).
    ///
    /// First order: dQ = dtau I + dlambda L + lambda dL. Second order, K = kappa^2 I + L: dQ = dtau I + dlambda K K +
    /// lambda (dK K + K dK), so that dK meets B = S K + K S.
    pub(super) fn new(precision: &ResidualPrecision, sensitivity: &StencilMatrix) -> Self {
        let lambda = precision.graph_coupling();
        let trace = |matrix: &StencilMatrix| matrix.diagonal.iter().sum::<f64>();
        let operator = precision.operator();
        match precision.order() {
            PrecisionOrder::First => Self {
                residual_precision: trace(sensitivity),
                graph_coupling: sensitivity.inner_product(&operator),
                kappa_squared: 0.0,
                conductances: by_conductance(lambda, sensitivity),
            },
            PrecisionOrder::Second { .. } => {
                let both_sides = symmetric_product(sensitivity, &operator);
                Self {
                    residual_precision: trace(sensitivity),
                    // <S, K K> = <S K + K S, K> / 2.
                    graph_coupling: 0.5 * both_sides.inner_product(&operator),
                    kappa_squared: lambda * trace(&both_sides),
                    conductances: by_conductance(lambda, &both_sides),
                }
            }
        }
    }

    /// Sets the derivatives by edges outside the mask to 0.
    pub(super) fn mask_edges(&mut self, valid: &ValidMask) {
        for (map, allowed) in self.conductances.iter_mut().zip(edge_mask(valid)) {
            map.iter_mut().zip(allowed).filter(|(_, allowed)| !allowed).for_each(|(entry, _)| *entry = 0.0);
        }
    }
}

/// lambda <S, g g'> of every edge, with g = e_i - e_j.
fn by_conductance(lambda: f64, sensitivity: &StencilMatrix) -> [Vec<f64>; 4] {
    let grid = sensitivity.grid();
    let diagonal = &sensitivity.diagonal;
    std::array::from_fn(|direction| {
        let by_edge = |node: usize| {
            grid.neighbor(node, EDGE_OFFSETS[direction]).map_or(0.0, |other| {
                lambda * (diagonal[node] + diagonal[other] - 2.0 * sensitivity.coupling[direction][node])
            })
        };
        (0..grid.num_nodes()).map(by_edge).collect()
    })
}

/// S K + K S on the stencil of K; S of reach two holds all entries that this takes.
fn symmetric_product(sensitivity: &StencilMatrix, operator: &StencilMatrix) -> StencilMatrix {
    let grid = operator.grid();
    let mut product = StencilMatrix::zeros(grid, Reach::One);
    let rows: Vec<Vec<(usize, f64)>> = (0..grid.num_nodes()).map(|node| operator.row(node).collect()).collect();
    // (S K)_ij = sum_k S_ik K_kj.
    let half = |i: usize, j: usize| rows[j].iter().map(|&(k, value)| sensitivity.entry(i, k) * value).sum::<f64>();
    for node in 0..grid.num_nodes() {
        product.diagonal[node] = 2.0 * half(node, node);
        for (direction, &offset) in Reach::One.offsets().iter().enumerate() {
            if let Some(other) = grid.neighbor(node, offset) {
                product.coupling[direction][node] = half(node, other) + half(other, node);
            }
        }
    }
    product
}
