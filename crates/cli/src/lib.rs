//! The `drillcore` command, as a program and as `python -m drillcore`.

mod column_type;
mod shared_options;
mod export_arguments;
mod arguments;
mod fault;
mod opening;
mod source;
mod records;
mod time_text;
mod exact_text;
mod batches;
mod parser;
mod text_file;
mod arrow_file;
mod input;
mod output;
mod progress;
mod selection;
mod read;
mod export_target;
mod parquet_file;
mod export;
mod shape_check;
mod ingest;
mod delete;
mod add_column;
mod set_index;
mod named_snapshot;
mod upkeep;
mod bench;
mod demo;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Parser;
use drillcore::Interrupt;

use crate::arguments::{Arguments, Verb};
use crate::fault::Fault;

/// How long a call may take to end by itself after Ctrl-C.
const GRACE: Duration = Duration::from_secs(1);

/// Does what the arguments say, the first of which is the program's name, and returns the exit code.
/// Prints to standard output and standard error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    // Whoever embeds us may have been started without standard streams. Nothing opened below takes their place.
    let _ = drillcore::open_closed_streams();
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(asked) => {
            // Help and the version are asked for; anything else is a wrong call.
            let _ = asked.print();
            return asked.exit_code() as u8;
        }
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    let is_over = Arc::new(AtomicBool::new(false));
    let (flag, ends_in_time) = (interrupted.clone(), is_over.clone());
    // Without a handler Ctrl-C ends the process at once, which loses nothing either.
    let _ = ctrlc::set_handler(move || {
        flag.store(true, Ordering::Relaxed);
        thread::sleep(GRACE);
        if !ends_in_time.load(Ordering::Relaxed) {
            // Something waits for a disk. What was written stays, as if the process had been killed.
            let fault = Fault::interrupted();
            eprintln!("drillcore: {fault}");
            std::process::exit(fault.exit_code.into());
        }
    });
    let mut ended = Ok(0);
    let call = drillcore::without_panic(|| {
        ended = run(arguments.verb, interrupted);
        Ok(())
    });
    let code = call.map_err(Fault::from).and(ended).unwrap_or_else(|fault| {
        eprintln!("drillcore: {fault}");
        fault.exit_code
    });
    is_over.store(true, Ordering::Relaxed);
    code
}

/// Returns the exit code of a call that is not at fault.
fn run(verb: Verb, interrupted: Arc<AtomicBool>) -> Result<u8, Fault> {
    let flag = interrupted.clone();
    let interrupt = Interrupt::new(Arc::new(move || flag.load(Ordering::Relaxed)));
    match verb {
        Verb::Get(arguments) => return read::get(arguments, &interrupt),
        Verb::Verify(arguments) => return upkeep::verify(&arguments.database, &interrupt),
        Verb::Bench { arguments } => return bench::run_beside(&arguments),
        Verb::Ingest(arguments) => ingest::ingest(&arguments, &interrupt),
        Verb::Delete(arguments) => delete::delete(&arguments, &interrupt),
        Verb::AddColumn(arguments) => add_column::add_column(&arguments, &interrupt),
        Verb::Scan(arguments) => read::scan(arguments, interrupt),
        Verb::Count(arguments) => read::count(arguments, interrupt),
        Verb::Sample(arguments) => read::sample(arguments, interrupt),
        Verb::Estimate(arguments) => read::estimate(arguments, interrupt),
        Verb::Export(arguments) => export::export(arguments, interrupt),
        Verb::Sets(arguments) => read::sets(arguments, interrupt),
        Verb::IndexSets(arguments) => set_index::index(&arguments, &interrupt),
        Verb::UnindexSets(arguments) => set_index::unindex(&arguments, &interrupt),
        Verb::Sql(arguments) => read::sql(arguments, interrupt),
        Verb::Tables(arguments) => read::tables(arguments, interrupt),
        Verb::Snapshot(arguments) => named_snapshot::pin(&arguments, &interrupt),
        Verb::Snapshots(arguments) => named_snapshot::list(&arguments, &interrupt),
        Verb::DropSnapshot(arguments) => named_snapshot::unpin(&arguments, &interrupt),
        Verb::Stats(arguments) => upkeep::stats(&arguments.database, &interrupt),
        Verb::Compact(arguments) => upkeep::compact(&arguments.database, &interrupt),
        Verb::Demo(arguments) => demo::demo(&arguments, &interrupt),
    }?;
    Ok(0)
}
