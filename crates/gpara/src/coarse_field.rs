//! A field from its measurements alone, on a grid of half the sides: what a network starts from that corrects an interpolation
//! (G.16).

use std::sync::{Arc, Mutex, PoisonError};

use crate::context::Context;
use crate::drift::Drift;
use crate::error::Result;
use crate::graph::{GraphDescriptor, GraphPredictor, Guided};
use crate::grid::{Grid, ValidMask};
use crate::observations::{Observation, Observations};
use crate::precision::ResidualPrecision;
use crate::residual_scale::ScaledPosterior;
use crate::solve::{Arenas, MeanSolver};

/// Cells of the field along each side of a coarse cell. Halving the sides costs 1 % of the error at 100 points and saves three
/// quarters of the time.
const COARSENING: usize = 2;

/// Noise that an exact value is taken to have: two exact values of one coarse cell need not agree.
const LEAST_NOISE_STD: f64 = 1e-4;

/// Precision that keeps a part of the scene without any measurement at the fitted level.
const RESIDUAL_PRECISION: f64 = 1e-9;

/// kappa^2 of the coarse grid: a range of some twenty coarse cells.
const KAPPA_SQUARED: f64 = 4e-3;

/// Most coarse cells of scenes whose plan and arenas are kept, 256 x 512 cells of a scene: of larger ones they take hundreds of
/// megabytes for each thread.
const KEPT_NODES: usize = 1 << 15;

/// The posterior mean of a second-order field of unknown level that follows the edges of a guide, on coarse cells, drawn
/// linearly between their centres (G.16).
///
/// # Example
/// Values of a plane come back as that plane between the points.
/// ```
/// use gpara::{CoarseField, Observation, Observations, Grid, ValidMask};
///
/// let valid = ValidMask::all(Grid::new(24, 24)?);
/// let plane = |node: usize| 0.02 * (node / 24) as f64 - 0.01 * (node % 24) as f64;
/// let mut observations = Observations::none(valid.grid());
/// for node in (0..576).step_by(7) {
///     observations.add(&valid, &[Observation { node, value: plane(node), noise_std: 0.0 }])?;
/// }
/// let field = CoarseField::new(0.1)?.interpolate(&valid, &[0.5; 576], &observations)?;
/// assert!((field[300] - plane(300)).abs() < 0.02);
/// # Ok::<(), gpara::Error>(())
/// ```
#[derive(Debug)]
pub struct CoarseField {
    guide_scale: f64,
    /// Elimination plan and arenas of the last size of scene: half of the time of a fresh factorisation is spent on them.
    kept: Mutex<Option<(Grid, Arc<Arenas>)>>,
}

impl CoarseField {
    /// The field for a guide of which a difference of `guide_scale` between two coarse cells weakens their edge by 1/e.
    ///
    /// It keeps what scenes of one size have in common, as much as were ever made at once, and may be shared by threads: keep one
    /// for many scenes. Of scenes above 256 x 512 cells it keeps nothing.
    ///
    /// # Errors
    /// `InvalidInput` unless `guide_scale` is finite and above 0.
    pub fn new(guide_scale: f64) -> Result<Self> {
        Guided::new(Vec::new(), guide_scale)?;
        Ok(Self { guide_scale, kept: Mutex::default() })
    }

    /// What factorisations of coarse grids of that size work in.
    fn arenas(&self, coarse: Grid) -> Arc<Arenas> {
        if coarse.num_nodes() > KEPT_NODES {
            return Arc::default();
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(grid, _)| *grid != coarse) {
            *kept = Some((coarse, Arc::default()));
        }
        Arc::clone(&kept.as_ref().expect("put there above").1)
    }

    /// The interpolated field; 0 everywhere without measurements. Noise is smoothed at the scale of the field
    /// ([`ScaledPosterior`]).
    ///
    /// # Shapes
    /// * `guide` - `num_nodes` values
    /// * returns `num_nodes` values; at invalid cells the mean of the valid coarse cells around, or the fitted level
    ///
    /// # Errors
    /// `ShapeMismatch` if guide or measurements belong to another grid, `NonFinite` if the guide is not finite, and
    /// `NotPositiveDefinite` if the factorisation breaks down.
    pub fn interpolate(&self, valid: &ValidMask, guide: &[f64], observations: &Observations) -> Result<Vec<f64>> {
        let blocks = Blocks::new(valid.grid())?;
        let fine = Guided::new(guide.to_vec(), self.guide_scale)?;
        let fine_guide = fine.guide_over(valid.grid())?;
        if observations.is_empty() {
            return Ok(vec![0.0; valid.grid().num_nodes()]);
        }
        let coarse_guide = blocks.means(valid, fine_guide)?;
        let guided = Guided::new(coarse_guide.values, self.guide_scale)?;
        let context = Context::new(coarse_guide.valid, Vec::new())?;
        let level = vec![0.0; blocks.coarse.num_nodes()];
        let descriptor = GraphDescriptor { context: &context, prior_mean: &level, prior_std: &level, num_measured: 0 };
        let conductances = guided.predict(&descriptor)?;
        let precision = ResidualPrecision::second_order(conductances, RESIDUAL_PRECISION, 1.0, KAPPA_SQUARED)?
            .working_in(self.arenas(blocks.coarse));
        let measured = blocks.measurements(context.valid(), observations)?;
        let drift = Drift::constant(blocks.coarse);
        let scaled = ScaledPosterior::fit(&precision, &measured, &level, Some(&drift))?;
        let (mean, _) = scaled.posterior().mean_correction(&level, MeanSolver::Exact)?;
        Ok(blocks.refined(context.valid(), &mean))
    }
}

/// The cells of a grid and the coarse cells over them.
struct Blocks {
    fine: Grid,
    coarse: Grid,
}

/// Values of the coarse cells and which of them hold a valid cell.
struct CoarseValues {
    valid: ValidMask,
    values: Vec<f64>,
}

impl Blocks {
    fn new(fine: Grid) -> Result<Self> {
        let coarse = Grid::new(fine.rows().div_ceil(COARSENING), fine.cols().div_ceil(COARSENING))?;
        Ok(Self { fine, coarse })
    }

    /// The coarse cell over a cell.
    fn over(&self, node: usize) -> usize {
        let (row, col) = self.fine.row_col(node);
        self.coarse.node(row / COARSENING, col / COARSENING)
    }

    /// Means over the valid cells of each coarse cell, 0 where there are none.
    fn means(&self, valid: &ValidMask, values: &[f64]) -> Result<CoarseValues> {
        let mut sums = vec![(0.0, 0u32); self.coarse.num_nodes()];
        for node in valid.nodes() {
            let (sum, count) = &mut sums[self.over(node)];
            (*sum, *count) = (*sum + values[node], *count + 1);
        }
        let valid = ValidMask::new(self.coarse, sums.iter().map(|(_, count)| *count > 0).collect())?;
        let values = sums.iter().map(|&(sum, count)| sum / f64::from(count.max(1))).collect();
        Ok(CoarseValues { valid, values })
    }

    /// Measurements of coarse cells, those of one cell merged by precision.
    fn measurements(&self, valid: &ValidMask, observations: &Observations) -> Result<Observations> {
        let moved = observations.iter().map(|observation| Observation {
            node: self.over(observation.node),
            noise_std: observation.noise_std.max(LEAST_NOISE_STD),
            ..*observation
        });
        let mut measured = Observations::none(self.coarse);
        measured.add(valid, &moved.collect::<Vec<_>>())?;
        Ok(measured)
    }

    /// Values between the centres of valid coarse cells, bilinear.
    fn refined(&self, valid: &ValidMask, values: &[f64]) -> Vec<f64> {
        let count = valid.num_valid() as f64;
        let level = valid.nodes().map(|node| values[node]).sum::<f64>() / count;
        let along = |at: usize, side: usize| {
            let position = (at as f64 + 0.5) / COARSENING as f64 - 0.5;
            let position = position.clamp(0.0, (side - 1) as f64);
            let first = position.floor() as usize;
            [(first, 1.0 - position.fract()), ((first + 1).min(side - 1), position.fract())]
        };
        let at = |node: usize| {
            let (row, col) = self.fine.row_col(node);
            let (mut sum, mut total) = (0.0, 0.0);
            for (row, down) in along(row, self.coarse.rows()) {
                for (col, right) in along(col, self.coarse.cols()) {
                    let cell = self.coarse.node(row, col);
                    let share = if valid.is_valid(cell) { down * right } else { 0.0 };
                    (sum, total) = (sum + share * values[cell], total + share);
                }
            }
            if total > 0.0 { sum / total } else { level }
        };
        (0..self.fine.num_nodes()).map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn observations(valid: &ValidMask, nodes: &[usize], value: impl Fn(usize) -> f64) -> Observations {
        let mut observations = Observations::none(valid.grid());
        let entries: Vec<Observation> =
            nodes.iter().map(|&node| Observation { node, value: value(node), noise_std: 0.0 }).collect();
        observations.add(valid, &entries).unwrap();
        observations
    }

    fn field() -> CoarseField {
        CoarseField::new(0.1).unwrap()
    }

    #[test]
    fn one_value_is_the_level_everywhere_and_none_is_zero() {
        let valid = ValidMask::all(Grid::new(7, 10).unwrap());
        let guide = vec![0.5; 70];
        let one = field().interpolate(&valid, &guide, &observations(&valid, &[33], |_| 0.4)).unwrap();
        assert!(one.iter().all(|value| (value - 0.4).abs() < 1e-6), "{one:?}");
        let none = field().interpolate(&valid, &guide, &Observations::none(valid.grid())).unwrap();
        assert_eq!(none, [0.0; 70]);
    }

    #[test]
    fn a_step_of_field_and_guide_stays_sharp() {
        // Left half 0, right half 1, in field and guide; five values on each side.
        let valid = ValidMask::all(Grid::new(16, 32).unwrap());
        let right = |node: usize| if node % 32 < 16 { 0.0 } else { 1.0 };
        let guide: Vec<f64> = (0..512).map(right).collect();
        let nodes: Vec<usize> = [(2, 3), (8, 8), (13, 2), (4, 12), (14, 13)]
            .into_iter()
            .flat_map(|(row, col)| [32 * row + col, 32 * row + 31 - col])
            .collect();
        let drawn = field().interpolate(&valid, &guide, &observations(&valid, &nodes, right)).unwrap();
        // Away from the two columns of cells that straddle the step when they are drawn linearly.
        for node in (0..512).filter(|node| !(15..17).contains(&(node % 32))) {
            assert!((drawn[node] - right(node)).abs() < 0.01, "node {node}: {}", drawn[node]);
        }
        let flat = field().interpolate(&valid, &[0.5; 512], &observations(&valid, &nodes, right)).unwrap();
        assert!((flat[8 * 32 + 14] - 0.0).abs() > 0.1, "without the guide the step is blurred");
    }

    #[test]
    fn equals_the_posterior_of_the_coarse_grid_at_the_centres_of_four_equal_cells() {
        // Values on all four cells of a coarse cell: the mean of a linear function is that of its centre, and between centres
        // the answer is linear, so two opposite cells of a block average to the block's own value up to the slope.
        let valid = ValidMask::all(Grid::new(12, 12).unwrap());
        let nodes: Vec<usize> = (0..144).collect();
        let value = |node: usize| 0.1 * (node / 12) as f64 + 0.03 * (node % 12) as f64;
        let field = field().interpolate(&valid, &[0.5; 144], &observations(&valid, &nodes, value)).unwrap();
        for row in 1..11 {
            for col in 1..11 {
                let node = 12 * row + col;
                assert!((field[node] - value(node)).abs() < 1e-3, "node {node}: {} {}", field[node], value(node));
            }
        }
    }

    #[test]
    fn invalid_cells_pull_nothing() {
        // A wall of invalid columns: the right side, unmeasured, keeps the fitted level, the left is as if it were alone.
        let grid = Grid::new(8, 16).unwrap();
        let valid = ValidMask::new(grid, (0..128).map(|node| !(6..8).contains(&(node % 16))).collect()).unwrap();
        let observed = observations(&valid, &[17, 36, 99], |_| -0.3);
        let field = field().interpolate(&valid, &[0.5; 128], &observed).unwrap();
        assert!(valid.nodes().all(|node| (field[node] + 0.3).abs() < 1e-6), "{field:?}");
    }

    #[test]
    fn bad_guides_are_refused_by_kind() {
        let valid = ValidMask::all(Grid::new(4, 4).unwrap());
        let none = Observations::none(valid.grid());
        let kind = |scale, guide: &[f64]| {
            CoarseField::new(scale).and_then(|field| field.interpolate(&valid, guide, &none)).unwrap_err().kind()
        };
        assert_eq!(kind(0.0, &[0.5; 16]), ErrorKind::InvalidInput);
        assert_eq!(kind(0.1, &[0.5; 15]), ErrorKind::ShapeMismatch);
        assert_eq!(kind(0.1, &[f64::NAN; 16]), ErrorKind::NonFinite);
    }

    #[test]
    fn kept_arenas_change_no_bit_for_scenes_of_two_sizes_by_turns() {
        let scene = |rows: usize, cols: usize| {
            let valid = ValidMask::all(Grid::new(rows, cols).unwrap());
            let guide: Vec<f64> = (0..rows * cols).map(|node| 0.1 * (node % 7) as f64).collect();
            let observed = observations(&valid, &[1, 30, 77, 100], |node| 0.01 * node as f64);
            (valid, guide, observed)
        };
        let kept = field();
        for (rows, cols) in [(16, 20), (16, 20), (12, 14), (16, 20)] {
            let (valid, guide, observed) = scene(rows, cols);
            let fresh = field().interpolate(&valid, &guide, &observed).unwrap();
            assert_eq!(kept.interpolate(&valid, &guide, &observed).unwrap(), fresh, "{rows} x {cols}");
        }
    }

    #[test]
    #[ignore = "measurement: milliseconds of a field at 192 x 256 on one thread, fresh and kept"]
    fn bench_field_with_fresh_and_kept_arenas() {
        let valid = ValidMask::all(Grid::new(192, 256).unwrap());
        let guide: Vec<f64> = (0..192 * 256).map(|node| 0.02 * (node % 37) as f64).collect();
        let nodes: Vec<usize> = (0..491).map(|at| 100 * at + at % 13).collect();
        let observed = observations(&valid, &nodes, |node| (0.001 * node as f64).sin());
        let kept = field();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let time = |make: &(dyn Fn() -> Vec<f64> + Sync)| {
            let begin = std::time::Instant::now();
            pool.install(|| (0..20).for_each(|_| drop(make())));
            begin.elapsed().as_secs_f64() * 50.0
        };
        for _ in 0..3 {
            let fresh = time(&|| field().interpolate(&valid, &guide, &observed).unwrap());
            let again = time(&|| kept.interpolate(&valid, &guide, &observed).unwrap());
            eprintln!("fresh {fresh:.1} ms, kept {again:.1} ms");
        }
    }
}
