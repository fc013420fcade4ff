//! The exact factorisation of a precision behind a shared reference.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::Factor;
use crate::engine::{DenseFactorization, Reach, StencilMatrix};
use crate::error::Result;
use crate::precision::PosteriorPrecision;

/// A factorised A_S.
#[derive(Debug)]
pub(crate) struct ExactSolver {
    precision: PosteriorPrecision,
    /// The factorisation of a first-order precision.
    fronts: Option<Factor>,
    dense: OnceLock<Mutex<DenseFactorization>>,
}

impl ExactSolver {
    /// Factorises A_S.
    ///
    /// # Errors
    /// `NotPositiveDefinite` with the node whose pivot is not positive.
    pub(crate) fn new(precision: &PosteriorPrecision) -> Result<Self> {
        let dense = OnceLock::new();
        let fronts = match precision.coupling().reach() {
            Reach::One => Some(Factor::new(precision)?),
            Reach::Two => {
                dense.get_or_init(|| Mutex::new(DenseFactorization::factor(&precision.matrix()).expect("spd")));
                None
            }
        };
        Ok(Self { precision: precision.clone(), fronts, dense })
    }

    fn dense<R>(&self, work: impl FnOnce(&mut DenseFactorization) -> R) -> R {
        let dense = self
            .dense
            .get_or_init(|| Mutex::new(DenseFactorization::factor(&self.precision.matrix()).expect("fronts exist")));
        work(&mut dense.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A^-1 rhs.
    pub(crate) fn solve(&self, rhs: &[f64]) -> Vec<f64> {
        if let Some(fronts) = &self.fronts {
            return fronts.solve(self.precision.prior().dissection(), rhs);
        }
        let mut out = vec![0.0; rhs.len()];
        self.dense(|dense| dense.solve(rhs, &mut out));
        out
    }

    /// diag A^-1.
    pub(crate) fn variances(&self) -> Vec<f64> {
        if let Some(fronts) = &self.fronts {
            return fronts.variances(self.precision.prior().dissection());
        }
        let mut variance = vec![0.0; self.precision.precision_diagonal().len()];
        self.dense(|dense| dense.variances(&mut variance));
        variance
    }

    /// diag A^-1 and diag(A^-1 W A^-1).
    pub(crate) fn variances_and_numerators(&self, weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        if let Some(fronts) = &self.fronts {
            return fronts.variances_and_numerators(self.precision.prior().dissection(), weights);
        }
        let (mut variance, mut numerator) = (vec![0.0; weights.len()], vec![0.0; weights.len()]);
        self.dense(|dense| dense.variances_and_numerators(weights, &mut variance, &mut numerator));
        (variance, numerator)
    }

    /// log det A.
    pub(crate) fn log_det(&self) -> f64 {
        self.dense(|dense| dense.log_det())
    }

    /// The entries of A^-1 on the stencil of A.
    pub(crate) fn selected_inverse(&self) -> StencilMatrix {
        let mut inverse = self.precision.matrix();
        self.dense(|dense| dense.selected_inverse(&mut inverse));
        inverse
    }

    /// B normals with B B' = A^-1.
    pub(crate) fn sample(&self, normals: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; normals.len()];
        self.dense(|dense| dense.sample(normals, &mut out));
        out
    }
}
