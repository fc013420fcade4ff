//! `gpara models calibrate`: factors on a spread network's standard deviation, from the errors on validation scenes.

use std::path::PathBuf;

use clap::Args;
use gpara::{
    AcquisitionSession, Calibration, CalibrationCurve, CalibrationPoint, Context, FieldSource, MeasurementLayout,
    Observations, SeedTree, SessionSettings, SpreadPredictor, run_to_end,
};
use gpara_eval::{Scene, Task as EvalTask, in_threads};

use crate::console::Console;
use crate::evaluation::{DataConfig, Part, load_scenes};
use crate::failure::{Failure, Outcome};
use crate::model_source::{ModelSource, models};
use crate::preset::{MethodParts, PolicyChoice, Preset, Task};
use crate::recalibrated::Recalibrated;

/// Numbers of measurements the factors are fitted at.
const COUNTS: [usize; 5] = [16, 50, 100, 245, 491];

/// Points a round.
const BATCH: usize = 8;

/// Fit the factors of a preset's spread network on validation scenes
///
/// The table is printed as it belongs into the network's card. Its std is multiplied by `std_factor`, so that the root mean
/// square of error over std is 1; `interval_factors` are the half widths of the central 50, 80 and 95 % intervals in that std.
/// Every policy makes a curve over the spacing of the measurements; in between, and between the curves by how evenly the points
/// lie, factors are interpolated. What the policy `active` measures follows from the std: it runs last, with the factors of the
/// others; alone, with those of the card.
///
/// Example: gpara models calibrate --preset best --task radio --data radio --limit 24 --jobs 2
#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// Preset whose spread network is calibrated
    #[arg(long, default_value = "best")]
    preset: String,
    /// Task of the preset
    #[arg(long, value_enum)]
    task: CalibratedTask,
    /// Folder of the data set
    #[arg(long)]
    data: PathBuf,
    /// Mean of one evaluation instead of the preset's symmetries: a ninth of the time on radio maps, errors 2 % larger
    #[arg(long)]
    one_evaluation: bool,
    /// Only so many validation scenes, evenly spread over all of them
    #[arg(long, default_value_t = 24)]
    limit: usize,
    /// Layouts that the factors are fitted on
    #[arg(long, value_enum, value_delimiter = ',', default_value = "random,farthest-point,active")]
    policies: Vec<PolicyChoice>,
    /// Scenes that run at once [default: 1]
    #[arg(long)]
    jobs: Option<usize>,
    /// Folder of NAME.safetensors (with libtorch) or NAME.onnx and its card, instead of the networks in the binary
    #[arg(long)]
    weights: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CalibratedTask {
    Radio,
    Depth,
}

impl CalibratedTask {
    fn task(self) -> EvalTask {
        match self {
            Self::Radio => EvalTask::Radio,
            Self::Depth => EvalTask::Depth,
        }
    }
}

/// |error| / std of every cell that is not measured, at each of [`COUNTS`], and the layouts there, of one policy.
#[derive(Default)]
struct Errors {
    ratios: [Vec<f64>; COUNTS.len()],
    layouts: [Vec<MeasurementLayout>; COUNTS.len()],
    /// The policy as the library calls it.
    chosen_by: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &CalibrateArguments, console: Console) -> Outcome {
    let eval_task = arguments.task.task();
    let mut preset = Preset::for_task(&arguments.preset, eval_task.name())?;
    if arguments.one_evaluation {
        let identity = toml::toml! { reconstruct.symmetries = "identity" };
        preset = preset.replaced(&identity)?;
    }
    let Some(name) = preset.spread_name() else {
        return Err(Failure::input(
            format!("preset `{}` has no spread network to calibrate", preset.name),
            "its key reconstruct.std.kind would be \"network\"",
        ));
    };
    let models = models(arguments.weights.as_deref());
    let data = DataConfig {
        task: eval_task,
        root: Some(arguments.data.clone()),
        part: Part::Validation,
        first: Some(arguments.limit),
        evenly: true,
        window: None,
        noise_std: None,
        disturbance: crate::evaluation::Disturbance::default(),
    };
    let task = Task { name: eval_task.name(), invalid_value: eval_task.invalid_value() };
    let scenes = load_scenes(&data)?;
    let curves = |models: &dyn ModelSource, policies: &[PolicyChoice]| -> Outcome<Vec<CalibrationCurve>> {
        if policies.is_empty() {
            return Ok(Vec::new());
        }
        let spread = models.spread(name, eval_task.name())?;
        let of_scene = |scene: &Scene| -> Outcome<Vec<Errors>> {
            let seeds = SeedTree::new(20_261_128).subtree(&scene.id);
            let parts = MethodParts::new(&preset, models, task, &scene.context, seeds)?;
            let mut made = Vec::new();
            for &policy in policies {
                let mut errors = Errors::default();
                errors.collect(scene, (&parts, &*spread), policy, seeds)?;
                console.log(&format!("{} {}", scene.id, policy.name()));
                made.push(errors);
            }
            Ok(made)
        };
        let made = in_threads(&scenes, arguments.jobs.unwrap_or(1), of_scene)?;
        let of_policy = |policy: usize| {
            let mut pooled = Errors::default();
            made.iter().for_each(|of_scene| pooled.append(&of_scene[policy]));
            pooled.curve()
        };
        (0..policies.len()).map(of_policy).collect()
    };
    // A belief asks its std whether it holds: what active campaigns measure depends on the factors.
    let (active, fixed): (Vec<PolicyChoice>, Vec<PolicyChoice>) =
        arguments.policies.iter().partition(|&&policy| policy == PolicyChoice::Active);
    let fixed = curves(&*models, &fixed)?;
    let active = match fixed.is_empty() {
        true => curves(&*models, &active)?,
        false => curves(&Recalibrated { models: &*models, calibration: Calibration::new(fixed.clone())? }, &active)?,
    };
    let mut table = format!(
        "# Fitted by `gpara models calibrate` on {} validation scenes at {COUNTS:?} measurements.\n",
        scenes.len()
    );
    fixed.iter().chain(&active).for_each(|curve| table.push_str(&toml_of(curve)));
    console.data(&table);
    Ok(())
}

/// A curve as it belongs into a card.
fn toml_of(curve: &CalibrationCurve) -> String {
    let layout = curve.chosen_by.as_deref().expect("fitted for a policy");
    let table = |point: &CalibrationPoint| {
        let MeasurementLayout { spacing, dispersion } = point.layout;
        let [half, four_fifths, most] = point.interval_factors;
        format!(
            "\n[[calibration]]\nlayout = \"{layout}\"\nspacing = {spacing:.3}\ndispersion = {dispersion:.4}\n\
             std_factor = {:.4}\ninterval_factors = [{half:.4}, {four_fifths:.4}, {most:.4}]\n",
            point.std_factor
        )
    };
    curve.points.iter().map(table).collect()
}

impl Errors {
    /// Adds the errors of another scene.
    fn append(&mut self, other: &Self) {
        self.ratios.iter_mut().zip(&other.ratios).for_each(|(own, more)| own.extend(more));
        self.layouts.iter_mut().zip(&other.layouts).for_each(|(own, more)| own.extend(more));
        self.chosen_by.clone_from(&other.chosen_by);
    }

    /// One campaign of a scene, reconstructed whenever it passes one of [`COUNTS`].
    fn collect(
        &mut self,
        scene: &Scene,
        (parts, spread): (&MethodParts, &dyn SpreadPredictor),
        policy: PolicyChoice,
        seeds: SeedTree,
    ) -> Outcome {
        let Scene { context, truth, noise_std, .. } = scene;
        let budget = COUNTS[COUNTS.len() - 1].min(context.valid().num_valid());
        let settings = SessionSettings { budget, max_batch: BATCH, noise_std: *noise_std };
        let mut session = AcquisitionSession::new(context.clone(), settings, seeds)?;
        let mut source = FieldSource::new(truth.clone(), *noise_std, seeds)?;
        let mut model = parts.acquisition_model(policy)?;
        model.policy.name().clone_into(&mut self.chosen_by);
        let mut next = 0;
        run_to_end(&mut session, &mut model, &mut source, &mut |session| {
            if next < COUNTS.len() && session.observations().len() >= COUNTS[next] {
                let made = self.add(next, context, truth, (parts, spread), session.observations(), seeds);
                made.map_err(Failure::into_library_error)?;
                next += 1;
            }
            Ok(())
        })?;
        Ok(())
    }

    fn add(
        &mut self,
        at: usize,
        context: &Context,
        truth: &[f64],
        (parts, spread): (&MethodParts, &dyn SpreadPredictor),
        observations: &Observations,
        seeds: SeedTree,
    ) -> Outcome {
        let made = parts.reconstruct(context, observations, seeds)?;
        let std = made.std.expect("a spread network gives a std");
        let open = context.valid().nodes().filter(|node| !observations.contains(*node));
        // In the std before the calibration that is applied already.
        let factor = spread.std_factor(context, observations);
        self.ratios[at].extend(open.map(|node| factor * (made.mean[node] - truth[node]).abs() / std[node]));
        self.layouts[at].push(MeasurementLayout::of(context.valid(), observations));
        Ok(())
    }

    /// The factors by increasing spacing.
    fn curve(self) -> Outcome<CalibrationCurve> {
        let mut points = Vec::new();
        for (ratios, layouts) in self.ratios.into_iter().zip(self.layouts).rev() {
            if layouts.is_empty() {
                continue;
            }
            let mean = |of: fn(&MeasurementLayout) -> f64| layouts.iter().map(of).sum::<f64>() / layouts.len() as f64;
            let (spacing, dispersion) = (mean(|layout| layout.spacing), mean(|layout| layout.dispersion));
            points.push(CalibrationPoint::fit(MeasurementLayout { spacing, dispersion }, ratios)?);
        }
        Ok(CalibrationCurve { chosen_by: Some(self.chosen_by), points })
    }
}
