//! The exact engine at the size of the paper's radio task, checked by what it must satisfy rather than by a dense matrix.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

use gpara::{
    Arithmetic, Conductances, ErrorKind, Grid, MeanSolver, Observation, Observations, Posterior, ResidualPrecision,
    RiskWeights, SeedTree, Stop, UtilityMoments, ValidMask,
};

/// 128x128 with blocks of invalid cells.
fn mask() -> ValidMask {
    let grid = Grid::new(128, 128).unwrap();
    let is_valid = |node: usize| {
        let (row, col) = grid.row_col(node);
        !(row % 32 > 20 && col % 40 > 25)
    };
    ValidMask::new(grid, (0..grid.num_nodes()).map(is_valid).collect()).unwrap()
}

fn posterior(tau: f64, num_observed: usize) -> Posterior {
    let valid = mask();
    let grid = valid.grid();
    let mut stream = SeedTree::new(3).stream("full size");
    let logits: Vec<f64> = (0..4 * grid.num_nodes()).map(|_| 1.5 * stream.normal()).collect();
    let prior = ResidualPrecision::new(Conductances::from_logits(&logits, &valid).unwrap(), tau, 0.8).unwrap();
    let nodes: Vec<usize> = valid.nodes().collect();
    let measured: Vec<_> = (0..num_observed)
        .map(|_| nodes[stream.index(nodes.len())])
        .map(|node| Observation { node, value: (node % 7) as f64 - 3.0, noise_std: 1e-4 })
        .collect();
    let mut observations = Observations::none(grid);
    observations.add(&valid, &measured).unwrap();
    Posterior::new(&prior, &observations).unwrap()
}

#[test]
fn columns_variances_and_numerators_agree_with_the_precision() {
    let posterior = posterior(0.0625, 200).in_arithmetic(Arithmetic::Double).unwrap();
    let num_nodes = posterior.grid().num_nodes();
    let mut stream = SeedTree::new(3).stream("weights");
    let weights = RiskWeights::from_values((0..num_nodes).map(|_| stream.uniform()).collect()).unwrap();
    let (variances, numerators) = posterior.variances_and_numerators(&weights).unwrap();
    assert_eq!(variances, posterior.variances().unwrap());
    for _ in 0..40 {
        let node = stream.index(num_nodes);
        let column = posterior.covariance_column(node).unwrap();
        let back = posterior.precision().apply(&column);
        for (at, value) in back.iter().enumerate() {
            let unit = if at == node { 1.0 } else { 0.0 };
            assert!((value - unit).abs() < 1e-11, "node {node}");
        }
        let square: f64 = column.iter().zip(weights.as_slice()).map(|(u, w)| w * u * u).sum();
        assert!((variances[node] - column[node]).abs() <= 1e-12 * column[node], "node {node}");
        assert!((numerators[node] - square).abs() <= 1e-11 * square, "node {node}");
    }
}

/// Largest difference over the largest reference.
fn difference(found: &[f64], expected: &[f64]) -> f64 {
    let scale = expected.iter().fold(0.0f64, |scale, value| scale.max(value.abs()));
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / scale
}

#[test]
fn parity_32_bits_agree_with_64_where_they_are_chosen() {
    let single = posterior(0.0625, 200);
    assert_eq!(single.arithmetic(), Arithmetic::Single);
    let double = posterior(0.0625, 200).in_arithmetic(Arithmetic::Double).unwrap();
    let num_nodes = single.grid().num_nodes();
    let mut stream = SeedTree::new(3).stream("weights");
    let weights = RiskWeights::from_values((0..num_nodes).map(|_| stream.uniform()).collect()).unwrap();
    let (variances, numerators) = single.variances_and_numerators(&weights).unwrap();
    let (expected_variances, expected_numerators) = double.variances_and_numerators(&weights).unwrap();
    assert!(difference(&variances, &expected_variances) < 1e-5);
    assert!(difference(&numerators, &expected_numerators) < 1e-5);
    let prediction = vec![0.25; num_nodes];
    let mean = |posterior: &Posterior| posterior.mean_correction(&prediction, MeanSolver::Exact).unwrap();
    let ((mean, info), (expected, _)) = (mean(&single), mean(&double));
    // The mean is refined only where its residual asks for it, other solves always.
    assert!(difference(&mean, &expected) < 1e-6, "{:e}", difference(&mean, &expected));
    assert!(info.rel_residual < 1e-5, "{info:?}");
    let solve = |posterior: &Posterior| posterior.solve(&prediction).unwrap();
    let (solution, expected) = (solve(&single), solve(&double));
    assert!(difference(&solution, &expected) < 1e-8, "{:e}", difference(&solution, &expected));
    assert_eq!(single.log_det().unwrap(), double.log_det().unwrap(), "determinants are in 64 bits");
}

#[test]
fn arithmetic_is_64_bits_where_32_would_be_wrong_and_forcing_it_is_refused() {
    let small = posterior(1e-4, 0);
    assert_eq!(small.arithmetic(), Arithmetic::Double);
    let error = small.in_arithmetic(Arithmetic::Single).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("32-bit moments"), "{error}");
    let grid = Grid::new(80, 80).unwrap();
    let graph = Conductances::from_logits(&vec![0.0; 4 * 6400], &ValidMask::all(grid)).unwrap();
    let second = ResidualPrecision::second_order(graph, 0.0, 1.0, 1e-3).unwrap();
    let posterior = Posterior::new(&second, &Observations::none(grid)).unwrap();
    assert_eq!(posterior.arithmetic(), Arithmetic::Double);
    assert_eq!(posterior.in_arithmetic(Arithmetic::Single).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn arithmetic_is_32_bits_where_their_measured_error_allows_it() {
    let grid = Grid::new(70, 80).unwrap();
    let graph = Conductances::from_logits(&vec![0.0; 4 * grid.num_nodes()], &ValidMask::all(grid)).unwrap();
    let prior = ResidualPrecision::second_order(graph, 0.0, 1.0, 2.0).unwrap();
    let posterior = || Posterior::new(&prior, &Observations::none(grid)).unwrap();
    let single = posterior();
    assert!(single.precision().contraction_bound() > 1.0, "no bound speaks for 32 bits");
    assert_eq!(single.arithmetic(), Arithmetic::Single);
    let weights = RiskWeights::uniform(grid, &(0..grid.num_nodes()).collect::<Vec<_>>()).unwrap();
    let (variances, numerators) = single.variances_and_numerators(&weights).unwrap();
    let double = posterior().in_arithmetic(Arithmetic::Double).unwrap();
    let (expected_variances, expected_numerators) = double.variances_and_numerators(&weights).unwrap();
    assert!(difference(&variances, &expected_variances) < 4e-6);
    assert!(difference(&numerators, &expected_numerators) < 1e-5);
}

#[test]
fn exact_moments_report_the_residual_of_their_longest_column() {
    for (arithmetic, rounding) in [(Arithmetic::Single, 1e-5), (Arithmetic::Double, 1e-13)] {
        let posterior = posterior(0.0625, 200).in_arithmetic(arithmetic).unwrap();
        let weights = RiskWeights::from_values(vec![1.0; posterior.grid().num_nodes()]).unwrap();
        let moments = UtilityMoments::exact(&posterior, &weights, 1e-4).unwrap();
        let [info] = moments.solves[..] else { panic!("one solve is reported") };
        assert_eq!((info.stop, info.iterations), (Stop::Direct, 0));
        assert!(info.rel_residual > 0.0 && info.rel_residual < rounding, "{arithmetic:?}: {}", info.rel_residual);
    }
}

#[test]
fn exact_means_of_many_rows_have_the_bits_of_one_by_one() {
    for arithmetic in [Arithmetic::Single, Arithmetic::Double] {
        let posterior = posterior(0.0625, 200).in_arithmetic(arithmetic).unwrap();
        let num_nodes = posterior.grid().num_nodes();
        let rows: Vec<f64> = (0..6 * num_nodes).map(|at| ((at * 37) % 101) as f64 / 101.0).collect();
        let (means, infos) = posterior.mean_corrections(&rows, MeanSolver::Exact).unwrap();
        for (at, row) in rows.chunks(num_nodes).enumerate() {
            let (mean, info) = posterior.mean_correction(row, MeanSolver::Exact).unwrap();
            assert_eq!((&means[at * num_nodes..(at + 1) * num_nodes], infos[at]), (&mean[..], info), "row {at}");
        }
    }
}

#[test]
fn parity_pcg_mean_converges_to_the_exact_mean() {
    let posterior = posterior(0.0625, 200).in_arithmetic(Arithmetic::Double).unwrap();
    let prediction = vec![0.25; posterior.grid().num_nodes()];
    let (exact, _) = posterior.mean_correction(&prediction, MeanSolver::Exact).unwrap();
    let solver = MeanSolver::Pcg { max_iterations: 1000, rel_tolerance: 1e-12 };
    let (mean, _) = posterior.mean_correction(&prediction, solver).unwrap();
    let worst = mean.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-10, "{worst:e}");
}

#[test]
fn small_residual_precision_without_measurements_keeps_its_digits() {
    // The Laplacian vanishes on constants, so Sigma 1 = 1 / tau exactly; rounding is amplified by about lambda d / tau.
    for (tau, tolerance) in [(1e-2, 1e-12), (1e-4, 1e-10), (1e-6, 1e-8), (1e-8, 1e-6)] {
        let posterior = posterior(tau, 0).in_arithmetic(Arithmetic::Double).unwrap();
        let solution = posterior.solve(&vec![1.0; posterior.grid().num_nodes()]).unwrap();
        let worst = solution.iter().map(|value| (value * tau - 1.0).abs()).fold(0.0, f64::max);
        assert!(worst < tolerance, "tau {tau:e}: {worst:e}");
    }
}
