//! `gpara demo`: the whole path on embedded squares, from the city mask to the report.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gpara_tasks::radio::{GAIN_FLOOR_DB, GAIN_RANGE_DB, INVALID_VALUE, NUM_SAMPLE_SCENES, RadioMap, sample_scene};

use crate::console::Console;
use crate::failure::{Failure, Outcome};
use crate::output_folder::OutputFolder;
use crate::preset::{PolicyChoice, Preset, Task, check_available};
use crate::results::{
    FieldUnits, Measure, ReportInput, RunSettings, SceneInput, SceneOutcome, publish, run_scene, write_scene,
};

/// Measure an embedded field by three policies, reconstruct it, and write maps and a report
///
/// Example: gpara demo radio --scene 3 --out out/demo
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// The field to measure
    task: DemoTask,
    /// Folder for maps, points and report
    #[arg(long, default_value = "out/demo_radio")]
    out: PathBuf,
    /// Settings of the method: paper, best or gaussian [default: best, or gaussian in a build without weights]
    #[arg(long)]
    preset: Option<String>,
    /// Which square, 0 to 11, or `all`
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DemoTask {
    /// Path gain in a city, one transmitter
    Radio,
}

/// Runs the command.
pub(crate) fn run(arguments: &DemoArguments, console: Console) -> Outcome {
    let DemoTask::Radio = arguments.task;
    let preset = Preset::embedded(preset_name(arguments, console)?)?;
    check_available(&preset, &arguments.policy)?;
    let scenes = chosen_scenes(&arguments.scene)?;
    let maps = scenes.iter().map(|&index| Ok(sample_scene(index)?)).collect::<Outcome<Vec<_>>>()?;
    for map in &maps {
        let num_valid = map.scene.valid().num_valid();
        if arguments.budget == 0 || arguments.budget > num_valid {
            return Err(Failure::input(
                format!(
                    "budget {} is not allowed: {} has {num_valid} valid cells, so 1 to {num_valid}",
                    arguments.budget, map.id
                ),
                "the paper measures 491 cells, 3 % of the grid",
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
    let mut folder = OutputFolder::open(&arguments.out)?;
    console.log(&format!("writing to {}", folder.path().display()));

    let steps = maps.len() * settings.policies.len() * settings.budget;
    let progress = console.progress(steps as u64, "points");
    let mut outcomes: Vec<SceneOutcome> = Vec::new();
    for map in maps {
        let outcome = run_scene(&settings, scene_input(map), &[], &progress, &mut |_| Ok(()))?;
        write_scene(&mut folder, &outcome)?;
        outcomes.push(outcome);
    }
    progress.finish_and_clear();

    let subject = match outcomes.len() {
        1 => "Path gain in a square of a generated city".to_string(),
        count => format!("Path gain in {count} squares of a generated city"),
    };
    let title = "gpara: radio map from a few measurements";
    let input = ReportInput { title, subject: &subject, settings: &settings, inputs: &[] };
    publish(&input, &outcomes, &mut folder, console)
}

/// A square as the closed loop takes it; errors in gray/255 and in dB.
fn scene_input(map: RadioMap) -> SceneInput {
    let mut units = FieldUnits::new(GAIN_FLOOR_DB, GAIN_FLOOR_DB + GAIN_RANGE_DB, "dB");
    // Normalised values span 2 where gray/255 spans 1.
    units.measures.insert(0, Measure { unit: "gray/255".to_string(), factor: 0.5 });
    let (row, col) = map.scene.transmitter();
    SceneInput {
        task: Task { name: "radio", invalid_value: Some(f64::from(INVALID_VALUE)) },
        context: map.scene.context(),
        truth: map.field.iter().map(|&value| f64::from(value)).collect(),
        units,
        invalid_name: "building".to_string(),
        transmitter: Some((row.round() as usize, col.round() as usize)),
        id: map.id,
    }
}

fn preset_name(arguments: &DemoArguments, console: Console) -> Outcome<&str> {
    if let Some(name) = &arguments.preset {
        return Ok(name);
    }
    let best = Preset::embedded("best")?;
    if check_available(&best, &[]).is_ok() {
        return Ok("best");
    }
    console.log("note: this build lacks the networks of the preset `best`, so the preset is `gaussian`");
    Ok("gaussian")
}

/// The squares named by `--scene`.
fn chosen_scenes(scene: &str) -> Outcome<Vec<usize>> {
    if scene == "all" {
        return Ok((0..NUM_SAMPLE_SCENES).collect());
    }
    let index = scene.parse().ok().filter(|&index| index < NUM_SAMPLE_SCENES);
    index.map(|index| vec![index]).ok_or_else(|| {
        let last = NUM_SAMPLE_SCENES - 1;
        Failure::input(format!("scene `{scene}` is not known: 0 to {last}, or `all`"), "`--scene 3` takes one square")
    })
}
