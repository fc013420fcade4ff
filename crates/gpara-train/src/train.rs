//! One training run: draws, steps, validations, checkpoints, files at the end.

use std::path::PathBuf;
use std::time::Instant;

use gpara::{NoiseSchedule, Result, SeedTree};
use tch::{Device, Tensor, nn};

use crate::ahead::Ahead;
use crate::checkpoint::{self, Progress};
use crate::config::{Keep, OptimizerConfig, Role, TrainConfig};
use crate::curve::Curve;
use crate::data::{self, Maps};
use crate::error::TrainError;
use crate::flat::{AdamStep, FlatParameters};
use crate::graph_stage::GraphStage;
use crate::likelihood_stage::LikelihoodStage;
use crate::objective::Objective;
use crate::scorer_net::ScorerNet;
use crate::scorer_stage::ScorerStage;
use crate::spread_stage::SpreadStage;
use crate::stage::{FieldStage, Stage};
use crate::unet::UNet;
use crate::validation;
use crate::weights::{self, RunFacts};

/// Steps before the time of a step is measured: the first ones load kernels.
const SETTLE_STEPS: u64 = 30;

/// Steps over which the time of a step is measured.
const MEASURED_STEPS: u64 = 100;

/// Share of the seconds left that the measured speed may fill.
const BUDGET_MARGIN: f64 = 0.98;

/// What a run is told besides its configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOptions {
    /// Folder of the data set.
    pub data: Option<PathBuf>,
    /// Folder of everything written: `NAME.checkpoint`, `NAME.safetensors`, `NAME.csv`, `NAME.svg`.
    pub out: PathBuf,
    /// Continue from `NAME.checkpoint` if it is there.
    pub resume: bool,
    /// Stop after this many seconds (loading included), to be resumed.
    pub max_seconds: Option<f64>,
    /// Stop once this many steps are done in all, to be resumed.
    pub max_steps: Option<u64>,
    /// Device to train on.
    pub device: Device,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// Steps done.
    pub step: u64,
    /// Whether the whole budget is spent; otherwise it can be resumed.
    pub finished: bool,
    /// Last validation: name and error.
    pub validation: Vec<(String, f64)>,
    /// Step of the weights that were written.
    pub kept_step: u64,
    /// Mean loss of the last logged steps.
    pub loss: f64,
}

/// Trains a network, or goes on with it.
///
/// Noise and dropout come from libtorch's generator, which is one for the process: train one network at a time.
///
/// # Errors
/// Those of reading the data and the checkpoint; `NonFinite` naming the step if the loss is not a number; `Io` if a file
/// cannot be written.
pub fn train(config: &TrainConfig, options: &RunOptions) -> Result<RunSummary> {
    let begin = Instant::now();
    std::fs::create_dir_all(&options.out).map_err(|source| TrainError::Io {
        action: "create",
        path: options.out.clone(),
        source,
    })?;
    let seeds = SeedTree::new(config.seed);
    let (maps, validation_maps) =
        data::load(config.data, options.data.as_deref(), seeds, config.log.validation_maps, options.device)?;
    tch::manual_seed(torch_seed(seeds, "weights"));
    let store = nn::VarStore::new(options.device);
    let stage = stage(config, options, &store, &maps, &validation_maps)?;
    if let Some(start) = &config.start {
        weights::copy_into(&store, &options.out.join(format!("{start}.safetensors")), config)?;
    }
    let grid = [maps.grid.rows(), maps.grid.cols()];
    let mut run = Run::new(config, options, stage, store, maps.ids.len(), grid)?;
    eprintln!(
        "{}: {} maps, {} for validation, {} weights, {:?}; loaded in {:.1} s; from step {}",
        config.name,
        maps.ids.len(),
        validation_maps.ids.len(),
        run.flat.num_weights(),
        options.device,
        begin.elapsed().as_secs_f64(),
        run.progress.step,
    );
    run.advance(begin)?;
    run.finish()
}

/// What the role trains, with a fresh network whose variables are in `store`.
fn stage<'a>(
    config: &'a TrainConfig,
    options: &RunOptions,
    store: &nn::VarStore,
    maps: &'a Maps,
    validation_maps: &'a Maps,
) -> Result<Box<dyn Stage + 'a>> {
    let (schedule, device) = (NoiseSchedule::ddpm(), options.device);
    Ok(match config.role {
        Role::Prior | Role::Mean => Box::new(FieldStage {
            config,
            device,
            objective: Objective::new(config, &schedule, device),
            schedule,
            network: UNet::new(&store.root(), &config.network)?,
            maps,
            validation_maps,
            ahead: Ahead::default(),
        }),
        Role::Graph => {
            let network = UNet::new(&store.root(), &config.network)?;
            match &config.likelihood {
                None => Box::new(GraphStage::new(config, &options.out, network, maps, validation_maps, device)?),
                Some(_) => {
                    Box::new(LikelihoodStage::new(config, &options.out, network, maps, validation_maps, device)?)
                }
            }
        }
        Role::Spread => {
            let network = UNet::new(&store.root(), &config.network)?;
            Box::new(SpreadStage::new(config, &options.out, network, maps, validation_maps, device)?)
        }
        Role::Scorer => {
            let network = ScorerNet::new(&store.root(), config)?;
            Box::new(ScorerStage::new(config, &options.out, network, maps, validation_maps, device)?)
        }
    })
}

/// A run in progress.
struct Run<'a> {
    config: &'a TrainConfig,
    options: &'a RunOptions,
    stage: Box<dyn Stage + 'a>,
    flat: FlatParameters,
    progress: Progress,
    curve: Curve,
    num_maps: usize,
    /// Rows and columns.
    grid: [usize; 2],
    /// Losses not yet read from the device.
    unread: Vec<Tensor>,
    loss: f64,
    /// Time this piece began, less the seconds of earlier pieces.
    clock: Clock,
    _store: nn::VarStore,
}

/// Seconds of training over all pieces of a run.
struct Clock {
    begin: Instant,
    before: f64,
}

impl Clock {
    fn seconds(&self) -> f64 {
        self.before + self.begin.elapsed().as_secs_f64()
    }
}

impl<'a> Run<'a> {
    fn new(
        config: &'a TrainConfig,
        options: &'a RunOptions,
        stage: Box<dyn Stage + 'a>,
        store: nn::VarStore,
        num_maps: usize,
        grid: [usize; 2],
    ) -> Result<Self> {
        let names = stage.validation_names();
        if let Some(unknown) = config.log.watch.iter().find(|watched| !names.contains(&watched.as_str())) {
            let value = format!("{unknown:?}");
            return Err(TrainError::Watch { value, allowed: names }.into());
        }
        let mut flat = FlatParameters::new(&store);
        let mut progress = Progress { step: 0, total: config.budget.steps, seconds: 0.0, best: None };
        let file = options.out.join(format!("{}.checkpoint", config.name));
        if options.resume && file.exists() {
            progress = checkpoint::read(&file, &mut flat, &config.hash())?;
        }
        let curve = if progress.step > 0 {
            Curve::read(&options.out.join(format!("{}.csv", config.name)), progress.step)?
        } else {
            Curve::default()
        };
        Ok(Self {
            clock: Clock { begin: Instant::now(), before: progress.seconds },
            config,
            options,
            stage,
            flat,
            progress,
            curve,
            num_maps,
            grid,
            unread: Vec::new(),
            loss: f64::NAN,
            _store: store,
        })
    }

    /// Steps until the budget is spent or the time for this piece is over.
    fn advance(&mut self, begin: Instant) -> Result<()> {
        self.stage.begin(self.progress.step)?;
        let first = self.progress.step;
        let mut kept = Instant::now();
        let mut logged = (first, Instant::now());
        let mut measured = Instant::now();
        while self.progress.total.is_none_or(|total| self.progress.step < total) {
            let too_long = self.options.max_seconds.is_some_and(|most| begin.elapsed().as_secs_f64() > most);
            if too_long || self.options.max_steps.is_some_and(|most| self.progress.step >= most) {
                break;
            }
            self.step()?;
            let step = self.progress.step;
            if step == first + SETTLE_STEPS {
                self.read_losses()?;
                measured = Instant::now();
            }
            if step == first + SETTLE_STEPS + MEASURED_STEPS && self.progress.total.is_none() {
                self.read_losses()?;
                self.settle_total(measured.elapsed().as_secs_f64() / MEASURED_STEPS as f64)?;
            }
            if step.is_multiple_of(self.config.log.log_every) {
                self.read_losses()?;
                let seconds_per_step = logged.1.elapsed().as_secs_f64() / (step - logged.0) as f64;
                eprintln!(
                    "{}: step {step}/{} loss {:.5} rate {:.2e} {seconds_per_step:.4} s/step {:.0} s",
                    self.config.name,
                    self.progress.total.map_or_else(|| "?".into(), |total| total.to_string()),
                    self.loss,
                    rate(&self.config.optimizer, step, self.progress.total),
                    self.clock.seconds(),
                );
                logged = (step, Instant::now());
            }
            if step.is_multiple_of(self.config.log.validate_every) {
                self.validate()?;
                logged = (step, Instant::now());
            }
            if kept.elapsed().as_secs_f64() > self.config.log.checkpoint_seconds {
                self.keep()?;
                kept = Instant::now();
            }
        }
        self.stage.end();
        Ok(())
    }

    /// One step: noise and dropout from the step's own seed, so that a resumed run draws the same.
    fn step(&mut self) -> Result<()> {
        let seeds = SeedTree::new(self.config.seed);
        tch::manual_seed(torch_seed(seeds, &format!("noise/{}", self.progress.step)));
        let loss = self.stage.loss()?;
        let gradient = self.flat.gradient(&loss);
        self.progress.step += 1;
        let optimizer = &self.config.optimizer;
        self.flat.step(
            &gradient,
            AdamStep {
                number: self.progress.step,
                rate: rate(optimizer, self.progress.step, self.progress.total),
                weight_decay: optimizer.weight_decay,
                clip_norm: optimizer.clip_norm,
                ema_decay: optimizer.ema_decay,
            },
        );
        self.unread.push(loss.detach());
        Ok(())
    }

    /// Reads the losses since the last reading; this waits for the device.
    fn read_losses(&mut self) -> Result<()> {
        if self.unread.is_empty() {
            return Ok(());
        }
        let losses = Tensor::stack(&self.unread, 0).to_kind(tch::Kind::Double);
        let losses = Vec::<f64>::try_from(losses).map_err(TrainError::Torch)?;
        let first = self.progress.step - losses.len() as u64;
        if let Some(index) = losses.iter().position(|loss| !loss.is_finite()) {
            return Err(TrainError::Loss { step: first + index as u64, loss: losses[index] }.into());
        }
        self.loss = losses.iter().sum::<f64>() / losses.len() as f64;
        self.unread.clear();
        Ok(())
    }

    /// Turns a budget in seconds into a number of steps, from the measured time of a step and of one validation.
    fn settle_total(&mut self, seconds_per_step: f64) -> Result<()> {
        let Some(budget) = self.config.budget.seconds else { return Ok(()) };
        let before = Instant::now();
        self.validate()?;
        let validation = before.elapsed().as_secs_f64() / self.config.log.validate_every as f64;
        let left = (budget - self.clock.seconds()).max(0.0) * BUDGET_MARGIN;
        let total = self.progress.step + (left / (seconds_per_step + validation)) as u64;
        eprintln!("{}: {seconds_per_step:.4} s a step, {total} steps in all", self.config.name);
        self.progress.total = Some(total);
        Ok(())
    }

    fn validate(&mut self) -> Result<()> {
        self.read_losses()?;
        let stage = &self.stage;
        let errors = self.flat.with_average(|| tch::no_grad(|| stage.validate()))?;
        let text: Vec<String> = errors.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        eprintln!("{}: step {} validation {}", self.config.name, self.progress.step, text.join(", "));
        self.curve.push(self.progress.step, self.clock.seconds(), self.loss, &errors);
        let file = |ending: &str| self.options.out.join(format!("{}.{ending}", self.config.name));
        self.curve.write(&file("csv"), &file("svg"), &self.config.name)?;
        let error = validation::watched(self.config, &errors);
        let better = error.is_finite() && self.progress.best.is_none_or(|(_, best)| error < best);
        if better && self.config.log.keep == Keep::Best {
            self.progress.best = Some((self.progress.step, error));
            self.write_weights()?;
        }
        Ok(())
    }

    /// Writes the averaged weights of this step with the last validation.
    fn write_weights(&self) -> Result<()> {
        let facts = RunFacts {
            config: self.config.clone(),
            steps: self.progress.step,
            total_steps: self.progress.total,
            kept: self.config.log.keep,
            seconds: self.clock.seconds(),
            device: format!("{:?}", self.options.device),
            num_maps: self.num_maps,
            grid: self.grid,
            validation: self.curve.last(),
        };
        weights::write(&self.options.out.join(format!("{}.safetensors", self.config.name)), &self.flat, &facts)
    }

    /// Writes the checkpoint; never of a run whose loss is not a number.
    fn keep(&mut self) -> Result<()> {
        self.read_losses()?;
        self.progress.seconds = self.clock.seconds();
        let file = self.options.out.join(format!("{}.checkpoint", self.config.name));
        checkpoint::write(&file, &self.flat, &self.progress, &self.config.hash())
    }

    fn finish(mut self) -> Result<RunSummary> {
        if self.curve.last_step() != Some(self.progress.step) {
            self.validate()?;
        }
        self.keep()?;
        if self.config.log.keep == Keep::Last {
            self.write_weights()?;
        }
        Ok(RunSummary {
            step: self.progress.step,
            finished: self.progress.total == Some(self.progress.step),
            validation: self.curve.last(),
            kept_step: self.progress.best.map_or(self.progress.step, |(step, _)| step),
            loss: self.loss,
        })
    }
}

/// The learning rate of a step (from 1): linear warm-up, constant, linear to 0 over the last share of the run.
fn rate(optimizer: &OptimizerConfig, step: u64, total: Option<u64>) -> f64 {
    let warm = (step as f64 / optimizer.warmup_steps.max(1) as f64).min(1.0);
    let left = total.map_or(1.0, |total| {
        let decay = optimizer.decay_share * total as f64;
        if decay > 0.0 { (((total + 1).saturating_sub(step)) as f64 / decay).min(1.0) } else { 1.0 }
    });
    optimizer.learning_rate * warm * left
}

/// A seed of libtorch's generators for a named draw.
fn torch_seed(seeds: SeedTree, name: &str) -> i64 {
    seeds.stream(&format!("torch/{name}")).index(1 << 62) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_warms_up_holds_and_falls_to_zero() {
        let optimizer = OptimizerConfig {
            batch: 1,
            learning_rate: 1.0,
            weight_decay: 0.0,
            warmup_steps: 10,
            decay_share: 0.25,
            clip_norm: 1.0,
            ema_decay: 0.9,
        };
        let at = |step| rate(&optimizer, step, Some(1000));
        assert_eq!((at(5), at(10), at(700)), (0.5, 1.0, 1.0));
        assert!((at(875) - 0.504).abs() < 1e-9);
        assert!((at(1000) - 0.004).abs() < 1e-9);
    }
}
