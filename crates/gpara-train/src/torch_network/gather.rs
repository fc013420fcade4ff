//! Evaluations that several threads wait for go through a GPU together: four states alone leave it idle between kernels.

use std::sync::{Arc, Mutex, PoisonError};

use gpara::Result;
use tch::{Device, TchError, Tensor};

use super::Weights;
use crate::error::TrainError;

/// One evaluation of some states that share context and timestep.
#[derive(Debug)]
pub(super) struct Request {
    /// `[batch, rows, cols]`.
    pub(super) noisy: Vec<f32>,
    /// `[channels, rows, cols]`.
    pub(super) context: Vec<f32>,
    pub(super) timestep: usize,
    /// Rows and columns.
    pub(super) sides: (usize, usize),
}

impl Request {
    fn batch(&self) -> i64 {
        (self.noisy.len() / (self.sides.0 * self.sides.1)) as i64
    }
}

/// Where the thread that ran a request leaves its outputs.
type Slot = Arc<Mutex<Option<std::result::Result<Vec<f32>, TchError>>>>;

/// Cells of a batch: 64 states of 192 x 256. A request above that runs alone.
const MOST_CELLS: usize = 64 * 192 * 256;

/// Requests that no thread has begun.
#[derive(Debug, Default)]
pub(super) struct Gather {
    waiting: Mutex<Vec<(Request, Slot)>>,
}

impl Gather {
    /// The outputs `[batch, rows, cols]` of a request. The thread that gets hold of the weights runs the requests of all that
    /// wait by then.
    pub(super) fn run(&self, request: Request, weights: &Mutex<Weights>, device: Device) -> Result<Vec<f32>> {
        let slot = Slot::default();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push((request, Arc::clone(&slot)));
        let weights = weights.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outputs) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Ok(outputs.map_err(TrainError::Torch)?);
            }
            let (requests, slots): (Vec<Request>, Vec<Slot>) = self.take().into_iter().unzip();
            if requests.is_empty() {
                // The thread that took it did not come to its end.
                return Err(TrainError::Torch(TchError::Torch("an evaluation beside this one failed".into())).into());
            }
            let outputs = forward(&weights, &requests, device);
            for (place, slot) in slots.iter().enumerate() {
                let own = match &outputs {
                    Ok(outputs) => Ok(outputs[place].clone()),
                    Err(error) => Err(TchError::Torch(error.to_string())),
                };
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
            }
        }
    }

    /// The oldest request and those of the same sides that fit beside it.
    fn take(&self) -> Vec<(Request, Slot)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sides) = waiting.first().map(|(request, _)| request.sides) else { return Vec::new() };
        let mut cells = 0;
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for (request, slot) in waiting.drain(..) {
            let fits = taken.is_empty() || cells + request.noisy.len() <= MOST_CELLS;
            if request.sides == sides && fits {
                cells += request.noisy.len();
                taken.push((request, slot));
            } else {
                left.push((request, slot));
            }
        }
        *waiting = left;
        taken
    }
}

/// The outputs of requests of the same sides, in one batch.
pub(super) fn forward(
    weights: &Weights,
    requests: &[Request],
    device: Device,
) -> std::result::Result<Vec<Vec<f32>>, TchError> {
    let (rows, cols) = (requests[0].sides.0 as i64, requests[0].sides.1 as i64);
    tch::no_grad(|| {
        let noisy: Vec<f32> = requests.iter().flat_map(|request| request.noisy.iter().copied()).collect();
        let noisy = Tensor::from_slice(&noisy).view([-1, 1, rows, cols]).to_device(device);
        let times: Vec<f32> = requests
            .iter()
            .flat_map(|request| std::iter::repeat_n(request.timestep as f32, request.batch() as usize))
            .collect();
        let time = Tensor::from_slice(&times).to_device(device);
        let contexts: Vec<Tensor> = requests
            .iter()
            .map(|request| {
                let channels = Tensor::from_slice(&request.context).view([1, -1, rows, cols]).to_device(device);
                channels.expand([request.batch(), -1, -1, -1], false)
            })
            .collect();
        let output = weights.network.forward(&noisy, &time, &Tensor::cat(&contexts, 0), false);
        let output: Vec<f32> = Vec::try_from(output.reshape([-1]).to_device(Device::Cpu))?;
        let mut rest = output.as_slice();
        let parts = requests.iter().map(|request| {
            let (own, others) = rest.split_at(request.noisy.len());
            rest = others;
            own.to_vec()
        });
        Ok(parts.collect())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use gpara::{DenoiserInput, Grid};

    use super::super::tests::{config, network, random, scene};
    use super::*;
    use crate::config::{Output, Role};

    fn request(name: &str, batch: usize, timestep: usize, sides: (usize, usize)) -> Request {
        let values = |name: &str, count| random(name, count).into_iter().map(|value| value as f32).collect();
        let cells = sides.0 * sides.1;
        let channels = gpara_tasks::radio::CHANNELS.len() + 2;
        Request { noisy: values(name, batch * cells), context: values("context", channels * cells), timestep, sides }
    }

    #[test]
    fn requests_of_other_timesteps_and_batches_in_one_forward_equal_each_alone() {
        let (torch, _, _store) = network(config(Role::Prior, Output::Velocity), |_, _| {});
        let requests = [request("a", 2, 999, (8, 12)), request("b", 1, 250, (8, 12)), request("c", 3, 0, (8, 12))];
        let weights = torch.weights.lock().unwrap();
        let together = forward(&weights, &requests, Device::Cpu).unwrap();
        for (request, together) in requests.iter().zip(&together) {
            let alone = forward(&weights, std::slice::from_ref(request), Device::Cpu).unwrap().remove(0);
            assert_eq!(together.len(), alone.len());
            for (together, alone) in together.iter().zip(&alone) {
                assert!((together - alone).abs() < 1e-5, "{together} {alone}");
            }
        }
    }

    #[test]
    fn a_batch_is_of_one_size_and_leaves_the_others_waiting() {
        let gather = Gather::default();
        let sides = [(8, 12), (8, 8), (8, 12)];
        for (place, sides) in sides.into_iter().enumerate() {
            gather.waiting.lock().unwrap().push((request(&place.to_string(), 1, 5, sides), Slot::default()));
        }
        let found: Vec<Vec<(usize, usize)>> =
            (0..3).map(|_| gather.take().iter().map(|(request, _)| request.sides).collect()).collect();
        assert_eq!(found, [vec![(8, 12), (8, 12)], vec![(8, 8)], vec![]]);
    }

    #[test]
    fn threads_that_ask_at_once_each_get_their_own_answer() {
        let (mut torch, _, _store) = network(config(Role::Prior, Output::Velocity), |_, _| {});
        let grid = Grid::new(8, 12).unwrap();
        let (context, observations) = scene(grid);
        let estimate = |torch: &super::super::TorchNetwork, name: &str| {
            let noisy = random(name, 2 * grid.num_nodes());
            let mut clean = vec![0.0; noisy.len()];
            let input = DenoiserInput { noisy: &noisy, timestep: 500, context: &context, observations: &observations };
            gpara::Denoiser::clean_estimates(torch, input, &mut clean).unwrap();
            clean
        };
        let names = ["a", "b", "c", "d"];
        let alone: Vec<Vec<f64>> = names.iter().map(|name| estimate(&torch, name)).collect();
        torch.together = true;
        let (torch, estimate, barrier) = (&torch, &estimate, &Barrier::new(names.len()));
        let together: Vec<Vec<f64>> = std::thread::scope(|threads| {
            let ask = |name: &'static str| {
                threads.spawn(move || {
                    barrier.wait();
                    estimate(torch, name)
                })
            };
            let handles: Vec<_> = names.into_iter().map(ask).collect();
            handles.into_iter().map(|handle| handle.join().unwrap()).collect()
        });
        for (alone, together) in alone.iter().flatten().zip(together.iter().flatten()) {
            assert!((alone - together).abs() < 1e-4, "{alone} {together}");
        }
    }
}
