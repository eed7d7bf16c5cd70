//! The `drillcore` command, as a program and as `python -m drillcore`.

mod arguments;
mod fault;
mod input;
mod output;
mod selection;
mod ingest;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use clap::Parser;
use drillcore::{
    Database, EstimateRequest, HalfWidth, Interrupt, Options, Reader, SampleRequest, ScanRequest,
    Stop, TableSnapshot,
};
use drillcore_sql::QueryOptions;

use crate::arguments::{Arguments, Verb};
use crate::fault::{Fault, NO};
use crate::output::print;
use crate::selection::{key, selection};

/// Cached pages of a command that reads.
const CACHE_BYTES: u64 = 64 << 20;

/// Does what the arguments say, the first of which is the program's name, and returns the exit code.
/// Prints to standard output and standard error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
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
    match run(arguments.verb, &interrupted) {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("drillcore: {fault}");
            fault.exit_code
        }
    }
}

fn run(verb: Verb, interrupted: &Arc<AtomicBool>) -> Result<u8, Fault> {
    let flag = interrupted.clone();
    let interrupt = Interrupt::new(Arc::new(move || flag.load(Ordering::Relaxed)));
    match verb {
        Verb::Ingest(arguments) => ingest::ingest(&arguments, interrupted)?,
        Verb::Get(arguments) => {
            let table = read(&arguments.database, &arguments.table)?;
            let keys = key(&table.schema(), &arguments.key)?;
            let found = table.get(&keys, arguments.output.columns.as_deref())?;
            let is_found = found.rows.num_rows() > 0;
            print_one(arguments.output.output, found.rows)?;
            return Ok(if is_found { 0 } else { NO });
        }
        Verb::Scan(arguments) => {
            let table = read(&arguments.database, &arguments.table)?;
            let scan = table.scan(ScanRequest {
                selection: selection(&table.schema(), &arguments.selection)?,
                columns: arguments.output.columns,
                limit: arguments.limit,
                reverse: arguments.reverse,
                interrupt,
            })?;
            let schema = scan.schema();
            print(arguments.output.output, schema, scan.map(|batch| batch.map_err(Fault::from)))?;
        }
        Verb::Count(arguments) => {
            let table = read(&arguments.database, &arguments.table)?;
            let selection = selection(&table.schema(), &arguments.selection)?;
            let count = match arguments.events {
                true => table.count_events_interruptibly(&selection, &interrupt)?,
                false => table.count_interruptibly(&selection, &interrupt)?,
            };
            println!("{count}");
        }
        Verb::Sample(arguments) => {
            let table = read(&arguments.database, &arguments.table)?;
            let rows = table.sample(&SampleRequest {
                n: arguments.n,
                selection: selection(&table.schema(), &arguments.selection)?,
                weight: arguments.weight,
                replace: arguments.replace,
                at_most: arguments.at_most,
                with_probability: arguments.with_probability,
                seed: arguments.seed,
                columns: arguments.output.columns,
                interrupt,
                ..SampleRequest::default()
            })?;
            print_one(arguments.output.output, rows)?;
        }
        Verb::Estimate(arguments) => estimate(arguments, interrupt)?,
        Verb::Sets(arguments) => {
            let table = read(&arguments.database, &arguments.table)?;
            let sets = table.sets_interruptibly(&interrupt)?;
            let schema = Schema::new(vec![
                Field::new("set", sets.values.data_type().clone(), true),
                Field::new("rows", DataType::UInt64, false),
            ]);
            let rows = Arc::new(UInt64Array::from(sets.rows));
            let batch = RecordBatch::try_new(Arc::new(schema), vec![sets.values, rows]);
            print_one(arguments.output.output, batch.expect("one count a set"))?;
        }
        Verb::Sql(arguments) => {
            let text = match arguments.query.as_str() {
                "-" => std::io::read_to_string(std::io::stdin())
                    .map_err(|error| Fault::unusable(format!("standard input: {error}")))?,
                text => text.to_string(),
            };
            let snapshot = Reader::open(arguments.database, CACHE_BYTES)?.snapshot()?;
            let options = QueryOptions { threads: arguments.threads, interrupt };
            let query = drillcore_sql::query(&snapshot, &text, &options)?;
            let schema = query.schema();
            print(arguments.output, schema, query.map(|batch| batch.map_err(Fault::from)))?;
        }
        Verb::Stats(arguments) => {
            let db = open(&arguments.database)?;
            println!("{}", db.stats()?.to_json());
            db.close()?;
        }
        Verb::Verify(arguments) => {
            let db = open(&arguments.database)?;
            let report = db.verify(&interrupt)?;
            println!("{} segments, {} rows, {} bytes", report.segments, report.rows, report.bytes);
            report.faults.iter().for_each(|fault| println!("damaged: {fault}"));
            db.close()?;
            return Ok(if report.faults.is_empty() { 0 } else { NO });
        }
        Verb::Compact(arguments) => {
            let db = open(&arguments.database)?;
            db.compact()?;
            db.close()?;
        }
        Verb::Bench(arguments) => {
            drillcore_bench::run(&arguments, interrupted, &mut std::io::stdout())?;
        }
    }
    Ok(0)
}

fn estimate(arguments: arguments::Estimate, interrupt: Interrupt) -> Result<(), Fault> {
    let table = read(&arguments.database, &arguments.table)?;
    let stop = match (arguments.n, &arguments.error, arguments.seconds) {
        (Some(n), _, _) => Stop::Rows(n),
        (_, Some(error), _) => Stop::Error(half_width(error)?),
        (_, _, Some(seconds)) => Stop::Seconds(seconds),
        _ => EstimateRequest::default().stop,
    };
    let request = EstimateRequest {
        aggregates: arguments.aggregates.iter().map(|text| (text.clone(), text.clone())).collect(),
        by: arguments.by,
        selection: selection(&table.schema(), &arguments.selection)?,
        stop,
        confidence: arguments.confidence,
        seed: arguments.seed,
        interrupt,
    };
    let estimate = table.estimate(&request, &mut |_| ControlFlow::Continue(()))?;
    print_one(arguments.output.output, estimate.to_batch())?;
    eprintln!(
        "{} of {} rows drawn; intervals: {}, each at {} %",
        estimate.sampled,
        estimate.population,
        estimate.method,
        estimate.confidence * 100.0
    );
    Ok(())
}

/// "0.5", or "2%" of the estimate.
fn half_width(text: &str) -> Result<HalfWidth, Fault> {
    let number = |text: &str| {
        text.trim().parse::<f64>().map_err(|_| {
            Fault::wrong_call(format!("{text:?} is no error; give a number, or one with %"))
        })
    };
    match text.strip_suffix('%') {
        Some(percent) => Ok(HalfWidth::Relative(number(percent)? / 100.0)),
        None => Ok(HalfWidth::Absolute(number(text)?)),
    }
}

/// A table as of now, read beside whoever writes.
fn read(database: &Path, table: &str) -> Result<TableSnapshot, Fault> {
    Ok(Reader::open(database, CACHE_BYTES)?.snapshot()?.table(table)?)
}

/// A database that is there already, open for writing.
fn open(database: &Path) -> Result<Database, Fault> {
    Ok(Database::open(database, Options { create: false, ..Options::default() })?)
}

fn print_one(style: arguments::Style, batch: RecordBatch) -> Result<(), Fault> {
    print(style, batch.schema(), std::iter::once(Ok(batch)))
}
