//! A method as a configuration names it: reconstructor, policy, budget, settings.

use serde::{Deserialize, Serialize};

use crate::one_step::OneStepConfig;
use crate::registry::Settings;

/// One value, or a list of them: every combination becomes a method of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// One.
    One(T),
    /// Some.
    Many(Vec<T>),
}

impl<T: Clone> OneOrMany<T> {
    fn to_vec(&self) -> Vec<T> {
        match self {
            Self::One(value) => vec![value.clone()],
            Self::Many(values) => values.clone(),
        }
    }
}

/// One `[[method]]` of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodConfig {
    /// First part of the names.
    pub name: String,
    /// What makes a field of the measurements.
    pub reconstructor: String,
    /// Its settings.
    #[serde(default)]
    pub settings: toml::Table,
    /// What chooses the points; left out where nothing is measured.
    #[serde(default)]
    pub policy: Option<OneOrMany<String>>,
    /// Their settings.
    #[serde(default)]
    pub policy_settings: toml::Table,
    /// Numbers of measurements; left out where nothing is measured.
    #[serde(default)]
    pub budget: Option<OneOrMany<usize>>,
    /// Network evaluations of the acquisition, where the number is known: a run with another number fails.
    #[serde(default)]
    pub acquisition_calls: Option<u64>,
    /// The same for acquisition and reconstruction together.
    #[serde(default)]
    pub total_calls: Option<u64>,
    /// Runs of each scene with seeds of their own.
    #[serde(default = "one")]
    pub repeats: u32,
    /// Only so many scenes, from the first: for methods that take very long.
    #[serde(default)]
    pub first: Option<usize>,
    /// Judges a policy's scores at the measurements made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_step: Option<OneStepConfig>,
}

fn one() -> u32 {
    1
}

/// A policy with its settings and budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyChoice {
    /// Its name in the registry.
    pub name: String,
    /// Its settings.
    pub settings: toml::Table,
    /// Number of measurements.
    pub budget: usize,
}

/// One method: everything that decides its numbers, seeds and data aside.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Method {
    /// `NAME/POLICY-BUDGET`, or `NAME` without measurements.
    pub name: String,
    /// Name of the reconstructor in the registry.
    pub reconstructor: String,
    /// Its settings.
    pub settings: toml::Table,
    /// The policy; `None` where nothing is measured.
    pub policy: Option<PolicyChoice>,
    /// Network evaluations that the acquisition must make.
    pub acquisition_calls: Option<u64>,
    /// Network evaluations that acquisition and reconstruction must make together.
    pub total_calls: Option<u64>,
    /// Runs of each scene.
    pub repeats: u32,
    /// Only so many scenes, from the first.
    pub first: Option<usize>,
    /// Judges a policy's scores at the measurements made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_step: Option<OneStepConfig>,
}

impl MethodConfig {
    /// Every combination of policy and budget.
    ///
    /// # Errors
    /// A text that says which of policy and budget is missing.
    pub fn methods(&self) -> Result<Vec<Method>, String> {
        let method = |policy: Option<PolicyChoice>| {
            let suffix = policy.as_ref().map_or_else(String::new, |p| format!("/{}-{}", p.name, p.budget));
            Method {
                name: format!("{}{suffix}", self.name),
                reconstructor: self.reconstructor.clone(),
                settings: self.settings.clone(),
                policy,
                acquisition_calls: self.acquisition_calls,
                total_calls: self.total_calls,
                repeats: self.repeats,
                first: self.first,
                one_step: self.one_step.clone(),
            }
        };
        match (&self.policy, &self.budget) {
            (None, None) => Ok(vec![method(None)]),
            (Some(policies), Some(budgets)) => {
                let mut methods = Vec::new();
                for name in policies.to_vec() {
                    for budget in budgets.to_vec() {
                        let settings = self.policy_settings.clone();
                        methods.push(method(Some(PolicyChoice { name: name.clone(), settings, budget })));
                    }
                }
                Ok(methods)
            }
            (Some(_), None) => Err(format!("method `{}` has a policy and no budget", self.name)),
            (None, Some(_)) => Err(format!("method `{}` has a budget and no policy", self.name)),
        }
    }
}

impl Method {
    /// The same method under a longer name, for another set of scenes.
    pub fn renamed(&self, suffix: &str) -> Self {
        Self { name: format!("{}{suffix}", self.name), ..self.clone() }
    }

    /// The reconstructor's settings.
    pub(crate) fn reconstructor_settings(&self) -> Settings {
        Settings(self.settings.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_policies_and_budgets_become_every_combination() {
        let text = "name = \"k\"\nreconstructor = \"kriging\"\npolicy = [\"random\", \"sobol\"]\nbudget = [5, 9]";
        let config: MethodConfig = toml::from_str(text).unwrap();
        let names: Vec<String> = config.methods().unwrap().into_iter().map(|method| method.name).collect();
        assert_eq!(names, ["k/random-5", "k/random-9", "k/sobol-5", "k/sobol-9"]);
    }

    #[test]
    fn budget_without_policy_is_refused_and_neither_is_allowed() {
        let config: MethodConfig = toml::from_str("name = \"k\"\nreconstructor = \"prior\"\nbudget = 5").unwrap();
        assert!(config.methods().unwrap_err().contains("`k` has a budget and no policy"));
        let config: MethodConfig = toml::from_str("name = \"k\"\nreconstructor = \"prior\"").unwrap();
        assert_eq!(config.methods().unwrap()[0].name, "k");
        assert!(toml::from_str::<MethodConfig>("name = \"k\"\nreconstructor = \"prior\"\nbugdet = 5").is_err());
    }
}
