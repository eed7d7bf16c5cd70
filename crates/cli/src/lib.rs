//! The `drillcore` command, as a program and as `python -m drillcore`.

mod column_type;
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
mod shape_check;
mod ingest;
mod delete;
mod add_column;
mod set_index;
mod named_snapshot;
mod upkeep;
mod demo;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use drillcore::Interrupt;

use crate::arguments::{Arguments, Verb};
use crate::fault::Fault;

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
    let flag = interrupted.clone();
    // Without a handler Ctrl-C ends the process at once, which loses nothing either.
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    let mut ended = Ok(0);
    let call = drillcore::without_panic(|| {
        ended = run(arguments.verb, interrupted);
        Ok(())
    });
    match call.map_err(Fault::from).and(ended) {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("drillcore: {fault}");
            fault.exit_code
        }
    }
}

/// Returns the exit code of a call that is not at fault.
fn run(verb: Verb, interrupted: Arc<AtomicBool>) -> Result<u8, Fault> {
    let flag = interrupted.clone();
    let interrupt = Interrupt::new(Arc::new(move || flag.load(Ordering::Relaxed)));
    match verb {
        Verb::Get(arguments) => return read::get(arguments),
        Verb::Verify(arguments) => return upkeep::verify(&arguments.database, &interrupt),
        Verb::Ingest(arguments) => ingest::ingest(&arguments, &interrupt),
        Verb::Delete(arguments) => delete::delete(&arguments, &interrupt),
        Verb::AddColumn(arguments) => add_column::add_column(&arguments),
        Verb::Scan(arguments) => read::scan(arguments, interrupt),
        Verb::Count(arguments) => read::count(arguments, interrupt),
        Verb::Sample(arguments) => read::sample(arguments, interrupt),
        Verb::Estimate(arguments) => read::estimate(arguments, interrupt),
        Verb::Sets(arguments) => read::sets(arguments, interrupt),
        Verb::IndexSets(arguments) => set_index::index(&arguments, &interrupt),
        Verb::UnindexSets(arguments) => set_index::unindex(&arguments),
        Verb::Sql(arguments) => read::sql(arguments, interrupt),
        Verb::Tables(arguments) => read::tables(arguments, interrupt),
        Verb::Snapshot(arguments) => named_snapshot::pin(&arguments),
        Verb::Snapshots(arguments) => named_snapshot::list(&arguments),
        Verb::DropSnapshot(arguments) => named_snapshot::unpin(&arguments),
        Verb::Stats(arguments) => upkeep::stats(&arguments.database),
        Verb::Compact(arguments) => upkeep::compact(&arguments.database),
        Verb::Demo(arguments) => demo::demo(&arguments, &interrupt),
        Verb::Bench(arguments) => {
            let benches = drillcore_bench::run(&arguments, &interrupted, &mut std::io::stdout());
            benches.map_err(Fault::from)
        }
    }?;
    Ok(0)
}
