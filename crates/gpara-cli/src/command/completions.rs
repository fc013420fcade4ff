//! `gpara completions` and `gpara man`: what shells and `man` read about the commands.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use gpara_tasks::field::write_whole;

use crate::console::Console;
use crate::failure::{Failure, Outcome};

/// Print the completions of a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gpara completions bash > ~/.local/share/bash-completion/completions/gpara")]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Runs `gpara completions`.
pub(crate) fn run(arguments: &CompletionsArguments, mut command: Command, console: Console) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "gpara", &mut text);
    console.data(&String::from_utf8_lossy(&text));
    Ok(())
}

/// Write the manual pages, one a command
#[derive(Debug, Args)]
#[command(after_help = "Example:
  gpara man --out ~/.local/share/man/man1 && man gpara-ask")]
pub(crate) struct ManArguments {
    /// Folder for the pages; without it the page of `gpara` goes to stdout
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs `gpara man`.
pub(crate) fn run_man(arguments: &ManArguments, command: Command, console: Console) -> Outcome {
    let Some(folder) = &arguments.out else {
        console.data(&String::from_utf8_lossy(&page(command)?));
        return Ok(());
    };
    let hint = "name a folder you may write to with --out";
    std::fs::create_dir_all(folder).map_err(|error| Failure::file("make folder", folder, &error, hint))?;
    let mut pages = vec![("gpara".to_string(), command.clone())];
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = format!("gpara-{}", subcommand.get_name());
        pages.push((
            name.clone(),
            subcommand.clone().display_name(name.clone()).bin_name(name.replace("gpara-", "gpara ")),
        ));
    }
    for (name, command) in pages {
        write_whole(&folder.join(format!("{name}.1")), &page(command)?)?;
    }
    Ok(())
}

fn page(command: Command) -> Outcome<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut text)
        .map_err(|error| Failure::program(format!("cannot render a manual page: {error}")))?;
    Ok(text)
}
