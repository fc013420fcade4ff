//! Random scenes on small grids: masks, disconnected and isolated cells, lines, per-node noise.

use gpara::{
    Conductances, Grid, Observation, Observations, Posterior, ResidualPrecision, RiskWeights, SeedTree, Stream,
    ValidMask,
};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) valid: ValidMask,
    pub(crate) conductances: Conductances,
    pub(crate) tau: f64,
    pub(crate) lambda: f64,
    pub(crate) observations: Observations,
    pub(crate) stream: Stream,
}

impl Case {
    pub(crate) fn grid(&self) -> Grid {
        self.valid.grid()
    }

    pub(crate) fn prior(&self) -> ResidualPrecision {
        ResidualPrecision::new(self.conductances.clone(), self.tau, self.lambda).unwrap()
    }

    pub(crate) fn posterior(&self) -> Posterior {
        Posterior::new(&self.prior(), &self.observations).unwrap()
    }

    /// Valid cells that are not measured.
    pub(crate) fn candidates(&self) -> Vec<usize> {
        self.valid.nodes().filter(|&node| !self.observations.contains(node)).collect()
    }

    /// Random weights in [0.25, 1] at the candidates.
    pub(crate) fn weights(&mut self) -> RiskWeights {
        let mut weights = vec![0.0; self.grid().num_nodes()];
        for node in self.candidates() {
            weights[node] = 0.25 + 0.75 * self.stream.uniform();
        }
        RiskWeights::from_values(weights).unwrap()
    }

    /// A random field of order 1.
    pub(crate) fn field(&mut self) -> Vec<f64> {
        (0..self.grid().num_nodes()).map(|_| self.stream.normal()).collect()
    }

    /// The case with one more measurement.
    pub(crate) fn with_measurement(&self, observation: Observation) -> Observations {
        let mut observations = self.observations.clone();
        observations.add(&self.valid, &[observation]).unwrap();
        observations
    }
}

/// Builds a random case; `cut` removes every edge for which it is true of (direction, node).
fn case(
    name: &'static str,
    (rows, cols): (usize, usize),
    (tau, lambda): (f64, f64),
    num_observed: usize,
    is_valid: impl Fn(usize) -> bool,
    cut: impl Fn(usize, usize) -> bool,
) -> Case {
    let grid = Grid::new(rows, cols).unwrap();
    let mut stream = SeedTree::new(11).stream(name);
    let valid = ValidMask::new(grid, (0..grid.num_nodes()).map(is_valid).collect()).unwrap();
    let logits: Vec<f64> = (0..4 * grid.num_nodes()).map(|_| 1.5 * stream.normal()).collect();
    let mut edges = Conductances::from_logits(&logits, &valid).unwrap().edges().clone();
    for (direction, map) in edges.iter_mut().enumerate() {
        map.iter_mut().enumerate().filter(|(node, _)| cut(direction, *node)).for_each(|(_, edge)| *edge = 0.0);
    }
    let conductances = Conductances::from_edges(edges, &valid).unwrap();
    let mut observations = Observations::none(grid);
    let nodes: Vec<usize> = valid.nodes().collect();
    for _ in 0..num_observed {
        let node = nodes[stream.index(nodes.len())];
        // From nearly exact to as soft as the prior.
        let noise_std = 10f64.powf(-4.0 * stream.uniform());
        let observation = Observation { node, value: stream.normal(), noise_std };
        observations.add(&valid, &[observation]).unwrap();
    }
    Case { name, valid, conductances, tau, lambda, observations, stream }
}

pub(crate) fn all() -> Vec<Case> {
    let (everywhere, none) = (|_| true, |_, _| false);
    vec![
        case("full 6x5", (6, 5), (0.0625, 0.8), 4, everywhere, none),
        case("prior only 5x5", (5, 5), (0.0625, 0.8), 0, everywhere, none),
        case("masked 7x8", (7, 8), (0.0625, 0.8), 5, |node| node * 7 % 10 > 2, none),
        // No edge into or out of column 3: right, down-right from column 2 or 3, down-left from column 3 or 4.
        case("two halves 6x7", (6, 7), (0.0625, 1.0), 5, everywhere, |direction, node| match direction {
            0 | 2 => node % 7 == 2 || node % 7 == 3,
            3 => node % 7 == 3 || node % 7 == 4,
            _ => false,
        }),
        case("isolated 4x4", (4, 4), (0.5, 1.0), 3, everywhere, |_, _| true),
        case("no coupling 4x5", (4, 5), (0.25, 0.0), 3, everywhere, none),
        case("row 1x24", (1, 24), (0.0625, 0.8), 3, everywhere, none),
        case("column 24x1", (24, 1), (0.0625, 0.8), 3, everywhere, none),
        case("one cell 1x1", (1, 1), (0.0625, 0.8), 0, everywhere, none),
        case("all measured 3x3", (3, 3), (0.0625, 0.8), 40, everywhere, none),
        case("larger 11x12", (11, 12), (0.01, 2.0), 8, |node| node % 13 != 4, none),
        // Deep enough for fronts with several inner levels and blocks of more than 16 pivots.
        case("deep 19x23", (19, 23), (0.0625, 0.8), 12, |node| node % 17 != 5, none),
    ]
}

/// The first case with that name.
pub(crate) fn named(name: &str) -> Case {
    all().into_iter().find(|case| case.name == name).unwrap()
}
