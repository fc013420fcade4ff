//! Several measurements between two refreshes: greedy choice with a penalty on overlapping responses (B.35-B.37).

mod carried;
mod fused;
mod moments;
mod sequential;
mod updates;

use thiserror::Error as ThisError;

pub use carried::CarriedMoments;
pub use moments::BatchMoments;

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::posterior::Posterior;
use crate::risk::{RiskWeights, check_candidates};
use crate::utility::UtilityMoments;

/// How redundancy inside a batch is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchRule {
    /// B.37 with the overlap estimated from the utility's probes (B.35): the paper.
    PaperKappa,
    /// B.37 with the exact overlap, two solves a pick.
    ExactKappa,
    /// After each pick the variances and numerators of all nodes are updated exactly (B.15), so the next pick sees the
    /// risk that is left; no overlap penalty is needed.
    ExactSequential,
}

/// What a batch is chosen from; nothing in it changes while the batch is built.
#[derive(Debug, Clone, Copy)]
pub struct BatchInput<'a> {
    /// The posterior before the batch.
    pub posterior: &'a Posterior,
    /// W_k.
    pub weights: &'a RiskWeights,
    /// Moments of all nodes; from probes for `PaperKappa`, exact for the other rules.
    pub moments: &'a UtilityMoments,
    /// C_k, strictly increasing nodes.
    pub candidates: &'a [usize],
    /// The analytic anchor, one value a candidate.
    pub normalized_utility: &'a [f64],
    /// The calibrated score, one value a candidate.
    pub calibrated_score: &'a [f64],
    /// Standard deviation of a prospective measurement, >= 0.
    pub noise_std: f64,
}

const OVERLAP_FLOOR: f64 = 1e-12; // B.35
const OVERLAP_PENALTY: f64 = 0.5; // B.37

/// At most `count` nodes in the order of choice; fewer if there are fewer candidates. The lowest node wins a tie.
///
/// # Errors
/// `ShapeMismatch` if scores and candidates differ in number, `NonFinite` if a score is not finite, `InvalidInput` if the
/// candidates are not increasing nodes of the grid, `Unsupported` if the moments are of the wrong sort for the rule,
/// `NotPositiveDefinite` if a factorisation breaks down.
pub fn select_batch(rule: BatchRule, input: &BatchInput<'_>, count: usize) -> Result<Vec<usize>> {
    check(rule, input)?;
    match rule {
        BatchRule::PaperKappa => {
            select_penalized(input, count, |node| Ok(probe_overlap(input.moments, input.candidates, node)))
        }
        BatchRule::ExactKappa => {
            let moments = BatchMoments::new(input.posterior, input.weights, input.moments, input.noise_std);
            select_penalized(input, count, |node| moments.overlap(input.candidates, node))
        }
        BatchRule::ExactSequential => Ok(sequential::select_sequential(input, count)?.0),
    }
}

/// [`select_batch`] by [`BatchRule::ExactSequential`], and the moments once all picks are measured: with
/// [`BatchMoments::into_moments`] they are those of the next refresh, which then needs no factorisation of its own.
///
/// # Errors
/// As [`select_batch`].
pub fn select_batch_with_moments<'a>(input: &BatchInput<'a>, count: usize) -> Result<(Vec<usize>, BatchMoments<'a>)> {
    check(BatchRule::ExactSequential, input)?;
    let (chosen, mut moments) = sequential::select_sequential(input, count)?;
    if let Some(&last) = chosen.last() {
        moments.measure(last)?;
    }
    Ok((chosen, moments))
}

/// kappa_ij hat of every candidate with `node` from the weighted probes, in [0, 1] (B.35).
///
/// # Panics
/// If a node is outside the moments.
#[track_caller]
pub fn probe_overlap(moments: &UtilityMoments, candidates: &[usize], node: usize) -> Vec<f64> {
    let num_probes = moments.weighted_probes.len() as f64;
    let norm = |node: usize| num_probes * moments.numerator_estimate[node];
    let mut products = vec![0.0; candidates.len()];
    for probe in &moments.weighted_probes {
        let at_node = probe[node];
        products.iter_mut().zip(candidates).for_each(|(sum, &candidate)| *sum += probe[candidate] * at_node);
    }
    let overlap = |(product, &candidate): (&f64, &usize)| overlap(*product, norm(candidate), norm(node));
    products.iter().zip(candidates).map(overlap).collect()
}

/// The squared cosine of two responses, from their product and norms (B.35).
fn overlap(product: f64, first_norm: f64, second_norm: f64) -> f64 {
    let (first_norm, second_norm) = (first_norm.max(OVERLAP_FLOOR), second_norm.max(OVERLAP_FLOOR));
    (product * product / (first_norm * second_norm).max(OVERLAP_FLOOR)).clamp(0.0, 1.0)
}

/// B.36-B.37: the best score minus half the score range times the overlap with what is already chosen.
fn select_penalized(
    input: &BatchInput<'_>,
    count: usize,
    overlap_with: impl Fn(usize) -> Result<Vec<f64>>,
) -> Result<Vec<usize>> {
    let scores = input.calibrated_score;
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lowest = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let score_range = (highest - lowest).max(1.0);
    let mut overlap_sum = vec![0.0; scores.len()];
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < count.min(scores.len()) {
        let penalized = |at: usize| scores[at] - OVERLAP_PENALTY * score_range * overlap_sum[at];
        let best = first_maximum((0..scores.len()).filter(|at| !chosen.contains(at)), penalized);
        chosen.push(best.expect("fewer are chosen than there are candidates"));
        // The last pick's overlap would not be used.
        if chosen.len() < count.min(scores.len()) {
            let overlap = overlap_with(input.candidates[chosen[chosen.len() - 1]])?;
            overlap_sum.iter_mut().zip(overlap).for_each(|(sum, overlap)| *sum += overlap);
        }
    }
    Ok(chosen.into_iter().map(|at| input.candidates[at]).collect())
}

/// The position of the largest score, the first of equals.
fn first_maximum(positions: impl Iterator<Item = usize>, score: impl Fn(usize) -> f64) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for at in positions {
        let value = score(at);
        if best.is_none_or(|(_, highest)| value > highest) {
            best = Some((at, value));
        }
    }
    best.map(|(at, _)| at)
}

fn check(rule: BatchRule, input: &BatchInput<'_>) -> Result<()> {
    let num_nodes = input.posterior.grid().num_nodes();
    check_candidates(input.candidates, num_nodes)?;
    check_lengths([
        ("risk weights", input.weights.as_slice().len(), num_nodes),
        ("numerator", input.moments.numerator_estimate.len(), num_nodes),
    ])?;
    check_scores(input.candidates, input.normalized_utility, input.calibrated_score)?;
    if input.moments.is_exact() == (rule == BatchRule::PaperKappa) {
        return Err(BatchError::Moments { rule }.into());
    }
    Ok(())
}

/// One finite score and one anchor a candidate.
fn check_scores(candidates: &[usize], normalized_utility: &[f64], calibrated_score: &[f64]) -> Result<()> {
    check_lengths([
        ("normalized utility", normalized_utility.len(), candidates.len()),
        ("calibrated score", calibrated_score.len(), candidates.len()),
    ])?;
    match calibrated_score.iter().position(|score| !score.is_finite()) {
        Some(at) => Err(BatchError::Score { node: candidates[at], score: calibrated_score[at] }.into()),
        None => Ok(()),
    }
}

fn check_lengths(lengths: [(&'static str, usize, usize); 2]) -> Result<()> {
    match lengths.into_iter().find(|(_, found, expected)| found != expected) {
        Some((name, found, expected)) => Err(BatchError::Length { name, found, expected }.into()),
        None => Ok(()),
    }
}

#[derive(Debug, ThisError)]
enum BatchError {
    #[error("{name} has {found} values, {expected} are needed")]
    Length { name: &'static str, found: usize, expected: usize },
    #[error("score {score} of node {node} is not a finite number")]
    Score { node: usize, score: f64 },
    #[error("batch rule {rule:?} does not fit the utility method")]
    Moments { rule: BatchRule },
}

impl ErrorDetail for BatchError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } => ErrorKind::ShapeMismatch,
            Self::Score { .. } => ErrorKind::NonFinite,
            Self::Moments { .. } => ErrorKind::Unsupported,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Moments { rule: BatchRule::PaperKappa } => Some("use it with probing, or an exact batch rule".into()),
            Self::Moments { .. } => Some("use it with exact utilities, or the paper's batch rule".into()),
            _ => None,
        }
    }
}
