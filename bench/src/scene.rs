//! Synthetic scenes of the two tasks of the paper, at any size.

use gpara::{
    Arithmetic, Conductances, Grid, Observation, Observations, Posterior, ResidualPrecision, RiskWeights, SeedTree,
    Stream, ValidMask,
};

/// Constants of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    /// tau.
    pub(crate) residual_precision: f64,
    /// lambda.
    pub(crate) graph_coupling: f64,
    /// Standard deviation of a measurement.
    pub(crate) noise_std: f64,
    /// Probes of the paper.
    pub(crate) num_probes: usize,
}

/// Radio maps.
pub(crate) const RADIO: Task =
    Task { residual_precision: 0.0625, graph_coupling: 0.8, noise_std: 1e-4, num_probes: 16 };
/// Depth completion.
pub(crate) const DEPTH: Task = Task { residual_precision: 0.0625, graph_coupling: 1.0, noise_std: 2e-3, num_probes: 4 };

/// A graph and what has been measured on it.
pub(crate) struct Scene {
    pub(crate) task: Task,
    pub(crate) grid: Grid,
    pub(crate) valid: ValidMask,
    pub(crate) prior: ResidualPrecision,
    pub(crate) observations: Observations,
    pub(crate) weights: RiskWeights,
}

impl Scene {
    /// Smooth random conductances with weak edges around random rectangles, and `num_observed` random measurements.
    pub(crate) fn new(rows: usize, cols: usize, task: Task, num_observed: usize) -> Self {
        let grid = Grid::new(rows, cols).expect("the benchmark's sizes are allowed");
        let valid = ValidMask::all(grid);
        let mut stream = SeedTree::new(1).stream(&format!("bench/{grid}"));
        let logits = logits(grid, &mut stream);
        let conductances = Conductances::from_logits(&logits, &valid).expect("the logits are finite");
        let prior = ResidualPrecision::new(conductances, task.residual_precision, task.graph_coupling)
            .expect("the paper's constants are allowed");
        let mut observations = Observations::none(grid);
        while observations.len() < num_observed {
            let node = stream.index(grid.num_nodes());
            let row = Observation { node, value: stream.normal(), noise_std: task.noise_std };
            if !observations.contains(node) {
                observations.add(&valid, &[row]).expect("a free cell of the grid");
            }
        }
        let weight = |node: usize| if observations.contains(node) { 0.0 } else { 0.25 + 0.75 * stream.uniform() };
        let weights = (0..grid.num_nodes()).map(weight).collect();
        let weights = RiskWeights::from_values(weights).expect("weights are positive");
        Self { task, grid, valid, prior, observations, weights }
    }

    /// A posterior that holds no factorisation yet.
    pub(crate) fn posterior(&self) -> Posterior {
        Posterior::new(&self.prior, &self.observations).expect("prior and measurements share the grid")
    }

    /// The type that the library chooses for its exact utilities.
    pub(crate) fn dtype(&self) -> &'static str {
        match self.posterior().arithmetic() {
            Arithmetic::Single => "f32",
            Arithmetic::Double => "f64",
        }
    }

    /// The sizes and tasks of the tables: radio, depth, and two larger squares.
    pub(crate) fn sizes() -> [(usize, usize, Task); 4] {
        [(128, 128, RADIO), (192, 256, DEPTH), (512, 512, RADIO), (1024, 1024, RADIO)]
    }
}

/// Logits of the four edge maps: a smooth field, and -4 across the sides of about one rectangle in 900 cells.
fn logits(grid: Grid, stream: &mut Stream) -> Vec<f64> {
    let smooth = smooth_field(grid, stream);
    let mut label = vec![0; grid.num_nodes()];
    for rectangle in 1..=grid.num_nodes().div_ceil(900) {
        let (row, col) = (stream.index(grid.rows()), stream.index(grid.cols()));
        let (height, width) = (3 + stream.index(14), 3 + stream.index(14));
        for row in row..(row + height).min(grid.rows()) {
            (col..(col + width).min(grid.cols())).for_each(|col| label[grid.node(row, col)] = rectangle);
        }
    }
    let logit = |offset: (isize, isize), node: usize| match grid.neighbor(node, offset) {
        Some(other) if label[other] != label[node] => -4.0,
        _ => 0.5 + 1.2 * smooth[node],
    };
    gpara::EDGE_OFFSETS
        .iter()
        .flat_map(|&offset| (0..grid.num_nodes()).map(move |node| (offset, node)))
        .map(|(offset, node)| logit(offset, node))
        .collect()
}

/// Noise averaged over 9 cells three times along each direction, scaled to unit variance.
fn smooth_field(grid: Grid, stream: &mut Stream) -> Vec<f64> {
    let mut field = vec![0.0; grid.num_nodes()];
    stream.fill_normal(&mut field);
    for _ in 0..3 {
        for direction in [(0, 1), (1, 0)] {
            let source = field.clone();
            for (node, value) in field.iter_mut().enumerate() {
                let around = (-4..=4).filter_map(|step| grid.neighbor(node, (step * direction.0, step * direction.1)));
                let (sum, count) = around.fold((0.0, 0.0), |(sum, count), other| (sum + source[other], count + 1.0));
                *value = sum / count;
            }
        }
    }
    let power = field.iter().map(|value| value * value).sum::<f64>() / field.len() as f64;
    field.iter_mut().for_each(|value| *value /= power.sqrt());
    field
}
