//! `gpara eval`: methods over a data set, paired and resumable, into tables.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use gpara::ErrorKind;
use gpara_eval::{Case, FailedCase, Harness, Plan, read_cases};

use crate::console::{Console, aligned};
use crate::evaluation::{EvalConfig, Override, Page, SourcedNetworks, failures, load_scenes, registry, summary_json};
use crate::failure::{Failure, Outcome};
use crate::model_source::{CachedSource, EmbeddedSource, FolderSource, ModelSource};
use crate::output_folder::OutputFolder;
use gpara_tasks::field::write_whole;

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
    /// Scenes that run at once; peak memory is measured with 1 only [default: all cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Another value for a key of the configuration, e.g. data.part=validation or method.kriging.budget=50
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Folder of NAME.safetensors (with libtorch) or NAME.onnx and its card, instead of the networks in the binary
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Run nothing: write the tables of recorded results, FROM/CONFIG.jsonl.gz for each configuration
    #[arg(long, conflicts_with_all = ["data", "limit", "jobs", "weights"])]
    from: Option<PathBuf>,
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
    let methods = config.methods()?;
    let registry = registry();
    for method in &methods {
        registry.reconstructor(&method.reconstructor)?;
        method.policy.as_ref().map(|policy| registry.policy(&policy.name)).transpose()?;
    }
    let scenes = load_scenes(&config.data)?;
    console.log(&format!("{} methods on {} scenes", methods.len(), scenes.len()));
    let models = models(arguments);
    let networks = SourcedNetworks::new(&*models, config.data.task);
    let mut output = OutputFolder::open(&arguments.out)?;
    let mut harness = Harness::open(&arguments.out.join("results.jsonl"), config.seed)?;
    let data = config.data.fingerprint();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        registry: &registry,
        networks: &networks,
        task: config.data.task,
        methods: &methods,
        data: &data,
        scenes: &scenes,
        jobs: arguments.jobs.unwrap_or(cores),
    };
    let started = Instant::now();
    let progress = console.progress((methods.len() * scenes.len()) as u64, "cases");
    let failed = harness.run(&plan, &|case, _| {
        progress.set_message(case.method.clone());
        progress.inc(1);
    })?;
    progress.finish_and_clear();
    let cases = harness.cases(&scenes);
    console.log(&format!("{} cases, {:.1} s", cases.len(), started.elapsed().as_secs_f64()));
    failures(&failed).iter().for_each(|line| console.log(&format!("failed: {line}")));

    let page = Page { config: &config, cases: &cases, failed: &failed };
    let text = page.markdown();
    output.write("results.csv", page.csv().as_bytes())?;
    let summary = serde_json::to_string_pretty(&summary_json(&methods, &cases)).expect("plain numbers") + "\n";
    output.write("summary.json", summary.as_bytes())?;
    output.write("table.md", text.as_bytes())?;
    if let Some(path) = &arguments.table {
        write_whole(path, text.as_bytes())?;
    }
    console.data(if console.json { &summary } else { &text });
    refuse_failures(&failed)
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
    let named = |text: String| text.parse::<Override>().map_err(|message| Failure::input(message, "see --help"));
    let mut overrides = arguments.set.clone();
    if let Some(data) = &arguments.data {
        overrides.push(named(format!("data.root='{}'", data.display()))?);
    }
    if let Some(limit) = arguments.limit {
        overrides.push(named(format!("data.first={limit}"))?);
    }
    Ok(overrides)
}

/// The page of recorded results, one part a configuration.
fn write_recorded(arguments: &EvalArguments, folder: &Path, console: Console) -> Outcome {
    let mut text = String::new();
    for path in &arguments.configs {
        let config = EvalConfig::read(path, &arguments.set)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut cases = read_cases(&folder.join(format!("{name}.jsonl.gz")))?;
        cases.sort_by(|a: &Case, b: &Case| a.key().cmp(&b.key()));
        if !text.is_empty() {
            text.push('\n');
        }
        text += &Page { config: &config, cases: &cases, failed: &[] }.markdown();
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

fn models(arguments: &EvalArguments) -> Box<dyn ModelSource> {
    match arguments.weights.clone() {
        #[cfg(feature = "train")]
        Some(folder) => Box::new(CachedSource::new(crate::model_source::TorchSource::new(folder))),
        #[cfg(not(feature = "train"))]
        Some(folder) => Box::new(CachedSource::new(FolderSource { folder })),
        None => Box::new(CachedSource::new(EmbeddedSource)),
    }
}
