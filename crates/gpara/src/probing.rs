//! Matrix-free estimates of covariance moments with random sign vectors (B.28-B.30), dense or one colour at a time.

use rayon::prelude::*;

use crate::grid::Grid;
use crate::posterior::Posterior;
use crate::risk::RiskWeights;
use crate::seed::SeedTree;
use crate::solve::SolveInfo;

/// `num_probes` Rademacher vectors of `num_nodes` signs (B.28); probe p of round k is the stream `probe/round{k}/{p}`.
///
/// A probe depends on its own name alone: more probes or another thread count leave the first ones as they are.
pub fn rademacher_probes(seeds: SeedTree, round: usize, num_probes: usize, num_nodes: usize) -> Vec<Vec<f64>> {
    (0..num_probes)
        .into_par_iter()
        .map(|probe| {
            let mut stream = seeds.stream(&format!("probe/round{round}/{probe}"));
            (0..num_nodes).map(|_| stream.sign()).collect()
        })
        .collect()
}

/// Which random vectors probe the covariance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    /// A sign at every cell, as in the paper (B.28).
    Rademacher,
    /// One vector for each colour of a `spacing` x `spacing` lattice of colours, with signs at the cells of that colour
    /// and 0 elsewhere: what disturbs an estimate is only the covariance with cells `spacing` and more away.
    Coloured {
        /// Distance of two cells of one colour in rows and columns; at the size of the grid the estimate is exact.
        spacing: usize,
    },
}

impl ProbeKind {
    /// Number of vectors in `draws` draws of the signs.
    pub(crate) fn num_vectors(self, draws: usize, grid: Grid) -> usize {
        match self {
            Self::Rademacher => draws,
            Self::Coloured { spacing } => draws.saturating_mul(spacing.min(grid.rows()) * spacing.min(grid.cols())),
        }
    }

    /// The vectors of `draws` draws for one round.
    pub(crate) fn vectors(self, seeds: SeedTree, round: usize, draws: usize, grid: Grid) -> Vec<Vec<f64>> {
        let signs = rademacher_probes(seeds, round, draws, grid.num_nodes());
        match self {
            Self::Rademacher => signs,
            Self::Coloured { spacing } => {
                signs.iter().flat_map(|signs| coloured_probes(signs, spacing, grid)).collect()
            }
        }
    }
}

/// `signs` split by colour, each part scaled by the root of the number of colours: then the mean of z z' over the parts has
/// the identity as its expectation, as for dense signs, and B.30-B.31 and B.35 hold as they are.
fn coloured_probes(signs: &[f64], spacing: usize, grid: Grid) -> Vec<Vec<f64>> {
    let (row_colours, col_colours) = (spacing.min(grid.rows()), spacing.min(grid.cols()));
    let scale = ((row_colours * col_colours) as f64).sqrt();
    let mut probes = vec![vec![0.0; signs.len()]; row_colours * col_colours];
    for (node, sign) in signs.iter().enumerate() {
        let (row, col) = grid.row_col(node);
        probes[row % row_colours * col_colours + col % col_colours][node] = scale * sign;
    }
    probes
}

/// Estimates from one set of probes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProbeEstimates {
    /// d_i hat = mean over probes of z_i v_i (B.31).
    pub(crate) variance_estimate: Vec<f64>,
    /// n_i hat = mean over probes of s_i^2 (B.31).
    pub(crate) numerator_estimate: Vec<f64>,
    /// s^(p), one vector a probe (B.29).
    pub(crate) weighted_probes: Vec<Vec<f64>>,
    /// What the solver did: v then s of every probe.
    pub(crate) solves: Vec<SolveInfo>,
}

/// Solves `A v = z` and `A s = W^(1/2) z` for every probe and averages (B.29-B.31).
///
/// Probes run in parallel; sums over probes are taken in their order, so the bits do not depend on the thread count.
pub(crate) fn probe_estimates(
    posterior: &Posterior,
    weights: &RiskWeights,
    probes: &[Vec<f64>],
    max_iterations: usize,
    rel_tolerance: f64,
) -> ProbeEstimates {
    let root: Vec<f64> = weights.as_slice().iter().map(|weight| weight.sqrt()).collect();
    let solve = |rhs: &[f64]| posterior.probe_solve(rhs, max_iterations, rel_tolerance);
    let solutions: Vec<_> = probes
        .par_iter()
        .map(|probe| {
            let weighted: Vec<f64> = root.iter().zip(probe).map(|(root, sign)| root * sign).collect();
            (solve(probe), solve(&weighted))
        })
        .collect();
    let (mut variance_estimate, mut numerator_estimate) = (vec![0.0; root.len()], vec![0.0; root.len()]);
    let (mut weighted_probes, mut solves) = (Vec::with_capacity(probes.len()), Vec::with_capacity(2 * probes.len()));
    for (probe, ((v, v_info), (s, s_info))) in probes.iter().zip(solutions) {
        variance_estimate.iter_mut().zip(probe).zip(&v).for_each(|((sum, z), v)| *sum += z * v);
        numerator_estimate.iter_mut().zip(&s).for_each(|(sum, s)| *sum += s * s);
        solves.extend([v_info, s_info]);
        weighted_probes.push(s);
    }
    let count = probes.len() as f64;
    variance_estimate.iter_mut().chain(&mut numerator_estimate).for_each(|sum| *sum /= count);
    ProbeEstimates { variance_estimate, numerator_estimate, weighted_probes, solves }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_signs_and_do_not_depend_on_their_number() {
        let seeds = SeedTree::new(3);
        let few = rademacher_probes(seeds, 7, 2, 50);
        let many = rademacher_probes(seeds, 7, 5, 50);
        assert_eq!(few[..], many[..2]);
        assert_ne!(many[0], many[1]);
        assert_ne!(many[0], rademacher_probes(seeds, 8, 1, 50)[0]);
        assert!(many.iter().flatten().all(|sign| sign.abs() == 1.0));
    }

    #[test]
    fn coloured_probes_split_the_signs_and_keep_their_second_moment() {
        let grid = Grid::new(5, 7).unwrap();
        let signs = &rademacher_probes(SeedTree::new(3), 0, 1, 35)[0];
        for (spacing, colours) in [(1, 1), (3, 9), (6, 30), (50, 35)] {
            let kind = ProbeKind::Coloured { spacing };
            let probes = kind.vectors(SeedTree::new(3), 0, 1, grid);
            assert_eq!((probes.len(), kind.num_vectors(1, grid)), (colours, colours), "{spacing}");
            for node in 0..35 {
                let sum: f64 = probes.iter().map(|probe| probe[node]).sum();
                let square: f64 = probes.iter().map(|probe| probe[node] * probe[node]).sum();
                assert!((sum - signs[node] * (colours as f64).sqrt()).abs() < 1e-12);
                assert!((square / colours as f64 - 1.0).abs() < 1e-12);
            }
        }
    }
}
