//! Random models of either order with masks, exact and noisy measurements and drift, and their dense answers by kriging:
//! everything from the covariance of the field, where the library works with its precision.

#![allow(clippy::unwrap_used, reason = "a failed step of a test should panic")]
#![allow(dead_code, reason = "every test file uses a part of it")]

use gpara::{
    Conductances, Drift, Grid, Observation, Observations, Posterior, ResidualPrecision, SeedTree, Stream, ValidMask,
};

use crate::dense_oracle::matrix::Dense;

/// The parameters of a precision.
#[derive(Debug, Clone)]
pub(crate) struct Parameters {
    pub(crate) edges: [Vec<f64>; 4],
    pub(crate) tau: f64,
    pub(crate) lambda: f64,
    /// `None` for the first order.
    pub(crate) kappa_squared: Option<f64>,
}

pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) valid: ValidMask,
    pub(crate) parameters: Parameters,
    pub(crate) observations: Observations,
    /// Columns and their prior precisions, 0 for flat ones.
    pub(crate) drift: Option<(Vec<Vec<f64>>, Vec<f64>)>,
    pub(crate) prediction: Vec<f64>,
    pub(crate) stream: Stream,
}

/// Random models; every third grid is a line, every third has holes, orders alternate.
pub(crate) fn models() -> impl Iterator<Item = Model> {
    (0..36).map(model)
}

pub(crate) fn model(number: usize) -> Model {
    let mut stream = SeedTree::new(2026).stream(&format!("model/{number}"));
    let (rows, cols) = match number % 6 {
        4 => (1, 2 + stream.index(22)),
        5 => (2 + stream.index(22), 1),
        _ => (2 + stream.index(11), 2 + stream.index(16)),
    };
    let grid = Grid::new(rows, cols).unwrap();
    let hole_share = if number % 3 == 2 { 0.35 } else { 0.0 };
    let mut is_valid: Vec<bool> = (0..grid.num_nodes()).map(|_| stream.uniform() >= hole_share).collect();
    is_valid[0] = true;
    let valid = ValidMask::new(grid, is_valid).unwrap();
    let logits: Vec<f64> = (0..4 * grid.num_nodes()).map(|_| stream.normal()).collect();
    let parameters = Parameters {
        edges: Conductances::from_logits(&logits, &valid).unwrap().edges().clone(),
        tau: if number % 4 == 3 { 0.0 } else { 0.2 + 0.5 * stream.uniform() },
        lambda: 0.5 + stream.uniform(),
        kappa_squared: (number % 2 == 1).then(|| 0.3 + 0.7 * stream.uniform()),
    };
    let nodes: Vec<usize> = valid.nodes().collect();
    let mut observations = Observations::none(grid);
    for at in 0..(stream.index(14)).min(nodes.len()) {
        let node = nodes[stream.index(nodes.len())];
        if observations.contains(node) {
            continue;
        }
        let noise_std = if at % 3 == 1 { 0.0 } else { 10f64.powf(-2.0 * stream.uniform()) };
        observations.add(&valid, &[Observation { node, value: stream.normal(), noise_std }]).unwrap();
    }
    let wave = |rate: f64| (0..grid.num_nodes()).map(|node| (rate * node as f64).cos()).collect::<Vec<f64>>();
    let (columns, precisions) = match number % 5 {
        0 => (vec![vec![1.0; grid.num_nodes()]], vec![0.0]),
        1 => (vec![vec![1.0; grid.num_nodes()], wave(0.9)], vec![0.0, 0.0]),
        2 => (vec![vec![1.0; grid.num_nodes()], wave(0.4), wave(1.7)], vec![0.5, 2.0, 0.1]),
        3 => (vec![wave(0.6), vec![1.0; grid.num_nodes()]], vec![1.5, 0.0]),
        _ => (Vec::new(), Vec::new()),
    };
    let num_flat = precisions.iter().filter(|precision| **precision == 0.0).count();
    // With as many flat columns as values the fit may be ill-conditioned at will.
    let drift = (!columns.is_empty() && observations.len() > num_flat + 1).then_some((columns, precisions));
    let prediction = (0..grid.num_nodes()).map(|_| stream.normal()).collect();
    let order = if parameters.kappa_squared.is_some() { "second" } else { "first" };
    let with_drift = drift.as_ref().map_or(0, |(columns, _)| columns.len());
    let name = format!("model {number}, {grid}, {order} order, {} values, drift {with_drift}", observations.len());
    Model { name, valid, parameters, observations, drift, prediction, stream }
}

impl Parameters {
    pub(crate) fn precision(&self, valid: &ValidMask) -> ResidualPrecision {
        let conductances = Conductances::from_edges(self.edges.clone(), valid).unwrap();
        match self.kappa_squared {
            None => ResidualPrecision::new(conductances, self.tau.max(0.01), self.lambda).unwrap(),
            Some(kappa_squared) => {
                ResidualPrecision::second_order(conductances, self.tau, self.lambda, kappa_squared).unwrap()
            }
        }
    }

    /// Q, by (row, col) arithmetic of its own.
    pub(crate) fn dense(&self, grid: Grid) -> Dense {
        let (rows, cols, size) = (grid.rows() as i64, grid.cols() as i64, grid.num_nodes());
        let mut operator = Dense::zeros(size);
        for (map, (down, right)) in self.edges.iter().zip([(0, 1), (1, 0), (1, 1), (1, -1)]) {
            for (i, &conductance) in map.iter().enumerate() {
                let (row, col) = (i as i64 / cols + down, i as i64 % cols + right);
                if row < rows && (0..cols).contains(&col) {
                    let j = (row * cols + col) as usize;
                    *operator.at_mut(i, i) += conductance;
                    *operator.at_mut(j, j) += conductance;
                    *operator.at_mut(i, j) -= conductance;
                    *operator.at_mut(j, i) -= conductance;
                }
            }
        }
        let mut precision = Dense::zeros(size);
        if let Some(kappa_squared) = self.kappa_squared {
            (0..size).for_each(|i| *operator.at_mut(i, i) += kappa_squared);
        }
        for i in 0..size {
            for j in 0..size {
                let scaled = match self.kappa_squared {
                    None => operator.at(i, j),
                    Some(_) => (0..size).map(|k| operator.at(i, k) * operator.at(k, j)).sum(),
                };
                *precision.at_mut(i, j) = self.lambda * scaled;
            }
            let tau = if self.kappa_squared.is_none() { self.tau.max(0.01) } else { self.tau };
            *precision.at_mut(i, i) += tau;
        }
        precision
    }
}

impl Model {
    pub(crate) fn grid(&self) -> Grid {
        self.valid.grid()
    }

    pub(crate) fn library_drift(&self) -> Option<Drift> {
        let (columns, precisions) = self.drift.clone()?;
        Some(Drift::independent(self.grid(), columns, &precisions).unwrap())
    }

    pub(crate) fn posterior(&self) -> Posterior {
        self.posterior_after(&self.parameters, &self.observations)
    }

    pub(crate) fn posterior_after(&self, parameters: &Parameters, observations: &Observations) -> Posterior {
        let prior = parameters.precision(&self.valid);
        match self.library_drift() {
            Some(drift) => Posterior::with_drift(&prior, observations, &drift).unwrap(),
            None => Posterior::new(&prior, observations).unwrap(),
        }
    }

    /// The observations with one more.
    pub(crate) fn with_measurement(&self, observation: Observation) -> Observations {
        let mut observations = self.observations.clone();
        observations.add(&self.valid, &[observation]).unwrap();
        observations
    }

    /// Valid nodes that are not measured.
    pub(crate) fn candidates(&self) -> Vec<usize> {
        self.valid.nodes().filter(|&node| !self.observations.contains(node)).collect()
    }
}

/// The dense answers of a model.
pub(crate) struct Kriging {
    /// Covariance of the field given the measurements.
    pub(crate) covariance: Dense,
    /// Mean of the field given the measurements, less the prediction.
    pub(crate) mean: Vec<f64>,
    pub(crate) log_density: f64,
    /// log det K, K of the field with the informed columns.
    pub(crate) log_det_of_values: f64,
    /// Q^-1.
    pub(crate) prior_covariance: Dense,
    /// P = K^-1 less what the flat columns explain, K of the field with the informed columns.
    pub(crate) projector: Vec<Vec<f64>>,
    /// P v.
    pub(crate) weights: Vec<f64>,
}

impl Kriging {
    pub(crate) fn new(model: &Model) -> Self {
        Self::of(model, &model.parameters, &model.observations)
    }

    pub(crate) fn of(model: &Model, parameters: &Parameters, observations: &Observations) -> Self {
        let size = model.grid().num_nodes();
        let prior_covariance = parameters.dense(model.grid()).inverse();
        let mut field = prior_covariance.clone();
        let (columns, precisions) = model.drift.clone().unwrap_or_default();
        let drift = || columns.iter().zip(&precisions);
        for (column, precision) in drift().filter(|(_, precision)| **precision > 0.0) {
            for i in 0..size {
                for j in 0..size {
                    *field.at_mut(i, j) += column[i] * column[j] / precision;
                }
            }
        }
        let flat: Vec<&Vec<f64>> = drift().filter(|(_, precision)| **precision == 0.0).map(|(c, _)| c).collect();
        let entries: Vec<Observation> = observations.iter().copied().collect();
        let count = entries.len();
        let innovation: Vec<f64> = entries.iter().map(|entry| entry.value - model.prediction[entry.node]).collect();
        let mut of_values = Dense::zeros(count);
        for i in 0..count {
            for j in 0..count {
                *of_values.at_mut(i, j) = field.at(entries[i].node, entries[j].node);
            }
            *of_values.at_mut(i, i) += entries[i].noise_std.powi(2);
        }
        let inverse = of_values.inverse();
        let measured: Vec<Vec<f64>> =
            flat.iter().map(|column| entries.iter().map(|entry| column[entry.node]).collect()).collect();
        let solved: Vec<Vec<f64>> = measured.iter().map(|column| inverse.times(column)).collect();
        let mut schur = Dense::zeros(flat.len());
        for i in 0..flat.len() {
            for j in 0..flat.len() {
                *schur.at_mut(i, j) = 0.5 * (dot(&measured[i], &solved[j]) + dot(&measured[j], &solved[i]));
            }
        }
        let spread = schur.inverse();
        let coefficients = spread.times(&solved.iter().map(|column| dot(column, &innovation)).collect::<Vec<_>>());
        let mut left = innovation.clone();
        for (column, coefficient) in measured.iter().zip(&coefficients) {
            left.iter_mut().zip(column).for_each(|(v, f)| *v -= coefficient * f);
        }
        let weights = inverse.times(&left);
        // C H', and F - C H' K^-1 H F.
        let to_values = |i: usize| entries.iter().map(|entry| field.at(i, entry.node)).collect::<Vec<f64>>();
        let gains: Vec<Vec<f64>> = (0..size).map(|i| inverse.times(&to_values(i))).collect();
        let influence: Vec<Vec<f64>> = (0..size)
            .map(|i| flat.iter().zip(&measured).map(|(column, at)| column[i] - dot(&gains[i], at)).collect())
            .collect();
        let mut covariance = field.clone();
        for i in 0..size {
            let moved = spread.times(&influence[i]);
            for j in 0..size {
                *covariance.at_mut(i, j) += dot(&moved, &influence[j]) - dot(&gains[i], &to_values(j));
            }
        }
        let mean = (0..size)
            .map(|i| {
                let of_drift: f64 = flat.iter().zip(&coefficients).map(|(column, b)| b * column[i]).sum();
                of_drift + dot(&to_values(i), &weights)
            })
            .collect();
        let projector = (0..count)
            .map(|i| {
                let rows: Vec<f64> = solved.iter().map(|column| column[i]).collect();
                let moved = spread.times(&rows);
                (0..count)
                    .map(|j| inverse.at(i, j) - (0..flat.len()).map(|k| moved[k] * solved[k][j]).sum::<f64>())
                    .collect()
            })
            .collect();
        let log_det_of_values = log_det(&of_values);
        let log_det = log_det_of_values + log_det(&schur);
        let num_values = (count - flat.len()) as f64;
        let log_density = -0.5 * (num_values * (2.0 * std::f64::consts::PI).ln() + log_det + dot(&weights, &left));
        Self { covariance, mean, log_density, log_det_of_values, prior_covariance, projector, weights }
    }

    /// Derivative of the log-density when Q changes by `change`: dK = -H Q^-1 dQ Q^-1 H'.
    pub(crate) fn derivative(&self, observations: &Observations, change: &Dense) -> f64 {
        let nodes: Vec<usize> = observations.iter().map(|entry| entry.node).collect();
        let size = change.size();
        let columns: Vec<Vec<f64>> =
            nodes.iter().map(|&node| (0..size).map(|i| self.prior_covariance.at(i, node)).collect()).collect();
        let changed: Vec<Vec<f64>> = columns.iter().map(|column| change.times(column)).collect();
        let mut sum = 0.0;
        for i in 0..nodes.len() {
            for j in 0..nodes.len() {
                let by_value = -dot(&columns[i], &changed[j]);
                sum += 0.5 * by_value * (self.weights[i] * self.weights[j] - self.projector[i][j]);
            }
        }
        sum
    }

    /// (Sigma W Sigma)_ii.
    pub(crate) fn numerator(&self, weights: &[f64], node: usize) -> f64 {
        self.covariance.row(node).iter().zip(weights).map(|(entry, weight)| weight * entry * entry).sum()
    }
}

/// (f(h) - f(-h)) / 2h entry by entry: exact for precisions, which are polynomials of degree two.
pub(crate) fn change_of_precision(grid: Grid, parameters: &Parameters, shift: impl Fn(&mut Parameters, f64)) -> Dense {
    let at = |step: f64| {
        let mut moved = parameters.clone();
        shift(&mut moved, step);
        moved.dense(grid)
    };
    let (up, down) = (at(0.125), at(-0.125));
    let mut change = Dense::zeros(grid.num_nodes());
    for i in 0..grid.num_nodes() {
        for j in 0..grid.num_nodes() {
            *change.at_mut(i, j) = (up.at(i, j) - down.at(i, j)) / 0.25;
        }
    }
    change
}

pub(crate) fn log_det(matrix: &Dense) -> f64 {
    matrix.cholesky().diagonal().iter().map(|pivot| 2.0 * pivot.ln()).sum()
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Compares relative to the largest reference.
#[track_caller]
pub(crate) fn assert_close(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs() / largest;
        assert!(difference <= tolerance, "{name}, entry {at}: {found} instead of {expected}, off by {difference:e}");
    }
}
