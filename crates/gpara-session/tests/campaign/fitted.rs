//! The fitted Gaussian prior in a campaign.

use gpara_session::{AskRequest, Campaign, DriftTerm, FittedPrior, Layers, Method, Robust, SessionPrior, Settings};

use crate::program::{cells, field, one, settings, values};

/// A campaign with a fitted prior, in a folder that lives as long as it.
pub(crate) struct Fitted {
    _folder: tempfile::TempDir,
    pub(crate) campaign: Campaign,
    pub(crate) method: Box<dyn Method>,
}

impl Fitted {
    pub(crate) fn new(prior: FittedPrior, settings: Settings, layers: &Layers) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("S.gpara");
        let settings = Settings { prior: SessionPrior::Fitted(prior), ..settings };
        gpara_session::SessionFile::create(&path, &settings, layers, &[]).unwrap();
        let campaign = Campaign::open(&path).unwrap();
        let method = gpara_session::gaussian_method(&campaign.settings().prior).unwrap();
        Self { _folder: folder, campaign, method }
    }

    pub(crate) fn plain(rows: usize, cols: usize) -> Self {
        Self::new(FittedPrior::default(), settings(rows, cols, 200), &Layers::default())
    }

    pub(crate) fn parameter(&mut self, name: &str) -> f64 {
        let estimate = self.campaign.estimate(&*self.method, 0, false).unwrap();
        estimate.parameters.iter().find(|(known, _)| *known == name).unwrap().1
    }
}

#[test]
fn users_21_a_spread_and_an_ask_are_sensible_from_no_and_one_measurement_on() {
    let mut program = Fitted::plain(20, 30);
    let estimate = program.campaign.estimate(&*program.method, 0, false).unwrap();
    assert!(estimate.mean.iter().all(|mean| mean.abs() < 1e-12));
    let std = estimate.std.unwrap();
    assert!(std.iter().all(|std| *std > 0.4 && *std < 2.0), "about the session's range: {}", std[0]);
    // The middle says most of a field of which nothing is known.
    let first = cells(&program.campaign.ask(&*program.method, &AskRequest::points(1)).unwrap())[0];
    assert!(first.0.abs_diff(10) <= 2 && first.1.abs_diff(15) <= 2, "{first:?}");
    program.campaign.tell(&one(first.0, first.1, 0.3, None)).unwrap();
    let estimate = program.campaign.estimate(&*program.method, 0, false).unwrap();
    let std = estimate.std.unwrap();
    assert!(estimate.mean.iter().all(|mean| (mean - 0.3).abs() < 0.05), "one value is the level");
    assert!(std[first.0 * 30 + first.1] < 0.1 * std[0], "{} {}", std[first.0 * 30 + first.1], std[0]);
}

#[test]
fn users_18_exact_values_are_reproduced_whatever_the_nugget() {
    let mut program =
        Fitted::new(FittedPrior::default(), Settings { sigma: 0.0, ..settings(15, 18, 99) }, &Layers::default());
    // Noise of the field itself: neighbours differ, so the nugget is large.
    let rough = |row: usize, col: usize| (((row * 31 + col) * 7919 % 101) as f64 / 50.0 - 1.0) * 0.8;
    let told: Vec<(usize, usize)> = (0..40).map(|k| (k * 5 % 15, k * 7 % 18)).collect();
    for &(row, col) in &told {
        program.campaign.tell(&one(row, col, rough(row, col), None)).unwrap();
    }
    let estimate = program.campaign.estimate(&*program.method, 3, false).unwrap();
    assert!(estimate.largest_misfit.unwrap().size < 1e-6, "{:?}", estimate.largest_misfit);
    let std = estimate.std.unwrap();
    for &(row, col) in &told {
        assert!(std[row * 18 + col] < 1e-4);
        assert!(estimate.samples.iter().all(|sample| (sample[row * 18 + col] - rough(row, col)).abs() < 1e-4));
    }
    // Said by a nugget or by a range of a few cells.
    assert!(program.parameter("nugget") > 0.1 || program.parameter("range") < 5.0);
}

#[test]
fn same_tells_in_any_order_give_the_same_fit_and_the_same_points() {
    let told: Vec<(usize, usize)> = (0..60).map(|k| (k * 7 % 19, k * 11 % 23)).collect();
    let (mut forward, mut backward) = (Fitted::plain(19, 23), Fitted::plain(19, 23));
    forward.campaign.tell(&values(&told)).unwrap();
    for &cell in told.iter().rev() {
        backward.campaign.tell(&values(&[cell])).unwrap();
    }
    let ask = |program: &mut Fitted| program.campaign.ask(&*program.method, &AskRequest::points(5)).unwrap().ask.points;
    assert_eq!(ask(&mut forward), ask(&mut backward));
    assert_eq!(forward.parameter("range").to_bits(), backward.parameter("range").to_bits());
}

#[test]
fn drift_of_log_distance_is_followed_far_from_the_measurements() {
    let drift = vec![DriftTerm::Constant, DriftTerm::LogDistance { row: 3.0, col: 3.0 }];
    let truth = |row: usize, col: usize| 0.9 - 0.45 * (row as f64 - 3.0).hypot(col as f64 - 3.0).max(0.5).ln();
    let error_with = |drift: Vec<DriftTerm>| {
        let mut program =
            Fitted::new(FittedPrior { drift, ..FittedPrior::default() }, settings(30, 40, 99), &Layers::default());
        // Measured near the place only.
        for k in 0..25 {
            let (row, col) = (k * 3 % 11, k * 5 % 13);
            program.campaign.tell(&one(row, col, truth(row, col), None)).unwrap();
        }
        let estimate = program.campaign.estimate(&*program.method, 0, false).unwrap();
        (estimate.mean[29 * 40 + 39] - truth(29, 39)).abs()
    };
    let (with, without) = (error_with(drift), error_with(vec![DriftTerm::Constant]));
    assert!(with < 0.1 && without > 3.0 * with, "{with} with the drift, {without} without");
}

#[test]
fn drift_follows_a_map_that_the_session_holds_and_refuses_one_it_does_not() {
    let map: Vec<f64> = (0..30 * 20).map(|node| 100.0 + ((node * 37) % 91) as f64).collect();
    let drift = vec![DriftTerm::Constant, DriftTerm::Channel { name: "elev".into() }];
    let prior = FittedPrior { drift, ..FittedPrior::default() };
    let layers = Layers { channels: vec![("elev".into(), map.clone())], ..Layers::default() };
    let mut program = Fitted::new(prior.clone(), settings(30, 20, 99), &layers);
    let truth = |node: usize| 0.004 * (map[node] - 140.0) + 0.1;
    for k in 0..30 {
        let node = k * 17 % 600;
        program.campaign.tell(&one(node / 20, node % 20, truth(node), None)).unwrap();
    }
    let estimate = program.campaign.estimate(&*program.method, 0, false).unwrap();
    let worst = (0..600).map(|node| (estimate.mean[node] - truth(node)).abs()).fold(0.0, f64::max);
    assert!(worst < 0.03, "{worst}");

    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { prior: SessionPrior::Fitted(prior), ..settings(30, 20, 99) };
    let made = gpara_session::SessionFile::create(&folder.path().join("S.gpara"), &settings, &Layers::default(), &[]);
    let error = made.unwrap_err();
    assert_eq!(error.kind(), gpara::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("channel=elev"), "{error}");
}

#[test]
fn robust_fit_names_the_outliers_and_is_not_bent_by_them() {
    let told: Vec<(usize, usize)> = (0..90).map(|k| (k * 7 % 29, k * 13 % 31)).collect();
    let error_with = |robust: Option<Robust>| {
        let prior = FittedPrior { robust, ..FittedPrior::default() };
        let mut program = Fitted::new(prior, Settings { sigma: 0.02, ..settings(29, 31, 99) }, &Layers::default());
        for (k, &(row, col)) in told.iter().enumerate() {
            let off = if k % 18 == 5 { 2.5 } else { 0.0 };
            program.campaign.tell(&one(row, col, field(row, col) + off, None)).unwrap();
        }
        let estimate = program.campaign.estimate(&*program.method, 0, false).unwrap();
        let squares: f64 = (0..29 * 31).map(|node| (estimate.mean[node] - field(node / 31, node % 31)).powi(2)).sum();
        ((squares / (29.0 * 31.0)).sqrt(), estimate.outliers)
    };
    let (plain, none) = error_with(None);
    assert!(none.is_empty());
    for robust in [Robust::StudentT, Robust::Huber] {
        let (rmse, outliers) = error_with(Some(robust));
        assert!(rmse < 0.5 * plain, "{robust:?}: {rmse} against {plain}");
        let expected: Vec<(usize, usize)> = (0..90).filter(|k| k % 18 == 5).map(|k| told[k]).collect();
        assert!(expected.iter().all(|cell| outliers.contains(cell)), "{robust:?}: {outliers:?}");
        assert!(outliers.len() <= 8, "{robust:?}: {outliers:?}");
    }
}

#[test]
fn guide_stops_the_field_at_the_edges_of_the_picture() {
    let guide: Vec<f64> = (0..24 * 24).map(|node| if node % 24 < 12 { 0.2 } else { 0.9 }).collect();
    let layers = Layers { guide: Some(guide), ..Layers::default() };
    let truth = |col: usize| if col < 12 { -0.6 } else { 0.6 };
    let error_with = |guide_scale: Option<f64>, layers: &Layers| {
        let prior = FittedPrior { guide_scale, ..FittedPrior::default() };
        let mut program = Fitted::new(prior, settings(24, 24, 99), layers);
        for k in 0..20 {
            let (row, col) = (k * 5 % 24, k * 7 % 24);
            program.campaign.tell(&one(row, col, truth(col), None)).unwrap();
        }
        let estimate = program.campaign.estimate(&*program.method, 0, false).unwrap();
        (0..576).map(|node| (estimate.mean[node] - truth(node % 24)).powi(2)).sum::<f64>()
    };
    let (guided, plain) = (error_with(Some(0.1), &layers), error_with(None, &Layers::default()));
    assert!(guided < 0.2 * plain, "{guided} against {plain}");
}
