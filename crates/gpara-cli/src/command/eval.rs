//! `gpara eval`: methods over a data set, paired and resumable, into a table.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use gpara::{
    AcquisitionSession, Context, FieldSource, Observations, SeedTree, SessionSettings, run_to_end, sample_prior,
};
use gpara_eval::{Experiment, Harness, MethodResult, ResultTable, Scene};
use gpara_tasks::Split;
use gpara_tasks::depth::DepthDataset;
use gpara_tasks::field::write_whole;
use gpara_tasks::radio::RadioDataset;
use rayon::prelude::*;

use super::eval_config::{EvalConfig, EvalPart, EvalTask, ExperimentConfig};
use crate::closed_loop::{LoopInput, Score, reconstruct_scored};
use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::model_source::{CachedSource, EmbeddedSource, ModelSource};
use crate::preset::{Graph, MethodParts, Preset, Prior, Reconstruct};

/// Compare methods over a data set and write a table
///
/// Every scene's results are appended to OUT/results.jsonl as they finish; the same command continues where it stopped.
///
/// Example: gpara eval configs/eval_radio.toml --data radio --out runs/eval --table docs/results.md
#[derive(Debug, Args)]
pub(crate) struct EvalArguments {
    /// What to evaluate
    config: PathBuf,
    /// Folder of the data set
    #[arg(long)]
    data: PathBuf,
    /// Folder of the results
    #[arg(long, default_value = "runs/eval")]
    out: PathBuf,
    /// Markdown file for the table [default: OUT/table.md]
    #[arg(long)]
    table: Option<PathBuf>,
    /// Only the first maps of the part
    #[arg(long)]
    limit: Option<usize>,
    /// Folder of NAME.safetensors to run by libtorch, on a GPU where there is one, instead of the embedded networks
    #[cfg(feature = "train")]
    #[arg(long)]
    weights: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &EvalArguments, console: Console) -> Outcome {
    let config = EvalConfig::read(&arguments.config)?;
    let scenes = scenes(arguments, config.task, config.part)?;
    console.log(&format!("{} maps", scenes.len()));
    let models = models(arguments);
    let mut harness = Harness::open(&arguments.out.join("results.jsonl"), config.seed)?;
    for experiment in &config.experiments {
        let started = Instant::now();
        let runner = Runner { task: config.task, config: experiment, preset: experiment.preset()?, models: &*models };
        runner.load_networks()?;
        let progress = console.progress(scenes.len() as u64, "maps");
        progress.set_message(experiment.name.clone());
        harness.run(&runner, &scenes, &|_| progress.inc(1))?;
        progress.finish_and_clear();
        console.log(&format!("{}: {:.1} s", experiment.name, started.elapsed().as_secs_f64()));
    }
    let results = harness.results(&scenes);
    let table = ResultTable { results: &results, rows: &config.rows }.markdown();
    let text = format!("# {}\n\n{}\n\n{table}", config.title, config.about.trim());
    let path = arguments.table.clone().unwrap_or_else(|| arguments.out.join("table.md"));
    write_whole(&path, text.as_bytes())?;
    match console.json {
        true => console.data(&serde_json::to_string_pretty(&results).expect("results are plain numbers")),
        false => console.data(&table),
    }
    Ok(())
}

#[cfg(feature = "train")]
fn models(arguments: &EvalArguments) -> Box<dyn ModelSource> {
    match arguments.weights.clone() {
        Some(folder) => Box::new(CachedSource::new(crate::model_source::TorchSource { folder })),
        None => Box::new(CachedSource::new(EmbeddedSource)),
    }
}

#[cfg(not(feature = "train"))]
fn models(_arguments: &EvalArguments) -> Box<dyn ModelSource> {
    Box::new(CachedSource::new(EmbeddedSource))
}

/// Context and normalised field of a map.
type LoadedMap = (Context, Vec<f32>);

fn scenes(arguments: &EvalArguments, task: EvalTask, part: EvalPart) -> Outcome<Vec<Scene>> {
    let split = match part {
        EvalPart::Validation => Split::Validation,
        EvalPart::Test => Split::Test,
    };
    let load = |ids: &[String], scene: &(dyn Fn(&str) -> Outcome<LoadedMap> + Sync)| {
        let count = arguments.limit.unwrap_or(ids.len()).min(ids.len());
        let scene = |id: &String| {
            let (context, field) = scene(id)?;
            Ok(Scene { id: id.clone(), context, truth: field.iter().map(|&value| f64::from(value)).collect() })
        };
        ids[..count].par_iter().map(scene).collect::<Outcome<Vec<_>>>()
    };
    match task {
        EvalTask::Radio => {
            let dataset = RadioDataset::open(&arguments.data)?;
            load(dataset.split(split), &|id| {
                let map = dataset.load(id)?;
                Ok((map.scene.context(), map.field))
            })
        }
        EvalTask::Depth => {
            let dataset = DepthDataset::open(&arguments.data)?;
            load(dataset.split(split), &|id| {
                let map = dataset.load(id)?;
                Ok((map.scene.context(&map.valid)?, map.field))
            })
        }
    }
}

/// One experiment with its networks.
struct Runner<'a> {
    task: EvalTask,
    config: &'a ExperimentConfig,
    preset: Preset,
    models: &'a dyn ModelSource,
}

impl Experiment for Runner<'_> {
    type Error = Failure;

    fn name(&self) -> &str {
        &self.config.name
    }

    fn run(&self, scene: &Scene, seeds: SeedTree) -> Outcome<Vec<MethodResult>> {
        let parts = MethodParts::new(&self.preset, self.models, self.task.task(), &scene.context, seeds)?;
        let mut results = Vec::new();
        for prior in &self.config.priors {
            let started = Instant::now();
            let mean = self.prior_mean(&scene.context, prior.num_steps, prior.num_samples, seeds)?;
            let calls = (prior.num_steps * prior.num_samples) as u64;
            let (none, seconds) = (Observations::none(scene.context.grid()), started.elapsed().as_secs_f64());
            let score = Score::of(&mean, &scene.truth, scene.context.valid(), &none, seconds, calls)?;
            results.push(self.result(&prior.name(), &score));
        }
        for run in &self.config.loops {
            let noise_std = self.preset.acquisition.noise_std;
            let settings =
                SessionSettings { budget: run.budget, max_batch: self.preset.acquisition.max_batch, noise_std };
            let mut model = parts.acquisition_model(run.policy()?)?;
            let mut session = AcquisitionSession::new(scene.context.clone(), settings, seeds)?;
            let mut source = FieldSource::new(scene.truth.clone(), noise_std, seeds)?;
            let started = Instant::now();
            run_to_end(&mut session, &mut model, &mut source, &mut |_| Ok(()))?;
            let seconds = started.elapsed().as_secs_f64();
            let input = LoopInput {
                parts: &parts,
                context: &scene.context,
                truth: &scene.truth,
                zero: self.task.zero(),
                settings,
                seeds,
            };
            let scored = reconstruct_scored(&input, session.observations())?;
            let mut score = scored.score;
            score.seconds += seconds;
            score.network_calls += session.rounds().iter().map(|round| round.network_calls).sum::<u64>();
            let mut result = self.result(&run.name(), &score);
            if let Some(std) = &scored.std {
                let ratio = standardized_error(scene, &scored.mean, std, session.observations());
                result.values.insert("standardized_error".to_owned(), ratio);
            }
            results.push(result);
        }
        Ok(results)
    }
}

/// Root mean square of error / std over the unobserved valid cells: 1 if the std has the right scale on average.
fn standardized_error(scene: &Scene, mean: &[f64], std: &[f64], observations: &Observations) -> f64 {
    let cells = scene.context.valid().nodes().filter(|&node| !observations.contains(node));
    let squares: Vec<f64> = cells.map(|node| ((mean[node] - scene.truth[node]) / std[node]).powi(2)).collect();
    (squares.iter().sum::<f64>() / squares.len().max(1) as f64).sqrt()
}

impl Runner<'_> {
    /// Loads the preset's networks before any scene runs. Inside the parallel loop a load would wait for worker threads
    /// while it holds the cache, and a worker may first take another scene, which waits for the cache.
    fn load_networks(&self) -> Outcome {
        if let Prior::Network { model, .. } = &self.preset.prior {
            self.models.prior(model, self.task.task().name)?;
        }
        if let Reconstruct::MeanNetwork { model, .. } = &self.preset.reconstruct {
            self.models.mean(model, self.task.task().name)?;
        }
        if let Graph::Network { model } = &self.preset.graph {
            self.models.graph(model, self.task.task().name)?;
        }
        if let Some(scorer) = &self.preset.acquisition.scorer {
            self.models.scorer(scorer, self.task.task().name)?;
        }
        Ok(())
    }

    /// The mean of samples without measurements.
    fn prior_mean(
        &self,
        context: &Context,
        num_steps: usize,
        num_samples: usize,
        seeds: SeedTree,
    ) -> Outcome<Vec<f64>> {
        let Prior::Network { model, .. } = &self.preset.prior else {
            return Err(Failure::input(
                format!("experiment `{}` asks for samples and its preset has no network", self.config.name),
                "leave `prior` out",
            ));
        };
        let (denoiser, schedule) = self.models.prior(model, self.task.task().name)?;
        let sampler = self.task.task().sampler(&schedule, num_steps)?;
        let none = Observations::none(context.grid());
        Ok(sample_prior(&*denoiser, context, &none, &sampler, num_samples, seeds)?.mean())
    }

    /// The numbers of one method, errors in gray/255 or metres.
    fn result(&self, method: &str, score: &Score) -> MethodResult {
        let valid = score.valid.scaled(self.task.error_factor());
        let mut values = BTreeMap::from([
            ("rmse".to_owned(), valid.rmse),
            ("mae".to_owned(), valid.mae),
            ("num_cells".to_owned(), valid.num_cells as f64),
            ("seconds".to_owned(), score.seconds),
            ("network_calls".to_owned(), score.network_calls as f64),
            ("num_points".to_owned(), score.num_points as f64),
        ]);
        if let Some(relative) = score.relative {
            values.insert("abs_rel".to_owned(), relative.abs_rel);
            values.insert("delta1".to_owned(), relative.delta1);
        }
        if let Some(unobserved) = score.unobserved {
            let unobserved = unobserved.scaled(self.task.error_factor());
            values.insert("rmse_unobserved".to_owned(), unobserved.rmse);
            values.insert("mae_unobserved".to_owned(), unobserved.mae);
        }
        MethodResult { method: format!("{}/{method}", self.config.name), values }
    }
}
