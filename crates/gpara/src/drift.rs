//! Fixed effects: a field x = prediction + F b + residual with unknown coefficients b (universal kriging, G.3-G.6).

mod coefficients;

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::grid::Grid;
use crate::posterior::Posterior;
pub(crate) use coefficients::{CoefficientCholesky, dot};

/// The most columns a drift may have.
pub const MAX_DRIFT_COLUMNS: usize = 8;

/// The columns F and what is known of their coefficients b before the measurements: b ~ N(0, P^-1), flat where P is 0.
///
/// A prior mean b_0 of the coefficients belongs in the prediction, as F b_0.
///
/// # Example
/// An unknown level: two exact values at the ends of a line, the middle takes their mean.
/// ```
/// use gpara::{
///     Conductances, Drift, Grid, MeanSolver, Observation, Observations, Posterior, ResidualPrecision, ValidMask,
/// };
///
/// let valid = ValidMask::all(Grid::new(1, 3)?);
/// let graph = Conductances::from_logits(&[0.0; 12], &valid)?;
/// let prior = ResidualPrecision::new(graph, 0.5, 1.0)?;
/// let mut observations = Observations::none(valid.grid());
/// let exact = |node, value| Observation { node, value, noise_std: 0.0 };
/// observations.add(&valid, &[exact(0, 4.0), exact(2, 6.0)])?;
///
/// let posterior = Posterior::with_drift(&prior, &observations, &Drift::constant(valid.grid()))?;
/// let (mean, _) = posterior.mean_correction(&[0.0; 3], MeanSolver::Exact)?;
/// assert!((mean[1] - 5.0).abs() < 1e-12);
/// # Ok::<(), gpara::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    grid: Grid,
    columns: Vec<Vec<f64>>,
    /// P, p x p, row-major.
    precision: Vec<f64>,
    num_flat: usize,
    /// The log-determinant of P over the columns that are not flat.
    log_det_precision: f64,
}

impl Drift {
    /// Coefficients of which nothing is known before the measurements.
    ///
    /// # Shapes
    /// * `columns` - 1 to 8 columns of `num_nodes` values, any units
    ///
    /// # Errors
    /// `InvalidInput` for no column or more than [`MAX_DRIFT_COLUMNS`], `ShapeMismatch` if a column is not one value a
    /// node, `NonFinite` if a value is not finite.
    pub fn flat(grid: Grid, columns: Vec<Vec<f64>>) -> Result<Self> {
        let count = columns.len();
        Self::independent(grid, columns, &vec![0.0; count])
    }

    /// One flat coefficient of a constant column: an unknown level (ordinary kriging).
    pub fn constant(grid: Grid) -> Self {
        let columns = vec![vec![1.0; grid.num_nodes()]];
        Self { grid, columns, precision: vec![0.0], num_flat: 1, log_det_precision: 0.0 }
    }

    /// Independent coefficients of the given prior precisions; precision 0 is flat.
    ///
    /// # Errors
    /// As [`flat`](Self::flat); `ShapeMismatch` unless there is one precision a column, `InvalidInput` if one is negative
    /// or not finite.
    pub fn independent(grid: Grid, columns: Vec<Vec<f64>>, precisions: &[f64]) -> Result<Self> {
        check_columns(grid, &columns)?;
        let size = columns.len();
        if precisions.len() != size {
            return Err(DriftError::Precisions { found: precisions.len(), expected: size }.into());
        }
        if let Some(&value) = precisions.iter().find(|value| !(value.is_finite() && **value >= 0.0)) {
            return Err(DriftError::Precision { value }.into());
        }
        let mut precision = vec![0.0; size * size];
        precisions.iter().enumerate().for_each(|(at, value)| precision[at * size + at] = *value);
        let informed = precisions.iter().filter(|value| **value > 0.0);
        let log_det_precision = informed.clone().map(|value| value.ln()).sum();
        Ok(Self { grid, columns, precision, num_flat: size - informed.count(), log_det_precision })
    }

    /// Coefficients b ~ N(0, P^-1).
    ///
    /// # Shapes
    /// * `precision` - P, p x p, row-major, symmetric positive definite
    ///
    /// # Errors
    /// As [`flat`](Self::flat); `ShapeMismatch` unless P is p x p, `InvalidInput` unless it is symmetric,
    /// `NotPositiveDefinite` unless it is positive definite.
    pub fn gaussian(grid: Grid, columns: Vec<Vec<f64>>, precision: Vec<f64>) -> Result<Self> {
        check_columns(grid, &columns)?;
        let size = columns.len();
        if precision.len() != size * size {
            return Err(DriftError::Precisions { found: precision.len(), expected: size * size }.into());
        }
        for (at, value) in precision.iter().enumerate() {
            if !value.is_finite() || *value != precision[at % size * size + at / size] {
                return Err(DriftError::Asymmetric { row: at / size, col: at % size }.into());
            }
        }
        let root = CoefficientCholesky::new(&precision, size).map_err(|column| DriftError::Indefinite { column })?;
        let log_det_precision = root.log_det();
        Ok(Self { grid, columns, precision, num_flat: 0, log_det_precision })
    }

    /// The grid of the columns.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The columns F.
    pub fn columns(&self) -> &[Vec<f64>] {
        &self.columns
    }

    /// Number of coefficients without a prior.
    pub(crate) fn num_flat(&self) -> usize {
        self.num_flat
    }
}

/// The drift given the measurements.
#[derive(Debug)]
pub(crate) struct FittedDrift {
    columns: Vec<Vec<f64>>,
    /// P, row-major.
    precision: Vec<f64>,
    /// The Cholesky factor of V^-1 = P + F' H' K^-1 H F, the Schur complement.
    root: CoefficientCholesky,
    /// K^-1 H F, one column of one value a measurement.
    weights: Vec<Vec<f64>>,
    /// Z = (F - M H F) V^(1/2) with M the map from innovation to residual mean: Sigma_x = Sigma + Z Z'.
    spread: Vec<Vec<f64>>,
    num_flat: usize,
    log_det_precision: f64,
}

impl FittedDrift {
    /// Fits the coefficients: one solve a column.
    pub(crate) fn new(posterior: &Posterior, drift: &Drift) -> Result<Self> {
        if drift.grid != posterior.grid() {
            return Err(DriftError::Grid { drift: drift.grid, posterior: posterior.grid() }.into());
        }
        let size = drift.columns.len();
        let observations = posterior.observations();
        let (mut weights, mut influence) = (Vec::with_capacity(size), Vec::with_capacity(size));
        let at_measured: Vec<Vec<f64>> =
            drift.columns.iter().map(|column| observations.iter().map(|entry| column[entry.node]).collect()).collect();
        for (column, measured) in drift.columns.iter().zip(&at_measured) {
            let explained = posterior.refined_residual_mean(measured)?;
            weights.push(posterior.kriging_weights(measured, &explained));
            influence.push(column.iter().zip(&explained).map(|(f, explained)| f - explained).collect::<Vec<f64>>());
        }
        let mut schur = drift.precision.clone();
        for (row, weights) in weights.iter().enumerate() {
            for (col, measured) in at_measured.iter().enumerate() {
                // Both halves take the mean of the two roundings, so that the matrix is symmetric.
                let value = 0.5 * dot(weights, measured);
                schur[row * size + col] += value;
                schur[col * size + row] += value;
            }
        }
        let num_measured = observations.len();
        let root = CoefficientCholesky::new(&schur, size).map_err(|column| DriftError::Undetermined {
            column,
            num_columns: size,
            num_measured,
        })?;
        // At an exactly measured node the influence is 0 but for rounding.
        for influence in &mut influence {
            posterior.exact_nodes().for_each(|node| influence[node] = 0.0);
        }
        let spread = root.times_inverse_root(&influence);
        let (num_flat, log_det_precision) = (drift.num_flat, drift.log_det_precision);
        let (columns, precision) = (drift.columns.clone(), drift.precision.clone());
        Ok(Self { columns, precision, root, weights, spread, num_flat, log_det_precision })
    }

    /// b hat = V F' H' K^-1 v (G.4).
    pub(crate) fn coefficients(&self, innovation: &[f64]) -> Vec<f64> {
        self.root.solve(&self.weights.iter().map(|weights| dot(weights, innovation)).collect::<Vec<_>>())
    }

    /// F b.
    pub(crate) fn field(&self, coefficients: &[f64]) -> Vec<f64> {
        combine(&self.columns, coefficients)
    }

    /// b' P b.
    pub(crate) fn prior_misfit(&self, coefficients: &[f64]) -> f64 {
        let rows = self.precision.chunks_exact(coefficients.len()).zip(coefficients);
        rows.map(|(row, coefficient)| coefficient * dot(row, coefficients)).sum()
    }

    /// V, p x p, row-major.
    pub(crate) fn coefficient_covariance(&self) -> Vec<f64> {
        self.root.inverse()
    }

    /// Adds Z Z' rhs (G.5).
    pub(crate) fn add_covariance_product(&self, rhs: &[f64], solution: &mut [f64]) {
        for column in &self.spread {
            let share = dot(column, rhs);
            solution.iter_mut().zip(column).for_each(|(sum, value)| *sum += share * value);
        }
    }

    /// Adds diag(Z Z') (G.5).
    pub(crate) fn add_variances(&self, variance: &mut [f64]) {
        for column in &self.spread {
            variance.iter_mut().zip(column).for_each(|(sum, value)| *sum += value * value);
        }
    }

    /// Adds diag(Sigma_x W Sigma_x) - diag(Sigma W Sigma) = diag(2 Z T' + Z (Z' W Z) Z') with T = Sigma W Z (G.6).
    pub(crate) fn add_numerators(&self, posterior: &Posterior, weights: &[f64], numerator: &mut [f64]) -> Result<()> {
        let weighted: Vec<Vec<f64>> =
            self.spread.iter().map(|column| column.iter().zip(weights).map(|(z, w)| z * w).collect()).collect();
        for (k, column) in self.spread.iter().enumerate() {
            let mut through = posterior.residual_solve(&weighted[k])?;
            through.iter_mut().for_each(|value| *value *= 2.0);
            for other in 0..self.spread.len() {
                let inner = dot(&weighted[k], &self.spread[other]);
                through.iter_mut().zip(&self.spread[other]).for_each(|(sum, z)| *sum += inner * z);
            }
            numerator.iter_mut().zip(column).zip(&through).for_each(|((sum, z), through)| *sum += z * through);
        }
        Ok(())
    }

    /// Adds Z normals: the share of the coefficients' uncertainty in a sample.
    pub(crate) fn add_sample(&self, normals: &[f64], sample: &mut [f64]) {
        for (column, normal) in self.spread.iter().zip(normals) {
            sample.iter_mut().zip(column).for_each(|(sum, value)| *sum += normal * value);
        }
    }

    /// p.
    pub(crate) fn num_columns(&self) -> usize {
        self.columns.len()
    }

    /// Number of coefficients without a prior.
    pub(crate) fn num_flat(&self) -> usize {
        self.num_flat
    }

    /// log det(P + F' H' K^-1 H F) - log det P, flat coefficients left out of the second.
    pub(crate) fn log_det(&self) -> f64 {
        self.root.log_det() - self.log_det_precision
    }

    /// Columns B = (M H F) V^(1/2): the covariance of the residual, not of the field, is Sigma + B B'.
    pub(crate) fn residual_spread(&self) -> Vec<Vec<f64>> {
        let mut columns = self.root.times_inverse_root(&self.columns);
        for (column, spread) in columns.iter_mut().zip(&self.spread) {
            column.iter_mut().zip(spread).for_each(|(value, spread)| *value -= spread);
        }
        columns
    }

    /// Columns K^-1 H F V^(1/2), one value a measurement.
    pub(crate) fn weight_spread(&self) -> Vec<Vec<f64>> {
        self.root.times_inverse_root(&self.weights)
    }
}

/// sum_k coefficient_k column_k.
fn combine(columns: &[Vec<f64>], coefficients: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; columns[0].len()];
    for (column, coefficient) in columns.iter().zip(coefficients) {
        sum.iter_mut().zip(column).for_each(|(sum, value)| *sum += coefficient * value);
    }
    sum
}

fn check_columns(grid: Grid, columns: &[Vec<f64>]) -> Result<()> {
    if columns.is_empty() || columns.len() > MAX_DRIFT_COLUMNS {
        return Err(DriftError::Columns { found: columns.len() }.into());
    }
    for (column, values) in columns.iter().enumerate() {
        if values.len() != grid.num_nodes() {
            return Err(DriftError::Length { column, found: values.len(), grid }.into());
        }
        if let Some(node) = values.iter().position(|value| !value.is_finite()) {
            return Err(DriftError::NonFinite { column, node, value: values[node] }.into());
        }
    }
    Ok(())
}

#[derive(Debug, ThisError)]
enum DriftError {
    #[error("a drift of {found} columns, 1 to {MAX_DRIFT_COLUMNS} are allowed")]
    Columns { found: usize },
    #[error("drift column {column} has {found} values, the grid {grid} has {} cells", grid.num_nodes())]
    Length { column: usize, found: usize, grid: Grid },
    #[error("drift column {column} is {value} at node {node}, it must be finite")]
    NonFinite { column: usize, node: usize, value: f64 },
    #[error("{found} prior precisions of the drift, {expected} are needed")]
    Precisions { found: usize, expected: usize },
    #[error("prior precision {value} of a drift column must be a finite number >= 0")]
    Precision { value: f64 },
    #[error("the drift's prior precision must be finite and symmetric, entry ({row}, {col}) is not")]
    Asymmetric { row: usize, col: usize },
    #[error("the drift's prior precision is not positive definite at column {column}")]
    Indefinite { column: usize },
    #[error("a drift on a {drift} grid does not fit the {posterior} posterior")]
    Grid { drift: Grid, posterior: Grid },
    #[error("{num_measured} measured cells do not determine drift column {column} of {num_columns}")]
    Undetermined { column: usize, num_columns: usize, num_measured: usize },
}

impl ErrorDetail for DriftError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Length { .. } | Self::Precisions { .. } | Self::Grid { .. } => ErrorKind::ShapeMismatch,
            Self::NonFinite { .. } => ErrorKind::NonFinite,
            Self::Indefinite { .. } => ErrorKind::NotPositiveDefinite,
            _ => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Undetermined { .. } => Some(
                "measure more cells, drop columns that repeat others there, or give the coefficients a prior precision"
                    .into(),
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_drifts_are_refused_by_kind() {
        let grid = Grid::new(2, 2).unwrap();
        let column = || vec![1.0, 2.0, 3.0, 5.0];
        let flat = |columns: Vec<Vec<f64>>| Drift::flat(grid, columns).unwrap_err().kind();
        assert_eq!(flat(Vec::new()), ErrorKind::InvalidInput);
        assert_eq!(flat(vec![column(); 9]), ErrorKind::InvalidInput);
        assert_eq!(flat(vec![column(), vec![1.0; 3]]), ErrorKind::ShapeMismatch);
        assert_eq!(flat(vec![vec![f64::NAN; 4]]), ErrorKind::NonFinite);
        let independent = |precisions: &[f64]| Drift::independent(grid, vec![column()], precisions).unwrap_err().kind();
        assert_eq!(independent(&[1.0, 1.0]), ErrorKind::ShapeMismatch);
        assert_eq!(independent(&[-1.0]), ErrorKind::InvalidInput);
        let gaussian = |precision: &[f64]| {
            Drift::gaussian(grid, vec![column(), vec![1.0; 4]], precision.to_vec()).unwrap_err().kind()
        };
        assert_eq!(gaussian(&[1.0]), ErrorKind::ShapeMismatch);
        assert_eq!(gaussian(&[1.0, 0.5, 0.4, 1.0]), ErrorKind::InvalidInput);
        assert_eq!(gaussian(&[1.0, 2.0, 2.0, 1.0]), ErrorKind::NotPositiveDefinite);
    }
}
