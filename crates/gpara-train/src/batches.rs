//! What each step trains on: maps, timesteps, masks and a symmetry; every draw depends on the seed and the step alone.

use std::sync::Arc;

use gpara::{Grid, NoiseSchedule, Result, SeedTree, ValidMask};
use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

use crate::augment::{Augmented, augment};
use crate::config::{MaskConfig, Role, Source, TrainConfig};
use crate::config_stages::{AugmentConfig, StepWeighting};
use crate::data::{Maps, Picture};
use crate::guided::sample_field;
use crate::masks::MapLayouts;
use crate::target::BatchScale;

/// The draws of one step, on the CPU.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draw {
    /// Number of the step, from 0.
    pub(crate) step: u64,
    /// Which maps.
    pub(crate) maps: Vec<i64>,
    /// One timestep a map.
    pub(crate) timesteps: Vec<i64>,
    /// `[batch, num_nodes]`, 1 = measured; empty if the network does not see measurements.
    pub(crate) measured: Vec<u8>,
    /// `[batch, num_nodes]` guided fields; empty if no network reads them.
    pub(crate) guided: Vec<f32>,
    /// 0..8: bit 0 mirrors rows, bit 1 mirrors columns, bit 2 swaps rows with columns.
    pub(crate) symmetry: usize,
    /// One changed map a sample, in place of the stored ones; empty without augmentation.
    pub(crate) augmented: Vec<Augmented>,
}

/// Draws batches one after the other.
#[derive(Debug, Clone)]
pub(crate) struct BatchSource {
    seeds: SeedTree,
    layouts: Arc<Vec<MapLayouts>>,
    grid: Grid,
    batch: usize,
    num_timesteps: usize,
    last_timestep_share: f64,
    role: Role,
    masks: Option<MaskConfig>,
    /// The reverse steps a graph is trained at, with the running sum of their shares.
    grid_steps: Vec<(i64, f64)>,
    symmetries: &'static [usize],
    pictures: Arc<Vec<Picture>>,
    augmentation: Option<AugmentConfig>,
    source: Source,
    guided_field: bool,
    /// The order of one epoch.
    epoch: Option<(u64, Vec<i64>)>,
}

impl BatchSource {
    /// The batches of a run over `maps`.
    ///
    /// # Errors
    /// `InvalidInput` if the schedule has fewer steps than the conditioner's grid.
    pub(crate) fn new(config: &TrainConfig, maps: &Maps, schedule: &NoiseSchedule) -> Result<Self> {
        let square = maps.grid.rows() == maps.grid.cols();
        let augmentation = config.augmentation.clone();
        let symmetries: &[usize] = match (config.data.is_depth(), square) {
            (false, true) => &[0, 1, 2, 3, 4, 5, 6, 7],
            (false, false) => &[0, 1, 2, 3],
            // A room has a floor; an augmented sample is mirrored on its own.
            (true, _) if augmentation.is_some() => &[0],
            (true, _) => &[0, 2],
        };
        Ok(Self {
            seeds: SeedTree::new(config.seed),
            layouts: Arc::clone(&maps.layouts),
            grid: maps.grid,
            batch: config.optimizer.batch,
            num_timesteps: schedule.num_steps(),
            last_timestep_share: config.last_timestep_share,
            role: config.role,
            masks: config.masks.clone(),
            grid_steps: grid_steps(config, schedule)?,
            symmetries,
            pictures: Arc::clone(&maps.pictures),
            augmentation,
            source: config.data,
            guided_field: config.guided_field,
            epoch: None,
        })
    }

    /// The batches with the guided field, for a stage whose frozen mean reads it.
    pub(crate) fn with_guided_field(self, guided_field: bool) -> Self {
        Self { guided_field, ..self }
    }

    /// The draws of a step.
    ///
    /// # Errors
    /// None for the maps of a data set.
    pub(crate) fn draw(&mut self, step: u64) -> Result<Draw> {
        let first = step * self.batch as u64;
        let maps: Vec<i64> = (first..first + self.batch as u64).map(|sample| self.map_of(sample)).collect();
        let mut stream = self.seeds.stream(&format!("timesteps/{step}"));
        let last = self.num_timesteps - 1;
        let timesteps = maps
            .iter()
            .map(|_| {
                if !self.grid_steps.is_empty() {
                    let draw = stream.uniform();
                    let chosen = self.grid_steps.iter().find(|(_, sum)| draw < *sum);
                    return chosen.or(self.grid_steps.last()).expect("a grid has steps").0;
                }
                let at_last = self.role == Role::Mean || stream.uniform() < self.last_timestep_share;
                if at_last { last as i64 } else { stream.index(self.num_timesteps) as i64 }
            })
            .collect();
        let augmented = match &self.augmentation {
            None => Vec::new(),
            Some(config) => maps
                .par_iter()
                .enumerate()
                .map(|(sample, &map)| {
                    let mut stream = self.seeds.stream(&format!("augment/{step}/{sample}"));
                    augment(&self.pictures[map as usize], config, &mut stream)
                })
                .collect::<Result<Vec<_>>>()?,
        };
        let measured = match &self.masks {
            None => Vec::new(),
            Some(masks) => {
                let num_nodes = self.grid.num_nodes();
                let mut measured = vec![0; self.batch * num_nodes];
                measured.par_chunks_exact_mut(num_nodes).zip(&maps).enumerate().for_each(|(sample, (cells, &map))| {
                    let mut stream = self.seeds.stream(&format!("mask/{step}/{sample}"));
                    let nodes = match augmented.get(sample) {
                        // Layouts follow the changed field, and so do its valid cells.
                        Some(Augmented { valid, field, .. }) => {
                            MapLayouts::new(valid, field, &mut stream).draw_any(masks, &mut stream)
                        }
                        None => self.layouts[map as usize].draw_any(masks, &mut stream),
                    };
                    nodes.into_iter().for_each(|node| cells[node as usize] = 1);
                });
                measured
            }
        };
        let guided = self.guided_fields(&maps, &augmented, &measured)?;
        let chosen = self.seeds.stream(&format!("symmetry/{step}")).index(self.symmetries.len());
        Ok(Draw { step, maps, timesteps, measured, guided, symmetry: self.symmetries[chosen], augmented })
    }

    /// The guided field of every sample; empty if no network reads it.
    fn guided_fields(&self, maps: &[i64], augmented: &[Augmented], measured: &[u8]) -> Result<Vec<f32>> {
        if !self.guided_field {
            return Ok(Vec::new());
        }
        let num_nodes = self.grid.num_nodes();
        let fields = maps
            .par_iter()
            .zip(measured.par_chunks_exact(num_nodes))
            .enumerate()
            .map(|(sample, (&map, cells))| {
                let nodes: Vec<usize> = (0..num_nodes).filter(|&node| cells[node] == 1).collect();
                match augmented.get(sample) {
                    Some(Augmented { field, context, valid }) => {
                        sample_field(self.source, valid, context, field, &nodes)
                    }
                    None => self.pictures[map as usize].guided_field(self.source, &nodes),
                }
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(fields.concat())
    }

    /// The map of a sample: every epoch is a random permutation of all maps.
    fn map_of(&mut self, sample: u64) -> i64 {
        let num_maps = self.layouts.len() as u64;
        let (epoch, position) = (sample / num_maps, (sample % num_maps) as usize);
        if self.epoch.as_ref().is_none_or(|(known, _)| *known != epoch) {
            let mut order: Vec<i64> = (0..num_maps as i64).collect();
            let mut stream = self.seeds.stream(&format!("epoch/{epoch}"));
            for last in (1..order.len()).rev() {
                order.swap(last, stream.index(last + 1));
            }
            self.epoch = Some((epoch, order));
        }
        self.epoch.as_ref().expect("set above").1[position]
    }
}

/// The tensors of one step on the device.
#[derive(Debug)]
pub(crate) struct Batch {
    /// `[B, 1, H, W]` clean fields.
    pub(crate) clean: Tensor,
    /// `[B, C, H, W]` context, with `measured` and `measured_value` last if the network sees them.
    pub(crate) context: Tensor,
    /// `[B, 1, H, W]` 1 at valid cells.
    pub(crate) valid: Tensor,
    /// `[B]` timesteps, i64.
    pub(crate) timesteps: Tensor,
    /// `[B, 1, H, W]` 1 at measured cells; `None` for a configuration without masks.
    pub(crate) measured: Option<Tensor>,
    /// `[B, 1, H, W]` guided fields, if a network reads them.
    pub(crate) guided: Option<Tensor>,
    /// `[B]` which maps, i64.
    pub(crate) index: Tensor,
    symmetry: usize,
}

impl Batch {
    /// Gathers the maps of a draw, changed or stored, and turns them all by its symmetry.
    pub(crate) fn gather(maps: &Maps, draw: &Draw, device: Device) -> Self {
        let index = Tensor::from_slice(&draw.maps).to_device(device);
        let [clean, context, valid] = match draw.augmented.is_empty() {
            true => [&maps.fields, &maps.contexts, &maps.valid].map(|tensor| tensor.index_select(0, &index)),
            false => stacked(&draw.augmented, maps.grid).map(|tensor| tensor.to_device(device)),
        };
        let measured = (!draw.measured.is_empty())
            .then(|| Tensor::from_slice(&draw.measured).to_device(device).to_kind(Kind::Float).view_as(&clean));
        let guided =
            (!draw.guided.is_empty()).then(|| Tensor::from_slice(&draw.guided).to_device(device).view_as(&clean));
        let turn = |tensor: Tensor| turned(tensor, draw.symmetry);
        Self {
            clean: turn(clean),
            context: turn(context),
            valid: turn(valid),
            timesteps: Tensor::from_slice(&draw.timesteps).to_device(device),
            measured: measured.map(turn),
            guided: guided.map(turn),
            index,
            symmetry: draw.symmetry,
        }
    }

    /// The rows of `[n, C, H, W]` that belong to the batch, turned alike.
    pub(crate) fn rows_of(&self, tensor: &Tensor) -> Tensor {
        turned(tensor.index_select(0, &self.index), self.symmetry)
    }
}

/// `[B, 1, H, W]` fields, `[B, C, H, W]` contexts and `[B, 1, H, W]` valid cells of changed maps.
fn stacked(augmented: &[Augmented], grid: Grid) -> [Tensor; 3] {
    let image = |values: &[f32]| Tensor::from_slice(values).view([-1, grid.rows() as i64, grid.cols() as i64]);
    let valid =
        |mask: &ValidMask| mask.as_slice().iter().map(|&valid| f32::from(u8::from(valid))).collect::<Vec<f32>>();
    let stack = |tensors: Vec<Tensor>| Tensor::stack(&tensors, 0);
    [
        stack(augmented.iter().map(|map| image(&map.field)).collect()),
        stack(augmented.iter().map(|map| image(&map.context)).collect()),
        stack(augmented.iter().map(|map| image(&valid(&map.valid))).collect()),
    ]
}

/// The timesteps of the conditioner's grid with the running sum of their shares; empty for other roles than `graph`.
fn grid_steps(config: &TrainConfig, schedule: &NoiseSchedule) -> Result<Vec<(i64, f64)>> {
    let (Some(graph), Some(conditioner)) = (&config.graph, &config.conditioner) else { return Ok(Vec::new()) };
    let timesteps = schedule.spaced_timesteps(conditioner.num_steps)?;
    let weight = |&timestep: &usize| match graph.step_weighting {
        StepWeighting::Uniform => 1.0,
        StepWeighting::Signal => schedule.alpha_bar(timestep).sqrt(),
    };
    let total: f64 = timesteps.iter().map(weight).sum();
    let mut sum = 0.0;
    let steps = timesteps.iter().map(|timestep| {
        sum += weight(timestep) / total;
        (*timestep as i64, sum)
    });
    Ok(steps.collect())
}

/// Appends the guided field, if the network reads it, and the channels `measured` and `measured_value`, the values in the
/// network's scale.
pub(crate) fn with_measurements(
    context: &Tensor,
    guided: Option<&Tensor>,
    measured: &Tensor,
    clean: &Tensor,
    scale: &BatchScale,
) -> Tensor {
    let values = measured * scale.forward(clean);
    let channels: Vec<&Tensor> = [context].into_iter().chain(guided).chain([measured, &values]).collect();
    Tensor::cat(&channels, 1)
}

/// One of the symmetries of the square (0..8) of the last two dimensions.
fn turned(tensor: Tensor, symmetry: usize) -> Tensor {
    let mut dims = Vec::new();
    if symmetry & 1 != 0 {
        dims.push(2);
    }
    if symmetry & 2 != 0 {
        dims.push(3);
    }
    let tensor = if dims.is_empty() { tensor } else { tensor.flip(dims) };
    if symmetry & 4 != 0 { tensor.transpose(2, 3).contiguous() } else { tensor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_symmetries_of_an_uneven_square_are_all_different() {
        let tensor = Tensor::arange(9, (Kind::Float, Device::Cpu)).view([1, 1, 3, 3]);
        let mut seen: Vec<Vec<f32>> = (0..8)
            .map(|symmetry| Vec::try_from(turned(tensor.shallow_clone(), symmetry).reshape([-1])).unwrap())
            .collect();
        seen.sort_by(|left, right| left.partial_cmp(right).unwrap());
        seen.dedup();
        assert_eq!(seen.len(), 8);
    }

    #[test]
    #[ignore = "measurement: seconds a draw of guided samples of the embedded rooms on one thread"]
    fn bench_draws_of_guided_samples() {
        let smoke = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/smoke_depth_mean.toml");
        let mut config = TrainConfig::read(&smoke).unwrap();
        config.target = gpara_nn::Target::Field;
        let (maps, _) = crate::data::load(config.data, None, SeedTree::new(1), 2, Device::Cpu).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        for (name, augmented, guided) in
            [("layouts", false, false), ("and augmentation", true, false), ("and guided fields", true, true)]
        {
            let mut config = config.clone();
            config.guided_field = guided;
            if !augmented {
                config.augmentation = None;
            }
            let config = config.check().unwrap();
            let mut source = BatchSource::new(&config, &maps, &NoiseSchedule::ddpm()).unwrap();
            let samples = (20 * config.optimizer.batch) as f64;
            let begin = std::time::Instant::now();
            pool.install(|| (0..20).for_each(|step| drop(source.draw(step).unwrap())));
            eprintln!("{name}: {:.1} ms a sample", begin.elapsed().as_secs_f64() * 1e3 / samples);
        }
    }
}
