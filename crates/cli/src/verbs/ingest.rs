//! `drillcore ingest`: files into a table, on several threads, with a progress bar.
//!
//! One thread reads a file and cuts it where records end. Others parse, sort and encode these parts, each on its own, and
//! commit them in the order of the file: of rows with one key, the later one is the newer one.

use std::iter::Peekable;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use drillcore::{
    AppendOptions, Database, Error, ErrorKind, Interrupt, Merge, OnError, Options, PreparedAppend,
    Rejected, RollupSpec, SourcePosition, Table, TableSchema, TableSpec,
};
use indicatif::{HumanCount, ProgressBar};
use parking_lot::Mutex;

use crate::arguments::ingest::{Ingest, MergeName, OnErrorName, Shape};
use crate::column_type::check_zone;
use crate::files::batches::{
    BadRecord, Batch, Part, Parts, Places, Reading, Taken, unopened, unusable,
};
use crate::files::input;
use crate::files::source::{self, Replay};
use crate::printing::output::print_line;
use crate::printing::progress;
use crate::process::fault::{Fault, report};
use crate::verbs::held_bytes::HeldBytes;
use crate::verbs::in_turn::Turns;
use crate::verbs::resume::{FileProgress, forgotten};
use crate::verbs::shape_check::{check_agrees, check_types, whole_key};

/// Parts read ahead of each parsing thread.
const AHEAD: usize = 2;
/// ... as far as all of them take no more than this for each thread. What an allocator keeps of bytes that one thread
/// reads and another one frees is some times as much.
const HELD_BYTES_PER_THREAD: u64 = 16 << 20;
/// Rejected rows printed one by one.
const REJECTED_SHOWN: usize = 20;

/// Appends the files, and prints how many rows went in.
pub fn ingest(arguments: &Ingest, interrupt: &Interrupt) -> Result<(), Fault> {
    check_types(&arguments.shape.column_types)?;
    check_files_exist(&arguments.files)?;
    let (db, table, replay) = open_table(arguments, interrupt)?;
    let bar = progress_bar(arguments.quiet);
    let totals = Totals::default();
    // Files that are to be resumed may be many calls' work.
    let forgotten =
        if arguments.resume { Vec::new() } else { forgotten(&table, &arguments.files)? };
    let forgotten = Mutex::new(forgotten);
    for (index, file) in arguments.files.iter().enumerate() {
        let replay = replay.as_ref().filter(|_| index == 0);
        let (bar, totals, forgotten) = (&bar, &totals, &forgotten);
        let of_file =
            FileIngest { table: &table, file, arguments, bar, totals, forgotten, interrupt };
        if let Err(fault) = of_file.run(replay) {
            bar.abandon();
            let rows = totals.rows.load(Ordering::Relaxed);
            if rows > 0 {
                report(format_args!("appended {} rows before the error", HumanCount(rows)));
            }
            return Err(fault);
        }
    }
    bar.finish_and_clear();
    db.close()?;
    let counts = [totals.rows, totals.rejected];
    let [rows, rejected] = counts.map(AtomicU64::into_inner);
    let noun = if rows == 1 { "row" } else { "rows" };
    let (rows, rejected) = (HumanCount(rows), HumanCount(rejected));
    print_line(&format!("{rows} {noun} appended to {}, {rejected} left out", arguments.table))
}

#[derive(Default)]
struct Totals {
    rows: AtomicU64,
    rejected: AtomicU64,
}

/// A name mistyped behind others should not be reported once they are in.
fn check_files_exist(files: &[String]) -> Result<(), Fault> {
    for file in files.iter().filter(|file| *file != "-") {
        let found = std::fs::metadata(file).map_err(|error| unopened(file, &error))?;
        if found.is_dir() {
            return Err(unusable(file, &"it is a directory; give files"));
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
    let Some(part) = input.parts.next() else { return Ok(()) };
    for batch in part?.parse()?.into_iter().take(1) {
        prepared(&table, file, &batch, arguments)?.commit(&[])?;
    }
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
    check_separator(first, &guessed, &key)?;
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
    check_zones(first, &columns)?;
    Ok(TableSpec {
        set: set.clone(),
        set_index: !no_set_index,
        streams: (*no_streams || !streams.is_empty()).then(|| streams.clone()),
        ttl: ttl.clone(),
        ..TableSpec::new(columns, key).weights(weights.clone()).merge(merge)
    })
}

/// Refuses a time zone that rows of the table could not be printed in.
fn check_zones(file: &str, columns: &Schema) -> Result<(), Fault> {
    for field in columns.fields() {
        check_zone(field.data_type()).map_err(|what| {
            let other = format!("--type {}=timestamp[us, UTC]", field.name());
            Fault::wrong_call(format!("column {:?}: {what}, as in {other}", field.name())).at(file)
        })?;
    }
    Ok(())
}

/// Refuses what has one column in which there are several, as far as its name tells.
fn check_separator(file: &str, guessed: &Schema, key: &[String]) -> Result<(), Fault> {
    let [only] = &guessed.fields()[..] else { return Ok(()) };
    let found = [';', '\t', '|'].into_iter().find(|&other| only.name().contains(other));
    match found.filter(|_| !key.contains(only.name())) {
        None => Ok(()),
        Some(separator) => {
            let shown = if separator == '\t' { "\\t".to_string() } else { separator.to_string() };
            let what = format!(
                "the header has one column, {:?}; if these are several, use --separator '{shown}'",
                only.name()
            );
            Err(Fault::wrong_call(what).at(file))
        }
    }
}

fn reading<'a>(arguments: &'a Ingest, interrupt: &'a Interrupt) -> Reading<'a> {
    let batch_rows = arguments.batch_rows as usize;
    let (format, on_error) = (arguments.format, on_error(arguments));
    let given = Some(&arguments.shape.column_types[..]);
    let (separator, records_before) = (arguments.separator, 0);
    Reading { format, separator, batch_rows, on_error, given, records_before, interrupt }
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
    // What cannot be null is refused where it is missing, whatever is filled.
    let whole_row = schema.whole_row_columns().iter().enumerate();
    let spelled_out = whole_row.filter(|(column, _)| !fill_nulls && schema.takes_null(*column));
    let spelled_out = spelled_out.map(|(_, field)| field.name().clone()).collect();
    Taken {
        columns,
        skips_others: schema.skips_columns(),
        adds_others: schema.discovers(),
        spelled_out,
    }
}

/// One file on its way into the table.
struct FileIngest<'a> {
    table: &'a Table,
    file: &'a str,
    arguments: &'a Ingest,
    bar: &'a ProgressBar,
    totals: &'a Totals,
    /// Positions that the next commit removes.
    forgotten: &'a Mutex<Vec<SourcePosition>>,
    interrupt: &'a Interrupt,
}

/// Where a part stands in its file, if that is known.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    BeforeOthers,
    Last,
}

/// A batch that was made ready to be committed, and what is to be said of it.
struct Ready {
    append: PreparedAppend,
    places: Places,
    bad: Vec<BadRecord>,
    records_read: u64,
}

impl FileIngest<'_> {
    fn run(&self, replay: Option<&Arc<Replay>>) -> Result<(), Fault> {
        let FileIngest { table, file, arguments, interrupt, .. } = *self;
        let resumes = arguments.resume;
        let progress = FileProgress::of(table, file, resumes)?;
        let records_before = progress.as_ref().map_or(0, |progress| progress.records_before);
        if records_before > 0 {
            let records = HumanCount(records_before);
            let what = format!("{file}: {records} records were already stored");
            self.bar.suspend(|| report(what));
        }
        if progress.as_ref().is_some_and(|progress| progress.is_whole) {
            return Ok(());
        }
        let taken = taken(&table.schema(), arguments.fill_nulls);
        let reading = Reading { records_before, ..reading(arguments, interrupt) };
        let input = input::open_again(file, Some(&taken), &reading, replay)?;
        self.parts(input.parts.peekable(), progress.as_ref())?;
        Ok(interrupt.check()?)
    }

    /// Appends the parts of the file in their order.
    fn parts(
        &self,
        mut parts: Peekable<Parts>,
        progress: Option<&FileProgress>,
    ) -> Result<(), Fault> {
        let threads = threads(self.arguments);
        let (sender, receiver) = mpsc::sync_channel(threads * AHEAD);
        let receiver = Arc::new(Mutex::new(receiver));
        let (turns, held) =
            (Turns::default(), HeldBytes::new(threads as u64 * HELD_BYTES_PER_THREAD));
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    let (receiver, turns) = (receiver.clone(), &turns);
                    scope.spawn(move || -> Result<(), Fault> {
                        let next = || receiver.lock().recv();
                        while let Ok((number, part, place, held)) = next() {
                            let (ready, fault) = self.ready(part);
                            // If there is no turn, another thread reports why.
                            let Some(turn) = turns.wait(number) else { return Ok(()) };
                            let last = fault.is_ok().then_some(ready.len());
                            for (index, batch) in ready.into_iter().enumerate() {
                                let is_last = place == Place::Last && last == Some(index + 1);
                                self.commit(batch, progress, is_last)?;
                            }
                            fault?;
                            turn.done();
                            drop(held);
                        }
                        Ok(())
                    })
                })
                .collect();
            // From now on a send fails once no worker is left.
            drop(receiver);
            let mut number = 0;
            while let Some(part) = parts.next() {
                let is_over = part.is_err() || self.interrupt.check().is_err();
                // The next part of a pipe is not waited for.
                let is_last = progress.is_some() && parts.peek().is_none();
                let place = if is_last { Place::Last } else { Place::BeforeOthers };
                // Once no worker is left, nothing is held.
                let held = held.hold(part.as_ref().map_or(0, |part| part.bytes));
                let is_sent = sender.send((number, part, place, held)).is_ok();
                if turns.have_failed() || !is_sent || is_over {
                    break;
                }
                number += 1;
            }
            drop(sender);
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().expect("a thread that appends does not panic"))
        })
    }

    /// The batches of a part, up to the first that does not fit.
    fn ready(&self, part: Result<Part, Fault>) -> (Vec<Ready>, Result<(), Fault>) {
        let mut ready = Vec::new();
        let made = part.and_then(Part::parse).and_then(|batches| {
            for batch in batches {
                let append = prepared(self.table, self.file, &batch, self.arguments)?;
                let Batch { places, bad, records_read, .. } = batch;
                ready.push(Ready { append, places, bad, records_read });
            }
            Ok(())
        });
        (ready, made)
    }

    fn commit(
        &self,
        ready: Ready,
        progress: Option<&FileProgress>,
        is_last: bool,
    ) -> Result<(), Fault> {
        let Ready { append, places, bad, records_read } = ready;
        let position = progress.map(|progress| match is_last {
            true => progress.end(records_read, self.arguments.resume),
            false => progress.at(records_read),
        });
        let mut positions = std::mem::take(&mut *self.forgotten.lock());
        positions.extend(position);
        let result = append.commit(&positions)?;
        self.totals.rows.fetch_add(result.rows, Ordering::Relaxed);
        let unparsed = bad.iter().map(|bad| format!("line {}: {}", bad.line, bad.reason));
        let unfit = |bad: &Rejected| format!("{}: {}", places.of(bad.row), bad.reason);
        let left_out = (bad.len() + result.rejected.len()) as u64;
        let before = self.totals.rejected.fetch_add(left_out, Ordering::Relaxed);
        let room = REJECTED_SHOWN.saturating_sub(before as usize);
        for reason in unparsed.chain(result.rejected.iter().map(unfit)).take(room) {
            // Also where there is no bar. If standard error is closed, it is not wanted.
            self.bar.suspend(|| report(format_args!("{}, {reason}", self.file)));
        }
        self.bar.inc(result.rows);
        Ok(())
    }
}

fn threads(arguments: &Ingest) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    arguments.threads.map_or_else(cores, usize::from)
}

fn prepared(
    table: &Table,
    file: &str,
    batch: &Batch,
    arguments: &Ingest,
) -> Result<PreparedAppend, Fault> {
    let rows = &batch.rows;
    let options = AppendOptions { on_error: on_error(arguments), fill_nulls: arguments.fill_nulls };
    table.prepare(rows, options).map_err(|error| {
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
