//! Pictures of scenes: truth, the map of each method under the same colours, and below each map its error.

use std::collections::BTreeMap;
use std::sync::Mutex;

use gpara_eval::{MethodRun, Scene, Task};
use image::RgbImage;

use super::config::PictureConfig;
use crate::picture::{ColorMap, MapPicture, Mark, MarkKind, ValueScale, overview};

/// Collects the maps that are to be drawn as they are made.
pub(crate) struct Pictures<'a> {
    config: Option<&'a PictureConfig>,
    maps: Mutex<BTreeMap<(String, String), Made>>,
}

/// One method's map of a scene.
struct Made {
    mean: Vec<f64>,
    measured: Vec<usize>,
    rmse: f64,
}

impl<'a> Pictures<'a> {
    /// Draws what `config` names; nothing without one.
    pub(crate) fn new(config: Option<&'a PictureConfig>) -> Self {
        Self { config, maps: Mutex::default() }
    }

    /// Whether a case is drawn.
    pub(crate) fn wants(&self, method: &str, scene: &str) -> bool {
        self.config.is_some_and(|config| {
            config.scenes.iter().any(|wanted| wanted == scene) && config.methods.iter().any(|wanted| wanted == method)
        })
    }

    /// Keeps the map of a case that is drawn.
    pub(crate) fn keep(&self, method: &str, scene: &str, run: &MethodRun) {
        if self.wants(method, scene) {
            let measured = run.observations.iter().map(|entry| entry.node).collect();
            let made = Made { mean: run.reconstruction.mean.clone(), measured, rmse: run.values["rmse"] };
            let mut maps = self.maps.lock().expect("keeping does not panic");
            maps.insert((scene.to_owned(), method.to_owned()), made);
        }
    }

    /// One picture a scene of which there are maps, with its id. Cases of an earlier call are not drawn again.
    pub(crate) fn draw(&self, task: Task, scenes: &[Scene]) -> Vec<(String, RgbImage)> {
        let Some(config) = self.config else { return Vec::new() };
        let maps = self.maps.lock().expect("keeping does not panic");
        let wanted = scenes.iter().filter(|scene| config.scenes.contains(&scene.id));
        let drawn = |scene: &Scene| {
            let made: Vec<(&String, &Made)> = config
                .methods
                .iter()
                .filter_map(|method| maps.get(&(scene.id.clone(), method.clone())).map(|made| (method, made)))
                .collect();
            if made.is_empty() { None } else { draw_scene(task, scene, &made).map(|image| (scene.id.clone(), image)) }
        };
        wanted.filter_map(drawn).collect()
    }
}

fn draw_scene(task: Task, scene: &Scene, made: &[(&String, &Made)]) -> Option<RgbImage> {
    let (factor, grid) = (task.error_factor(), scene.scored.grid());
    let shown = |field: &[f64]| field.iter().map(|value| factor * (value + 1.0)).collect::<Vec<f64>>();
    let truth = shown(&scene.truth);
    let cells = || scene.scored.nodes();
    let bounds = |values: &[f64]| {
        cells().map(|node| values[node]).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (low, high) = bounds(&truth);
    let unit = task.unit().to_owned();
    let values = ValueScale { color_map: ColorMap::Field, low, high, unit: unit.clone() };
    let fields: Vec<Vec<f64>> = made.iter().map(|(_, made)| shown(&made.mean)).collect();
    let errors: Vec<Vec<f64>> = fields
        .iter()
        .map(|field| field.iter().zip(&truth).map(|(value, truth)| (value - truth).abs()).collect())
        .collect();
    // Errors beyond a quarter of the range take the last colour: all methods share the scale.
    let error_scale = ValueScale { color_map: ColorMap::Magnitude, low: 0.0, high: 0.25 * (high - low), unit };
    let titles: Vec<String> = made.iter().map(|(method, made)| format!("{method}: {:.4}", made.rmse)).collect();
    let marks: Vec<Vec<Mark>> = made
        .iter()
        .map(|(_, made)| {
            let mark = |&node: &usize| {
                let (row, col) = grid.row_col(node);
                Mark { kind: MarkKind::Measured, row, col }
            };
            made.measured.iter().map(mark).collect()
        })
        .collect();
    let invalid_name = if task == Task::Radio { "building" } else { "no value" };
    let valid = &scene.scored;
    let map = |title, values, scale, marks| MapPicture { title, values, valid, invalid_name, scale, marks };
    let mut top = vec![Some(map("truth", &truth, &values, &[]))];
    let mut bottom = vec![None];
    for place in 0..made.len() {
        top.push(Some(map(&titles[place], &fields[place], &values, &marks[place])));
        bottom.push(Some(map("absolute error", &errors[place], &error_scale, &[])));
    }
    overview(&[top, bottom])
}
