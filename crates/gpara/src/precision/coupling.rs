//! The couplings of a symmetric stencil matrix over zero-padded vectors, so that the loops have no border cases.

use crate::engine::{Reach, StencilMatrix};
use crate::grid::Grid;

/// C of A = D - C, with D the diagonal: for a first-order precision C = lambda C_g.
///
/// A padded vector has `halo` zeros on both sides of its `num_nodes` values. An edge that would leave the grid has
/// weight 0, so where a flat offset wraps into the next row it multiplies by 0.
#[derive(Debug, Clone)]
pub(crate) struct Coupling {
    num_nodes: usize,
    halo: usize,
    reach: Reach,
    /// Flat node offsets of the forward half of the stencil.
    offsets: Vec<usize>,
    /// Minus the entries of the matrix, one map an offset, `halo` zeros in front.
    weights: Vec<Vec<f64>>,
}

impl Coupling {
    /// The couplings of a matrix.
    pub(crate) fn new(matrix: &StencilMatrix) -> Self {
        let (grid, reach) = (matrix.grid(), matrix.reach());
        let halo = reach.cells() * (grid.cols() + 1);
        // A negative flat offset belongs to a step to the left out of a narrow grid: all its weights are 0.
        let flat = |&(rows, cols): &(isize, isize)| (rows * grid.cols() as isize + cols).max(0) as usize;
        let padded =
            |map: &Vec<f64>| std::iter::repeat_n(0.0, halo).chain(map.iter().map(|entry| 0.0 - entry)).collect();
        Self {
            num_nodes: grid.num_nodes(),
            halo,
            reach,
            offsets: reach.offsets().iter().map(flat).collect(),
            weights: matrix.coupling.iter().map(padded).collect(),
        }
    }

    /// The matrix with this coupling and the given diagonal.
    pub(crate) fn matrix(&self, grid: Grid, diagonal: &[f64]) -> StencilMatrix {
        let mut matrix = StencilMatrix::zeros(grid, self.reach);
        matrix.diagonal.copy_from_slice(diagonal);
        for (map, weights) in matrix.coupling.iter_mut().zip(&self.weights) {
            map.iter_mut().zip(&weights[self.halo..]).for_each(|(entry, weight)| *entry = 0.0 - weight);
        }
        matrix
    }

    /// The coupling in which some nodes stand alone.
    pub(crate) fn without(&self, nodes: impl Iterator<Item = usize>) -> Self {
        let mut cut = self.clone();
        for node in nodes {
            for (offset, map) in self.offsets.iter().zip(&mut cut.weights) {
                map[self.halo + node] = 0.0;
                // The edge that ends here is stored at its other end, in the halo where there is none.
                map[self.halo + node - offset] = 0.0;
            }
        }
        cut
    }

    /// `x` between two halos of zeros.
    #[track_caller]
    pub(crate) fn pad(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(x.len(), self.num_nodes, "a field needs one value a node");
        let mut padded = vec![0.0; self.num_nodes + 2 * self.halo];
        self.inner_mut(&mut padded).copy_from_slice(x);
        padded
    }

    /// The values of a padded vector.
    pub(crate) fn inner<'a>(&self, padded: &'a [f64]) -> &'a [f64] {
        &padded[self.halo..self.halo + self.num_nodes]
    }

    /// The values of a padded vector.
    pub(crate) fn inner_mut<'a>(&self, padded: &'a mut [f64]) -> &'a mut [f64] {
        &mut padded[self.halo..self.halo + self.num_nodes]
    }

    /// `out = C x` for a padded `x`.
    pub(crate) fn multiply(&self, padded: &[f64], out: &mut [f64]) {
        let (count, halo) = (self.num_nodes, self.halo);
        let out = &mut out[..count];
        out.fill(0.0);
        // Four offsets a pass: as many streams as the loop keeps in registers. Both stencils have a multiple of four.
        let (offsets, _) = self.offsets.as_chunks::<4>();
        let (weights, _) = self.weights.as_chunks::<4>();
        for (offsets, weights) in offsets.iter().zip(weights) {
            // Forward: the edge stored at the node itself. Backward: the one stored at the node it comes from.
            let [w0, w1, w2, w3] = weights.each_ref().map(|map| &map[halo..halo + count]);
            let [x0, x1, x2, x3] = offsets.map(|offset| &padded[halo + offset..halo + offset + count]);
            let back = |direction: usize| {
                let start = halo - offsets[direction];
                (&weights[direction][start..start + count], &padded[start..start + count])
            };
            let [(v0, y0), (v1, y1), (v2, y2), (v3, y3)] = [back(0), back(1), back(2), back(3)];
            for i in 0..count {
                let forward = (w0[i] * x0[i] + w1[i] * x1[i]) + (w2[i] * x2[i] + w3[i] * x3[i]);
                let backward = (v0[i] * y0[i] + v1[i] * y1[i]) + (v2[i] * y2[i] + v3[i] * y3[i]);
                out[i] += forward + backward;
            }
        }
    }

    /// `diagonal * x - C x`.
    #[track_caller]
    pub(crate) fn apply(&self, diagonal: &[f64], x: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.num_nodes];
        self.multiply(&self.pad(x), &mut out);
        out.iter_mut().zip(diagonal).zip(x).for_each(|((out, diagonal), x)| *out = diagonal * x - *out);
        out
    }

    /// sum_j |C_ij| of every node.
    pub(crate) fn absolute_row_sums(&self) -> Vec<f64> {
        let mut absolute = self.clone();
        absolute.weights.iter_mut().flatten().for_each(|weight| *weight = weight.abs());
        let mut sums = vec![0.0; self.num_nodes];
        absolute.multiply(&absolute.pad(&vec![1.0; self.num_nodes]), &mut sums);
        sums
    }
}
