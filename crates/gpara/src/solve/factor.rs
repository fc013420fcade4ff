//! Exact factorisation of A_S.
use super::Dissection;
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::precision::PosteriorPrecision;
#[derive(Debug)]
pub(crate) struct Factor;
#[derive(Debug, thiserror::Error)]
#[error("the exact factorisation is not built yet")]
struct NotBuilt;
impl ErrorDetail for NotBuilt {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Unsupported
    }
}
impl Factor {
    pub(crate) fn new(_: &PosteriorPrecision) -> Result<Self> {
        Err(NotBuilt.into())
    }
    pub(crate) fn solve(&self, rhs: &[f64]) -> Vec<f64> {
        rhs.to_vec()
    }
    pub(crate) fn variances(&self, _: &Dissection) -> Vec<f64> {
        vec![]
    }
    pub(crate) fn variances_and_numerators(&self, _: &Dissection, _: &[f64]) -> (Vec<f64>, Vec<f64>) {
        (vec![], vec![])
    }
}
