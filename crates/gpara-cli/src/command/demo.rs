//! `gpara demo`: the whole path on embedded scenes, from city mask or picture to the report.

use std::path::PathBuf;

use clap::Args;

use super::demo_scenes::DemoTask;
use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::output_folder::OutputFolder;
use crate::preset::{PolicyChoice, Preset, check_available};
use crate::results::{ReportInput, RunSettings, SceneOutcome, publish, run_scene, write_scene};

/// Measure an embedded field by three policies, reconstruct it, and write maps and a report
///
/// Example: gpara demo radio --scene 3 --out out/demo
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// The field to measure
    task: DemoTask,
    /// Folder for maps, points and report [default: out/demo_radio or out/demo_depth]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Settings of the method: paper, best or gaussian [default: best, or gaussian in a build without weights]
    #[arg(long)]
    preset: Option<String>,
    /// Which square or room, 0 to 11, or `all`
    #[arg(long, default_value = "0")]
    scene: String,
    /// Number of measurements of each policy
    #[arg(long, default_value_t = 491)]
    budget: usize,
    /// Policies to compare, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "random,farthest-point,active")]
    policy: Vec<PolicyChoice>,
    /// Root of all randomness; same seed, same files
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Runs the command.
pub(crate) fn run(arguments: &DemoArguments, console: Console) -> Outcome {
    let task = arguments.task;
    let preset = preset(arguments, console)?;
    check_available(&preset, &arguments.policy)?;
    let scenes = chosen_scenes(task, &arguments.scene)?;
    let inputs = scenes.iter().map(|&index| task.scene(index)).collect::<Outcome<Vec<_>>>()?;
    for input in &inputs {
        let num_valid = input.context.valid().num_valid();
        if arguments.budget == 0 || arguments.budget > num_valid {
            return Err(Failure::input(
                format!(
                    "budget {} is not allowed: {} has {num_valid} valid cells, so 1 to {num_valid}",
                    arguments.budget, input.id
                ),
                "the paper measures 491 cells, 3 % of its radio grid and 1 % of its depth grid",
            ));
        }
    }
    let mut policies = Vec::new();
    for &policy in &arguments.policy {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    let noise_std = preset.acquisition.noise_std;
    let settings = RunSettings { preset, policies, budget: arguments.budget, noise_std, seed: arguments.seed };
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("out/demo_{}", task.name())));
    let mut folder = OutputFolder::open(&out)?;
    console.log(&format!("writing to {}", folder.path().display()));

    let steps = inputs.len() * settings.policies.len() * settings.budget;
    let progress = console.progress(steps as u64, "points");
    let mut outcomes: Vec<SceneOutcome> = Vec::new();
    for input in inputs {
        let outcome = run_scene(&settings, input, &[], &progress, &mut |_| Ok(()))?;
        write_scene(&mut folder, &outcome)?;
        outcomes.push(outcome);
    }
    progress.finish_and_clear();

    let subject = task.subject(outcomes.len());
    let input = ReportInput { title: task.title(), subject: &subject, settings: &settings, inputs: &[] };
    publish(&input, &outcomes, &mut folder, console)
}

/// The preset asked for; without a name `best`, or `gaussian` where its networks are missing.
fn preset(arguments: &DemoArguments, console: Console) -> Outcome<Preset> {
    let task = arguments.task.name();
    if let Some(name) = &arguments.preset {
        return Preset::for_task(name, task);
    }
    let best = Preset::for_task("best", task)?;
    if check_available(&best, &[]).is_ok() {
        return Ok(best);
    }
    let gaussian = Preset::for_task("gaussian", task)?;
    let networks = best.model_names().join(", ");
    console.log(&format!(
        "note: no {task} network is embedded in this build yet (`best` needs {networks}), so the preset is `{}`",
        gaussian.name
    ));
    Ok(gaussian)
}

/// The scenes named by `--scene`.
fn chosen_scenes(task: DemoTask, scene: &str) -> Outcome<Vec<usize>> {
    let num_scenes = task.num_scenes();
    if scene == "all" {
        return Ok((0..num_scenes).collect());
    }
    let index = scene.parse().ok().filter(|&index| index < num_scenes);
    index.map(|index| vec![index]).ok_or_else(|| {
        let last = num_scenes - 1;
        Failure::input(format!("scene `{scene}` is not known: 0 to {last}, or `all`"), "`--scene 3` takes one scene")
    })
}
