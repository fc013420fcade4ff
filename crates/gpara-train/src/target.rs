//! The scale of a mean network over a batch: `gpara_nn::TargetScale` for tensors.

use gpara_nn::{LOG_DEPTH_FLOOR, LOG_DEPTH_RATIO, RELATIVE_FLOOR, Target};
use tch::{Kind, Tensor};

/// A scale for each sample of a batch.
#[derive(Debug)]
pub(crate) enum BatchScale {
    Identity,
    LogDepth,
    /// `[B, 1, 1, 1]` each.
    Affine {
        shift: Tensor,
        scale: Tensor,
    },
}

impl BatchScale {
    /// The scales given which cells of `clean` are measured; both `[B, 1, H, W]`.
    pub(crate) fn of(target: Target, measured: Option<&Tensor>, clean: &Tensor) -> Self {
        match (target, measured) {
            (Target::Field, _) | (Target::Relative, None) => Self::Identity,
            (Target::LogDepth, _) => Self::LogDepth,
            (Target::Relative, Some(measured)) => {
                let sum = |tensor: &Tensor| tensor.sum_dim_intlist([1, 2, 3].as_slice(), true, Kind::Float);
                let number = sum(measured);
                let any = number.gt(0.0).to_kind(Kind::Float);
                let count = number.clamp_min(1.0);
                let shift = sum(&(measured * clean)) / &count;
                let variance = sum(&(measured * (clean - &shift).square())) / &count;
                // Samples without measurements keep the field: shift 0, scale 1.
                let scale = variance.sqrt().clamp_min(RELATIVE_FLOOR) * &any + (1.0 - &any);
                Self::Affine { shift: shift * any, scale }
            }
        }
    }

    /// From the normalised field to the network's scale.
    pub(crate) fn forward(&self, field: &Tensor) -> Tensor {
        match self {
            Self::Identity => field.shallow_clone(),
            Self::LogDepth => {
                ((field + 1.0) * 0.5).clamp_min(LOG_DEPTH_FLOOR).log() * (2.0 / LOG_DEPTH_RATIO.ln()) + 1.0
            }
            Self::Affine { shift, scale } => (field - shift) / scale,
        }
    }

    /// From the network's scale to the normalised field.
    pub(crate) fn inverse(&self, value: &Tensor) -> Tensor {
        match self {
            Self::Identity => value.shallow_clone(),
            Self::LogDepth => ((value - 1.0) * (0.5 * LOG_DEPTH_RATIO.ln())).exp() * 2.0 - 1.0,
            Self::Affine { shift, scale } => value * scale + shift,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_batch_scales_are_those_of_the_deployed_network() {
        let clean = Tensor::from_slice(&[-0.7f32, 0.1, 0.4, 0.9, -0.2, 0.3, 0.3, 0.5]).view([2, 1, 2, 2]);
        // Three measurements in the first sample, none in the second.
        let measured = Tensor::from_slice(&[1f32, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]).view([2, 1, 2, 2]);
        for target in [Target::Field, Target::LogDepth, Target::Relative] {
            let scale = BatchScale::of(target, Some(&measured), &clean);
            let forward = scale.forward(&clean);
            let back: Vec<f32> = Vec::try_from(scale.inverse(&forward).reshape([-1])).unwrap();
            let forward: Vec<f32> = Vec::try_from(forward.reshape([-1])).unwrap();
            let clean: Vec<f32> = Vec::try_from(clean.reshape([-1])).unwrap();
            let scales = [target.scale(&[-0.7, 0.4, 0.9]), target.scale(&[])];
            for at in 0..8 {
                let expected = scales[at / 4].forward(f64::from(clean[at]));
                assert!(
                    (f64::from(forward[at]) - expected).abs() < 1e-5,
                    "{target:?} {at}: {} {expected}",
                    forward[at]
                );
                assert!((back[at] - clean[at]).abs() < 1e-5, "{target:?} {at}");
            }
        }
    }
}
