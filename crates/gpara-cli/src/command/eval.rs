//! `gpara eval`: methods over a data set, paired and resumable, into tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use gpara::ErrorKind;
use gpara_eval::{Case, FailedCase, Harness, Method, Plan, compressed_lines, read_cases};
use gpara_tasks::field::write_whole;

use crate::console::{Console, aligned};
use crate::evaluation::{
    EvalConfig, Override, Page, Pictures, SourcedNetworks, failures, load_scenes, registry, summary_json,
};
use crate::failure::{Failure, Outcome};
use crate::model_source::models;
use crate::output_folder::OutputFolder;
use crate::results::png_bytes;

/// Compare methods over a data set and write tables
///
/// Every case (method and scene) is appended to OUT/results.jsonl as it finishes; the same command continues where it stopped.
///
/// Example: gpara eval configs/eval_radio.toml --data radio --out runs/eval
#[derive(Debug, Args)]
pub(crate) struct EvalArguments {
    /// What to evaluate; several only with --from
    #[arg(required_unless_present = "methods")]
    configs: Vec<PathBuf>,
    /// Folder of the data set, instead of `data.root` of the configuration
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder of the results
    #[arg(long, default_value = "runs/eval")]
    out: PathBuf,
    /// Markdown file for the tables [default: OUT/table.md]
    #[arg(long)]
    table: Option<PathBuf>,
    /// Only the first scenes
    #[arg(long)]
    limit: Option<usize>,
    /// Only these methods, by the first part of their names or by the whole, e.g. best/active-491
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Scenes that run at once; peak memory is measured with 1 only [default: all cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Begin no case after so many seconds, and write the tables of what is done; the same command goes on
    #[arg(long, value_name = "SECONDS")]
    stop_after: Option<u64>,
    /// Another value for a key of the configuration, e.g. data.part=validation or method.kriging.budget=50
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Folder of NAME.safetensors (with libtorch) or NAME.onnx and its card, instead of the networks in the binary
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Run nothing: write the tables of recorded results, FROM/CONFIG.jsonl.gz for each configuration
    #[arg(long, conflicts_with_all = ["data", "limit", "only", "jobs", "weights", "stop_after"])]
    from: Option<PathBuf>,
    /// Also add the numbers that the tables show to RECORD/CONFIG.jsonl.gz, small enough to keep
    #[arg(long, conflicts_with = "from")]
    record: Option<PathBuf>,
    /// List the methods a configuration can name
    #[arg(long)]
    methods: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &EvalArguments, console: Console) -> Outcome {
    if arguments.methods {
        return list_methods(console);
    }
    if let Some(folder) = &arguments.from {
        return write_recorded(arguments, folder, console);
    }
    let [path] = arguments.configs.as_slice() else {
        return Err(Failure::input("several configurations are given", "run one at a time, or give --from"));
    };
    let config = EvalConfig::read(path, &overrides(arguments)?)?;
    let methods = selected(config.methods()?, &arguments.only)?;
    let registry = registry();
    for method in &methods {
        registry.reconstructor(&method.reconstructor)?;
        method.policy.as_ref().map(|policy| registry.policy(&policy.name)).transpose()?;
    }
    let models = models(arguments.weights.as_deref());
    let networks = SourcedNetworks::new(&*models, config.data.task);
    let mut output = OutputFolder::open(&arguments.out)?;
    let mut harness = Harness::open(&arguments.out.join("results.jsonl"), config.seed)?;
    let pictures = Pictures::new(config.pictures.as_ref());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let deadline = arguments.stop_after.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut all_scenes, mut failed) = (Vec::new(), Vec::new());
    for (suffix, data) in config.scene_sets() {
        let scenes = load_scenes(&data)?;
        let methods: Vec<Method> = methods.iter().map(|method| method.renamed(&suffix)).collect();
        console.log(&format!("{} methods on {} scenes {suffix}", methods.len(), scenes.len()));
        let plan = Plan {
            registry: &registry,
            networks: &networks,
            task: config.data.task,
            methods: &methods,
            data: &data.fingerprint(),
            scenes: &scenes,
            jobs: arguments.jobs.unwrap_or(cores),
            deadline,
        };
        let started = Instant::now();
        let progress = console.progress((methods.len() * scenes.len()) as u64, "cases");
        failed.extend(harness.run(&plan, &|case, run| {
            progress.set_message(case.method.clone());
            progress.inc(1);
            pictures.keep(&case.method, &case.scene, run);
        })?);
        progress.finish_and_clear();
        console.log(&format!("{:.1} s", started.elapsed().as_secs_f64()));
        for (id, image) in pictures.draw(config.data.task, &scenes) {
            output.write(&format!("scene-{id}{suffix}.png"), &png_bytes(&image))?;
        }
        all_scenes.extend(scenes);
    }
    let cases = harness.cases(&all_scenes);
    failures(&failed).iter().for_each(|line| console.log(&format!("failed: {line}")));

    let page = Page { config: &config, cases: &cases, failed: &failed };
    let text = page.markdown(".");
    for (name, svg) in page.figures() {
        output.write(&name, svg.as_bytes())?;
    }
    output.write("results.csv", page.csv().as_bytes())?;
    let summary = serde_json::to_string_pretty(&summary_json(&methods, &cases)).expect("plain numbers") + "\n";
    output.write("summary.json", summary.as_bytes())?;
    output.write("table.md", text.as_bytes())?;
    if let Some(path) = &arguments.table {
        write_whole(path, text.as_bytes())?;
    }
    if let Some(folder) = &arguments.record {
        record(folder, &recorded_name(path), &cases, &config.shown_numbers())?;
    }
    console.data(if console.json { &summary } else { &text });
    refuse_failures(&failed)
}

/// The methods whose names, or the first part of them, are in `only`; all if that is empty.
fn selected(methods: Vec<Method>, only: &[String]) -> Outcome<Vec<Method>> {
    let belongs = |method: &Method, name: &str| method.name == name || method.name.split('/').next() == Some(name);
    if let Some(name) = only.iter().find(|name| !methods.iter().any(|method| belongs(method, name))) {
        let known: BTreeSet<&str> = methods.iter().filter_map(|method| method.name.split('/').next()).collect();
        let known: Vec<&str> = known.into_iter().collect();
        return Err(Failure::input(
            format!("--only {name}: the evaluation has no such method, it has {}", known.join(", ")),
            "names are the `name` of [[method]], or with policy and budget as in kriging/random-491",
        ));
    }
    let wanted = |method: &Method| only.is_empty() || only.iter().any(|name| belongs(method, name));
    Ok(methods.into_iter().filter(wanted).collect())
}

/// A case that this build cannot run is told and no failure of the run; any other failed case is.
fn refuse_failures(failed: &[FailedCase]) -> Outcome {
    let broken: Vec<FailedCase> = failed.iter().filter(|case| case.kind != ErrorKind::Unsupported).cloned().collect();
    match failures(&broken).first() {
        None => Ok(()),
        Some(first) => Err(Failure::input(
            format!("{} cases failed; all others are recorded. {first}", broken.len()),
            "the same command tries them again",
        )),
    }
}

fn overrides(arguments: &EvalArguments) -> Outcome<Vec<Override>> {
    let mut overrides = arguments.set.clone();
    if let Some(data) = &arguments.data {
        let text = data.to_str().ok_or_else(|| {
            Failure::input(format!("--data {}: the path is not UTF-8", data.display()), "rename the folder")
        })?;
        overrides.push(Override::new("data.root", toml::Value::String(text.to_owned())));
    }
    if let Some(limit) = arguments.limit {
        let limit = i64::try_from(limit)
            .map_err(|_| Failure::input(format!("--limit {limit} is too large"), "leave it out"))?;
        overrides.push(Override::new("data.first", toml::Value::Integer(limit)));
    }
    Ok(overrides)
}

/// Adds the numbers that tables show to the recorded cases; a case that is recorded already is replaced, those that this run did not
/// look at, because of `--only` or `--limit`, are kept.
fn record(folder: &Path, name: &str, cases: &[Case], numbers: &BTreeSet<String>) -> Outcome {
    let mut output = OutputFolder::open(folder)?;
    let path = folder.join(name);
    let mut all = if path.exists() { read_cases(&path)? } else { Vec::new() };
    let new: BTreeSet<_> = cases.iter().map(Case::key).collect();
    all.retain(|case| !new.contains(&case.key()));
    all.extend(cases.iter().map(|case| case.thinned(numbers)));
    all.sort_by(|first, second| first.key().cmp(&second.key()));
    output.write(name, &compressed_lines(&all))
}

/// The file of a configuration's recorded results.
fn recorded_name(config: &Path) -> String {
    format!("{}.jsonl.gz", config.file_stem().unwrap_or_default().to_string_lossy())
}

/// The page of recorded results, one part a configuration.
fn write_recorded(arguments: &EvalArguments, folder: &Path, console: Console) -> Outcome {
    let mut text = String::new();
    for path in &arguments.configs {
        let config = EvalConfig::read(path, &arguments.set)?;
        let mut cases = read_cases(&folder.join(recorded_name(path)))?;
        cases.sort_by(|a: &Case, b: &Case| a.key().cmp(&b.key()));
        if !text.is_empty() {
            text.push('\n');
        }
        let page = Page { config: &config, cases: &cases, failed: &[] };
        text += &page.markdown("figures");
        if let Some(folder) = arguments.table.as_ref().and_then(|path| path.parent()) {
            let mut figures = OutputFolder::open(&folder.join("figures"))?;
            for (name, svg) in page.figures() {
                figures.write(&name, svg.as_bytes())?;
            }
        }
    }
    if let Some(path) = &arguments.table {
        write_whole(path, text.as_bytes())?;
    }
    console.data(&text);
    Ok(())
}

fn list_methods(console: Console) -> Outcome {
    let registry = registry();
    let row = |kind: &str, name: &str, about: &str| vec![format!("{kind} {name}"), about.to_owned()];
    let mut rows: Vec<Vec<String>> =
        registry.reconstructors().map(|entry| row("reconstructor", entry.name, entry.about)).collect();
    rows.extend(registry.policies().map(|entry| row("policy", entry.name, entry.about)));
    if console.json {
        console.data(&(serde_json::to_string_pretty(&rows).expect("plain text") + "\n"));
    } else {
        console.data(&aligned(&["method".to_owned(), "what it is".to_owned()], &rows));
    }
    Ok(())
}
