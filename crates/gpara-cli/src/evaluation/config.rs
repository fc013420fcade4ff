//! The file form of an evaluation: data, methods, tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpara_eval::{Method, MethodConfig, PivotConfig, ScatterConfig, TableConfig, Task};
use serde::{Deserialize, Serialize};

use super::disturbance::Disturbance;
use super::overrides::Override;
use crate::failure::{Failure, Outcome};
use crate::preset::parse_toml;

/// An evaluation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvalConfig {
    /// Title of the page.
    pub(crate) title: String,
    /// What a reader must know beside the numbers, Markdown.
    pub(crate) about: String,
    /// Root of all randomness.
    pub(crate) seed: u64,
    /// The scenes.
    pub(crate) data: DataConfig,
    /// What is run.
    #[serde(rename = "method")]
    methods: Vec<MethodConfig>,
    /// The same methods on changed scenes; their names end in `@NAME`.
    #[serde(default, rename = "variant")]
    pub(crate) variants: Vec<VariantConfig>,
    /// Scenes to draw, by id, with the methods to draw.
    #[serde(default)]
    pub(crate) pictures: Option<PictureConfig>,
    /// Tables with a row a method.
    #[serde(default, rename = "table")]
    pub(crate) tables: Vec<TableConfig>,
    /// Tables of one number with a row a method and columns of what is varied.
    #[serde(default, rename = "pivot")]
    pub(crate) pivots: Vec<PivotConfig>,
    /// Plots with a point a method.
    #[serde(default, rename = "scatter")]
    pub(crate) scatters: Vec<ScatterConfig>,
}

/// Scenes that differ from those of `data` in some way.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariantConfig {
    /// Its name.
    pub(crate) name: String,
    /// Standard deviation of the measurement noise, normalised units.
    #[serde(default)]
    noise_std: Option<f64>,
    /// Whether the scenes embedded in the binary are taken instead.
    #[serde(default)]
    embedded: bool,
    /// Only so many scenes.
    #[serde(default)]
    first: Option<usize>,
    /// What is changed.
    #[serde(default)]
    disturbance: Disturbance,
}

impl VariantConfig {
    /// The data of this variant.
    pub(crate) fn data(&self, base: &DataConfig) -> DataConfig {
        DataConfig {
            root: base.root.clone().filter(|_| !self.embedded),
            first: self.first.or(base.first),
            noise_std: self.noise_std.or(base.noise_std),
            disturbance: self.disturbance.clone(),
            ..base.clone()
        }
    }
}

/// What is drawn: one picture a scene, the maps of all methods under one colour scale and their errors under another.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PictureConfig {
    /// Ids of scenes.
    pub(crate) scenes: Vec<String>,
    /// Names of methods.
    pub(crate) methods: Vec<String>,
}

/// Which scenes, and what is done to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataConfig {
    /// What they hold.
    pub(crate) task: Task,
    /// Folder of the data set; left out: the scenes embedded in the binary.
    #[serde(default)]
    pub(crate) root: Option<PathBuf>,
    /// Part of the data set.
    #[serde(default)]
    pub(crate) part: Part,
    /// Only so many scenes, from the first.
    #[serde(default)]
    pub(crate) first: Option<usize>,
    /// Whether those of `first` are spread over the part instead: neighbours in a data set often show one place.
    #[serde(skip)]
    pub(crate) evenly: bool,
    /// Rows and columns of the middle of each scene that is used; left out: the whole scene.
    #[serde(default)]
    pub(crate) window: Option<(usize, usize)>,
    /// Standard deviation of the measurement noise, normalised units; left out: the paper's for the task.
    #[serde(default)]
    pub(crate) noise_std: Option<f64>,
    /// What is changed about the scenes.
    #[serde(default)]
    pub(crate) disturbance: Disturbance,
}

/// A part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// To choose settings on.
    Validation,
    /// To report.
    #[default]
    Test,
}

impl DataConfig {
    /// What decides numbers, as text: neither where the folder lies nor how many scenes are run.
    pub(crate) fn fingerprint(&self) -> String {
        let root = self.root.as_ref().map(|_| PathBuf::from("folder"));
        let data = Self { root, first: None, ..self.clone() };
        serde_json::to_string(&data).expect("settings are plain numbers and strings")
    }
}

impl EvalConfig {
    /// Reads the file, replaces what `overrides` name, and checks it.
    pub(crate) fn read(path: &Path, overrides: &[Override]) -> Outcome<Self> {
        let hint = "configs/eval_radio.toml shows every key";
        let text =
            std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error, hint.to_string()))?;
        let what = format!("evaluation `{}`", path.display());
        if overrides.is_empty() {
            return parse_toml(&what, &text);
        }
        let mut table: toml::Table = parse_toml(&what, &text)?;
        for change in overrides {
            change.apply(&mut table)?;
        }
        table.try_into().map_err(|error: toml::de::Error| {
            Failure::input(format!("{what} with the values of --set: {}", error.message()), hint)
        })
    }

    /// The suffix of the methods' names and the data of each set of scenes: `data` itself first, then each variant.
    pub(crate) fn scene_sets(&self) -> Vec<(String, DataConfig)> {
        let variants = self.variants.iter().map(|variant| (format!("@{}", variant.name), variant.data(&self.data)));
        std::iter::once((String::new(), self.data.clone())).chain(variants).collect()
    }

    /// The numbers that the page shows.
    pub(crate) fn shown_numbers(&self) -> BTreeSet<String> {
        let tables = self.tables.iter().flat_map(|table| table.numbers.iter().cloned());
        let pivots = self.pivots.iter().map(|pivot| pivot.number.clone());
        let scatters = self.scatters.iter().flat_map(|scatter| [scatter.x.clone(), scatter.y.clone()]);
        let always = ["rmse", "seconds", "network_calls"].map(String::from);
        tables.chain(pivots).chain(scatters).chain(always).collect()
    }

    /// Every method, in the order of the file.
    pub(crate) fn methods(&self) -> Outcome<Vec<Method>> {
        let mut methods: Vec<Method> = Vec::new();
        for config in &self.methods {
            let hint = "policy and budget go together; neither means that nothing is measured";
            for method in config.methods().map_err(|message| Failure::input(message, hint))? {
                if methods.iter().any(|known| known.name == method.name) {
                    let message = format!("method `{}` stands twice in the evaluation", method.name);
                    return Err(Failure::input(message, "give one of them another `name`"));
                }
                methods.push(method);
            }
        }
        Ok(methods)
    }
}

#[cfg(test)]
mod tests {
    use gpara_eval::PivotColumn;

    use super::*;

    const TEXT: &str = "title = \"t\"\nabout = \"a\"\nseed = 1\n[data]\ntask = \"radio\"\n\
        [[method]]\nname = \"k\"\nreconstructor = \"kriging\"\npolicy = \"random\"\nbudget = 9\n";

    fn config(changes: &[&str]) -> Outcome<EvalConfig> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), TEXT).unwrap();
        let overrides: Vec<Override> = changes.iter().map(|text| text.parse().unwrap()).collect();
        EvalConfig::read(file.path(), &overrides)
    }

    #[test]
    fn values_of_set_replace_and_add_and_are_typed() {
        let config =
            config(&["data.root=/somewhere", "data.first=3", "method.k.budget=50", "data.window=[32, 32]"]).unwrap();
        assert_eq!(config.data.root.as_deref(), Some(Path::new("/somewhere")));
        assert_eq!((config.data.first, config.data.window), (Some(3), Some((32, 32))));
        assert_eq!(config.methods().unwrap()[0].name, "k/random-50");
    }

    #[test]
    fn unknown_key_or_type_of_set_is_refused() {
        for (change, named) in [
            ("data.rot=/x", "rot"),
            ("seed=\"one\"", "invalid type"),
            ("method.z.budget=5", "method.z"),
            ("data.task.x=5", "data.task"),
        ] {
            let failure = config(&[change]).unwrap_err().to_string();
            assert!(failure.contains(named), "{change}: {failure}");
        }
    }

    #[test]
    fn every_evaluation_of_the_project_names_known_methods_presets_and_rows() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
        let registry = super::super::registry();
        let mut checked = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name != "smoke.toml" && !name.starts_with("eval_") {
                continue;
            }
            let config = EvalConfig::read(&path, &[]).unwrap();
            let methods = config.methods().unwrap_or_else(|failure| panic!("{name}: {failure}"));
            for method in &methods {
                registry.reconstructor(&method.reconstructor).unwrap();
                method.policy.as_ref().map(|policy| registry.policy(&policy.name).unwrap());
                if let Some(preset) = method.settings.get("preset").and_then(toml::Value::as_str) {
                    let empty = toml::Table::new();
                    let replace = method.settings.get("replace").and_then(toml::Value::as_table).unwrap_or(&empty);
                    let preset = crate::preset::Preset::for_task(preset, config.data.task.name()).unwrap();
                    preset.replaced(replace).unwrap_or_else(|failure| panic!("{name}, `{}`: {failure}", method.name));
                }
            }
            let known: Vec<String> = config
                .scene_sets()
                .iter()
                .flat_map(|(suffix, _)| methods.iter().map(move |method| format!("{}{suffix}", method.name)))
                .collect();
            for row in config.tables.iter().flat_map(|table| &table.rows) {
                let explained = !row.reason.is_empty();
                assert!(known.contains(&row.method) || explained, "{name}: row `{}` names no method", row.method);
            }
            for pivot in &config.pivots {
                for row in &pivot.rows {
                    let found = |column: &PivotColumn| known.contains(&row.method.replace("{}", column.text()));
                    let all = pivot.columns.iter().all(found);
                    assert!(all || !row.reason.is_empty(), "{name}: pivot row `{}` names no method", row.method);
                }
            }
            checked.push(name);
        }
        // A folder that was not found or is read in part would pass in silence.
        for expected in ["smoke.toml", "eval_radio_best.toml", "eval_depth.toml"] {
            assert!(checked.iter().any(|name| name == expected), "`{expected}` was not among {checked:?}");
        }
    }

    #[test]
    fn fingerprint_forgets_the_folder_and_the_number_of_scenes_only() {
        let data = |changes: &[&str]| config(changes).unwrap().data.fingerprint();
        assert_eq!(data(&["data.root=/a", "data.first=2"]), data(&["data.root=/b"]));
        assert_ne!(data(&["data.root=/a"]), data(&[]));
        assert_ne!(data(&["data.noise_std=0.5"]), data(&[]));
    }
}
