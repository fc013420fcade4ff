//! The analytic anchor and its bounded calibration by a scorer (Sec. 3.2, C.3, C.10-C.11, Lemma of B.24).

use thiserror::Error as ThisError;

use crate::context::Context;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::posterior::Posterior;
use crate::risk::{EnsembleMoments, RiskWeights};
use crate::utility::UtilityMoments;

/// Everything known at a refresh, z_S in the paper: what a [`Scorer`] may look at.
#[derive(Debug, Clone, Copy)]
pub struct AcquisitionState<'a> {
    /// The scene.
    pub context: &'a Context,
    /// The graph posterior, with the measurements so far.
    pub posterior: &'a Posterior,
    /// Mean and variance of the conditioned ensemble (B.32).
    pub ensemble: &'a EnsembleMoments,
    /// W_k.
    pub weights: &'a RiskWeights,
    /// Variances, numerators and utilities of all nodes.
    pub moments: &'a UtilityMoments,
    /// C_k: nodes that may be measured, strictly increasing.
    pub candidates: &'a [usize],
    /// The analytic anchor, one value a candidate (C.11).
    pub normalized_utility: &'a [f64],
    /// Gamma, the number of measurements allowed in total.
    pub budget: usize,
    /// How many of them are left.
    pub remaining: usize,
}

/// A correction to the analytic score: a network, or nothing.
pub trait Scorer: Send + Sync {
    /// A name for reports.
    fn name(&self) -> &str;

    /// Whether the score stands for itself instead of shifting the anchor: the unbounded ablation of the paper.
    fn replaces_anchor(&self) -> bool {
        false
    }

    /// r_psi, one raw score a candidate; [`calibrated_score`] bounds it, unless it [replaces](Self::replaces_anchor) the
    /// anchor.
    ///
    /// # Errors
    /// `Incompatible` or `NonFinite` if the scorer does not fit the scene or returns a NaN.
    fn residual_score(&self, state: &AcquisitionState<'_>) -> Result<Vec<f64>>;
}

/// The scorer that leaves the analytic anchor as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ZeroScorer;

impl Scorer for ZeroScorer {
    fn name(&self) -> &str {
        "zero"
    }

    fn residual_score(&self, state: &AcquisitionState<'_>) -> Result<Vec<f64>> {
        Ok(vec![0.0; state.candidates.len()])
    }
}

pub(crate) const UTILITY_FLOOR: f64 = 1e-12; // C.11
const DEVIATION_FLOOR: f64 = 1e-6; // C.10

/// The z-score over the candidates of the log utility (C.10-C.11); population standard deviation.
///
/// # Shapes
/// * `utility` - `num_nodes` values
/// * returns `candidates.len()` values in the order of `candidates`
///
/// # Panics
/// If a candidate is outside `utility`.
#[track_caller]
pub fn normalized_utility(utility: &[f64], candidates: &[usize]) -> Vec<f64> {
    let log: Vec<f64> = candidates.iter().map(|&node| utility[node].max(UTILITY_FLOOR).ln()).collect();
    let count = log.len().max(1) as f64;
    let mean = log.iter().sum::<f64>() / count;
    let variance = log.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    let deviation = variance.sqrt().max(DEVIATION_FLOOR);
    log.iter().map(|value| (value - mean) / deviation).collect()
}

/// The anchor plus `score_bound * tanh(residual_score)` (calibrated score of Sec. 3.2): never further from it than the
/// bound.
///
/// # Errors
/// `ShapeMismatch` if the two lengths differ, `NonFinite` if a raw score is NaN, `InvalidInput` unless `score_bound` is
/// finite and >= 0.
pub fn calibrated_score(normalized_utility: &[f64], residual_score: &[f64], score_bound: f64) -> Result<Vec<f64>> {
    if normalized_utility.len() != residual_score.len() {
        let (found, candidates) = (residual_score.len(), normalized_utility.len());
        return Err(ScorerError::Length { found, candidates }.into());
    }
    if !(score_bound.is_finite() && score_bound >= 0.0) {
        return Err(ScorerError::Bound { score_bound }.into());
    }
    if let Some(candidate) = residual_score.iter().position(|score| score.is_nan()) {
        return Err(ScorerError::NotANumber { candidate }.into());
    }
    let pairs = normalized_utility.iter().zip(residual_score);
    Ok(pairs.map(|(anchor, score)| anchor + score_bound * score.tanh()).collect())
}

/// The raw score in place of the anchor.
///
/// # Errors
/// `ShapeMismatch` if the two lengths differ, `NonFinite` if a raw score is NaN.
pub(crate) fn direct_score(normalized_utility: &[f64], raw: Vec<f64>) -> Result<Vec<f64>> {
    // Same checks as for a bounded shift; a bound of 0 shifts nothing.
    calibrated_score(normalized_utility, &raw, 0.0)?;
    Ok(raw)
}

#[derive(Debug, ThisError)]
enum ScorerError {
    #[error("the scorer returned {found} scores for {candidates} candidates")]
    Length { found: usize, candidates: usize },
    #[error("score bound {score_bound} must be finite and >= 0")]
    Bound { score_bound: f64 },
    #[error("the scorer returned NaN for candidate {candidate}")]
    NotANumber { candidate: usize },
}

impl ErrorDetail for ScorerError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::Bound { .. } => ErrorKind::InvalidInput,
            Self::NotANumber { .. } => ErrorKind::NonFinite,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argmax(scores: &[f64]) -> usize {
        (0..scores.len()).rev().max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap()
    }

    #[test]
    fn normalized_utility_has_mean_zero_and_population_deviation_one() {
        let scores = normalized_utility(&[1.0, 99.0, 0.1, 10.0, 0.0], &[0, 2, 3]);
        let root = 1.5f64.sqrt();
        for (found, expected) in scores.iter().zip([0.0, -root, root]) {
            assert!((found - expected).abs() < 1e-14);
        }
    }

    #[test]
    fn equal_or_zero_utilities_stay_finite() {
        assert_eq!(normalized_utility(&[3.0; 4], &[0, 1, 3]), [0.0; 3]);
        assert!(normalized_utility(&[0.0, 1.0], &[0, 1]).iter().all(|score| score.is_finite()));
        assert!(normalized_utility(&[1.0], &[]).is_empty());
    }

    #[test]
    fn zero_residual_score_returns_the_anchor_exactly() {
        let anchor = [0.3, -1.2, 2.0];
        assert_eq!(calibrated_score(&anchor, &[0.0; 3], 0.5).unwrap(), anchor);
    }

    #[test]
    fn theory_departure_from_the_anchor_is_bounded_b24() {
        let bound = 0.35;
        let mut stream = crate::seed::SeedTree::new(4).stream("scores");
        for _ in 0..500 {
            let anchor: Vec<f64> = (0..12).map(|_| stream.normal()).collect();
            let raw: Vec<f64> = (0..12).map(|_| 5.0 * stream.normal()).collect();
            let scores = calibrated_score(&anchor, &raw, bound).unwrap();
            assert!(scores.iter().zip(&anchor).all(|(score, anchor)| (score - anchor).abs() <= bound));
            let (best, chosen) = (argmax(&anchor), argmax(&scores));
            let loss = anchor[best] - anchor[chosen];
            assert!((0.0..=2.0 * bound).contains(&loss));
            let runner_up = (0..12).filter(|&at| at != best).map(|at| anchor[at]).fold(f64::MIN, f64::max);
            assert!(anchor[best] - runner_up <= 2.0 * bound || chosen == best);
        }
    }

    #[test]
    fn bad_scores_are_refused_by_kind() {
        let refused = |raw: &[f64], bound| calibrated_score(&[0.0, 1.0], raw, bound).unwrap_err().kind();
        assert_eq!(refused(&[0.0], 0.1), ErrorKind::ShapeMismatch);
        assert_eq!(refused(&[0.0, f64::NAN], 0.1), ErrorKind::NonFinite);
        assert_eq!(refused(&[0.0, 0.0], -0.1), ErrorKind::InvalidInput);
    }

    #[test]
    fn direct_score_stands_for_itself_and_is_checked_alike() {
        assert_eq!(direct_score(&[0.5, -0.5], vec![7.0, 9.0]).unwrap(), [7.0, 9.0]);
        assert_eq!(direct_score(&[0.5, -0.5], vec![7.0]).unwrap_err().kind(), ErrorKind::ShapeMismatch);
        assert_eq!(direct_score(&[0.5], vec![f64::NAN]).unwrap_err().kind(), ErrorKind::NonFinite);
    }
}
