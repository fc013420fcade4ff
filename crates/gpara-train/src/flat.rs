//! All weights in one tensor: the optimiser, the averaged weights and a checkpoint are a few operations on it.

use tch::{Kind, Tensor, nn};

/// Each variable starts at a multiple of this many floats: 16 bytes, which fast convolutions ask for.
const ALIGNMENT: i64 = 4;

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// The trainable variables of a store as views of one flat tensor, with Adam's moments and the averaged weights.
#[derive(Debug)]
pub(crate) struct FlatParameters {
    slots: Vec<Slot>,
    weights: Tensor,
    mean: Tensor,
    square: Tensor,
    average: Tensor,
}

/// One variable.
#[derive(Debug)]
struct Slot {
    name: String,
    variable: Tensor,
    start: i64,
    padding: i64,
}

/// One step of Adam.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AdamStep {
    /// Number of this step, from 1.
    pub(crate) number: u64,
    /// Learning rate.
    pub(crate) rate: f64,
    /// Decoupled weight decay.
    pub(crate) weight_decay: f64,
    /// Largest global norm of the gradient.
    pub(crate) clip_norm: f64,
    /// Decay of the averaged weights once warmed up.
    pub(crate) ema_decay: f64,
}

impl FlatParameters {
    /// Moves the variables of `store` into one tensor, in the order of their names; moments start at zero, the averaged
    /// weights at the weights.
    pub(crate) fn new(store: &nn::VarStore) -> Self {
        let mut variables: Vec<(String, Tensor)> = store.variables().into_iter().collect();
        variables.sort_by(|left, right| left.0.cmp(&right.0));
        let mut start = 0;
        let mut slots = Vec::with_capacity(variables.len());
        for (name, variable) in variables {
            let count = variable.numel() as i64;
            let padding = (ALIGNMENT - count % ALIGNMENT) % ALIGNMENT;
            slots.push(Slot { name, variable, start, padding });
            start += count + padding;
        }
        let weights = Tensor::zeros([start], (Kind::Float, store.device()));
        tch::no_grad(|| {
            for slot in &mut slots {
                let view = weights.narrow(0, slot.start, slot.variable.numel() as i64).view_as(&slot.variable);
                view.shallow_clone().copy_(&slot.variable);
                slot.variable.set_data(&view);
            }
        });
        let (mean, square, average) = (weights.zeros_like(), weights.zeros_like(), weights.copy());
        Self { slots, weights, mean, square, average }
    }

    /// Number of weights, without padding.
    pub(crate) fn num_weights(&self) -> usize {
        self.slots.iter().map(|slot| slot.variable.numel()).sum()
    }

    /// The gradient of `loss` with respect to the flat tensor.
    pub(crate) fn gradient(&self, loss: &Tensor) -> Tensor {
        let variables: Vec<&Tensor> = self.slots.iter().map(|slot| &slot.variable).collect();
        let gradients = Tensor::run_backward(&[loss], &variables, false, false);
        let mut pieces = Vec::with_capacity(gradients.len());
        for (slot, gradient) in self.slots.iter().zip(gradients) {
            pieces.push(gradient.reshape([-1]));
            if slot.padding > 0 {
                pieces.push(Tensor::zeros([slot.padding], (Kind::Float, self.weights.device())));
            }
        }
        Tensor::cat(&pieces, 0)
    }

    /// Clips the gradient by its global norm, then one step of Adam with decoupled decay, then the averaged weights
    /// follow: their decay is `min(ema_decay, (1 + number) / (10 + number))`, so that they forget the start.
    pub(crate) fn step(&mut self, gradient: &Tensor, step: AdamStep) {
        tch::no_grad(|| {
            let norm = gradient.norm();
            let gradient = gradient * (step.clip_norm / (norm + 1e-12)).clamp_max(1.0);
            let _ = self.mean.lerp_(&gradient, 1.0 - BETA1);
            let _ = self.square.g_mul_scalar_(BETA2);
            let _ = self.square.g_add_(&(gradient.square() * (1.0 - BETA2)));
            let number = step.number as f64;
            let (bias1, bias2) = (1.0 - BETA1.powf(number), 1.0 - BETA2.powf(number));
            let denominator = self.square.sqrt() * (1.0 / bias2.sqrt()) + EPSILON;
            if step.weight_decay > 0.0 {
                let _ = self.weights.g_mul_scalar_(1.0 - step.rate * step.weight_decay);
            }
            let _ = self.weights.g_sub_(&(&self.mean / denominator * (step.rate / bias1)));
            let decay = step.ema_decay.min((1.0 + number) / (10.0 + number));
            let _ = self.average.lerp_(&self.weights, 1.0 - decay);
        });
    }

    /// Runs `work` with the averaged weights in place, then puts the weights back bit by bit.
    pub(crate) fn with_average<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let kept = self.weights.copy();
        tch::no_grad(|| self.weights.copy_(&self.average));
        let result = work();
        tch::no_grad(|| self.weights.copy_(&kept));
        result
    }

    /// The averaged weights by variable name.
    pub(crate) fn averaged(&self) -> Vec<(String, Tensor)> {
        let view = |slot: &Slot| {
            self.average.narrow(0, slot.start, slot.variable.numel() as i64).view_as(&slot.variable).detach()
        };
        self.slots.iter().map(|slot| (slot.name.clone(), view(slot))).collect()
    }

    /// The four flat tensors, for a checkpoint.
    pub(crate) fn state(&self) -> [(&'static str, &Tensor); 4] {
        [("weights", &self.weights), ("mean", &self.mean), ("square", &self.square), ("average", &self.average)]
    }

    /// Takes over the four flat tensors of a checkpoint, in the order of [`state`](Self::state).
    ///
    /// # Panics
    /// If a tensor has another length than this one's.
    #[track_caller]
    pub(crate) fn restore(&mut self, state: [Tensor; 4]) {
        let own = [&mut self.weights, &mut self.mean, &mut self.square, &mut self.average];
        tch::no_grad(|| {
            for (own, stored) in own.into_iter().zip(state) {
                assert_eq!(own.size(), stored.size(), "a checkpoint has the length of the parameters");
                own.copy_(&stored);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;
    use tch::nn::{Module, OptimizerConfig};

    #[test]
    fn parity_adam_on_flat_parameters_matches_tch() {
        let (kind, device) = (Kind::Float, Device::Cpu);
        tch::manual_seed(3);
        let (input, target) = (Tensor::randn([16, 5], (kind, device)), Tensor::randn([16, 3], (kind, device)));
        let network = |store: &nn::VarStore| {
            nn::seq()
                .add(nn::linear(store.root() / "first", 5, 7, Default::default()))
                .add_fn(|x| x.silu())
                .add(nn::linear(store.root() / "second", 7, 3, Default::default()))
        };
        let (ours, theirs) = (nn::VarStore::new(device), nn::VarStore::new(device));
        tch::manual_seed(4);
        let our_network = network(&ours);
        tch::manual_seed(4);
        let their_network = network(&theirs);
        let mut flat = FlatParameters::new(&ours);
        let mut adam = nn::Adam::default().build(&theirs, 1e-2).unwrap();
        for number in 1..=20 {
            let loss = our_network.forward(&input).mse_loss(&target, tch::Reduction::Mean);
            let gradient = flat.gradient(&loss);
            let step = AdamStep { number, rate: 1e-2, weight_decay: 0.0, clip_norm: 1e9, ema_decay: 0.9 };
            flat.step(&gradient, step);
            adam.backward_step(&their_network.forward(&input).mse_loss(&target, tch::Reduction::Mean));
        }
        let theirs = theirs.variables();
        for (name, variable) in ours.variables() {
            let difference = f64::try_from((&variable - &theirs[&name]).abs().max()).unwrap();
            assert!(difference < 1e-5, "{name}: {difference}");
        }
    }

    #[test]
    fn with_average_puts_the_weights_back() {
        let store = nn::VarStore::new(Device::Cpu);
        let layer = nn::linear(store.root(), 3, 2, Default::default());
        let mut flat = FlatParameters::new(&store);
        let before = Vec::<f32>::try_from(layer.ws.reshape([-1])).unwrap();
        let gradient = flat.weights.ones_like();
        flat.step(&gradient, AdamStep { number: 1, rate: 0.1, weight_decay: 0.0, clip_norm: 1e9, ema_decay: 0.99 });
        let stepped = Vec::<f32>::try_from(layer.ws.reshape([-1])).unwrap();
        assert_ne!(before, stepped);
        let inside = flat.with_average(|| Vec::<f32>::try_from(layer.ws.reshape([-1])).unwrap());
        assert_ne!(inside, stepped);
        assert_eq!(Vec::<f32>::try_from(layer.ws.reshape([-1])).unwrap(), stepped);
    }

    #[test]
    fn gradient_above_the_largest_norm_is_scaled_down_to_it() {
        let store = nn::VarStore::new(Device::Cpu);
        let _layer = nn::linear(store.root(), 3, 2, Default::default());
        let mut flat = FlatParameters::new(&store);
        let gradient = flat.weights.ones_like() * 100.0;
        flat.step(&gradient, AdamStep { number: 1, rate: 0.1, weight_decay: 0.0, clip_norm: 1.0, ema_decay: 0.9 });
        let norm = f64::try_from(flat.mean.norm()).unwrap();
        assert!((norm - 0.1).abs() < 1e-6, "first moment is a tenth of the clipped gradient: {norm}");
    }
}
