//! `drillcore ingest`: files into a table, on several threads, with a progress bar.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use arrow_schema::{Schema, SchemaRef};
use drillcore::{
    AppendOptions, AppendResult, Database, Error, ErrorKind, Interrupt, Merge, OnError, Options,
    RollupSpec, Table, TableSchema, TableSpec,
};
use indicatif::ProgressBar;
use parking_lot::Mutex;

use crate::arguments::{Ingest, MergeName, OnErrorName, Shape};
use crate::batches::{Batch, Places, Reading, Taken};
use crate::fault::Fault;
use crate::input;
use crate::output::print_line;
use crate::progress;
use crate::shape_check::{check_agrees, whole_key};
use crate::source;

/// Batches parsed ahead of each appending thread.
const AHEAD: usize = 2;
/// Rejected rows printed one by one.
const REJECTED_SHOWN: usize = 20;

/// Appends the files, and prints how many rows went in.
pub fn ingest(arguments: &Ingest, interrupt: &Interrupt) -> Result<(), Fault> {
    check_files_exist(&arguments.files)?;
    let (db, table) = open_table(arguments, interrupt)?;
    let bar = progress_bar(arguments.quiet);
    let totals = Totals::default();
    for file in &arguments.files {
        let done = append_file(&table, file, arguments, &bar, &totals, interrupt);
        if let Err(fault) = done {
            bar.abandon();
            eprintln!("appended {} rows before the error", totals.rows.load(Ordering::Relaxed));
            return Err(fault);
        }
    }
    bar.finish_and_clear();
    db.close()?;
    let (rows, rejected) = (totals.rows.into_inner(), totals.rejected.into_inner());
    print_line(&format!("{rows} rows appended to {}, {rejected} left out", arguments.table))
}

#[derive(Default)]
struct Totals {
    rows: AtomicU64,
    rejected: AtomicU64,
}

/// A name mistyped behind others should not be told once they are in.
fn check_files_exist(files: &[String]) -> Result<(), Fault> {
    for file in files.iter().filter(|file| *file != "-") {
        let cannot = |why: String| Fault::unusable(format!("cannot read {file}: {why}"));
        let found = std::fs::metadata(file).map_err(|error| cannot(error.to_string()))?;
        if found.is_dir() {
            return Err(cannot("it is a directory".to_string()));
        }
    }
    Ok(())
}

/// The table, and the database that it is in. What is missing is made, once it is known that the first file
/// goes into it.
fn open_table(arguments: &Ingest, interrupt: &Interrupt) -> Result<(Database, Table), Fault> {
    let options = || Options { interrupt: interrupt.clone(), ..Options::default() };
    let create = |create| Options { create, ..options() };
    let known = match Database::open(&arguments.database, create(false)) {
        Ok(db) => Some(db),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(db) = &known
        && db.tables()?.contains(&arguments.table)
    {
        let table = db.table(&arguments.table)?;
        check_agrees(&arguments.shape, &arguments.table, &table.schema())?;
        return Ok((db.clone(), table));
    }
    let spec = new_table(arguments, interrupt)?;
    rehearse(&spec, arguments, interrupt)?;
    let db = match known {
        Some(db) => db,
        None => Database::open(&arguments.database, create(true))?,
    };
    let table = db.create_table(&arguments.table, spec)?;
    Ok((db, table))
}

/// Makes the table in memory and appends the beginning of the first file to it, so that what cannot begin
/// leaves nothing behind on disk.
fn rehearse(spec: &TableSpec, arguments: &Ingest, interrupt: &Interrupt) -> Result<(), Fault> {
    let db = Database::in_memory(Options { interrupt: interrupt.clone(), ..Options::default() })?;
    let table = db.create_table(&arguments.table, spec.clone())?;
    let file = &arguments.files[0];
    let taken = taken(&table.schema(), arguments.fill_nulls);
    let mut input = input::open(file, Some(&taken), &reading(arguments, interrupt))?;
    let Some(batch) = input.batches.next() else { return Ok(()) };
    append_batch(&table, file, &batch?, arguments)?;
    Ok(())
}

/// What a new table looks like: the columns of the first file, for a rollup table that does not discover those
/// of them that it reads.
fn new_table(arguments: &Ingest, interrupt: &Interrupt) -> Result<TableSpec, Fault> {
    let Shape { merge, set, no_set_index, weights, streams, no_streams, rollup, .. } =
        &arguments.shape;
    let merge = merge.unwrap_or(MergeName::Append);
    if let (false, Some(option)) = (merge == MergeName::Rollup, rollup.given().first()) {
        return Err(Fault::wrong_call(format!(
            "{option} needs a rollup table; add --merge rollup"
        )));
    }
    let key = whole_key(&arguments.shape);
    if key.is_empty() {
        return Err(Fault::wrong_call(format!(
            "table {:?} does not exist; use --key to create it with a key",
            arguments.table
        )));
    }
    let first = &arguments.files[0];
    if source::is_read_once(first) {
        let what = if first == "-" { "standard input" } else { "a pipe" };
        return Err(Fault::wrong_call(format!(
            "a new table needs a file that can be read twice, and {what} can be read only once; begin with a file"
        )));
    }
    let mut columns = input::open(first, None, &reading(arguments, interrupt))?.schema;
    let merge = match merge {
        MergeName::Append => Merge::Append,
        MergeName::Upsert => Merge::Upsert,
        MergeName::Rollup => {
            let spec = RollupSpec {
                time: rollup.time.clone(),
                granularity: rollup.granularity.unwrap_or_default(),
                metrics: rollup.metric.clone(),
                discover: rollup.discover,
            };
            if !spec.discover {
                let read = spec.metrics.iter().filter_map(|(_, metric)| metric.column());
                let names = key.iter().map(String::as_str).chain(read);
                columns = only(&columns, &names.collect::<Vec<_>>())?;
            }
            Merge::Rollup(spec)
        }
    };
    Ok(TableSpec {
        set: set.clone(),
        set_index: !no_set_index,
        streams: (*no_streams || !streams.is_empty()).then(|| streams.clone()),
        ..TableSpec::new(columns, key).weights(weights.clone()).merge(merge)
    })
}

fn reading<'a>(arguments: &Ingest, interrupt: &'a Interrupt) -> Reading<'a> {
    let batch_rows = arguments.batch_rows as usize;
    Reading { format: arguments.format, batch_rows, on_error: on_error(arguments), interrupt }
}

fn on_error(arguments: &Ingest) -> OnError {
    match arguments.on_error {
        OnErrorName::Raise => OnError::Raise,
        OnErrorName::Skip => OnError::Skip,
    }
}

/// The columns with these names, in the file's order.
fn only(file: &Schema, names: &[&str]) -> Result<SchemaRef, Fault> {
    let of_file = || file.fields().iter().map(|field| field.name().as_str());
    if let Some(unknown) = names.iter().find(|name| file.column_with_name(name).is_none()) {
        return Err(Error::unknown("column", unknown, of_file()).into());
    }
    let indexes = of_file().enumerate().filter(|(_, name)| names.contains(name));
    let indexes: Vec<usize> = indexes.map(|(index, _)| index).collect();
    Ok(Arc::new(file.project(&indexes).expect("they are columns of the file")))
}

/// What a table takes of a file. A rollup table skips what it does not fold, or makes dimensions of it; in
/// others, a column that they do not have is a mistake. An upsert table wants whole rows.
fn taken(schema: &TableSchema, fill_nulls: bool) -> Taken {
    let columns = schema.batch_columns().clone();
    let skips_others = schema.rollup().is_some() && !schema.discovers();
    let whole_row = if fill_nulls { &[] } else { schema.whole_row_columns() };
    let spelled_out = whole_row.iter().map(|field| field.name().clone()).collect();
    Taken { columns, skips_others, spelled_out }
}

fn append_file(
    table: &Table,
    file: &str,
    arguments: &Ingest,
    bar: &ProgressBar,
    totals: &Totals,
    interrupt: &Interrupt,
) -> Result<(), Fault> {
    let taken = taken(&table.schema(), arguments.fill_nulls);
    let input = input::open(file, Some(&taken), &reading(arguments, interrupt))?;
    let threads = usize::from(arguments.threads);
    let (sender, receiver) = mpsc::sync_channel::<Batch>(threads * AHEAD);
    let receiver = Arc::new(Mutex::new(receiver));
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let (receiver, failed) = (receiver.clone(), &failed);
                scope.spawn(move || {
                    let next = || receiver.lock().recv();
                    while let Ok(batch) = next() {
                        if failed.load(Ordering::Relaxed) {
                            continue;
                        }
                        let done = append(table, file, &batch, arguments, bar, totals);
                        if let Err(fault) = done {
                            failed.store(true, Ordering::Relaxed);
                            return Err(fault);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let mut read = Ok(());
        for batch in input.batches {
            if failed.load(Ordering::Relaxed) || interrupt.check().is_err() {
                break;
            }
            match batch {
                // The receiver lives as long as this scope.
                Ok(batch) => drop(sender.send(batch)),
                Err(fault) => {
                    read = Err(fault);
                    break;
                }
            }
        }
        drop(sender);
        for worker in workers {
            worker.join().expect("an appending thread does not panic")?;
        }
        read
    })?;
    Ok(interrupt.check()?)
}

fn append(
    table: &Table,
    file: &str,
    batch: &Batch,
    arguments: &Ingest,
    bar: &ProgressBar,
    totals: &Totals,
) -> Result<(), Fault> {
    let result = append_batch(table, file, batch, arguments)?;
    totals.rows.fetch_add(result.rows, Ordering::Relaxed);
    let unparsed = batch.bad.iter().map(|bad| format!("line {}: {}", bad.line, bad.reason));
    let unfit =
        result.rejected.iter().map(|bad| format!("{}: {}", batch.places.of(bad.row), bad.reason));
    let left_out = (batch.bad.len() + result.rejected.len()) as u64;
    let before = totals.rejected.fetch_add(left_out, Ordering::Relaxed);
    let room = REJECTED_SHOWN.saturating_sub(before as usize);
    for reason in unparsed.chain(unfit).take(room) {
        // Also where there is no bar. Whoever closed standard error does not want to know.
        bar.suspend(|| drop(writeln!(io::stderr(), "{file}, {reason}")));
    }
    bar.inc(result.rows);
    Ok(())
}

fn append_batch(
    table: &Table,
    file: &str,
    batch: &Batch,
    arguments: &Ingest,
) -> Result<AppendResult, Fault> {
    let rows = &batch.rows;
    let options = AppendOptions { on_error: on_error(arguments), fill_nulls: arguments.fill_nulls };
    table.append(rows, options).map_err(|error| {
        let place = match &batch.places {
            Places::Rows { before } => {
                format!("in the {} rows after row {before}", rows.num_rows())
            }
            Places::Lines(lines) => {
                let first = lines.first().unwrap_or(&0);
                format!("in the {} rows from line {first}", rows.num_rows())
            }
        };
        Fault::from(error).at(&format!("{file}, {place}"))
    })
}

fn progress_bar(quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = progress::style("{spinner} {human_pos} rows, {rate}, {elapsed}");
    ProgressBar::new_spinner().with_style(style)
}
