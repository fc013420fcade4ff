//! RMSE on validation maps, in gray / 255 or metres over valid cells, mean over maps.

use gpara::{NoiseSchedule, Result, SeedTree};
use tch::{Kind, Tensor};

use crate::batches::with_measurements;
use crate::config::{Role, TrainConfig};
use crate::data::Maps;
use crate::guided::batch_fields;
use crate::masks::Layout;
use crate::objective::clean_estimate;
use crate::target::BatchScale;
use crate::unet::UNet;

/// Samples of the prior that are averaged.
const SAMPLES: i64 = 4;

/// Steps of the respaced reverse chain.
const CHAIN_STEPS: usize = 5;

/// Maps evaluated at once.
const BATCH: i64 = 32;

/// One error: its name, how the field is estimated, from which measurements.
type Check = (&'static str, Estimate, Measured);

/// Which cells are measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Measured {
    Nothing,
    Farthest(usize),
    Random(usize),
}

/// Names of the errors of a configuration, in the order of the curve.
pub(crate) fn names(config: &TrainConfig) -> Vec<&'static str> {
    checks(config).into_iter().map(|(name, _, _)| name).collect()
}

/// The mean of the watched errors: those that the configuration names, else the first.
pub(crate) fn watched(config: &TrainConfig, errors: &[(&'static str, f64)]) -> f64 {
    let watch = &config.log.watch;
    if watch.is_empty() {
        return errors[0].1;
    }
    let chosen = errors.iter().filter(|(name, _)| watch.iter().any(|watched| watched == name));
    chosen.map(|(_, error)| error).sum::<f64>() / watch.len() as f64
}

/// Named errors of a network, the first being the one to watch.
///
/// # Errors
/// None for the schedules used here.
pub(crate) fn validate(
    network: &UNet,
    config: &TrainConfig,
    maps: &Maps,
    schedule: &NoiseSchedule,
) -> Result<Vec<(&'static str, f64)>> {
    tch::no_grad(|| {
        let measure =
            |(name, estimate, measured)| Ok((name, error(network, config, maps, schedule, estimate, measured)?));
        checks(config).into_iter().map(measure).collect()
    })
}

fn checks(config: &TrainConfig) -> Vec<Check> {
    use Estimate::{MeanOfSamples, OneStep};
    match (config.role, config.measurements) {
        (Role::Mean, false) => vec![("empty", OneStep, Measured::Nothing)],
        (Role::Mean, true) if config.data.is_depth() => vec![
            ("farthest_491", OneStep, Measured::Farthest(491)),
            ("farthest_100", OneStep, Measured::Farthest(100)),
            ("random_491", OneStep, Measured::Random(491)),
            ("empty", OneStep, Measured::Nothing),
        ],
        (Role::Mean, true) => vec![
            ("farthest_491", OneStep, Measured::Farthest(491)),
            ("farthest_164", OneStep, Measured::Farthest(164)),
            ("random_491", OneStep, Measured::Random(491)),
            ("empty", OneStep, Measured::Nothing),
        ],
        (Role::Prior | Role::Graph | Role::Scorer | Role::Spread, measurements) => {
            let mut checks = vec![
                ("empty_five_steps_mean_of_4", MeanOfSamples, Measured::Nothing),
                ("empty_one_step", OneStep, Measured::Nothing),
            ];
            if measurements {
                checks.push(("farthest_491_five_steps_mean_of_4", MeanOfSamples, Measured::Farthest(491)));
                checks.push(("farthest_491_one_step", OneStep, Measured::Farthest(491)));
            }
            checks
        }
    }
}

/// How the field is estimated.
#[derive(Debug, Clone, Copy)]
enum Estimate {
    OneStep,
    MeanOfSamples,
}

fn error(
    network: &UNet,
    config: &TrainConfig,
    maps: &Maps,
    schedule: &NoiseSchedule,
    estimate: Estimate,
    measured: Measured,
) -> Result<f64> {
    // The same noise at every validation, so that a curve shows the network and not the draw.
    tch::manual_seed(SeedTree::new(config.seed).stream("validation").index(1 << 31) as i64);
    let num_maps = maps.ids.len() as i64;
    let mut total = 0.0;
    for first in (0..num_maps).step_by(BATCH as usize) {
        let count = BATCH.min(num_maps - first);
        let clean = maps.fields.narrow(0, first, count);
        let mut context = maps.contexts.narrow(0, first, count);
        let mask = config.measurements.then(|| {
            let mask = mask(config, maps, first as usize, count as usize, measured);
            mask.to_device(clean.device()).view_as(&clean)
        });
        let scale = BatchScale::of(config.target, mask.as_ref(), &clean);
        if let Some(mask) = &mask {
            let guided = config.guided_field.then(|| {
                let valid = maps.valid.narrow(0, first, count);
                batch_fields(config.data, &context, &valid, &clean, mask)
            });
            context = with_measurements(&context, guided.transpose()?.as_ref(), mask, &clean, &scale);
        }
        let field = match estimate {
            Estimate::OneStep => one_step(network, config, schedule, &clean, &context, &scale),
            Estimate::MeanOfSamples => mean_of_samples(network, config, schedule, &clean, &context)?,
        };
        let valid = maps.valid.narrow(0, first, count);
        let sum = |tensor: &Tensor| tensor.sum_dim_intlist([1, 2, 3].as_slice(), false, Kind::Double);
        let squares = (field - clean).square() * &valid;
        let rmse: Tensor = (sum(&squares) / sum(&valid)).sqrt();
        total += rmse.sum(Kind::Double).double_value(&[]);
    }
    Ok(config.data.error_factor() * total / num_maps as f64)
}

/// `[count, num_nodes]`, 1 = measured.
pub(crate) fn mask(config: &TrainConfig, maps: &Maps, first: usize, count: usize, measured: Measured) -> Tensor {
    let num_nodes = maps.grid.num_nodes();
    let mut values = vec![0f32; count * num_nodes];
    for (map, cells) in (first..first + count).zip(values.chunks_exact_mut(num_nodes)) {
        let layouts = &maps.layouts[map];
        let nodes = match measured {
            Measured::Nothing => Vec::new(),
            Measured::Farthest(count) => layouts.farthest(count).to_vec(),
            Measured::Random(count) => {
                let name = format!("validation/{}", maps.ids[map]);
                layouts.draw(Layout::Random, count, &mut SeedTree::new(config.seed).stream(&name))
            }
        };
        nodes.into_iter().for_each(|node| cells[node as usize] = 1.0);
    }
    Tensor::from_slice(&values)
}

fn one_step(
    network: &UNet,
    config: &TrainConfig,
    schedule: &NoiseSchedule,
    like: &Tensor,
    context: &Tensor,
    scale: &BatchScale,
) -> Tensor {
    let last = schedule.num_steps() - 1;
    let noisy = match config.role {
        Role::Mean => like.zeros_like(),
        _ => like.randn_like(),
    };
    let output = network.forward(&noisy, &timestep(last, like), context, false);
    let output = scale.inverse(&output);
    clean_estimate(config.parameterization, &noisy, &output, schedule.alpha_bar(last))
}

/// Respaced ancestral sampling, without noise in the last step.
fn mean_of_samples(
    network: &UNet,
    config: &TrainConfig,
    schedule: &NoiseSchedule,
    like: &Tensor,
    context: &Tensor,
) -> Result<Tensor> {
    let steps = schedule.respace(&schedule.spaced_timesteps(CHAIN_STEPS)?)?;
    let mut sum = like.zeros_like();
    for _ in 0..SAMPLES {
        let mut noisy = like.randn_like();
        for step in &steps {
            let output = network.forward(&noisy, &timestep(step.timestep, like), context, false);
            let clean = clean_estimate(config.parameterization, &noisy, &output, step.alpha_bar);
            let coefficients = step.coefficients;
            noisy = clean * coefficients.clean
                + &noisy * coefficients.noisy
                + like.randn_like() * coefficients.noise_variance.sqrt();
        }
        sum += noisy;
    }
    Ok(sum / SAMPLES)
}

pub(crate) fn timestep(timestep: usize, like: &Tensor) -> Tensor {
    Tensor::full([like.size()[0]], timestep as f64, (Kind::Float, like.device()))
}
