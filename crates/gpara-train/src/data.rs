//! Maps in memory: layouts and pictures on the CPU, fields and contexts as tensors on the device.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use gpara::{Context, Grid, Result, SeedTree, ValidMask};
use gpara_tasks::Split;
use gpara_tasks::depth::{self, DepthDataset, DepthMap, DepthScene};
use gpara_tasks::radio::{self, RadioDataset, RadioMap};
use rayon::prelude::*;
use tch::{Device, Tensor};

use crate::config::Source;
use crate::error::TrainError;
use crate::guided::sample_field;
use crate::masks::MapLayouts;

/// One part of the data.
#[derive(Debug)]
pub(crate) struct Maps {
    /// Names, in the order of the tensors' first dimension.
    pub(crate) ids: Vec<String>,
    /// Grid of every map.
    pub(crate) grid: Grid,
    /// What measurement layouts are drawn from; shared with the thread that draws them.
    pub(crate) layouts: Arc<Vec<MapLayouts>>,
    /// Pictures with their depth, to be augmented; empty for radio maps.
    pub(crate) pictures: Arc<Vec<Picture>>,
    /// `[n, 1, H, W]` normalised fields.
    pub(crate) fields: Tensor,
    /// `[n, C, H, W]` context channels, without measurements.
    pub(crate) contexts: Tensor,
    /// `[n, 1, H, W]` 1 at valid cells, else 0.
    pub(crate) valid: Tensor,
}

/// A picture and its normalised depth on the CPU.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(crate) scene: DepthScene,
    pub(crate) field: Vec<f32>,
    /// Whether every cell has a depth.
    pub(crate) whole: bool,
}

impl Picture {
    /// The guided field of the picture with exact values at `nodes`.
    ///
    /// # Errors
    /// Those of [`sample_field`].
    pub(crate) fn guided_field(&self, source: Source, nodes: &[usize]) -> Result<Vec<f32>> {
        let grid = self.scene.grid();
        let known = self.field.iter().map(|&value| self.whole || value > -1.0).collect();
        let valid = ValidMask::new(grid, known)?;
        let context = self.scene.context(&valid)?;
        let values: Vec<f32> = context.channels().iter().flat_map(|channel| channel.values.iter().copied()).collect();
        sample_field(source, &valid, &values, &self.field, nodes)
    }
}

/// One map on the CPU.
struct Prepared {
    scene: Option<DepthScene>,
    id: String,
    grid: Grid,
    layouts: MapLayouts,
    field: Vec<f32>,
    context: Vec<f32>,
    valid: Vec<f32>,
}

/// Training and validation maps; `root` is the data's folder (not needed for the embedded samples).
///
/// # Errors
/// Those of reading the data set; `InvalidInput` if the folder is needed and missing; `ShapeMismatch` if the maps differ
/// in size.
pub(crate) fn load(
    source: Source,
    root: Option<&Path>,
    seeds: SeedTree,
    limit: usize,
    device: Device,
) -> Result<(Maps, Maps)> {
    let root = || {
        root.ok_or_else(|| TrainError::Setting {
            key: "--data",
            value: "nothing".into(),
            allowed: "the folder of the data set, unless the configuration names embedded samples",
        })
    };
    let begin = Instant::now();
    let (training, validation) = match source {
        Source::SampleCity => halves(radio::sample_city()?, |map| Ok(prepare_radio(map, seeds)))?,
        Source::SampleRooms => halves(depth::sample_rooms()?, |map| prepare_depth(map, seeds))?,
        Source::Radio => {
            let dataset = RadioDataset::open(root()?)?;
            let read = |ids: &[String]| -> Result<Vec<Prepared>> {
                ids.par_iter().map(|id| Ok(prepare_radio(dataset.load(id)?, seeds))).collect()
            };
            let validation = dataset.split(Split::Validation);
            (read(dataset.split(Split::Train))?, read(&validation[..limit.min(validation.len())])?)
        }
        Source::Depth => {
            let dataset = DepthDataset::open(root()?)?;
            let read = |ids: &[String]| -> Result<Vec<Prepared>> {
                ids.par_iter().map(|id| prepare_depth(dataset.load(id)?, seeds)).collect()
            };
            let validation = dataset.split(Split::Validation);
            (read(dataset.split(Split::Train))?, read(&validation[..limit.min(validation.len())])?)
        }
    };
    let (count, seconds) = (training.len() + validation.len(), begin.elapsed().as_secs_f64());
    eprintln!("{count} maps read and prepared in {seconds:.1} s on {} threads", rayon::current_num_threads());
    Ok((on_device(training, device)?, on_device(validation, device)?))
}

/// Embedded maps: all but the last two to train on, those to validate on.
fn halves<M: Send>(
    mut maps: Vec<M>,
    prepare: impl Fn(M) -> Result<Prepared> + Sync,
) -> Result<(Vec<Prepared>, Vec<Prepared>)> {
    let validation = maps.split_off(maps.len() - 2);
    let collect = |maps: Vec<M>| maps.into_par_iter().map(&prepare).collect::<Result<Vec<_>>>();
    Ok((collect(maps)?, collect(validation)?))
}

fn prepare_radio(map: RadioMap, seeds: SeedTree) -> Prepared {
    let context = map.scene.context();
    prepare(map.id, &context, map.field, None, seeds)
}

fn prepare_depth(map: DepthMap, seeds: SeedTree) -> Result<Prepared> {
    let context = map.scene.context(&map.valid)?;
    Ok(prepare(map.id, &context, map.field, Some(map.scene), seeds))
}

fn prepare(id: String, context: &Context, field: Vec<f32>, scene: Option<DepthScene>, seeds: SeedTree) -> Prepared {
    let valid = context.valid();
    Prepared {
        grid: context.grid(),
        layouts: MapLayouts::new(valid, &field, &mut seeds.stream(&format!("layouts/{id}"))),
        context: context.channels().iter().flat_map(|channel| channel.values.iter().copied()).collect(),
        valid: valid.as_slice().iter().map(|&valid| f32::from(u8::from(valid))).collect(),
        scene,
        field,
        id,
    }
}

fn on_device(maps: Vec<Prepared>, device: Device) -> Result<Maps> {
    let first = maps.first().ok_or_else(|| TrainError::Setting {
        key: "data",
        value: "no maps".into(),
        allowed: "at least one map to train on and one to validate on",
    })?;
    let grid = first.grid;
    if let Some(other) = maps.iter().find(|map| map.grid != grid) {
        let reason = format!("map {} has another grid than {}: {} and {grid}", other.id, first.id, other.grid);
        return Err(TrainError::Scene { name: "data".into(), reason }.into());
    }
    let (rows, cols) = (grid.rows() as i64, grid.cols() as i64);
    let stack = |part: fn(&Prepared) -> &[f32]| {
        let mut values = Vec::with_capacity(maps.len() * part(first).len());
        maps.iter().for_each(|map| values.extend_from_slice(part(map)));
        Tensor::from_slice(&values).view([maps.len() as i64, -1, rows, cols]).to_device(device)
    };
    let (fields, contexts, valid) = (stack(|map| &map.field), stack(|map| &map.context), stack(|map| &map.valid));
    let (mut ids, mut layouts, mut pictures) = (Vec::new(), Vec::new(), Vec::new());
    for map in maps {
        ids.push(map.id);
        layouts.push(map.layouts);
        let whole = map.valid.iter().all(|&valid| valid == 1.0);
        pictures.extend(map.scene.map(|scene| Picture { scene, field: map.field, whole }));
    }
    Ok(Maps { ids, grid, layouts: Arc::new(layouts), pictures: Arc::new(pictures), fields, contexts, valid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "measurement: set GPARA_RADIO to the data folder"]
    fn bench_loading_of_24_maps() {
        let root = std::env::var("GPARA_RADIO").expect("GPARA_RADIO is set");
        let dataset = RadioDataset::open(Path::new(&root)).unwrap();
        let ids = &dataset.split(Split::Train)[..24];
        let milliseconds = |begin: Instant| begin.elapsed().as_secs_f64() * 1e3 / ids.len() as f64;
        let begin = Instant::now();
        let maps: Vec<RadioMap> = ids.iter().map(|id| dataset.load(id).unwrap()).collect();
        eprintln!("reading {:.2} ms a map", milliseconds(begin));
        let begin = Instant::now();
        let contexts: Vec<_> = maps.iter().map(|map| map.scene.context()).collect();
        eprintln!("context {:.2} ms a map", milliseconds(begin));
        let begin = Instant::now();
        let tree = SeedTree::new(1);
        for map in &maps {
            MapLayouts::new(map.scene.valid(), &map.field, &mut tree.stream(&map.id));
        }
        eprintln!("layouts {:.2} ms a map", milliseconds(begin));
        let begin = Instant::now();
        let prepared: Vec<_> = maps.into_iter().map(|map| prepare_radio(map, tree)).collect();
        eprintln!("context, layouts and the rest {:.2} ms a map", milliseconds(begin));
        let begin = Instant::now();
        on_device(prepared, Device::Cpu).unwrap();
        eprintln!("tensors {:.2} ms a map", milliseconds(begin));
        drop(contexts);
    }
}
