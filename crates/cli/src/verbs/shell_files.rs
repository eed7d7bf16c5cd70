//! `drillcore completions` and `drillcore man`: files for a shell and for `man`, made from the arguments themselves.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::verb::Arguments;
use crate::printing::output::print_line;
use crate::process::fault::Fault;

/// Prints the script that completes this command in a shell.
pub fn print_completions(shell: Shell) -> Result<(), Fault> {
    let mut command = Arguments::command();
    let name = command.get_name().to_string();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    match io::stdout().lock().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Fault::unusable(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a page for the command and one for each verb.
pub fn write_manual(folder: &Path) -> Result<(), Fault> {
    let cannot = |error: io::Error| {
        Fault::unusable(format!("cannot write to {}: {error}", folder.display()))
    };
    fs::create_dir_all(folder).map_err(cannot)?;
    // The word "help" needs no page of its own.
    let command = Arguments::command().disable_help_subcommand(true);
    let verbs = command.get_subcommands().count();
    clap_mangen::generate_to(command, folder).map_err(cannot)?;
    print_line(&format!("{} pages written to {}", verbs + 1, folder.display()))
}
