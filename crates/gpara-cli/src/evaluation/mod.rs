//! `gpara eval` behind the command line: configuration, data, networks, the preset as a method, the page of results.

mod config;
mod data;
mod networks;
mod overrides;
mod page;
mod preset_method;

pub(crate) use config::EvalConfig;
pub(crate) use data::load_scenes;
pub(crate) use networks::SourcedNetworks;
pub(crate) use overrides::Override;
pub(crate) use page::{Page, failures, summary_json};
pub(crate) use preset_method::registry;
