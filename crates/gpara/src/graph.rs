//! The sparse graph that couples residuals: four canonical edge maps of nonnegative conductances (C.1-C.2).

mod guided;
mod predictor;

use thiserror::Error as ThisError;

pub use guided::Guided;
pub use predictor::{EdgeAware, GraphDescriptor, GraphPredictor, UniformGraph};

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::{Grid, ValidMask};

/// (row, column) offsets of the four canonical edges of a node: right, down, down-right, down-left (D in C.1).
pub const EDGE_OFFSETS: [(isize, isize); 4] = [(0, 1), (1, 0), (1, 1), (1, -1)];

/// The symmetric adjacency C_g of an 8-neighbour grid graph, each undirected edge stored once.
///
/// `edges()[k][node]` is c_ij between `node` and the node at `EDGE_OFFSETS[k]` from it. An edge that leaves the grid or
/// touches an invalid cell is exactly 0, so invalid cells are isolated nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Conductances {
    grid: Grid,
    edges: [Vec<f64>; 4],
}

impl Conductances {
    /// Conductances from edge logits (Eq. C.2): `c = mask * 2 sigmoid(z) / |offset|`.
    ///
    /// # Shapes
    /// * `logits` - `4 * num_nodes` values, one map after another in the order of [`EDGE_OFFSETS`]
    ///
    /// # Errors
    /// `ShapeMismatch` if `logits` has another length, `NonFinite` if a logit of an allowed edge is NaN.
    pub fn from_logits(logits: &[f64], valid: &ValidMask) -> Result<Self> {
        let num_nodes = valid.grid().num_nodes();
        if logits.len() != 4 * num_nodes {
            return Err(GraphError::Logits { found: logits.len(), grid: valid.grid() }.into());
        }
        Self::from_edge_function(valid, |direction, node, _| {
            2.0 * sigmoid(logits[direction * num_nodes + node]) / edge_length(direction)
        })
    }

    /// Conductances given directly, one map for each of [`EDGE_OFFSETS`].
    ///
    /// # Errors
    /// `ShapeMismatch` if a map has another length than the grid, `NonFinite` or `InvalidInput` if a conductance is not
    /// finite or negative, `InvalidInput` if an edge that leaves the grid or touches an invalid cell is not 0.
    pub fn from_edges(edges: [Vec<f64>; 4], valid: &ValidMask) -> Result<Self> {
        let grid = valid.grid();
        for (direction, map) in edges.iter().enumerate() {
            if map.len() != grid.num_nodes() {
                return Err(GraphError::Edges { direction, found: map.len(), grid }.into());
            }
            for (node, &conductance) in map.iter().enumerate() {
                check_conductance(grid, direction, node, conductance)?;
                if conductance != 0.0 && edge_end(valid, direction, node).is_none() {
                    let (row, col) = grid.row_col(node);
                    return Err(GraphError::ForbiddenEdge { direction, row, col, conductance }.into());
                }
            }
        }
        Ok(Self { grid, edges })
    }

    /// Conductances from a function of (direction, node, neighbour), asked for allowed edges only.
    fn from_edge_function(valid: &ValidMask, conductance: impl Fn(usize, usize, usize) -> f64) -> Result<Self> {
        let grid = valid.grid();
        let mut edges: [Vec<f64>; 4] = std::array::from_fn(|_| vec![0.0; grid.num_nodes()]);
        for (direction, map) in edges.iter_mut().enumerate() {
            for (node, entry) in map.iter_mut().enumerate() {
                if let Some(neighbor) = edge_end(valid, direction, node) {
                    *entry = conductance(direction, node, neighbor);
                    check_conductance(grid, direction, node, *entry)?;
                }
            }
        }
        Ok(Self { grid, edges })
    }

    /// The grid of the nodes.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The four edge maps in the order of [`EDGE_OFFSETS`], `num_nodes` values each.
    pub fn edges(&self) -> &[Vec<f64>; 4] {
        &self.edges
    }

    /// d_i = sum_j c_ij, `num_nodes` values (Eq. B.25).
    pub fn degree(&self) -> Vec<f64> {
        let mut degree = vec![0.0; self.grid.num_nodes()];
        for (direction, map) in self.edges.iter().enumerate() {
            for (node, &conductance) in map.iter().enumerate().filter(|&(_, &conductance)| conductance > 0.0) {
                degree[node] += conductance;
                let neighbor = self.grid.neighbor(node, EDGE_OFFSETS[direction]);
                degree[neighbor.expect("a positive edge stays inside the grid")] += conductance;
            }
        }
        degree
    }
}

/// Which edges are allowed: m_{i,xi} of C.2, four maps in the order of [`EDGE_OFFSETS`]; both ends must be valid cells.
pub fn edge_mask(valid: &ValidMask) -> [Vec<bool>; 4] {
    std::array::from_fn(|direction| {
        (0..valid.grid().num_nodes()).map(|node| edge_end(valid, direction, node).is_some()).collect()
    })
}

/// The other end of an edge, if both ends are valid cells of the grid.
fn edge_end(valid: &ValidMask, direction: usize, node: usize) -> Option<usize> {
    let neighbor = valid.grid().neighbor(node, EDGE_OFFSETS[direction])?;
    (valid.is_valid(node) && valid.is_valid(neighbor)).then_some(neighbor)
}

/// Euclidean length of an edge in cells.
fn edge_length(direction: usize) -> f64 {
    let (rows, cols) = EDGE_OFFSETS[direction];
    (rows as f64).hypot(cols as f64)
}

fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

fn check_conductance(grid: Grid, direction: usize, node: usize, conductance: f64) -> Result<()> {
    if conductance.is_finite() && conductance >= 0.0 {
        return Ok(());
    }
    let (row, col) = grid.row_col(node);
    Err(GraphError::Conductance { direction, row, col, conductance }.into())
}

#[derive(Debug, ThisError)]
enum GraphError {
    #[error("{found} edge logits, the grid {grid} needs 4 x {}", grid.num_nodes())]
    Logits { found: usize, grid: Grid },
    #[error("edge map {direction} has {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Edges { direction: usize, found: usize, grid: Grid },
    #[error("conductance {conductance} of edge {direction} at row {row}, col {col} must be finite and >= 0")]
    Conductance { direction: usize, row: usize, col: usize, conductance: f64 },
    #[error("edge {direction} at row {row}, col {col} leaves the valid cells, its conductance is {conductance}, not 0")]
    ForbiddenEdge { direction: usize, row: usize, col: usize, conductance: f64 },
}

impl ErrorDetail for GraphError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Logits { .. } | Self::Edges { .. } => ErrorKind::ShapeMismatch,
            Self::Conductance { conductance, .. } if !conductance.is_finite() => ErrorKind::NonFinite,
            Self::Conductance { .. } | Self::ForbiddenEdge { .. } => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::ForbiddenEdge { .. } => Some("multiply the maps by `edge_mask` first".into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked() -> ValidMask {
        let grid = Grid::new(3, 4).unwrap();
        ValidMask::new(grid, (0..12).map(|node| node != 5).collect()).unwrap()
    }

    #[test]
    fn theory_logit_zero_gives_inverse_edge_length_c2() {
        let conductances = Conductances::from_logits(&[0.0; 48], &masked()).unwrap();
        let [right, _, down_right, down_left] = conductances.edges();
        assert_eq!((right[0], right[3]), (1.0, 0.0));
        assert!((down_right[1] - 0.5f64.sqrt()).abs() < 1e-15);
        assert_eq!((down_right[0], down_left[0], down_left[2]), (0.0, 0.0, 0.0));
    }

    #[test]
    fn invalid_cell_has_degree_zero_and_degrees_count_both_ends() {
        let conductances = Conductances::from_logits(&[0.3; 48], &masked()).unwrap();
        let degree = conductances.degree();
        assert_eq!(degree[5], 0.0);
        let total: f64 = conductances.edges().iter().flatten().sum();
        assert!((degree.iter().sum::<f64>() - 2.0 * total).abs() < 1e-12);
    }

    #[test]
    fn logits_of_extreme_size_stay_finite() {
        let conductances = Conductances::from_logits(&[-1e4; 48], &masked()).unwrap();
        assert!(conductances.edges().iter().flatten().all(|&conductance| conductance == 0.0));
        let conductances = Conductances::from_logits(&[1e4; 48], &masked()).unwrap();
        assert_eq!(conductances.edges()[0][0], 2.0);
    }

    #[test]
    fn bad_edges_are_refused_by_kind() {
        let good = Conductances::from_logits(&[0.0; 48], &masked()).unwrap();
        let with = |direction: usize, node: usize, value: f64| {
            let mut edges = good.edges().clone();
            edges[direction][node] = value;
            Conductances::from_edges(edges, &masked()).unwrap_err().kind()
        };
        assert_eq!(with(0, 0, -1.0), ErrorKind::InvalidInput);
        assert_eq!(with(0, 0, f64::NAN), ErrorKind::NonFinite);
        assert_eq!(with(0, 3, 1.0), ErrorKind::InvalidInput);
        assert_eq!(with(0, 4, 1.0), ErrorKind::InvalidInput);
        assert_eq!(Conductances::from_edges(good.edges().clone(), &masked()).unwrap(), good);
        let mut nan = [0.0; 48];
        nan[0] = f64::NAN;
        assert_eq!(Conductances::from_logits(&nan, &masked()).unwrap_err().kind(), ErrorKind::NonFinite);
        assert_eq!(Conductances::from_logits(&[0.0; 47], &masked()).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    }

    #[test]
    fn edge_mask_is_false_at_borders_and_invalid_cells() {
        let mask = edge_mask(&masked());
        assert!(mask[0][0] && !mask[0][3] && !mask[0][4] && !mask[2][0] && !mask[3][0] && !mask[1][8]);
    }
}
