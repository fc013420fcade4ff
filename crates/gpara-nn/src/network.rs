//! A network file loaded into `rten`, asked one image at a time.

use std::fmt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use gpara::{Channel, Context, Observations, Result};
use rten::{Dimension, Model, NodeId, RunOptions, ThreadPool, ValueView};

use crate::card::Card;
use crate::caught::caught;
use crate::channels::ContextReader;
use crate::error::ModelError;
use crate::golden::Verification;
use crate::nesting::check_nesting;
use crate::padding::Padding;

/// A loaded network and its card.
///
/// Images run one at a time, so that an answer depends neither on the batch nor on the number of threads; with at
/// least as many images as threads, that many run side by side on one thread each.
pub struct Network {
    card: Card,
    model: Model,
    inputs: InputNodes,
    output: NodeId,
    /// All threads for one image.
    pool: Arc<ThreadPool>,
    /// One thread for each of several images.
    single: Vec<Arc<ThreadPool>>,
}

#[derive(Debug, Clone, Copy)]
struct InputNodes {
    noisy: NodeId,
    timestep: NodeId,
    context: NodeId,
}

impl Network {
    /// Loads a network from the bytes of its two files.
    ///
    /// # Errors
    /// `InvalidInput` for a bad card or zero threads; `Incompatible` if the file is not the one the card describes or
    /// cannot be loaded; `ShapeMismatch` if its inputs and outputs are not those of the card.
    pub fn from_bytes(onnx: &[u8], card: &str, threads: usize) -> Result<Self> {
        if threads == 0 {
            return Err(ModelError::NoThreads.into());
        }
        let card = Card::parse(card)?;
        card.check_hash(onnx)?;
        let failed = |reason: String| ModelError::Load { name: card.name.clone(), reason };
        check_nesting(onnx).map_err(failed)?;
        let model =
            caught(|| Model::load(onnx.to_vec())).map_err(failed)?.map_err(|error| failed(error.to_string()))?;
        let inputs = InputNodes {
            noisy: input_node(&model, &card, "x", &[None, Some(1), None, None])?,
            timestep: input_node(&model, &card, "t", &[None])?,
            context: input_node(&model, &card, "context", &[None, Some(card.channels.len()), None, None])?,
        };
        let num_outputs = Some(card.role.num_outputs());
        let output = model.find_node("output").filter(|node| model.output_ids().contains(node)).ok_or_else(|| {
            interface_error(&card, "output", "output", "nothing".into(), &[None, num_outputs, None, None])
        })?;
        let pool = |threads| Arc::new(ThreadPool::with_num_threads(threads));
        let single = (0..threads).map(|_| pool(1)).collect();
        Ok(Self { card, model, inputs, output, pool: pool(threads), single })
    }

    /// Loads a network from its ONNX file and the card of the same name beside it, `NAME.toml`.
    ///
    /// # Errors
    /// `Io` if a file cannot be read, and those of [`Network::from_bytes`].
    pub fn from_file(onnx: &Path, threads: usize) -> Result<Self> {
        let card = onnx.with_extension("toml");
        let bytes = std::fs::read(onnx).map_err(|source| ModelError::Io { path: onnx.into(), source })?;
        let text = std::fs::read_to_string(&card).map_err(|source| ModelError::Io { path: card, source })?;
        Self::from_bytes(&bytes, &text, threads)
    }

    /// The card.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Recomputes the golden output values of the card.
    ///
    /// # Errors
    /// `Incompatible` with the first value that differs by more than the card's tolerance.
    pub fn verify(&self) -> Result<Verification> {
        let golden = &self.card.golden;
        let (noisy, context) = golden.inputs(self.card.channels.len());
        let output = self.run(&noisy, golden.timestep as f32, &context, golden.grid, &self.pool)?;
        golden.compare(&self.card.name, &output)
    }

    /// The network's output for each state of one scene at one timestep.
    ///
    /// # Shapes
    /// * `noisy` - `[batch, num_nodes]`
    /// * returns `[batch, num_nodes]`, noise, velocity or clean field as the card says
    ///
    /// # Errors
    /// `InvalidInput` for a timestep outside the schedule, `Incompatible` if the scene lacks a channel,
    /// `ShapeMismatch` if the measurements are on another grid, `NonFinite` if an output value is.
    pub(crate) fn outputs(
        &self,
        noisy: &[f64],
        timestep: usize,
        context: &Context,
        observations: &Observations,
    ) -> Result<Vec<f32>> {
        let (grid, num_steps) = (context.grid(), self.card.num_timesteps());
        assert!(noisy.len().is_multiple_of(grid.num_nodes()), "states of {} values on {grid}", noisy.len());
        if timestep >= num_steps {
            return Err(ModelError::Timestep { name: self.card.name.clone(), timestep, num_steps }.into());
        }
        let padding = Padding::new(grid, self.card.size_multiple);
        let context = self.context_values(context, observations, &[], padding)?;
        let states: Vec<&[f64]> = noisy.chunks_exact(grid.num_nodes()).collect();
        let answer = |state: usize, pool: &Arc<ThreadPool>| -> Result<Vec<f32>> {
            // The boundary of f64 and f32: the only cast of a state.
            let values: Vec<f32> = states[state].iter().map(|&value| value as f32).collect();
            let mut padded = Vec::with_capacity(padding.len());
            padding.extend(&values, &mut padded);
            let output = self.run(&padded, timestep as f32, &context, padding.shape(), pool)?;
            let output: Vec<f32> = padding.crop(&output).collect();
            match output.iter().position(|value| !value.is_finite()) {
                None => Ok(output),
                Some(node) => {
                    let ((row, col), value, name) = (grid.row_col(node), output[node], self.card.name.clone());
                    Err(ModelError::Output { name, value, timestep, state, row, col }.into())
                }
            }
        };
        let answers = self.side_by_side(states.len(), &answer);
        let mut outputs = Vec::with_capacity(noisy.len());
        for answer in answers {
            outputs.extend(answer?);
        }
        Ok(outputs)
    }

    /// The context array, `[channels, padded rows * padded cols]`.
    ///
    /// # Errors
    /// Those of [`ContextReader::read`].
    fn context_values(
        &self,
        context: &Context,
        observations: &Observations,
        extra: &[Channel],
        padding: Padding,
    ) -> Result<Vec<f32>> {
        let Card { name, channels, target, .. } = &self.card;
        let reader = ContextReader { network: name, channels, target: *target, extra };
        let values = reader.read(context, observations)?;
        let mut padded = Vec::with_capacity(channels.len() * padding.len());
        values.chunks_exact(context.grid().num_nodes()).for_each(|channel| padding.extend(channel, &mut padded));
        Ok(padded)
    }

    /// The network's output maps for one state of a scene; `extra` are channels that no scene has by itself.
    ///
    /// # Shapes
    /// * `state`, values of `extra` - `num_nodes`
    /// * returns `[num_outputs, num_nodes]`
    ///
    /// # Errors
    /// `Incompatible` if a channel is missing, `NonFinite` if an output value is.
    pub(crate) fn maps(
        &self,
        state: &[f64],
        t: f32,
        context: &Context,
        observations: &Observations,
        extra: &[Channel],
    ) -> Result<Vec<f64>> {
        let grid = context.grid();
        assert_eq!(state.len(), grid.num_nodes(), "one value a node");
        let padding = Padding::new(grid, self.card.size_multiple);
        let context = self.context_values(context, observations, extra, padding)?;
        let state: Vec<f32> = state.iter().map(|&value| value as f32).collect();
        let mut padded = Vec::with_capacity(padding.len());
        padding.extend(&state, &mut padded);
        let output = self.run(&padded, t, &context, padding.shape(), &self.pool)?;
        let maps: Vec<f64> =
            output.chunks_exact(padding.len()).flat_map(|map| padding.crop(map)).map(f64::from).collect();
        match maps.iter().position(|value| !value.is_finite()) {
            None => Ok(maps),
            Some(at) => {
                let (row, col) = grid.row_col(at % grid.num_nodes());
                let (name, value, state) = (self.card.name.clone(), maps[at] as f32, at / grid.num_nodes());
                Err(ModelError::Output { name, value, timestep: t as usize, state, row, col }.into())
            }
        }
    }

    /// `answer(0), .., answer(count - 1)`: as many at once as there are threads, what is left over on all threads.
    fn side_by_side<T: Send>(&self, count: usize, answer: &(impl Fn(usize, &Arc<ThreadPool>) -> T + Sync)) -> Vec<T> {
        let num_workers = self.single.len();
        let together = if num_workers > 1 { count / num_workers * num_workers } else { 0 };
        let mut answers = Vec::with_capacity(count);
        for first in (0..together).step_by(num_workers) {
            std::thread::scope(|scope| {
                let spawn = |(at, pool)| scope.spawn(move || answer(at, pool));
                let workers: Vec<_> = (first..).zip(&self.single).map(spawn).collect();
                let join = |worker: ScopedJoinHandle<'_, T>| worker.join().unwrap_or_else(|panic| resume_unwind(panic));
                answers.extend(workers.into_iter().map(join));
            });
        }
        answers.extend((together..count).map(|at| answer(at, &self.pool)));
        answers
    }

    /// One image through the network; `shape` are rows and columns, multiples of the card's `size_multiple`.
    fn run(
        &self,
        noisy: &[f32],
        t: f32,
        context: &[f32],
        shape: [usize; 2],
        pool: &Arc<ThreadPool>,
    ) -> Result<Vec<f32>> {
        let [rows, cols] = shape;
        let failed = |reason: String| ModelError::Run { name: self.card.name.clone(), timestep: t as usize, reason };
        let view =
            |shape: &[usize], values| ValueView::from_shape(shape, values).map_err(|error| failed(error.to_string()));
        let time = [t];
        let inputs = vec![
            (self.inputs.noisy, view(&[1, 1, rows, cols], noisy)?.into()),
            (self.inputs.timestep, view(&[1], &time)?.into()),
            (self.inputs.context, view(&[1, self.card.channels.len(), rows, cols], context)?.into()),
        ];
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(pool)));
        let answer = caught(|| self.model.run_n(inputs, [self.output], Some(options))).map_err(failed)?;
        let [output] = answer.map_err(|error| failed(error.to_string()))?;
        let (found, values) = output.into_shape_vec::<f32, 4>().map_err(|error| failed(error.to_string()))?;
        let num_outputs = self.card.role.num_outputs();
        if found != [1, num_outputs, rows, cols] {
            return Err(failed(format!("output has shape {found:?}, 1x{num_outputs}x{rows}x{cols} is needed")).into());
        }
        Ok(values)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("name", &self.card.name).finish_non_exhaustive()
    }
}

/// The input node of that name, with the sizes the card implies (`None`: any).
fn input_node(model: &Model, card: &Card, tensor: &'static str, expected: &[Option<usize>]) -> Result<NodeId> {
    let node = model.find_node(tensor).filter(|node| model.input_ids().contains(node));
    let shape = node.and_then(|node| model.node_info(node)).and_then(|info| info.shape());
    match (node, shape) {
        (Some(node), Some(shape)) if fits(&shape, expected) => Ok(node),
        (Some(_), Some(shape)) => {
            let found = join(shape.iter().map(|dimension| match dimension {
                Dimension::Fixed(size) => size.to_string(),
                Dimension::Symbolic(name) => name.clone(),
            }));
            Err(interface_error(card, "input", tensor, found, expected).into())
        }
        (Some(node), None) => Ok(node),
        (None, _) => Err(interface_error(card, "input", tensor, "nothing".into(), expected).into()),
    }
}

fn fits(shape: &[Dimension], expected: &[Option<usize>]) -> bool {
    shape.len() == expected.len()
        && shape.iter().zip(expected).all(|(dimension, expected)| match (dimension, expected) {
            (Dimension::Fixed(size), Some(expected)) => size == expected,
            (Dimension::Fixed(1) | Dimension::Symbolic(_), None) | (Dimension::Symbolic(_), Some(_)) => true,
            // A fixed side would accept a single grid only.
            (Dimension::Fixed(_), None) => false,
        })
}

fn interface_error(
    card: &Card,
    what: &'static str,
    tensor: &'static str,
    found: String,
    expected: &[Option<usize>],
) -> ModelError {
    let expected = join(expected.iter().map(|size| size.map_or("any".into(), |size| size.to_string())));
    ModelError::Interface { name: card.name.clone(), what, tensor, found, expected }
}

fn join(sizes: impl Iterator<Item = String>) -> String {
    sizes.collect::<Vec<_>>().join("x")
}
