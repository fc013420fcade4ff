//! The session's state machine: counts, budgets, errors, failures, replay and the refresh of the ensemble.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

use std::sync::Arc;

use gpara::{
    AcquisitionModel, AcquisitionSession, BatchRule, Conductances, Context, Correction, EnsembleCache, ErrorKind,
    FarthestPoint, FieldSource, FirstPoint, GaussianDenoiser, Gpara, GparaSettings, Grid, MaxVariance, MeanSolver,
    MeasurementSource, NoiseSchedule, Observation, Policy, PriorEnsemble, Random, ResidualPrecision, Result, RiskRule,
    RoundRecord, SamplerSettings, SeedTree, SessionSettings, UtilityMethod, ValidMask, ZeroScorer, run_to_end,
};

const SEEDS: u64 = 21;

fn context(rows: usize, cols: usize, is_valid: impl Fn(usize) -> bool) -> Context {
    let grid = Grid::new(rows, cols).unwrap();
    let valid = ValidMask::new(grid, (0..grid.num_nodes()).map(is_valid).collect()).unwrap();
    Context::new(valid, Vec::new()).unwrap()
}

fn precision(context: &Context) -> ResidualPrecision {
    let logits = vec![0.0; 4 * context.grid().num_nodes()];
    ResidualPrecision::new(Conductances::from_logits(&logits, context.valid()).unwrap(), 0.0625, 0.8).unwrap()
}

fn settings(budget: usize) -> SessionSettings {
    SessionSettings { budget, max_batch: 8, noise_std: 0.01 }
}

fn session(context: &Context, budget: usize) -> AcquisitionSession {
    AcquisitionSession::new(context.clone(), settings(budget), SeedTree::new(SEEDS)).unwrap()
}

fn model(context: &Context, policy: impl Policy + 'static, ensemble: EnsembleCache) -> AcquisitionModel {
    AcquisitionModel { policy: Box::new(policy), precision: precision(context), ensemble }
}

fn random(context: &Context) -> AcquisitionModel {
    model(context, Random::new(), EnsembleCache::nothing())
}

fn exact_gpara() -> Gpara {
    let correction = Correction { solver: MeanSolver::Exact, strength: 1.0, range: None };
    let (utility, batch_rule) = (UtilityMethod::Exact, BatchRule::ExactSequential);
    let settings = GparaSettings { correction, risk: RiskRule::Uniform, utility, score_bound: 2.0, batch_rule };
    Gpara::new(settings, Box::new(ZeroScorer))
}

fn field_source(context: &Context) -> FieldSource {
    let field = (0..context.grid().num_nodes()).map(|node| (0.1 * node as f64).sin()).collect();
    FieldSource::new(field, 0.01, SeedTree::new(SEEDS)).unwrap()
}

fn toy_cache(context: &Context, sees: bool, refresh_at: Vec<usize>) -> Result<EnsembleCache> {
    let (schedule, num_nodes) = (NoiseSchedule::ddpm(), context.grid().num_nodes());
    let toy = GaussianDenoiser::new(vec![0.0; num_nodes], precision(context), schedule.clone()).unwrap();
    let toy = if sees { toy.seeing_observations() } else { toy };
    let sampler = SamplerSettings::clipped(schedule.respace(&[999, 500, 0]).unwrap());
    EnsembleCache::drawn(Arc::new(toy), sampler, 4, refresh_at)
}

/// The rounds without the time they took.
fn timeless(rounds: &[RoundRecord]) -> Vec<RoundRecord> {
    rounds.iter().map(|round| RoundRecord { seconds: 0.0, ..round.clone() }).collect()
}

#[test]
fn budget_of_491_takes_62_rounds_the_last_of_3() {
    let context = context(25, 23, |node| node % 29 != 3);
    for policy in [
        Box::new(Random::new()) as Box<dyn Policy>,
        Box::new(FarthestPoint::new(FirstPoint::Centroid)),
        Box::new(exact_gpara()),
    ] {
        let mut session = session(&context, 491);
        let mut model = AcquisitionModel { policy, precision: precision(&context), ensemble: EnsembleCache::nothing() };
        let mut source = field_source(&context);
        let mut seen = 0;
        run_to_end(&mut session, &mut model, &mut source, &mut |session| {
            seen += 1;
            assert_eq!(session.observations().len(), (8 * seen).min(491));
            Ok(())
        })
        .unwrap();
        let sizes: Vec<usize> = session.rounds().iter().map(|round| round.points.len()).collect();
        assert_eq!(sizes.len(), 62, "{}", model.policy.name());
        assert!(sizes[..61].iter().all(|&size| size == 8) && sizes[61] == 3);
        assert_eq!(session.observations().len(), 491);
        assert!(session.rounds().iter().all(|round| round.values.iter().all(Option::is_some)));
        assert_eq!(session.ask(&mut model, 1).unwrap_err().kind(), ErrorKind::BudgetSpent);
        assert_eq!(session.next_batch(), 0);
    }
}

#[test]
fn budget_of_one_and_of_all_valid_cells_work() {
    let context = context(3, 4, |node| node != 5);
    for budget in [1, 11] {
        let mut session = session(&context, budget);
        let mut source = field_source(&context);
        run_to_end(&mut session, &mut random(&context), &mut source, &mut |_| Ok(())).unwrap();
        assert_eq!(session.observations().len(), budget);
        assert!(!session.observations().contains(5));
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let context = context(3, 4, |node| node != 5);
    let new = |settings| AcquisitionSession::new(context.clone(), settings, SeedTree::new(0));
    for bad in [
        settings(0),
        settings(12),
        SessionSettings { max_batch: 0, ..settings(3) },
        SessionSettings { noise_std: -0.1, ..settings(3) },
        SessionSettings { noise_std: f64::NAN, ..settings(3) },
    ] {
        assert_eq!(new(bad).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad:?}");
    }
    assert!(new(settings(11)).is_ok());
}

#[test]
fn pending_points_are_not_asked_again_and_count_against_the_budget() {
    let context = context(4, 5, |_| true);
    let (mut session, mut model) = (session(&context, 10), random(&context));
    let first = session.ask(&mut model, 6).unwrap().nodes();
    assert_eq!((session.remaining(), session.pending().len()), (4, 6));
    let second = session.ask(&mut model, 6).unwrap().nodes();
    assert_eq!(second.len(), 4, "only four are left");
    assert!(first.iter().all(|node| !second.contains(node)));
    let error = session.ask(&mut model, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BudgetSpent);
    assert!(error.hint().is_some(), "telling the pending points is what helps");

    // Values may come in any order and across rounds.
    let row = |node: usize| Observation { node, value: node as f64, noise_std: 0.01 };
    session.tell(&[row(second[1]), row(first[3])]).unwrap();
    assert_eq!(session.rounds()[0].values[3], Some(first[3] as f64));
    assert_eq!(session.rounds()[1].values[1], Some(second[1] as f64));
    assert_eq!(session.rounds()[0].values.iter().flatten().count(), 1);
    assert_eq!((session.observations().len(), session.pending().len()), (2, 8));
}

#[test]
fn points_never_asked_for_may_be_told_even_beyond_the_budget() {
    let context = context(4, 5, |_| true);
    let mut session = session(&context, 3);
    let row = |node: usize| Observation { node, value: 0.0, noise_std: 0.01 };
    session.tell(&[row(1), row(2), row(7), row(9)]).unwrap();
    assert_eq!((session.observations().len(), session.remaining()), (4, 0));
    assert_eq!(session.ask(&mut random(&context), 1).unwrap_err().kind(), ErrorKind::BudgetSpent);
}

#[test]
fn bad_tells_change_nothing() {
    let context = context(4, 5, |node| node != 6);
    let (mut session, mut model) = (session(&context, 10), random(&context));
    let asked = session.ask(&mut model, 2).unwrap().nodes();
    let row = |node: usize| Observation { node, value: 0.0, noise_std: 0.01 };
    for (bad, kind) in [
        (row(6), ErrorKind::InvalidInput),
        (row(20), ErrorKind::InvalidInput),
        (Observation { value: f64::NAN, ..row(3) }, ErrorKind::NonFinite),
    ] {
        assert_eq!(session.tell(&[row(asked[0]), bad]).unwrap_err().kind(), kind);
    }
    for bad in [6, 20] {
        assert_eq!(session.tell_failed(&[asked[0], bad]).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(session.ask(&mut model, 0).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(session.observations().is_empty());
    assert_eq!(session.pending().len(), 2);
    assert_eq!(session.rounds().len(), 1);
}

/// Fails at every cell of an even column.
struct HalfBroken(FieldSource);

impl MeasurementSource for HalfBroken {
    fn measure(&mut self, nodes: &[usize]) -> Result<Vec<Observation>> {
        let working: Vec<usize> = nodes.iter().copied().filter(|node| node % 6 % 2 == 1).collect();
        self.0.measure(&working)
    }
}

#[test]
fn failed_points_are_blocked_replaced_and_do_not_spend_the_budget() {
    let context = context(5, 6, |_| true);
    for (budget, measured) in [(9, 9), (20, 15)] {
        let mut session = session(&context, budget);
        let mut source = HalfBroken(field_source(&context));
        run_to_end(&mut session, &mut random(&context), &mut source, &mut |_| Ok(())).unwrap();
        // Fifteen cells work; a larger budget ends when no candidate is left.
        assert_eq!(session.observations().len(), measured);
        let mut asked: Vec<usize> = session.rounds().iter().flat_map(RoundRecord::nodes).collect();
        let count = asked.len();
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len(), count, "no node is asked for twice");
    }
}

#[test]
fn restricted_candidates_are_the_only_ones_asked_for() {
    let context = context(4, 5, |node| node != 6);
    let (mut session, mut model) = (session(&context, 4), random(&context));
    assert_eq!(session.restrict_candidates(&[1, 2, 3]).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(session.restrict_candidates(&[1, 2, 3, 6]).unwrap_err().kind(), ErrorKind::InvalidInput);
    session.restrict_candidates(&[1, 7, 12, 18]).unwrap();
    let mut nodes = session.ask(&mut model, 4).unwrap().nodes();
    nodes.sort_unstable();
    assert_eq!(nodes, [1, 7, 12, 18]);
}

/// Chooses the same node again and again.
struct Stubborn;

impl Policy for Stubborn {
    fn name(&self) -> &str {
        "stubborn"
    }

    fn needs_ensemble(&self) -> bool {
        false
    }

    fn select(&mut self, _: &gpara::AcquisitionInput<'_>, count: usize) -> Result<gpara::Selection> {
        let point = gpara::SelectedPoint { node: 0, score: 0.0, expected_risk_drop: None };
        Ok(gpara::Selection { points: vec![point; count], risk: None })
    }
}

#[test]
fn policy_that_breaks_its_contract_spends_nothing() {
    let context = context(4, 5, |_| true);
    let mut session = session(&context, 4);
    let mut model = model(&context, Stubborn, EnsembleCache::nothing());
    assert_eq!(session.ask(&mut model, 2).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!((session.remaining(), session.rounds().len()), (4, 0));
}

#[test]
fn ensemble_is_drawn_once_or_at_each_threshold() {
    let context = context(6, 7, |_| true);
    let correction = Correction { solver: MeanSolver::Exact, strength: 1.0, range: None };
    for (sees, refresh_at, draws_in) in
        [(false, vec![], vec![0]), (true, vec![], vec![0]), (true, vec![8, 16, 20], vec![0, 1, 2, 3])]
    {
        let mut session = session(&context, 36);
        let cache = toy_cache(&context, sees, refresh_at).unwrap();
        let mut model = model(&context, MaxVariance::new(correction), cache);
        run_to_end(&mut session, &mut model, &mut field_source(&context), &mut |_| Ok(())).unwrap();
        // Four samples of three steps each time.
        let calls: Vec<u64> = session.rounds().iter().map(|round| round.network_calls).collect();
        let expected: Vec<u64> = (0..5).map(|round| if draws_in.contains(&round) { 12 } else { 0 }).collect();
        assert_eq!(calls, expected, "{draws_in:?}");
        assert_eq!(model.ensemble.network_calls(), 12 * draws_in.len() as u64);
    }
}

#[test]
fn ensemble_settings_that_cannot_work_are_refused() {
    let context = context(3, 3, |_| true);
    for (sees, refresh_at) in [(false, vec![8]), (true, vec![0, 8]), (true, vec![8, 8]), (true, vec![16, 8])] {
        assert_eq!(toy_cache(&context, sees, refresh_at).err().unwrap().kind(), ErrorKind::InvalidInput);
    }
    let mut given = EnsembleCache::given(PriorEnsemble::new(vec![0.0; 8], 4).unwrap());
    let session = session(&context, 3);
    let error = given.ensemble(&context, session.observations(), SeedTree::new(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
}

#[test]
fn resumed_session_goes_on_with_the_same_bits() {
    let context = context(6, 7, |node| node != 10);
    let correction = Correction { solver: MeanSolver::Exact, strength: 1.0, range: None };
    let new_model = || model(&context, MaxVariance::new(correction), toy_cache(&context, true, vec![8, 16]).unwrap());
    let mut whole = session(&context, 30);
    run_to_end(&mut whole, &mut new_model(), &mut field_source(&context), &mut |_| Ok(())).unwrap();

    for stop_after in 0..=whole.rounds().len() {
        let (mut resumed, mut model) = (session(&context, 30), new_model());
        for record in &whole.rounds()[..stop_after] {
            resumed.replay(&mut model, record).unwrap();
        }
        run_to_end(&mut resumed, &mut model, &mut field_source(&context), &mut |_| Ok(())).unwrap();
        assert_eq!(timeless(resumed.rounds()), timeless(whole.rounds()), "after {stop_after}");
        assert_eq!(resumed.observations(), whole.observations());
    }
    let mut other = session(&context, 30);
    let error = other.replay(&mut new_model(), &whole.rounds()[1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn resumed_session_with_carried_moments_goes_on_with_the_same_bits() {
    let context = context(9, 8, |node| node != 10);
    let new_model = || model(&context, exact_gpara(), EnsembleCache::nothing());
    let mut whole = session(&context, 44);
    run_to_end(&mut whole, &mut new_model(), &mut field_source(&context), &mut |_| Ok(())).unwrap();
    for stop_after in [0, 1, 3, 5] {
        let (mut resumed, mut model) = (session(&context, 44), new_model());
        for record in &whole.rounds()[..stop_after] {
            resumed.replay(&mut model, record).unwrap();
        }
        run_to_end(&mut resumed, &mut model, &mut field_source(&context), &mut |_| Ok(())).unwrap();
        assert_eq!(timeless(resumed.rounds()), timeless(whole.rounds()), "after {stop_after}");
    }
}

#[test]
fn unweighted_risk_never_rises_from_round_to_round() {
    let context = context(8, 9, |node| node % 11 != 4);
    let mut session = session(&context, 40);
    let mut model = model(&context, exact_gpara(), EnsembleCache::nothing());
    run_to_end(&mut session, &mut model, &mut field_source(&context), &mut |_| Ok(())).unwrap();
    let curve = session.risk_curve();
    assert_eq!(curve.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [0, 8, 16, 24, 32]);
    assert!(curve.windows(2).all(|pair| pair[1].1 < pair[0].1), "{curve:?}");
    let (first, drop) = (&session.rounds()[0], |round: &RoundRecord| round.points[0].expected_risk_drop.unwrap());
    assert!(drop(first) > 0.0 && drop(first) < first.risk.unwrap());
}
