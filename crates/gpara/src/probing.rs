//! Matrix-free estimates of covariance moments with random sign vectors (B.28-B.30).

use rayon::prelude::*;

use crate::posterior::Posterior;
use crate::risk::RiskWeights;
use crate::seed::SeedTree;
use crate::solve::{Diagonal, SolveInfo, Stopping, StoppingNorm, pcg};

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
    let matrix = posterior.precision().stencil();
    let stopping = Stopping { max_iterations, rel_tolerance, norm: StoppingNorm::Euclidean };
    let solve = |rhs: &[f64]| {
        let mut x = vec![0.0; rhs.len()];
        let info = pcg(matrix, &mut Diagonal(matrix.diagonal), rhs, &mut x, stopping);
        (x, info)
    };
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
}
