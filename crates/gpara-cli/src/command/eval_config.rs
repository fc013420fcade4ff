//! The file form of an evaluation: which part of a data set, which methods, which table.

use std::path::Path;

use gpara_eval::TableRow;
use gpara_tasks::depth::DEPTH_RANGE_METERS;
use gpara_tasks::radio::INVALID_VALUE;
use serde::Deserialize;

use crate::failure::{Failure, Outcome};
use crate::preset::{EMBEDDED_PRESETS, PolicyChoice, Preset, Task, parse_toml};

/// An evaluation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EvalConfig {
    /// Title of the table.
    pub(super) title: String,
    /// What a reader must know beside the numbers, Markdown.
    pub(super) about: String,
    /// What the data set holds.
    #[serde(default)]
    pub(super) task: EvalTask,
    /// Part of the data set.
    pub(super) part: EvalPart,
    /// Root of all randomness.
    pub(super) seed: u64,
    /// What is run.
    #[serde(rename = "experiment")]
    pub(super) experiments: Vec<ExperimentConfig>,
    /// Rows of the table.
    #[serde(rename = "row")]
    pub(super) rows: Vec<TableRow>,
}

/// What a data set holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EvalTask {
    /// Radio maps; errors in gray/255.
    #[default]
    Radio,
    /// Depth maps; errors in metres, and relative to the depth.
    Depth,
}

impl EvalTask {
    /// The task as the method takes it.
    pub(super) fn task(self) -> Task {
        match self {
            Self::Radio => Task { name: "radio", invalid_value: Some(f64::from(INVALID_VALUE)) },
            Self::Depth => Task { name: "depth", invalid_value: None },
        }
    }

    /// Size of a normalised difference of 1 in the unit of the table.
    pub(super) fn error_factor(self) -> f64 {
        match self {
            // Normalised values span 2 where gray/255 spans 1.
            Self::Radio => 0.5,
            Self::Depth => 0.5 * DEPTH_RANGE_METERS,
        }
    }

    /// The normalised value of 0, where errors relative to the truth are told.
    pub(super) fn zero(self) -> Option<f64> {
        (self == Self::Depth).then_some(-1.0)
    }
}

/// A part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EvalPart {
    /// To choose settings on.
    Validation,
    /// To report.
    Test,
}

/// Methods that share one preset and one prior ensemble.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentConfig {
    /// First part of the methods' names.
    pub(super) name: String,
    /// The preset it starts from.
    preset: String,
    /// Settings that replace the preset's, same keys.
    #[serde(default)]
    replace: toml::Table,
    /// Estimates without measurements.
    #[serde(default, rename = "prior")]
    pub(super) priors: Vec<PriorConfig>,
    /// Closed loops.
    #[serde(default, rename = "loop")]
    pub(super) loops: Vec<LoopConfig>,
}

/// The mean of samples of the preset's prior without measurements.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriorConfig {
    /// Reverse steps; one step is the clean estimate at the last timestep.
    pub(super) num_steps: usize,
    /// Samples averaged.
    pub(super) num_samples: usize,
}

impl PriorConfig {
    /// The method's name within its experiment.
    pub(super) fn name(self) -> String {
        format!("prior-{}x{}", self.num_steps, self.num_samples)
    }
}

/// A policy with a budget.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoopConfig {
    /// The policy's name as on the command line.
    policy: String,
    /// Number of measurements.
    pub(super) budget: usize,
}

impl LoopConfig {
    /// The policy.
    pub(super) fn policy(&self) -> Outcome<PolicyChoice> {
        <PolicyChoice as clap::ValueEnum>::from_str(&self.policy, false).map_err(|_| {
            Failure::input(
                format!("policy `{}` is not known", self.policy),
                "random, farthest-point, active and max-variance are",
            )
        })
    }

    /// The method's name within its experiment.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.policy, self.budget)
    }
}

impl EvalConfig {
    /// Reads and checks the file.
    pub(super) fn read(path: &Path) -> Outcome<Self> {
        let hint = "configs/eval_radio.toml shows every key";
        let text =
            std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error, hint.to_string()))?;
        let config: Self = parse_toml(&format!("evaluation `{}`", path.display()), &text)?;
        for experiment in &config.experiments {
            experiment.preset()?;
            experiment.loops.iter().try_for_each(|run| run.policy().map(drop))?;
        }
        Ok(config)
    }
}

impl ExperimentConfig {
    /// The preset with its replacements.
    pub(super) fn preset(&self) -> Outcome<Preset> {
        if self.replace.is_empty() {
            return Preset::embedded(&self.preset);
        }
        let base = Preset::embedded(&self.preset)?;
        let (_, text) = EMBEDDED_PRESETS.iter().find(|(name, _)| *name == base.name).expect("it was found above");
        let mut table: toml::Table = toml::from_str(text).expect("embedded presets parse");
        merge(&mut table, &self.replace);
        let text = toml::to_string(&table).expect("a table is TOML");
        Preset::parse(&self.name, &text)
    }
}

/// Replaces values of `base` by those of `replacement`; tables with the same `kind` merge, others are replaced whole.
fn merge(base: &mut toml::Table, replacement: &toml::Table) {
    for (key, value) in replacement {
        match (base.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new))
                if new.get("kind").is_none_or(|kind| Some(kind) == old.get("kind")) =>
            {
                merge(old, new);
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_merge_into_the_preset_and_change_nothing_else() {
        let text = "name = \"x\"\npreset = \"gaussian\"\n[replace.graph]\nresidual_precision = 0.5\n";
        let experiment: ExperimentConfig = toml::from_str(text).unwrap();
        let (base, changed) = (Preset::embedded("gaussian").unwrap(), experiment.preset().unwrap());
        assert_eq!(changed.residual_precision, 0.5);
        assert_eq!(changed.graph_coupling, base.graph_coupling);
        assert_eq!(changed.reconstruct, base.reconstruct);
    }

    #[test]
    fn unknown_preset_key_in_a_replacement_is_refused() {
        let text = "name = \"x\"\npreset = \"gaussian\"\n[replace.graph]\ntau = 0.5\n";
        let experiment: ExperimentConfig = toml::from_str(text).unwrap();
        assert!(experiment.preset().unwrap_err().to_string().contains("tau"));
    }
}
