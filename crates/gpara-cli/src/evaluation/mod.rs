//! `gpara eval` behind the command line: configuration, data, networks, the preset as a method, the page of results.

mod config;
mod data;
mod disturbance;
mod networks;
mod overrides;
mod page;
mod pictures;
mod preset_method;

pub(crate) use config::{DataConfig, EvalConfig, Part};
pub(crate) use data::load_scenes;
pub(crate) use disturbance::Disturbance;
pub(crate) use networks::SourcedNetworks;
pub(crate) use overrides::Override;
pub(crate) use page::{Page, failures, summary_json};
pub(crate) use pictures::Pictures;
pub(crate) use preset_method::registry;
