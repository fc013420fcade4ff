//! The residual's own side of a posterior: eliminated system, mean and misfit before a drift enters (G.2, G.4).

use super::{MultigridPrecision, Posterior};
use crate::drift::FittedDrift;
use crate::error::Result;
use crate::observations::Observation;
use crate::solve::{Diagonal, MeanSolver, SolveInfo, Stop, Stopping, StoppingNorm};
use crate::solve::{chebyshev, jacobi, measure, pcg};

/// What a Gaussian likelihood needs of the residual at the fitted drift.
#[derive(Debug)]
pub(crate) struct ResidualFit {
    /// Posterior mean of the residual, `num_nodes` values.
    pub(crate) mean: Vec<f64>,
    /// K^-1 (v - H F b), one value a measurement.
    pub(crate) weights: Vec<f64>,
    /// (v - H F b)' K^-1 (v - H F b) + b' P b.
    pub(crate) misfit: f64,
}

impl Posterior {
    /// The mean of the residual for an innovation, one value a measurement, without drift.
    pub(crate) fn residual_mean(&self, innovation: &[f64], solver: MeanSolver) -> Result<(Vec<f64>, SolveInfo)> {
        let diagonal = self.precision.precision_diagonal();
        let rhs = self.right_hand_side(innovation);
        let matrix = self.precision.stencil();
        let (mean, iterations, stop) = match solver {
            MeanSolver::Jacobi { iterations } => (jacobi(matrix, &rhs, iterations), iterations, Stop::FixedDepth),
            MeanSolver::Chebyshev { iterations } => {
                (chebyshev(matrix, &rhs, iterations)?, iterations, Stop::FixedDepth)
            }
            MeanSolver::Pcg { max_iterations, rel_tolerance }
            | MeanSolver::Multigrid { max_iterations, rel_tolerance } => {
                let mut mean = self.measured_alone(&rhs);
                let stopping = Stopping { max_iterations, rel_tolerance, norm: StoppingNorm::DiagonalInverse };
                let info = if matches!(solver, MeanSolver::Pcg { .. }) {
                    pcg(matrix, &mut Diagonal(diagonal), &rhs, &mut mean, stopping)
                } else {
                    match self.multigrid() {
                        MultigridPrecision::Single(grids) => pcg(matrix, &mut grids.cycle(), &rhs, &mut mean, stopping),
                        MultigridPrecision::Double(grids) => pcg(matrix, &mut grids.cycle(), &rhs, &mut mean, stopping),
                    }
                };
                if info.stop != Stop::Stalled {
                    return Ok((mean, info));
                }
                (self.factor()?.solve(&rhs), info.iterations, Stop::DirectAfterStall)
            }
            MeanSolver::Exact => (self.factor()?.solve(&rhs), 0, Stop::Direct),
        };
        let rel_residual = self.rel_residual(&rhs, &mean);
        Ok((mean, SolveInfo { iterations, rel_residual, stop }))
    }

    /// Exact [`residual_mean`](Self::residual_mean)s of several innovations in one solve, one after another.
    pub(super) fn residual_means<'a>(
        &self,
        innovations: impl Iterator<Item = &'a [f64]>,
    ) -> Result<(Vec<f64>, Vec<SolveInfo>)> {
        let num_nodes = self.grid().num_nodes();
        let rhs: Vec<f64> = innovations.flat_map(|innovation| self.right_hand_side(innovation)).collect();
        let means = self.factor()?.solve(&rhs);
        let info = |(rhs, mean): (&[f64], &[f64])| {
            let rel_residual = self.rel_residual(rhs, mean);
            SolveInfo { iterations: 0, rel_residual, stop: Stop::Direct }
        };
        let infos = rhs.chunks(num_nodes).zip(means.chunks(num_nodes)).map(info).collect();
        Ok((means, infos))
    }

    /// The residual of a mean over what is left once the measured cells are set, both by [`residual_norm`](Self::residual_norm).
    fn rel_residual(&self, rhs: &[f64], mean: &[f64]) -> f64 {
        match self.residual_norm(rhs, &self.measured_alone(rhs)) {
            0.0 => 0.0,
            reference => self.residual_norm(rhs, mean) / reference,
        }
    }

    /// The solution once the measured cells alone are set: f_i / D_i there, 0 elsewhere.
    fn measured_alone(&self, rhs: &[f64]) -> Vec<f64> {
        let diagonal = self.precision.precision_diagonal();
        let mut start = vec![0.0; diagonal.len()];
        for entry in self.observations.iter() {
            start[entry.node] = rhs[entry.node] / diagonal[entry.node];
        }
        start
    }

    /// f_S = H' R^-1 v; an exact value enters as itself, and through its couplings at its neighbours (G.2).
    fn right_hand_side(&self, innovation: &[f64]) -> Vec<f64> {
        let mut known = vec![0.0; self.grid().num_nodes()];
        let mut rhs = known.clone();
        for (entry, value) in self.observations.iter().zip(innovation) {
            match entry.is_exact() {
                true => known[entry.node] = *value,
                false => rhs[entry.node] = value * entry.noise_std.powi(-2),
            }
        }
        if self.exact_nodes().next().is_some() {
            let coupled = self.precision.prior().apply(&known);
            rhs.iter_mut().zip(coupled).for_each(|(rhs, coupled)| *rhs -= coupled);
            self.exact_nodes().for_each(|node| rhs[node] = known[node]);
        }
        rhs
    }

    /// K^-1 v, one value a measurement, of the innovation v whose residual mean is m; K = H Q^-1 H' + R.
    ///
    /// `A m = H' R^-1 v` says twice the same: K^-1 v = R^-1 (v - H m) = H Q m. The first loses its digits where the noise is
    /// small and m reproduces v, the second where it is large; each measurement takes the one that suits its noise.
    pub(crate) fn kriging_weights(&self, innovation: &[f64], mean: &[f64]) -> Vec<f64> {
        let prior = self.precision.prior();
        let applied = prior.apply(mean);
        let weight = |(entry, v): (&Observation, &f64)| {
            let noise_precision = entry.noise_std.powi(-2);
            match noise_precision > prior.diagonal()[entry.node] {
                true => applied[entry.node],
                false => noise_precision * (v - mean[entry.node]),
            }
        };
        self.observations.iter().zip(innovation).map(weight).collect()
    }

    /// The residual left by the fitted drift, and its misfit.
    pub(crate) fn residual_fit(&self, prediction: &[f64]) -> Result<ResidualFit> {
        let mut innovation = self.innovation(prediction)?;
        let mut misfit = 0.0;
        if let Some(drift) = &self.drift {
            let coefficients = drift.coefficients(&innovation);
            let shift = drift.field(&coefficients);
            self.observations.iter().zip(&mut innovation).for_each(|(entry, value)| *value -= shift[entry.node]);
            misfit += drift.prior_misfit(&coefficients);
        }
        let (mean, _) = self.residual_mean(&innovation, MeanSolver::Exact)?;
        let weights = self.kriging_weights(&innovation, &mean);
        misfit += weights.iter().zip(&innovation).map(|(weight, v)| weight * v).sum::<f64>();
        Ok(ResidualFit { mean, weights, misfit })
    }

    /// Number of drift coefficients without a prior.
    pub(crate) fn num_flat_coefficients(&self) -> usize {
        self.drift.as_ref().map_or(0, FittedDrift::num_flat)
    }

    /// Nodes measured without noise.
    pub(crate) fn exact_nodes(&self) -> impl Iterator<Item = usize> + '_ {
        self.observations.iter().filter(|entry| entry.is_exact()).map(|entry| entry.node)
    }

    /// The drift, fitted to the measurements.
    pub(crate) fn drift(&self) -> Option<&FittedDrift> {
        self.drift.as_ref()
    }

    /// Sigma_S rhs without drift; 0 at nodes measured exactly.
    ///
    /// # Shapes
    /// * `rhs` - `[count, num_nodes]`, solved in one pass, and so is the result
    pub(crate) fn residual_solve(&self, rhs: &[f64]) -> Result<Vec<f64>> {
        let factor = self.factor()?;
        if self.exact_nodes().next().is_none() {
            return Ok(factor.solve(rhs));
        }
        let mut open = rhs.to_vec();
        for row in open.chunks_mut(self.grid().num_nodes()) {
            self.exact_nodes().for_each(|node| row[node] = 0.0);
        }
        Ok(factor.solve(&open))
    }

    /// Sigma_S of every row of `rhs` in one pass, the same bits as one by one.
    ///
    /// # Shapes
    /// * `rhs` - `[count, num_nodes]`, and so is the result
    pub(crate) fn solve_rows(&self, rhs: &[f64]) -> Result<Vec<f64>> {
        let mut solutions = self.residual_solve(rhs)?;
        if let Some(drift) = &self.drift {
            let num_nodes = self.grid().num_nodes();
            let rows = rhs.chunks(num_nodes).zip(solutions.chunks_mut(num_nodes));
            rows.for_each(|(rhs, solution)| drift.add_covariance_product(rhs, solution));
        }
        Ok(solutions)
    }

    /// Sigma_S rhs by conjugate gradients from 0, for a probe as right-hand side (B.29).
    pub(crate) fn probe_solve(&self, rhs: &[f64], max_iterations: usize, rel_tolerance: f64) -> (Vec<f64>, SolveInfo) {
        let (mut open, mut solution) = (rhs.to_vec(), vec![0.0; rhs.len()]);
        self.exact_nodes().for_each(|node| open[node] = 0.0);
        let matrix = self.precision.stencil();
        let stopping = Stopping { max_iterations, rel_tolerance, norm: StoppingNorm::Euclidean };
        let info = pcg(matrix, &mut Diagonal(matrix.diagonal), &open, &mut solution, stopping);
        if let Some(drift) = &self.drift {
            drift.add_covariance_product(rhs, &mut solution);
        }
        (solution, info)
    }

    /// How exact the moments are: the true residual of the column of the residual's covariance at a node, as the factorisation
    /// gives it, over that of x = 0, both by [`residual_norm`](Self::residual_norm).
    pub(crate) fn column_residual(&self, node: usize) -> Result<SolveInfo> {
        let mut unit = vec![0.0; self.grid().num_nodes()];
        unit[node] = 1.0;
        let column = self.factor()?.solve_once(&unit);
        let whole = self.precision.precision_diagonal()[node].sqrt();
        Ok(SolveInfo { iterations: 0, rel_residual: self.residual_norm(&unit, &column) * whole, stop: Stop::Direct })
    }

    /// sqrt(r' D_A^-1 r) of r = rhs - A_S x.
    fn residual_norm(&self, rhs: &[f64], x: &[f64]) -> f64 {
        let matrix = self.precision.stencil();
        let mut residual = vec![0.0; rhs.len()];
        matrix.residual(x, rhs, &mut residual);
        measure(matrix, &residual, StoppingNorm::DiagonalInverse)
    }
}
