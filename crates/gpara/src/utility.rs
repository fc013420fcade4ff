//! What one more measurement is worth: the expected fall of the weighted risk (Eq. 15, Proposition 2, B.31).

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::memory::check_memory;
use crate::posterior::Posterior;
use crate::probing::{ProbeKind, probe_estimates};
use crate::risk::RiskWeights;
use crate::seed::SeedTree;
use crate::solve::SolveInfo;
use crate::tiles::Tiling;

/// How the covariance moments of the utility are obtained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UtilityMethod {
    /// Selected inversion of the factorised precision and its derivative: no sampling error.
    Exact,
    /// The exact method on overlapping windows: no sampling error, memory for one window a thread, for large grids. What
    /// is lost is the covariance across the cut, see [`Tiling`].
    Tiled {
        /// Side of the cells that a window answers for; [`Tiling::DEFAULT`] has 128.
        core: usize,
        /// Further cells on every side of them; [`Tiling::DEFAULT`] has 24.
        halo: usize,
    },
    /// Random sign probes as in the paper (B.28-B.31), or coloured ones.
    Probing {
        /// Dense signs as in the paper, or one colour at a time.
        kind: ProbeKind,
        /// P, draws of the signs; the paper uses 16 (radio) and 4 (depth). Of coloured probes every draw costs as many
        /// solves as there are colours.
        num_probes: usize,
        /// Cap on the iterations of each solve; the paper uses 24.
        max_iterations: usize,
        /// Residual of a solve relative to its right-hand side; the paper uses 1e-5.
        rel_tolerance: f64,
    },
}

const VARIANCE_FLOOR: f64 = 1e-12; // eps_d of B.31

/// Covariance moments and the utility of every node, `num_nodes` values each.
#[derive(Debug, Clone, PartialEq)]
pub struct UtilityMoments {
    /// d_i: Sigma_ii, or its estimate, which may be off or even negative for few probes.
    pub variance_estimate: Vec<f64>,
    /// n_i: (Sigma W Sigma)_ii, or its estimate.
    pub numerator_estimate: Vec<f64>,
    /// U_i = n_i / (noise_std^2 + max(d_i, 1/D_A,ii, 1e-12)) (B.31). Defined at measured nodes too, where it means
    /// measuring again; the candidate list decides who may be chosen.
    pub utility: Vec<f64>,
    /// s^(p) of every probe (B.29), for the overlap of B.35; empty without probes.
    pub weighted_probes: Vec<Vec<f64>>,
    /// What the solver did, two entries a probe. For [`UtilityMethod::Tiled`] one entry: the largest true residual of the
    /// columns Sigma e_i at corners of cores, where the cut is nearest, in the norm weighted by 1/D_A. For
    /// [`UtilityMethod::Exact`] one entry: the same of the column at the node with the largest d_i D_A,ii, as the factorisation
    /// gives it.
    pub solves: Vec<SolveInfo>,
}

impl UtilityMoments {
    /// Moments and utilities by `method`; `seeds` and `round` name the probes and are not used by the exact method.
    ///
    /// # Shapes
    /// * `noise_std` - standard deviation of the prospective measurement, >= 0, in field units
    ///
    /// # Errors
    /// `ShapeMismatch` if the weights belong to another grid; `InvalidInput` if the noise is negative or there are no
    /// probes, iterations or tolerance, or a core or spacing is 0; `OutOfMemory` if there is too little of it;
    /// `NotPositiveDefinite` if the factorisation breaks down.
    pub fn compute(
        posterior: &Posterior,
        weights: &RiskWeights,
        noise_std: f64,
        method: UtilityMethod,
        seeds: SeedTree,
        round: usize,
    ) -> Result<Self> {
        match method {
            UtilityMethod::Exact => Self::exact(posterior, weights, noise_std),
            UtilityMethod::Tiled { core, halo } => Self::tiled(posterior, weights, noise_std, Tiling::new(core, halo)?),
            UtilityMethod::Probing { kind, num_probes, max_iterations, rel_tolerance } => {
                if kind == (ProbeKind::Coloured { spacing: 0 }) {
                    return Err(UtilityError::Spacing.into());
                }
                let grid = posterior.grid();
                // Probe, v and s of every vector are kept until the averages are taken.
                let values = kind.num_vectors(num_probes, grid) as u64 * 3 * grid.num_nodes() as u64;
                check_memory("probing", values * size_of::<f64>() as u64, "use fewer probes or tiles")?;
                let probes = kind.vectors(seeds, round, num_probes, grid);
                Self::from_probes(posterior, weights, noise_std, &probes, max_iterations, rel_tolerance)
            }
        }
    }

    /// Exact moments and utilities (Eq. 15).
    ///
    /// # Errors
    /// As [`compute`](Self::compute).
    pub fn exact(posterior: &Posterior, weights: &RiskWeights, noise_std: f64) -> Result<Self> {
        check_noise(noise_std)?;
        let (variance_estimate, numerator_estimate) = posterior.variances_and_numerators(weights)?;
        let utility = utilities(posterior, &variance_estimate, &numerator_estimate, noise_std);
        // The node that its neighbours bind most, by d_i A_ii, has the longest column, which rounding harms most.
        let diagonal = posterior.precision().precision_diagonal();
        let bound = |node: usize| variance_estimate[node] * diagonal[node];
        let longest = (0..utility.len()).max_by(|&a, &b| bound(a).total_cmp(&bound(b)));
        let solves = longest.map(|node| posterior.column_residual(node)).transpose()?.into_iter().collect();
        Ok(Self { variance_estimate, numerator_estimate, utility, weighted_probes: Vec::new(), solves })
    }

    /// Moments and utilities by exact windows.
    fn tiled(posterior: &Posterior, weights: &RiskWeights, noise_std: f64, tiling: Tiling) -> Result<Self> {
        check_noise(noise_std)?;
        let (variance_estimate, numerator_estimate) = tiling.variances_and_numerators(posterior, weights)?;
        let utility = utilities(posterior, &variance_estimate, &numerator_estimate, noise_std);
        let solves = vec![tiling.cut_residual(posterior)?];
        Ok(Self { variance_estimate, numerator_estimate, utility, weighted_probes: Vec::new(), solves })
    }

    /// Estimates from given probes (B.29-B.31).
    ///
    /// Unbiased in d and n for exact solves; the utility is a ratio of estimates and biased for few probes, so it is a
    /// ranking score.
    ///
    /// # Errors
    /// As [`compute`](Self::compute); `ShapeMismatch` if a probe has another length than the grid.
    pub fn from_probes(
        posterior: &Posterior,
        weights: &RiskWeights,
        noise_std: f64,
        probes: &[Vec<f64>],
        max_iterations: usize,
        rel_tolerance: f64,
    ) -> Result<Self> {
        check_noise(noise_std)?;
        let num_nodes = posterior.grid().num_nodes();
        if probes.is_empty() || max_iterations == 0 || !(rel_tolerance.is_finite() && rel_tolerance >= 0.0) {
            let num_probes = probes.len();
            return Err(UtilityError::Probing { num_probes, max_iterations, rel_tolerance }.into());
        }
        for (name, found) in
            probes.iter().map(|probe| ("probe", probe.len())).chain([("risk weights", weights.as_slice().len())])
        {
            if found != num_nodes {
                return Err(UtilityError::Length { name, found, num_nodes }.into());
            }
        }
        let estimates = probe_estimates(posterior, weights, probes, max_iterations, rel_tolerance);
        let utility = utilities(posterior, &estimates.variance_estimate, &estimates.numerator_estimate, noise_std);
        Ok(Self {
            variance_estimate: estimates.variance_estimate,
            numerator_estimate: estimates.numerator_estimate,
            utility,
            weighted_probes: estimates.weighted_probes,
            solves: estimates.solves,
        })
    }

    /// Whether the moments are free of sampling error, i.e. not estimated from probes.
    pub fn is_exact(&self) -> bool {
        self.weighted_probes.is_empty()
    }

    /// l_i = d_i^2 / (noise_std^2 + d_i): the variance that a measurement removes at its own node (Eq. 15); 0 at a node
    /// known exactly.
    pub fn local_reducibility(&self, noise_std: f64) -> Vec<f64> {
        let removed = |variance: f64| variance * variance / (noise_std * noise_std + variance);
        self.variance_estimate.iter().map(|&d| if d == 0.0 { 0.0 } else { removed(d) }).collect()
    }

    /// g_i = n_i / d_i^2: how far the weighted effect of a measurement reaches beyond its own node (Eq. 15); 0 at a
    /// node known exactly.
    pub fn response_reach(&self) -> Vec<f64> {
        let pairs = self.numerator_estimate.iter().zip(&self.variance_estimate);
        pairs.map(|(n, d)| if *d == 0.0 { 0.0 } else { n / (d * d) }).collect()
    }
}

/// U_i of B.31. The floor 1/D_A is valid for any covariance: Sigma_ii >= 1/A_ii.
fn utilities(posterior: &Posterior, variance: &[f64], numerator: &[f64], noise_std: f64) -> Vec<f64> {
    let diagonal = posterior.precision().precision_diagonal();
    let nodes = numerator.iter().zip(variance).zip(diagonal);
    nodes.map(|((n, d), a)| n / (noise_std * noise_std + d.max(1.0 / a).max(VARIANCE_FLOOR))).collect()
}

fn check_noise(noise_std: f64) -> Result<()> {
    if noise_std.is_finite() && noise_std >= 0.0 { Ok(()) } else { Err(UtilityError::Noise { noise_std }.into()) }
}

#[derive(Debug, ThisError)]
enum UtilityError {
    #[error("noise standard deviation {noise_std} of a candidate must be a finite number >= 0")]
    Noise { noise_std: f64 },
    #[error(
        "{num_probes} probes, {max_iterations} iterations, tolerance {rel_tolerance}: at least one probe and one \
         iteration, a finite tolerance >= 0"
    )]
    Probing { num_probes: usize, max_iterations: usize, rel_tolerance: f64 },
    #[error("spacing 0 of coloured probes is not allowed: at least 1")]
    Spacing,
    #[error("{name} has {found} values, the grid has {num_nodes} cells")]
    Length { name: &'static str, found: usize, num_nodes: usize },
}

impl ErrorDetail for UtilityError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Noise { .. } | Self::Probing { .. } | Self::Spacing => ErrorKind::InvalidInput,
            Self::Length { .. } => ErrorKind::ShapeMismatch,
        }
    }
}
