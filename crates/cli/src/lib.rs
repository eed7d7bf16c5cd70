//! The `drillcore` command, as a program and as `python -m drillcore`.

#![forbid(unsafe_code)]

mod column_type;
mod duration;
mod arguments;
mod process;
mod files;
mod printing;
mod verbs;
mod shell;

use std::ffi::OsString;
use std::sync::Arc;

use clap::Parser;

use crate::arguments::verb::{Arguments, Verb};
pub use crate::duration::parse_duration;
use crate::process::ctrl_c::CtrlC;
use crate::process::fault::{Fault, report};
use crate::shell::prompt;
use crate::verbs::{
    add_column, backup, bench, delete, demo, describe, drop_table, export, ingest, named_snapshot,
    read, reshaping, set_index, set_ttl, shell_files, upkeep,
};

/// Does what the arguments say, the first of which is the program's name, and returns the exit code.
/// Prints to standard output and standard error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    // The process may have been started without standard streams. Nothing opened below takes their place.
    let _ = drillcore::open_closed_streams();
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(asked) => {
            // Help and the version are asked for; anything else is a wrong call.
            let _ = asked.print();
            return asked.exit_code() as u8;
        }
    };
    let ctrl_c = CtrlC::watch();
    let mut ended = Ok(0);
    let call = drillcore::without_panic(|| {
        ended = run(arguments.verb, &ctrl_c);
        Ok(())
    });
    let code = call.map_err(Fault::from).and(ended).unwrap_or_else(|fault| {
        report(format_args!("drillcore: {fault}"));
        fault.exit_code
    });
    ctrl_c.end();
    code
}

/// Returns the exit code of a call that is not at fault.
fn run(verb: Verb, ctrl_c: &Arc<CtrlC>) -> Result<u8, Fault> {
    let interrupt = ctrl_c.interrupt();
    match verb {
        Verb::Get(arguments) => return read::get(arguments, &interrupt),
        Verb::Verify(arguments) => return upkeep::verify(&arguments.database, &interrupt),
        Verb::Bench { arguments } => return bench::run_beside(&arguments),
        Verb::Ingest(arguments) => ingest::ingest(&arguments, &interrupt),
        Verb::Delete(arguments) => delete::delete(&arguments, &interrupt),
        Verb::AddColumn(arguments) => add_column::add_column(&arguments, &interrupt),
        Verb::SetTtl(arguments) => set_ttl::set_ttl(&arguments, &interrupt),
        Verb::RenameColumn(arguments) => reshaping::rename_column(&arguments, &interrupt),
        Verb::DropColumn(arguments) => reshaping::drop_column(&arguments, &interrupt),
        Verb::Widen(arguments) => reshaping::widen(&arguments, &interrupt),
        Verb::RenameTable(arguments) => reshaping::rename_table(&arguments, &interrupt),
        Verb::CopyTable(arguments) => reshaping::copy_table(&arguments, &interrupt),
        Verb::DropTable(arguments) => drop_table::drop_table(&arguments, &interrupt),
        Verb::Scan(arguments) => read::scan(arguments, interrupt),
        Verb::Count(arguments) => read::count(arguments, interrupt),
        Verb::Sample(arguments) => read::sample(arguments, interrupt),
        Verb::Estimate(arguments) => read::estimate(arguments, interrupt),
        Verb::Export(arguments) => export::export(arguments, interrupt),
        Verb::Sets(arguments) => read::sets(arguments, interrupt),
        Verb::IndexSets(arguments) => set_index::index(&arguments, &interrupt),
        Verb::UnindexSets(arguments) => set_index::unindex(&arguments, &interrupt),
        Verb::Describe(arguments) => describe::describe(&arguments, &interrupt),
        Verb::Sql(arguments) => prompt::sql(arguments, ctrl_c),
        Verb::Tables(arguments) => read::tables(arguments, interrupt),
        Verb::Snapshot(arguments) => named_snapshot::pin(&arguments, &interrupt),
        Verb::Snapshots(arguments) => named_snapshot::list(&arguments, &interrupt),
        Verb::DropSnapshot(arguments) => named_snapshot::unpin(&arguments, &interrupt),
        Verb::Backup(arguments) => backup::backup(&arguments, &interrupt),
        Verb::Restore(arguments) => backup::restore(&arguments, &interrupt),
        Verb::Stats(arguments) => upkeep::stats(&arguments.database, &interrupt),
        Verb::Compact(arguments) => upkeep::compact(&arguments.database, &interrupt),
        Verb::Completions { shell } => shell_files::print_completions(shell),
        Verb::Man { directory } => shell_files::write_manual(&directory),
        Verb::Demo(arguments) => demo::demo(&arguments, &interrupt),
    }?;
    Ok(0)
}
