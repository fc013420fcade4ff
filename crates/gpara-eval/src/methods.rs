//! The list of methods. To add one: a file that gives its entry, and one line here (`docs/add-a-method.md`).

use crate::baseline::entries;
use crate::registry::{PolicyEntry, ReconstructorEntry, Registry};
use crate::{policy, rival};

/// Every reconstructor of this crate besides the sampling baselines.
const RECONSTRUCTORS: &[ReconstructorEntry] = &[
    rival::prior::ENTRY,
    rival::one_shot::ENTRY,
    rival::linear::ENTRY,
    rival::natural_neighbor::ENTRY,
    rival::inverse_distance::ENTRY,
    rival::radial_basis::ENTRY,
    rival::kriging::ENTRY,
    rival::guided_field::ENTRY,
];

/// Every policy of this crate besides the sampling baselines.
const POLICIES: &[PolicyEntry] = &[
    policy::random::ENTRY,
    policy::farthest_point::ENTRY,
    policy::sobol::ENTRY,
    policy::blue_noise::ENTRY,
    policy::prior_variance::ENTRY,
];

/// All methods of this crate.
pub fn standard() -> Registry {
    let reconstructors = RECONSTRUCTORS.iter().chain(&entries::RECONSTRUCTORS);
    let registry = reconstructors.fold(Registry::default(), |registry, &entry| registry.with_reconstructor(entry));
    let policies = POLICIES.iter().chain(&entries::POLICIES);
    policies.fold(registry, |registry, &entry| registry.with_policy(entry))
}
