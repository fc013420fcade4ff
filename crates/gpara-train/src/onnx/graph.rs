//! Writes an ONNX graph node by node; each call names its result for the next.

use prost::Message;
use tch::{Device, Kind, Tensor};

use gpara::Result;

use super::error::ExportError;
use super::proto::{
    AttributeProto, DimensionProto, FLOAT, FLOAT16, GraphProto, INT64, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::error::TrainError;

/// Operator set 18: the first in which `Split` takes a number of parts.
const OPERATOR_SET: i64 = 18;
/// File format that goes with it.
const IR_VERSION: i64 = 8;

/// Name of a value in the graph.
pub(super) type Value = String;

/// A parameter of an operator.
pub(super) enum Attribute<'a> {
    Int(&'a str, i64),
    Ints(&'a str, &'a [i64]),
    Float(&'a str, f32),
}

/// A size of an input or output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Size {
    Fixed(i64),
    Any(&'static str),
}

/// A graph under construction.
#[derive(Debug, Default)]
pub(super) struct GraphBuilder {
    graph: GraphProto,
}

impl GraphBuilder {
    pub(super) fn input(&mut self, name: &str, sizes: &[Size]) -> Value {
        self.graph.input.push(value_info(name, sizes));
        name.into()
    }

    /// Makes `value` the output of that name.
    pub(super) fn output(&mut self, name: &str, value: &Value, sizes: &[Size]) {
        self.push("Identity", &[value], &[name.to_string()], &[]);
        self.graph.output.push(value_info(name, sizes));
    }

    /// A call with one result.
    pub(super) fn call(&mut self, operator: &str, inputs: &[&Value], attributes: &[Attribute<'_>]) -> Value {
        let [result] = self.call_many(operator, inputs, attributes);
        result
    }

    /// A call with several results.
    pub(super) fn call_many<const N: usize>(
        &mut self,
        operator: &str,
        inputs: &[&Value],
        attributes: &[Attribute<'_>],
    ) -> [Value; N] {
        let number = self.graph.node.len();
        let results = std::array::from_fn(|at| format!("{operator}_{number}_{at}"));
        self.push(operator, inputs, &results, attributes);
        results
    }

    fn push(&mut self, operator: &str, inputs: &[&Value], outputs: &[Value], attributes: &[Attribute<'_>]) {
        self.graph.node.push(NodeProto {
            input: inputs.iter().map(|input| (*input).clone()).collect(),
            output: outputs.to_vec(),
            name: outputs.first().cloned(),
            op_type: Some(operator.into()),
            attribute: attributes.iter().map(attribute_proto).collect(),
        });
    }

    /// A weight: stored as f16, cast to f32 (readers do that once, when they load the file).
    ///
    /// # Errors
    /// `Incompatible` if a value is not exactly an f16: training rounds weights when it writes them, so that what is
    /// validated, compared and deployed are the same numbers.
    pub(super) fn weight(&mut self, name: &str, tensor: &Tensor) -> Result<Value> {
        let tensor = tensor.to_device(Device::Cpu).to_kind(Kind::Float).contiguous();
        let half = tensor.to_kind(Kind::Half);
        if !half.to_kind(Kind::Float).equal(&tensor) {
            return Err(ExportError::NotHalf { tensor: name.into() }.into());
        }
        let mut bytes = vec![0u8; 2 * half.numel()];
        half.f_copy_data_u8(&mut bytes, half.numel()).map_err(TrainError::Torch)?;
        let stored = format!("{name}.f16");
        self.initializer(&stored, &half.size(), FLOAT16, bytes);
        Ok(self.call("Cast", &[&stored], &[Attribute::Int("to", i64::from(FLOAT))]))
    }

    /// An f32 constant.
    pub(super) fn floats(&mut self, name: &str, dims: &[i64], values: &[f32]) -> Value {
        self.initializer(name, dims, FLOAT, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// A list of integers, e.g. a shape.
    pub(super) fn integers(&mut self, name: &str, values: &[i64]) -> Value {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer(name, &[values.len() as i64], INT64, bytes)
    }

    fn initializer(&mut self, name: &str, dims: &[i64], data_type: i32, raw_data: Vec<u8>) -> Value {
        self.graph.initializer.push(TensorProto {
            dims: dims.to_vec(),
            data_type: Some(data_type),
            name: Some(name.into()),
            raw_data: Some(raw_data),
        });
        name.into()
    }

    /// The bytes of the file.
    pub(super) fn finish(mut self, name: &str) -> Vec<u8> {
        self.graph.name = Some(name.into());
        let model = ModelProto {
            ir_version: Some(IR_VERSION),
            producer_name: Some("gpara".into()),
            producer_version: Some(env!("CARGO_PKG_VERSION").into()),
            graph: Some(self.graph),
            opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(OPERATOR_SET) }],
        };
        model.encode_to_vec()
    }
}

fn attribute_proto(attribute: &Attribute<'_>) -> AttributeProto {
    let named = |name: &str, kind| AttributeProto { name: Some(name.into()), r#type: Some(kind), ..Default::default() };
    match *attribute {
        Attribute::Float(name, value) => AttributeProto { f: Some(value), ..named(name, 1) },
        Attribute::Int(name, value) => AttributeProto { i: Some(value), ..named(name, 2) },
        Attribute::Ints(name, values) => AttributeProto { ints: values.into(), ..named(name, 7) },
    }
}

fn value_info(name: &str, sizes: &[Size]) -> ValueInfoProto {
    let dim = sizes
        .iter()
        .map(|size| match *size {
            Size::Fixed(value) => DimensionProto { dim_value: Some(value), dim_param: None },
            Size::Any(name) => DimensionProto { dim_value: None, dim_param: Some(name.into()) },
        })
        .collect();
    let tensor_type = TensorTypeProto { elem_type: Some(FLOAT), shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto { name: Some(name.into()), r#type: Some(TypeProto { tensor_type: Some(tensor_type) }) }
}
