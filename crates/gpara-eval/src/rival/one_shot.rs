//! One evaluation of a supervised network that sees the measurements, and nothing else: no graph, no correction.

use std::sync::Arc;

use gpara::{MeanPredictor, Reconstruction, ReconstructionInput, Reconstructor, Result};
use serde::Deserialize;

use super::scattered::mean_only;
use crate::networks::Networks;
use crate::registry::ReconstructorEntry;

pub(crate) const ENTRY: ReconstructorEntry = ReconstructorEntry {
    name: "one-shot",
    about: "one evaluation of a supervised network that sees the measurements, without any correction",
    build: |scene, settings| {
        let settings: OneShotSettings = settings.parse("one-shot")?;
        let network = scene.networks.mean(&settings.network)?;
        Ok(Box::new(OneShot { network }))
    },
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OneShotSettings {
    /// Name of the mean network.
    network: String,
}

struct OneShot {
    network: Arc<dyn MeanPredictor>,
}

impl Reconstructor for OneShot {
    fn name(&self) -> &str {
        "one-shot"
    }

    fn reconstruct(&self, input: &ReconstructionInput<'_>) -> Result<Reconstruction> {
        let mean = self.network.predict(input.context, input.observations)?;
        Ok(Reconstruction { network_calls: 1, ..mean_only(mean) })
    }
}
