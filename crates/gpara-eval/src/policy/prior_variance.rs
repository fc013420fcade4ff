//! The cells at which prior samples disagree most, whatever has been measured.

use super::order::FixedOrder;
use crate::registry::PolicyEntry;
use crate::rival::prior::{PriorSettings, prior_ensemble};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "prior-variance",
    about: "largest variance of prior samples, never conditioned",
    build: |scene, settings| {
        let settings: PriorSettings = settings.parse("prior-variance")?;
        let ensemble = prior_ensemble(scene, &settings)?;
        let variance = ensemble.moments(scene.context.grid())?.variance;
        let mut nodes: Vec<usize> = scene.context.valid().nodes().collect();
        // Stable: the lowest node wins a tie.
        nodes.sort_by(|&a, &b| variance[b].total_cmp(&variance[a]));
        scene.plain_model(Box::new(FixedOrder::new("prior-variance", nodes)))
    },
};
