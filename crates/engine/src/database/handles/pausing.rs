//! Compactions that stop half way, and what may come in between.

use super::*;
use crate::maintenance::jobs::{Job, Picked, leave_to_writers};
use crate::maintenance::run_compaction::{pick_paused, pick_run_compaction, pick_to_help};
use crate::state::compaction::Stint;
use crate::state::guarded::State;
use crate::state::put_off::Done;
use crate::{Between, Closed, Durability, OnError, ScanRequest, Selection};
use arrow_array::Int64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, Schema};
use drillcore_storage::files::memory_directory::MemoryDirectory;
use std::time::Instant;

const RUNS: i64 = 8;
const ROWS_OF_RUN: i64 = 10_000;
const TABLE: TableId = TableId(1);

/// Runs that are long enough to be compacted in several batches, and that no worker compacts as long as the hold is there.
fn with_runs(
    directory: &Arc<MemoryDirectory>,
    durability: Durability,
) -> (Database, MaintenanceHold) {
    let options = Options { durability, ..Options::default() };
    let db = Database::open_in(directory.clone(), options).unwrap();
    let hold = db.hold_maintenance();
    let columns = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
    let table = db.create_table("t", TableSpec::new(Arc::new(columns), ["id"])).unwrap();
    for run in 0..RUNS {
        let ids = (0..ROWS_OF_RUN).map(|row| row * RUNS + run);
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
        let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        table.append(&batch, OnError::Raise).unwrap();
    }
    (db, hold)
}

fn choose<'a>(core: &'a Core, pick: impl FnOnce(&mut State) -> Option<Job>) -> Picked<'a> {
    Picked::choose(core, core.state(), pick).ok().expect("there is something to compact")
}

/// A batch of rows.
const ONE_BATCH: Stint = Stint::Bytes(0);

fn compact(core: &Core, stint: Stint) -> Done {
    let visible = core.visible();
    let pick = |state: &mut State| pick_run_compaction(core, state, TABLE, visible, u64::MAX);
    let job = choose(core, pick);
    job.run(&Interrupt::never(), &|_| (), stint, &Progress::default()).unwrap()
}

/// Compacts a batch of rows of the runs.
fn pause(db: &Database) {
    let core = db.core().unwrap();
    assert!(matches!(compact(core, ONE_BATCH), Done::Paused));
    let state = core.state();
    assert_eq!(state.tables[&TABLE].paused.len(), 1);
    assert!(state.tables[&TABLE].runs.iter().all(|slot| slot.taken));
    assert!(state.reserved_bytes > 0);
}

fn go_on(db: &Database) {
    let core = db.core().unwrap();
    let job = choose(core, |state| pick_paused(state, TABLE, u64::MAX));
    let done = job.run(&Interrupt::never(), &|_| (), Stint::Whole, &Progress::default());
    assert!(matches!(done, Ok(Done::Installed)));
}

/// All ids, in key order.
fn ids(db: &Database) -> Vec<i64> {
    let scan = db.table("t").unwrap().snapshot().unwrap().scan(ScanRequest::default()).unwrap();
    let ids = |batch: Result<RecordBatch>| {
        batch.unwrap().column(0).as_primitive::<Int64Type>().values().to_vec()
    };
    scan.flat_map(ids).collect()
}

fn is_nothing_reserved(db: &Database) {
    let state = db.core().unwrap().state();
    let of_runs: u64 = state.tables.values().map(|table| table.run_bytes()).sum();
    assert_eq!((state.reserved_bytes, state.buffered_bytes), (0, of_runs));
}

#[test]
fn a_compaction_that_was_paused_goes_on_where_it_stopped() {
    let (db, _hold) = with_runs(&Arc::default(), Durability::Os);
    pause(&db);
    let all: Vec<i64> = (0..RUNS * ROWS_OF_RUN).collect();
    assert_eq!(ids(&db), all, "while it is paused, the runs are read");
    go_on(&db);
    assert_eq!(db.core().unwrap().state().tables[&TABLE].runs.len(), 1);
    assert_eq!(ids(&db), all);
    is_nothing_reserved(&db);
}

#[test]
fn rows_that_are_erased_while_a_compaction_is_paused_do_not_come_back() {
    let (db, _hold) = with_runs(&Arc::default(), Durability::Os);
    pause(&db);
    let end = |id: i64| Some(vec![Arc::new(Int64Array::from(vec![id])) as ArrayRef]);
    let between = Between { low: end(10), high: end(79_000), closed: Closed::Both };
    let selection = Selection { between: Some(between), ..Selection::default() };
    db.table("t").unwrap().delete_selected(&selection).unwrap();
    let left: Vec<i64> = (0..10).chain(79_001..RUNS * ROWS_OF_RUN).collect();
    assert_eq!(ids(&db), left);
    go_on(&db);
    assert_eq!(ids(&db), left);
    is_nothing_reserved(&db);
}

#[test]
fn a_flush_gives_up_a_paused_compaction() {
    let (db, _hold) = with_runs(&Arc::default(), Durability::Os);
    pause(&db);
    db.flush().unwrap();
    assert_eq!(db.stats().unwrap().tables[0].segments, 1);
    assert_eq!(ids(&db), (0..RUNS * ROWS_OF_RUN).collect::<Vec<i64>>());
    assert!(db.core().unwrap().state().tables[&TABLE].paused.is_empty());
    is_nothing_reserved(&db);
}

#[test]
fn a_table_is_dropped_with_its_paused_compaction() {
    let (db, _hold) = with_runs(&Arc::default(), Durability::Os);
    pause(&db);
    db.drop_table("t").unwrap();
    is_nothing_reserved(&db);
    // While a thread goes on with it.
    let (db, _hold) = with_runs(&Arc::default(), Durability::Os);
    pause(&db);
    let job = choose(db.core().unwrap(), |state| pick_paused(state, TABLE, u64::MAX));
    db.drop_table("t").unwrap();
    let done = job.run(&Interrupt::never(), &|_| (), ONE_BATCH, &Progress::default());
    assert!(matches!(done, Ok(Done::Paused)));
    is_nothing_reserved(&db);
}

#[test]
fn closing_writes_out_the_runs_of_a_paused_compaction() {
    let directory: Arc<MemoryDirectory> = Arc::default();
    let (db, _hold) = with_runs(&directory, Durability::None);
    pause(&db);
    db.close().unwrap();
    drop(db);
    let db = Database::open_in(directory, Options::default()).unwrap();
    assert_eq!(ids(&db), (0..RUNS * ROWS_OF_RUN).collect::<Vec<i64>>());
}

/// Else the last read that holds a run frees its memory.
#[test]
fn runs_that_were_compacted_are_held_for_a_moment() {
    let (db, hold) = with_runs(&Arc::default(), Durability::Os);
    let core = db.core().unwrap();
    let snapshot = db.table("t").unwrap().snapshot().unwrap();
    assert!(matches!(compact(core, Stint::Whole), Done::Installed));
    let held = core.meter.row_bytes();
    drop(snapshot);
    // The newest version is made anew, and lets go of the runs.
    assert_eq!(ids(&db).len() as i64, RUNS * ROWS_OF_RUN);
    assert_eq!(core.meter.row_bytes(), held, "no read has freed them");
    drop(hold);
    let since = Instant::now();
    while core.meter.row_bytes() > held * 2 / 3 {
        assert!(since.elapsed().as_secs() < 20, "a worker frees them");
        std::thread::yield_now();
    }
}

#[test]
fn a_writer_of_a_table_that_lags_goes_on_with_compactions_bit_by_bit() {
    let (db, hold) = with_runs(&Arc::default(), Durability::Os);
    let core = db.core().unwrap();
    // All workers compact.
    core.state().workers_compacting = core.options.maintenance_threads;
    drop(hold);
    let table = db.table("t").unwrap();
    let mut all: Vec<i64> = (0..RUNS * ROWS_OF_RUN).collect();
    let mut has_paused = false;
    for batch in 0..60 {
        let more = (0..ROWS_OF_RUN).map(|row| (row * 60 + batch) * 7 % 1_000_003);
        let more: Vec<i64> = more.collect();
        let ids: ArrayRef = Arc::new(Int64Array::from(more.clone()));
        table.append(&RecordBatch::try_from_iter([("id", ids)]).unwrap(), OnError::Raise).unwrap();
        all.extend(more);
        let state = core.state();
        has_paused |= !state.tables[&TABLE].paused.is_empty();
        assert!(state.tables[&TABLE].runs.len() < 40, "the writer does nothing");
    }
    assert!(has_paused, "nothing was done bit by bit");
    all.sort_unstable();
    assert_eq!(ids(&db), all);
    core.state().workers_compacting = 0;
    db.flush().unwrap();
    assert_eq!(ids(&db), all);
    is_nothing_reserved(&db);
}

#[test]
fn a_worker_that_had_to_wait_leaves_a_compaction_to_those_who_append_and_comes_back() {
    let (db, hold) = with_runs(&Arc::default(), Durability::Os);
    let core = db.core().unwrap();
    let mut newest = core.state().tables[&TABLE].newest_run();
    let until = || core.state().tables[&TABLE].left_to_writers.until(Instant::now());
    pause(&db);
    assert!(!leave_to_writers(core, TABLE, &mut newest), "no one appends");
    assert_eq!(until(), None);
    append(&db, 0..ROWS_OF_RUN);
    assert!(leave_to_writers(core, TABLE, &mut newest));
    let until = until().unwrap();
    let now = Instant::now();
    assert!(core.state().next_try(now).is_some_and(|next| next <= until), "a worker comes back");
    // The table does not lag, and yet its writer takes what was left.
    let state = core.state();
    assert!(state.tables[&TABLE].runs.len() < 12);
    let helped = |state: &mut State| pick_to_help(core, state, TABLE, core.visible(), u64::MAX);
    let job = Picked::choose(core, state, helped).ok().expect("the paused one");
    assert!(core.state().tables[&TABLE].paused.is_empty());
    let done = job.run(&Interrupt::never(), &|_| (), ONE_BATCH, &Progress::default());
    assert!(matches!(done, Ok(Done::Paused)));
    drop(hold);
    let since = Instant::now();
    while core.state().tables[&TABLE].runs.len() > 2 {
        assert!(since.elapsed().as_secs() < 20, "no worker comes back");
        std::thread::yield_now();
    }
}

fn append(db: &Database, ids: std::ops::Range<i64>) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    db.table("t").unwrap().append(&batch, OnError::Raise).unwrap();
}

/// What recovery erases it erases of the runs that there are, so no compaction may have begun before.
#[test]
fn rows_that_were_erased_do_not_come_back_by_recovery() {
    let directory: Arc<MemoryDirectory> = Arc::default();
    let (db, _hold) = with_runs(&directory, Durability::Os);
    let table = db.table("t").unwrap();
    for run in 0..RUNS {
        let ids = (0..ROWS_OF_RUN).map(|row| (row + ROWS_OF_RUN) * RUNS + run);
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
        table.append(&RecordBatch::try_from_iter([("id", ids)]).unwrap(), OnError::Raise).unwrap();
    }
    let end = |id: i64| Some(vec![Arc::new(Int64Array::from(vec![id])) as ArrayRef]);
    let between = Between { low: end(10), high: end(150_000), closed: Closed::Both };
    let selection = Selection { between: Some(between), ..Selection::default() };
    table.delete_selected(&selection).unwrap();
    let left: Vec<i64> = (0..10).chain(150_001..2 * RUNS * ROWS_OF_RUN).collect();
    assert_eq!(ids(&db), left);
    assert_eq!(db.stats().unwrap().tables[0].segments, 0, "the log has all");
    db.close().unwrap();
    drop((db, table));
    let db = Database::open_in(directory, Options::default()).unwrap();
    assert_eq!(ids(&db), left);
    db.flush().unwrap();
    assert_eq!(ids(&db), left);
}
