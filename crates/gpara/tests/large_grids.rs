//! What large grids are solved with: iterative means, coloured probes and tiles, against the exact engine.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]

use gpara::{
    Arithmetic, Conductances, ErrorKind, Grid, HaloSearch, MeanSolver, Observation, Observations, Posterior, ProbeKind,
    ResidualPrecision, RiskWeights, SeedTree, Stop, Tiling, UtilityMethod, UtilityMoments, ValidMask,
};

struct Scene {
    posterior: Posterior,
    weights: RiskWeights,
}

/// Random conductances with a masked block, a few nearly exact measurements, random weights.
fn scene(rows: usize, cols: usize, tau: f64) -> Scene {
    let grid = Grid::new(rows, cols).unwrap();
    let is_valid = |node: usize| {
        let (row, col) = grid.row_col(node);
        !(row % 16 > 11 && col % 20 > 13)
    };
    let valid = ValidMask::new(grid, (0..grid.num_nodes()).map(is_valid).collect()).unwrap();
    let mut stream = SeedTree::new(21).stream("large grids");
    let logits: Vec<f64> = (0..4 * grid.num_nodes()).map(|_| 1.5 * stream.normal()).collect();
    let prior = ResidualPrecision::new(Conductances::from_logits(&logits, &valid).unwrap(), tau, 0.8).unwrap();
    let mut observations = Observations::none(grid);
    let nodes: Vec<usize> = valid.nodes().collect();
    for _ in 0..grid.num_nodes().div_ceil(100) {
        let node = nodes[stream.index(nodes.len())];
        observations.add(&valid, &[Observation { node, value: stream.normal(), noise_std: 1e-4 }]).unwrap();
    }
    let weight = |node: usize| if valid.is_valid(node) { 0.25 + 0.75 * stream.uniform() } else { 0.0 };
    let weights = RiskWeights::from_values((0..grid.num_nodes()).map(weight).collect()).unwrap();
    Scene { posterior: Posterior::new(&prior, &observations).unwrap(), weights }
}

fn distance(found: &[f64], expected: &[f64]) -> f64 {
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let difference = square(&mut found.iter().zip(expected).map(|(a, b)| a - b));
    (difference / square(&mut expected.iter().copied())).sqrt()
}

fn largest_relative_error(found: &[f64], expected: &[f64]) -> f64 {
    found.iter().zip(expected).map(|(a, b)| (a - b).abs() / b.abs()).fold(0.0, f64::max)
}

#[test]
fn every_iterative_mean_approaches_the_exact_one_and_reports_its_true_residual() {
    let Scene { posterior, .. } = scene(60, 77, 0.0625);
    let prediction = vec![0.25; posterior.grid().num_nodes()];
    let (exact, info) = posterior.mean_correction(&prediction, MeanSolver::Exact).unwrap();
    assert_eq!(info.stop, Stop::Direct);
    // A mean in 32 bits is refined where this is not so; the reference is in 64.
    assert!(info.rel_residual < 1e-5, "{info:?}");
    let double = scene(60, 77, 0.0625).posterior.in_arithmetic(Arithmetic::Double).unwrap();
    let (expected, info) = double.mean_correction(&prediction, MeanSolver::Exact).unwrap();
    // Rounding of a right-hand side of 1e8, weighted.
    assert!(info.rel_residual < 1e-10 && distance(&exact, &expected) < 1e-5, "{info:?}");
    let exact = expected;
    let (max_iterations, rel_tolerance) = (500, 1e-10);
    for (solver, stop, close) in [
        (MeanSolver::Jacobi { iterations: 4000 }, Stop::FixedDepth, 1e-7),
        (MeanSolver::Chebyshev { iterations: 300 }, Stop::FixedDepth, 1e-7),
        (MeanSolver::Pcg { max_iterations, rel_tolerance }, Stop::Converged, 1e-8),
        (MeanSolver::Multigrid { max_iterations, rel_tolerance }, Stop::Converged, 1e-8),
    ] {
        let (mean, info) = posterior.mean_correction(&prediction, solver).unwrap();
        assert_eq!(info.stop, stop, "{solver:?}");
        assert!(info.iterations > 0 && info.rel_residual < close, "{solver:?}: {info:?}");
        assert!(distance(&mean, &exact) < close, "{solver:?}: {:e}", distance(&mean, &exact));
    }
    // At equal depth Chebyshev is the better polynomial.
    let at_depth = |solver| distance(&posterior.mean_correction(&prediction, solver).unwrap().0, &exact);
    let chebyshev = at_depth(MeanSolver::Chebyshev { iterations: 24 });
    assert!(chebyshev < 0.7 * at_depth(MeanSolver::Jacobi { iterations: 24 }), "{chebyshev}");
}

#[test]
fn tolerance_relative_to_the_right_hand_side_passes_at_once_ours_does_not() {
    // noise_std = 1e-4: the right-hand side is of order 1e8 at the measured cells and 0 elsewhere.
    let Scene { posterior, .. } = scene(40, 50, 0.0625);
    let prediction = vec![0.25; posterior.grid().num_nodes()];
    let (exact, _) = posterior.mean_correction(&prediction, MeanSolver::Exact).unwrap();
    let diagonal = posterior.precision().precision_diagonal();
    let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let mut rhs = vec![0.0; prediction.len()];
    for (entry, innovation) in posterior.observations().iter().zip(posterior.innovation(&prediction).unwrap()) {
        rhs[entry.node] = innovation / entry.noise_std.powi(2);
    }
    let measured_alone: Vec<f64> = rhs.iter().zip(diagonal).map(|(f, d)| f / d).collect();
    let left: Vec<f64> = posterior.precision().apply(&measured_alone).iter().zip(&rhs).map(|(ax, f)| f - ax).collect();
    assert!(norm(&left) < 1e-7 * norm(&rhs), "the trap is not in this scene");
    assert!(distance(&measured_alone, &exact) > 0.5);
    let (max_iterations, rel_tolerance) = (500, 1e-5);
    for solver in
        [MeanSolver::Pcg { max_iterations, rel_tolerance }, MeanSolver::Multigrid { max_iterations, rel_tolerance }]
    {
        let (mean, info) = posterior.mean_correction(&prediction, solver).unwrap();
        assert_eq!(info.stop, Stop::Converged);
        assert!(distance(&mean, &exact) < 1e-3, "{solver:?}: {:e}", distance(&mean, &exact));
        let capped = match solver {
            MeanSolver::Pcg { .. } => MeanSolver::Pcg { max_iterations: 2, rel_tolerance },
            _ => MeanSolver::Multigrid { max_iterations: 2, rel_tolerance },
        };
        let (_, info) = posterior.mean_correction(&prediction, capped).unwrap();
        assert_eq!((info.iterations, info.stop), (2, Stop::IterationCap));
    }
}

#[test]
fn users_31_stalled_iterations_fall_back_to_the_direct_solve_and_say_so() {
    let Scene { posterior, .. } = scene(30, 30, 0.0625);
    let prediction = vec![0.25; 900];
    let (exact, _) = posterior.mean_correction(&prediction, MeanSolver::Exact).unwrap();
    // No residual in double precision is 1e-25 of another.
    let (max_iterations, rel_tolerance) = (100_000, 1e-25);
    for solver in
        [MeanSolver::Pcg { max_iterations, rel_tolerance }, MeanSolver::Multigrid { max_iterations, rel_tolerance }]
    {
        let (mean, info) = posterior.mean_correction(&prediction, solver).unwrap();
        assert_eq!(info.stop, Stop::DirectAfterStall, "{solver:?}");
        assert!(info.iterations > 10 && info.iterations < 1000 && info.rel_residual < 1e-10, "{solver:?}: {info:?}");
        assert_eq!(mean, exact, "{solver:?}");
    }
}

#[test]
fn noise_outside_the_range_of_single_precision_keeps_multigrid_valid() {
    let grid = Grid::new(20, 20).unwrap();
    let valid = ValidMask::all(grid);
    let graph = Conductances::from_logits(&[0.0; 1600], &valid).unwrap();
    let mut observations = Observations::none(grid);
    observations.add(&valid, &[Observation { node: 57, value: 1.0, noise_std: 1e-30 }]).unwrap();
    let posterior = Posterior::new(&ResidualPrecision::new(graph, 0.0625, 0.8).unwrap(), &observations).unwrap();
    let exact = posterior.mean_correction(&[0.0; 400], MeanSolver::Exact).unwrap().0;
    let solver = MeanSolver::Multigrid { max_iterations: 200, rel_tolerance: 1e-9 };
    let (mean, info) = posterior.mean_correction(&[0.0; 400], solver).unwrap();
    assert_eq!(info.stop, Stop::Converged, "{info:?}");
    assert!(distance(&mean, &exact) < 1e-7);
}

#[test]
fn coloured_probes_are_exact_once_every_cell_has_its_own_colour_and_better_than_dense_signs_before() {
    let Scene { posterior, weights } = scene(14, 17, 0.25);
    let exact = UtilityMoments::exact(&posterior, &weights, 0.01).unwrap();
    let probe = |kind, num_probes| {
        let method = UtilityMethod::Probing { kind, num_probes, max_iterations: 500, rel_tolerance: 1e-13 };
        UtilityMoments::compute(&posterior, &weights, 0.01, method, SeedTree::new(4), 2).unwrap()
    };
    for spacing in [17, 40] {
        let moments = probe(ProbeKind::Coloured { spacing }, 1);
        assert!(largest_relative_error(&moments.variance_estimate, &exact.variance_estimate) < 1e-9);
        assert!(distance(&moments.numerator_estimate, &exact.numerator_estimate) < 1e-9);
        assert_eq!(moments.solves.len(), 2 * 14 * 17);
        assert!(moments.solves.iter().all(|info| info.stop == Stop::Converged));
    }
    // Two draws of 49 colours against 98 dense vectors: the same number of solves.
    let error = |kind, draws| distance(&probe(kind, draws).numerator_estimate, &exact.numerator_estimate);
    let (coloured, dense) = (error(ProbeKind::Coloured { spacing: 7 }, 2), error(ProbeKind::Rademacher, 98));
    assert!(coloured < 0.5 * dense, "{coloured} against {dense}");
}

#[test]
fn theory_average_over_all_signs_is_exact_for_each_colour() {
    // 3 x 3 cells, 4 colours: all 2^9 sign vectors, each split into its colours.
    let Scene { posterior, weights } = scene(3, 3, 0.25);
    let exact = UtilityMoments::exact(&posterior, &weights, 0.01).unwrap();
    let colour = |node: usize| node / 3 % 2 * 2 + node % 3 % 2;
    let sign = |bits: usize, node: usize| if bits >> node & 1 == 1 { 1.0 } else { -1.0 };
    let probe = |bits: usize, own: usize| {
        (0..9).map(|node| if colour(node) == own { 2.0 * sign(bits, node) } else { 0.0 }).collect::<Vec<f64>>()
    };
    let probes: Vec<_> = (0..512).flat_map(|bits| (0..4).map(move |own| probe(bits, own))).collect();
    let moments = UtilityMoments::from_probes(&posterior, &weights, 0.01, &probes, 500, 1e-14).unwrap();
    assert!(largest_relative_error(&moments.variance_estimate, &exact.variance_estimate) < 1e-10);
    assert!(largest_relative_error(&moments.numerator_estimate, &exact.numerator_estimate) < 1e-10);
}

#[test]
fn tiles_approach_the_exact_moments_from_below_as_the_halo_grows() {
    let Scene { posterior, weights } = scene(70, 90, 0.25);
    let exact = UtilityMoments::exact(&posterior, &weights, 1e-4).unwrap();
    let mut last = (f64::INFINITY, f64::INFINITY);
    for (halo, allowed) in [(4, 0.5), (12, 0.02), (24, 1e-4)] {
        let method = UtilityMethod::Tiled { core: 20, halo };
        let tiled = UtilityMoments::compute(&posterior, &weights, 1e-4, method, SeedTree::new(1), 0).unwrap();
        let below = tiled.variance_estimate.iter().zip(&exact.variance_estimate).all(|(t, e)| *t <= e * (1.0 + 1e-5));
        assert!(below, "halo {halo}: a cut raises no variance");
        let error = largest_relative_error(&tiled.utility, &exact.utility);
        let [info] = tiled.solves[..] else { panic!("one solve is reported") };
        assert_eq!((info.iterations, info.stop), (0, Stop::Direct));
        assert!(
            error < allowed && error < 0.2 * last.0 && info.rel_residual < 0.5 * last.1,
            "halo {halo}: {error:e} {info:?}"
        );
        assert!(tiled.is_exact());
        last = (error, info.rel_residual);
    }
}

#[test]
fn one_window_over_the_whole_grid_is_exact_and_threads_do_not_change_the_bits() {
    // A residual precision below about .01 makes the windows f64.
    for (tau, close) in [(0.001, 1e-10), (0.0625, 1e-5)] {
        let Scene { posterior, weights } = scene(33, 41, tau);
        let (variances, numerators) = posterior.variances_and_numerators(&weights).unwrap();
        let whole = Tiling::new(10, 41).unwrap();
        assert_eq!(whole.cut_residual(&posterior).unwrap().rel_residual, 0.0);
        let (d, n) = whole.variances_and_numerators(&posterior, &weights).unwrap();
        let error = largest_relative_error(&d, &variances).max(distance(&n, &numerators));
        assert!(error < close, "tau {tau}: {error:e}");
    }
    let Scene { posterior, weights } = scene(33, 41, 0.0625);

    let bits = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let tiling = Tiling::new(9, 5).unwrap();
        let (d, n) = pool.install(|| tiling.variances_and_numerators(&posterior, &weights).unwrap());
        d.into_iter().chain(n).map(f64::to_bits).collect::<Vec<_>>()
    };
    let one = bits(1);
    assert!(one == bits(2) && one == bits(5));
}

#[test]
fn chosen_halo_keeps_its_share_and_its_variance_bound() {
    let Scene { posterior, weights } = scene(80, 90, 0.25);
    let mut last = 0;
    for tolerance in [1e-1, 1e-2, 1e-4] {
        let search = HaloSearch { tolerance, probes_per_side: 3 };
        let choice = search.choose(&posterior, &weights).unwrap();
        assert!(choice.halo > last && choice.halo < 60, "{choice:?}");
        assert!(choice.share_outside <= tolerance, "{choice:?}");
        let mut worst_share = 0.0f64;
        // The probed cells: the middles of three equal parts in each direction.
        for node in [13, 40, 66].into_iter().flat_map(|row| [15, 45, 75].map(|col| row * 90 + col)) {
            let column = posterior.covariance_column(node).unwrap();
            let term = |other: usize| weights.as_slice()[other] * column[other] * column[other];
            let far =
                |other: usize| (other / 90).abs_diff(node / 90).max((other % 90).abs_diff(node % 90)) > choice.halo;
            let outside: f64 = (0..7200).filter(|&other| far(other)).map(term).sum();
            worst_share = worst_share.max(outside / (0..7200).map(term).sum::<f64>());
        }
        assert!((worst_share - choice.share_outside).abs() < 0.05 * tolerance, "{worst_share:e} {choice:?}");
        last = choice.halo;
    }
    // A core of 1 has every cell in the middle of its window, so the bound holds for each probed cell.
    let Scene { posterior, weights } = scene(30, 33, 0.25);
    let choice = HaloSearch { tolerance: 0.05, probes_per_side: 2 }.choose(&posterior, &weights).unwrap();
    let (tiled, _) = Tiling::new(1, choice.halo).unwrap().variances_and_numerators(&posterior, &weights).unwrap();
    let (exact, bound) = (posterior.variances().unwrap(), choice.variance_bound.unwrap());
    let errors =
        [7, 22].into_iter().flat_map(|row| [8, 24].map(|col| row * 33 + col)).map(|at| 1.0 - tiled[at] / exact[at]);
    let worst = errors.fold(0.0, f64::max);
    assert!(worst > 0.0 && worst <= bound, "halo {}: {worst:e} above {bound:e}", choice.halo);
}

#[test]
fn bad_settings_and_windows_that_cannot_fit_are_refused_by_kind() {
    let Scene { posterior, weights } = scene(12, 15, 0.25);
    let compute = |method| {
        UtilityMoments::compute(&posterior, &weights, 0.1, method, SeedTree::new(1), 0).map(|_| ()).unwrap_err().kind()
    };
    assert_eq!(compute(UtilityMethod::Tiled { core: 0, halo: 3 }), ErrorKind::InvalidInput);
    let (num_probes, max_iterations, rel_tolerance) = (1, 10, 1e-3);
    let kind = ProbeKind::Coloured { spacing: 0 };
    assert_eq!(
        compute(UtilityMethod::Probing { kind, num_probes, max_iterations, rel_tolerance }),
        ErrorKind::InvalidInput
    );
    let other = RiskWeights::from_values(vec![1.0; 12]).unwrap();
    let refused = Tiling::DEFAULT.variances_and_numerators(&posterior, &other).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ShapeMismatch);
    for tolerance in [0.0, 1.0, f64::NAN] {
        let search = HaloSearch { tolerance, probes_per_side: 3 };
        assert_eq!(search.choose(&posterior, &weights).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(HaloSearch::default().choose(&posterior, &other).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    let solver = MeanSolver::Chebyshev { iterations: 0 };
    assert_eq!(posterior.mean_correction(&[0.0; 180], solver).unwrap_err().kind(), ErrorKind::InvalidInput);
    // Memory is counted a window, not a grid.
    let precision = posterior.precision();
    let worker = Tiling::DEFAULT.worker_bytes(precision);
    assert!(worker > 0 && worker < 2 << 20, "{worker} bytes for 180 cells");
}
