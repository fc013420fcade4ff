//! Kriging: a stationary Gaussian field whose covariance is fitted to the measurements, with an unknown level (ordinary) or
//! a trend in context channels (universal).

use gpara::{Context, ErrorDetail, ErrorKind, Reconstruction, ReconstructionInput, Reconstructor, Result};
use serde::Deserialize;
use thiserror::Error as ThisError;

use super::dense::{Cholesky, dot};
use super::scattered::{Measured, field, mean_only, measured};
use super::trend::Trend;
use crate::registry::ReconstructorEntry;

pub(crate) const ENTRY: ReconstructorEntry = ReconstructorEntry {
    name: "kriging",
    about: "stationary covariance fitted by restricted likelihood; `trend` lists context channels (universal kriging)",
    build: |scene, settings| {
        let settings: KrigingSettings = settings.parse("kriging")?;
        let trend = Trend::new(scene.context, &settings.trend)?;
        let colors = Colors::new(scene.context, settings.color_weight)?;
        Ok(Box::new(Kriging { settings, trend, colors }))
    },
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct KrigingSettings {
    covariance: Covariance,
    /// Context channels, or products of them (`a*b`), whose coefficients are unknown, besides the level.
    trend: Vec<String>,
    /// Cells of distance that a difference of 1 in a colour channel counts as; 0 leaves colours out.
    color_weight: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Covariance {
    /// exp(-d / range).
    #[default]
    Exponential,
    /// (1 + s) exp(-s), s = sqrt(3) d / range: once differentiable.
    Matern32,
}

impl Covariance {
    fn at(self, distance: f64, range: f64) -> f64 {
        match self {
            Self::Exponential => (-distance / range).exp(),
            Self::Matern32 => {
                let scaled = 3f64.sqrt() * distance / range;
                (1.0 + scaled) * (-scaled).exp()
            }
        }
    }
}

/// Colour of each node in cells of distance; empty where colours do not count.
struct Colors(Vec<[f64; 3]>);

impl Colors {
    fn new(context: &Context, weight: f64) -> Result<Self> {
        if weight == 0.0 {
            return Ok(Self(Vec::new()));
        }
        let channel = |name: &str| context.channel(name).ok_or_else(|| KrigingError::NoColor { channel: name.into() });
        let (red, green, blue) = (channel("red")?, channel("green")?, channel("blue")?);
        let scaled = |value: f32| weight * f64::from(value);
        let nodes = red.iter().zip(green).zip(blue);
        Ok(Self(nodes.map(|((&r, &g), &b)| [scaled(r), scaled(g), scaled(b)]).collect()))
    }

    fn squared_distance(&self, node: usize, other: usize) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        self.0[node].iter().zip(&self.0[other]).map(|(a, b)| (a - b).powi(2)).sum()
    }
}

struct Kriging {
    settings: KrigingSettings,
    trend: Trend,
    colors: Colors,
}

/// Correlation and nugget, as a share of the sill.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Model {
    range: f64,
    nugget: f64,
}

/// The fitted mean in dual form: trend coefficients and a weight for each measurement.
struct Fit {
    coefficients: Vec<f64>,
    weights: Vec<f64>,
    /// Twice the negative restricted log-likelihood, up to a constant, with the sill at its best value.
    deviance: f64,
}

/// Ranges tried first, in cells.
const RANGES: [f64; 6] = [3.0, 8.0, 20.0, 50.0, 120.0, 300.0];
/// Nuggets tried at the best range, as far as the noise explains them.
const NUGGETS: [f64; 4] = [1e-6, 3e-3, 2e-2, 1e-1];
/// Halvings of the factor between ranges that are tried after that.
const REFINEMENTS: usize = 3;

impl Kriging {
    /// The covariance of the measurements under `model`, unit sill, and the generalised least-squares fit.
    fn fit(&self, points: &[Measured], distances: &[f64], trend: &[Vec<f64>], model: Model) -> Option<Fit> {
        let size = points.len();
        let mut matrix = vec![0.0; size * size];
        for row in 0..size {
            for col in 0..row {
                let correlation = self.settings.covariance.at(distances[row * size + col], model.range);
                matrix[row * size + col] = (1.0 - model.nugget) * correlation;
            }
            matrix[row * size + row] = 1.0;
        }
        let cholesky = Cholesky::new(matrix, size)?;
        let whitened = |mut column: Vec<f64>| {
            cholesky.forward(&mut column);
            column
        };
        let columns: Vec<Vec<f64>> = trend.iter().map(|column| whitened(column.clone())).collect();
        let values = whitened(points.iter().map(|point| point.value).collect());
        let count = columns.len();
        let mut normal = vec![0.0; count * count];
        for row in 0..count {
            for col in 0..=row {
                normal[row * count + col] = dot(&columns[row], &columns[col]);
            }
            // Columns that the measured cells do not tell apart share their effect instead of failing.
            normal[row * count + row] *= 1.0 + 1e-9;
        }
        let normal = Cholesky::new(normal, count)?;
        let coefficients = normal.solve(columns.iter().map(|column| dot(column, &values)).collect());
        let mut residual = values;
        for (column, coefficient) in columns.iter().zip(&coefficients) {
            residual.iter_mut().zip(column).for_each(|(residual, value)| *residual -= coefficient * value);
        }
        let free = (size - count.min(size - 1)) as f64;
        let sill = dot(&residual, &residual).max(f64::MIN_POSITIVE) / free;
        let deviance = free * sill.ln() + cholesky.log_det() + normal.log_det();
        cholesky.backward(&mut residual);
        Some(Fit { coefficients, weights: residual, deviance })
    }

    /// The model of largest restricted likelihood: over ranges, then nuggets up to `most_nugget`, then ranges between.
    fn best(
        &self,
        points: &[Measured],
        distances: &[f64],
        trend: &[Vec<f64>],
        most_nugget: f64,
    ) -> Option<(Model, Fit)> {
        let better = |best: Option<(Model, Fit)>, model: Model| {
            let fit = self.fit(points, distances, trend, model);
            match (best, fit) {
                (Some(best), Some(fit)) if fit.deviance < best.1.deviance => Some((model, fit)),
                (None, Some(fit)) => Some((model, fit)),
                (best, _) => best,
            }
        };
        let first = most_nugget.min(1e-3);
        let mut best = RANGES.iter().fold(None, |best, &range| better(best, Model { range, nugget: first }));
        let range = best.as_ref()?.0.range;
        let nuggets = NUGGETS.iter().filter(|nugget| **nugget <= most_nugget);
        best = nuggets.fold(best, |best, &nugget| better(best, Model { range, nugget }));
        let mut factor = 1.6f64;
        for _ in 0..REFINEMENTS {
            let Model { range, nugget } = best.as_ref()?.0;
            best = [range / factor, range * factor]
                .iter()
                .fold(best, |best, &range| better(best, Model { range, nugget }));
            factor = factor.sqrt();
        }
        best
    }
}

/// The largest nugget that the stated noise explains, with a factor of two for a sill below the variance of the values. Without
/// this bound the likelihood takes jumps at walls and floors for noise: a tenth of the sill on a third of the radio maps, and
/// the field between the points is too smooth.
fn most_nugget(input: &ReconstructionInput<'_>, points: &[Measured]) -> f64 {
    let count = points.len() as f64;
    let mean = points.iter().map(|point| point.value).sum::<f64>() / count;
    let variance = points.iter().map(|point| (point.value - mean).powi(2)).sum::<f64>() / count;
    let noise = input.observations.iter().map(|entry| entry.noise_std.powi(2)).sum::<f64>() / count;
    (2.0 * noise / variance.max(f64::MIN_POSITIVE)).clamp(NUGGETS[0], NUGGETS[NUGGETS.len() - 1])
}

impl Reconstructor for Kriging {
    fn name(&self) -> &str {
        "kriging"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let points = measured("kriging", input, 2)?;
        let size = points.len();
        let nodes: Vec<usize> = points.iter().map(|point| point.node).collect();
        let trend = self.trend.told_apart_by(&nodes);
        let at_points: Vec<Vec<f64>> =
            trend.iter().map(|column| nodes.iter().map(|&node| column[node]).collect()).collect();
        let mut distances = vec![0.0; size * size];
        for (row, point) in points.iter().enumerate() {
            for (col, other) in points[..row].iter().enumerate() {
                let squared =
                    point.squared_distance(other.row, other.col) + self.colors.squared_distance(point.node, other.node);
                distances[row * size + col] = squared.sqrt();
            }
        }
        let most_nugget = most_nugget(input, &points);
        let (model, fit) =
            self.best(&points, &distances, &at_points, most_nugget).ok_or(KrigingError::NoFit { size })?;
        let grid = input.context.grid();
        let at = |row: f64, col: f64| {
            let node = grid.node(row as usize, col as usize);
            let level: f64 = trend.iter().zip(&fit.coefficients).map(|(column, b)| b * column[node]).sum();
            let correlated = points.iter().zip(&fit.weights).map(|(point, weight)| {
                let squared = point.squared_distance(row, col) + self.colors.squared_distance(node, point.node);
                weight * (1.0 - model.nugget) * self.settings.covariance.at(squared.sqrt(), model.range)
            });
            level + correlated.sum::<f64>()
        };
        Ok(mean_only(field(input, at)))
    }
}

#[derive(Debug, ThisError)]
enum KrigingError {
    #[error("kriging with `color_weight` needs the context channel `{channel}`")]
    NoColor { channel: String },
    #[error("no covariance of the {size} measurements is positive definite")]
    NoFit { size: usize },
}

impl ErrorDetail for KrigingError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoColor { .. } => ErrorKind::InvalidInput,
            Self::NoFit { .. } => ErrorKind::NotPositiveDefinite,
        }
    }
}

#[cfg(test)]
mod tests {
    use gpara::{Grid, Observation, Observations, SeedTree};

    use super::*;
    use crate::methods::standard;
    use crate::networks::{CountedNetworks, NoNetworks};
    use crate::registry::{MethodScene, Settings};
    use crate::shelf::Shelf;
    use crate::task::Task;

    /// Runs kriging with `settings` on a field `level + slope * channel + ripple`.
    fn error(settings: &str) -> f64 {
        let grid = Grid::new(16, 16).unwrap();
        let channel = |node: usize| ((node * 37) % 101) as f32 / 101.0;
        let channels = vec![gpara::Channel { name: "trend".into(), values: (0..256).map(channel).collect() }];
        let context = Context::new(gpara::ValidMask::all(grid), channels).unwrap();
        let truth: Vec<f64> = (0..256)
            .map(|node| -0.7 + 1.5 * f64::from(channel(node)) + 0.1 * (grid.row_col(node).0 as f64 * 0.4).sin())
            .collect();
        let mut observations = Observations::none(grid);
        let entries: Vec<Observation> = (0..256)
            .filter(|node| node % 5 == 0)
            .map(|node| Observation { node, value: truth[node], noise_std: 1e-4 })
            .collect();
        observations.add(context.valid(), &entries).unwrap();
        let networks = CountedNetworks::new(&NoNetworks);
        let (common, own, empty) = (Shelf::default(), Shelf::default(), Settings::default());
        let registry = standard();
        let scene = MethodScene {
            task: Task::Depth,
            context: &context,
            noise_std: 1e-4,
            budget: 52,
            max_batch: 8,
            seeds: SeedTree::new(1),
            networks: &networks,
            common: &common,
            own: &own,
            reconstructor: "kriging",
            reconstructor_settings: &empty,
            registry: &registry,
        };
        let kriging = (ENTRY.build)(&scene, &Settings(toml::from_str(settings).unwrap())).unwrap();
        let precision = scene.plain_precision().unwrap();
        let input = ReconstructionInput {
            context: &context,
            observations: &observations,
            precision: &precision,
            ensemble: None,
            seeds: SeedTree::new(1),
        };
        let mean = kriging.reconstruct(&input).unwrap().mean;
        assert!(entries.iter().all(|entry| (mean[entry.node] - entry.value).abs() < 1e-4));
        (mean.iter().zip(&truth).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 256.0).sqrt()
    }

    #[test]
    fn trend_in_a_channel_is_found_and_without_it_the_error_is_that_of_the_channel() {
        assert!(error("trend = [\"trend\"]") < 0.02, "{}", error("trend = [\"trend\"]"));
        assert!(error("") > 0.2, "{}", error(""));
    }
}
