//! What is believed of the field after some measurements, for an acquisition that looks at more than the graph: an estimate,
//! how wrong each cell of it may be, and how those errors go together.

use std::sync::Arc;

use thiserror::Error as ThisError;

use crate::context::Context;
use crate::discrepancy::{Discrepancy, DiscrepancyRule};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::graph::{GraphDescriptor, GraphPredictor};
use crate::layout::measurement_spacing;
use crate::mean::MeanPredictor;
use crate::observations::Observations;
use crate::posterior::Posterior;
use crate::precision::{PrecisionScale, ResidualPrecision};
use crate::spread::SpreadPredictor;

/// An estimate with the law of its error.
#[derive(Debug, Clone)]
pub struct Belief {
    /// The estimate, `num_nodes` normalised values.
    pub mean: Vec<f64>,
    /// Standard deviation of its error in every cell.
    pub std: Vec<f64>,
    /// How errors over their standard deviation go together.
    pub precision: ResidualPrecision,
}

/// Makes a belief of measurements.
pub trait BeliefModel: Send + Sync {
    /// The belief after these measurements; same inputs, same bits.
    ///
    /// # Errors
    /// Those of the networks.
    fn believe(&self, context: &Context, observations: &Observations) -> Result<Belief>;

    /// Network evaluations of one belief.
    fn network_calls(&self) -> u64;
}

/// Where the coupling of errors comes from.
#[derive(Clone)]
pub enum ErrorCoupling {
    /// The same whatever is measured.
    Fixed(ResidualPrecision),
    /// Predicted from the estimate, its spread and the number of measurements.
    Predicted(Arc<dyn GraphPredictor>, PrecisionScale),
}

/// A belief from a mean network, its spread network and a graph.
pub struct NetworkBelief {
    mean: Arc<dyn MeanPredictor>,
    spread: Arc<dyn SpreadPredictor>,
    coupling: ErrorCoupling,
}

impl NetworkBelief {
    /// A belief by these networks.
    pub fn new(mean: Arc<dyn MeanPredictor>, spread: Arc<dyn SpreadPredictor>, coupling: ErrorCoupling) -> Self {
        Self { mean, spread, coupling }
    }
}

impl BeliefModel for NetworkBelief {
    fn believe(&self, context: &Context, observations: &Observations) -> Result<Belief> {
        let mean = self.mean.predict(context, observations)?;
        let std = self.spread.predict_std(context, observations, &mean)?;
        let precision = match &self.coupling {
            ErrorCoupling::Fixed(precision) => precision.clone(),
            ErrorCoupling::Predicted(graph, scale) => {
                let num_measured = observations.len();
                let descriptor = GraphDescriptor { context, prior_mean: &mean, prior_std: &std, num_measured };
                scale.precision(graph.predict(&descriptor)?)?
            }
        };
        Ok(Belief { mean, std, precision })
    }

    fn network_calls(&self) -> u64 {
        2 + u64::from(matches!(self.coupling, ErrorCoupling::Predicted(..)))
    }
}

/// The belief of a session: made again whenever the measurements have come closer by a stated factor, and trusted as long as a
/// [`DiscrepancyRule`] says.
pub struct BeliefCache {
    model: Arc<dyn BeliefModel>,
    spacing_ratio: f64,
    crowd: Option<usize>,
    discrepancy: Discrepancy,
    latest: Option<Weighed>,
    network_calls: u64,
}

/// A belief with the weights that follow from it.
struct Weighed {
    observations: Observations,
    /// Measurements at the last belief that was due by their spacing: this one or one before it.
    due_at: usize,
    /// Tests of the beliefs from that one on, without those of this one.
    tests_before: usize,
    sure_std: f64,
    belief: Belief,
    weights: Vec<f64>,
}

impl BeliefCache {
    /// A cache that makes a new belief once the [spacing](measurement_spacing) of the measurements has fallen to
    /// `spacing_ratio` of that of the last; 1 makes one at every change.
    ///
    /// # Errors
    /// `InvalidInput` unless `0 < spacing_ratio <= 1`.
    pub fn new(model: Arc<dyn BeliefModel>, spacing_ratio: f64) -> Result<Self> {
        if !(spacing_ratio > 0.0 && spacing_ratio <= 1.0) {
            return Err(BeliefError::Ratio { spacing_ratio }.into());
        }
        Ok(Self {
            model,
            spacing_ratio,
            crowd: None,
            discrepancy: Discrepancy::default(),
            latest: None,
            network_calls: 0,
        })
    }

    /// Makes a new belief also where the measurements since the last one crowd: once `crowd` of them lie within that belief's
    /// spacing of one of them.
    ///
    /// Between two beliefs the graph alone says what a measurement tells of the cells around it. Where the error is large and cells
    /// are coupled weakly (the silhouette of an object), it says: nothing, and every cell there is measured before the next belief
    /// finds that a few had been enough.
    ///
    /// # Panics
    /// If `crowd` is below 2: a measurement is always beside itself.
    #[track_caller]
    pub fn watching_crowds(self, crowd: usize) -> Self {
        assert!(crowd >= 2, "a crowd of {crowd}: at least 2 measurements");
        Self { crowd: Some(crowd), ..self }
    }

    /// Another rule than the default for when beliefs are distrusted.
    pub fn trusting(self, rule: DiscrepancyRule) -> Self {
        Self { discrepancy: Discrepancy::new(rule), ..self }
    }

    /// Network evaluations made so far.
    pub fn network_calls(&self) -> u64 {
        self.network_calls
    }

    /// The belief for a state of the measurements.
    ///
    /// # Errors
    /// Those of the model; `ShapeMismatch` or `NonFinite` if its maps do not fit the scene.
    pub fn refresh(&mut self, context: &Context, observations: &Observations) -> Result<&Belief> {
        let due = self.is_due(context, observations);
        if due || self.is_crowded(context, observations) {
            let belief = self.model.believe(context, observations)?;
            self.network_calls += self.model.network_calls();
            // Kept once nothing can fail any more, so that no test counts twice.
            let mut discrepancy = self.discrepancy.clone();
            let (mut due_at, mut tests_before) = (observations.len(), 0);
            if let Some(latest) = &self.latest {
                let tests = discrepancy.test(&latest.belief, latest.sure_std, &latest.observations, observations);
                if !due {
                    (due_at, tests_before) = (latest.due_at, latest.tests_before + tests);
                }
            }
            let weights = discrepant_weights(context, observations, &belief, discrepancy.squared())?;
            let sure_std = discrepancy.rule().sure_std(context, observations, &belief.std);
            self.discrepancy = discrepancy;
            let observations = observations.clone();
            self.latest = Some(Weighed { observations, due_at, tests_before, sure_std, belief, weights });
        }
        Ok(&self.latest.as_ref().expect("made above").belief)
    }

    /// Whether the measurements have come closer by the stated factor since the last belief that was due.
    fn is_due(&self, context: &Context, observations: &Observations) -> bool {
        let Some(latest) = &self.latest else { return true };
        let spacing = |num_measured| measurement_spacing(context.valid().num_valid(), num_measured);
        observations.len() != latest.due_at
            && spacing(observations.len()) <= self.spacing_ratio * spacing(latest.due_at)
    }

    /// Whether the measurements since the latest belief crowd.
    fn is_crowded(&self, context: &Context, observations: &Observations) -> bool {
        let (Some(crowd), Some(latest)) = (self.crowd, &self.latest) else { return false };
        let radius = measurement_spacing(context.valid().num_valid(), latest.observations.len());
        let places: Vec<(f64, f64)> = self
            .since(observations, &[])
            .map(|node| context.grid().row_col(node))
            .map(|(row, col)| (row as f64, col as f64))
            .collect();
        let beside = |one: &(f64, f64)| {
            let near = |other: &&(f64, f64)| (one.0 - other.0).hypot(one.1 - other.1) <= radius;
            places.iter().filter(near).count()
        };
        places.iter().any(|place| beside(place) >= crowd)
    }

    /// The weight of every cell: [`error_weights`], with the discrepancy added to `std_j^2` once beliefs are distrusted (Eq. G.15).
    ///
    /// # Panics
    /// If no belief was made.
    #[track_caller]
    pub fn weights(&self) -> &[f64] {
        &self.latest().weights
    }

    /// The discrepancy of the beliefs from what was measured, a variance; 0 while they are trusted.
    pub fn squared_discrepancy(&self) -> f64 {
        self.discrepancy.squared()
    }

    /// Cells of the latest belief that test it and are measured or pending.
    pub(crate) fn tests_under_way(&self, observations: &Observations, pending: &[usize]) -> Vec<usize> {
        self.since(observations, pending).filter(|&node| self.is_sure(node)).collect()
    }

    /// Tests to be made from one belief that is due to the next.
    pub(crate) fn num_tests(&self) -> usize {
        self.discrepancy.rule().num_tests
    }

    /// Those made already by beliefs before the latest.
    pub(crate) fn tests_before(&self) -> usize {
        self.latest().tests_before
    }

    /// How many of `count` points should test the latest belief, so that they are at most half of all measured under it.
    pub(crate) fn tests_wanted(&self, observations: &Observations, pending: &[usize], count: usize) -> usize {
        if self.discrepancy.is_distrusted() {
            return 0;
        }
        let under_way = self.tests_under_way(observations, pending).len();
        let left = self.num_tests().saturating_sub(self.tests_before());
        let half = (self.since(observations, pending).count() + count) / 2;
        left.min(half).saturating_sub(under_way).min(count)
    }

    /// Whether the latest belief is tested by a value of this cell.
    pub(crate) fn is_sure(&self, node: usize) -> bool {
        let latest = self.latest();
        latest.belief.std[node] <= latest.sure_std
    }

    /// What beliefs before the latest predicted at the cells they were tested at.
    pub(crate) fn tested_values(&self) -> impl Iterator<Item = f64> + '_ {
        self.discrepancy.predicted()
    }

    /// The estimate of the latest belief.
    pub(crate) fn mean(&self) -> &[f64] {
        &self.latest().belief.mean
    }

    /// Cells measured since the latest belief, then the pending ones.
    fn since(&self, observations: &Observations, pending: &[usize]) -> impl Iterator<Item = usize> {
        let before = &self.latest().observations;
        let measured = observations.iter().map(|entry| entry.node).filter(|&node| !before.contains(node));
        measured.chain(pending.iter().copied()).collect::<Vec<_>>().into_iter()
    }

    #[track_caller]
    fn latest(&self) -> &Weighed {
        self.latest.as_ref().expect("a belief was made")
    }
}

/// The weights under which the graph's risk is the sum of the squared errors: `std_j^2 / Sigma_jj` for valid cells, with the
/// posterior covariance Sigma of the graph given the measurements of the belief.
///
/// The errors are modelled as `S z`, `z` with the graph's posterior correlation at the time of the belief and `S_jj = std_j`.
/// Measuring cell i then lowers the sum of their variances by `sum_j (std_j^2 / Sigma_jj) Sigma_ij^2 / Sigma_ii`: the
/// utility of Eq. 15 with these weights, for measurements without noise.
///
/// # Errors
/// `ShapeMismatch` or `NonFinite` if the standard deviations do not fit the scene; those of the factorisation.
pub fn error_weights(context: &Context, observations: &Observations, belief: &Belief) -> Result<Vec<f64>> {
    discrepant_weights(context, observations, belief, 0.0)
}

/// [`error_weights`] of `std_j^2 + squared_discrepancy` in place of `std_j^2` (Eq. G.15).
fn discrepant_weights(
    context: &Context,
    observations: &Observations,
    belief: &Belief,
    squared_discrepancy: f64,
) -> Result<Vec<f64>> {
    let num_nodes = context.grid().num_nodes();
    if belief.mean.len() != num_nodes {
        return Err(BeliefError::MeanLength { found: belief.mean.len(), num_nodes }.into());
    }
    if belief.std.len() != num_nodes {
        return Err(BeliefError::Length { found: belief.std.len(), num_nodes }.into());
    }
    let variances = Posterior::new(&belief.precision, observations)?.variances()?;
    let mut weights = vec![0.0; num_nodes];
    for node in context.valid().nodes() {
        let std = belief.std[node];
        if !(std.is_finite() && std >= 0.0) {
            return Err(BeliefError::Std { node, std }.into());
        }
        if !observations.contains(node) {
            weights[node] = (std * std + squared_discrepancy) / variances[node];
        }
    }
    Ok(weights)
}

#[derive(Debug, ThisError)]
enum BeliefError {
    #[error("spacing ratio {spacing_ratio} is not allowed: above 0, at most 1")]
    Ratio { spacing_ratio: f64 },
    #[error("{found} standard deviations for a scene of {num_nodes} cells")]
    Length { found: usize, num_nodes: usize },
    #[error("an estimate of {found} values for a scene of {num_nodes} cells")]
    MeanLength { found: usize, num_nodes: usize },
    #[error("the standard deviation of node {node} is {std}, it must be finite and >= 0")]
    Std { node: usize, std: f64 },
}

impl ErrorDetail for BeliefError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Ratio { .. } => ErrorKind::InvalidInput,
            Self::Length { .. } | Self::MeanLength { .. } => ErrorKind::ShapeMismatch,
            Self::Std { .. } => ErrorKind::NonFinite,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Conductances;
    use crate::grid::Grid;
    use crate::observations::Observation;

    /// A belief whose std is 1 / (1 + measurements).
    struct Counted;

    impl BeliefModel for Counted {
        fn believe(&self, context: &Context, observations: &Observations) -> Result<Belief> {
            let num_nodes = context.grid().num_nodes();
            let graph = Conductances::from_logits(&vec![0.0; 4 * num_nodes], context.valid())?;
            let precision = ResidualPrecision::new(graph, 0.5, 1.0)?;
            let std = vec![1.0 / (1.0 + observations.len() as f64); num_nodes];
            Ok(Belief { mean: vec![0.0; num_nodes], std, precision })
        }

        fn network_calls(&self) -> u64 {
            3
        }
    }

    fn measured(context: &Context, count: usize) -> Observations {
        let mut observations = Observations::none(context.grid());
        let values: Vec<_> =
            (0..count).map(|node| Observation { node: 2 * node, value: 0.1, noise_std: 1e-3 }).collect();
        observations.add(context.valid(), &values).unwrap();
        observations
    }

    #[test]
    fn belief_is_made_again_when_the_spacing_has_fallen_and_not_before() {
        let context = Context::empty(Grid::new(8, 8).unwrap());
        let mut cache = BeliefCache::new(Arc::new(Counted), 0.7).unwrap();
        // Spacing falls as 1 / sqrt(1 + n): to 0.7 of that of 0 at 2, of that of 2 at 6 measurements.
        for (count, std, calls) in [(0, 1.0, 3), (1, 1.0, 3), (2, 1.0 / 3.0, 6), (5, 1.0 / 3.0, 6), (6, 1.0 / 7.0, 9)] {
            let found = cache.refresh(&context, &measured(&context, count)).unwrap().std[0];
            assert_eq!((found, cache.network_calls()), (std, calls), "{count}");
        }
    }

    #[test]
    fn crowd_of_new_measurements_makes_a_belief_that_is_not_due() {
        let context = Context::empty(Grid::new(8, 8).unwrap());
        let at = |nodes: &[usize]| {
            let mut observations = Observations::none(context.grid());
            let values: Vec<_> = nodes.iter().map(|&node| Observation { node, value: 0.1, noise_std: 1e-3 }).collect();
            observations.add(context.valid(), &values).unwrap();
            observations
        };
        let calls = |crowd: Option<usize>, steps: &[&[usize]]| {
            let cache = BeliefCache::new(Arc::new(Counted), 0.4).unwrap();
            let mut cache = crowd.into_iter().fold(cache, BeliefCache::watching_crowds);
            steps.iter().for_each(|nodes| {
                cache.refresh(&context, &at(nodes)).unwrap();
            });
            cache.network_calls()
        };
        // With one measurement the spacing is sqrt(64 / 2) = 5.7 cells: nodes 0, 1 and 8 are within it of each other, 0, 7 and 56 are not.
        let (first, crowded, apart): (&[usize], &[usize], &[usize]) = (&[63], &[0, 1, 8, 63], &[0, 7, 56, 63]);
        assert_eq!(calls(None, &[first, crowded]), 3);
        assert_eq!(calls(Some(3), &[first, apart]), 3);
        assert_eq!(calls(Some(3), &[first, crowded]), 6);
        // Old measurements make no crowd: a belief is made once, not at every step after it.
        assert_eq!(calls(Some(3), &[first, crowded, &[0, 1, 2, 8, 63]]), 6);
        // The next one is due where it would have been, .4 of 5.7 cells at 12 measurements, and the three tests made are not made again.
        let mut cache = BeliefCache::new(Arc::new(Counted), 0.4).unwrap().watching_crowds(3);
        cache.refresh(&context, &at(first)).unwrap();
        assert_eq!((cache.tests_before(), cache.tests_wanted(&at(first), &[], 8)), (0, 4));
        cache.refresh(&context, &at(crowded)).unwrap();
        assert_eq!((cache.tests_before(), cache.tests_wanted(&at(crowded), &[], 8)), (3, 1));
        assert!(!cache.is_due(&context, &measured(&context, 11)) && cache.is_due(&context, &measured(&context, 12)));
    }

    #[test]
    fn theory_weighted_utility_is_the_drop_of_the_errors_variance() {
        // E = S R S with R the correlation of Sigma; measuring i exactly leaves E - E_i E_i' / E_ii.
        let context = Context::empty(Grid::new(4, 5).unwrap());
        let observations = measured(&context, 3);
        let mut belief = Counted.believe(&context, &observations).unwrap();
        belief.std = (0..20).map(|node| 0.1 + 0.03 * node as f64).collect();
        let posterior = Posterior::new(&belief.precision, &observations).unwrap();
        let weights = error_weights(&context, &observations, &belief).unwrap();
        let column = |node: usize| posterior.covariance_column(node).unwrap();
        let variances = posterior.variances().unwrap();
        for measured in [1, 7, 19] {
            let sigma = column(measured);
            let utility: f64 =
                (0..20).map(|node| weights[node] * sigma[node] * sigma[node]).sum::<f64>() / sigma[measured];
            let error = |node: usize| belief.std[node] * sigma[node] / (variances[node] * variances[measured]).sqrt();
            let unmeasured = (0..20).filter(|node| !observations.contains(*node));
            let drop: f64 = unmeasured.map(|node| error(node) * error(node)).sum();
            assert!((utility - drop).abs() < 1e-9 * drop, "{measured}: {utility} {drop}");
        }
    }

    #[test]
    fn bad_ratio_and_bad_std_are_refused() {
        for ratio in [0.0, 1.5, f64::NAN] {
            assert_eq!(BeliefCache::new(Arc::new(Counted), ratio).err().unwrap().kind(), ErrorKind::InvalidInput);
        }
        let context = Context::empty(Grid::new(4, 5).unwrap());
        let none = Observations::none(context.grid());
        let good = Counted.believe(&context, &none).unwrap();
        let with = |std| error_weights(&context, &none, &Belief { std, ..good.clone() }).unwrap_err().kind();
        assert_eq!(with(vec![1.0; 19]), ErrorKind::ShapeMismatch);
        assert_eq!(with(vec![f64::NAN; 20]), ErrorKind::NonFinite);
    }
}
