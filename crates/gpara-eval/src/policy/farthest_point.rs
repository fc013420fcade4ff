//! Each point as far as possible from all before it.

use gpara::{FarthestPoint, FirstPoint};

use crate::registry::PolicyEntry;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "farthest-point",
    about: "each point as far as possible from all before it, from the cell next to the centroid",
    build: |scene, settings| {
        settings.none("farthest-point")?;
        scene.plain_model(Box::new(FarthestPoint::new(FirstPoint::Centroid)))
    },
};
