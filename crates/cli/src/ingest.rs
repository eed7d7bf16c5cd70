//! `drillcore ingest`: files into a table, on several threads, with a progress bar.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use drillcore::{
    AppendOptions, AppendResult, Database, Error, ErrorKind, Interrupt, Merge, OnError, Options,
    RollupSpec, Table, TableSchema, TableSpec,
};
use indicatif::ProgressBar;
use parking_lot::Mutex;

use crate::arguments::{Ingest, MergeName, OnErrorName, Shape};
use crate::batches::{Batch, Places, Reading, Taken, unusable};
use crate::fault::Fault;
use crate::input;
use crate::output::print_line;
use crate::progress;
use crate::shape_check::{check_agrees, whole_key};
use crate::source::{self, Replay};

/// Batches parsed ahead of each appending thread.
const AHEAD: usize = 2;
/// Rejected rows printed one by one.
const REJECTED_SHOWN: usize = 20;

/// Appends the files, and prints how many rows went in.
pub fn ingest(arguments: &Ingest, interrupt: &Interrupt) -> Result<(), Fault> {
    check_files_exist(&arguments.files)?;
    let (db, table, replay) = open_table(arguments, interrupt)?;
    let bar = progress_bar(arguments.quiet);
    let totals = Totals::default();
    for (index, file) in arguments.files.iter().enumerate() {
        let replay = replay.as_ref().filter(|_| index == 0);
        let done = append_file(&table, file, replay, arguments, &bar, &totals, interrupt);
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
/// goes into it; the beginning of a first file that cannot be read twice is kept.
fn open_table(
    arguments: &Ingest,
    interrupt: &Interrupt,
) -> Result<(Database, Table, Option<Arc<Replay>>), Fault> {
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
        return Ok((db.clone(), table, None));
    }
    check_new(arguments)?;
    let first = &arguments.files[0];
    let replay = match source::is_read_once(first) {
        false => None,
        true => {
            let replay = Replay::new(first, interrupt).map_err(|error| unusable(first, &error))?;
            Some(Arc::new(replay))
        }
    };
    let spec = new_table(arguments, replay.as_ref(), interrupt)?;
    rehearse(&spec, arguments, replay.as_ref(), interrupt)?;
    if let Some(replay) = &replay {
        replay.keep_no_more();
    }
    let db = match known {
        Some(db) => db,
        None => Database::open(&arguments.database, create(true))?,
    };
    let table = db.create_table(&arguments.table, spec)?;
    Ok((db, table, replay))
}

/// Makes the table in memory and appends the beginning of the first file to it, so that what cannot begin
/// leaves nothing behind on disk.
fn rehearse(
    spec: &TableSpec,
    arguments: &Ingest,
    replay: Option<&Arc<Replay>>,
    interrupt: &Interrupt,
) -> Result<(), Fault> {
    let db = Database::in_memory(Options { interrupt: interrupt.clone(), ..Options::default() })?;
    let table = db.create_table(&arguments.table, spec.clone())?;
    let file = &arguments.files[0];
    let taken = taken(&table.schema(), arguments.fill_nulls);
    let reading = reading(arguments, interrupt);
    let mut input = input::open_again(file, Some(&taken), &reading, replay)?;
    let Some(batch) = input.batches.next() else { return Ok(()) };
    append_batch(&table, file, &batch?, arguments)?;
    Ok(())
}

/// Refuses options that make no table, before a file is waited for.
fn check_new(arguments: &Ingest) -> Result<(), Fault> {
    let Shape { merge, rollup, .. } = &arguments.shape;
    if let (false, Some(option)) = (*merge == Some(MergeName::Rollup), rollup.given().first()) {
        return Err(Fault::wrong_call(format!(
            "{option} needs a rollup table; add --merge rollup"
        )));
    }
    if whole_key(&arguments.shape).is_empty() {
        return Err(Fault::wrong_call(format!(
            "table {:?} does not exist; use --key to create it with a key",
            arguments.table
        )));
    }
    Ok(())
}

/// What a new table looks like: the columns of the first file, for a rollup table that does not discover those
/// of them that it reads.
fn new_table(
    arguments: &Ingest,
    replay: Option<&Arc<Replay>>,
    interrupt: &Interrupt,
) -> Result<TableSpec, Fault> {
    let Shape { merge, set, no_set_index, weights, streams, no_streams, ttl, rollup, .. } =
        &arguments.shape;
    let key = whole_key(&arguments.shape);
    let (first, reading) = (&arguments.files[0], reading(arguments, interrupt));
    let guessed = input::open_again(first, None, &reading, replay)?.schema;
    let mut columns = typed(&guessed, &arguments.shape.column_types)?;
    let merge = match merge.unwrap_or(MergeName::Append) {
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
        ttl: ttl.clone(),
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

/// The columns of a file, some of them in types that are given rather than guessed.
fn typed(file: &Schema, types: &[(String, DataType)]) -> Result<SchemaRef, Fault> {
    let names = || file.fields().iter().map(|field| field.name().as_str());
    if let Some((unknown, _)) = types.iter().find(|(name, _)| file.column_with_name(name).is_none())
    {
        return Err(Error::unknown("column", unknown, names()).into());
    }
    let field = |field: &FieldRef| {
        let given = types.iter().rfind(|(name, _)| name == field.name());
        match given {
            None => field.clone(),
            Some((_, given)) => Arc::new(field.as_ref().clone().with_data_type(given.clone())),
        }
    };
    Ok(Arc::new(Schema::new(file.fields().iter().map(field).collect::<Vec<_>>())))
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
    replay: Option<&Arc<Replay>>,
    arguments: &Ingest,
    bar: &ProgressBar,
    totals: &Totals,
    interrupt: &Interrupt,
) -> Result<(), Fault> {
    let taken = taken(&table.schema(), arguments.fill_nulls);
    let input = input::open_again(file, Some(&taken), &reading(arguments, interrupt), replay)?;
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
