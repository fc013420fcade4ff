//! The numbers that make a precision of a graph.

use super::ResidualPrecision;
use crate::error::Result;
use crate::graph::Conductances;

/// tau, lambda and kappa^2: what makes a precision of a graph, predicted or not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrecisionScale {
    /// tau of Eq. 8.
    pub residual_precision: f64,
    /// lambda of Eq. 8.
    pub graph_coupling: f64,
    /// kappa^2 of a precision of second order; none: first order.
    pub kappa_squared: Option<f64>,
}

impl PrecisionScale {
    /// The precision of a graph at this scale.
    ///
    /// # Errors
    /// Those of [`ResidualPrecision::new`] and [`ResidualPrecision::second_order`].
    pub fn precision(self, conductances: Conductances) -> Result<ResidualPrecision> {
        let Self { residual_precision, graph_coupling, kappa_squared } = self;
        match kappa_squared {
            Some(kappa_squared) => {
                ResidualPrecision::second_order(conductances, residual_precision, graph_coupling, kappa_squared)
            }
            None => ResidualPrecision::new(conductances, residual_precision, graph_coupling),
        }
    }

    /// The scale of the same precision times `factor`: kappa^2 is a shape and stays.
    pub fn times(self, factor: f64) -> Self {
        let (tau, lambda) = (factor * self.residual_precision, factor * self.graph_coupling);
        Self { residual_precision: tau, graph_coupling: lambda, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::{Grid, ValidMask};

    #[test]
    fn scale_picks_the_order_and_a_factor_multiplies_the_precision() {
        let valid = ValidMask::all(Grid::new(1, 3).unwrap());
        let line =
            Conductances::from_edges([vec![1.0, 2.0, 0.0], vec![0.0; 3], vec![0.0; 3], vec![0.0; 3]], &valid).unwrap();
        let field = [1.0, -0.5, 2.0];
        for kappa_squared in [None, Some(0.5)] {
            let scale = PrecisionScale { residual_precision: 0.25, graph_coupling: 2.0, kappa_squared };
            let by_hand = match kappa_squared {
                Some(kappa) => ResidualPrecision::second_order(line.clone(), 0.25, 2.0, kappa),
                None => ResidualPrecision::new(line.clone(), 0.25, 2.0),
            };
            let applied = scale.precision(line.clone()).unwrap().apply(&field);
            assert_eq!(applied, by_hand.unwrap().apply(&field));
            let fourfold = scale.times(4.0).precision(line.clone()).unwrap().apply(&field);
            let expected: Vec<f64> = applied.iter().map(|value| 4.0 * value).collect();
            assert_eq!(fourfold, expected);
        }
    }
}
