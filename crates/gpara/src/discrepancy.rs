//! How far a belief may be trusted where it is sure: the rule by which active choice falls back to points spread evenly.
//!
//! Points are chosen where the predicted error is large, so their values say nothing of the cells that are never chosen. A few cells
//! that the belief is sure of are therefore measured too, and their values are compared with what was predicted (Eq. G.15).

use crate::belief::Belief;
use crate::context::Context;
use crate::observations::Observations;

/// When a belief is not trusted. Each belief is tested at its sure cells: those whose standard deviation is at most the `sure_share`
/// quantile of the unmeasured valid cells. A value measured there later has `z^2 = (value - mean)^2 / (std^2 + noise^2)`.
///
/// Once the mean of `min(z^2, cap)` over the last tests exceeds `threshold`, beliefs are distrusted to the end of the campaign: the
/// discrepancy `d^2`, the mean of `(value - mean)^2 - std^2 - noise^2` over the same tests and the largest there was, is added to the
/// `std^2` of every cell before it is weighed. The larger it is, the more evenly points are spread.
///
/// The last tests are those of as many beliefs, from the last one back, as it takes to have `window`. The default separates undisturbed
/// fields from gains of .8 and 1.2 and levels moved by a tenth: `docs/experiments.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiscrepancyRule {
    /// Share of the unmeasured cells a belief is tested at, the surest; .5.
    pub sure_share: f64,
    /// Tests each belief that is due by the spacing gets while beliefs are trusted, those made before the next one is due included:
    /// while fewer of its sure cells are measured or pending, up to half of the points measured under it are chosen to be some; 4. With 0 nothing but the measurements that happen to be there tests.
    pub num_tests: usize,
    /// Tests looked at together, at least; 8.
    pub window: usize,
    /// Fewer tests than this decide nothing; 4.
    pub min_tests: usize,
    /// Largest `z^2` that counts, so that one cell cannot decide; 16.
    pub cap: f64,
    /// Largest mean that is trusted; 3.5. Infinite: beliefs are always trusted.
    pub threshold: f64,
}

impl Default for DiscrepancyRule {
    fn default() -> Self {
        Self { sure_share: 0.5, num_tests: 4, window: 8, min_tests: 4, cap: 16.0, threshold: 3.5 }
    }
}

impl DiscrepancyRule {
    /// The largest standard deviation of a sure cell.
    pub(crate) fn sure_std(&self, context: &Context, observations: &Observations, std: &[f64]) -> f64 {
        let open = context.valid().nodes().filter(|&node| !observations.contains(node));
        let mut std: Vec<f64> = open.map(|node| std[node]).collect();
        if std.is_empty() {
            return 0.0;
        }
        let at = ((std.len() as f64 * self.sure_share).ceil() as usize).clamp(1, std.len()) - 1;
        *std.select_nth_unstable_by(at, f64::total_cmp).1
    }
}

/// One value measured at a cell that a belief was sure of.
#[derive(Debug, Clone, Copy)]
struct SureTest {
    predicted: f64,
    squared_error: f64,
    variance: f64,
}

impl SureTest {
    /// `min(z^2, cap)`; an exact prediction of an exact value scores 0.
    fn score(&self, cap: f64) -> f64 {
        match self.squared_error {
            0.0 => 0.0,
            error if error >= cap * self.variance => cap,
            error => error / self.variance,
        }
    }
}

/// The tests of a campaign's beliefs so far, and the discrepancy that follows from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Discrepancy {
    rule: DiscrepancyRule,
    /// One list a belief, oldest first.
    tests: Vec<Vec<SureTest>>,
    distrusted: bool,
    squared: f64,
}

impl Discrepancy {
    pub(crate) fn new(rule: DiscrepancyRule) -> Self {
        Self { rule, ..Self::default() }
    }

    pub(crate) fn rule(&self) -> &DiscrepancyRule {
        &self.rule
    }

    /// d^2 of Eq. G.15, 0 while beliefs are trusted.
    pub(crate) fn squared(&self) -> f64 {
        self.squared
    }

    /// Whether beliefs are distrusted from here on.
    pub(crate) fn is_distrusted(&self) -> bool {
        self.distrusted
    }

    /// What beliefs predicted at the cells they were tested at.
    pub(crate) fn predicted(&self) -> impl Iterator<Item = f64> + '_ {
        self.tests.iter().flatten().map(|test| test.predicted)
    }

    /// Tests a belief that was made after `before` by what was measured since; returns the number of tests.
    pub(crate) fn test(
        &mut self,
        belief: &Belief,
        sure_std: f64,
        before: &Observations,
        observations: &Observations,
    ) -> usize {
        let is_test = |node: usize| !before.contains(node) && belief.std[node] <= sure_std;
        let tests = observations.iter().filter(|entry| is_test(entry.node)).map(|entry| {
            let (predicted, std) = (belief.mean[entry.node], belief.std[entry.node]);
            let squared_error = (entry.value - predicted).powi(2);
            SureTest { predicted, squared_error, variance: std * std + entry.noise_std * entry.noise_std }
        });
        let tests: Vec<SureTest> = tests.collect();
        let num_tests = tests.len();
        self.tests.push(tests);
        let mut recent: Vec<SureTest> = Vec::new();
        for tests in self.tests.iter().rev() {
            if recent.len() >= self.rule.window {
                break;
            }
            recent.extend(tests);
        }
        let count = recent.len() as f64;
        let score = recent.iter().map(|test| test.score(self.rule.cap)).sum::<f64>() / count;
        if recent.len() >= self.rule.min_tests.max(1) && score > self.rule.threshold {
            let excess = recent.iter().map(|test| test.squared_error - test.variance).sum::<f64>() / count;
            self.distrusted = true;
            self.squared = self.squared.max(excess);
        }
        num_tests
    }
}
