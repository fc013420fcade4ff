//! The losses of the scorer (C.12-C.15), over the candidates of each sample.

use tch::{Kind, Tensor};

use crate::config_stages::{ScorerConfig, ScorerLossConfig};

/// The margin of L_mar.
const MARGIN: f64 = 0.5;

/// Smallest range of teacher scores that the regret is divided by.
const RANGE_FLOOR: f64 = 1e-8;

/// Scores of cells that are no candidate: their share in a distribution is 0, their logarithm finite.
const EXCLUDED: f64 = -1e9;

/// Scores of a batch, each `[B, num_nodes]`; only candidates count.
pub(crate) struct Scores<'a> {
    /// U_bar, the analytic anchor.
    pub(crate) anchor: &'a Tensor,
    /// h, the teacher.
    pub(crate) teacher: &'a Tensor,
    /// U_tilde, anchor plus bounded shift, or the direct score.
    pub(crate) calibrated: &'a Tensor,
    /// 1 at candidates.
    pub(crate) candidates: &'a Tensor,
}

/// The six losses, mean over the batch, in the order of the paper's J.
pub(crate) struct ScorerLosses {
    pub(crate) distillation: Tensor,
    pub(crate) top: Tensor,
    pub(crate) regret: Tensor,
    pub(crate) calibration: Tensor,
    pub(crate) margin: Tensor,
    pub(crate) anchor: Tensor,
}

impl ScorerLosses {
    /// The losses under the temperatures of a configuration.
    pub(crate) fn of(config: &ScorerConfig, scores: &Scores<'_>) -> Self {
        let Scores { anchor, teacher, calibrated, candidates } = *scores;
        let only = |values: &Tensor| -> Tensor { values * candidates + (1.0 - candidates) * EXCLUDED };
        let log_shares = |values: &Tensor, temperature: f64| -> Tensor {
            let scaled: Tensor = only(values) / temperature;
            scaled.log_softmax(-1, None::<Kind>)
        };
        let sum =
            |values: Tensor| -> Tensor { (values * candidates).sum_dim_intlist([1].as_slice(), false, None::<Kind>) };
        let teacher_shares = log_shares(teacher, config.teacher_temperature).exp();
        let log_scorer = log_shares(calibrated, config.score_temperature);
        let scorer_shares = log_scorer.exp();
        let anchor_shares = log_shares(anchor, config.score_temperature).exp();

        let best = only(teacher).argmax(-1, true);
        let chosen = only(calibrated).argmax(-1, true);
        let at = |values: &Tensor, place: &Tensor| values.gather(1, place, false).squeeze_dim(1);
        let highest = at(teacher, &best);
        let lowest = -(only(&-teacher)).max_dim(1, false).0;

        let distillation = -sum(&teacher_shares * &log_scorer);
        let top = -at(&log_shares(calibrated, 1.0), &best);
        let regret =
            sum(&scorer_shares * (highest.unsqueeze(1) - teacher)) / (&highest - lowest).clamp_min(RANGE_FLOOR);
        let wanted = (teacher - anchor).clamp(-1.0, 1.0);
        let calibration = sum((teacher_shares + &anchor_shares) * huber(&(calibrated - anchor - wanted))) * 0.5;
        let wrong = chosen.ne_tensor(&best).squeeze_dim(1).to_kind(calibrated.kind());
        let margin = wrong * (at(calibrated, &chosen) - at(calibrated, &best) + MARGIN).clamp_min(0.0);
        let anchor = (sum(anchor_shares * teacher) - sum(scorer_shares * teacher)).clamp_min(0.0);
        let mean = |values: Tensor| values.mean(None::<Kind>);
        Self {
            distillation: mean(distillation),
            top: mean(top),
            regret: mean(regret),
            calibration: mean(calibration),
            margin: mean(margin),
            anchor: mean(anchor),
        }
    }

    /// L_scorer: the weighted sum.
    pub(crate) fn weighted(&self, weights: &ScorerLossConfig) -> Tensor {
        &self.distillation * weights.distillation
            + &self.top * weights.top
            + &self.regret * weights.regret
            + &self.calibration * weights.calibration
            + &self.margin * weights.margin
            + &self.anchor * weights.anchor
    }
}

/// H of C.14: `d^2 / 2` for `|d| < 1`, else `|d| - 1/2`.
fn huber(difference: &Tensor) -> Tensor {
    let size = difference.abs();
    let square = difference.square() * 0.5;
    square.where_self(&size.lt(1.0), &(size - 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEACHER_TEMPERATURE: f64 = 0.5;
    const SCORE_TEMPERATURE: f64 = 2.0;

    fn config() -> ScorerConfig {
        ScorerConfig {
            graph: None,
            budget: 10,
            score_bound: 2.0,
            anchor_share: 0.0,
            teacher_temperature: TEACHER_TEMPERATURE,
            score_temperature: SCORE_TEMPERATURE,
            hidden: 4,
            message_blocks: 1,
            loss: ScorerLossConfig {
                distillation: 1.0,
                top: 0.1,
                regret: 2.0,
                calibration: 0.25,
                margin: 0.3,
                anchor: 0.05,
            },
            rollout: None,
        }
    }

    /// Losses of three candidates and one cell that is none and would win everything.
    fn losses(anchor: [f64; 3], teacher: [f64; 3], calibrated: [f64; 3]) -> ScorerLosses {
        let row = |values: [f64; 3]| Tensor::from_slice(&[values[0], 50.0, values[1], values[2]]).view([1, 4]);
        let candidates = Tensor::from_slice(&[1.0, 0.0, 1.0, 1.0]).view([1, 4]);
        let (anchor, teacher, calibrated) = (row(anchor), row(teacher), row(calibrated));
        let scores = Scores { anchor: &anchor, teacher: &teacher, calibrated: &calibrated, candidates: &candidates };
        ScorerLosses::of(&config(), &scores)
    }

    fn shares(values: [f64; 3], temperature: f64) -> [f64; 3] {
        let raised = values.map(|value| (value / temperature).exp());
        raised.map(|value| value / raised.iter().sum::<f64>())
    }

    fn assert_close(found: &Tensor, expected: f64) {
        let found = found.double_value(&[]);
        assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
    }

    const ANCHOR: [f64; 3] = [1.0, 0.0, -1.0];
    const TEACHER: [f64; 3] = [0.2, 1.5, -0.4];
    const CALIBRATED: [f64; 3] = [1.3, 0.9, -1.1];

    #[test]
    fn theory_distributions_are_softmaxes_over_the_candidates_c12() {
        // With the scorer equal to the anchor, L_anc compares a distribution with itself.
        assert_close(&losses(ANCHOR, TEACHER, ANCHOR).anchor, 0.0);
        let found = losses(ANCHOR, TEACHER, CALIBRATED);
        let (teacher, scorer) = (shares(TEACHER, TEACHER_TEMPERATURE), shares(CALIBRATED, SCORE_TEMPERATURE));
        let expected: f64 = -(0..3).map(|i| teacher[i] * scorer[i].ln()).sum::<f64>();
        assert_close(&found.distillation, expected);
    }

    #[test]
    fn theory_top_and_regret_look_at_the_teachers_best_candidate_c13() {
        let found = losses(ANCHOR, TEACHER, CALIBRATED);
        assert_close(&found.top, -shares(CALIBRATED, 1.0)[1].ln());
        let scorer = shares(CALIBRATED, SCORE_TEMPERATURE);
        let expected = (0..3).map(|i| scorer[i] * (1.5 - TEACHER[i])).sum::<f64>() / 1.9;
        assert_close(&found.regret, expected);
    }

    #[test]
    fn theory_calibration_is_hubers_distance_to_the_clipped_departure_c14() {
        let found = losses(ANCHOR, TEACHER, CALIBRATED);
        // Wanted departures: -.8, 1 (clipped from 1.5), .6; actual .3, .9, -.1; differences 1.1, -.1, -.7.
        let distance = [1.1 - 0.5, 0.005, 0.245];
        let (teacher, anchor) = (shares(TEACHER, TEACHER_TEMPERATURE), shares(ANCHOR, SCORE_TEMPERATURE));
        let expected = 0.5 * (0..3).map(|i| (teacher[i] + anchor[i]) * distance[i]).sum::<f64>();
        assert_close(&found.calibration, expected);
    }

    #[test]
    fn theory_margin_and_anchor_terms_c15() {
        let found = losses(ANCHOR, TEACHER, CALIBRATED);
        // The scorer's winner is the first candidate, the teacher's the second.
        assert_close(&found.margin, 0.5 + 1.3 - 0.9);
        let (anchor, scorer) = (shares(ANCHOR, SCORE_TEMPERATURE), shares(CALIBRATED, SCORE_TEMPERATURE));
        let value = |shares: [f64; 3]| (0..3).map(|i| shares[i] * TEACHER[i]).sum::<f64>();
        assert_close(&found.anchor, (value(anchor) - value(scorer)).max(0.0));
        let worse = losses(ANCHOR, [2.0, 0.0, -1.0], [-3.0, 0.0, 4.0]);
        let scorer = shares([-3.0, 0.0, 4.0], SCORE_TEMPERATURE);
        let value = |shares: [f64; 3]| 2.0 * shares[0] - shares[2];
        assert_close(&worse.anchor, value(anchor) - value(scorer));
        // No margin once the teacher's best wins.
        assert_close(&losses(ANCHOR, TEACHER, [0.0, 1.0, -1.0]).margin, 0.0);
    }

    #[test]
    fn theory_whole_loss_is_the_weighted_sum_c15() {
        let found = losses(ANCHOR, TEACHER, CALIBRATED);
        let value = |tensor: &Tensor| tensor.double_value(&[]);
        let expected = value(&found.distillation)
            + 0.1 * value(&found.top)
            + 2.0 * value(&found.regret)
            + 0.25 * value(&found.calibration)
            + 0.3 * value(&found.margin)
            + 0.05 * value(&found.anchor);
        assert_close(&found.weighted(&config().loss), expected);
    }

    #[test]
    fn theory_gradient_by_the_scores_is_that_of_central_differences_and_none_flows_to_other_cells() {
        // A winner that is wrong and worse than the anchor's: every term is at work.
        let (anchor, teacher, calibrated) = ([1.0, 0.0, -1.0], [2.0, 0.3, -1.0], [-0.7, 0.2, 1.4]);
        let tensor = |values: [f64; 3]| Tensor::from_slice(&[values[0], 50.0, values[1], values[2]]).view([1, 4]);
        let candidates = Tensor::from_slice(&[1.0, 0.0, 1.0, 1.0]).view([1, 4]);
        let (anchor, teacher) = (tensor(anchor), tensor(teacher));
        let loss = |calibrated: &Tensor| {
            let scores = Scores { anchor: &anchor, teacher: &teacher, calibrated, candidates: &candidates };
            ScorerLosses::of(&config(), &scores)
        };
        let point = tensor(calibrated).set_requires_grad(true);
        let found = loss(&point);
        for term in [&found.distillation, &found.top, &found.regret, &found.calibration, &found.margin, &found.anchor] {
            assert!(term.double_value(&[]) > 0.0);
        }
        found.weighted(&config().loss).backward();
        let gradient = Vec::<f64>::try_from(point.grad().view(-1)).unwrap();
        assert_eq!(gradient[1], 0.0, "a cell that is no candidate");
        let step = 1e-5;
        for (place, cell) in [0, 2, 3].into_iter().enumerate() {
            let value = |shift: f64| {
                let mut moved = calibrated;
                moved[place] += shift;
                loss(&tensor(moved)).weighted(&config().loss).double_value(&[])
            };
            let expected = (value(step) - value(-step)) / (2.0 * step);
            assert!((gradient[cell] - expected).abs() < 1e-8, "cell {cell}: {} for {expected}", gradient[cell]);
        }
    }
}
