//! What is recorded of a tell, and what is refused.

use gpara::ErrorKind;
use gpara_session::{AskRequest, Layers, NewTell, Scale, Settings};

use crate::program::{Program, field, measured, one, settings};

#[test]
fn users_02_one_bad_row_and_none_is_recorded() {
    let layers = Layers { valid: Some((0..20).map(|node| node != 7).collect()), ..Layers::default() };
    let mut program = Program::new(&settings(4, 5, 10), &layers);
    for (bad, kind) in [
        (measured(0, 0, f64::NAN, None), ErrorKind::NonFinite),
        (measured(0, 0, f64::INFINITY, None), ErrorKind::NonFinite),
        (measured(4, 0, 1.0, None), ErrorKind::InvalidInput),
        (measured(0, 5, 1.0, None), ErrorKind::InvalidInput),
        (measured(1, 2, 1.0, None), ErrorKind::InvalidInput),
        (measured(0, 0, 1.0, Some(-0.1)), ErrorKind::InvalidInput),
        (measured(0, 0, 1.0, Some(f64::NAN)), ErrorKind::InvalidInput),
    ] {
        let measurements = vec![measured(3, 3, 0.5, None), bad];
        let tell = NewTell { source: "test".into(), num_skipped: 0, measurements };
        assert_eq!(program.campaign.tell(&tell).unwrap_err().kind(), kind, "{bad:?}");
        assert!(program.campaign.file().told().unwrap().is_empty(), "{bad:?}");
    }
    assert_eq!(program.campaign.tell_failed(&[(0, 0), (1, 2)]).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(program.campaign.file().failed().unwrap().is_empty());
}

#[test]
fn users_17_same_cell_twice_is_one_measurement_of_half_the_variance() {
    let (mut twice, mut once) = (Program::plain(6, 7, 9), Program::plain(6, 7, 9));
    for program in [&mut twice, &mut once] {
        program.tell(&[(0, 0), (5, 6)]);
    }
    let told = NewTell {
        source: "test".into(),
        num_skipped: 0,
        measurements: vec![measured(2, 3, 0.2, Some(0.1)), measured(2, 3, 0.4, Some(0.1))],
    };
    let report = twice.campaign.tell(&told).unwrap();
    assert_eq!((report.num_values, report.num_merged, report.num_observed), (2, 1, 3));
    once.campaign.tell(&one(2, 3, 0.3, Some(0.1 / 2f64.sqrt()))).unwrap();
    let (a, b) = (
        twice.campaign.estimate(&twice.method, 0, false).unwrap(),
        once.campaign.estimate(&once.method, 0, false).unwrap(),
    );
    let difference = a.mean.iter().zip(&b.mean).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(difference < 1e-12, "{difference:e}");
}

#[test]
fn users_17_contradicting_exact_values_are_refused_with_both_places() {
    let mut program = Program::plain(6, 7, 9);
    let exact = |value, line| gpara_session::NewMeasurement { line: Some(line), ..measured(2, 3, value, Some(0.0)) };
    let tell = NewTell { source: "a.csv".into(), num_skipped: 0, measurements: vec![exact(0.2, 2), exact(0.3, 9)] };
    let error = program.campaign.tell(&tell).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("line 2 and line 9 hold the exact values 0.2 and 0.3"), "{error}");
    // The same value twice is no contradiction; another one later is, and names the tell.
    let same = NewTell { measurements: vec![exact(0.2, 2), exact(0.2, 3)], ..tell.clone() };
    program.campaign.tell(&same).unwrap();
    let later = NewTell { measurements: vec![exact(0.25, 4)], ..tell };
    let error = program.campaign.tell(&later).unwrap_err();
    assert!(error.to_string().contains("tell 1, line 2 and line 4"), "{error}");
}

#[test]
fn users_18_exact_values_are_reproduced_and_vague_ones_shrink_to_the_prior() {
    let mut program = Program::new(&Settings { sigma: 0.0, ..settings(12, 15, 40) }, &Layers::default());
    let cells: Vec<(usize, usize)> = (0..20).map(|k| (k * 5 % 12, k * 7 % 15)).collect();
    program.tell(&cells);
    let estimate = program.campaign.estimate(&program.method, 0, false).unwrap();
    for &(row, col) in &cells {
        assert!((estimate.mean[row * 15 + col] - field(row, col)).abs() < 1e-6, "row {row}, col {col}");
    }
    assert!(estimate.largest_misfit.unwrap().size < 1e-6);

    let mut program = Program::plain(12, 15, 40);
    program.campaign.tell(&one(2, 2, 0.0, Some(1e-3))).unwrap();
    program.campaign.tell(&one(2, 3, 1.0, Some(1e6))).unwrap();
    let estimate = program.campaign.estimate(&program.method, 0, false).unwrap();
    assert!(estimate.mean[2 * 15 + 3].abs() < 1e-3, "{}", estimate.mean[2 * 15 + 3]);
}

#[test]
fn users_19_largest_misfit_is_reported_and_hard_consistency_sets_it_to_zero() {
    let mut program = Program::plain(8, 9, 20);
    program.tell(&[(0, 0), (7, 8), (3, 4)]);
    // A noisy value next to a good one cannot be met.
    program.campaign.tell(&one(3, 5, 2.0, Some(2.0))).unwrap();
    let soft = program.campaign.estimate(&program.method, 0, false).unwrap();
    let misfit = soft.largest_misfit.unwrap();
    assert_eq!((misfit.row, misfit.col), (3, 5));
    assert!((misfit.size - (soft.mean[3 * 9 + 5] - 2.0).abs()).abs() < 1e-12 && misfit.size > 0.5);
    let hard = program.campaign.estimate(&program.method, 0, true).unwrap();
    assert_eq!(hard.largest_misfit.unwrap().size, 0.0);
    assert_eq!(hard.mean[3 * 9 + 5], 2.0);
}

#[test]
fn users_23_points_never_asked_may_be_told_and_failures_block_their_cell() {
    let mut program = Program::plain(6, 6, 36);
    let cells = program.ask(3);
    program.campaign.tell_failed(&cells[..1]).unwrap();
    program.tell(&[(5, 5)]);
    let status = program.campaign.status().unwrap();
    assert_eq!((status.num_failed, status.pending.len(), status.num_observed), (1, 2, 1));
    let mut asked = Vec::new();
    while let Ok(answer) = program.campaign.ask(&program.method, &AskRequest::points(7)) {
        asked.extend(crate::program::cells(&answer));
    }
    assert!(!asked.contains(&cells[0]) && !asked.contains(&(5, 5)));
    assert_eq!(asked.len(), 36 - 3 - 1);
    // A value that came after all counts.
    program.tell(&cells[..1]);
    assert_eq!(program.campaign.status().unwrap().num_observed, 2);
}

#[test]
fn values_and_errors_are_in_the_unit() {
    let scale = Scale::new(-147.0, -47.84, "dB").unwrap();
    let mut program = Program::new(&Settings { scale, sigma: 0.5, ..settings(9, 9, 20) }, &Layers::default());
    program.campaign.tell(&one(1, 1, -80.0, None)).unwrap();
    program.campaign.tell(&one(7, 7, -90.0, None)).unwrap();
    let told = program.campaign.file().told().unwrap();
    assert_eq!(told.iter().map(|told| (told.value, told.sigma)).collect::<Vec<_>>(), [(-80.0, 0.5), (-90.0, 0.5)]);
    let estimate = program.campaign.estimate(&program.method, 0, false).unwrap();
    assert!((estimate.mean[10] + 80.0).abs() < 0.5 && (estimate.mean[70] + 90.0).abs() < 0.5);
    assert!(estimate.mean.iter().all(|&mean| mean > -91.0 && mean < -79.0));
}

#[test]
fn prediction_before_a_tell_is_kept_and_checked() {
    let mut program = Program::plain(15, 15, 60);
    program.tell(&[(0, 0), (14, 14), (0, 14), (14, 0), (7, 7)]);
    for _ in 0..6 {
        let cells = program.ask(4);
        program.tell(&cells);
    }
    let told = program.campaign.file().told().unwrap();
    assert!(told[..5].iter().all(|told| told.predicted.is_none()));
    assert!(told[5..].iter().all(|told| told.predicted.is_some_and(|(_, std)| std > 0.0)));
    let coverage = program.campaign.status().unwrap().coverage.unwrap();
    assert_eq!(coverage.num_values, 24);
    let expected =
        (told[5..].iter().map(|told| (told.value - told.predicted.unwrap().0).powi(2)).sum::<f64>() / 24.0).sqrt();
    assert!((coverage.rmse - expected).abs() < 1e-12);
}
