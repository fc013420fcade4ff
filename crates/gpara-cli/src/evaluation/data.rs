//! The scenes of an evaluation.

use gpara::{Channel, Context, Grid, ValidMask};
use gpara_eval::{Scene, Task};
use gpara_tasks::Split;
use gpara_tasks::depth::{DepthDataset, DepthMap, sample_rooms};
use gpara_tasks::radio::{RadioDataset, RadioMap, RadioScene, sample_city};
use rayon::prelude::*;

use super::config::{DataConfig, Part};
use crate::failure::{Failure, Outcome};

/// A scene as it is read.
struct Loaded {
    id: String,
    context: Context,
    field: Vec<f32>,
    /// Where its buildings are known.
    radio: Option<RadioScene>,
}

/// Reads the scenes.
pub(crate) fn load_scenes(config: &DataConfig) -> Outcome<Vec<Scene>> {
    let noise_std = config.noise_std.unwrap_or(config.task.noise_std());
    let loaded = match (config.task, &config.root) {
        (Task::Radio, Some(root)) => {
            let dataset = RadioDataset::open(root)?;
            load(dataset.split(config.split()), config, |id| radio(dataset.load(id)?))?
        }
        (Task::Depth, Some(root)) => {
            let dataset = DepthDataset::open(root)?;
            load(dataset.split(config.split()), config, |id| depth(dataset.load(id)?))?
        }
        (Task::Radio, None) => sample_city()?.into_iter().map(radio).collect::<Outcome<Vec<_>>>()?,
        (Task::Depth, None) => sample_rooms()?.into_iter().map(depth).collect::<Outcome<Vec<_>>>()?,
    };
    let count = config.first.unwrap_or(loaded.len()).min(loaded.len());
    let scene = |loaded: Loaded| {
        let Loaded { id, context, field, radio } = loaded;
        let (context, field) = match config.window {
            Some(size) => window(&context, &field, size)?,
            None => (context, field),
        };
        let truth = field.iter().map(|&value| f64::from(value)).collect();
        config.disturbance.apply(Scene::new(id, context, truth, noise_std), radio.as_ref())
    };
    loaded.into_iter().take(count).map(scene).collect()
}

impl DataConfig {
    fn split(&self) -> Split {
        match self.part {
            Part::Validation => Split::Validation,
            Part::Test => Split::Test,
        }
    }
}

fn load(ids: &[String], config: &DataConfig, scene: impl Fn(&str) -> Outcome<Loaded> + Sync) -> Outcome<Vec<Loaded>> {
    let count = config.first.unwrap_or(ids.len()).min(ids.len());
    let place = |at: usize| if config.evenly { at * ids.len() / count } else { at };
    (0..count).into_par_iter().map(|at| scene(&ids[place(at)])).collect()
}

fn radio(map: RadioMap) -> Outcome<Loaded> {
    Ok(Loaded { id: map.id, context: map.scene.context(), field: map.field, radio: Some(map.scene) })
}

fn depth(map: DepthMap) -> Outcome<Loaded> {
    Ok(Loaded { id: map.id, context: map.scene.context(&map.valid)?, field: map.field, radio: None })
}

/// The middle of a scene.
fn window(context: &Context, field: &[f32], (rows, cols): (usize, usize)) -> Outcome<(Context, Vec<f32>)> {
    let whole = context.grid();
    if rows > whole.rows() || cols > whole.cols() {
        return Err(Failure::input(
            format!("data.window = [{rows}, {cols}] is larger than a scene of {whole}"),
            "leave it out to use whole scenes",
        ));
    }
    let grid = Grid::new(rows, cols)?;
    let (top, left) = ((whole.rows() - rows) / 2, (whole.cols() - cols) / 2);
    let nodes: Vec<usize> = (0..grid.num_nodes())
        .map(|node| {
            let (row, col) = grid.row_col(node);
            whole.node(top + row, left + col)
        })
        .collect();
    let valid = ValidMask::new(grid, nodes.iter().map(|&node| context.valid().is_valid(node)).collect())?;
    let channels = context.channels().iter().map(|channel| Channel {
        name: channel.name.clone(),
        values: nodes.iter().map(|&node| channel.values[node]).collect(),
    });
    Ok((Context::new(valid, channels.collect())?, nodes.iter().map(|&node| field[node]).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_scenes_are_the_first_or_spread_over_all() {
        let ids: Vec<String> = (0..10).map(|at| at.to_string()).collect();
        let mut config: DataConfig = toml::from_str("task = \"radio\"\nfirst = 4").unwrap();
        let square = || radio(sample_city().unwrap().remove(0)).unwrap();
        let found = |config: &DataConfig| -> Vec<String> {
            let named = |id: &str| Ok(Loaded { id: id.into(), ..square() });
            load(&ids, config, named).unwrap().into_iter().map(|loaded| loaded.id).collect()
        };
        assert_eq!(found(&config), ["0", "1", "2", "3"]);
        config.evenly = true;
        assert_eq!(found(&config), ["0", "2", "5", "7"]);
        config.first = Some(99);
        assert_eq!(found(&config), ids);
    }

    #[test]
    fn window_is_the_middle_of_field_mask_and_channels() {
        let config: DataConfig = toml::from_str("task = \"radio\"\nfirst = 1\nwindow = [32, 48]").unwrap();
        let whole = load_scenes(&DataConfig { window: None, ..config.clone() }).unwrap().remove(0);
        let part = load_scenes(&config).unwrap().remove(0);
        let (grid, small) = (whole.context.grid(), part.context.grid());
        assert_eq!((small.rows(), small.cols(), part.noise_std), (32, 48, 1e-4));
        let (node, middle) = (small.node(3, 5), grid.node(48 + 3, 40 + 5));
        assert_eq!(part.truth[node], whole.truth[middle]);
        assert_eq!(part.context.valid().is_valid(node), whole.context.valid().is_valid(middle));
        let channel = |scene: &Scene, node: usize| scene.context.channel("log_distance").unwrap()[node];
        assert_eq!(channel(&part, node), channel(&whole, middle));
    }
}
