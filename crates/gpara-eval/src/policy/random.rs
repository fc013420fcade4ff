//! Uniformly random cells.

use gpara::Random;

use crate::registry::PolicyEntry;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "random",
    about: "uniformly random cells",
    build: |scene, settings| {
        settings.none("random")?;
        scene.plain_model(Box::new(Random::new()))
    },
};
