//! What a forecast says against what the campaign then finds.

use gpara_session::{Layers, Method, ModelInput, Settings};

use crate::program::{Program, settings};

#[test]
fn forecast_falls_and_is_close_to_what_the_asks_then_reach() {
    let mut program = Program::plain(20, 24, 80);
    program.tell(&[(2, 2), (17, 20), (10, 4), (5, 15)]);
    let before = program.campaign.forecast(&program.method, None).unwrap();
    let share = &before.variance_share;
    assert_eq!((share[0], share.last().unwrap().0), ((4, 1.0), 80));
    assert!(share.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1), "{share:?}");
    let knee = before.diminishing_return.unwrap();
    assert!(knee > 4 && knee < 80);
    // The same number of real asks does about as well as the plan of the forecast.
    let (count, promised) = share[3];
    while program.campaign.status().unwrap().num_observed < count {
        let left = count - program.campaign.status().unwrap().num_observed;
        let cells = program.ask(left.min(8));
        program.tell(&cells);
    }
    let state = program.campaign.state().unwrap();
    let scene = program.campaign.scene();
    let context = scene.bare_context().unwrap();
    let input = ModelInput { scene, context: &context, observations: &state.observations, ensemble: None };
    let precision = program.method.model(&input).unwrap().precision;
    let mean_variance = |observations: &gpara::Observations| {
        let variances = gpara::Posterior::new(&precision, observations).unwrap().variances().unwrap();
        variances.iter().sum::<f64>() / variances.len() as f64
    };
    let mut four = gpara::Observations::none(program.campaign.scene().grid());
    let first: Vec<gpara::Observation> = [(2, 2), (17, 20), (10, 4), (5, 15)]
        .iter()
        .map(|&(row, col): &(usize, usize)| gpara::Observation { node: row * 24 + col, value: 0.0, noise_std: 0.01 })
        .collect();
    four.add(program.campaign.valid(), &first).unwrap();
    let reached = mean_variance(&state.observations) / mean_variance(&four);
    assert!(reached < 1.05 * promised && reached > 0.8 * promised, "{reached} against {promised}");
}

#[test]
fn stop_rule_says_reached_and_after_how_many() {
    let mut program = Program::new(&Settings { stop_at: Some(1e9), ..settings(12, 12, 40) }, &Layers::default());
    // Nothing is known of the spread before two measurements.
    let unknown = program.campaign.forecast(&program.method, None).unwrap();
    assert_eq!((unknown.risk_left, unknown.stop_reached, unknown.rmse), (None, None, None));
    program.tell(&[(1, 1), (9, 3), (4, 10), (8, 8)]);
    let reached = program.campaign.forecast(&program.method, None).unwrap();
    assert_eq!((reached.stop_reached, reached.stop_after), (Some(true), Some(4)));
    let left = reached.risk_left.unwrap();
    let stricter = program.campaign.forecast(&program.method, Some(0.7 * left)).unwrap();
    assert_eq!(stricter.stop_reached, Some(false));
    assert!(stricter.stop_after.is_some_and(|count| count > 4 && count <= 40), "{:?}", stricter.stop_after);
    let never = program.campaign.forecast(&program.method, Some(1e-9)).unwrap();
    assert_eq!((never.stop_reached, never.stop_after), (Some(false), None));
}

#[test]
fn forecast_reaches_the_end_of_a_short_budget_and_of_a_spent_one() {
    for (budget, counts) in [(2, vec![0, 1, 2]), (1, vec![0, 1])] {
        let mut program = Program::plain(6, 7, budget);
        let forecast = program.campaign.forecast(&program.method, None).unwrap();
        assert_eq!(forecast.variance_share.iter().map(|entry| entry.0).collect::<Vec<_>>(), counts);
        program.tell(&[(0, 0), (5, 5)]);
        let spent = program.campaign.forecast(&program.method, None).unwrap();
        assert_eq!((spent.variance_share, spent.diminishing_return), (vec![(2, 1.0)], None));
    }
}
