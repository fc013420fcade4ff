//! Methods by name: what builds a reconstructor or a policy for one scene.

use std::collections::BTreeMap;

use gpara::{
    AcquisitionModel, Context, EnsembleCache, ErrorDetail, ErrorKind, GraphDescriptor, GraphPredictor, Observations,
    Policy, Reconstructor, ResidualPrecision, Result, SeedTree, UniformGraph,
};
use serde::de::DeserializeOwned;
use thiserror::Error as ThisError;

use crate::networks::CountedNetworks;
use crate::shelf::Shelf;
use crate::task::Task;

/// What a method may know of a scene when it is built. The truth is not part of it.
#[derive(Clone, Copy)]
pub struct MethodScene<'a> {
    /// What the data set holds.
    pub task: Task,
    /// The scene.
    pub context: &'a Context,
    /// Noise of the measurements as the instrument states it, normalised units.
    pub noise_std: f64,
    /// Measurements that may be made in all; 0 for a method without measurements.
    pub budget: usize,
    /// Largest number of points of a round.
    pub max_batch: usize,
    /// Root of the randomness; the same for all methods of a scene.
    pub seeds: SeedTree,
    /// The networks, counted.
    pub networks: &'a CountedNetworks<'a>,
    /// Values that methods of this scene have in common, e.g. a prior ensemble.
    pub common: &'a Shelf,
    /// Values that policy and reconstructor of this method have in common, e.g. the particles of one trajectory.
    pub own: &'a Shelf,
    /// Name of the method's reconstructor; a policy may take what it is not told from here.
    pub reconstructor: &'a str,
    /// Settings of that reconstructor.
    pub reconstructor_settings: &'a Settings,
    /// All methods, for those that are made of others.
    pub registry: &'a Registry,
}

impl MethodScene<'_> {
    /// A reconstructor by name.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown name, and those of its build.
    pub fn build_reconstructor(&self, name: &str, settings: &Settings) -> Result<Box<dyn Reconstructor>> {
        (self.registry.reconstructor(name)?.build)(self, settings)
    }

    /// The uniform graph with the paper's constants, for methods that have no graph of their own.
    ///
    /// # Errors
    /// None for a context that was checked.
    pub fn plain_precision(&self) -> Result<ResidualPrecision> {
        let flat = vec![0.0; self.context.grid().num_nodes()];
        let descriptor =
            GraphDescriptor { context: self.context, prior_mean: &flat, prior_std: &flat, num_measured: 0 };
        ResidualPrecision::new(UniformGraph.predict(&descriptor)?, 0.0625, 0.8)
    }

    /// A policy that reads neither graph nor ensemble, as a session takes it.
    ///
    /// # Errors
    /// Those of [`plain_precision`](Self::plain_precision).
    pub fn plain_model(&self, policy: Box<dyn Policy>) -> Result<AcquisitionModel> {
        Ok(AcquisitionModel { policy, precision: self.plain_precision()?, ensemble: EnsembleCache::nothing() })
    }

    /// No measurements on the grid of this scene.
    pub fn no_observations(&self) -> Observations {
        Observations::none(self.context.grid())
    }
}

/// The settings of a method as they stand in the configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings(pub toml::Table);

impl Settings {
    /// The settings as a type of the method's own, which should refuse unknown fields and give defaults for all others.
    ///
    /// # Errors
    /// `InvalidInput` if a key is unknown, missing or of another type; the message names `method` and the key.
    pub fn parse<T: DeserializeOwned>(&self, method: &str) -> Result<T> {
        self.0.clone().try_into().map_err(|error: toml::de::Error| {
            RegistryError::Settings { method: method.to_owned(), reason: error.message().to_owned() }.into()
        })
    }

    /// # Errors
    /// `InvalidInput` if there are any settings.
    pub fn none(&self, method: &str) -> Result<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => {
                let reason = format!("unknown field `{key}`, this method has no settings");
                Err(RegistryError::Settings { method: method.to_owned(), reason }.into())
            }
        }
    }
}

/// Builds a reconstructor for one scene.
pub type BuildReconstructor = fn(&MethodScene<'_>, &Settings) -> Result<Box<dyn Reconstructor>>;

/// Builds a policy, with the graph and the ensemble it reads, for one scene.
pub type BuildPolicy = fn(&MethodScene<'_>, &Settings) -> Result<AcquisitionModel>;

/// A reconstructor that a configuration can name.
#[derive(Debug, Clone, Copy)]
pub struct ReconstructorEntry {
    /// The name in configurations, e.g. `kriging`.
    pub name: &'static str,
    /// What it is, one line.
    pub about: &'static str,
    /// Builds it.
    pub build: BuildReconstructor,
}

/// A policy that a configuration can name.
#[derive(Debug, Clone, Copy)]
pub struct PolicyEntry {
    /// The name in configurations, e.g. `farthest-point`.
    pub name: &'static str,
    /// What it is, one line.
    pub about: &'static str,
    /// Builds it.
    pub build: BuildPolicy,
}

/// All methods a configuration can name.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    reconstructors: BTreeMap<&'static str, ReconstructorEntry>,
    policies: BTreeMap<&'static str, PolicyEntry>,
}

impl Registry {
    /// The registry with one more reconstructor; one of the same name is replaced.
    #[must_use]
    pub fn with_reconstructor(mut self, entry: ReconstructorEntry) -> Self {
        self.reconstructors.insert(entry.name, entry);
        self
    }

    /// The registry with one more policy; one of the same name is replaced.
    #[must_use]
    pub fn with_policy(mut self, entry: PolicyEntry) -> Self {
        self.policies.insert(entry.name, entry);
        self
    }

    /// The reconstructor of that name.
    ///
    /// # Errors
    /// `InvalidInput` if there is none; the message lists all.
    pub fn reconstructor(&self, name: &str) -> Result<ReconstructorEntry> {
        self.reconstructors.get(name).copied().ok_or_else(|| {
            let known = self.reconstructors.keys().copied().collect::<Vec<_>>().join(", ");
            RegistryError::Unknown { what: "reconstructor", name: name.to_owned(), known }.into()
        })
    }

    /// The policy of that name.
    ///
    /// # Errors
    /// `InvalidInput` if there is none; the message lists all.
    pub fn policy(&self, name: &str) -> Result<PolicyEntry> {
        self.policies.get(name).copied().ok_or_else(|| {
            let known = self.policies.keys().copied().collect::<Vec<_>>().join(", ");
            RegistryError::Unknown { what: "policy", name: name.to_owned(), known }.into()
        })
    }

    /// Every reconstructor, by name.
    pub fn reconstructors(&self) -> impl Iterator<Item = &ReconstructorEntry> {
        self.reconstructors.values()
    }

    /// Every policy, by name.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyEntry> {
        self.policies.values()
    }
}

#[derive(Debug, ThisError)]
enum RegistryError {
    #[error("{what} `{name}` is not known, there are {known}")]
    Unknown { what: &'static str, name: String, known: String },
    #[error("settings of `{method}`: {reason}")]
    Settings { method: String, reason: String },
}

impl ErrorDetail for RegistryError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { .. } => Some("docs/add-a-method.md shows how a method is added".into()),
            Self::Settings { .. } => {
                Some("`gpara eval --methods` lists the methods, configs/eval_*.toml use them".into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::standard;

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let error = standard().reconstructor("kringing").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("`kringing`") && error.to_string().contains("kriging"), "{error}");
    }

    #[test]
    fn unknown_setting_is_refused_with_method_and_key() {
        let settings = Settings(toml::from_str("powr = 2.0").unwrap());
        let error = settings.none("linear").unwrap_err();
        assert!(error.to_string().contains("linear") && error.to_string().contains("powr"), "{error}");
    }
}
