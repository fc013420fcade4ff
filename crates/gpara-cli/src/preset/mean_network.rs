//! Presets whose mean is one network evaluation, corrected by the graph: the file form, its check, and the parts it names.

use std::sync::Arc;

use gpara::{
    BeyondMask, Correction, DenseSettings, MeanReconstructor, MeanSettings, NoiseAwareSpread, Reconstructor,
    SpreadPredictor, StdSource, SymmetrySet,
};
use serde::Deserialize;

use super::build::Task;
use super::raw::{not_negative, positive, refused};
use crate::failure::Outcome;
use crate::model_source::ModelSource;

/// One evaluation of a network that sees the measurements, then the graph correction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MeanNetwork {
    /// Its name in `models/`.
    pub(crate) model: String,
    /// How it is used; the task adds what is known beyond the mask.
    pub(crate) settings: MeanSettings,
    /// The spread of its errors, where something reads it.
    pub(crate) spread: Option<SpreadNetwork>,
}

/// A spread network and what it does not know.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SpreadNetwork {
    /// Its name in `models/`.
    pub(crate) model: String,
    /// gamma: share of the variance of the measurements' noise that the estimate has (G.20).
    pub(crate) noise_gain: f64,
}

impl SpreadNetwork {
    /// The network, right for an instrument of `nominal_noise_std` and told of the noise of others.
    pub(crate) fn predictor(
        &self,
        models: &dyn ModelSource,
        task: Task,
        nominal_noise_std: f64,
    ) -> Outcome<Arc<dyn SpreadPredictor>> {
        let network = models.spread(&self.model, task.name)?;
        Ok(Arc::new(NoiseAwareSpread::new(network, self.noise_gain, nominal_noise_std)?))
    }
}

impl MeanNetwork {
    /// The reconstructor with its networks.
    pub(super) fn reconstructor(
        &self,
        models: &dyn ModelSource,
        task: Task,
        nominal_noise_std: f64,
    ) -> Outcome<Box<dyn Reconstructor>> {
        let settings = MeanSettings { invalid_value: task.invalid_value, ..self.settings };
        let mean = MeanReconstructor::new(models.mean(&self.model, task.name)?, settings);
        Ok(Box::new(BeyondMask::new(match &self.spread {
            Some(spread) => mean.with_spread(spread.predictor(models, task, nominal_noise_std)?),
            None => mean,
        })))
    }
}

/// The table `[reconstruct]` of kind `mean_network`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMeanNetwork {
    model: String,
    symmetries: RawSymmetries,
    #[serde(default)]
    affine: bool,
    #[serde(default = "whole")]
    network_share: f64,
    #[serde(default = "fitted")]
    fitted_scale: bool,
    uneven_kappa_squared: Option<f64>,
    dense: Option<RawDense>,
    std: RawStd,
}

fn whole() -> f64 {
    1.0
}

fn fitted() -> bool {
    true
}

/// What changes above the number of measurements that the network was trained with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDense {
    above: usize,
    network_share: f64,
    guide_scale: f64,
}

impl RawDense {
    fn check(self) -> Outcome<DenseSettings> {
        share("reconstruct.dense.network_share", self.network_share)?;
        positive("reconstruct.dense.guide_scale", self.guide_scale)?;
        let Self { above, network_share, guide_scale } = self;
        Ok(DenseSettings { above, network_share, guide_scale })
    }
}

fn share(key: &str, value: f64) -> Outcome {
    if value > 0.0 && value <= 1.0 { Ok(()) } else { Err(refused(key, value, "above 0, at most 1")) }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawSymmetries {
    Identity,
    LeftRight,
    All,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum RawStd {
    Posterior {
        scale: f64,
    },
    Ensemble {},
    /// By a spread network.
    Network {
        model: String,
        #[serde(default)]
        noise_gain: f64,
    },
}

impl RawMeanNetwork {
    /// The checked table; `kappa_squared` is that of the graph.
    pub(super) fn check(self, correction: Correction, kappa_squared: Option<f64>) -> Outcome<MeanNetwork> {
        share("reconstruct.network_share", self.network_share)?;
        if let Some(value) = self.uneven_kappa_squared {
            positive("reconstruct.uneven_kappa_squared", value)?;
            if kappa_squared.is_none() {
                let allowed = "left out where graph.kappa_squared is: a graph of first order has no kappa";
                return Err(refused("reconstruct.uneven_kappa_squared", value, allowed));
            }
        }
        let symmetries = match self.symmetries {
            RawSymmetries::Identity => SymmetrySet::Identity,
            RawSymmetries::LeftRight => SymmetrySet::LeftRight,
            RawSymmetries::All => SymmetrySet::All,
        };
        let (std, spread) = match self.std {
            RawStd::Posterior { scale } => {
                positive("reconstruct.std.scale", scale)?;
                (StdSource::Posterior { scale }, None)
            }
            RawStd::Ensemble {} => (StdSource::Ensemble, None),
            RawStd::Network { model, noise_gain } => {
                not_negative("reconstruct.std.noise_gain", noise_gain)?;
                (StdSource::Network, Some(SpreadNetwork { model, noise_gain }))
            }
        };
        let settings = MeanSettings {
            symmetries,
            correction,
            affine: self.affine,
            network_share: self.network_share,
            fitted_scale: self.fitted_scale,
            uneven_kappa_squared: self.uneven_kappa_squared,
            dense: self.dense.map(RawDense::check).transpose()?,
            invalid_value: None,
            std,
        };
        Ok(MeanNetwork { model: self.model, settings, spread })
    }
}
