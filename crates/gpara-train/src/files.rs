//! Files of a run: checkpoints and weights in safetensors, everything written beside its place and then renamed.

use std::collections::HashMap;
use std::path::Path;

use gpara::Result;
use safetensors::{Dtype, SafeTensors};
use tch::{Device, Kind, Tensor};

use crate::error::TrainError;

/// Writes `bytes` to `path` in one step: a reader sees the old file or the new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension("tmp");
    let failed = |source| TrainError::Io { action: "write", path: path.into(), source };
    std::fs::write(&beside, bytes).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)?;
    Ok(())
}

/// Writes named tensors (f32 or f16) with text beside them.
pub(crate) fn write_tensors(path: &Path, tensors: &[(String, Tensor)], text: HashMap<String, String>) -> Result<()> {
    let mut parts = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let tensor = tensor.to_device(Device::Cpu).contiguous();
        let (dtype, width) = if tensor.kind() == Kind::Half { (Dtype::F16, 2) } else { (Dtype::F32, 4) };
        let mut bytes = vec![0u8; tensor.numel() * width];
        tensor.f_copy_data_u8(&mut bytes, tensor.numel()).map_err(TrainError::Torch)?;
        let shape: Vec<usize> = tensor.size().iter().map(|&side| side as usize).collect();
        parts.push((name.as_str(), dtype, shape, bytes));
    }
    let mut views = Vec::with_capacity(parts.len());
    for (name, dtype, shape, bytes) in &parts {
        let view = safetensors::tensor::TensorView::new(*dtype, shape.clone(), bytes)
            .map_err(|error| TrainError::File { path: path.into(), reason: error.to_string() })?;
        views.push((*name, view));
    }
    let bytes = safetensors::serialize(views, Some(text))
        .map_err(|error| TrainError::File { path: path.into(), reason: error.to_string() })?;
    write_whole(path, &bytes)
}

/// Reads named tensors (on the CPU, in their own kind) and the text beside them.
pub(crate) fn read_tensors(path: &Path) -> Result<(HashMap<String, Tensor>, HashMap<String, String>)> {
    let bytes = std::fs::read(path).map_err(|source| TrainError::Io { action: "read", path: path.into(), source })?;
    let broken =
        |error: safetensors::SafeTensorError| TrainError::File { path: path.into(), reason: error.to_string() };
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(broken)?;
    let text = header.metadata().clone().unwrap_or_default();
    let file = SafeTensors::deserialize(&bytes).map_err(broken)?;
    let mut tensors = HashMap::new();
    for (name, view) in file.iter() {
        let kind = match view.dtype() {
            Dtype::F16 => Kind::Half,
            Dtype::F32 => Kind::Float,
            other => {
                let reason = format!("tensor {name} has type {other:?}, F16 and F32 are allowed");
                return Err(TrainError::File { path: path.into(), reason }.into());
            }
        };
        let size: Vec<i64> = view.shape().iter().map(|&side| side as i64).collect();
        let tensor = Tensor::f_from_data_size(view.data(), &size, kind).map_err(TrainError::Torch)?;
        tensors.insert(name.to_string(), tensor);
    }
    Ok((tensors, text))
}
