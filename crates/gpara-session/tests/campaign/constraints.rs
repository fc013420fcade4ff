//! Limits: candidates, forbidden cells, distance, importance, cost, routes.

use gpara::ErrorKind;
use gpara_session::{AskRequest, Layers, Settings};

use crate::program::{Program, cells, settings};

#[test]
fn users_23_candidates_and_forbidden_cells_restrict_the_asks() {
    let candidates: Vec<bool> = (0..100).map(|node| node / 10 == 4).collect();
    let forbidden: Vec<bool> = (0..100).map(|node| node % 10 < 5).collect();
    let layers = Layers { candidates: Some(candidates), forbidden: Some(forbidden), ..Layers::default() };
    let mut program = Program::new(&settings(10, 10, 50), &layers);
    let mut asked = program.ask(50);
    asked.sort_unstable();
    assert_eq!(asked, [(4, 5), (4, 6), (4, 7), (4, 8), (4, 9)]);
    // A cell that may not be asked for may still be told.
    program.tell(&[(0, 0)]);
    assert_eq!(program.campaign.status().unwrap().num_observed, 1);
}

#[test]
fn smallest_distance_holds_towards_measured_pending_and_chosen_points() {
    let mut program = Program::new(&Settings { min_distance: 4.0, ..settings(20, 20, 200) }, &Layers::default());
    program.tell(&[(10, 10)]);
    let mut all = vec![(10, 10)];
    while let Ok(answer) = program.campaign.ask(&program.method, &AskRequest::points(3)) {
        all.extend(cells(&answer));
    }
    assert!(all.len() > 12, "{}", all.len());
    for (at, a) in all.iter().enumerate() {
        for b in &all[..at] {
            let distance = (a.0 as f64 - b.0 as f64).hypot(a.1 as f64 - b.1 as f64);
            assert!(distance >= 4.0, "{a:?} and {b:?}");
        }
    }
    let error = program.campaign.ask(&program.method, &AskRequest::points(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("nearer than 4 cells"), "{error}");
}

#[test]
fn important_region_draws_the_points_and_a_uniform_one_changes_nothing() {
    let region: Vec<f64> = (0..400).map(|node| if node % 20 >= 14 { 1.0 } else { 0.0 }).collect();
    let ask = |importance: Option<Vec<f64>>| {
        let layers = Layers { importance, ..Layers::default() };
        Program::new(&settings(20, 20, 100), &layers).ask(8)
    };
    let inside = |cells: &[(usize, usize)]| cells.iter().filter(|cell| cell.1 >= 12).count();
    let (weighted, plain) = (ask(Some(region)), ask(None));
    assert_eq!(inside(&weighted), 8, "{weighted:?}");
    assert!(inside(&plain) < 6, "{plain:?}");
    // A power of two scales without rounding, so that ties of the symmetric field break alike.
    assert_eq!(ask(Some(vec![4.0; 400])), plain);
}

#[test]
fn cost_budget_is_never_exceeded_and_cheap_cells_are_preferred() {
    let cost: Vec<f64> = (0..400).map(|node| if node / 20 < 10 { 1.0 } else { 10.0 }).collect();
    let layers = Layers { cost: Some(cost), ..Layers::default() };
    let mut program = Program::new(&settings(20, 20, 100), &layers);
    let request = AskRequest { cost_budget: Some(14.5), ..AskRequest::points(50) };
    let answer = program.campaign.ask(&program.method, &request).unwrap();
    let total = answer.cost.unwrap();
    assert!(total <= 14.5 && total > 13.5, "{total}");
    let error = program.campaign.ask(&program.method, &AskRequest { cost_budget: Some(0.5), ..request }).unwrap_err();
    assert!(error.to_string().contains("no open cell costs at most 0.5"), "{error}");
    let nan = AskRequest { cost_budget: Some(f64::NAN), ..request };
    assert_eq!(program.campaign.ask(&program.method, &nan).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn route_visits_the_same_points_on_a_shorter_way_around_the_obstacle() {
    // Two rooms joined by one door, a third one closed.
    let valid: Vec<bool> = (0..20 * 30)
        .map(|node| {
            let (row, col) = (node / 30, node % 30);
            (col != 14 || row == 19) && col != 24
        })
        .collect();
    let layers = Layers { valid: Some(valid), ..Layers::default() };
    let new = || Program::new(&settings(20, 30, 100), &layers);
    let mut routed = new();
    let request = AskRequest { route_from: Some((0, 0)), ..AskRequest::points(12) };
    let answer = routed.campaign.ask(&routed.method, &request).unwrap();
    let route = cells(&answer);
    assert!(route.iter().all(|cell| cell.1 < 24), "the closed room cannot be reached: {route:?}");
    // One passage through the door: the rooms are visited one after the other.
    let changes = route.windows(2).filter(|leg| (leg[0].1 < 14) != (leg[1].1 < 14)).count();
    assert!(changes <= 1, "{route:?}");
    let length = answer.ask.route_length.unwrap();
    assert!(length > 20.0 && length < 200.0, "{length}");
    let error = routed.campaign.ask(&routed.method, &AskRequest { route_from: Some((0, 14)), ..request }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn layers_of_wrong_size_or_value_are_refused_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("S.gpara");
    let settings = settings(3, 4, 5);
    for (layers, kind) in [
        (Layers { valid: Some(vec![true; 11]), ..Layers::default() }, ErrorKind::ShapeMismatch),
        (Layers { valid: Some(vec![false; 12]), ..Layers::default() }, ErrorKind::InvalidInput),
        (Layers { forbidden: Some(vec![true; 12]), ..Layers::default() }, ErrorKind::InvalidInput),
        (Layers { cost: Some(vec![0.0; 12]), ..Layers::default() }, ErrorKind::InvalidInput),
        (Layers { importance: Some(vec![-1.0; 12]), ..Layers::default() }, ErrorKind::InvalidInput),
        (Layers { importance: Some(vec![0.0; 12]), ..Layers::default() }, ErrorKind::InvalidInput),
    ] {
        let error = gpara_session::SessionFile::create(&path, &settings, &layers, &[]).unwrap_err();
        assert_eq!(error.kind(), kind, "{layers:?}");
        assert!(!path.exists());
    }
}
