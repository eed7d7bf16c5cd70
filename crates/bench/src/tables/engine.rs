//! Drillcore, set up as its users would: the default options, and an append table by key.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use drillcore::{
    Database, Durability, Granularity, Merge, Metric, OnError, Options, ReadOptions, RollupSpec,
    ScanRequest, Selection, Table, TableSnapshot, TableSpec,
};

use crate::error::Result;
use crate::rows::event::{Answer, Event, schema};

/// The name of the engine in figures.
pub const DRILLCORE: &str = "drillcore";
/// The table of events.
pub const EVENTS: &str = "events";
/// The table of events folded by minute and city.
const MINUTES: &str = "minutes";
/// The columns that are folded: time, city and units.
const FOLDED: [usize; 3] = [1, 2, 3];

/// A killed process loses nothing that was acknowledged, a power cut may: as the peer is set up.
pub fn open(folder: &Path) -> Result<Database> {
    Ok(Database::open(folder, Options { durability: Durability::Os, ..Options::default() })?)
}

/// A database whose files come from the device: past the cache of the system, into one of some bytes.
pub fn open_cold(folder: &Path, cache_bytes: u64) -> Result<Database> {
    let options = ReadOptions { cache_bytes, direct_io: true, ..ReadOptions::default() };
    Ok(Database::open_read_only(folder, options)?)
}

/// Makes the table of events.
pub fn create_events(db: &Database, has_sets: bool) -> Result<Table> {
    let spec =
        TableSpec { set: has_sets.then(|| "city".into()), ..TableSpec::new(schema(), ["id"]) };
    Ok(db.create_table(EVENTS, spec)?)
}

/// Makes the table of minutes: events, units and the largest number of units of each minute and city.
pub fn create_minutes(db: &Database) -> Result<Table> {
    let rollup = RollupSpec::default()
        .time("at", Granularity::MINUTE)
        .metric("n", Metric::Count)
        .metric("units", Metric::sum("units"))
        .metric("most", Metric::max("units"));
    let spec = TableSpec::new(
        Arc::new(schema().project(&FOLDED).expect("the schema has these columns")),
        ["at", "city"],
    )
    .merge(Merge::Rollup(rollup));
    Ok(db.create_table(MINUTES, spec)?)
}

/// Appends batches, one per commit, from several threads that each take the next.
pub fn append_all(table: &Table, batches: &[RecordBatch], threads: u32) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            table.append(batch, OnError::Raise)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("appending panics not"))
    })
}

/// The rows of a selection.
pub fn answer(table: &TableSnapshot, selection: Selection, threads: u32) -> Result<Answer> {
    let mut answer = Answer::default();
    let threads = Some(threads as usize);
    for batch in table.scan(ScanRequest { selection, threads, ..ScanRequest::default() })? {
        answer.add_batch(&batch?);
    }
    Ok(answer)
}

/// The rows of the table of minutes, each as an event with the number of events as its id and the most
/// units as its price.
pub fn answer_of_minutes(table: &TableSnapshot) -> Result<Answer> {
    let columns = Some(["n", "at", "city", "units", "most"].map(String::from).into());
    let mut answer = Answer::default();
    for minutes in
        table.scan(ScanRequest { columns, threads: Some(1), ..ScanRequest::default() })?
    {
        let minutes = minutes?;
        let number = |column: usize| minutes.column(column).as_primitive::<Int64Type>().values();
        let at = minutes.column(1).as_primitive::<TimestampMillisecondType>().values();
        let city = minutes.column(2).as_string::<i32>();
        for row in 0..minutes.num_rows() {
            let (id, units, most) = (number(0)[row], number(3)[row], number(4)[row]);
            let (at, city) = (at[row], city.value(row));
            answer.add(&Event { id, at, city, units, price: most as f64, note: "" });
        }
    }
    Ok(answer)
}

/// Batches of events with the columns that [`create_minutes`] takes.
pub fn folded_columns(batches: &[RecordBatch]) -> Vec<RecordBatch> {
    let project = |batch: &RecordBatch| batch.project(&FOLDED);
    batches.iter().map(|batch| project(batch).expect("events have these columns")).collect()
}

/// One set.
pub fn of_set(city: &str) -> Selection {
    let sets: ArrayRef = Arc::new(StringArray::from(vec![city]));
    Selection { sets: Some(sets), ..Selection::default() }
}

/// Pages read from files since the database was opened, of blocks and of indexes.
pub fn pages_read(db: &Database) -> Result<u64> {
    let stats = db.stats()?;
    Ok(stats.index_pages_read + stats.filter_pages_read + stats.blocks_read + stats.set_pages_read)
}
