//! The graph of a [`ScorerNet`]: its encoder-decoder, then message passing by shifted copies of the maps.

use gpara::{EDGE_OFFSETS, Result};

use super::graph::Value;
use super::unet_graph::{UNetWriter, image};
use crate::scorer_net::{MessageBlock, ScorerNet};

/// As `scorer_net::DEGREE_FLOOR`.
const DEGREE_FLOOR: f32 = 1e-6;

/// The ONNX file of a scorer: inputs `x` (utility), `t` (budget), `context`, output `output`.
///
/// # Errors
/// `Incompatible` if a weight is not exactly an f16.
pub(super) fn onnx_bytes(network: &ScorerNet) -> Result<Vec<u8>> {
    let config = &network.trunk.config;
    let mut writer = UNetWriter::new(config.groups);
    let inputs = writer.inputs(config.in_channels - 1);
    let budget = writer.embedded_time("trunk.", &network.trunk, &inputs.t)?;
    let mut hidden = writer.unet("trunk.", &network.trunk, &inputs, &budget)?;
    let mut messages = Messages::new(&mut writer, &inputs.context, network.first_edge);
    for (at, block) in network.blocks.iter().enumerate() {
        hidden = messages.block(&format!("blocks.{at}"), &hidden, block, &budget)?;
    }
    let score = writer.conv("head", &hidden, &network.head, 1)?;
    writer.graph.output("output", &score, &image(1));
    Ok(writer.graph.finish("scorer"))
}

/// Message passing along the four edge maps.
struct Messages<'a> {
    writer: &'a mut UNetWriter,
    /// `[N, 1, H, W]` each, in the order of [`EDGE_OFFSETS`].
    edges: Vec<Value>,
    degree: Value,
    image_axes: Value,
    border: Value,
    last_axes: Value,
}

impl<'a> Messages<'a> {
    fn new(writer: &'a mut UNetWriter, context: &Value, first_edge: i64) -> Self {
        let graph = &mut writer.graph;
        let channel_axis = graph.integers("channel_axis", &[1]);
        let edges: Vec<Value> = (first_edge..first_edge + 4)
            .map(|channel| {
                let start = graph.integers(&format!("edge_{channel}_start"), &[channel]);
                let end = graph.integers(&format!("edge_{channel}_end"), &[channel + 1]);
                graph.call("Slice", &[context, &start, &end, &channel_axis], &[])
            })
            .collect();
        let image_axes = graph.integers("image_axes", &[2, 3]);
        // Begins of the four axes, then ends.
        let border = graph.integers("border", &[0, 0, 1, 1, 0, 0, 1, 1]);
        let last_axes = graph.integers("budget_axes", &[2, 3]);
        let mut messages = Self { writer, edges, degree: String::new(), image_axes, border, last_axes };
        messages.degree = messages.degrees();
        messages
    }

    /// Sum of the conductances of each cell: an edge counts at its first end and at its second.
    fn degrees(&mut self) -> Value {
        let mut sum = self.writer.graph.floats("degree_floor", &[1, 1, 1, 1], &[DEGREE_FLOOR]);
        for (edges, (down, right)) in self.edges.clone().iter().zip(EDGE_OFFSETS) {
            let back = self.ahead(edges, (-down, -right));
            sum = self.add(&sum, edges);
            sum = self.add(&sum, &back);
        }
        sum
    }

    fn add(&mut self, first: &Value, second: &Value) -> Value {
        self.writer.graph.call("Add", &[first, second], &[])
    }

    /// The value at `node + offset`, 0 outside of the grid.
    fn ahead(&mut self, x: &Value, (down, right): (isize, isize)) -> Value {
        let (border, axes) = (self.border.clone(), self.image_axes.clone());
        let graph = &mut self.writer.graph;
        let padded = graph.call("Pad", &[x, &border], &[]);
        let name = format!("shift_{padded}");
        let (starts, ends): (Vec<i64>, Vec<i64>) = [down, right]
            .into_iter()
            .map(|shift| (1 + shift as i64, if shift == 1 { i64::from(i32::MAX) } else { shift as i64 - 1 }))
            .unzip();
        let starts = graph.integers(&format!("{name}_starts"), &starts);
        let ends = graph.integers(&format!("{name}_ends"), &ends);
        graph.call("Slice", &[&padded, &starts, &ends, &axes], &[])
    }

    /// The mean over neighbours, weighted by conductance.
    fn message(&mut self, hidden: &Value) -> Value {
        let mut sum: Option<Value> = None;
        for (edges, (down, right)) in self.edges.clone().iter().zip(EDGE_OFFSETS) {
            let neighbors = self.ahead(hidden, (down, right));
            let forward = self.writer.graph.call("Mul", &[edges, &neighbors], &[]);
            let own = self.writer.graph.call("Mul", &[edges, hidden], &[]);
            let backward = self.ahead(&own, (-down, -right));
            let both = self.add(&forward, &backward);
            sum = Some(match sum {
                Some(sum) => self.add(&sum, &both),
                None => both,
            });
        }
        let sum = sum.expect("a grid has edge directions");
        let degree = self.degree.clone();
        self.writer.graph.call("Div", &[&sum, &degree], &[])
    }

    fn block(&mut self, name: &str, hidden: &Value, layers: &MessageBlock, budget: &Value) -> Result<Value> {
        let message = self.message(hidden);
        let own = self.writer.conv(&format!("{name}.own"), hidden, &layers.own, 1)?;
        let neighbors = self.writer.conv(&format!("{name}.neighbors"), &message, &layers.neighbors, 1)?;
        let shift = self.writer.linear(&format!("{name}.budget"), budget, &layers.budget)?;
        let axes = self.last_axes.clone();
        let shift = self.writer.graph.call("Unsqueeze", &[&shift, &axes], &[]);
        let inner = self.add(&own, &neighbors);
        let inner = self.add(&inner, &shift);
        let inner = self.writer.silu(&inner);
        let mixed = self.writer.conv(&format!("{name}.mix"), &inner, &layers.mix, 1)?;
        Ok(self.add(hidden, &mixed))
    }
}
