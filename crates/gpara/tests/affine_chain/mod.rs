//! A reverse chain with a Gaussian denoiser and unclipped corrections as dense matrices: every step is affine, so mean
//! and covariance of the output follow exactly.

use gpara::{MeanSolver, ReverseStep, Stream};

use crate::dense_oracle::Oracle;
use crate::dense_oracle::cases::Case;
use crate::dense_oracle::matrix::Dense;

/// x -> matrix x + offset.
#[derive(Clone)]
pub(crate) struct Affine {
    pub(crate) matrix: Dense,
    pub(crate) offset: Vec<f64>,
}

impl Affine {
    pub(crate) fn apply(&self, x: &[f64]) -> Vec<f64> {
        self.matrix.times(x).iter().zip(&self.offset).map(|(value, offset)| value + offset).collect()
    }

    /// `after(self(x))`.
    fn then(&self, after: &Self) -> Self {
        Self { matrix: product(&after.matrix, &self.matrix), offset: after.apply(&self.offset) }
    }
}

/// E[x0 | x_t] of N(mean, Q^-1), with the case's measurements in the condition if `sees_observations`.
pub(crate) fn denoiser(case: &Case, mean: &[f64], alpha_bar: f64, sees_observations: bool) -> Affine {
    let oracle = Oracle::new(case);
    let state_precision = alpha_bar / (1.0 - alpha_bar);
    let mut precision = if sees_observations { oracle.precision } else { oracle.prior_precision };
    for node in 0..mean.len() {
        *precision.at_mut(node, node) += state_precision;
    }
    let covariance = precision.inverse();
    let mut rhs: Vec<f64> = mean.iter().map(|mean| -state_precision * mean).collect();
    for entry in case.observations.iter().filter(|_| sees_observations) {
        rhs[entry.node] += (entry.value - mean[entry.node]) / entry.noise_std.powi(2);
    }
    let offset = covariance.times(&rhs).iter().zip(mean).map(|(value, mean)| value + mean).collect();
    Affine { matrix: scaled(&covariance, alpha_bar.sqrt() / (1.0 - alpha_bar)), offset }
}

/// x -> x + strength * m_S(x) for the exact mean or fixed-depth Jacobi (B.26).
pub(crate) fn correction(case: &Case, solver: MeanSolver, strength: f64) -> Affine {
    let oracle = Oracle::new(case);
    let size = oracle.precision.size();
    let inverse = match solver {
        MeanSolver::Exact => oracle.covariance,
        MeanSolver::Jacobi { iterations } => jacobi_operator(&oracle, case.lambda, iterations),
        MeanSolver::Chebyshev { .. } => panic!("no dense operator is written for it"),
        MeanSolver::Pcg { .. } | MeanSolver::Multigrid { .. } => {
            panic!("conjugate gradients are not linear in the right-hand side")
        }
    };
    let mut matrix = identity(size);
    let mut rhs = vec![0.0; size];
    for entry in case.observations.iter() {
        let noise_precision = entry.noise_std.powi(-2);
        rhs[entry.node] = strength * noise_precision * entry.value;
        for row in 0..size {
            *matrix.at_mut(row, entry.node) -= strength * inverse.at(row, entry.node) * noise_precision;
        }
    }
    Affine { matrix, offset: inverse.times(&rhs) }
}

/// The matrix that `iterations` sweeps of B.26 from zero apply to f.
fn jacobi_operator(oracle: &Oracle, lambda: f64, iterations: usize) -> Dense {
    let size = oracle.precision.size();
    let mut operator = Dense::zeros(size);
    for _ in 0..iterations {
        let mut next = scaled(&product(&oracle.adjacency, &operator), lambda);
        for row in 0..size {
            *next.at_mut(row, row) += 1.0;
            for col in 0..size {
                *next.at_mut(row, col) /= oracle.precision.at(row, row);
            }
        }
        operator = next;
    }
    operator
}

/// The whole chain: one map a step and the variance of its noise.
pub(crate) struct AffineChain {
    steps: Vec<(Affine, f64)>,
}

impl AffineChain {
    /// `clean(index, step)` maps a noisy state to the clean estimate the transition uses.
    pub(crate) fn new(steps: &[ReverseStep], clean: impl Fn(usize, &ReverseStep) -> Affine) -> Self {
        let transition = |(index, step): (usize, &ReverseStep)| {
            let clean = clean(index, step);
            let mut matrix = scaled(&clean.matrix, step.coefficients.clean);
            for node in 0..clean.offset.len() {
                *matrix.at_mut(node, node) += step.coefficients.noisy;
            }
            let offset = clean.offset.iter().map(|offset| step.coefficients.clean * offset).collect();
            (Affine { matrix, offset }, step.coefficients.noise_variance)
        };
        Self { steps: steps.iter().enumerate().map(transition).collect() }
    }

    /// Mean and covariance of the output for x_T ~ N(0, I).
    pub(crate) fn moments(&self) -> (Vec<f64>, Dense) {
        let size = self.steps[0].0.offset.len();
        let (mut mean, mut covariance) = (vec![0.0; size], identity(size));
        for (step, noise_variance) in &self.steps {
            mean = step.apply(&mean);
            covariance = product(&product(&step.matrix, &covariance), &transposed(&step.matrix));
            for node in 0..size {
                *covariance.at_mut(node, node) += noise_variance;
            }
        }
        (mean, covariance)
    }

    /// The output for the noise of one stream: the initial state first, then each step that has noise.
    pub(crate) fn sample(&self, stream: &mut Stream) -> Vec<f64> {
        let mut state = vec![0.0; self.steps[0].0.offset.len()];
        stream.fill_normal(&mut state);
        for (step, noise_variance) in &self.steps {
            state = step.apply(&state);
            if *noise_variance > 0.0 {
                state.iter_mut().for_each(|value| *value += noise_variance.sqrt() * stream.normal());
            }
        }
        state
    }
}

/// The clean estimate followed by a correction.
pub(crate) fn corrected(denoiser: &Affine, correction: &Affine) -> Affine {
    denoiser.then(correction)
}

/// Compares samples `[count, M]` with exact moments: every entry of the mean within `deviations` standard errors
/// `sqrt(C_ii / count)`, every entry of the covariance within as many of `sqrt((C_ii C_jj + C_ij^2) / count)`.
#[track_caller]
pub(crate) fn assert_moments(samples: &[f64], mean: &[f64], covariance: &Dense, deviations: f64) {
    let size = mean.len();
    let count = (samples.len() / size) as f64;
    // A floor for entries that are known to rounding: measured cells of nearly no noise.
    let floor = 1e-12;
    for i in 0..size {
        let found = samples.chunks_exact(size).map(|sample| sample[i]).sum::<f64>() / count;
        let error = deviations * (covariance.at(i, i) / count).sqrt() + floor;
        assert!((found - mean[i]).abs() <= error, "mean of node {i}: {found}, exact {}, allowed {error}", mean[i]);
        for j in 0..=i {
            let products = samples.chunks_exact(size).map(|sample| (sample[i] - mean[i]) * (sample[j] - mean[j]));
            let (found, exact) = (products.sum::<f64>() / count, covariance.at(i, j));
            let variance = covariance.at(i, i) * covariance.at(j, j) + exact * exact;
            let error = deviations * (variance / count).sqrt() + floor;
            assert!((found - exact).abs() <= error, "covariance of {i}, {j}: {found}, exact {exact}, allowed {error}");
        }
    }
}

pub(crate) fn identity(size: usize) -> Dense {
    let mut identity = Dense::zeros(size);
    (0..size).for_each(|node| *identity.at_mut(node, node) = 1.0);
    identity
}

fn scaled(matrix: &Dense, factor: f64) -> Dense {
    let mut out = matrix.clone();
    for row in 0..matrix.size() {
        (0..matrix.size()).for_each(|col| *out.at_mut(row, col) *= factor);
    }
    out
}

fn transposed(matrix: &Dense) -> Dense {
    let mut out = Dense::zeros(matrix.size());
    for row in 0..matrix.size() {
        (0..matrix.size()).for_each(|col| *out.at_mut(col, row) = matrix.at(row, col));
    }
    out
}

fn product(left: &Dense, right: &Dense) -> Dense {
    let mut out = Dense::zeros(left.size());
    for row in 0..left.size() {
        for inner in 0..left.size() {
            let factor = left.at(row, inner);
            (0..left.size()).for_each(|col| *out.at_mut(row, col) += factor * right.at(inner, col));
        }
    }
    out
}
