//! The graph conditioner as libtorch operations, so that gradients pass through it: C.2, B.25, B.26, Eq. 13.

use gpara::EDGE_OFFSETS;
use tch::Tensor;

use crate::config_stages::ConditionerConfig;

/// Conductances from logits (C.2), `[B, 4, H, W]`; `valid` is `[B, 1, H, W]`.
pub(crate) fn conductances(logits: &Tensor, valid: &Tensor) -> Tensor {
    let maps: Vec<Tensor> = EDGE_OFFSETS
        .iter()
        .enumerate()
        .map(|(direction, &offset)| {
            let (rows, cols) = (offset.0 as f64, offset.1 as f64);
            logits.narrow(1, direction as i64, 1).sigmoid() * edge_mask(valid, direction) * (2.0 / rows.hypot(cols))
        })
        .collect();
    Tensor::cat(&maps, 1)
}

/// 1 where the edge of a direction joins two valid cells, `[B, 1, H, W]`.
pub(crate) fn edge_mask(valid: &Tensor, direction: usize) -> Tensor {
    valid * ahead(valid, EDGE_OFFSETS[direction])
}

/// The value at `node + offset`, 0 outside of the grid.
pub(crate) fn ahead(x: &Tensor, (down, right): (isize, isize)) -> Tensor {
    let size = x.size();
    let padded = x.constant_pad_nd([1, 1, 1, 1]);
    padded.narrow(2, 1 + down as i64, size[2]).narrow(3, 1 + right as i64, size[3])
}

/// `sum_j c_ij x_j` over the eight neighbours; `x` is `[B, K, H, W]`.
pub(crate) fn coupled(conductances: &Tensor, x: &Tensor) -> Tensor {
    let mut sum = x.zeros_like();
    for (direction, &(down, right)) in EDGE_OFFSETS.iter().enumerate() {
        let edges = conductances.narrow(1, direction as i64, 1);
        // The edge is stored at its first end: forwards from there, backwards into the other end.
        sum = sum + &edges * ahead(x, (down, right)) + ahead(&(&edges * x), (-down, -right));
    }
    sum
}

/// `d_i = sum_j c_ij` (B.25), `[B, 1, H, W]`.
pub(crate) fn degree(conductances: &Tensor) -> Tensor {
    let mut sum = Tensor::zeros_like(&conductances.narrow(1, 0, 1));
    for (direction, &(down, right)) in EDGE_OFFSETS.iter().enumerate() {
        let edges = conductances.narrow(1, direction as i64, 1);
        sum = sum + &edges + ahead(&edges, (-down, -right));
    }
    sum
}

/// The refined estimate of Eq. 13: the correction by a fixed number of Jacobi sweeps (B.26), scaled and clipped.
///
/// # Shapes
/// * `estimate`, `observed` (1 at measured cells), `truth` (read at measured cells) - `[B, 1, H, W]`
/// * `conductances` - `[B, 4, H, W]`
pub(crate) fn refine(
    config: &ConditionerConfig,
    conductances: &Tensor,
    estimate: &Tensor,
    observed: &Tensor,
    truth: &Tensor,
) -> Tensor {
    (estimate + correction(config, conductances, estimate, observed, truth) * config.strength).clamp(-1.0, 1.0)
}

/// m_S after the configured number of sweeps of `m <- D_A^-1 (f + lambda C_g m)` from 0.
pub(crate) fn correction(
    config: &ConditionerConfig,
    conductances: &Tensor,
    estimate: &Tensor,
    observed: &Tensor,
    truth: &Tensor,
) -> Tensor {
    let noise_precision = observed / (config.noise_std * config.noise_std);
    let diagonal = degree(conductances) * config.graph_coupling + config.residual_precision + &noise_precision;
    let first = &noise_precision * (truth - estimate) / &diagonal;
    let factor = diagonal.reciprocal() * config.graph_coupling;
    let mut m = first.shallow_clone();
    // The first sweep from 0 is `first` itself.
    for _ in 1..config.sweeps {
        m = &first + &factor * coupled(conductances, &m);
    }
    m
}

#[cfg(test)]
mod tests {
    use gpara::{
        Conductances, Correction, Grid, MeanSolver, Observation, Observations, Posterior, ResidualPrecision, SeedTree,
        ValidMask, ValueRange,
    };
    use tch::{Device, Kind};

    use super::*;

    fn config() -> ConditionerConfig {
        ConditionerConfig {
            prior: "none".into(),
            ensemble_size: 4,
            num_steps: 5,
            residual_precision: 0.0625,
            graph_coupling: 0.8,
            noise_std: 1e-2,
            sweeps: 24,
            strength: 1.4,
        }
    }

    /// Logits, estimate, truth and measured nodes on a 6 x 7 grid with two invalid cells.
    struct Scene {
        valid: ValidMask,
        logits: Vec<f64>,
        estimate: Vec<f64>,
        truth: Vec<f64>,
        measured: [usize; 3],
    }

    fn scene() -> Scene {
        let grid = Grid::new(6, 7).unwrap();
        let valid = ValidMask::new(grid, (0..42).map(|node| node != 9 && node != 30).collect()).unwrap();
        let draw = |name: &str, count: usize, scale: f64| {
            let mut stream = SeedTree::new(2).stream(name);
            (0..count).map(|_| scale * stream.normal()).collect::<Vec<f64>>()
        };
        let (logits, estimate, truth) = (draw("logits", 168, 1.0), draw("estimate", 42, 0.3), draw("truth", 42, 0.3));
        Scene { valid, logits, estimate, truth, measured: [3, 17, 40] }
    }

    fn image(values: &[f64], channels: i64) -> Tensor {
        Tensor::from_slice(values).view([1, channels, 6, 7])
    }

    fn tensors(scene: &Scene) -> [Tensor; 4] {
        let flags: Vec<f64> = scene.valid.as_slice().iter().map(|&valid| f64::from(u8::from(valid))).collect();
        let mut observed = vec![0.0; 42];
        scene.measured.iter().for_each(|&node| observed[node] = 1.0);
        [image(&flags, 1), image(&scene.estimate, 1), image(&observed, 1), image(&scene.truth, 1)]
    }

    #[test]
    fn parity_refined_estimate_is_that_of_the_core() {
        let (scene, config) = (scene(), config());
        let [valid, estimate, observed, truth] = tensors(&scene);
        let graph = conductances(&image(&scene.logits, 4), &valid);
        let found: Vec<f64> =
            Vec::try_from(refine(&config, &graph, &estimate, &observed, &truth).reshape([-1])).unwrap();

        let core = Conductances::from_logits(&scene.logits, &scene.valid).unwrap();
        let flat: Vec<f64> = Vec::try_from(graph.reshape([-1])).unwrap();
        for (found, expected) in flat.iter().zip(core.edges().iter().flatten()) {
            assert!((found - expected).abs() < 1e-12);
        }
        let precision = ResidualPrecision::new(core, config.residual_precision, config.graph_coupling).unwrap();
        let mut observations = Observations::none(scene.valid.grid());
        let entries =
            scene.measured.map(|node| Observation { node, value: scene.truth[node], noise_std: config.noise_std });
        observations.add(&scene.valid, &entries).unwrap();
        let posterior = Posterior::new(&precision, &observations).unwrap();
        let solver = MeanSolver::Jacobi { iterations: config.sweeps };
        let correction = Correction { solver, strength: config.strength, range: Some(ValueRange::UNIT) };
        let (expected, _) = correction.refine(&posterior, &scene.estimate).unwrap();
        for (node, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() < 1e-10, "node {node}: {found} {expected}");
        }
    }

    #[test]
    fn gradient_through_the_sweeps_agrees_with_finite_differences() {
        let (scene, config) = (scene(), config());
        let [valid, estimate, observed, truth] = tensors(&scene);
        let loss = |logits: &Tensor| {
            let graph = conductances(logits, &valid);
            ((refine(&config, &graph, &estimate, &observed, &truth) - &truth).square() * &valid).sum(Kind::Double)
        };
        let logits = image(&scene.logits, 4).set_requires_grad(true);
        loss(&logits).backward();
        let gradient: Vec<f64> = Vec::try_from(logits.grad().reshape([-1])).unwrap();
        assert!(gradient.iter().filter(|value| value.abs() > 1e-4).count() > 40);
        // Every edge at a measured node or next to one, and edges without a way to change anything.
        for at in (0..168).step_by(5) {
            let shifted = |step: f64| {
                let mut logits = scene.logits.clone();
                logits[at] += step;
                loss(&image(&logits, 4)).double_value(&[])
            };
            let step = 1e-5;
            let expected = (shifted(step) - shifted(-step)) / (2.0 * step);
            assert!(
                (gradient[at] - expected).abs() < 1e-7 + 1e-6 * expected.abs(),
                "{at}: {} {expected}",
                gradient[at]
            );
        }
        assert_eq!(logits.device(), Device::Cpu);
    }
}
