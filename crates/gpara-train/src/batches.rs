//! What each step trains on: maps, timesteps, masks and a symmetry; every draw depends on the seed and the step alone.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use gpara::{Grid, SeedTree};
use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

use crate::config::{MaskConfig, Role, TrainConfig};
use crate::data::Maps;
use crate::masks::MapLayouts;

/// Batches drawn ahead of the device.
const AHEAD: usize = 8;

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
    /// 0..8: bit 0 mirrors rows, bit 1 mirrors columns, bit 2 swaps rows with columns.
    pub(crate) symmetry: usize,
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
    /// The order of one epoch.
    epoch: Option<(u64, Vec<i64>)>,
}

impl BatchSource {
    /// The batches of a run over `maps`.
    pub(crate) fn new(config: &TrainConfig, maps: &Maps, num_timesteps: usize) -> Self {
        Self {
            seeds: SeedTree::new(config.seed),
            layouts: Arc::clone(&maps.layouts),
            grid: maps.grid,
            batch: config.optimizer.batch,
            num_timesteps,
            last_timestep_share: config.last_timestep_share,
            role: config.role,
            masks: config.masks.clone(),
            epoch: None,
        }
    }

    /// The draws of a step.
    pub(crate) fn draw(&mut self, step: u64) -> Draw {
        let first = step * self.batch as u64;
        let maps: Vec<i64> = (first..first + self.batch as u64).map(|sample| self.map_of(sample)).collect();
        let mut stream = self.seeds.stream(&format!("timesteps/{step}"));
        let last = self.num_timesteps - 1;
        let timesteps = maps
            .iter()
            .map(|_| {
                let at_last = self.role == Role::Mean || stream.uniform() < self.last_timestep_share;
                if at_last { last as i64 } else { stream.index(self.num_timesteps) as i64 }
            })
            .collect();
        let measured = match &self.masks {
            None => Vec::new(),
            Some(masks) => {
                let num_nodes = self.grid.num_nodes();
                let mut measured = vec![0; self.batch * num_nodes];
                measured.par_chunks_exact_mut(num_nodes).zip(&maps).enumerate().for_each(|(sample, (cells, &map))| {
                    let mut stream = self.seeds.stream(&format!("mask/{step}/{sample}"));
                    for node in self.layouts[map as usize].draw_any(masks, &mut stream) {
                        cells[node as usize] = 1;
                    }
                });
                measured
            }
        };
        let square = self.grid.rows() == self.grid.cols();
        let symmetry = self.seeds.stream(&format!("symmetry/{step}")).index(if square { 8 } else { 4 });
        Draw { step, maps, timesteps, measured, symmetry }
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

    /// A thread that draws from step `first` on, a few steps ahead, until the receiver is dropped.
    pub(crate) fn ahead(mut self, first: u64) -> (Receiver<Draw>, JoinHandle<()>) {
        let (sender, receiver): (SyncSender<Draw>, _) = sync_channel(AHEAD);
        let worker = std::thread::spawn(move || {
            let mut step = first;
            while sender.send(self.draw(step)).is_ok() {
                step += 1;
            }
        });
        (receiver, worker)
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
}

impl Batch {
    /// Gathers the maps of a draw and turns them all by its symmetry.
    pub(crate) fn gather(maps: &Maps, draw: &Draw, device: Device) -> Self {
        let index = Tensor::from_slice(&draw.maps).to_device(device);
        let clean = maps.fields.index_select(0, &index);
        let context = maps.contexts.index_select(0, &index);
        let valid = maps.valid.index_select(0, &index);
        let context = if draw.measured.is_empty() {
            context
        } else {
            let measured = Tensor::from_slice(&draw.measured).to_device(device).to_kind(Kind::Float).view_as(&clean);
            with_measurements(&context, &measured, &clean)
        };
        let turn = |tensor: Tensor| turned(tensor, draw.symmetry);
        Self {
            clean: turn(clean),
            context: turn(context),
            valid: turn(valid),
            timesteps: Tensor::from_slice(&draw.timesteps).to_device(device),
        }
    }
}

/// Appends the channels `measured` and `measured_value`.
pub(crate) fn with_measurements(context: &Tensor, measured: &Tensor, clean: &Tensor) -> Tensor {
    Tensor::cat(&[context, measured, &(measured * clean)], 1)
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
}
