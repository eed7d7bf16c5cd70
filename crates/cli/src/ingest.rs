//! `drillcore ingest`: files into a table, on several threads, with a progress bar.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use arrow_array::RecordBatch;
use drillcore::{Database, Merge, OnError, Options, Table, TableSpec};
use indicatif::{ProgressBar, ProgressStyle};

use crate::arguments::{Ingest, MergeName, OnErrorName};
use crate::fault::Fault;
use crate::input;

/// Batches parsed ahead of each appending thread.
const AHEAD: usize = 4;
/// Rejected rows printed one by one.
const REJECTED_SHOWN: usize = 20;

/// Appends the files, and prints how many rows went in.
pub fn ingest(arguments: &Ingest, interrupted: &Arc<AtomicBool>) -> Result<(), Fault> {
    let db = Database::open(&arguments.database, Options::default())?;
    let table = match db.tables()?.contains(&arguments.table) {
        true => db.table(&arguments.table)?,
        false => create_table(&db, arguments)?,
    };
    let bar = progress_bar(arguments.quiet);
    let totals = Totals::default();
    for file in &arguments.files {
        let done = append_file(&table, file, arguments, &bar, &totals, interrupted);
        if let Err(fault) = done {
            bar.abandon();
            eprintln!("{} rows are in", totals.rows.load(Ordering::Relaxed));
            return Err(fault);
        }
    }
    bar.finish_and_clear();
    db.close()?;
    let (rows, rejected) = (totals.rows.into_inner(), totals.rejected.into_inner());
    println!("{rows} rows appended to {}, {rejected} left out", arguments.table);
    Ok(())
}

#[derive(Default)]
struct Totals {
    rows: AtomicU64,
    rejected: AtomicU64,
}

/// A new table with the columns of the first file.
fn create_table(db: &Database, arguments: &Ingest) -> Result<Table, Fault> {
    if arguments.key.is_empty() {
        return Err(Fault::wrong_call(format!(
            "table {:?} does not exist yet; name its key with --key",
            arguments.table
        )));
    }
    let first = &arguments.files[0];
    if first == "-" {
        return Err(Fault::wrong_call(
            "a new table needs the columns of a file; standard input can be read once only",
        ));
    }
    let columns = input::open(first, arguments.format, None, 1)?.schema;
    let spec = TableSpec {
        columns,
        key: arguments.key.clone(),
        set: arguments.set.clone(),
        weights: arguments.weights.clone(),
        merge: match arguments.merge {
            MergeName::Append => Merge::Append,
            MergeName::Upsert => Merge::Upsert,
        },
        exist_ok: false,
    };
    Ok(db.create_table(&arguments.table, spec)?)
}

fn append_file(
    table: &Table,
    file: &str,
    arguments: &Ingest,
    bar: &ProgressBar,
    totals: &Totals,
    interrupted: &Arc<AtomicBool>,
) -> Result<(), Fault> {
    let columns = table.schema().columns.clone();
    let batch_rows = arguments.batch_rows as usize;
    let input = input::open(file, arguments.format, Some(columns), batch_rows)?;
    let threads = usize::from(arguments.threads);
    let (sender, receiver) = mpsc::sync_channel::<(u64, RecordBatch)>(threads * AHEAD);
    let receiver = Arc::new(Mutex::new(receiver));
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let (receiver, failed) = (receiver.clone(), &failed);
                scope.spawn(move || {
                    let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    while let Ok((first_row, batch)) = next() {
                        if failed.load(Ordering::Relaxed) {
                            continue;
                        }
                        let done = append(table, file, first_row, &batch, arguments, bar, totals);
                        if let Err(fault) = done {
                            failed.store(true, Ordering::Relaxed);
                            return Err(fault);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let mut first_row = 0;
        let mut read = Ok(());
        for batch in input.batches {
            if failed.load(Ordering::Relaxed) || interrupted.load(Ordering::Relaxed) {
                break;
            }
            match batch {
                Ok(batch) => {
                    let rows = batch.num_rows() as u64;
                    // The receiver lives as long as this scope.
                    let _ = sender.send((first_row, batch));
                    first_row += rows;
                }
                Err(error) => {
                    let after = format!("{file}, after row {first_row}: {error}");
                    read = Err(Fault::wrong_call(after));
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
    match interrupted.load(Ordering::Relaxed) {
        true => Err(Fault::interrupted()),
        false => Ok(()),
    }
}

fn append(
    table: &Table,
    file: &str,
    first_row: u64,
    batch: &RecordBatch,
    arguments: &Ingest,
    bar: &ProgressBar,
    totals: &Totals,
) -> Result<(), Fault> {
    let on_error = match arguments.on_error {
        OnErrorName::Raise => OnError::Raise,
        OnErrorName::Skip => OnError::Skip,
    };
    let result = table.append(batch, on_error).map_err(|error| {
        Fault::from(error)
            .at(&format!("{file}, in the {} rows after {first_row}", batch.num_rows()))
    })?;
    totals.rows.fetch_add(result.rows, Ordering::Relaxed);
    let before = totals.rejected.fetch_add(result.rejected.len() as u64, Ordering::Relaxed);
    let room = REJECTED_SHOWN.saturating_sub(before as usize);
    for rejected in result.rejected.iter().take(room) {
        bar.println(format!("{file}, row {}: {}", first_row + rejected.row + 1, rejected.reason));
    }
    bar.inc(result.rows);
    Ok(())
}

fn progress_bar(quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {human_pos} rows, {per_sec}, {elapsed}");
    ProgressBar::new_spinner().with_style(style.expect("the template is sound"))
}
