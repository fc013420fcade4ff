//! The engine against a dense inverse, on every instruction set of this processor, in both precisions.

use std::sync::Arc;

use super::factorization::Factorization;
use super::plan::{Cutting, Plan};
use super::real::Real;
use super::simd::{Kernels, Part, Product, Simd, Update};
use super::stencil::{Reach, StencilMatrix};
use crate::error::ErrorKind;
use crate::grid::Grid;
use crate::seed::SeedTree;

/// Diagonally dominant with random couplings, some of them 0; a few cells are cut off.
fn random_matrix(grid: Grid, reach: Reach, seed: u64) -> StencilMatrix {
    let mut stream = SeedTree::new(seed).stream("matrix");
    let mut matrix = StencilMatrix::zeros(grid, reach);
    let cut_off: Vec<bool> = (0..grid.num_nodes()).map(|_| stream.uniform() < 0.1).collect();
    for (map, &offset) in reach.offsets().iter().enumerate() {
        for node in 0..grid.num_nodes() {
            let Some(other) = grid.neighbor(node, offset) else { continue };
            let value = stream.uniform();
            if cut_off[node] || cut_off[other] || value < 0.2 {
                continue;
            }
            matrix.coupling[map][node] = 0.3 - value;
            matrix.diagonal[node] += (0.3 - value).abs();
            matrix.diagonal[other] += (0.3 - value).abs();
        }
    }
    matrix.diagonal.iter_mut().for_each(|value| *value += 0.05 + 0.1 * stream.uniform());
    matrix
}

fn dense(matrix: &StencilMatrix) -> Vec<Vec<f64>> {
    let grid = matrix.grid();
    let mut full = vec![vec![0.0; grid.num_nodes()]; grid.num_nodes()];
    for node in 0..grid.num_nodes() {
        full[node][node] = matrix.diagonal[node];
        for (map, &offset) in matrix.reach().offsets().iter().enumerate() {
            if let Some(other) = grid.neighbor(node, offset) {
                full[node][other] = matrix.coupling[map][node];
                full[other][node] = matrix.coupling[map][node];
            }
        }
    }
    full
}

/// Gauss-Jordan with the pivots in order; also the logarithm of the determinant.
fn dense_inverse(mut a: Vec<Vec<f64>>) -> (Vec<Vec<f64>>, f64) {
    let n = a.len();
    let mut log_det = 0.0;
    for k in 0..n {
        let pivot = a[k][k];
        log_det += pivot.ln();
        a[k][k] = 1.0;
        a[k].iter_mut().for_each(|value| *value /= pivot);
        let row = a[k].clone();
        for i in (0..n).filter(|&i| i != k) {
            let factor = std::mem::take(&mut a[i][k]);
            a[i].iter_mut().zip(&row).for_each(|(value, own)| *value -= factor * own);
        }
    }
    (a, log_det)
}

/// Largest difference relative to the largest reference.
fn difference(found: &[f64], expected: &[f64]) -> f64 {
    let scale = expected.iter().fold(0.0f64, |scale, value| scale.max(value.abs()));
    found.iter().zip(expected).fold(0.0f64, |worst, (found, expected)| worst.max((found - expected).abs())) / scale
}

struct Answers {
    variance: Vec<f64>,
    numerator: Vec<f64>,
    solution: Vec<f64>,
    selected: StencilMatrix,
    log_det: f64,
}

fn answers<T: Kernels>(matrix: &StencilMatrix, plan: &Arc<Plan>, simd: Simd, weights: &[f64], rhs: &[f64]) -> Answers {
    let num_nodes = matrix.grid().num_nodes();
    let mut factorization = Factorization::<T>::with_simd(Arc::clone(plan), simd, 2);
    // Twice, so that nothing of an earlier use shows.
    factorization.factor(random_matrix(matrix.grid(), matrix.reach(), 999).view()).unwrap();
    let (mut variance, mut numerator) = (vec![0.0; num_nodes], vec![0.0; num_nodes]);
    factorization.variances_and_numerators(rhs, &mut variance, &mut numerator);
    factorization.factor(matrix.view()).unwrap();
    let mut solution = vec![0.0; num_nodes];
    factorization.solve(rhs, &mut solution);
    let (several, mut solutions) = ([rhs, weights, rhs].concat(), vec![0.0; 3 * num_nodes]);
    factorization.solve_with(&mut super::SolveScratch::default(), &several, &mut solutions);
    assert!(
        solutions[..num_nodes] == solution && solutions[2 * num_nodes..] == solution,
        "bits do not depend on the batch"
    );
    let mut selected = StencilMatrix::zeros(matrix.grid(), matrix.reach());
    factorization.selected_inverse(&mut selected);
    let mut alone = vec![0.0; num_nodes];
    factorization.variances(&mut alone);
    factorization.variances_and_numerators(weights, &mut variance, &mut numerator);
    assert_eq!(alone, variance, "the derivative leaves the variances as they are");
    let log_det = factorization.log_det();
    Answers { variance, numerator, solution, selected, log_det }
}

#[test]
fn prop_engine_agrees_with_the_dense_inverse() {
    let cases = [(1, 1), (1, 23), (19, 1), (2, 2), (5, 7), (12, 17), (16, 16), (23, 14), (33, 18)];
    for (seed, &(rows, cols)) in cases.iter().enumerate() {
        let grid = Grid::new(rows, cols).unwrap();
        for reach in [Reach::One, Reach::Two] {
            let matrix = random_matrix(grid, reach, seed as u64);
            let (inverse, log_det) = dense_inverse(dense(&matrix));
            let mut stream = SeedTree::new(seed as u64).stream("right-hand side");
            let weights: Vec<f64> = (0..grid.num_nodes()).map(|_| stream.uniform()).collect();
            let rhs: Vec<f64> = (0..grid.num_nodes()).map(|_| stream.uniform() - 0.5).collect();
            let row_sum = |row: &Vec<f64>, with: &[f64]| row.iter().zip(with).map(|(a, b)| a * b).sum::<f64>();
            let variance: Vec<f64> = (0..grid.num_nodes()).map(|node| inverse[node][node]).collect();
            let squares = |row: &Vec<f64>| row.iter().zip(&weights).map(|(a, w)| a * a * w).sum::<f64>();
            let numerator: Vec<f64> = inverse.iter().map(squares).collect();
            let solution: Vec<f64> = inverse.iter().map(|row| row_sum(row, &rhs)).collect();
            for (block, leaf) in [(15, 3), (3, 1), (4, 2), (7, 4), (31, 3)] {
                let plan = Arc::new(Plan::with_cutting(grid, reach, Cutting { block, leaf }));
                for simd in Simd::available() {
                    let check = |answers: Answers, tolerance: f64| {
                        let name = format!("{rows}x{cols} {reach:?} block {block} leaf {leaf} {simd:?} {tolerance:e}");
                        assert!(difference(&answers.variance, &variance) < tolerance, "d, {name}");
                        assert!(difference(&answers.numerator, &numerator) < tolerance, "n, {name}");
                        assert!(difference(&answers.solution, &solution) < tolerance, "solve, {name}");
                        assert!((answers.log_det - log_det).abs() < tolerance * grid.num_nodes() as f64, "{name}");
                        let difference = difference(&answers.selected.diagonal, &variance);
                        assert!(difference < tolerance, "selected, {name}");
                        for (map, &offset) in reach.offsets().iter().enumerate() {
                            for node in 0..grid.num_nodes() {
                                let found = answers.selected.coupling[map][node];
                                let expected = grid.neighbor(node, offset).map_or(0.0, |other| inverse[node][other]);
                                let scale = variance.iter().fold(0.0f64, |most, value| most.max(*value));
                                assert!((found - expected).abs() < tolerance * scale, "{name} {node} {offset:?}");
                            }
                        }
                    };
                    check(answers::<f64>(&matrix, &plan, simd, &weights, &rhs), 1e-11);
                    check(answers::<f32>(&matrix, &plan, simd, &weights, &rhs), 2e-5);
                }
            }
        }
    }
}

/// Rows and columns of A, B and C, and two pairs of random factors: by rows of A or by its columns.
struct Factors<T> {
    size: (usize, usize, usize),
    strides: (usize, usize),
    pairs: [(Vec<T>, Vec<T>); 2],
}

impl<T: Real> Factors<T> {
    fn random((m, n, k): (usize, usize, usize), by_rows: bool) -> Self {
        let mut stream = SeedTree::new(3).stream("factors");
        let mut values = |len: usize| (0..len).map(|_| T::from_f64(stream.uniform() - 0.5)).collect::<Vec<T>>();
        let pairs = [(); 2].map(|()| (values(m * k), values(k * n)));
        Self { size: (m, n, k), strides: if by_rows { (k, 1) } else { (1, m) }, pairs }
    }

    /// The sum of the first products.
    fn plain_sums(&self, num_pairs: usize) -> Vec<f64> {
        let (m, n, k) = self.size;
        let mut out = vec![0.0; m * n];
        for (a, b) in &self.pairs[..num_pairs] {
            for i in 0..m {
                for at in 0..k {
                    let left = a[i * self.strides.0 + at * self.strides.1].to_f64();
                    let row = &b[at * n..(at + 1) * n];
                    out[i * n..(i + 1) * n].iter_mut().zip(row).for_each(|(out, right)| *out += left * right.to_f64());
                }
            }
        }
        out
    }
}

fn check_products<T: Kernels>(size: (usize, usize, usize), tolerance: f64) {
    let (m, n, k) = size;
    for by_rows in [false, true] {
        let factors = Factors::<T>::random(size, by_rows);
        let [(a, b), (other_a, other_b)] = &factors.pairs;
        for num_pairs in [1, 2] {
            let plain = factors.plain_sums(num_pairs);
            for (update, part) in [
                (Update::Set, Part::Full),
                (Update::SetNegative, Part::Full),
                (Update::Subtract, Part::Full),
                (Update::Subtract, Part::Upper),
            ] {
                let (sign, start) = match update {
                    Update::Set => (1.0, 0.0),
                    Update::SetNegative => (-1.0, 0.0),
                    Update::Subtract => (-1.0, 0.25),
                };
                for simd in Simd::available() {
                    let mut c = vec![T::from_f64(0.25); m * n];
                    let (a_row, a_col) = factors.strides;
                    let and = (num_pairs == 2).then_some((&other_a[..], &other_b[..]));
                    let (b_row, b_col, c_row) = (n, 1, n);
                    Product { m, n, k, a, a_row, a_col, b, b_row, b_col, and, c: &mut c, c_row, update, part }
                        .dense(simd);
                    for (at, (found, plain)) in c.iter().zip(&plain).enumerate() {
                        let wanted = part == Part::Full || at % n >= at / n;
                        let error = (found.to_f64() - start - sign * plain).abs();
                        assert!(
                            !wanted || error < tolerance,
                            "{size:?} {by_rows} {num_pairs} {update:?} {simd:?}: {error}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn dense_products_of_any_size_agree_with_plain_sums() {
    // In place; copied in one piece; copied in several pieces of each dimension.
    for size in [(13, 32, 5), (128, 256, 128), (150, 272, 300)] {
        check_products::<f64>(size, 1e-12);
        check_products::<f32>(size, 1e-4);
    }
}

#[test]
fn sums_below_the_normal_numbers_are_zero() {
    for simd in Simd::available() {
        for (factor, is_zero) in [(1e-15f32, false), (1e-20, true), (1e-25, true)] {
            let (a, b) = (vec![factor; 3 * 16], vec![factor; 3 * 16]);
            let mut c = vec![1.0f32; 16];
            let (m, n, k, a_row, a_col, b_row, b_col, c_row) = (1, 16, 3, 1, 1, 16, 1, 16);
            let (and, update, part) = (None, Update::Set, Part::Full);
            let (a, b) = (&a[..], &b[..]);
            Product { m, n, k, a, a_row, a_col, b, b_row, b_col, and, c: &mut c, c_row, update, part }.dense(simd);
            let mut lanes = vec![1.0f32; 16];
            let (n, b_row, c_row) = (1, 1, 1);
            Product { m, n, k, a, a_row, a_col, b, b_row, b_col, and, c: &mut lanes, c_row, update, part }.lanes(simd);
            for value in c.into_iter().chain(lanes) {
                match is_zero {
                    true => assert_eq!(value, 0.0, "{simd:?} {factor}"),
                    false => assert!((value / (3.0 * factor * factor) - 1.0).abs() < 1e-6, "{simd:?} {factor} {value}"),
                }
            }
        }
    }
}

#[test]
fn indefinite_matrix_is_refused_with_its_node() {
    let grid = Grid::new(20, 20).unwrap();
    let mut matrix = random_matrix(grid, Reach::One, 1);
    for map in &mut matrix.coupling {
        map.fill(0.0);
    }
    matrix.diagonal[137] = -2.0;
    let mut factorization = Factorization::<f64>::new(Arc::new(Plan::new(grid, Reach::One)));
    let error = factorization.factor(matrix.view()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotPositiveDefinite);
    assert!(error.to_string().contains("pivot -2 at node 137"), "{error}");
}

#[test]
fn refreshing_allocates_nothing() {
    let grid = Grid::new(70, 90).unwrap();
    for reach in [Reach::One, Reach::Two] {
        let matrix = random_matrix(grid, reach, 11);
        let mut factorization = Factorization::<f32>::with_threads(Arc::new(Plan::new(grid, reach)), 1);
        let weights = vec![1.0; grid.num_nodes()];
        let (mut variance, mut numerator, mut solution) = (weights.clone(), weights.clone(), weights.clone());
        let mut scratch = super::SolveScratch::default();
        let mut refresh = || {
            factorization.factor(matrix.view()).unwrap();
            factorization.solve_with(&mut scratch, &weights, &mut solution);
            factorization.variances_and_numerators(&weights, &mut variance, &mut numerator);
        };
        refresh();
        let counted = allocation_counter::measure(refresh);
        assert_eq!((counted.count_total, counted.bytes_total), (0, 0), "{reach:?}");
        let counted = allocation_counter::measure(|| drop(Plan::new(grid, reach)));
        assert!(counted.count_total > 0, "the counter counts");
    }
}

#[test]
fn results_have_the_same_bits_for_any_number_of_threads() {
    let grid = Grid::new(97, 61).unwrap();
    let matrix = random_matrix(grid, Reach::One, 4);
    let plan = Arc::new(Plan::new(grid, Reach::One));
    let weights: Vec<f64> = (0..grid.num_nodes()).map(|node| (node % 7) as f64).collect();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut factorization = Factorization::<f32>::new(Arc::clone(&plan));
            factorization.factor(matrix.view()).unwrap();
            let (mut variance, mut numerator) = (vec![0.0; grid.num_nodes()], vec![0.0; grid.num_nodes()]);
            factorization.variances_and_numerators(&weights, &mut variance, &mut numerator);
            let (rhs, mut solutions) = ([&weights[..], &variance].concat(), vec![0.0; 2 * grid.num_nodes()]);
            factorization.solve_with(&mut super::SolveScratch::default(), &rhs, &mut solutions);
            (variance, numerator, solutions)
        })
    };
    let single = run(1);
    assert_eq!(single, run(2));
    assert_eq!(single, run(3));
    assert!(single.0.iter().all(|value| f64::from(f32::EPSILON) < value.to_f64()));
}

/// First- or second-order matrix of a uniform graph with 200 measured cells.
fn timing_matrix(grid: Grid, reach: Reach) -> StencilMatrix {
    let mut matrix = StencilMatrix::zeros(grid, reach);
    for node in 0..grid.num_nodes() {
        matrix.diagonal[node] += 0.0625;
        for (map, &offset) in reach.offsets().iter().enumerate() {
            if let Some(other) = grid.neighbor(node, offset) {
                let value = 0.8 / ((offset.0 * offset.0 + offset.1 * offset.1) as f64).sqrt();
                matrix.coupling[map][node] = -value;
                matrix.diagonal[node] += value;
                matrix.diagonal[other] += value;
            }
        }
    }
    for node in (0..grid.num_nodes()).step_by(grid.num_nodes() / 200) {
        matrix.diagonal[node] += 1e8;
    }
    matrix
}

/// A list of numbers from the environment.
fn listed(name: &str, default: &[usize]) -> Vec<usize> {
    let parse = |text: String| text.split(',').map(|part| part.parse().unwrap()).collect();
    std::env::var(name).map(parse).unwrap_or(default.to_vec())
}

/// Least and median milliseconds of a factorisation, of one with d and n, and of one right-hand side.
fn time_engine<T: Kernels>(plan: &Arc<Plan>, matrix: &StencilMatrix, repeats: usize) -> [(f64, f64); 3] {
    use std::time::Instant;
    let mut factorization = Factorization::<T>::new(Arc::clone(plan));
    let weights = vec![1.0; matrix.grid().num_nodes()];
    let (mut variance, mut numerator) = (weights.clone(), weights.clone());
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let mut scratch = super::SolveScratch::default();
    for _ in 0..repeats {
        let milliseconds = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        factorization.factor(matrix.view()).unwrap();
        times[0].push(milliseconds(start));
        factorization.variances_and_numerators(&weights, &mut variance, &mut numerator);
        times[1].push(milliseconds(start));
        let start = Instant::now();
        factorization.solve_with(&mut scratch, &weights, &mut variance);
        times[2].push(milliseconds(start));
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        (times[0], times[times.len() / 2])
    })
}

#[test]
#[ignore = "timing, run in release"]
fn bench_engine() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(listed("THREADS", &[1])[0]).build().unwrap();
    let scenes = [
        (128, 128, Reach::One),
        (192, 256, Reach::One),
        (128, 128, Reach::Two),
        (192, 256, Reach::Two),
        (512, 512, Reach::One),
        (1024, 1024, Reach::One),
    ];
    for (rows, cols, reach) in listed("ONLY", &[0, 1, 2, 3]).into_iter().map(|scene| scenes[scene]) {
        let grid = Grid::new(rows, cols).unwrap();
        let matrix = timing_matrix(grid, reach);
        let Cutting { block, leaf } = Cutting::for_reach(reach);
        for block in listed("BLOCKS", &[block]) {
            for leaf in listed("LEAVES", &[leaf]) {
                let plan = Arc::new(Plan::with_cutting(grid, reach, Cutting { block, leaf }));
                for bits in listed("BITS", &[32]) {
                    let time = if bits == 32 { time_engine::<f32> } else { time_engine::<f64> };
                    let [up, both, solve] = pool.install(|| time(&plan, &matrix, listed("REPEATS", &[15])[0]));
                    println!(
                        "{rows}x{cols} {reach:?} f{bits} block {block} leaf {leaf}: factor {up:.2?} d and n {both:.2?} solve \
                         {solve:.3?} ms (least, median)"
                    );
                }
            }
        }
    }
}
