//! The residual precision Q_g (Eq. 8) and the posterior precision A_S (Eq. 11) as sparse operators; neither is ever stored
//! as a full matrix.

mod coupling;
mod scale;
mod stencil_rows;

use std::sync::Arc;

use thiserror::Error as ThisError;

pub(crate) use coupling::Coupling;
pub use scale::PrecisionScale;

use crate::engine::{Reach, StencilMatrix};
use crate::error::{ErrorDetail, ErrorKind, Result};
use crate::graph::Conductances;
use crate::grid::Grid;
use crate::observations::{Observation, Observations};
use crate::solve::{Arenas, Choice, ExactSolver, SharedMatrix, Stencil, single_error};

/// How the precision follows from the graph Laplacian L_g.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PrecisionOrder {
    /// Q = tau I + lambda L_g (Eq. 8): fields without a derivative.
    First,
    /// Q = tau I + lambda K K with K = kappa^2 I + L_g: the Matern-like field of the stochastic differential equation
    /// of Lindgren, Rue and Lindstrom (2011), smoother than the first order (G.1).
    Second {
        /// kappa^2, the inverse square of the correlation length in cells for unit conductances. Below 0, with tau > 0, the
        /// field swings around its mean and is smoother between two cells.
        kappa_squared: f64,
    },
}

/// Q_g, the prior precision of the residual, of first (Eq. 8) or second order (G.1). Cloning shares the data.
///
/// A cell outside the valid mask has no edge and is independent of all others, with precision tau (first order) or
/// tau + lambda kappa^4 (second order); it never influences a valid cell.
#[derive(Debug, Clone)]
pub struct ResidualPrecision(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    conductances: Conductances,
    residual_precision: f64,
    graph_coupling: f64,
    order: PrecisionOrder,
    /// What K has on its diagonal beside kappa^2 and L_g, if anything.
    absorption: Option<Vec<f64>>,
    /// The diagonal of Q_g; tau + lambda d_i for the first order.
    diagonal: Vec<f64>,
    coupling: Arc<Coupling>,
    /// The elimination order depends on grid and reach alone, so every posterior of this graph shares it.
    arenas: Arc<Arenas>,
}

impl ResidualPrecision {
    /// The precision `residual_precision * I + graph_coupling * L` (tau and lambda of Eq. 8).
    ///
    /// # Errors
    /// `InvalidInput` unless `residual_precision` > 0 and `graph_coupling` >= 0, both finite.
    pub fn new(conductances: Conductances, residual_precision: f64, graph_coupling: f64) -> Result<Self> {
        if !(residual_precision.is_finite() && residual_precision > 0.0) {
            return Err(PrecisionError::ResidualPrecision { residual_precision }.into());
        }
        check_coupling(graph_coupling)?;
        let mut matrix = StencilMatrix::zeros(conductances.grid(), Reach::One);
        matrix.diagonal =
            conductances.degree().iter().map(|degree| residual_precision + graph_coupling * degree).collect();
        for (entries, map) in matrix.coupling.iter_mut().zip(conductances.edges()) {
            entries.iter_mut().zip(map).for_each(|(entry, conductance)| *entry = 0.0 - graph_coupling * conductance);
        }
        Ok(Self::from_parts(conductances, residual_precision, graph_coupling, PrecisionOrder::First, None, matrix))
    }

    /// The precision `residual_precision * I + graph_coupling * K K` with `K = kappa_squared * I + L` (G.1).
    ///
    /// K C^-1 K of the differential equation with C^-1 = lambda I, plus a nugget of precision tau: positive definite by
    /// construction.
    ///
    /// # Errors
    /// `InvalidInput` unless all three are finite, the first two >= 0, `kappa_squared` >= 0 where `residual_precision` is 0, and
    /// `residual_precision + graph_coupling * kappa_squared^2`, the precision of a cell without edges, is > 0.
    ///
    /// # Example
    /// ```
    /// use gpara::{Conductances, Grid, ResidualPrecision, ValidMask};
    ///
    /// let valid = ValidMask::all(Grid::new(1, 3)?);
    /// let line = Conductances::from_edges([vec![1.0, 1.0, 0.0], vec![0.0; 3], vec![0.0; 3], vec![0.0; 3]], &valid)?;
    /// let precision = ResidualPrecision::second_order(line, 0.0, 2.0, 0.5)?;
    /// // On a constant field L vanishes and K is kappa^2 = 0.5: 2 * 0.5^2.
    /// assert_eq!(precision.apply(&[1.0, 1.0, 1.0]), [0.5, 0.5, 0.5]);
    /// # Ok::<(), gpara::Error>(())
    /// ```
    pub fn second_order(
        conductances: Conductances,
        residual_precision: f64,
        graph_coupling: f64,
        kappa_squared: f64,
    ) -> Result<Self> {
        check_second_order(residual_precision, graph_coupling, kappa_squared)?;
        Ok(Self::squared(conductances, residual_precision, graph_coupling, kappa_squared, None))
    }

    /// [`second_order`](Self::second_order) with `K = kappa_squared * I + L + diag(absorption)`: where the graph ends, the field
    /// is held as if it went on.
    ///
    /// Without it no flux crosses a border, which reflects the field and doubles its variance there. `b kappa` at cells with an
    /// edge too few lets flux b kappa x out, as that of a field which goes on beyond (a Robin condition).
    ///
    /// # Shapes
    /// * `absorption` - `num_nodes` values >= 0; not used at cells without edges
    ///
    /// # Errors
    /// Those of [`second_order`](Self::second_order); `ShapeMismatch` unless `absorption` has a value a node, `InvalidInput`
    /// unless each is a finite number >= 0.
    pub fn second_order_absorbing(
        conductances: Conductances,
        residual_precision: f64,
        graph_coupling: f64,
        kappa_squared: f64,
        mut absorption: Vec<f64>,
    ) -> Result<Self> {
        check_second_order(residual_precision, graph_coupling, kappa_squared)?;
        let grid = conductances.grid();
        if absorption.len() != grid.num_nodes() {
            return Err(PrecisionError::AbsorptionLength { length: absorption.len(), grid }.into());
        }
        if let Some(node) = absorption.iter().position(|value| !(value.is_finite() && *value >= 0.0)) {
            return Err(PrecisionError::Absorption { node, value: absorption[node] }.into());
        }
        // All cells without edges have one precision.
        let lone = absorption.iter_mut().zip(conductances.degree()).filter(|(_, degree)| *degree == 0.0);
        lone.for_each(|(absorbed, _)| *absorbed = 0.0);
        Ok(Self::squared(conductances, residual_precision, graph_coupling, kappa_squared, Some(absorption)))
    }

    fn squared(
        conductances: Conductances,
        residual_precision: f64,
        graph_coupling: f64,
        kappa_squared: f64,
        absorption: Option<Vec<f64>>,
    ) -> Self {
        let mut matrix = shifted_laplacian(&conductances, kappa_squared, absorption.as_deref()).squared();
        let entries = matrix.diagonal.iter_mut().chain(matrix.coupling.iter_mut().flatten());
        entries.for_each(|entry| *entry *= graph_coupling);
        matrix.diagonal.iter_mut().for_each(|entry| *entry += residual_precision);
        let order = PrecisionOrder::Second { kappa_squared };
        Self::from_parts(conductances, residual_precision, graph_coupling, order, absorption, matrix)
    }

    fn from_parts(
        conductances: Conductances,
        residual_precision: f64,
        graph_coupling: f64,
        order: PrecisionOrder,
        absorption: Option<Vec<f64>>,
        matrix: StencilMatrix,
    ) -> Self {
        let coupling = Arc::new(Coupling::new(&matrix));
        let (diagonal, arenas) = (matrix.diagonal, Arc::default());
        Self(Arc::new(Shared {
            conductances,
            residual_precision,
            graph_coupling,
            order,
            absorption,
            diagonal,
            coupling,
            arenas,
        }))
    }

    /// This second-order precision with another kappa^2: the same graph, of another reach.
    ///
    /// # Errors
    /// `InvalidInput` if it is of first order, which has no kappa, and those of [`second_order`](Self::second_order).
    pub fn with_kappa_squared(&self, kappa_squared: f64) -> Result<Self> {
        if self.order() == PrecisionOrder::First {
            return Err(PrecisionError::NoKappa { kappa_squared }.into());
        }
        let Shared { conductances, residual_precision, graph_coupling, absorption, arenas, .. } = &*self.0;
        check_second_order(*residual_precision, *graph_coupling, kappa_squared)?;
        let (conductances, absorption) = (conductances.clone(), absorption.clone());
        let other = Self::squared(conductances, *residual_precision, *graph_coupling, kappa_squared, absorption);
        Ok(other.working_in(Arc::clone(arenas)))
    }

    /// This precision with other conductances: the same order and strengths on another graph of its grid.
    ///
    /// # Errors
    /// `ShapeMismatch` if they are of another grid.
    pub fn with_conductances(&self, conductances: Conductances) -> Result<Self> {
        let (found, grid) = (conductances.grid(), self.grid());
        if found != grid {
            return Err(PrecisionError::OtherGrid { found, grid }.into());
        }
        let Shared { residual_precision, graph_coupling, order, absorption, arenas, .. } = &*self.0;
        let other = match *order {
            PrecisionOrder::First => Self::new(conductances, *residual_precision, *graph_coupling)?,
            PrecisionOrder::Second { kappa_squared } => {
                Self::squared(conductances, *residual_precision, *graph_coupling, kappa_squared, absorption.clone())
            }
        };
        Ok(other.working_in(Arc::clone(arenas)))
    }

    /// The same precision, factorised in arenas that others of its grid and order have used.
    ///
    /// # Panics
    /// If clones of it exist, which would not follow.
    #[track_caller]
    pub(crate) fn working_in(mut self, arenas: Arc<Arenas>) -> Self {
        Arc::get_mut(&mut self.0).expect("a precision that nobody shares yet").arenas = arenas;
        self
    }

    /// The grid of the nodes.
    pub fn grid(&self) -> Grid {
        self.0.conductances.grid()
    }

    /// The graph C_g.
    pub fn conductances(&self) -> &Conductances {
        &self.0.conductances
    }

    /// tau.
    pub fn residual_precision(&self) -> f64 {
        self.0.residual_precision
    }

    /// lambda.
    pub fn graph_coupling(&self) -> f64 {
        self.0.graph_coupling
    }

    /// First or second order.
    pub fn order(&self) -> PrecisionOrder {
        self.0.order
    }

    /// The diagonal of Q_g, `num_nodes` values > 0; tau + lambda d_i for the first order.
    pub fn diagonal(&self) -> &[f64] {
        &self.0.diagonal
    }

    /// Q_g x.
    ///
    /// # Panics
    /// If `x` has another length than the grid.
    #[track_caller]
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        self.0.coupling.apply(&self.0.diagonal, x)
    }

    /// Whether one is a clone of the other.
    pub(crate) fn shares_data_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The precision of a cell without edges: tau, or tau + lambda kappa^4 of the second order.
    pub(crate) fn of_lone_cell(&self) -> f64 {
        match self.0.order {
            PrecisionOrder::First => self.0.residual_precision,
            PrecisionOrder::Second { kappa_squared } => {
                self.0.residual_precision + self.0.graph_coupling * kappa_squared * kappa_squared
            }
        }
    }

    /// What no eigenvalue of Q_g is below: tau, and what kappa^2 >= 0 adds to it, since L_g and absorption only add to K.
    pub(crate) fn smallest_eigenvalue_bound(&self) -> f64 {
        match self.0.order {
            PrecisionOrder::Second { kappa_squared } if kappa_squared < 0.0 => self.0.residual_precision,
            _ => self.of_lone_cell(),
        }
    }

    /// K of the second order; L_g itself for the first.
    pub(crate) fn operator(&self) -> StencilMatrix {
        let shift = match self.0.order {
            PrecisionOrder::First => 0.0,
            PrecisionOrder::Second { kappa_squared } => kappa_squared,
        };
        shifted_laplacian(&self.0.conductances, shift, self.0.absorption.as_deref())
    }
}

/// shift * I + L_g + diag(absorption).
fn shifted_laplacian(conductances: &Conductances, shift: f64, absorption: Option<&[f64]>) -> StencilMatrix {
    let mut matrix = StencilMatrix::zeros(conductances.grid(), Reach::One);
    matrix.diagonal = conductances.degree().iter().map(|degree| shift + degree).collect();
    for (entry, absorbed) in matrix.diagonal.iter_mut().zip(absorption.unwrap_or_default()) {
        *entry += absorbed;
    }
    for (entries, map) in matrix.coupling.iter_mut().zip(conductances.edges()) {
        entries.iter_mut().zip(map).for_each(|(entry, conductance)| *entry = 0.0 - conductance);
    }
    matrix
}

/// A_S = Q_g + H' R^-1 H = D_A - C, the precision of the residual given the measurements (Eqs. 11, B.25).
///
/// A node measured exactly (noise 0) is eliminated: its couplings are dropped, the diagonals of its neighbours stay, and
/// its own diagonal entry is 1, so that the operator stays positive definite and log det A is that of the other nodes.
#[derive(Debug, Clone)]
pub struct PosteriorPrecision {
    prior: ResidualPrecision,
    diagonal: Arc<[f64]>,
    coupling: Arc<Coupling>,
}

impl PosteriorPrecision {
    /// Adds `1 / noise_std^2` of every noisy measurement to the diagonal of Q_g and takes the exact ones out.
    ///
    /// # Errors
    /// `ShapeMismatch` if the observations belong to another grid, `InvalidInput` if a noise is so small that its inverse
    /// square overflows.
    pub fn new(prior: &ResidualPrecision, observations: &Observations) -> Result<Self> {
        if prior.grid() != observations.grid() {
            return Err(PrecisionError::Grid { graph: prior.grid(), observations: observations.grid() }.into());
        }
        let mut diagonal = prior.diagonal().to_vec();
        let mut coupling = Arc::clone(&prior.0.coupling);
        if observations.iter().any(Observation::is_exact) {
            let exact = observations.iter().filter(|entry| entry.is_exact()).map(|entry| entry.node);
            coupling = Arc::new(coupling.without(exact));
        }
        for observation in observations.iter() {
            let Observation { node, noise_std, .. } = *observation;
            if observation.is_exact() {
                diagonal[node] = 1.0;
                continue;
            }
            let precision = noise_std.powi(-2);
            if !precision.is_finite() {
                return Err(PrecisionError::Noise { node, noise_std }.into());
            }
            diagonal[node] += precision;
        }
        Ok(Self { prior: prior.clone(), diagonal: diagonal.into(), coupling })
    }

    /// The prior part Q_g.
    pub fn prior(&self) -> &ResidualPrecision {
        &self.prior
    }

    /// D_A, the diagonal of A_S (Eq. B.25), `num_nodes` values > 0; 1 at nodes measured exactly.
    pub fn precision_diagonal(&self) -> &[f64] {
        &self.diagonal
    }

    /// A_S x.
    ///
    /// # Panics
    /// If `x` has another length than the grid.
    #[track_caller]
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        self.coupling.apply(&self.diagonal, x)
    }

    /// q = max_i sum_j |C_ij| / D_A,ii, by which a Jacobi sweep shrinks the error in the max norm (Eq. B.27).
    ///
    /// Below 1 for the first order, where it is max_i lambda d_i / D_A,ii. Of the second order it is mostly above 1, and
    /// Jacobi sweeps then need not converge.
    pub fn contraction_bound(&self) -> f64 {
        let sums = self.coupling.absolute_row_sums();
        sums.iter().zip(&*self.diagonal).map(|(sum, diagonal)| sum / diagonal).fold(0.0, f64::max)
    }

    /// Factorises A_S.
    ///
    /// # Errors
    /// `NotPositiveDefinite` with the node whose pivot is not positive.
    pub(crate) fn factor(&self, choice: Choice) -> Result<ExactSolver> {
        let matrix = SharedMatrix { coupling: Arc::clone(&self.coupling), diagonal: Arc::clone(&self.diagonal) };
        ExactSolver::new(&self.prior.0.arenas, matrix, choice)
    }

    /// A_S as an operator of the iterative solvers.
    pub(crate) fn stencil(&self) -> Stencil<'_, f64> {
        self.coupling.stencil(&self.diagonal)
    }

    /// [`single_error`] of A_S.
    pub(crate) fn single_error(&self) -> f64 {
        single_error(self.coupling.absolute_row_sums(), &self.diagonal)
    }
}

fn check_second_order(residual_precision: f64, graph_coupling: f64, kappa_squared: f64) -> Result<()> {
    check_coupling(graph_coupling)?;
    let of_lone_cell = residual_precision + graph_coupling * kappa_squared * kappa_squared;
    let definite = kappa_squared >= 0.0 || residual_precision > 0.0;
    let allowed = residual_precision >= 0.0 && definite && of_lone_cell > 0.0;
    if allowed && of_lone_cell.is_finite() && kappa_squared.is_finite() {
        return Ok(());
    }
    Err(PrecisionError::SecondOrder { residual_precision, kappa_squared, graph_coupling }.into())
}

fn check_coupling(graph_coupling: f64) -> Result<()> {
    if graph_coupling.is_finite() && graph_coupling >= 0.0 {
        return Ok(());
    }
    Err(PrecisionError::GraphCoupling { graph_coupling }.into())
}

#[derive(Debug, ThisError)]
enum PrecisionError {
    #[error("residual precision {residual_precision} must be a finite number > 0")]
    ResidualPrecision { residual_precision: f64 },
    #[error("graph coupling {graph_coupling} must be a finite number >= 0")]
    GraphCoupling { graph_coupling: f64 },
    #[error(
        "second-order precision with tau {residual_precision}, kappa^2 {kappa_squared}, lambda {graph_coupling}: all \
         must be finite, tau and lambda >= 0, kappa^2 >= 0 where tau is 0, and tau + lambda kappa^4 > 0"
    )]
    SecondOrder { residual_precision: f64, kappa_squared: f64, graph_coupling: f64 },
    #[error("kappa^2 {kappa_squared} is given for a precision of first order, which has none")]
    NoKappa { kappa_squared: f64 },
    #[error("absorption of {length} values on a {grid} grid, one a cell is needed")]
    AbsorptionLength { length: usize, grid: Grid },
    #[error("absorption {value} at node {node} must be a finite number >= 0")]
    Absorption { node: usize, value: f64 },
    #[error("observations of a {observations} grid do not fit the {graph} graph")]
    Grid { graph: Grid, observations: Grid },
    #[error("conductances of a {found} grid do not fit a precision on {grid}")]
    OtherGrid { found: Grid, grid: Grid },
    #[error("noise standard deviation {noise_std:e} at node {node} is too small, it must be 0 or at least 1e-150")]
    Noise { node: usize, noise_std: f64 },
}

impl ErrorDetail for PrecisionError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Grid { .. } | Self::OtherGrid { .. } | Self::AbsorptionLength { .. } => ErrorKind::ShapeMismatch,
            _ => ErrorKind::InvalidInput,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Noise { .. } => Some("use 0 for an exact measurement".into()),
            Self::NoKappa { .. } => Some("make the graph one of second order: give it a kappa^2".into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::ValidMask;

    fn uniform(rows: usize, cols: usize) -> Conductances {
        let valid = ValidMask::all(Grid::new(rows, cols).unwrap());
        Conductances::from_logits(&vec![0.0; 4 * rows * cols], &valid).unwrap()
    }

    #[test]
    fn laplacian_part_vanishes_on_constants() {
        for (rows, cols) in [(1, 1), (1, 6), (6, 1), (2, 1), (5, 4)] {
            let precision = ResidualPrecision::new(uniform(rows, cols), 0.25, 3.0).unwrap();
            for value in precision.apply(&vec![2.0; rows * cols]) {
                assert!((value - 0.5).abs() < 1e-13, "{rows}x{cols}");
            }
        }
    }

    #[test]
    fn settings_outside_their_range_are_refused() {
        for (tau, lambda) in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, -0.1), (1.0, f64::INFINITY)] {
            let error = ResidualPrecision::new(uniform(2, 2), tau, lambda).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{tau} {lambda}");
        }
    }

    #[test]
    fn negative_kappa_squared_needs_a_tau_and_leaves_constants_their_precision() {
        let refused = ResidualPrecision::second_order(uniform(5, 4), 0.0, 1.0, -0.5).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        let precision = ResidualPrecision::second_order(uniform(5, 4), 0.25, 2.0, -0.5).unwrap();
        for value in precision.apply(&[2.0; 20]) {
            assert!((value - 2.0 * (0.25 + 2.0 * 0.25)).abs() < 1e-12, "{value}");
        }
        // Positive definite also along fields that L - 0.5 leaves small.
        let x: Vec<f64> = (0..20).map(|node| (node as f64 * 1.7).sin()).collect();
        let energy: f64 = precision.apply(&x).iter().zip(&x).map(|(applied, x)| applied * x).sum();
        assert!(energy > 0.25 * x.iter().map(|x| x * x).sum::<f64>(), "{energy}");
    }

    #[test]
    fn absorbing_border_holds_the_field_there_and_no_lone_cell() {
        let grid = Grid::new(3, 4).unwrap();
        let mut marked = vec![true; 12];
        marked[0] = false;
        let valid = ValidMask::new(grid, marked).unwrap();
        let graph = Conductances::from_logits(&[0.0; 48], &valid).unwrap();
        let absorption: Vec<f64> = (0..12).map(|node| if node % 4 == 0 { 0.5 } else { 0.0 }).collect();
        let precision =
            ResidualPrecision::second_order_absorbing(graph.clone(), 0.25, 2.0, 1.0, absorption.clone()).unwrap();
        // K 1 = kappa^2 + absorption, and K is symmetric: 1' Q 1 = 12 tau + lambda |K 1|^2.
        let energy: f64 = precision.apply(&[1.0; 12]).iter().sum();
        assert!((energy - (12.0 * 0.25 + 2.0 * (10.0 + 2.0 * 1.5 * 1.5))).abs() < 1e-12, "{energy}");
        assert!((precision.diagonal()[0] - precision.of_lone_cell()).abs() < 1e-12);
        let kind = |absorption: Vec<f64>| {
            ResidualPrecision::second_order_absorbing(graph.clone(), 0.25, 2.0, 1.0, absorption).unwrap_err().kind()
        };
        assert_eq!(kind(vec![0.0; 11]), ErrorKind::ShapeMismatch);
        assert_eq!(kind(vec![-1.0; 12]), ErrorKind::InvalidInput);
        assert_eq!(kind(vec![f64::NAN; 12]), ErrorKind::InvalidInput);
    }

    #[test]
    fn observations_of_another_grid_are_refused() {
        let prior = ResidualPrecision::new(uniform(2, 2), 1.0, 1.0).unwrap();
        let other = Observations::none(Grid::new(2, 3).unwrap());
        assert_eq!(PosteriorPrecision::new(&prior, &other).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    }

    #[test]
    fn noise_whose_inverse_square_overflows_is_refused() {
        let prior = ResidualPrecision::new(uniform(2, 2), 1.0, 1.0).unwrap();
        let with_noise = |noise_std| {
            let mut observations = Observations::none(prior.grid());
            let row = Observation { node: 1, value: 0.0, noise_std };
            observations.add(&ValidMask::all(prior.grid()), &[row]).unwrap();
            PosteriorPrecision::new(&prior, &observations).map(|_| ())
        };
        assert_eq!(with_noise(1e-160).unwrap_err().kind(), ErrorKind::InvalidInput);
        with_noise(1e-150).unwrap();
    }

    #[test]
    fn theory_diagonal_adds_each_nodes_own_noise_b25() {
        let prior = ResidualPrecision::new(uniform(2, 2), 1.0, 0.0).unwrap();
        let mut observations = Observations::none(prior.grid());
        let rows =
            [Observation { node: 1, value: 0.0, noise_std: 0.5 }, Observation { node: 3, value: 0.0, noise_std: 0.1 }];
        observations.add(&ValidMask::all(prior.grid()), &rows).unwrap();
        let posterior = PosteriorPrecision::new(&prior, &observations).unwrap();
        for (found, expected) in posterior.precision_diagonal().iter().zip([1.0, 5.0, 1.0, 101.0]) {
            assert!((found - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn other_conductances_give_the_precision_of_that_graph_in_each_order() {
        let valid = ValidMask::all(Grid::new(4, 5).unwrap());
        let logits: Vec<f64> = (0..80).map(|edge| f64::from(edge % 7) - 3.0).collect();
        let (old, new) = (uniform(4, 5), Conductances::from_logits(&logits, &valid).unwrap());
        let x: Vec<f64> = (0..20).map(|node| (f64::from(node) * 1.7).sin()).collect();
        let absorbed: Vec<f64> = (0..20).map(|node| f64::from(node) * 0.1).collect();
        let kinds: [&dyn Fn(&Conductances) -> ResidualPrecision; 3] = [
            &|graph| ResidualPrecision::new(graph.clone(), 0.5, 2.0).unwrap(),
            &|graph| ResidualPrecision::second_order(graph.clone(), 0.5, 2.0, 0.3).unwrap(),
            &|graph| ResidualPrecision::second_order_absorbing(graph.clone(), 0.5, 2.0, 0.3, absorbed.clone()).unwrap(),
        ];
        for of in kinds {
            let found = of(&old).with_conductances(new.clone()).unwrap();
            assert_eq!(found.apply(&x), of(&new).apply(&x));
            assert_eq!((found.order(), found.diagonal()), (of(&new).order(), of(&new).diagonal()));
            assert_ne!(found.apply(&x), of(&old).apply(&x));
            assert_eq!(found.with_conductances(uniform(5, 4)).unwrap_err().kind(), ErrorKind::ShapeMismatch);
        }
    }
}
