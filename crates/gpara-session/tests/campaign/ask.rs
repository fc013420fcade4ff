//! Which points are asked for.

use std::collections::BTreeSet;

use gpara::ErrorKind;
use gpara_session::{AskRequest, Layers, Settings};

use crate::program::{Program, settings};

#[test]
fn users_03_nothing_is_asked_inside_a_mask() {
    let valid: Vec<bool> = (0..8 * 9).map(|node| (node / 9 + node % 9) % 3 != 0).collect();
    let layers = Layers { valid: Some(valid.clone()), ..Layers::default() };
    let mut program = Program::new(&settings(8, 9, 1000), &layers);
    let num_valid = valid.iter().filter(|&&valid| valid).count();
    let cells = program.ask(num_valid);
    assert_eq!(cells.len(), num_valid);
    assert!(cells.iter().all(|&(row, col)| valid[row * 9 + col]));
}

#[test]
fn users_13_odd_sizes_and_single_rows_and_columns_run_to_the_end() {
    for (rows, cols) in [(37, 53), (1, 40), (40, 1), (1, 1), (2, 3)] {
        let mut program = Program::plain(rows, cols, 6);
        let first = program.ask(2);
        program.tell(&first);
        let estimate = program.campaign.estimate(&program.method, 0, false).unwrap();
        assert_eq!(estimate.mean.len(), rows * cols, "{rows}x{cols}");
        assert!(estimate.mean.iter().all(|value| value.is_finite()), "{rows}x{cols}");
    }
}

#[test]
fn users_15_a_measured_corner_moves_the_estimate_at_that_corner() {
    for (row, col) in [(0, 0), (0, 12), (6, 0), (6, 12)] {
        let mut program = Program::plain(7, 13, 5);
        // A level far away, so that the corner stands out.
        program.tell(&[(3, 6)]);
        let value = 7.0;
        program.campaign.tell(&crate::program::one(row, col, value, None)).unwrap();
        let estimate = program.campaign.estimate(&program.method, 0, false).unwrap();
        let node = row * 13 + col;
        let largest = (0..91).max_by(|&a, &b| estimate.mean[a].total_cmp(&estimate.mean[b])).unwrap();
        assert_eq!(largest, node);
        assert!((estimate.mean[node] - value).abs() < 0.01);
    }
}

#[test]
fn users_21_budget_of_one_of_all_cells_and_no_measurement_work() {
    let mut program = Program::plain(5, 6, 1);
    assert_eq!(program.ask(8).len(), 1);
    let error = program.campaign.ask(&program.method, &AskRequest::points(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BudgetSpent);

    let mut program = Program::plain(5, 6, 31);
    let cells = program.ask(100);
    assert_eq!(cells.iter().collect::<BTreeSet<_>>().len(), 30);
    program.tell(&cells);
    let error = program.campaign.ask(&program.method, &AskRequest::points(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");

    let mut program = Program::plain(5, 6, 3);
    let estimate = program.campaign.estimate(&program.method, 0, false).unwrap();
    assert_eq!((estimate.num_observed, estimate.largest_misfit, estimate.std), (0, None, None));
    assert!(estimate.mean.iter().all(|&mean| mean.abs() < 1e-12), "without measurements the level of the prior");
}

#[test]
fn users_22_five_hundred_asks_never_repeat() {
    let mut program = Program::plain(24, 24, 576);
    let mut seen = BTreeSet::new();
    for round in 0..100 {
        let cells = program.ask(5);
        assert_eq!(cells.len(), 5);
        assert!(cells.iter().all(|cell| seen.insert(*cell)), "a cell was asked twice in round {round}");
        // Half of them stay pending for a while.
        if round % 2 == 0 {
            program.tell(&cells);
        }
    }
    assert_eq!(seen.len(), 500);
}

#[test]
fn users_22_batch_is_wider_than_the_naive_top_and_begins_with_the_best() {
    let mut program = Program::plain(30, 40, 100);
    program.tell(&[(3, 3), (25, 30)]);
    let single = program.ask(1);
    // The pending point blocks its own cell, so the batch is asked in a twin that has no pending point.
    let mut twin = Program::plain(30, 40, 100);
    twin.tell(&[(3, 3), (25, 30)]);
    let answer = twin.campaign.ask(&twin.method, &AskRequest::points(8)).unwrap();
    let batch = crate::program::cells(&answer);
    assert_eq!(batch[0], single[0]);
    let nearest = |cells: &[(usize, usize)]| {
        let mut nearest = f64::INFINITY;
        for (at, a) in cells.iter().enumerate() {
            for b in &cells[..at] {
                nearest = nearest.min((a.0 as f64 - b.0 as f64).hypot(a.1 as f64 - b.1 as f64));
            }
        }
        nearest
    };
    // The eight best cells by single utility lie together: around one maximum.
    assert!(nearest(&batch) >= 5.0, "{batch:?}");
}

#[test]
fn pending_points_enter_as_measured() {
    // Once its points are told, with any values, the next ask is the one made while they were pending.
    let (mut first, mut second) = (Program::plain(20, 20, 50), Program::plain(20, 20, 50));
    let cells = first.ask(3);
    assert_eq!(second.ask(3), cells);
    second.tell(&cells);
    assert_eq!(first.ask(4), second.ask(4));
}

#[test]
fn users_20_same_tells_in_any_order_give_the_same_points() {
    let cells: Vec<(usize, usize)> = (0..30).map(|k| (k * 7 % 19, k * 11 % 23)).collect();
    let (mut forward, mut backward) = (Program::plain(19, 23, 100), Program::plain(19, 23, 100));
    // Two values of one cell, whose merging rounds.
    let twice = [crate::program::one(4, 4, 0.3, Some(0.02)), crate::program::one(4, 4, 0.1, Some(0.05))];
    forward.tell(&cells);
    twice.iter().for_each(|tell| {
        forward.campaign.tell(tell).unwrap();
    });
    twice.iter().rev().for_each(|tell| {
        backward.campaign.tell(tell).unwrap();
    });
    for &cell in cells.iter().rev() {
        backward.tell(&[cell]);
    }
    let request = AskRequest::points(6);
    let (one, other) = (
        forward.campaign.ask(&forward.method, &request).unwrap(),
        backward.campaign.ask(&backward.method, &request).unwrap(),
    );
    assert_eq!(one.ask.points, other.ask.points);
    let estimates = (
        forward.campaign.estimate(&forward.method, 0, false).unwrap(),
        backward.campaign.estimate(&backward.method, 0, false).unwrap(),
    );
    assert_eq!(estimates.0.mean, estimates.1.mean);
}

#[test]
fn users_24_ten_asks_in_one_process_equal_five_reopen_five() {
    let run = |reopen: bool| {
        let mut program = Program::plain(16, 21, 60);
        let mut all = Vec::new();
        for round in 0..10 {
            if reopen && round == 5 {
                program.reopen();
            }
            let cells = program.ask(3);
            program.tell(&cells[..2]);
            all.extend(cells);
        }
        all
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn users_27_same_seed_gives_the_same_samples_of_the_field() {
    let samples = |count: usize| {
        let mut program = Program::new(&Settings { seed: 9, ..settings(9, 11, 20) }, &Layers::default());
        program.tell(&[(1, 1), (5, 7), (8, 2)]);
        program.campaign.estimate(&program.method, count, false).unwrap().samples
    };
    let four = samples(4);
    assert_eq!(four.len(), 4);
    assert_eq!(samples(1)[0], four[0]);
    assert_ne!(four[0], four[1]);
}

#[test]
fn users_30_session_is_bound_to_its_method_and_refuses_another_one() {
    let mut program = Program::plain(6, 6, 10);
    program.ask(1);
    let other = gpara_session::SessionPrior::Gaussian { level: 0.0, residual_precision: 0.5, graph_coupling: 1.0 };
    let other = gpara_session::GaussianMethod::of(&other).unwrap();
    program.reopen();
    let error = program.campaign.ask(&other, &AskRequest::points(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("residual_precision 0.5"), "{error}");
    assert_eq!(program.campaign.status().unwrap().pending.len(), 1);
}
