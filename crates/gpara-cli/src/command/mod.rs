//! One file a command.

pub(crate) mod ask;
mod calibrate;
pub(crate) mod completions;
#[cfg(test)]
mod damaged_config;
pub(crate) mod demo;
mod demo_scenes;
pub(crate) mod eval;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod models;
pub(crate) mod new;
mod new_place;
mod new_prior;
pub(crate) mod reconstruct;
pub(crate) mod report;
pub(crate) mod run;
mod run_config;
pub(crate) mod status;
pub(crate) mod tell;
#[cfg(feature = "train")]
pub(crate) mod train;

use gpara_session::Campaign;

use crate::console::Console;

/// Says that the file was brought to a newer schema, and where the old one is.
fn note_migration(campaign: &Campaign, console: Console) {
    if let Some(copy) = campaign.file().migrated_from() {
        console.log(&format!("note: the session's schema was migrated; the file as it was is {}", copy.display()));
    }
}
