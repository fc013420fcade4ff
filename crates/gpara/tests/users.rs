//! What users of neighbouring tools trip over (`users_NN_`), where no other test of the core shows it already.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod dense_oracle;

use dense_oracle::matrix::Dense;
use gpara::{
    Conductances, ErrorKind, Grid, Observation, Observations, Posterior, ResidualPrecision, SeedTree, ValidMask,
    errors_over_valid, relative_errors_over_valid,
};

#[test]
fn users_04_metrics_with_a_third_of_the_truth_zeroed_are_those_of_the_rest() {
    let grid = Grid::new(10, 13).unwrap();
    let zeroed = |node: usize| node * 7 % 10 < 3;
    let truth: Vec<f64> = (0..130).map(|node| 1.0 + (node as f64 * 0.37).sin().abs()).collect();
    let estimate: Vec<f64> = (0..130).map(|node| 1.1 + (node as f64 * 0.41).cos().abs()).collect();
    let holes: Vec<f64> = (0..130).map(|node| if zeroed(node) { 0.0 } else { truth[node] }).collect();
    let rest = ValidMask::new(grid, (0..130).map(|node| !zeroed(node)).collect()).unwrap();
    assert!(rest.num_valid() < 100 && rest.num_valid() > 80);

    // Relative errors skip the zeros by themselves; plain ones by the mask, which the zeros must not reach.
    let over_holes = relative_errors_over_valid(&estimate, &holes, &ValidMask::all(grid)).unwrap();
    assert_eq!(over_holes, relative_errors_over_valid(&estimate, &truth, &rest).unwrap());
    assert_eq!(over_holes.num_cells, rest.num_valid());
    let plain = errors_over_valid(&estimate, &holes, &rest).unwrap();
    assert_eq!(plain, errors_over_valid(&estimate, &truth, &rest).unwrap());
    assert_eq!(plain.num_cells, rest.num_valid());

    let nothing = relative_errors_over_valid(&estimate, &[0.0; 130], &ValidMask::all(grid)).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::InvalidInput);
}

/// A random graph of 12 x 17 cells with a dense copy of its posterior precision.
fn random_posterior(seed: u64, valid: &ValidMask, kappa_squared: Option<f64>) -> (Posterior, Dense) {
    let (grid, mut stream) = (valid.grid(), SeedTree::new(seed).stream("users/33"));
    let logits: Vec<f64> = (0..4 * grid.num_nodes()).map(|_| 1.5 * stream.normal()).collect();
    let graph = Conductances::from_logits(&logits, valid).unwrap();
    let prior = match kappa_squared {
        None => ResidualPrecision::new(graph, 0.3, 0.8).unwrap(),
        Some(kappa_squared) => ResidualPrecision::second_order(graph, 0.05, 0.8, kappa_squared).unwrap(),
    };
    let nodes: Vec<usize> = valid.nodes().collect();
    let entries: Vec<Observation> = (0..25)
        .map(|_| Observation { node: nodes[stream.index(nodes.len())], value: stream.normal(), noise_std: 0.3 })
        .collect();
    let mut observations = Observations::none(grid);
    observations.add(valid, &entries).unwrap();
    let mut dense = Dense::zeros(grid.num_nodes());
    for col in 0..grid.num_nodes() {
        let mut unit = vec![0.0; grid.num_nodes()];
        unit[col] = 1.0;
        prior.apply(&unit).into_iter().enumerate().for_each(|(row, value)| *dense.at_mut(row, col) = value);
    }
    for entry in observations.iter() {
        *dense.at_mut(entry.node, entry.node) += entry.noise_std.powi(-2);
    }
    (Posterior::new(&prior, &observations).unwrap(), dense)
}

#[test]
fn users_33_selected_inverse_is_the_dense_inverse_with_and_without_invalid_cells() {
    let grid = Grid::new(12, 17).unwrap();
    let holed = ValidMask::new(grid, (0..204).map(|node| node * 11 % 7 != 0).collect()).unwrap();
    for valid in [ValidMask::all(grid), holed] {
        for (seed, kappa_squared) in [(1, None), (2, None), (3, Some(0.2)), (4, Some(1.0))] {
            let (posterior, dense) = random_posterior(seed, &valid, kappa_squared);
            let expected = dense.inverse().diagonal();
            let found = posterior.variances().unwrap();
            let difference = found.iter().zip(&expected).map(|(a, b)| ((a - b) / b).abs()).fold(0.0, f64::max);
            assert!(difference < 1e-9, "seed {seed}, {kappa_squared:?}: {difference:e}");
        }
    }
}
