//! Batches drawn on threads of their own, a few steps ahead of the device.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use gpara::Result;

use crate::batches::{BatchSource, Draw};

/// Threads that draw, by turns. The samples of a batch are drawn in parallel and take unequal time: where one batch waits for
/// its last sample, the next one has work for the cores.
const DRAWERS: u64 = 2;

/// Batches that each thread holds ready.
const READY: usize = 4;

/// The draws of a run in the order of its steps.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    drawers: Vec<(Receiver<Result<Draw>>, JoinHandle<()>)>,
    turn: usize,
}

impl Ahead {
    /// Starts at a step.
    pub(crate) fn begin(&mut self, source: BatchSource, step: u64) {
        self.end();
        self.drawers = (0..DRAWERS).map(|drawer| draw_every(source.clone(), step + drawer)).collect();
    }

    /// The next draw.
    ///
    /// # Errors
    /// Those of drawing.
    ///
    /// # Panics
    /// If nothing was begun.
    pub(crate) fn next(&mut self) -> Result<Draw> {
        let (draws, _) = self.drawers.get(self.turn).expect("begun before the first step");
        self.turn = (self.turn + 1) % self.drawers.len();
        draws.recv().expect("a drawing thread lives until its receiver is dropped")
    }

    /// Stops the threads.
    pub(crate) fn end(&mut self) {
        self.turn = 0;
        let (receivers, workers): (Vec<_>, Vec<_>) = self.drawers.drain(..).unzip();
        drop(receivers);
        workers.into_iter().for_each(|worker| worker.join().expect("drawing batches does not panic"));
    }
}

/// A thread that draws step `first` and every [`DRAWERS`]-th after it until its receiver is dropped.
fn draw_every(mut source: BatchSource, first: u64) -> (Receiver<Result<Draw>>, JoinHandle<()>) {
    let (sender, receiver) = sync_channel(READY);
    let worker = std::thread::spawn(move || {
        let mut step = first;
        while sender.send(source.draw(step)).is_ok() {
            step += DRAWERS;
        }
    });
    (receiver, worker)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpara::{NoiseSchedule, SeedTree};
    use tch::Device;

    use super::*;
    use crate::config::TrainConfig;

    #[test]
    fn draws_come_in_the_order_of_the_steps_from_any_first_one() {
        let smoke = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/smoke_prior.toml");
        let config = TrainConfig::read(&smoke).unwrap();
        let (maps, _) = crate::data::load(config.data, None, SeedTree::new(1), 2, Device::Cpu).unwrap();
        let mut source = BatchSource::new(&config, &maps, &NoiseSchedule::ddpm()).unwrap();
        let mut ahead = Ahead::default();
        for first in [0, 3] {
            ahead.begin(source.clone(), first);
            for step in first..first + 5 {
                let draw = ahead.next().unwrap();
                assert_eq!(draw, source.draw(step).unwrap());
                assert_eq!(draw.step, step);
            }
        }
        ahead.end();
    }
}
