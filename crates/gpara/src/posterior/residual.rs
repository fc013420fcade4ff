//! The residual's own side of a posterior: eliminated system, mean and misfit before a drift enters (G.2, G.4).

use rayon::prelude::*;

use super::{MultigridPrecision, Posterior};
use crate::drift::FittedDrift;
use crate::error::Result;
use crate::observations::Observation;
use crate::solve::{Diagonal, MeanSolver, SolveInfo, Stop, Stopping, StoppingNorm};
use crate::solve::{chebyshev, jacobi, measure, pcg};

/// Relative residual from which a mean in 32 bits is refined. Without refinement the error of the mean was 1e-7 to 1e-6 of its
/// largest value where the residual was below this.
const MEAN_TOLERANCE: f64 = 1e-5;

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
    /// The mean of the residual for an innovation, one value a measurement, without drift; in 64 bits or refined to about 1e-9.
    pub(crate) fn refined_residual_mean(&self, innovation: &[f64]) -> Result<Vec<f64>> {
        Ok(self.factor()?.solve(&self.right_hand_side(innovation)))
    }

    /// The mean of the residual for an innovation, one value a measurement, without drift.
    pub(super) fn residual_mean(&self, innovation: &[f64], solver: MeanSolver) -> Result<(Vec<f64>, SolveInfo)> {
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
            MeanSolver::Exact => {
                let (mean, infos) = self.exact_means(&rhs)?;
                return Ok((mean, infos[0]));
            }
        };
        let rel_residual = self.rel_residual(&rhs, &mean);
        Ok((mean, SolveInfo { iterations, rel_residual, stop }))
    }

    /// Exact [`residual_mean`](Self::residual_mean)s of several innovations in one solve.
    pub(super) fn residual_means<'a>(
        &self,
        innovations: impl Iterator<Item = &'a [f64]>,
    ) -> Result<(Vec<f64>, Vec<SolveInfo>)> {
        let rhs: Vec<f64> = innovations.flat_map(|innovation| self.right_hand_side(innovation)).collect();
        self.exact_means(&rhs)
    }

    /// A_S^-1 of every row of f, in 32 bits refined only where the residual asks for it.
    fn exact_means(&self, rhs: &[f64]) -> Result<(Vec<f64>, Vec<SolveInfo>)> {
        let num_nodes = self.grid().num_nodes();
        let references: Vec<f64> =
            rhs.chunks(num_nodes).map(|rhs| self.residual_norm(rhs, &self.measured_alone(rhs))).collect();
        // Rounding of the mean at a cell whose noise is small is all there is of the residual at first.
        let prior = self.precision.prior().diagonal();
        let noisy = self.observations.iter().filter(|entry| !entry.is_exact());
        let stiff = noisy.filter(|entry| entry.noise_std.powi(-2) > prior[entry.node]);
        let stiff: Vec<usize> = stiff.map(|entry| entry.node).collect();
        let mut means = vec![0.0; rhs.len()];
        let mut rel_residuals = vec![0.0; references.len()];
        let matrix = self.precision.stencil();
        self.factor()?.solve_until(rhs, &mut means, &stiff, |row, residual| {
            let left = measure(matrix, residual, StoppingNorm::DiagonalInverse);
            rel_residuals[row] = if references[row] == 0.0 { 0.0 } else { left / references[row] };
            rel_residuals[row] < MEAN_TOLERANCE
        });
        let info = |&rel_residual: &f64| SolveInfo { iterations: 0, rel_residual, stop: Stop::Direct };
        Ok((means, rel_residuals.iter().map(info).collect()))
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
        let mean = self.refined_residual_mean(&innovation)?;
        let weights = self.kriging_weights(&innovation, &mean);
        misfit += weights.iter().zip(&innovation).map(|(weight, v)| weight * v).sum::<f64>();
        Ok(ResidualFit { mean, weights, misfit })
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

    /// The columns u = Sigma_S e of `nodes` and the responses Sigma_S W u, the same bits for any number of threads.
    ///
    /// # Shapes
    /// * `columns`, `responses` - `[nodes, num_nodes]`
    pub(crate) fn responses(
        &self,
        nodes: &[usize],
        weights: &[f64],
        columns: &mut [f64],
        responses: &mut [f64],
    ) -> Result<()> {
        let num_nodes = self.grid().num_nodes();
        let factor = self.factor()?;
        let group = |(nodes, (columns, responses)): (&[usize], (&mut [f64], &mut [f64]))| -> Result<()> {
            responses.fill(0.0);
            for (unit, &node) in responses.chunks_mut(num_nodes).zip(nodes) {
                unit[node] = 1.0;
            }
            if self.drift.is_some() {
                columns.copy_from_slice(&self.solve_rows(responses)?);
                for (weighted, column) in responses.chunks_mut(num_nodes).zip(columns.chunks(num_nodes)) {
                    weighted.iter_mut().zip(column).zip(weights).for_each(|((out, u), w)| *out = u * w);
                }
                responses.copy_from_slice(&self.solve_rows(responses)?);
                return Ok(());
            }
            // A node known exactly has no column; elsewhere its share of a response is 0 by itself.
            for unit in responses.chunks_mut(num_nodes) {
                self.exact_nodes().for_each(|node| unit[node] = 0.0);
            }
            factor.responses(weights, columns, responses);
            Ok(())
        };
        let share = nodes.len().div_ceil(rayon::current_num_threads()).max(1);
        let rows = columns.par_chunks_mut(share * num_nodes).zip(responses.par_chunks_mut(share * num_nodes));
        nodes.par_chunks(share).zip(rows).try_for_each(group)
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
        let mut column = vec![0.0; unit.len()];
        self.factor()?.solve_into(&unit, &mut column);
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
