//! Where uncertainty matters: the observation-set-adaptive risk weights W_k (B.32-B.34).

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::Grid;

/// The constants of B.34; the default is the paper's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RiskSettings {
    /// Baseline weight of a candidate, > 0.
    pub risk_floor: f64,
    /// Largest additional weight, >= 0.
    pub risk_span: f64,
    /// Relative variance r at which the additional weight saturates, > 0.
    pub variance_ratio_cap: f64,
    /// Smallest mean variance to divide by, in field units squared, > 0.
    pub variance_floor: f64,
}

impl Default for RiskSettings {
    fn default() -> Self {
        Self { risk_floor: 0.25, risk_span: 0.75, variance_ratio_cap: 4.0, variance_floor: 1e-8 } // Text after B.34.
    }
}

/// Mean and empirical variance of a conditioned ensemble (B.32), `num_nodes` values each.
#[derive(Debug, Clone, PartialEq)]
pub struct EnsembleMoments {
    /// Mean over the samples, in field units.
    pub mean: Vec<f64>,
    /// Variance over the samples with divisor L - 1, in field units squared.
    pub variance: Vec<f64>,
}

impl EnsembleMoments {
    /// Moments of an ensemble (B.32).
    ///
    /// # Shapes
    /// * `ensemble` - `[L, num_nodes]`
    ///
    /// # Errors
    /// `ShapeMismatch` if the length is not a multiple of the number of nodes, `InvalidInput` for fewer than two samples.
    pub fn of(ensemble: &[f64], grid: Grid) -> Result<Self> {
        let num_nodes = grid.num_nodes();
        if !ensemble.len().is_multiple_of(num_nodes) {
            return Err(RiskError::Length { name: "ensemble", found: ensemble.len(), grid }.into());
        }
        let size = ensemble.len() / num_nodes;
        if size < 2 {
            return Err(RiskError::EnsembleSize { size }.into());
        }
        let (mut mean, mut variance) = (vec![0.0; num_nodes], vec![0.0; num_nodes]);
        for sample in ensemble.chunks_exact(num_nodes) {
            mean.iter_mut().zip(sample).for_each(|(mean, value)| *mean += value);
        }
        mean.iter_mut().for_each(|mean| *mean /= size as f64);
        for sample in ensemble.chunks_exact(num_nodes) {
            let centred = variance.iter_mut().zip(sample).zip(&mean);
            centred.for_each(|((variance, value), mean)| *variance += (value - mean) * (value - mean));
        }
        variance.iter_mut().for_each(|variance| *variance /= (size - 1) as f64);
        Ok(Self { mean, variance })
    }
}

/// diag(W_k): one weight >= 0 a node, 0 outside the candidates.
#[derive(Debug, Clone, PartialEq)]
pub struct RiskWeights(Vec<f64>);

impl RiskWeights {
    /// Weights from the spread of the conditioned ensemble (B.33-B.34).
    ///
    /// `w_i = floor + span / r * clip(v_i / max(mean of v over the candidates, variance_floor), 0, r)` for a candidate,
    /// 0 elsewhere.
    ///
    /// # Errors
    /// `InvalidInput` if a setting is out of range or a candidate is outside the grid, `NonFinite` if a variance of a
    /// candidate is.
    pub fn from_variance(variance: &[f64], candidates: &[usize], settings: &RiskSettings) -> Result<Self> {
        let RiskSettings { risk_floor, risk_span, variance_ratio_cap, variance_floor } = *settings;
        let positive = risk_floor > 0.0 && variance_ratio_cap > 0.0 && variance_floor > 0.0 && risk_span >= 0.0;
        if !(positive && (risk_floor + risk_span + variance_ratio_cap + variance_floor).is_finite()) {
            return Err(RiskError::Settings { settings: *settings }.into());
        }
        check_candidates(candidates, variance.len())?;
        let mean = mean_variance(variance, candidates);
        if !mean.is_finite() {
            return Err(RiskError::NonFinite.into());
        }
        let scale = mean.max(variance_floor);
        let mut weights = vec![0.0; variance.len()];
        for &node in candidates {
            let ratio = (variance[node] / scale).clamp(0.0, variance_ratio_cap);
            weights[node] = risk_floor + risk_span / variance_ratio_cap * ratio;
        }
        Ok(Self(weights))
    }

    /// Weight 1 at every candidate: the plain trace of the covariance.
    ///
    /// # Errors
    /// `InvalidInput` if a candidate is outside the grid.
    pub fn uniform(grid: Grid, candidates: &[usize]) -> Result<Self> {
        check_candidates(candidates, grid.num_nodes())?;
        let mut weights = vec![0.0; grid.num_nodes()];
        candidates.iter().for_each(|&node| weights[node] = 1.0);
        Ok(Self(weights))
    }

    /// Weights given directly, one a node.
    ///
    /// # Errors
    /// `InvalidInput` or `NonFinite` unless every weight is finite and >= 0.
    pub fn from_values(weights: Vec<f64>) -> Result<Self> {
        match weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
            Some(node) => Err(RiskError::Weight { node, weight: weights[node] }.into()),
            None => Ok(Self(weights)),
        }
    }

    /// One weight a node.
    pub fn as_slice(&self) -> &[f64] {
        &self.0
    }

    /// tr(W Sigma) from the variances of the nodes (Eq. 14).
    ///
    /// # Panics
    /// If `variances` has another length than the weights.
    #[track_caller]
    pub fn weighted_risk(&self, variances: &[f64]) -> f64 {
        assert_eq!(self.0.len(), variances.len(), "a risk needs one variance a node");
        self.0.iter().zip(variances).map(|(weight, variance)| weight * variance).sum()
    }
}

/// The mean of the variance over the candidates, 0 without any (B.33).
pub fn mean_variance(variance: &[f64], candidates: &[usize]) -> f64 {
    candidates.iter().map(|&node| variance[node]).sum::<f64>() / candidates.len().max(1) as f64
}

/// Candidate lists are strictly increasing, so that "first" is "lowest node" everywhere ties are broken.
pub(crate) fn check_candidates(candidates: &[usize], num_nodes: usize) -> Result<()> {
    if let Some(&node) = candidates.last().filter(|&&node| node >= num_nodes) {
        return Err(RiskError::Candidate { node, num_nodes }.into());
    }
    match candidates.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(RiskError::CandidateOrder { first: pair[0], second: pair[1] }.into()),
        None => Ok(()),
    }
}

#[derive(Debug, ThisError)]
enum RiskError {
    #[error("{name} has {found} values, not a multiple of the {} cells of the grid {grid}", grid.num_nodes())]
    Length { name: &'static str, found: usize, grid: Grid },
    #[error("an ensemble of {size} samples has no variance, at least 2 are needed")]
    EnsembleSize { size: usize },
    #[error("risk settings {settings:?}: floor, ratio cap and variance floor must be > 0, span >= 0, all finite")]
    Settings { settings: RiskSettings },
    #[error("the ensemble variance is not finite at some candidate")]
    NonFinite,
    #[error("risk weight {weight} of node {node} must be finite and >= 0")]
    Weight { node: usize, weight: f64 },
    #[error("candidate {node} is outside the grid of {num_nodes} cells")]
    Candidate { node: usize, num_nodes: usize },
    #[error("candidates must be strictly increasing, {first} is followed by {second}")]
    CandidateOrder { first: usize, second: usize },
}

impl ErrorDetail for RiskError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite => ErrorKind::NonFinite,
            Self::Weight { weight, .. } if !weight.is_finite() => ErrorKind::NonFinite,
            _ => ErrorKind::InvalidInput,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theory_weights_run_from_floor_to_floor_plus_span_b34() {
        let settings = RiskSettings::default();
        // Mean over the candidates is 1, so the ratios are 0, 0.1 and 4.9; node 1 is no candidate.
        let variance = [0.0, 9.0, 0.1, 4.9, 0.0, 1.0];
        let weights = RiskWeights::from_variance(&variance, &[0, 2, 3, 4, 5], &settings).unwrap();
        let scale = 6.0 / 5.0;
        let expected = [0.25, 0.0, 0.25 + 0.1875 * 0.1 / scale, 1.0, 0.25, 0.25 + 0.1875 / scale];
        assert!((mean_variance(&variance, &[0, 2, 3, 4, 5]) - scale).abs() < 1e-15);
        for (found, expected) in weights.as_slice().iter().zip(expected) {
            assert!((found - expected).abs() < 1e-15, "{:?}", weights.as_slice());
        }
    }

    #[test]
    fn equal_samples_give_the_floor_and_no_candidates_no_weight() {
        let settings = RiskSettings::default();
        let weights = RiskWeights::from_variance(&[0.0; 3], &[0, 2], &settings).unwrap();
        assert_eq!(weights.as_slice(), [0.25, 0.0, 0.25]);
        assert_eq!(RiskWeights::from_variance(&[1.0; 3], &[], &settings).unwrap().as_slice(), [0.0; 3]);
    }

    #[test]
    fn moments_use_the_divisor_of_an_empirical_variance() {
        let moments = EnsembleMoments::of(&[0.0, 1.0, 2.0, 1.0], Grid::new(1, 2).unwrap()).unwrap();
        assert_eq!((moments.mean.as_slice(), moments.variance.as_slice()), (&[1.0, 1.0][..], &[2.0, 0.0][..]));
        let error = EnsembleMoments::of(&[0.0, 1.0], Grid::new(1, 2).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn bad_weights_settings_and_candidates_are_refused_by_kind() {
        let settings = RiskSettings { risk_floor: 0.0, ..RiskSettings::default() };
        let refused = |result: Result<RiskWeights>| result.unwrap_err().kind();
        assert_eq!(refused(RiskWeights::from_variance(&[1.0], &[0], &settings)), ErrorKind::InvalidInput);
        let settings = RiskSettings::default();
        assert_eq!(refused(RiskWeights::from_variance(&[f64::NAN], &[0], &settings)), ErrorKind::NonFinite);
        assert_eq!(refused(RiskWeights::from_variance(&[1.0], &[1], &settings)), ErrorKind::InvalidInput);
        assert_eq!(refused(RiskWeights::from_variance(&[1.0; 3], &[1, 0], &settings)), ErrorKind::InvalidInput);
        assert_eq!(refused(RiskWeights::from_values(vec![1.0, -1.0])), ErrorKind::InvalidInput);
        assert_eq!(refused(RiskWeights::from_values(vec![f64::INFINITY])), ErrorKind::NonFinite);
    }
}
